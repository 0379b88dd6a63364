//! When the machine stood still, which messages that touched, and which statistics can be believed all the same.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_emulator::ledger::Late;
use weir_program::clock::{Nanos, nanos};
use weir_report::record::{self, Standstills, Statistic};
use weir_stats::{DelayRecorder, Distribution, Estimate, Method};
use weir_traffic::{Flight, Flights, Window};
use weir_units::format;

use super::book::arrow;
use super::report;
use crate::cell::Measured;
use crate::endpoints::Facts;
use crate::machine::standstills::{Standstill, Union};
use crate::machine::{LostTime, Observed};
use crate::scenario::{Mode, Scenario};
use crate::topology::Path;

/// What stood still while a cell ran, as far as it concerns one path.
pub(super) struct Disturbance {
    /// The sending window.
    window: Window,
    /// The emulator's, of the path's links, there and back.
    emulator: Vec<Standstill<String>>,
    /// Those of the links that are not listed.
    unlisted: u64,
    /// Of each processor, and of the emulator: a message is held up by one of them at a time.
    places: Vec<Union>,
    /// Share of the window in which a processor stood still.
    processors: f64,
    /// Share of it in which the emulator was late; of bulk transfers 0.
    emulated: f64,
}

/// The delays of one receiver's messages.
pub(super) struct Delays {
    /// Of messages that nothing disturbed; of all, where [`Self::whole`].
    pub(super) sample: DelayRecorder,
    /// The same from the time at which they were due.
    pub(super) intended: DelayRecorder,
    /// Leaving out the disturbed would select, and standstills explain so little that none is left out.
    pub(super) whole: bool,
    /// Messages that were received.
    received: u64,
    /// Messages of all that arrived while was sent.
    pub(super) in_window: u64,
    /// Messages that were disturbed, or waited behind one that was.
    pub(super) disturbed: u64,
    /// Messages that nobody can tell about.
    pub(super) unknown: u64,
    /// The sum of the delays of all messages, ns, and that of what is left of them without what stood still meanwhile.
    sums: (u128, u128),
    /// The largest delay less what stood still meanwhile, ns.
    least_max: Nanos,
    /// The largest delay of all, ns.
    max: Nanos,
    /// The largest of each part of the window: its end (s), and the delay (us).
    pub(super) course: Vec<(f64, f64)>,
}

/// A disturbed message, behind which others may wait.
#[derive(Clone, Copy)]
struct Behind {
    /// When the first of those was due that it waited behind, or itself.
    since: Nanos,
    received: Nanos,
}

impl Disturbance {
    /// Of a cell that carries traffic of this mode along a path.
    pub(super) fn new(measured: &Measured<'_>, path: &Path, mode: Mode) -> Disturbance {
        let Measured { machine, topology, .. } = measured;
        let window = window(measured);
        let (mut emulator, mut unlisted) = (Vec::new(), 0);
        for &(index, way) in path.forward.iter().chain(&path.backward) {
            let Some(report) = report(&measured.links[index], way) else { continue };
            let place = format!("{} {}", topology.links[index].name, arrow(way));
            unlisted += report.unlisted_late;
            let late = |late: &Late| Standstill { start: late.due, end: late.left, place: place.clone() };
            emulator.extend(report.late.iter().map(late).filter(|late| late.end > machine.from));
        }
        let times = |list: &[Standstill<String>]| list.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>();
        let emulated = Union::new(times(&emulator));
        let mut processors: BTreeMap<Option<usize>, Vec<(Nanos, Nanos)>> = BTreeMap::new();
        machine.standstills.iter().for_each(|s| processors.entry(s.place).or_default().push((s.start, s.end)));
        let length = (window.end - window.start).max(1) as f64;
        Disturbance {
            places: processors.into_values().map(Union::new).chain([emulated.clone()]).collect(),
            processors: machine.share(window.start, window.end),
            // Whoever sends as much as goes through makes the emulator late: that is the limit, not a disturbance.
            emulated: match mode {
                Mode::Messages | Mode::Programs => {
                    emulated.within(window.start, window.end) as f64 / length
                }
                Mode::Bulk => 0.0,
            },
            window,
            emulator,
            unlisted,
        }
    }

    /// The share of the sending window in which sender, receiver or emulator stood still.
    pub(super) fn share(&self) -> f64 {
        self.processors.max(self.emulated)
    }

    /// As a record has it.
    pub(super) fn record(&self, machine: &Observed) -> Standstills {
        let since = |at: Nanos| (at as f64 - self.window.start as f64) / 1e9;
        let entry = |start, end: Nanos, place| record::Standstill {
            at_s: rounded(since(start), 1e4),
            ms: rounded((end - start) as f64 / 1e6, 1e2),
            place,
        };
        let cpu = |processor: Option<usize>| processor.map_or("cpu".into(), |processor| format!("cpu {processor}"));
        let of_processors = machine.standstills.iter().map(|s| entry(s.start, s.end, cpu(s.place)));
        let of_emulator = self.emulator.iter().map(|s| entry(s.start, s.end, s.place.clone()));
        let mut list: Vec<_> = of_processors.chain(of_emulator).collect();
        list.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        let more = (list.len().saturating_sub(MOST_LISTED)) as u64 + machine.forgotten + self.unlisted;
        list.truncate(MOST_LISTED);
        list.sort_by(|a, b| a.at_s.total_cmp(&b.at_s).then_with(|| a.place.cmp(&b.place)));
        let taken = |of: fn(&LostTime) -> Duration| {
            let some = machine.taken.iter().filter(|taken| !of(taken).is_zero());
            joined(
                &some.map(|taken| (rounded(since(taken.at), 1e2), of(taken).as_secs_f64() * 1e3)).collect::<Vec<_>>(),
            )
        };
        Standstills {
            origin_ns: self.window.start,
            resolution_ms: Observed::RESOLUTION.as_secs_f64() * 1e3,
            list,
            more,
            stolen: taken(|taken| taken.stolen),
            throttled: taken(|taken| taken.throttled),
        }
    }

    /// The longest time between two moments in which one place stood still.
    fn stood_still(&self, from: Nanos, to: Nanos) -> Nanos {
        self.places.iter().map(|place| place.within(from, to)).max().unwrap_or(0)
    }

    /// Tells the messages of a session that were disturbed from the others.
    pub(super) fn delays(&self, flights: &Flights) -> Delays {
        let (start, length) = (self.window.start, self.window.end - self.window.start);
        let recorder = || DelayRecorder::new(Duration::from_nanos(length));
        let (mut all, mut all_intended) = (recorder(), recorder());
        let mut delays = Delays {
            sample: recorder(),
            intended: recorder(),
            whole: false,
            received: flights.list().len() as u64,
            in_window: 0,
            disturbed: 0,
            unknown: flights.more(),
            sums: (0, 0),
            least_max: 0,
            max: 0,
            course: Vec::new(),
        };
        let mut course = vec![None::<Nanos>; COURSE];
        let mut in_order: Vec<Flight> = flights.list().to_vec();
        in_order.sort_by_key(|flight| flight.sent);
        let usual = median(in_order.iter().map(Flight::late).collect());
        // What a standstill has delayed delays what waits behind it: a queue that it filled, a stream that it stopped.
        let mut behind = None::<Behind>;
        for flight in in_order {
            let Flight { sent, received, .. } = flight;
            let (delay, late) = (received.saturating_sub(sent), flight.late());
            let waited = behind.filter(|first| sent < first.received && late as f64 > usual as f64 * (1.0 + TOLERATED));
            let since = waited.map_or(flight.intended, |first| first.since.min(flight.intended));
            let stood = self.stood_still(since, received);
            behind = disturbs(stood, late).then_some(Behind { since, received });
            delays.sums.0 += u128::from(delay);
            delays.sums.1 += u128::from(delay.saturating_sub(stood));
            delays.least_max = delays.least_max.max(delay.saturating_sub(stood));
            delays.max = delays.max.max(delay);
            let at = received.saturating_sub(start);
            delays.in_window += u64::from(at < length);
            let part = (u128::from(at) * COURSE as u128 / u128::from(length.max(1))) as usize;
            if let Some(most) = course.get_mut(part) {
                *most = Some(most.unwrap_or(0).max(delay));
            }
            let at = Duration::from_nanos(at);
            all.record(at, delay);
            all_intended.record(at, late);
            if behind.is_some() {
                delays.disturbed += 1;
                continue;
            }
            delays.sample.record(at, delay);
            delays.intended.record(at, late);
        }
        if delays.few() || delays.selected().is_some() {
            delays.whole = delays.explained() <= TOLERATED;
            if delays.whole {
                (delays.sample, delays.intended) = (all, all_intended);
            }
        }
        let part = length as f64 / 1e9 / COURSE as f64;
        let point = |(index, most): (usize, Option<Nanos>)| Some(((index as f64 + 1.0) * part, most? as f64 / 1e3));
        delays.course = course.into_iter().enumerate().filter_map(point).collect();
        delays
    }

    /// Which statistics the machine may have changed, and why.
    pub(super) fn verdict(
        &self,
        measured: &Measured<'_>,
        scenario: &Scenario,
        delays: Option<&Delays>,
    ) -> BTreeMap<Statistic, String> {
        let run = &scenario.run;
        let mut disturbed = BTreeMap::new();
        let mut doubt = |statistics: &[Statistic], why: String| {
            for statistic in statistics {
                let more = |before: &mut String| *before += &format!("; {why}");
                disturbed.entry(*statistic).and_modify(more).or_insert_with(|| why.clone());
            }
        };
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        if self.share() > run.max_standstill.fraction() {
            let who =
                if self.processors >= self.emulated { "the machine stood still" } else { "the emulator was late" };
            let (share, most) = (percent(self.share()), run.max_standstill);
            doubt(&[Statistic::Rate], format!("{who} for {share} of the time (run.max_standstill is {most})"));
        }
        let (used, planned) =
            ((self.window.end - self.window.start) as f64 / 1e9, run.duration.duration().as_secs_f64());
        if measured.traffic.stopped && used < LEAST_USED * planned {
            let why = format!("stopped after {used:.1} s of {planned} s: too short to tell");
            doubt(&[Statistic::Rate], why.clone());
            doubt(&DELAYS, why);
        }
        let bulk = scenario.traffic.mode == Mode::Bulk || measured.load.is_some();
        if let Some(own) = full_of_us(measured.idle, measured.foreign).filter(|_| !bulk) {
            let why =
                format!("the lab itself took {} of the processors: run fewer cells at once (--jobs)", percent(own));
            doubt(&DELAYS, why);
        }
        if bulk && measured.foreign > run.max_foreign.fraction() && measured.idle < LEFT_OVER {
            let (foreign, most) = (percent(measured.foreign), run.max_foreign);
            let taken =
                format!("others took {foreign} of the processors, and none was left (run.max_foreign is {most})");
            doubt(&[Statistic::Rate], taken);
        }
        let delays = delays.filter(|delays| !delays.whole);
        if let Some(delays) = delays.filter(|delays| delays.few()) {
            let share = percent(delays.share());
            doubt(&DELAYS, format!("{share} of the messages were disturbed by standstills"));
        }
        if let Some((kept, least)) = delays.and_then(Delays::selected) {
            let [kept, least] = [kept, least].map(|us| format::duration(us));
            let why = "leaving out the others selects";
            doubt(
                &DELAYS,
                format!("messages without standstills took {kept} on average, all messages at least {least}: {why}"),
            );
        }
        disturbed
    }
}

impl Delays {
    /// Of the messages that arrived, those that were disturbed, 0 to 1.
    pub(super) fn share(&self) -> f64 {
        self.disturbed as f64 / self.received.max(1) as f64
    }

    /// Whether what is left may not be like the others.
    fn few(&self) -> bool {
        self.share() > MOST_DISTURBED
    }

    /// The share of the mean delay of all messages that standstills explain, 0 to 1, at most.
    pub(super) fn explained(&self) -> f64 {
        let (most, least) = self.sums;
        (most - least) as f64 / most.max(1) as f64
    }

    /// Where leaving out the disturbed messages has selected the short ones, or the long ones: the mean of the others, us,
    /// and what is left of that of all without what stood still meanwhile.
    fn selected(&self) -> Option<(f64, f64)> {
        let n = self.received.max(1) as f64;
        let (most, least) = (self.sums.0 as f64 / n / 1e3, self.sums.1 as f64 / n / 1e3);
        let kept = self.distribution().mean_us()?;
        (kept < least * (1.0 - SELECTED) || kept > most * (1.0 + SELECTED)).then_some((kept, least))
    }

    /// The largest delay: of the sample, between what standstills leave of the largest of all, and that.
    pub(super) fn largest(&self) -> Option<Estimate> {
        let value = self.sample.delays().max_us()?;
        let (low, high) = (self.least_max as f64 / 1e3, self.max as f64 / 1e3);
        Some(Estimate { value, low: low.min(value), high: high.max(value), n: self.received, method: Method::Stalls })
    }

    /// Of the sample.
    pub(super) fn distribution(&self) -> &Distribution {
        self.sample.delays()
    }
}

/// The time in which was sent.
fn window(measured: &Measured<'_>) -> Window {
    let Facts { sent, bulk, .. } = &measured.traffic;
    let of_bulk = || bulk.as_ref().map(|bulk| (bulk.window, bulk.used));
    let (window, used) = sent.as_ref().map(|sent| (sent.window, sent.used)).or_else(of_bulk).unwrap_or_default();
    let used = if used.is_zero() { measured.topology.window } else { used };
    let start = window.map_or(measured.begin, |window| window.start);
    Window { start, end: start + nanos(used).max(1) }
}

/// No more entries than a record lists: neighbours become one, with the time of the last and the sum of all.
fn joined(taken: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let each = taken.len().div_ceil(MOST_LISTED).max(1);
    let one = |part: &[(f64, f64)]| Some((part.last()?.0, part.iter().map(|(_, ms)| ms).sum()));
    taken.chunks(each).filter_map(one).collect()
}

/// The share of the processors that the lab itself took, where it has filled them: messages wait for it then, and neither
/// heartbeats nor the emulator, which run before it, are late.
fn full_of_us(idle: f64, foreign: f64) -> Option<f64> {
    Some(1.0 - idle - foreign).filter(|own| *own > MOST_OWN)
}

/// Whether standstills of this length show in a flight of that.
fn disturbs(stood: Nanos, flight: Nanos) -> bool {
    stood as f64 > flight as f64 * TOLERATED
}

/// The upper one of an even number; 0 of none.
fn median(mut values: Vec<Nanos>) -> Nanos {
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}

fn rounded(value: f64, to: f64) -> f64 {
    (value * to).round() / to
}

/// A message is disturbed when standstills during its flight, from when it was due, exceed this part of that time.
const TOLERATED: f64 = 0.05;

/// From this share of disturbed messages on, what is left of them may not be like the others.
const MOST_DISTURBED: f64 = 0.5;

/// By how much the mean of undisturbed messages may lie outside of what the mean of all can be.
const SELECTED: f64 = 0.1;

/// Of a cell that was stopped: from this part of its time on it is a shorter one.
const LEAST_USED: f64 = 0.1;

/// From this share of the processors on messages wait for the lab.
const MOST_OWN: f64 = 0.9;

/// As long as so much of the processors is left over, what others take is missing nowhere.
const LEFT_OVER: f64 = 0.25;

/// The statistics of delays.
const DELAYS: [Statistic; 5] = [Statistic::Mean, Statistic::P50, Statistic::P99, Statistic::P999, Statistic::Max];

/// Standstills that a record lists, and times of steal and throttling.
const MOST_LISTED: usize = 500;

/// Points of the delays' course.
const COURSE: usize = 100;

#[cfg(test)]
mod tests {
    use weir_testbed::random::Source;

    use super::*;

    const DOCS: &str = include_str!("../../../../docs/lab.md");

    /// Standstills of 100 ms that take this share of 600 s, at drawn instants.
    fn standstills(source: &mut Source, share: f64) -> Union {
        let (mut at, mut all) = (0.0, Vec::new());
        while at < 600e9 {
            at += source.exponential(0.1e9 * (1.0 / share - 1.0));
            all.push((at as Nanos, at as Nanos + 100_000_000));
            at += 0.1e9;
        }
        Union::new(all)
    }

    /// Of messages each 10 ms for a minute with these delays, while a processor stands still at these times.
    fn delays(still: Union, delay: impl Fn(u64) -> Nanos) -> Delays {
        let window = Window { start: 0, end: 60_000_000_000 };
        let disturbance =
            Disturbance { window, emulator: vec![], unlisted: 0, places: vec![still], processors: 0.0, emulated: 0.0 };
        let flight = |at: Nanos| Flight { number: 0, intended: at, sent: at, received: at + delay(at) };
        disturbance.delays(&(0..6000).map(|number| flight(number * 10_000_000)).collect())
    }

    /// From one time to another of each period, ms.
    fn every(period: u64, from: u64, to: u64) -> Union {
        let starts = (0..60_000 / period).map(|n| n * period);
        Union::new(starts.map(|start| ((start + from) * 1_000_000, (start + to) * 1_000_000)))
    }

    #[test]
    fn none_is_left_out_where_that_selects_and_standstills_explain_little() {
        // As TCP's: rows that have waited for up to 10 s, and end together. What ends them is preceded by a standstill, which
        // shows in the shorter ones alone.
        let rows = |at: Nanos| 10_000_000_000 - at % 10_000_000_000;
        let (long, truth) = (delays(every(10_000, 9_700, 9_900), rows), 5.005e6);
        assert!(long.whole && long.sample.n() == 6000 && long.explained() <= TOLERATED, "{}", long.explained());
        assert!((long.sample.delays().mean_us().unwrap() / truth - 1.0).abs() < 0.01);
        let taken = long.largest().unwrap();
        assert!((taken.value, taken.high) == (1e7, 1e7) && (9.7e6..1e7).contains(&taken.low), "{taken:?}");
        // One that explains a tenth of them.
        let more = delays(every(10_000, 9_300, 9_900), rows);
        assert!(!more.whole && more.explained() > 0.1 && more.few(), "{}", more.explained());
        // Short ones as they should be: what is disturbed is left out.
        let short =
            delays(every(2_500, 0, 100), |at| if at % 2_500_000_000 < 100_000_000 { 50_000_000 } else { 100_000 });
        assert!(!short.whole && short.disturbed == 240 && short.sample.n() == 5760, "{}", short.disturbed);
        assert!((short.sample.delays().mean_us().unwrap() - 100.0).abs() < 1.0);
        let calm = delays(Union::new(vec![]), rows);
        assert!(!calm.whole && calm.disturbed == 0 && calm.sample.n() == 6000);
    }

    #[test]
    fn what_many_messages_waited_for_counts_once_in_each() {
        // Rows that end together: all of a row meet the same standstill, each while the one before it is under way.
        let rows = |at: Nanos| 10_000_000_000 - at % 10_000_000_000;
        let seen = delays(every(10_000, 9_000, 9_900), rows);
        let (most, least) = (seen.sums.0 as f64, seen.sums.1 as f64);
        // Nobody waited for more than these 0.9 s.
        assert!(most - least <= 6_000.0 * 0.9e9 && most - least > 6_000.0 * 0.8e9, "{}", (most - least) / 6e12);
        assert!((9.0e9..1.0e10).contains(&(seen.least_max as f64)), "{}", seen.least_max);
    }

    #[test]
    fn what_waits_behind_a_disturbed_message_is_disturbed() {
        const MS: Nanos = 1_000_000;
        // 100 ms each 6 s, and for 2 s afterwards every message waits for the next one, as with Nagle and delayed ACKs.
        let nagle = |at: Nanos| match at / MS % 6_000 {
            since @ 0..100 => (100 - since) * MS + MS / 5,
            100..2_000 => 10 * MS + MS / 3,
            _ => MS / 5,
        };
        let seen = delays(every(6_000, 0, 100), nagle);
        assert_eq!((seen.disturbed, seen.whole), (10 * 200, false));
        assert!((seen.sample.delays().mean_us().unwrap() - 200.0).abs() < 5.0 && seen.selected().is_none());
        // A long path alone keeps messages under way together.
        let long = delays(every(6_000, 0, 100), |at| 50 * MS + 100 * MS.saturating_sub(at % (6_000 * MS)));
        assert!(long.disturbed <= 10 * 16, "{}", long.disturbed);
        assert!((long.sample.delays().mean_us().unwrap() - 50_000.0).abs() < 500.0);
    }

    #[test]
    fn a_lab_that_fills_the_machine_is_told_from_company_that_does() {
        assert_eq!(full_of_us(0.02, 0.03), Some(0.95));
        // Others, which real-time threads run before; and the five repeats of the default run.
        assert_eq!((full_of_us(0.0, 0.5), full_of_us(0.4, 0.0)), (None, None));
    }

    #[test]
    fn what_was_taken_is_listed_in_so_many_steps() {
        let few = [(0.1, 10.0), (0.4, 20.0)];
        assert_eq!((joined(&few), joined(&[])), (few.to_vec(), vec![]));
        let many: Vec<(f64, f64)> = (0..MOST_LISTED * 3 + 1).map(|n| (n as f64, 10.0)).collect();
        let steps = joined(&many);
        assert!(steps.len() <= MOST_LISTED);
        assert_eq!(steps.iter().map(|(_, ms)| ms).sum::<f64>(), many.len() as f64 * 10.0);
        assert_eq!((steps[0], steps.last().unwrap().0), ((3.0, 40.0), (MOST_LISTED * 3) as f64));
    }

    /// By which factor the mean of undisturbed delays differs from that without standstills, and the share of disturbed
    /// messages. Delays are exponential, and none is lengthened by what it meets: the selection alone is seen.
    fn selected(mean_s: f64, share: f64) -> (f64, f64) {
        let mut source = Source(11);
        let union = standstills(&mut source, share);
        let (mut all, mut kept, mut n, mut disturbed) = (0.0, 0.0, 0.0, 0.0);
        for number in 0..60_000_u64 {
            let (sent, delay) = (number * 10_000_000, (source.exponential(mean_s) * 1e9) as Nanos);
            all += delay as f64;
            match disturbs(union.within(sent, sent + delay), delay) {
                true => disturbed += 1.0,
                false => (kept, n) = (kept + delay as f64, n + 1.0),
            }
        }
        (kept / n / (all / 60_000.0), disturbed / 60_000.0)
    }

    #[test]
    fn what_leaving_disturbed_messages_out_selects() {
        println!("seed 11");
        let row = |mean: f64| {
            let row = [0.005, 0.02, 0.05].map(|share| selected(mean, share));
            let percent = |share: f64| {
                if share < 0.1 { format!("{:.1}", share * 100.0) } else { format!("{:.0}", share * 100.0) }
            };
            let fields = row.map(|(factor, disturbed)| format!("{factor:.3}, {} %", percent(disturbed))).join(" | ");
            let delay = if mean < 1.0 { format!("{} ms", mean * 1e3) } else { format!("{mean} s") };
            let line = format!("| {delay} | {fields} |");
            assert!(DOCS.contains(&line), "docs/lab.md lacks {line}");
            row
        };
        for (factor, disturbed) in row(0.0001) {
            assert!((0.99..1.01).contains(&factor) && disturbed < 0.06, "{factor} {disturbed}");
        }
        for mean in [0.01, 0.1, 0.5, 5.0] {
            let [few, some, many] = row(mean);
            assert!((0.95..1.05).contains(&few.0), "{mean} s: {few:?}");
            assert!((0.75..1.05).contains(&some.0) && (0.5..1.5).contains(&many.0), "{mean} s: {some:?} {many:?}");
        }
    }
}
