//! What the analyser found, against what was true.

use std::collections::HashMap;
use std::time::Duration;

use weir_service::clock::Nanos;
use weir_sflow::model::{CLASSES, Plan, Totals, Truth};
use weir_stats::{DelayRecorder, Distribution, Estimate, intervals};
use weir_traffic::{Flight, Machine, ReceiveReport, SendReport, SequenceSet, SessionReport, Window};

use super::Stamp;
use super::analyser::{self, Estimated, Findings};
use super::collector::Collected;
use super::exporter::Exported;

/// How far the analyser was off.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Datagrams that were due within the sending window, and were not sent.
    pub unsent: u64,
    /// From when a datagram was ready to when it was analysed. Over TCP also those that were not, at the least that it can be.
    pub ages: Distribution,
    /// Windows that were judged: of each interface those that lie wholly within the sending window, the first one aside.
    pub windows: u64,
    /// Flow samples in them.
    pub samples: u64,
    /// What was found of the true frames, percent, each class as much as the others; of all windows.
    pub frames: Option<Estimate>,
    /// What was found of the true bytes, percent.
    pub bytes: Option<Estimate>,
    /// What the configured sampling rate makes of the true frames, percent.
    pub nominal: Option<Estimate>,
    /// Of the 95 % intervals of frames, a class and a window each: those that hold the truth, and all.
    pub frame_intervals: (u64, u64),
    /// The same of bytes, a window each.
    pub byte_intervals: (u64, u64),
    /// By how many percent rates from counters were off, ascending: octets and packets.
    pub rate_errors: Vec<f64>,
    /// Datagrams that the analyser took for lost.
    pub lost: u64,
}

/// Both ends' views put together: the receiver's report, with the agents' datagrams as messages, and what the analyser's
/// findings are worth. `stream`: what did not come is late, not lost.
pub(super) fn judge(
    plan: &Plan,
    stream: bool,
    sent: &SendReport,
    exported: &Exported,
    collected: Collected,
) -> (ReceiveReport, Judgement) {
    let window = sent.window.unwrap_or(Window { start: 0, end: 0 });
    let session = session(&exported.stamps, &collected, &window);
    let mut judgement = judged(plan, &collected.findings, &window);
    judgement.unsent = exported.unsent.len() as u64;
    judgement.ages =
        session.as_ref().map_or_else(Distribution::new, |session| session.intended_delays.delays().clone());
    if stream {
        let finished = collected.report.finished;
        let has_come = |number| session.as_ref().is_some_and(|session| session.numbers.contains(number));
        let sent = exported.stamps.iter().zip(0..).filter(|(_, number)| !has_come(*number)).map(|(stamp, _)| stamp.due);
        let unsent = exported.unsent.iter().map(|due| window.start + due);
        sent.chain(unsent).for_each(|due| judgement.ages.record(finished.saturating_sub(due)));
    }
    (ReceiveReport { sessions: session.into_iter().collect(), ..collected.report }, judgement)
}

/// The datagrams as messages, numbered in the order in which they were sent. `None`: none came.
fn session(stamps: &[Stamp], collected: &Collected, window: &Window) -> Option<SessionReport> {
    let length = Duration::from_nanos(window.end.saturating_sub(window.start));
    let numbers: HashMap<(u32, u32), u64> =
        stamps.iter().zip(0..).map(|(stamp, number)| ((stamp.agent, stamp.sequence), number)).collect();
    let mut report = SessionReport {
        peer: collected.peer?,
        session: 0,
        delivered: 0,
        in_window: 0,
        delivered_bytes: 0,
        duplicates: 0,
        reordered: 0,
        stale: 0,
        numbers: SequenceSet::new(),
        announced: None,
        announcements: 0,
        machine: Machine::Same,
        first_arrival: collected.arrivals.first()?.analysed,
        last_arrival: collected.arrivals.last()?.analysed,
        delays: DelayRecorder::new(length),
        intended_delays: DelayRecorder::new(length),
        flights: std::iter::empty().collect(),
    };
    let mut flights = Vec::with_capacity(collected.arrivals.len());
    for arrival in &collected.arrivals {
        let Some(&number) = numbers.get(&(arrival.agent, arrival.sequence)) else { continue };
        let Stamp { due, sent, .. } = stamps[number as usize];
        let received = arrival.analysed;
        if report.numbers.contains(number) {
            report.duplicates += 1;
            continue;
        }
        report.reordered += u64::from(number < report.numbers.end());
        report.numbers.insert(number);
        report.delivered += 1;
        report.in_window += u64::from(received < window.end);
        let at = Duration::from_nanos(received.saturating_sub(window.start));
        report.delays.record(at, received.saturating_sub(sent));
        report.intended_delays.record(at, received.saturating_sub(due));
        flights.push(Flight { intended: due, sent, received });
    }
    report.flights = flights.into_iter().collect();
    Some(report)
}

/// Sums over the windows of an interface.
#[derive(Default)]
struct Sums {
    found: [f64; CLASSES.len()],
    truth: Totals,
    bytes: f64,
    nominal: f64,
}

fn judged(plan: &Plan, findings: &Findings, sending: &Window) -> Judgement {
    let mut judgement = Judgement { lost: findings.lost, ..Judgement::default() };
    let ends: Vec<(Nanos, &analyser::Window)> =
        findings.windows.iter().map(|window| (window.end, window)).filter(|(end, _)| *end <= sending.end).collect();
    let ends = &ends[ends.iter().take_while(|(end, _)| *end <= sending.start).count()..];
    let (mut frames, mut bytes, mut nominal) = (Vec::new(), Vec::new(), Vec::new());
    for (agent, interface) in (0..plan.agents).flat_map(|agent| (1..=plan.interfaces).map(move |port| (agent, port))) {
        let mut truth = Truth::new(plan, agent, interface);
        let mut up_to = |end: Nanos| truth.up_to_time((end - sending.start) as f64 / 1e9);
        let Some(((first, _), windows)) = ends.split_first() else { break };
        let mut before = up_to(*first);
        let mut sums = Sums::default();
        for (end, window) in windows {
            let totals = up_to(*end);
            let passed = totals.since(&before);
            before = totals;
            let found = window.ports.get(&(Plan::address(agent), interface));
            judgement.window(&mut sums, &passed, found);
        }
        if sums.truth.frames.iter().all(|frames| *frames > 0) {
            let shares = (0..CLASSES.len()).map(|class| sums.found[class] / sums.truth.frames[class] as f64);
            frames.push(shares.sum::<f64>() / CLASSES.len() as f64 * 100.0);
            bytes.push(sums.bytes / sums.truth.bytes() as f64 * 100.0);
            nominal.push(sums.nominal / sums.truth.packets() as f64 * 100.0);
        }
    }
    // Interfaces are independent of one another.
    [judgement.frames, judgement.bytes, judgement.nominal] =
        [frames, bytes, nominal].map(|values| intervals::repeats(&values));
    judgement.rate_errors = rate_errors(plan, findings);
    judgement
}

impl Judgement {
    fn window(&mut self, sums: &mut Sums, passed: &Totals, found: Option<&Estimated>) {
        self.windows += 1;
        self.frame_intervals.1 += CLASSES.len() as u64;
        self.byte_intervals.1 += 1;
        for (sum, frames) in sums.truth.frames.iter_mut().zip(passed.frames) {
            *sum += frames;
        }
        let Some(found) = found else { return };
        self.samples += found.samples;
        for (class, (value, interval)) in found.frames.iter().enumerate() {
            let truth = passed.frames[class] as f64;
            sums.found[class] += value;
            self.frame_intervals.0 += u64::from(interval.low <= truth && truth <= interval.high);
        }
        let (value, interval) = found.bytes;
        let truth = passed.bytes() as f64;
        sums.bytes += value;
        self.byte_intervals.0 += u64::from(interval.low <= truth && truth <= interval.high);
        sums.nominal += found.nominal;
    }
}

/// By how many percent each rate from counters was off, ascending.
fn rate_errors(plan: &Plan, findings: &Findings) -> Vec<f64> {
    let mut by_port: HashMap<analyser::Port, Vec<&analyser::Rate>> = HashMap::new();
    for rate in &findings.rates {
        by_port.entry(rate.port).or_default().push(rate);
    }
    let mut errors = Vec::with_capacity(2 * findings.rates.len());
    for ((address, interface), mut rates) in by_port {
        let Some(agent) = plan.agent_of(address) else { continue };
        rates.sort_by_key(|rate| rate.readings);
        let mut truth = Truth::new(plan, agent, interface);
        let mut readings: HashMap<u32, (f64, Totals)> = HashMap::new();
        let mut numbers: Vec<u32> = rates.iter().flat_map(|rate| [rate.readings.0, rate.readings.1]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let at = plan.polled_at(agent, interface, number);
            readings.insert(number, (at, truth.up_to_time(at)));
        }
        for rate in rates {
            let (from, to) = (&readings[&rate.readings.0], &readings[&rate.readings.1]);
            let (seconds, passed) = (to.0 - from.0, to.1.since(&from.1));
            for (found, truth) in [(rate.octets, passed.bytes()), (rate.packets, passed.packets())] {
                errors.push((found / (truth as f64 / seconds) - 1.0).abs() * 100.0);
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    errors
}

#[cfg(test)]
mod tests {
    use weir_sflow::sampling::Interval;
    use weir_testbed::random;

    use super::*;

    /// Windows of a second of one interface, in which all is found but for a factor, within so many percent.
    fn found(plan: &Plan, factor: f64, within: f64) -> Judgement {
        let mut truth = Truth::new(plan, 0, 1);
        let mut before = truth.up_to_time(0.0);
        let windows = (1..=10_u64).map(|second| {
            let totals = truth.up_to_time(second as f64);
            let passed = totals.since(&before);
            before = totals;
            let estimate = |truth: u64| {
                let value = truth as f64 * factor;
                let half = truth as f64 * within / 100.0;
                (value, Interval { low: value - half, high: value + half })
            };
            let estimated = Estimated {
                samples: 50,
                frames: passed.frames.map(estimate),
                bytes: estimate(passed.bytes()),
                nominal: passed.packets() as f64 * 0.7,
            };
            let ports = HashMap::from([((Plan::address(0), 1), estimated)]);
            analyser::Window { end: 5_000_000_000 + second * 1_000_000_000, ports }
        });
        let findings = Findings { windows: windows.collect(), rates: Vec::new(), lost: 7 };
        judged(plan, &findings, &Window { start: 5_000_000_000, end: 14_500_000_000 })
    }

    fn plan() -> Plan {
        let settings = crate::scenario::Sflow { agents: 1, interfaces: 1, ..crate::scenario::Sflow::default() };
        settings.plan(1400, random::seed())
    }

    #[test]
    fn estimates_are_judged_by_the_truth_of_their_windows() {
        let exact = found(&plan(), 1.0, 1e-6);
        assert_eq!(
            (exact.windows, exact.samples, exact.lost),
            (8, 400, 7),
            "neither the first nor what is over too late"
        );
        let all = 8 * CLASSES.len() as u64;
        assert_eq!((exact.frame_intervals, exact.byte_intervals), ((all, all), (8, 8)));
        let off = found(&plan(), 1.02, 1.0);
        assert_eq!((off.frame_intervals, off.byte_intervals), ((0, all), (0, 8)));
        let near = found(&plan(), 0.98, 3.0);
        assert_eq!((near.frame_intervals, near.byte_intervals), ((all, all), (8, 8)));
    }

    #[test]
    fn what_is_found_is_told_over_all_windows() {
        let two = Plan { interfaces: 2, ..plan() };
        let judgement = found(&two, 1.02, 1.0);
        // Of the second one nothing came: half of all.
        let near = |estimate: Option<Estimate>, value: f64| (estimate.unwrap().value - value).abs() < 1e-9;
        assert!(near(judgement.frames, 51.0) && near(judgement.bytes, 51.0) && near(judgement.nominal, 35.0));
        assert_eq!((judgement.windows, judgement.frame_intervals), (16, (0, 16 * CLASSES.len() as u64)));
    }

    #[test]
    fn rates_are_judged_between_their_readings() {
        let plan = plan();
        let port = (Plan::address(0), 1);
        let mut truth = Truth::new(&plan, 0, 1);
        let times = [3, 6].map(|number| plan.polled_at(0, 1, number));
        let [from, to] = times.map(|at| truth.up_to_time(at));
        let (passed, seconds) = (to.since(&from), times[1] - times[0]);
        let rate = analyser::Rate {
            port,
            readings: (3, 6),
            octets: passed.bytes() as f64 / seconds * 1.01,
            packets: passed.packets() as f64 / seconds,
        };
        let errors = rate_errors(&plan, &Findings { windows: Vec::new(), rates: vec![rate], lost: 0 });
        assert!(errors[0] < 1e-6 && (errors[1] - 1.0).abs() < 1e-6, "{errors:?}");
    }
}
