//! What the analyser found, against what was true.

use std::collections::HashMap;
use std::time::Duration;

use weir_program::clock::{Nanos, nanos};
use weir_sflow::model::{CLASSES, Plan, Smoothed, Totals, Truth};
use weir_stats::{Distribution, Estimate, intervals};
use weir_traffic::{Flight, Machine, ReceiveReport, SendReport, SessionReport, Window};

use super::Stamp;
use super::analyser::{self, Analyser, Counted, Estimated, Findings};
use super::collector::Collected;
use super::exporter::Exported;

/// How far the analyser was off.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Datagrams that were due within the sending window, and were not sent.
    pub unsent: u64,
    /// From when a datagram was ready to when it was analysed. Over TCP also those that were not, at the least that it can be.
    pub ages: Distribution,
    /// Estimates of an interface that were judged: those within the sending window, once its beginning weighs nothing any more.
    pub windows: u64,
    /// Flow samples meanwhile.
    pub samples: u64,
    /// What was found of the true frames, percent, each class as much as the others; of all estimates.
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
    time_constant: Duration,
    stream: bool,
    sent: &SendReport,
    exported: &Exported,
    collected: Collected<Analyser>,
) -> (ReceiveReport, Judgement) {
    let window = sent.window.unwrap_or(Window { start: 0, end: 0 });
    let session = session(&exported.stamps, &collected, &window);
    let Collected { report, analysis, .. } = collected;
    let mut judgement = judged(plan, time_constant, &analysis.finish(), &window);
    judgement.unsent = exported.unsent.len() as u64;
    judgement.ages =
        session.as_ref().map_or_else(Distribution::new, |session| session.intended_delays.delays().clone());
    if stream {
        let finished = report.finished;
        let has_come = |number| session.as_ref().is_some_and(|session| session.numbers.contains(number));
        let sent = exported.stamps.iter().zip(0..).filter(|(_, number)| !has_come(*number)).map(|(stamp, _)| stamp.due);
        let unsent = exported.unsent.iter().map(|due| window.start + due);
        sent.chain(unsent).for_each(|due| judgement.ages.record(finished.saturating_sub(due)));
    }
    (ReceiveReport { sessions: session.into_iter().collect(), ..report }, judgement)
}

/// The datagrams as messages, numbered in the order in which they were sent. `None`: none came.
pub(crate) fn session<A>(stamps: &[Stamp], collected: &Collected<A>, window: &Window) -> Option<SessionReport> {
    let length = Duration::from_nanos(window.end.saturating_sub(window.start));
    let numbers: HashMap<(u32, u32), u64> =
        stamps.iter().zip(0..).map(|(stamp, number)| ((stamp.agent, stamp.sequence), number)).collect();
    let first = collected.arrivals.first()?.analysed;
    let mut report = SessionReport {
        machine: Machine::Same,
        last_arrival: collected.arrivals.last()?.analysed,
        ..SessionReport::new(collected.peer?, 0, first, length)
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
        flights.push(Flight { number, intended: due, sent, received });
    }
    report.flights = flights.into_iter().collect();
    Some(report)
}

/// Sums over the estimates of an interface.
#[derive(Default)]
struct Sums {
    found: [f64; CLASSES.len()],
    truth: [f64; CLASSES.len()],
    found_bytes: f64,
    true_bytes: f64,
}

fn judged(plan: &Plan, time_constant: Duration, findings: &Findings, sending: &Window) -> Judgement {
    let mut judgement = Judgement { lost: findings.lost, ..Judgement::default() };
    let settled = sending.start + nanos(SETTLED * time_constant);
    let is_judged = |window: &&analyser::Window| (settled..=sending.end).contains(&window.end);
    let windows: Vec<&analyser::Window> = findings.windows.iter().filter(is_judged).collect();
    let at = |end: Nanos| (end - sending.start) as f64 / 1e9;
    let (mut frames, mut bytes, mut nominal) = (Vec::new(), Vec::new(), Vec::new());
    for (agent, interface) in (0..plan.agents).flat_map(|agent| (1..=plan.interfaces).map(move |port| (agent, port))) {
        let port = (Plan::address(agent), interface);
        let mut smoothed = Smoothed::new(plan, agent, interface, time_constant);
        let mut sums = Sums::default();
        for window in &windows {
            judgement.window(&mut sums, &smoothed.up_to(at(window.end)), window.ports.get(&port));
        }
        if sums.truth.iter().all(|frames| *frames > 0.0) {
            let shares = sums.found.iter().zip(sums.truth).map(|(found, truth)| found / truth);
            frames.push(shares.sum::<f64>() / CLASSES.len() as f64 * 100.0);
            bytes.push(sums.found_bytes / sums.true_bytes * 100.0);
        }
        let Some((first, last)) = windows.first().zip(windows.last()) else { continue };
        let mut truth = Truth::new(plan, agent, interface);
        let before = truth.up_to_time(at(first.end));
        let passed = truth.up_to_time(at(last.end)).since(&before).packets() as f64;
        let [from, to] =
            [first, last].map(|window| window.ports.get(&port).map_or_else(Counted::default, |port| port.counted));
        judgement.samples += to.samples - from.samples;
        if passed > 0.0 {
            nominal.push((to.nominal - from.nominal) / passed * 100.0);
        }
    }
    // Interfaces are independent of one another.
    [judgement.frames, judgement.bytes, judgement.nominal] =
        [frames, bytes, nominal].map(|values| intervals::repeats(&values));
    judgement.rate_errors = rate_errors(plan, findings);
    judgement
}

impl Judgement {
    /// `rates`: what is true, frames a second of each class.
    fn window(&mut self, sums: &mut Sums, rates: &[f64; CLASSES.len()], found: Option<&Estimated>) {
        let found = found.copied().unwrap_or_default();
        self.windows += 1;
        self.frame_intervals.1 += CLASSES.len() as u64;
        self.byte_intervals.1 += 1;
        for (class, (estimate, truth)) in found.frames.into_iter().zip(rates).enumerate() {
            sums.truth[class] += truth;
            sums.found[class] += estimate.map_or(0.0, |estimate| estimate.value);
            self.frame_intervals.0 += u64::from(holds(estimate, *truth));
        }
        let truth = rates.iter().zip(CLASSES).map(|(rate, class)| rate * f64::from(class.frame_length)).sum();
        sums.true_bytes += truth;
        sums.found_bytes += found.bytes.map_or(0.0, |estimate| estimate.value);
        self.byte_intervals.0 += u64::from(holds(found.bytes, truth));
    }
}

fn holds(estimate: Option<weir_sflow::flows::Estimate>, truth: f64) -> bool {
    estimate.is_some_and(|estimate| estimate.low <= truth && truth <= estimate.high)
}

/// Time constants after which what was before the start weighs less than a thousandth.
pub(super) const SETTLED: u32 = 8;

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
    use weir_testbed::random;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Estimates of each second of one interface, which find all but for a factor, within so many percent.
    fn found(plan: &Plan, factor: f64, within: f64) -> Judgement {
        let (mut smoothed, mut truth) = (Smoothed::new(plan, 0, 1, SECOND), Truth::new(plan, 0, 1));
        let windows = (1..=20_u64).map(|second| {
            let estimate = |truth: f64| {
                let (value, half) = (truth * factor, truth * within / 100.0);
                Some(weir_sflow::flows::Estimate { value, low: value - half, high: value + half, samples: 50.0 })
            };
            let rates = smoothed.up_to(second as f64);
            let bytes = rates.iter().zip(CLASSES).map(|(rate, class)| rate * f64::from(class.frame_length)).sum();
            let nominal = truth.up_to_time(second as f64).packets() as f64 * 0.7;
            let counted = Counted { samples: 50 * second, nominal };
            let estimated = Estimated { counted, frames: rates.map(estimate), bytes: estimate(bytes) };
            let ports = HashMap::from([((Plan::address(0), 1), estimated)]);
            analyser::Window { end: 5_000_000_000 + second * 1_000_000_000, ports }
        });
        let findings = Findings { windows: windows.collect(), rates: Vec::new(), lost: 7 };
        judged(plan, SECOND, &findings, &Window { start: 5_000_000_000, end: 20_500_000_000 })
    }

    fn plan() -> Plan {
        let settings = crate::scenario::Sflow { agents: 1, interfaces: 1, ..crate::scenario::Sflow::default() };
        settings.plan(1400, random::seed())
    }

    #[test]
    fn estimates_are_judged_by_the_truth_of_their_instants() {
        // Frames are whole: where the truth is looked at in between, it is rounded.
        let exact = found(&plan(), 1.0, 0.02);
        assert_eq!(
            (exact.windows, exact.samples, exact.lost),
            (8, 350, 7),
            "neither while it settles nor when sending is over"
        );
        let all = 8 * CLASSES.len() as u64;
        assert_eq!((exact.frame_intervals, exact.byte_intervals), ((all, all), (8, 8)));
        let off = found(&plan(), 1.02, 1.0);
        assert_eq!((off.frame_intervals, off.byte_intervals), ((0, all), (0, 8)));
        let near = found(&plan(), 0.98, 3.0);
        assert_eq!((near.frame_intervals, near.byte_intervals), ((all, all), (8, 8)));
    }

    #[test]
    fn what_is_found_is_told_over_all_estimates() {
        let two = Plan { interfaces: 2, ..plan() };
        let judgement = found(&two, 1.02, 1.0);
        // Of the second one nothing came: half of all.
        let near = |estimate: Option<Estimate>, value: f64| (estimate.unwrap().value - value).abs() < 0.02;
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
