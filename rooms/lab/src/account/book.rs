//! The ledger of a cell: every counter, and the planned drops.

use std::net::{IpAddr, SocketAddr};

use weir_emulator::model::{FlowIdentity, Way};
use weir_report::record::{DropList, LedgerEntry, WRONG_CHECKSUM};

use super::hosts::udp_lost;
use super::kernels::KernelDrop;
use super::missing::Balance;
use super::{PathAccount, report};
use crate::cell::Measured;
use crate::network::LinkReading;
use crate::topology::Topology;

impl PathAccount<'_> {
    /// All counters, in the order of a message's path and back.
    pub(super) fn ledger(&self) -> Vec<LedgerEntry> {
        let Measured { topology, links, .. } = self.measured;
        let mut ledger = Book::default();
        let datagrams = self.bulk.and_then(|report| report.datagrams);
        let engine = self.bulk.map_or("", |report| &report.engine);
        if let Some(sent) = self.sent {
            ledger.add("sender", "sent", "messages", sent.sent, "sender");
            ledger.add_some("sender", "never left QUIC", "bytes", sent.left_behind, "quinn");
        } else if let Some(report) = self.bulk {
            ledger.add("sender", "sent", "bytes", report.sent_bytes, engine);
        }
        if let Some(datagrams) = datagrams {
            ledger.add("sender", "sent", "datagrams", datagrams.sent, engine);
        }
        for &(index, way) in &self.path.forward {
            ledger.add_direction(topology, &links[index], index, way);
        }
        for KernelDrop { node, cause: (name, source), packets } in &self.kernel_drops() {
            let node = &topology.nodes[*node];
            ledger.add(&format!("{} {}", node.kind, node.name), name, "datagrams", *packets, source);
        }
        let Balance { copies, others, .. } = self.balance().unwrap_or_default();
        let (name, source) = ("copies that no link made", "received again, and more than was sent");
        ledger.add_some("hosts and routers", name, "datagrams", copies, source);
        ledger.add_some("receiver", "from others", "datagrams", others, "foreign, and more than was sent");
        let at_host = self.host().map_or(0, udp_lost);
        ledger.add("receiver host", "UDP errors and no port", "datagrams", at_host, "/proc/net/snmp Udp");
        if let Some(received) = self.received {
            let (place, wrong) = ("receiver socket", self.wrong_checksums());
            if let Some(drops) = self.socket_drops() {
                let source = if wrong > 0 { "SK_MEMINFO_DROPS minus wrong checksums" } else { "SK_MEMINFO_DROPS" };
                ledger.add(place, "dropped", "datagrams", drops, source);
            }
            ledger.add_some(place, WRONG_CHECKSUM, "datagrams", wrong, "/proc/net/snmp Udp InCsumErrors");
            let (name, source) = ("came after the end of receiving", "SK_MEMINFO_DROPS, of the host's");
            ledger.add_some(place, name, "datagrams", received.late_drops, source);
            let duplicates = self.session.map_or(0, |session| session.duplicates);
            ledger.add("receiver", "delivered", "messages", self.delivered(), "receiver");
            ledger.add("receiver", "duplicates", "messages", duplicates, "receiver");
            ledger.add("receiver", "foreign", "messages", received.foreign, "receiver");
        }
        if let Some(report) = self.bulk {
            ledger.add("receiver", "received in the window", "bytes", report.received_bytes, engine);
        }
        if let Some(datagrams) = datagrams {
            ledger.add("receiver", "received", "datagrams", datagrams.received, engine);
        }
        for drop in self.traced_drops().into_iter().flatten() {
            let name = if drop.reason.is_empty() { "dropped" } else { &drop.reason };
            let source = format!("kfree_skb in {}", if drop.function.is_empty() { "?" } else { &drop.function });
            ledger.add("traced", name, "datagrams", drop.datagrams, &source);
        }
        for &(index, way) in &self.path.backward {
            ledger.add_direction(topology, &links[index], index, way);
        }
        ledger.0
    }

    pub(super) fn drops(&self) -> Vec<DropList> {
        let Measured { topology, links, .. } = self.measured;
        let mut lists = Vec::new();
        for (link, reading) in topology.links.iter().zip(links) {
            for way in [Way::Forward, Way::Backward] {
                for flow in report(reading, way).into_iter().flat_map(|report| &report.drops) {
                    lists.push(DropList {
                        link: format!("{} {}", link.name, arrow(way)),
                        flow: in_flow_words(&flow.identity),
                        packets: flow.packets,
                        indexes: flow.indexes.clone(),
                        complete: flow.complete,
                    });
                }
            }
        }
        lists
    }
}

#[derive(Default)]
struct Book(Vec<LedgerEntry>);

impl Book {
    fn add(&mut self, place: &str, name: &str, unit: &str, count: u64, source: &str) {
        self.add_signed(place, name, unit, count as i64, source);
    }

    /// Only if there are any.
    fn add_some(&mut self, place: &str, name: &str, unit: &str, count: u64, source: &str) {
        if count > 0 {
            self.add(place, name, unit, count, source);
        }
    }

    fn add_signed(&mut self, place: &str, name: &str, unit: &str, count: i64, source: &str) {
        let [place, name, unit, source] = [place, name, unit, source].map(String::from);
        self.0.push(LedgerEntry { place, name, unit, count, source });
    }

    fn add_direction(&mut self, topology: &Topology, reading: &LinkReading, index: usize, way: Way) {
        let place = format!("{} {}", topology.links[index].name, arrow(way));
        let (near, far) = (&reading.nodes[way as usize], &reading.nodes[1 - way as usize]);
        let mut frames =
            |name: &str, count: u64, source: &str| self.add_signed(&place, name, "frames", count as i64, source);
        frames("sent into it", near.sent, "/proc/net/dev transmit packets");
        let Some(report) = report(reading, way) else {
            frames("backlog full", near.send_dropped, "/proc/net/dev transmit drop");
            frames("arrived after it", far.received, "/proc/net/dev receive packets");
            return;
        };
        let ledger = &report.ledger;
        let [into, out] = match (way, reading.joints()) {
            (Way::Forward, [into, out, _, _]) | (Way::Backward, [_, _, into, out]) => [into, out],
        };
        frames("dropped before it", near.send_dropped, "/proc/net/dev transmit drop");
        frames("dropped at its socket", ledger.socket_dropped_frames, "PACKET_STATISTICS tp_drops");
        frames("unread at its socket", ledger.unread_frames, "PACKET_STATISTICS minus taken in");
        frames("taken in", ledger.frames_received, "emulator");
        self.add_signed(&place, "remainder in", "frames", into.remainder(), "sent into it minus dropped and taken in");
        for (name, count) in [
            ("received", ledger.received),
            ("of these control", ledger.control),
            ("duplicated", ledger.duplicated),
            ("planned loss", ledger.lost),
            ("queue full", ledger.queue_dropped),
            ("no buffer", ledger.buffer_dropped),
            ("malformed", ledger.malformed),
            ("send failed", ledger.send_failed),
            ("in flight", ledger.in_flight),
            ("delivered", ledger.delivered),
        ] {
            self.add(&place, name, "packets", count, "emulator");
        }
        self.add_signed(
            &place,
            "unexplained",
            "packets",
            ledger.unexplained(),
            "received + duplicated minus all above",
        );
        self.add(&place, "handed out", "frames", ledger.frames_delivered, "emulator");
        self.add(&place, "arrived after it", "frames", far.received, "/proc/net/dev receive packets");
        self.add_signed(&place, "remainder out", "frames", out.remainder(), "handed out minus arrived");
    }
}

/// The counters of one direction of a link, in the order of a packet's path.
pub(crate) fn of_direction(topology: &Topology, reading: &LinkReading, index: usize, way: Way) -> Vec<LedgerEntry> {
    let mut ledger = Book::default();
    ledger.add_direction(topology, reading, index, way);
    ledger.0
}

/// The direction in which a link is used.
pub(crate) fn arrow(way: Way) -> &'static str {
    match way {
        Way::Forward => "->",
        Way::Backward => "<-",
    }
}

/// Name of a flow in every run: `udp 10.0.0.2 > 10.0.0.1:65432`, and `#2` for a second one with the same name.
fn in_flow_words(flow: &FlowIdentity) -> String {
    let protocol = match flow.protocol {
        Some(6) => "tcp".to_owned(),
        Some(17) => "udp".to_owned(),
        Some(number) => format!("protocol {number}"),
        None => "not IP".to_owned(),
    };
    let end = |address: IpAddr, port: Option<u16>| match port {
        Some(port) => SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    };
    let (from, to) = (end(flow.source, flow.source_port), end(flow.destination, flow.destination_port));
    match flow.ordinal {
        0 => format!("{protocol} {from} > {to}"),
        alike => format!("{protocol} {from} > {to} #{}", alike + 1),
    }
}
