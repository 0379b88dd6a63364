//! From counters to a record: the ledger of a cell, its columns, and whether it can be trusted.

mod book;
mod columns;

use std::time::Duration;

use weir_emulator::ledger::{DirectionReport, Ledger};
use weir_emulator::model::Way;
use weir_kernel::counters::Snmp;

use super::cell::Measured;
use super::network::LinkReading;
use super::sweep::Cell;
use super::topology::{Kind, Topology};
use crate::report::record::{Record, Row};
use crate::stats::Distribution;
use crate::traffic::{SessionReport, Transport, in_words};

/// The record of one cell.
pub fn record(cell: &Cell, repeat: u32, measured: &Measured<'_>) -> Record {
    let account = Account { measured, cell };
    let mut row = account.row(repeat);
    let lateness = account.lateness();
    let heartbeat = measured.heartbeat.lateness();
    let disturbances = disturbances(cell.scenario.run.max_stall.duration(), &lateness, &heartbeat);
    row.valid = disturbances.is_empty();
    let remarks = [disturbances, account.remarks(&row)].concat();
    Record {
        extra: account.extra(&row, &lateness, &heartbeat),
        axes: cell.axes.clone(),
        estimates: account.estimates(&row, &lateness, &heartbeat),
        ledger: account.ledger(),
        drops: account.drops(),
        delays: account.session().map(|session| session.delays.delays().quantiles_us()).unwrap_or_default(),
        timelines: Vec::new(),
        lateness: lateness.quantiles_us(),
        heartbeat: heartbeat.quantiles_us(),
        reruns: 0,
        remarks,
        row,
    }
}

struct Account<'a> {
    measured: &'a Measured<'a>,
    cell: &'a Cell,
}

/// What the directions of a way through the network add up to.
#[derive(Default)]
struct Passage {
    planned: u64,
    queue: u64,
    /// Packets (frames, where only frames were counted) the emulator or an interface could not carry.
    emulator: u64,
    duplicated: u64,
    in_flight: u64,
    corrupted: u64,
    control: u64,
}

impl Account<'_> {
    fn row(&self, repeat: u32) -> Row {
        let (scenario, topology, sent) = (&self.cell.scenario, &self.measured.topology, &self.measured.sent);
        let delivered = self.session().map_or(0, |session| session.delivered);
        let in_window = self.session().map_or(0, |session| session.in_window);
        let delays = self.session().map(|session| session.delays.delays());
        let used = sent.used.as_secs_f64();
        let per_second = if used > 0.0 { in_window as f64 / used } else { 0.0 };
        let there = self.passage(Direction::There);
        let (tcp, payload) = (scenario.traffic.transport == Transport::Tcp, scenario.traffic.payload.bytes);
        Row {
            scenario: scenario.name.clone(),
            cell: self.cell.name.clone(),
            repeat,
            transport: scenario.traffic.transport.to_string(),
            loss_pct: rounded(topology.loss(&topology.paths[0].there) * 100.0),
            latency_ms: rounded(topology.latency_ms(&topology.paths[0].there)),
            rate_mbit: topology.rate_mbit(&topology.paths[0].there),
            payload_bytes: payload,
            duration_s: used,
            sent: sent.sent,
            delivered,
            undelivered: tcp.then(|| sent.sent.saturating_sub(delivered)),
            msgs_per_s: per_second,
            mbit_per_s: per_second * payload as f64 * 8.0 / 1e6,
            delay_mean_us: delays.and_then(Distribution::mean_us),
            delay_p50_us: delays.and_then(|delays| Some(delays.quantile_us(0.5)?.value)),
            delay_p99_us: delays.and_then(|delays| Some(delays.quantile_us(0.99)?.value)),
            delay_max_us: delays.and_then(Distribution::max_us),
            retransmits: sent.tcp_after_drain.or(sent.tcp_at_end).map(|info| info.retransmits.into()),
            planned_drops: there.planned,
            queue_drops: there.queue,
            socket_drops: self.measured.received.socket_drops,
            emulator_drops: there.emulator,
            unexplained: if tcp { Some(self.unexplained_frames()) } else { self.unexplained_messages(&there) },
            valid: true,
        }
    }

    /// Datagrams that no counter accounts for: everything that was sent or copied, less where it ended. `None` where a
    /// message is more than one packet.
    fn unexplained_messages(&self, there: &Passage) -> Option<i64> {
        let Measured { topology, sent, received, receiver_host, .. } = self.measured;
        let headers = if topology.destination.is_ipv4() { 28 } else { 48 };
        if self.cell.scenario.traffic.payload.bytes + headers > u64::from(topology.mtu(&topology.paths[0].there)) {
            return None;
        }
        let arrived: u64 = received.sessions.iter().map(|s| s.delivered + s.duplicates + s.stale).sum();
        let inflow = sent.sent + there.duplicated;
        let outflow = arrived
            + received.foreign
            + there.planned
            + there.queue
            + there.emulator
            + there.in_flight
            + udp_lost(receiver_host);
        Some(inflow as i64 - outflow as i64)
    }

    /// Frames that went missing between two counters of the same place, anywhere in the network, either way; and what
    /// the emulator's own ledgers leave over.
    fn unexplained_frames(&self) -> i64 {
        let Measured { topology, links, .. } = self.measured;
        let joints: i64 = links.iter().flat_map(LinkReading::joints).map(|joint| joint.remainder().abs()).sum();
        let ledgers: i64 = links
            .iter()
            .flat_map(|link| [&link.emulator.forward, &link.emulator.backward])
            .map(|direction| direction.ledger.unexplained().abs())
            .sum();
        joints + ledgers + unexplained_by_switches(topology, links)
    }

    fn passage(&self, direction: Direction) -> Passage {
        let mut passage = Passage::default();
        for &(index, way) in &self.measured.topology.paths[0].there {
            let way = if direction == Direction::There { way } else { opposite(way) };
            let link = &self.measured.links[index];
            let Ledger {
                duplicated,
                lost,
                queue_dropped,
                buffer_dropped,
                send_failed,
                malformed,
                in_flight,
                control,
                corrupted,
                socket_dropped_frames,
                ..
            } = report(link, way).ledger;
            passage.planned += lost;
            passage.queue += queue_dropped;
            passage.emulator += buffer_dropped + send_failed + malformed + socket_dropped_frames;
            // A full backlog behind a veth (net.core.netdev_max_backlog): dropped on its way to the emulator.
            passage.emulator += link.nodes[way as usize].send_dropped;
            passage.duplicated += duplicated;
            passage.in_flight += in_flight;
            passage.corrupted += corrupted;
            passage.control += control;
        }
        passage
    }

    /// By how much the emulator was late, over all links and both ways.
    fn lateness(&self) -> Distribution {
        let mut all = Distribution::new();
        for link in &self.measured.links {
            for direction in [&link.emulator.forward, &link.emulator.backward] {
                all.merge(&Distribution::from(&direction.lateness));
            }
        }
        all
    }

    /// What else a reader must know.
    fn remarks(&self, row: &Row) -> Vec<String> {
        let Measured { network, links, sent, .. } = self.measured;
        let mut remarks = Vec::new();
        if !sent.errors.is_empty() {
            remarks.push(format!("sender: {}", in_words(&sent.errors)));
        }
        if !self.measured.received.errors.is_empty() {
            remarks.push(format!("receiver: {}", in_words(&self.measured.received.errors)));
        }
        let reports = links.iter().flat_map(|link| [&link.emulator.forward, &link.emulator.backward]);
        let overrun: u64 = reports.map(|report| report.ledger.socket_dropped_frames).sum();
        if overrun > 0 {
            remarks.push(format!(
                "the emulator's sockets, of {} kB each, dropped {overrun} frames: raise net.core.rmem_max, or run as root",
                network.receive_buffer() / 1000
            ));
        }
        if sent.stopped {
            remarks.push("stopped before its window was over".into());
        }
        if row.unexplained.is_none() {
            remarks.push(
                "messages are larger than the path's MTU: fragments are not followed, unexplained is unknown".into(),
            );
        }
        remarks
    }

    fn session(&self) -> Option<&SessionReport> {
        self.measured.received.main_session()
    }
}

/// Why the cell cannot be trusted; empty: it can.
fn disturbances(max_stall: Duration, lateness: &Distribution, heartbeat: &Distribution) -> Vec<String> {
    let limit = max_stall.as_secs_f64() * 1e6;
    let over = |what: &str, most: Option<f64>| {
        most.filter(|most| *most > limit)
            .map(|most| format!("disturbed: {what} {:.1} ms (run.max_stall is {:.1} ms)", most / 1e3, limit / 1e3))
    };
    [over("the machine stood still for", heartbeat.max_us()), over("the emulator was late by", lateness.max_us())]
        .into_iter()
        .flatten()
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    There,
    Back,
}

fn report(link: &LinkReading, way: Way) -> &DirectionReport {
    match way {
        Way::Forward => &link.emulator.forward,
        Way::Backward => &link.emulator.backward,
    }
}

fn opposite(way: Way) -> Way {
    match way {
        Way::Forward => Way::Backward,
        Way::Backward => Way::Forward,
    }
}

/// Frames that a switch took in and did not hand out, or the other way round. Where multicast is copied nobody can tell.
fn unexplained_by_switches(topology: &Topology, links: &[LinkReading]) -> i64 {
    let switches = topology.nodes.iter().enumerate().filter(|(_, node)| node.kind == Kind::Switch);
    let remainder = |(node, _)| {
        let ends = topology.ends_at(node).into_iter().map(|(link, end)| links[link].throughput(end));
        ends.map(|throughput| throughput.received as i64 - throughput.sent as i64).sum::<i64>().abs()
    };
    if topology.destination.is_multicast() { 0 } else { switches.map(remainder).sum() }
}

/// Datagrams that reached the receiving host and no program: wrong checksums, full buffers, no such port. The namespace
/// has carried nothing but the cell's traffic, so that its counters began at 0.
fn udp_lost(host: &Snmp) -> u64 {
    let count = |protocol, name| host.get(protocol, name).unwrap_or(0).unsigned_abs();
    ["Udp", "Udp6"].into_iter().map(|protocol| count(protocol, "InErrors") + count(protocol, "NoPorts")).sum()
}

/// Without the noise of 1 - sqrt(1 - p) multiplied back.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}
