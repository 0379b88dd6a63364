//! The namespaces that are followed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weir_kernel::Error;
use weir_kernel::counters::{self, Running, Width};
use weir_kernel::links::Index;
use weir_kernel::namespaces::{NetNs, name_of};
use weir_kernel::sockets::{self, Sockets, Source, UdpSocket};

use crate::reading::{self, Id, Reader, Totals};
use crate::watch::namespaces::Watched;

/// One namespace and what it has counted since the first reading.
pub(super) struct Namespace {
    ns: NetNs,
    pub(super) inode: u32,
    /// Its name in /run/netns, if it has one.
    pub(super) name: Option<String>,
    sockets: Sockets,
    reader: Reader,
    counted: BTreeMap<Id, Running>,
    /// Counters of the protocols, by name.
    protocols: BTreeMap<String, Running>,
    /// Names of its interfaces, as many as there have been.
    pub(super) interfaces: BTreeMap<Index, String>,
    /// Whether counters have been read before, so that a new one counts from 0.
    begun: bool,
    /// What was read.
    pub(super) sources: Vec<&'static str>,
    /// Packets that waited in the queues of its interfaces at the last reading.
    pub(super) queued: u64,
    /// Next hops whose address was being asked for at the last reading.
    pub(super) incomplete: u64,
}

impl Namespace {
    pub(super) fn new(opened: Watched) -> Namespace {
        let Watched { inode, ns, sockets, reader, .. } = opened;
        Namespace {
            inode,
            name: name_of(inode),
            sockets,
            reader,
            ns,
            counted: BTreeMap::new(),
            protocols: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            begun: false,
            sources: Vec::new(),
            queued: 0,
            incomplete: 0,
        }
    }

    /// The groups that its interfaces have joined; none where that cannot be read.
    pub(super) fn groups(&self) -> impl Iterator<Item = IpAddr> {
        sockets::groups(&self.ns).unwrap_or_default().into_iter().map(|membership| membership.group)
    }

    /// Its UDP sockets now.
    pub(super) fn sockets(&mut self) -> Result<Vec<UdpSocket>, Error> {
        self.sockets.read()
    }

    /// Reads all counters. What cannot be read keeps its last value, and the first such is the error.
    pub(super) fn read(&mut self) -> Result<(), Error> {
        let mut reading = self.reader.read(&self.ns);
        self.queued = reading.queued;
        self.interfaces.extend(reading.links.iter().map(|link| (link.index, link.name.clone())));
        let begun = self.begun;
        // A counter that was not there at the start counts what it has counted.
        let first = || if begun { Running::from(0) } else { Running::new() };
        for (table, name, value) in reading.snmp.iter().filter(|(table, name, _)| concerns_datagrams(table, name)) {
            let running = self.protocols.entry(format!("{table}.{name}")).or_insert_with(first);
            running.add(value.cast_unsigned(), Width::Bits64);
        }
        let machine = reading::of_machine().map_err(|error| reading.failed.push(error)).unwrap_or_default();
        for (id, value) in reading.values.into_iter().chain(machine) {
            let width = id.counter.width();
            self.counted.entry(id).or_insert_with(first).add(value, width);
        }
        self.sources = vec![match self.sockets.source() {
            Source::SockDiag => "sock_diag",
            Source::Proc => "/proc/net/udp",
        }];
        self.sources.append(&mut reading.sources);
        self.sources.push("softnet");
        if let Ok(neighbours) = counters::neighbours(&self.ns) {
            self.sources.push("neighbours");
            self.incomplete = neighbours.iter().filter(|hop| !hop.failed).count() as u64;
        }
        self.begun = true;
        reading.failed.into_iter().next().map_or(Ok(()), Err)
    }

    /// What counters that tell of losses counted.
    pub(super) fn totals(&self) -> Totals {
        self.counted.iter().map(|(id, running)| (id.clone(), running.total())).collect()
    }

    /// The counters that rose, by name, and by how much.
    pub(super) fn risen(&self) -> BTreeMap<String, u64> {
        let protocols = self.protocols.iter().map(|(name, running)| (name.clone(), running.total()));
        let totals = self.totals();
        let all = protocols.chain(totals.iter().map(|(name, total)| (name.to_owned(), total)));
        all.filter(|(_, total)| *total > 0).collect()
    }

    /// Counters that began again, so that their totals are lower bounds.
    pub(super) fn resets(&self) -> BTreeSet<&str> {
        let protocols = self.protocols.iter();
        let all = self.counted.iter().map(|(id, running)| (&id.name, running)).chain(protocols);
        all.filter(|(_, running)| running.resets() > 0).map(|(name, _)| name.as_str()).collect()
    }
}

/// Whether a value of the protocols' tables is a counter, of something that concerns datagrams.
fn concerns_datagrams(table: &str, name: &str) -> bool {
    let settings = ["Forwarding", "DefaultTTL", "RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab"];
    let tables = ["Ip", "Ip6", "IpExt", "Udp", "Udp6", "Icmp", "Icmp6"];
    let others = ["IPReversePathFilter", "ArpFilter"];
    (tables.contains(&table) || table == "TcpExt" && others.contains(&name)) && !settings.contains(&name)
}
