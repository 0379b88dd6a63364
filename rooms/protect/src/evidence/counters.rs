//! Whether what is sampled at an interface can have passed it, as its counters say.
//!
//! Only packets to protected addresses are known here, which are a part of those that counters count: samples may tell of less, not of more.
//! What was sampled since any of the last readings, up to [`Settings::lag`] before the newest, is held against all that was counted between
//! the two: an interval that is only partly in a flood bounds it all the same.

use std::net::IpAddr;

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::Settings;
use super::readings::{Readings, Stretch};
use crate::estimate;
use crate::model::{Doubt, Point, Rate, Stream};

/// What an interface's counters say of the time between two counter samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Which interface.
    pub point: Point,
    /// In which of the agent's streams they were told.
    pub stream: Stream,
    /// When the two came, ns, as in [`Sighting::time`](crate::model::Sighting::time).
    pub from: u64,
    /// As above.
    pub to: u64,
    /// Packets a second, in and out.
    pub packets: [f64; 2],
    /// Bits a second, in and out.
    pub bits: [f64; 2],
    /// ifSpeed in bits a second; `None`: unknown.
    pub speed: Option<f64>,
}

/// Where packets are sampled: an interface as one of its agent's sub-agents tells of it, and whether they came in there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) point: Point,
    pub(crate) stream: Stream,
    pub(crate) ingress: Option<bool>,
}

impl Place {
    fn key(&self) -> Key {
        (self.point, self.stream.sub_agent)
    }
}

/// An interface of a sub-agent: what another one tells of it neither vouches for it nor speaks against it.
type Key = (Point, u32);

/// Interfaces at which packets to protected addresses are sampled.
#[derive(Debug)]
pub(crate) struct Ports {
    lag: u64,
    age: u64,
    memory: u64,
    probation: u64,
    /// When an interface of a sub-agent first had counters; of those that are remembered.
    agents: HashMap<(IpAddr, u32), u64, RandomState>,
    ports: HashMap<Key, Port, RandomState>,
    /// Interfaces that were forgotten for others.
    pub(crate) evicted: u64,
}

#[derive(Debug, Default)]
struct Port {
    heard: u64,
    /// When its counters last came.
    counted: Option<u64>,
    readings: Readings,
    /// Bits a second that it can carry; `None`: that is not known.
    speed: Option<f64>,
    /// Since when less has been told than that.
    slower: Option<u64>,
    /// Samples that came in, went out, or the agent did not tell.
    sampled: [Option<Box<Seconds>>; 3],
    /// When samples last told of more than counters did, and of how much.
    failed: Option<(u64, Rate, Rate)>,
    /// Since when its counters have come without a gap and agreed; `None`: they have not.
    since: Option<u64>,
    /// Whether it was there when its sub-agent was first heard: then it needs no history.
    is_first: bool,
    /// Samples that could not have passed since they came too fast: when last, and what they told of; bits a second.
    fast: Option<(u64, f64)>,
    /// Bits sampled by direction that the interface has not had the time for, as of `paid`, ns.
    owed: [f64; 3],
    paid: u64,
}

/// What was sampled in each of the last seconds.
#[derive(Debug)]
struct Seconds {
    /// Second of the newest.
    newest: u64,
    sums: [Sums; SECONDS],
}

/// Packets, their squares, bits, their squares.
type Sums = [f32; 4];

/// How long after an agent's first counters those of its other interfaces come, ns: agents go round in 20 to 30 s.
const ROUND: u64 = 30 * SECOND;
/// Seconds that a sample's bits may take at the speed of the interface.
const LONGEST: f64 = 4.0;
/// Samples that may come before their packets could have been carried, besides those of a second.
const IN_ADVANCE: f64 = 16.0;
/// How long after they were taken samples may come, more than counters do, ns: an agent may not hold them back for longer.
const HELD_BACK: u64 = SECOND;
const SECONDS: usize = 64;
const SECOND: u64 = 1_000_000_000;
/// Interfaces that are remembered.
const PORTS: usize = 4_096;
/// Standard deviations by which samples must exceed counters: it happens by chance once in 30,000 times.
const SURE: f64 = 4.0;
/// What counters may be less by: some do not count what a switch drops, some no frame check sequence.
const TOLERANCE: f64 = 1.1;

impl Ports {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (agents, ports) = (HashMap::default(), HashMap::default());
        let mut ports = Self { lag: 0, age: 0, memory: 0, probation: 0, agents, ports, evicted: 0 };
        ports.adopt(settings);
        ports
    }

    pub(crate) fn adopt(&mut self, settings: &Settings) {
        self.lag = settings.lag.as_nanos() as u64;
        self.age = settings.counters_age.as_nanos() as u64;
        self.memory = settings.memory.as_nanos() as u64;
        self.probation = settings.probation.as_nanos() as u64;
    }

    /// A packet was sampled, and its sample kept for at most so many ns; `false`: the interface cannot have carried what it stands for, and it is
    /// not to count.
    #[inline]
    pub(crate) fn sampled(&mut self, (now, kept): (u64, u64), place: Place, packets: f32, bits: f32) -> bool {
        let port = self.port(now, place.key());
        if !port.carries((now, kept), place.ingress, f64::from(bits)) {
            return false;
        }
        port.sampled[direction(place.ingress)].get_or_insert_default().add(now, packets, bits);
        true
    }

    /// Counters came; tells whether what was sampled meanwhile is more than they can account for.
    pub(crate) fn counted(&mut self, counts: &Counts) -> bool {
        let (lag, age, memory) = (self.lag, self.age, self.memory);
        let sub_agent = counts.stream.sub_agent;
        let began = *self.agents.entry((counts.point.agent, sub_agent)).or_insert(counts.to);
        let port = self.port(counts.to, (counts.point, sub_agent));
        let gap = port.counted.is_none_or(|before| counts.to.saturating_sub(before) > age);
        if port.since.is_none() || gap {
            port.since = Some(counts.to);
            port.is_first |= counts.to.saturating_sub(began) <= ROUND;
        }
        port.counted = Some(counts.to);
        port.take_speed(counts, memory);
        port.readings.take(counts);
        let to = counts.to.saturating_sub(port.readings.lag(lag));
        let (mut failed, mut is_held) = (None, false);
        for stretch in port.readings.stretches() {
            let from = stretch.from + HELD_BACK;
            if failed.is_some() || to <= from + SECOND {
                continue;
            }
            is_held = true;
            failed = port.exceeded(&stretch, (from, to), counts.to);
        }
        if !is_held {
            return false;
        }
        port.failed = failed;
        if failed.is_some() {
            port.since = Some(counts.to);
        }
        failed.is_some()
    }

    /// What speaks against samples that were taken there; `seconded`: another agent sees the same.
    pub(crate) fn doubt(&self, now: u64, place: Place, seconded: bool) -> Option<Doubt> {
        let Place { point, ingress, .. } = place;
        let uncounted = Some(Doubt::Uncounted { point });
        let Some(port) = self.ports.get(&place.key()) else { return uncounted };
        if port.counted.is_none_or(|counted| now.saturating_sub(counted) > self.age) {
            return uncounted;
        }
        if let Some((_, samples, counters)) = port.failed.filter(|&(time, ..)| now.saturating_sub(time) <= self.memory)
        {
            return Some(Doubt::Counters { point, samples, counters });
        }
        // What is new beside an agent that is known needs a history, or somebody who sees the same.
        let lasted = port.since.map_or(0, |since| now.saturating_sub(since));
        if !port.is_first && !seconded && lasted < self.probation {
            return uncounted;
        }
        if let (Some((_, bits)), Some(speed)) = (port.fast.filter(|fast| self.is_recent(now, fast.0)), port.speed) {
            return Some(Doubt::Speed { point, bits, speed });
        }
        let speed = port.speed?;
        let sampled = port.sampled[direction(ingress)].as_ref()?;
        let speed = both_ways(speed, ingress);
        let [.., bits, squares] = sampled.between(now.saturating_sub(3 * SECOND), now + SECOND);
        let rate = estimate::interval(bits, squares, 3.0, SURE);
        (rate.low > speed * TOLERANCE).then_some(Doubt::Speed { point, bits: rate.value, speed })
    }

    /// Bits a second that all of these can carry together, and a little more than they should; `None`: that is not known of all.
    pub(crate) fn capacity(&self, places: &[Place]) -> Option<f64> {
        let speed = |place: &Place| {
            let speed = self.ports.get(&place.key())?.speed?;
            Some(both_ways(speed, place.ingress))
        };
        places.iter().map(speed).sum::<Option<f64>>().map(|sum| sum * TOLERANCE)
    }

    fn is_recent(&self, now: u64, time: u64) -> bool {
        now.saturating_sub(time) <= self.memory
    }

    #[inline]
    fn port(&mut self, now: u64, key: Key) -> &mut Port {
        if self.ports.len() >= PORTS && !self.ports.contains_key(&key) {
            self.make_room();
        }
        let port = self.ports.entry(key).or_default();
        port.heard = port.heard.max(now);
        port
    }

    /// Forgets the one that was heard longest ago.
    #[cold]
    fn make_room(&mut self) {
        self.evicted += 1;
        if let Some(oldest) = self.ports.iter().min_by_key(|(_, port)| port.heard).map(|(&key, _)| key) {
            self.ports.remove(&oldest);
            let agent = |(point, sub_agent): &Key| (point.agent, *sub_agent);
            if !self.ports.keys().any(|key| agent(key) == agent(&oldest)) {
                self.agents.remove(&agent(&oldest));
            }
        }
    }
}

impl Port {
    /// Whether samples of a time tell of more than was counted in a stretch that has it in it: when, packets a second that samples and counters
    /// tell.
    fn exceeded(&self, stretch: &Stretch, (from, to): (u64, u64), now: u64) -> Option<(u64, Rate, Rate)> {
        let ways = self.sampled.iter().enumerate().filter_map(|(way, sampled)| Some((way, sampled.as_ref()?)));
        ways.into_iter().find_map(|(way, sampled)| {
            let [packets, squares, bits, bit_squares] = sampled.between(from, to);
            let counted = |ways: [f64; 2]| if way == 2 { ways[0] + ways[1] } else { ways[way] };
            let is_more = |sum: f64, squares: f64, counted: f64| {
                estimate::interval(sum, squares, 1.0, SURE).low > counted * TOLERANCE
            };
            let is_failed = is_more(packets, squares, counted(stretch.packets))
                || is_more(bits, bit_squares, counted(stretch.bits));
            let counters = counted(stretch.packets) * 1e9 / now.saturating_sub(stretch.from).max(1) as f64;
            let counters = Rate { value: counters, low: counters, high: counters };
            let seconds = (to / SECOND).saturating_sub(from.div_ceil(SECOND)).max(1) as f64;
            is_failed.then(|| (now, estimate::rate(packets, squares, seconds), counters))
        })
    }

    /// What it can carry, by its newest counters. Less than before is believed once it has been told for some time: one datagram must not make
    /// impossible what comes.
    fn take_speed(&mut self, counts: &Counts, memory: u64) {
        let told = counts.speed.filter(|&speed| speed > 0.0);
        if let (Some(known), Some(told)) = (self.speed, told)
            && told < known
        {
            let since = *self.slower.get_or_insert(counts.to);
            if counts.to.saturating_sub(since) < memory {
                return;
            }
        }
        (self.speed, self.slower) = (told, None);
    }

    /// Whether the interface can have carried a sample's bits, as far as its speed is known. Samples come at random: for some time more may
    /// be sampled than was carried, but not by so many samples, nor one that would have taken so long. What was kept was carried at any time since:
    /// a burst behind a standstill is no impossible rate.
    #[inline]
    fn carries(&mut self, (now, kept): (u64, u64), ingress: Option<bool>, bits: f64) -> bool {
        let Some(speed) = self.speed else { return true };
        let speed = TOLERANCE * both_ways(speed, ingress);
        let [passed, kept] = [now.saturating_sub(self.paid), kept].map(|nanos| nanos as f64 / 1e9);
        self.paid = self.paid.max(now);
        self.owed.iter_mut().for_each(|owed| *owed = (*owed - speed * passed).max(-speed * kept));
        let owed = &mut self.owed[direction(ingress)];
        if bits <= LONGEST * speed && *owed + bits <= speed + IN_ADVANCE * bits {
            *owed += bits;
            return true;
        }
        // Kept as long as what it tells of could have been believed.
        let told = (*owed + bits).max(bits / LONGEST);
        self.fast = Some((now, told));
        false
    }
}

/// Both directions of a link, where the agent does not tell which it was.
fn both_ways(speed: f64, ingress: Option<bool>) -> f64 {
    if ingress.is_none() { 2.0 * speed } else { speed }
}

fn direction(ingress: Option<bool>) -> usize {
    match ingress {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    }
}

impl Default for Seconds {
    fn default() -> Self {
        Self { newest: 0, sums: [[0.0; 4]; SECONDS] }
    }
}

impl Seconds {
    #[inline]
    fn add(&mut self, now: u64, packets: f32, bits: f32) {
        let second = now / SECOND;
        if second > self.newest {
            let stale = (second - self.newest).min(SECONDS as u64);
            (0..stale).for_each(|ago| self.sums[place(second - ago)] = [0.0; 4]);
            self.newest = second;
        } else if self.newest - second >= SECONDS as u64 {
            return;
        }
        let sums = &mut self.sums[place(second)];
        for (sum, one) in sums.iter_mut().zip([packets, packets * packets, bits, bits * bits]) {
            *sum += one;
        }
    }

    /// Of all whole seconds of a stretch of time that are known.
    fn between(&self, from: u64, to: u64) -> [f64; 4] {
        let oldest = (self.newest + 1).saturating_sub(SECONDS as u64);
        let (first, last) = (from.div_ceil(SECOND).max(oldest), (to / SECOND).min(self.newest + 1));
        let mut sums = [0.0; 4];
        for second in first..last {
            let one = &self.sums[place(second)];
            sums.iter_mut().zip(one).for_each(|(sum, &one)| *sum += f64::from(one));
        }
        sums
    }
}

fn place(second: u64) -> usize {
    second as usize % SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(index: u32) -> Point {
        Point { agent: "10.0.0.1".parse().unwrap(), index }
    }

    fn at(index: u32) -> Place {
        Place { point: point(index), stream: Stream::default(), ingress: Some(true) }
    }

    fn counts(from: u64, to: u64, packets: f64, speed: f64) -> Counts {
        let (from, to) = (from * SECOND, to * SECOND);
        let stream = Stream::default();
        Counts {
            point: point(1),
            stream,
            from,
            to,
            packets: [packets, 0.0],
            bits: [packets * 8000.0, 0.0],
            speed: Some(speed),
        }
    }

    /// 1 in 1,000 of so many packets a second of 1,000 bytes are sampled, evenly.
    fn feed(ports: &mut Ports, seconds: std::ops::Range<u64>, packets: u64) {
        for time in seconds.start * packets / 1000..seconds.end * packets / 1000 {
            ports.sampled((time * SECOND * 1000 / packets, 0), at(1), 1000.0, 8e6);
        }
    }

    #[test]
    fn samples_without_counters_are_doubted() {
        let mut ports = Ports::new(&Settings::default());
        feed(&mut ports, 0..10, 50_000);
        assert_eq!(ports.doubt(10 * SECOND, at(1), false), Some(Doubt::Uncounted { point: point(1) }));
        assert!(!ports.counted(&counts(0, 20, 60_000.0, 1e10)));
        assert_eq!(ports.doubt(20 * SECOND, at(1), false), None);
        assert!(ports.doubt(150 * SECOND, at(1), false).is_some(), "they are too old by now");
    }

    #[test]
    fn another_sub_agent_does_not_vouch_for_an_interface() {
        let mut ports = Ports::new(&Settings::default());
        feed(&mut ports, 0..10, 50_000);
        ports.counted(&counts(0, 20, 60_000.0, 1e10));
        let forged = Place { stream: Stream { sub_agent: 5, run: 9 }, ..at(1) };
        ports.sampled((20 * SECOND, 0), forged, 1000.0, 8e6);
        assert_eq!(ports.doubt(20 * SECOND, forged, false), Some(Doubt::Uncounted { point: point(1) }));
        assert_eq!(ports.doubt(20 * SECOND, at(1), false), None);
    }

    #[test]
    fn samples_that_tell_of_more_than_counters_are_doubted_until_they_agree() {
        let mut ports = Ports::new(&Settings::default());
        feed(&mut ports, 0..30, 50_000);
        assert!(ports.counted(&counts(0, 30, 2_000.0, 1e10)));
        let doubt = ports.doubt(30 * SECOND, at(1), false);
        assert!(matches!(doubt, Some(Doubt::Counters { counters, .. }) if counters.value == 2000.0), "{doubt:?}");
        // What comes then agrees, and all of the last minute does only later.
        feed(&mut ports, 30..60, 50_000);
        assert!(ports.counted(&counts(30, 60, 50_000.0, 1e10)));
        feed(&mut ports, 60..90, 50_000);
        assert!(!ports.counted(&counts(60, 90, 50_000.0, 1e10)));
        assert_eq!(ports.doubt(90 * SECOND, at(1), false), None);
    }

    #[test]
    fn counters_that_are_read_seconds_before_they_are_sent_are_no_conflict() {
        // The flood began at 26; what the agent sends at 30 it had read at 26.
        let mut ports = Ports::new(&Settings::default());
        feed(&mut ports, 26..30, 500_000);
        assert!(!ports.counted(&counts(0, 30, 10.0, 1e11)));
        assert_eq!(ports.doubt(30 * SECOND, at(1), false), None);
        feed(&mut ports, 30..31, 500_000);
        assert!(!ports.counted(&counts(30, 31, 10.0, 1e11)));
    }

    /// Samples that are made up: 105,000 packets/s, of which counters tell 10,000; or a quarter more than a half of 65,000.
    #[test]
    fn samples_are_held_against_counters_however_often_those_come() {
        // How often they come, and after how many seconds of the flood they have to be doubted.
        for (every, told, counted, within) in [
            (1, 105_000, 10_000.0, 5),
            (5, 105_000, 10_000.0, 15),
            (20, 105_000, 10_000.0, 40),
            (5, 65_000, 35_000.0, 25),
        ] {
            let mut ports = Ports::new(&Settings::default());
            let mut doubted = None;
            for second in 0..100u64 {
                let is_flood = second >= 40;
                feed(&mut ports, second..second + 1, if is_flood { told } else { 5_000 });
                let to = second + 1;
                if to % every == 0 {
                    // Those of the interval in which it begins are of before, for the most part.
                    let rate = if to - every >= 40 { counted } else { 5_000.0 };
                    ports.counted(&counts(to - every, to, rate, 1e11));
                }
                if ports.doubt(to * SECOND, at(1), false).is_some_and(|doubt| matches!(doubt, Doubt::Counters { .. })) {
                    doubted.get_or_insert(to);
                }
            }
            let doubted = doubted.unwrap_or(u64::MAX);
            assert!((40..=40 + within).contains(&doubted), "every {every} s, {told} to {counted}: at {doubted}");
        }
    }

    /// True floods on agents whose counters are a copy, renewed now and then; samples come as chance has it.
    #[test]
    fn counters_of_a_copy_are_no_conflict() {
        for (every, renewed) in [(1, 1), (1, 3), (1, 5), (2, 3), (5, 5), (20, 5), (3, 4)] {
            let mut random = weir_testbed::random::Source::drawn();
            let (mut ports, mut at_s) = (Ports::new(&Settings::default()), 0.0);
            let true_total = |second: u64| 5_000.0 * second as f64 + 400_000.0 * second.saturating_sub(40) as f64;
            let mut copied = 0;
            for second in 0..200u64 {
                while at_s < (second + 1) as f64 {
                    let rate = if at_s >= 40.0 { 405_000.0 } else { 5_000.0 };
                    at_s += random.exponential(1_000.0 / rate);
                    // They wait for their datagram for up to a second.
                    ports.sampled((((at_s + random.uniform()) * 1e9) as u64, 0), at(1), 1_000.0, 8e6);
                }
                let to = second + 1;
                if to % every == 0 {
                    let read = to - to % renewed;
                    let rate = (true_total(read) - true_total(copied)) / every as f64;
                    copied = read;
                    assert!(
                        !ports.counted(&counts(to - every, to, rate, 1e11)),
                        "every {every} s, renewed {renewed}: at {to}"
                    );
                }
            }
        }
    }

    #[test]
    fn one_counter_sample_does_not_make_impossible_what_comes() {
        let mut ports = Ports::new(&Settings::default());
        let count = |ports: &mut Ports, to: u64, speed: f64| ports.counted(&counts(to - 1, to, 50_000.0, speed));
        (1..10).for_each(|to| {
            count(&mut ports, to, 1e10);
        });
        // Forged now and then, between those that come.
        for to in 10..100 {
            count(&mut ports, to, if to % 3 == 0 { 1e6 } else { 1e10 });
            feed(&mut ports, to..to + 1, 50_000);
            assert!(ports.sampled((to * SECOND, 0), at(1), 1000.0, 8e6), "{to}");
        }
        // A line that has become slower is so after a while.
        (100..170).for_each(|to| {
            ports.counted(&counts(to - 1, to, 10.0, 1e6));
        });
        assert_eq!(ports.capacity(&[at(1)]), Some(1e6 * TOLERANCE));
    }

    #[test]
    fn what_comes_at_once_behind_a_standstill_is_not_too_fast() {
        // Half of what a Gbit/s carries for six seconds, of which the last five are looked at in one.
        let mut ports = Ports::new(&Settings::default());
        ports.counted(&counts(0, 20, 62_500.0, 1e9));
        let sample = |ports: &mut Ports, time: u64, kept: u64| ports.sampled((time, kept), at(1), 100.0, 8e5);
        assert!((0..625).all(|number| sample(&mut ports, 20 * SECOND + number * SECOND / 625, 0)));
        let came = 26 * SECOND;
        assert!(
            (0..3_125).all(|number| sample(&mut ports, came + number * 100_000, 5 * SECOND)),
            "five seconds' worth"
        );
        assert!((0..625).all(|number| sample(&mut ports, came + SECOND + number * SECOND / 625, 10_000_000)));
        // No more than could have passed since, all the same.
        assert!(!(0..12_500).all(|number| sample(&mut ports, came + 5 * SECOND + number * 1_000, 2 * SECOND)));
    }

    #[test]
    fn nothing_exceeds_the_speed_of_its_interface() {
        let mut ports = Ports::new(&Settings::default());
        assert!(!ports.counted(&counts(0, 20, 10.0, 1e8)));
        feed(&mut ports, 20..24, 500_000);
        let doubt = ports.doubt(24 * SECOND, at(1), false);
        assert!(matches!(doubt, Some(Doubt::Speed { speed, .. }) if speed == 1e8), "{doubt:?}");
    }

    #[test]
    fn interfaces_are_bounded() {
        let mut ports = Ports::new(&Settings::default());
        let sampled = |index: u32| ports.sampled((u64::from(index), 0), at(index), 1.0, 1.0);
        assert!((0..2 * PORTS as u32).all(sampled));
        assert_eq!((ports.ports.len(), ports.evicted), (PORTS, PORTS as u64));
    }
}
