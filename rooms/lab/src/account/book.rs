//! The ledger of a cell: every counter, and the planned drops.

use std::net::{IpAddr, SocketAddr};

use weir_emulator::model::{FlowIdentity, Way};
use weir_report::record::{DropList, LedgerEntry, WRONG_CHECKSUM};

use super::hosts::udp_lost;
use super::kernels::KernelDrop;
use super::missing::{self, Balance};
use super::{PathAccount, report};
use crate::cell::Measured;
use crate::network::LinkReading;
use crate::topology::Topology;

impl PathAccount<'_> {
    /// Every counter, in the order of a message's way and back.
    pub(super) fn ledger(&self) -> Vec<LedgerEntry> {
        let Measured { topology, links, receiver_hosts, .. } = self.measured;
        let mut ledger = Book::default();
        match (self.messages(), self.bulk()) {
            (Some((sent, _)), _) => {
                ledger.add("sender", "sent", "messages", sent.sent, "sender");
                if sent.left_behind > 0 {
                    ledger.add("sender", "never left QUIC", "bytes", sent.left_behind, "quinn");
                }
            }
            (_, Some(report)) => {
                ledger.add("sender", "sent", "bytes", report.sent_bytes, &report.engine);
                if let Some(datagrams) = report.datagrams {
                    ledger.add("sender", "sent", "datagrams", datagrams.sent, &report.engine);
                }
            }
            _ => {}
        }
        for &(index, way) in &self.path.forward {
            ledger.add_direction(topology, &links[index], index, way);
        }
        for KernelDrop { node, cause, packets } in self.kernel_drops() {
            let node = &topology.nodes[node];
            let unit = missing::unit(self.cell.scenario.traffic.transport);
            let (name, source) = cause.words();
            ledger.add(&format!("{} {}", node.kind, node.name), name, unit, packets, source);
        }
        let Balance { copies, others, .. } = self.balance().unwrap_or_default();
        if copies > 0 {
            let (name, source) = ("copies that no link made", "received again, and more than was sent");
            ledger.add("hosts and routers", name, "datagrams", copies, source);
        }
        if others > 0 {
            ledger.add("receiver", "of others", "datagrams", others, "foreign, and more than was sent");
        }
        ledger.add(
            "receiver host",
            "UDP errors and no port",
            "datagrams",
            udp_lost(&receiver_hosts[self.receiver]),
            "/proc/net/snmp Udp",
        );
        if let Some(received) = self.received() {
            let wrong = self.wrong_checksums();
            if let Some(drops) = self.socket_drops() {
                let source = if wrong > 0 { "SK_MEMINFO_DROPS less wrong checksums" } else { "SK_MEMINFO_DROPS" };
                ledger.add("receiver socket", "dropped", "datagrams", drops, source);
            }
            if wrong > 0 {
                ledger.add("receiver socket", WRONG_CHECKSUM, "datagrams", wrong, "/proc/net/snmp Udp InCsumErrors");
            }
            if received.late_drops > 0 {
                let (name, source) = ("came behind the end of receiving", "SK_MEMINFO_DROPS, of the host's");
                ledger.add("receiver socket", name, "datagrams", received.late_drops, source);
            }
            let session = self.session();
            ledger.add("receiver", "delivered", "messages", session.map_or(0, |s| s.delivered), "receiver");
            ledger.add("receiver", "duplicates", "messages", session.map_or(0, |s| s.duplicates), "receiver");
            ledger.add("receiver", "foreign", "messages", received.foreign, "receiver");
        }
        if let Some(report) = self.bulk() {
            ledger.add("receiver", "received in the window", "bytes", report.received_bytes, &report.engine);
            if let Some(datagrams) = report.datagrams {
                ledger.add("receiver", "received", "datagrams", datagrams.received, &report.engine);
            }
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

    fn add_signed(&mut self, place: &str, name: &str, unit: &str, count: i64, source: &str) {
        let [place, name, unit, source] = [place, name, unit, source].map(String::from);
        self.0.push(LedgerEntry { place, name, unit, count, source });
    }

    fn add_direction(&mut self, topology: &Topology, reading: &LinkReading, index: usize, way: Way) {
        let place = format!("{} {}", topology.links[index].name, arrow(way));
        let (near, far) = (way as usize, 1 - way as usize);
        let Some(report) = report(reading, way) else {
            let (near, far) = (&reading.nodes[near], &reading.nodes[far]);
            self.add(&place, "sent into it", "frames", near.sent, "/proc/net/dev transmit packets");
            self.add(&place, "backlog full", "frames", near.send_dropped, "/proc/net/dev transmit drop");
            self.add(&place, "arrived behind it", "frames", far.received, "/proc/net/dev receive packets");
            return;
        };
        let ledger = report.ledger;
        let [into, out] = match (way, reading.joints()) {
            (Way::Forward, [into, out, _, _]) | (Way::Backward, [_, _, into, out]) => [into, out],
        };
        self.add(&place, "sent into it", "frames", reading.nodes[near].sent, "/proc/net/dev transmit packets");
        self.add(
            &place,
            "dropped before it",
            "frames",
            reading.nodes[near].send_dropped,
            "/proc/net/dev transmit drop",
        );
        self.add(&place, "dropped at its socket", "frames", ledger.socket_dropped_frames, "PACKET_STATISTICS tp_drops");
        self.add(&place, "unread at its socket", "frames", ledger.unread_frames, "PACKET_STATISTICS less taken in");
        self.add(&place, "taken in", "frames", ledger.frames_received, "emulator");
        self.add_signed(&place, "remainder in", "frames", into.remainder(), "sent into it less dropped and taken in");
        self.add(&place, "received", "packets", ledger.received, "emulator");
        self.add(&place, "of these control", "packets", ledger.control, "emulator");
        self.add(&place, "duplicated", "packets", ledger.duplicated, "emulator");
        self.add(&place, "planned loss", "packets", ledger.lost, "emulator");
        self.add(&place, "queue full", "packets", ledger.queue_dropped, "emulator");
        self.add(&place, "no buffer", "packets", ledger.buffer_dropped, "emulator");
        self.add(&place, "malformed", "packets", ledger.malformed, "emulator");
        self.add(&place, "send failed", "packets", ledger.send_failed, "emulator");
        self.add(&place, "in flight", "packets", ledger.in_flight, "emulator");
        self.add(&place, "delivered", "packets", ledger.delivered, "emulator");
        self.add_signed(&place, "unexplained", "packets", ledger.unexplained(), "received + duplicated less all above");
        self.add(&place, "handed out", "frames", ledger.frames_delivered, "emulator");
        self.add(&place, "arrived behind it", "frames", reading.nodes[far].received, "/proc/net/dev receive packets");
        self.add_signed(&place, "remainder out", "frames", out.remainder(), "handed out less arrived");
    }
}

/// The counters of one direction of a link, in the order of a packet's way.
pub(crate) fn of_direction(topology: &Topology, reading: &LinkReading, index: usize, way: Way) -> Vec<LedgerEntry> {
    let mut ledger = Book::default();
    ledger.add_direction(topology, reading, index, way);
    ledger.0
}

/// Which way a link is taken.
pub(crate) fn arrow(way: Way) -> &'static str {
    match way {
        Way::Forward => "->",
        Way::Backward => "<-",
    }
}

/// What a flow is known by in every run: `udp 10.0.0.2 > 10.0.0.1:65432`, and `#2` for the second one alike.
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
