//! The counters of one namespace, read again and again, as running balances.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_kernel::Error;
use weir_kernel::counters::{self, Links, Qdisc, Qdiscs, Running, Width};
use weir_kernel::namespaces::NetNs;
use weir_kernel::sockets::{Sockets, Source, UdpSocket};

use crate::places::Place;

/// One namespace and what it has counted since the first reading.
pub struct NamespaceReader {
    ns: NetNs,
    inode: u32,
    name: Option<String>,
    sockets: Sockets,
    links: Option<Links>,
    qdiscs: Option<Qdiscs>,
    totals: BTreeMap<String, Running>,
    /// Whether counters have been read before, so that a new one counts from 0.
    begun: bool,
    sources: Vec<&'static str>,
    queued: u64,
    incomplete: u64,
}

impl NamespaceReader {
    /// Opens what is read of `ns`. What this kernel does not have is left out.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or its sockets not be listed.
    pub fn open(ns: NetNs, name: Option<String>) -> Result<NamespaceReader, Error> {
        let inode = ns.inode()?;
        let sockets = Sockets::open(&ns)?;
        let (links, qdiscs) = (Links::open(&ns).ok(), Qdiscs::open(&ns).ok());
        let totals = BTreeMap::new();
        let sources = Vec::new();
        Ok(NamespaceReader {
            ns,
            inode,
            name,
            sockets,
            links,
            qdiscs,
            totals,
            begun: false,
            sources,
            queued: 0,
            incomplete: 0,
        })
    }

    /// Its inode number.
    pub fn inode(&self) -> u32 {
        self.inode
    }

    /// Its name in /run/netns, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The groups that its interfaces have joined; none where that cannot be read.
    pub fn groups(&self) -> Vec<IpAddr> {
        let memberships = weir_kernel::sockets::groups(&self.ns).unwrap_or_default();
        memberships.into_iter().map(|membership| membership.group).collect()
    }

    /// Its UDP sockets now.
    ///
    /// # Errors
    /// If the kernel's answer cannot be read.
    pub fn sockets(&mut self) -> Result<Vec<UdpSocket>, Error> {
        self.sockets.read()
    }

    /// Reads all counters. What cannot be read is left out, and keeps its last value.
    ///
    /// # Errors
    /// If not even the protocols' counters can be read.
    pub fn read(&mut self) -> Result<(), Error> {
        let mut sources = vec![match self.sockets.source() {
            Source::SockDiag => "sock_diag",
            Source::Proc => "/proc/net/udp",
        }];
        let snmp = counters::snmp(&self.ns)?;
        sources.push("snmp");
        for (table, name, value) in snmp.iter().filter(|(table, name, _)| counts(table, name)) {
            self.count(format!("{table}.{name}"), value.cast_unsigned(), Width::Bits64);
        }
        if let Some(links) = self.links.as_mut().and_then(|links| links.read().ok()) {
            sources.push("links");
            for link in links {
                let counters = &link.statistics;
                for (name, value) in [
                    ("rx_dropped", counters.rx_dropped),
                    ("rx_missed", counters.rx_missed_errors),
                    ("rx_fifo", counters.rx_fifo_errors),
                    ("rx_over", counters.rx_over_errors),
                    ("rx_crc", counters.rx_crc_errors),
                    ("rx_frame", counters.rx_frame_errors),
                    ("rx_length", counters.rx_length_errors),
                    ("rx_nohandler", counters.rx_nohandler),
                    ("tx_dropped", counters.tx_dropped),
                    ("tx_carrier", counters.tx_carrier_errors),
                    ("tx_fifo", counters.tx_fifo_errors),
                ] {
                    self.count(format!("{} {name}", link.name), value, Width::Bits64);
                }
            }
        }
        if let Some(qdiscs) = self.qdiscs.as_mut().and_then(|qdiscs| qdiscs.read().ok()) {
            sources.push("qdisc");
            // Those of the disciplines below are in their parents' counts.
            let roots: Vec<&Qdisc> = qdiscs.iter().filter(|qdisc| qdisc.parent == Qdisc::ROOT).collect();
            self.queued = roots.iter().map(|qdisc| u64::from(qdisc.backlog_packets)).sum();
            for qdisc in roots {
                let name = format!("qdisc {} of interface {}", qdisc.kind, qdisc.interface);
                self.count(name, qdisc.drops.into(), Width::Bits32);
            }
        }
        if let Ok(neighbours) = counters::neighbours(&self.ns) {
            sources.push("neighbours");
            self.incomplete = neighbours.unresolved.iter().filter(|hop| !hop.failed).count() as u64;
            let discards = [("arp", neighbours.arp), ("ndisc", neighbours.ndisc)];
            for (name, table) in discards.into_iter().filter_map(|(name, table)| Some((name, table?))) {
                self.count(format!("{name}.unresolved_discards"), table.unresolved_discards, Width::Bits32);
            }
        }
        if let Ok(Some(conntrack)) = counters::conntrack(&self.ns) {
            sources.push("conntrack");
            self.count("conntrack.drop".to_owned(), conntrack.drop, Width::Bits32);
            self.count("conntrack.insert_failed".to_owned(), conntrack.insert_failed, Width::Bits32);
        }
        if let Ok(Some(queues)) = counters::queues(&self.ns) {
            sources.push("netdev-genl");
            for queue in queues.iter().filter(|queue| queue.receives) {
                let of = format!("queue {} of interface {}", queue.queue, queue.interface);
                for (name, value) in [("rx-hw-drop-overruns", queue.overruns), ("rx-alloc-fail", queue.alloc_fail)] {
                    if let Some(value) = value {
                        self.count(format!("{of} {name}"), value, Width::Bits64);
                    }
                }
            }
        }
        if let Ok(softnet) = counters::softnet() {
            sources.push("softnet");
            let (mut dropped, mut squeezed, mut limited) = (0, 0, 0);
            for cpu in softnet {
                let of = |name: &str| format!("softnet.{name}.{}", cpu.cpu);
                dropped += self.count(of("dropped"), cpu.dropped.into(), Width::Bits32);
                squeezed += self.count(of("squeezed"), cpu.squeezed.into(), Width::Bits32);
                limited += self.count(of("flow_limited"), cpu.flow_limited.unwrap_or(0).into(), Width::Bits32);
            }
            for (name, total) in
                [("softnet.dropped", dropped), ("softnet.squeezed", squeezed), ("softnet.flow_limited", limited)]
            {
                self.count(name.to_owned(), total, Width::Bits64);
            }
        }
        self.sources = sources;
        self.begun = true;
        Ok(())
    }

    fn count(&mut self, name: String, value: u64, width: Width) -> u64 {
        let begun = self.begun;
        // A counter that was not there at the start counts what it has counted.
        let running = self.totals.entry(name).or_insert_with(|| if begun { Running::from(0) } else { Running::new() });
        running.add(value, width)
    }

    /// The counters that rose, and by how much.
    pub fn totals(&self) -> BTreeMap<String, u64> {
        let risen = self.totals.iter().filter(|(name, running)| running.total() > 0 && !of_processor(name));
        risen.map(|(name, running)| (name.clone(), running.total())).collect()
    }

    /// Counters that began again, so that their totals are lower bounds.
    pub fn resets(&self) -> Vec<&str> {
        self.totals.iter().filter(|(_, running)| running.resets() > 0).map(|(name, _)| name.as_str()).collect()
    }

    /// What was read.
    pub fn sources(&self) -> &[&'static str] {
        &self.sources
    }

    /// Packets that waited in the queues of its interfaces at the last reading.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Next hops whose address was being asked for at the last reading.
    pub fn incomplete(&self) -> u64 {
        self.incomplete
    }
}

/// The sums over processors are told, not their parts.
fn of_processor(name: &str) -> bool {
    name.strip_prefix("softnet.").is_some_and(|rest| rest.contains('.'))
}

/// Whether a value of the protocols' tables is a counter, of something that concerns datagrams.
fn counts(table: &str, name: &str) -> bool {
    let settings = ["Forwarding", "DefaultTTL", "RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab"];
    let tables = ["Ip", "Ip6", "IpExt", "Udp", "Udp6", "Icmp", "Icmp6"];
    let others = ["IPReversePathFilter", "ArpFilter"];
    (tables.contains(&table) || table == "TcpExt" && others.contains(&name)) && !settings.contains(&name)
}

/// The place that a counter of an interface means, where the kernel never saw a datagram.
pub fn hardware_place(counter: &str) -> Option<Place> {
    let name = counter.rsplit(' ').next()?;
    match name {
        "rx_missed" | "rx_fifo" | "rx_over" | "rx-hw-drop-overruns" | "rx-alloc-fail" => Some(Place::ReceiveRing),
        "rx_crc" | "rx_frame" | "rx_length" => Some(Place::Frame),
        _ => None,
    }
}
