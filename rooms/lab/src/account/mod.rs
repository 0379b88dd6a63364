//! From counters to a record: the ledger of a cell, its columns, and whether it is valid.

mod book;
mod columns;
mod hosts;
mod kernels;
mod missing;
mod standstills;
mod times;
mod traced;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_emulator::ledger::DirectionReport;
use weir_emulator::model::{FlowIdentity, Way};
use weir_kernel::counters::Snmp;
use weir_program::clock::nanos;
use weir_report::columns::{RECEIVER, Statistic};
use weir_report::record::{
    CAPTURE_LACKS, EMPTY_COLUMN, LATE_SENDER, MESSAGES_LACK, Record, Row, SENDER_FAILED, Timeline,
};
use weir_stats::Distribution;
use weir_traffic::bulk::BulkReport;
use weir_traffic::{ErrorCount, Pacing, ReceiveReport, SendReport, SessionReport, Transport, Window, in_words};
use weir_units::format;

pub(crate) use self::book::{arrow, of_direction};
use self::hosts::{buffer_overruns, counter, wrong_checksums};
use self::standstills::Stood;
use self::times::Times;
use crate::arrivals;
use crate::capture::CaptureReport;
use crate::cell::Measured;
use crate::columns::{Own, of_row};
use crate::endpoints::{Facts, interval};
use crate::network::LinkReading;
use crate::scenario::{Mode, Receivers};
use crate::sweep::Cell;
use crate::topology::{Kind, Path, Topology};
use crate::validity::Conduct;

/// The records of one cell: one per receiver. With a list of receivers, each has its name after the cell's:
/// `5%@viewer`.
pub fn records(cell: &Cell, repeat: u32, measured: &Measured<'_>) -> Vec<Record> {
    (0..measured.topology.traffic.receivers.len()).map(|receiver| record(cell, repeat, measured, receiver)).collect()
}

fn record(cell: &Cell, repeat: u32, measured: &Measured<'_>, receiver: usize) -> Record {
    let topology = &measured.topology;
    let account = PathAccount::new(cell, measured, receiver);
    let mut row = account.row(repeat);
    let mut axes = cell.axes.clone();
    let host = &topology.nodes[topology.traffic.receivers[receiver]].name;
    if matches!(cell.scenario.traffic.to, Receivers::Several(_)) {
        row.cell = format!("{}@{host}", row.cell);
        axes.push((RECEIVER.to_owned(), host.clone()));
    }
    let lateness = account.lateness();
    let (mut extra, mut timelines) = (account.extra(&row, &lateness), account.timelines());
    let mut remarks = account.remarks(&row);
    for (name, own) in of_row(&cell.scenario, measured, host) {
        extra.insert(name.clone(), if let Own::Value(value) = own { Some(value) } else { None });
        match own {
            Own::Value(_) => {}
            Own::Empty(why) => remarks.push(format!("{EMPTY_COLUMN} `{name}` is empty: {why}")),
            Own::Course(points) => timelines.push(Timeline { name, points }),
        }
    }
    let failed = measured.programs.values().flatten().find(|program| program.failed);
    let disturbed = match failed.and_then(|program| program.remark.clone()) {
        // Output of a program from before its failure is no evidence, counts included.
        Some(why) => {
            use Statistic::{Counter, Max, Mean, P50, P99, P999, Rate};
            [Rate, Mean, P50, P99, P999, Max, Counter].map(|statistic| (statistic, why.clone())).into()
        }
        None => naming_statistics(&account.stood.doubts(measured, &cell.scenario, &account.conduct)),
    };
    row.valid &= failed.is_none();
    // Without measured delays none can be wrong.
    let voids = [Statistic::Rate, Statistic::Mean, Statistic::P99];
    let voids = if account.delays.is_some() { &voids[..] } else { &voids[..1] };
    let why: BTreeSet<&String> = voids.iter().filter_map(|statistic| disturbed.get(statistic)).collect();
    row.valid &= why.is_empty();
    let remarks = why.into_iter().map(|why| format!("disturbed: {why}")).chain(remarks).collect();
    Record {
        extra,
        axes,
        settings: cell.scenario.fingerprint(),
        estimates: account.estimates(&row),
        ledger: account.ledger(),
        drops: account.drops(),
        delays: account.delays.map(Distribution::quantiles_us).unwrap_or_default(),
        timelines,
        lateness: lateness.quantiles_us(),
        heartbeat: measured.machine.lateness.quantiles_us(),
        standstills: account.stood.record(),
        disturbed,
        stopped: measured.traffic.stopped,
        remarks,
        row,
        ..Record::default()
    }
}

/// Each reason with all statistics that it makes invalid, so that it appears once.
fn naming_statistics(doubts: &BTreeMap<Statistic, String>) -> BTreeMap<Statistic, String> {
    let named = |why: &String| {
        let those = doubts.iter().filter(|(_, other)| *other == why);
        let names: Vec<String> = those.map(|(statistic, _)| format!("{statistic:?}").to_lowercase()).collect();
        format!("{}: {why}", names.join(", "))
    };
    doubts.iter().map(|(statistic, why)| (*statistic, named(why))).collect()
}

/// All data about one receiver and the path to it, computed once.
struct PathAccount<'a> {
    measured: &'a Measured<'a>,
    cell: &'a Cell,
    transport: Transport,
    /// Index of the receiver.
    receiver: usize,
    /// The path to it and back.
    path: &'a Path,
    /// Messages: the reports of its sender, its receiver and our session, and all delays.
    sent: Option<&'a SendReport>,
    received: Option<&'a ReceiveReport>,
    session: Option<&'a SessionReport>,
    delays: Option<&'a Distribution>,
    /// Results from single messages, if any arrived.
    times: Option<Times>,
    bulk: Option<&'a BulkReport>,
    forward: PathTotals,
    backward: PathTotals,
    stood: Stood,
    /// The basis for judging its statistics.
    conduct: Conduct,
}

/// The sums over the link directions of a path.
#[derive(Default)]
struct PathTotals {
    planned: u64,
    queue: u64,
    /// Packets (frames, where only frames were counted) the emulator or an interface could not carry.
    emulator: u64,
    /// Of these, frames that were counted without being parsed.
    frames: u64,
    /// Frames still unread in the emulator's sockets.
    unread: u64,
    /// On direct links: frames dropped because a CPU's backlog was full (net.core.netdev_max_backlog).
    backlog: u64,
    duplicated: u64,
    in_flight: u64,
}

impl PathTotals {
    fn new(cell: &Cell, measured: &Measured<'_>, hops: &[(usize, Way)]) -> PathTotals {
        let mut totals = PathTotals::default();
        for &(index, way) in hops {
            let link = &measured.links[index];
            // A full backlog after a veth (net.core.netdev_max_backlog): dropped before the next node.
            let dropped_before = link.nodes[way as usize].send_dropped;
            let Some(report) = report(link, way) else {
                totals.backlog += dropped_before;
                continue;
            };
            let ledger = &report.ledger;
            // Next to a load, only those of the measured traffic.
            let own = report.drops.iter().filter(|flow| is_own(cell, measured, &flow.identity));
            let (planned, queue) = match measured.load {
                None => (ledger.lost, ledger.queue_dropped),
                Some(_) => own.fold((0, 0), |sum, flow| (sum.0 + flow.lost, sum.1 + flow.queue_dropped)),
            };
            totals.planned += planned;
            totals.queue += queue;
            let frames = ledger.socket_dropped_frames + dropped_before;
            totals.emulator += ledger.buffer_dropped + ledger.send_failed + ledger.malformed + frames;
            totals.frames += frames;
            totals.unread += ledger.unread_frames;
            totals.duplicated += ledger.duplicated;
            totals.in_flight += ledger.in_flight;
        }
        totals
    }

    /// Packets, if frames are packets.
    fn dropped(&self) -> u64 {
        self.planned + self.queue + self.emulator + self.unread + self.backlog
    }
}

/// Whether a flow belongs to the measured traffic, in either direction.
fn is_own(cell: &Cell, measured: &Measured<'_>, flow: &FlowIdentity) -> bool {
    let (traffic, destination) = (&cell.scenario.traffic, measured.topology.traffic.destination);
    let protocol = if traffic.transport == Transport::Tcp { 6 } else { 17 };
    let ends = [(flow.destination, flow.destination_port), (flow.source, flow.source_port)];
    flow.protocol == Some(protocol) && ends.contains(&(destination, Some(traffic.port)))
}

impl<'a> PathAccount<'a> {
    fn new(cell: &'a Cell, measured: &'a Measured<'a>, receiver: usize) -> Self {
        let (scenario, path) = (&cell.scenario, &measured.topology.traffic.paths[receiver]);
        let Facts { sent, received, bulk, .. } = &measured.traffic;
        let received = received.get(receiver);
        let session = received.and_then(ReceiveReport::main_session);
        let delays = session.map(|session| session.delays.delays());
        let stood = Stood::new(measured, path);
        PathAccount {
            measured,
            cell,
            transport: scenario.traffic.transport,
            receiver,
            path,
            sent: sent.as_deref(),
            received,
            session,
            delays,
            times: session.map(|session| Times::new(session, window(measured))),
            bulk: bulk.as_deref(),
            forward: PathTotals::new(cell, measured, &path.forward),
            backward: PathTotals::new(cell, measured, &path.backward),
            conduct: stood.conduct(scenario, delays),
            stood,
        }
    }

    fn row(&self, repeat: u32) -> Row {
        let (scenario, topology) = (&self.cell.scenario, &self.measured.topology);
        let row = Row {
            scenario: scenario.name.clone(),
            cell: self.cell.name.clone(),
            repeat,
            transport: self.transport.to_string(),
            loss_pct: rounded(topology.loss(&self.path.forward) * 100.0),
            latency_ms: rounded(topology.latency_ms(&self.path.forward)),
            rate_mbit: topology.rate_mbit(&self.path.forward),
            payload_bytes: scenario.traffic.payload.bytes,
            planned_drops: self.forward.planned,
            queue_drops: self.forward.queue,
            socket_drops: self.socket_drops(),
            emulator_drops: self.forward.emulator,
            // A stopped cell counts as a shorter one.
            valid: true,
            ..Row::default()
        };
        match (self.sent, self.bulk) {
            (Some(sent), _) => self.row_of_messages(row, sent),
            (_, Some(report)) => self.row_of_bulk(row, report),
            // What programs send, and what nodes consume or copy, is unknown: only the links' ledgers close.
            _ => Row {
                by_programs: true,
                duration_s: topology.window.as_secs_f64(),
                unexplained: Some(self.unexplained_on_links()),
                ..row
            },
        }
    }

    fn row_of_messages(&self, row: Row, sent: &SendReport) -> Row {
        let (delivered, of_udp) = (self.delivered(), self.transport == Transport::Udp);
        // For a stopped cell the planned window does not count.
        let stopped = self.times.as_ref().filter(|_| sent.stopped).and_then(|times| times.in_window);
        let in_window = stopped.or(self.session.map(|session| session.in_window)).unwrap_or(0);
        let window = window_of(sent).as_secs_f64();
        let per_second = if window > 0.0 { in_window as f64 / window } else { 0.0 };
        Row {
            duration_s: window,
            sent: sent.sent,
            delivered,
            undelivered: (!of_udp).then(|| sent.sent.saturating_sub(delivered)),
            msgs_per_s: per_second,
            mbit_per_s: per_second * self.message_bits() / 1e6,
            delay_mean_us: self.delays.and_then(Distribution::mean_us),
            delay_p50_us: self.delay_us(0.5),
            delay_p99_us: self.delay_us(0.99),
            delay_max_us: self.delays.and_then(Distribution::max_us),
            retransmits: sent.sent_again(),
            unexplained: if of_udp { self.unexplained_messages() } else { Some(self.unexplained_frames()) },
            ..row
        }
    }

    /// A message is a block of `payload_bytes`, or a datagram.
    fn row_of_bulk(&self, row: Row, report: &BulkReport) -> Row {
        let (payload, used) = (row.payload_bytes.max(1), report.used.as_secs_f64());
        let bytes_per_second = if used > 0.0 { report.received_bytes as f64 / used } else { 0.0 };
        let datagrams = report.datagrams;
        let lost = self.forward.dropped() + self.host_drops().unwrap_or(0);
        let uncounted = datagrams.map_or(0, |datagrams| datagrams.sent.abs_diff(datagrams.received + lost));
        Row {
            duration_s: used,
            sent: datagrams.map_or(report.sent_bytes / payload, |datagrams| datagrams.sent),
            delivered: datagrams.map_or(report.received_bytes / payload, |datagrams| datagrams.received),
            msgs_per_s: bytes_per_second / payload as f64,
            mbit_per_s: bytes_per_second * 8.0 / 1e6,
            retransmits: report.retransmits,
            unexplained: Some(self.unexplained_frames()).filter(|frames| *frames != 0 || uncounted == 0),
            ..row
        }
    }

    /// The counters of the receiving host.
    fn host(&self) -> Option<&'a Snmp> {
        self.measured.kernels[self.measured.topology.traffic.receivers[self.receiver]].as_ref()
    }

    /// Messages that arrived.
    fn delivered(&self) -> u64 {
        self.session.map_or(0, |session| session.delivered)
    }

    fn delay_us(&self, quantile: f64) -> Option<f64> {
        Some(self.delays?.quantile_us(quantile)?.value)
    }

    /// Datagrams that reached the receiving host but no program. `None`: other senders' are among them.
    fn host_drops(&self) -> Option<u64> {
        self.host().filter(|_| self.has_host_for_itself()).map(hosts::udp_lost)
    }

    /// Of the drops of the receiver's socket, datagrams with a wrong checksum.
    fn wrong_checksums(&self) -> u64 {
        let drops = self.received.and_then(|received| received.socket_drops);
        drops.zip(self.host()).map_or(0, |(drops, host)| wrong_checksums(drops, counter(host)))
    }

    /// Datagrams that the receiver's socket had no room for, if known: for iperf3 those of its host.
    fn socket_drops(&self) -> Option<u64> {
        if self.bulk.is_some() && self.transport == Transport::Udp {
            return self.host_drops().and(self.host()).map(buffer_overruns);
        }
        Some(self.received?.socket_drops? - self.wrong_checksums())
    }

    /// Frames missing between two counters of the same place, anywhere in the network, in either direction; and what
    /// the emulator's own ledgers leave over.
    fn unexplained_frames(&self) -> i64 {
        let Measured { topology, links, kernels, .. } = self.measured;
        self.unexplained_on_links() + unexplained_by_nodes(topology, links, kernels)
    }

    fn unexplained_on_links(&self) -> i64 {
        let links = &self.measured.links;
        let joints = links.iter().flat_map(LinkReading::joints).map(|joint| joint.remainder().abs());
        let ledgers = links.iter().flat_map(directions).map(|direction| direction.ledger.unexplained().abs());
        joints.chain(ledgers).sum()
    }

    /// Lateness of the emulator, over all links and both directions.
    fn lateness(&self) -> Distribution {
        let mut all = Distribution::new();
        let directions = self.measured.links.iter().flat_map(directions);
        directions.for_each(|direction| all.merge(&Distribution::from(&direction.lateness)));
        all
    }

    /// Further remarks.
    fn remarks(&self, row: &Row) -> Vec<String> {
        let Measured { network, links, load, .. } = self.measured;
        let mut remarks = Vec::new();
        let of = |sent: Option<&'a SendReport>| sent.map(|sent| &sent.errors[..]);
        let load_bulk = load.as_ref().and_then(|load| load.bulk.as_ref());
        let said: [(&str, Option<&[ErrorCount]>); 5] = [
            (SENDER_FAILED, of(self.sent)),
            ("receiver", self.received.map(|received| &received.errors[..])),
            (self.bulk.map_or("", |report| &report.engine), self.bulk.map(|report| &report.errors[..])),
            ("load", of(load.as_ref().and_then(|load| load.sent.as_deref()))),
            ("load", load_bulk.map(|bulk| &bulk.errors[..])),
        ];
        for (who, errors) in said {
            let errors = errors.filter(|errors| !errors.is_empty());
            remarks.extend(errors.map(|errors| format!("{who}: {}", in_words(errors))));
        }
        for CaptureReport { file, packets, dropped, error } in &self.measured.captures {
            let (file, all) = (file.display(), packets + dropped);
            let ended = error.as_ref().map(|error| format!("; ended early: {error}")).unwrap_or_default();
            remarks.push(format!("captured {packets} packets into {file}{ended}"));
            if *dropped > 0 {
                remarks.push(format!("{CAPTURE_LACKS} {dropped} of {all} packets, which the kernel dropped: {file}"));
            }
        }
        let sum = |of: fn(&DirectionReport) -> u64| links.iter().flat_map(directions).map(of).sum::<u64>();
        let overrun = sum(|report| report.ledger.socket_dropped_frames);
        let unread = sum(|report| report.ledger.unread_frames);
        let (wrong, buffer) = (self.wrong_checksums(), network.receive_buffer() / 1000);
        let unclear = self.why_unknown().unwrap_or("datagrams of other senders are counted with them");
        for (is, remark) in [
            (self.bulk.is_some_and(|report| report.connected == 0), "no connection was established: 0 Mbit/s".into()),
            (
                overrun > 0,
                format!(
                    "the emulator's sockets, of {buffer} kB each, dropped {overrun} frames: raise net.core.rmem_max, or run as root"
                ),
            ),
            (
                unread > 0,
                format!(
                    "{unread} frames waited at the emulator, unread, when the counters were read: it got too little CPU time"
                ),
            ),
            (wrong > 0, format!("{wrong} datagrams were dropped for a wrong checksum")),
            (
                self.measured.traffic.stopped,
                "stopped before its window was over: its values cover the time before".into(),
            ),
            (row.unexplained.is_none(), format!("{unclear}: unexplained is unknown")),
        ] {
            remarks.extend(is.then_some(remark));
        }
        remarks.extend(self.what_kernels_did());
        remarks.extend(self.what_was_not_put_together());
        remarks.extend(self.sent.and_then(|sent| self.behind_schedule(sent)));
        let lacking = self.sent.zip(self.session).filter(|_| self.cell.scenario.run.messages);
        remarks.extend(lacking.and_then(|(sent, session)| lacks(sent, session)));
        remarks.extend(self.measured.programs.values().flatten().filter_map(|program| program.remark.clone()));
        remarks.extend(self.full_queues());
        remarks.extend_from_slice(network.refused());
        remarks.extend(self.trace_remarks());
        remarks
    }

    /// The queues on the path that dropped packets, by link.
    fn full_queues(&self) -> Vec<String> {
        let dropped = |&(index, way): &(usize, Way)| {
            let dropped = report(&self.measured.links[index], way)?.ledger.queue_dropped;
            let rate = self.measured.topology.rate_mbit(&[(index, way)]);
            let rate = rate.map(|rate| format!(" ({} Mbit/s)", format::short(rate))).unwrap_or_default();
            let name = &self.measured.topology.links[index].name;
            (dropped > 0).then(|| format!("{dropped} packets were dropped in the queue of link `{name}`{rate}"))
        };
        self.path.forward.iter().filter_map(dropped).collect()
    }

    /// Whether a sender could not keep its schedule.
    fn behind_schedule(&self, sent: &SendReport) -> Option<String> {
        let traffic = &self.cell.scenario.traffic;
        let (last, window) = (sent.last_send?, sent.window.filter(|_| !sent.stopped)?);
        let (late, interval) = (last.saturating_sub(window.end), nanos(interval(traffic)));
        let is_planned = arrivals::is_planned(traffic) || interval == 0;
        let planned = if is_planned { sent.sent } else { (window.end - window.start).div_ceil(interval) };
        let missing = planned.saturating_sub(sent.sent);
        let scheduled = traffic.pacing == Pacing::Schedule || traffic.mode == Mode::Bulk;
        (scheduled && late > BEHIND || traffic.batch.is_some() && missing > 0).then(|| {
            let late = late as f64 / 1e9;
            format!(
                "{LATE_SENDER} its schedule: its last message left {late:.1} s after the window, {missing} of {planned} were not sent"
            )
        })
    }

    /// Mean bits of a received message.
    fn message_bits(&self) -> f64 {
        let planned = arrivals::is_planned(&self.cell.scenario.traffic);
        let session = self.session.filter(|session| planned && session.delivered > 0);
        let mean = session.map(|session| session.delivered_bytes as f64 / session.delivered as f64);
        mean.unwrap_or(self.cell.scenario.traffic.payload.bytes as f64) * 8.0
    }
}

/// What a messages file lacks of a session because of the memory limit.
fn lacks(sent: &SendReport, session: &SessionReport) -> Option<String> {
    let rows = sent.departures.len() as u64;
    let (unlisted, untimed) = (sent.sent.saturating_sub(rows), session.delivered - session.flights.len() as u64);
    let unlisted = (unlisted > 0).then(|| format!("the last {unlisted} of {} that were sent", sent.sent));
    let untimed = (untimed > 0).then(|| format!("when the last {untimed} arrived"));
    let lacking: Vec<_> = [unlisted, untimed].into_iter().flatten().collect();
    (!lacking.is_empty()).then(|| format!("{MESSAGES_LACK} {}", lacking.join(", and ")))
}

/// The time of sending.
fn window(measured: &Measured<'_>) -> Window {
    let Facts { sent, bulk, .. } = &measured.traffic;
    let of_bulk = || bulk.as_ref().map(|bulk| (bulk.window, bulk.used));
    let sent = sent.as_ref().map(|sent| (sent.window, sent.used)).or_else(of_bulk);
    let (window, used) = sent.unwrap_or((None, measured.topology.window));
    let start = window.map_or(measured.begin, |window| window.start);
    Window { start, end: start + nanos(used).max(1) }
}

/// The time that rates are over: the planned sending window, even with pauses or late messages; for a stopped cell the
/// time until then.
fn window_of(sent: &SendReport) -> Duration {
    match sent.window {
        Some(window) if !sent.stopped => Duration::from_nanos(window.end.saturating_sub(window.start)),
        _ => sent.used,
    }
}

/// How much later than the window a schedule may end, ns.
const BEHIND: u64 = 100_000_000;

/// The emulator's ledger of one direction. `None`: a direct link.
pub(crate) fn report(link: &LinkReading, way: Way) -> Option<&DirectionReport> {
    let emulated = link.emulated.as_ref()?;
    Some(match way {
        Way::Forward => &emulated.forward,
        Way::Backward => &emulated.backward,
    })
}

/// The emulator's ledgers of a link, both directions; none for a direct link.
fn directions(link: &LinkReading) -> impl Iterator<Item = &DirectionReport> {
    [Way::Forward, Way::Backward].into_iter().filter_map(|way| report(link, way))
}

/// Frames that a router or a switch received and did not forward, or created. Switches know where every host is; only
/// those that copy for the receivers of a group send more. Drops of a router's kernel are explained as far as its
/// counters allow; what it sends beyond what it received are copies.
fn unexplained_by_nodes(topology: &Topology, links: &[LinkReading], kernels: &[Option<Snmp>]) -> i64 {
    let unexplained = |(node, kernel): (usize, &Option<Snmp>)| {
        let ends = topology.ends_at(node);
        let copies = ends.len() > 2 && topology.flows().any(|flow| flow.destination.is_multicast());
        let ports = ends.into_iter().map(|(link, end)| links[link].throughput(end));
        let (sent, received) = ports.fold((0, 0), |sum, port| (sum.0 + port.0, sum.1 + port.1));
        let missing = received as i64 - sent as i64;
        match (topology.nodes[node].kind, kernel) {
            // Each drop may have been answered, at a limited rate.
            (Kind::Router, Some(kernel)) => {
                let explained = kernels::most_drops(node, topology, kernel, links) as i64;
                (missing + kernels::own_messages(kernel) as i64 - explained).max(0)
            }
            (Kind::Switch, _) if !copies => missing.abs(),
            _ => 0,
        }
    };
    kernels.iter().enumerate().map(unexplained).sum()
}

/// Without the noise of 1 - sqrt(1 - p) multiplied back.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}
