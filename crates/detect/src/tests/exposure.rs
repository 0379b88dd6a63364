//! However an agent's datagrams come, traffic below its threshold is no flood, and a flood is one soon.
//!
//! An agent is a list of datagrams in order of arrival: when each came, and of which time its samples are. Its exposures are by the rule of the
//! analyser (`rooms/sflow/src/shard/exposure.rs`): that is tested there.

use super::*;

/// When a datagram came, and since when and until when its samples were taken, s.
type Sent = (f64, f64, f64);

/// As in the analyser: what comes within a quarter of the silence before it is a burst, taken since the datagram before.
#[derive(Default)]
struct Bursts {
    last: Option<f64>,
    begun: f64,
    span: f64,
    since: f64,
    is_known: bool,
}

impl Bursts {
    fn enter(&mut self, now: f64) -> Option<f64> {
        match self.last {
            None => (self.since, self.begun, self.span) = (now, now, 0.1),
            Some(last) if now - self.begun > self.span => {
                (self.since, self.begun, self.is_known) = (last, now, true);
                self.span = ((now - last) / 4.0).clamp(0.1, 0.5);
            }
            Some(_) => {}
        }
        self.last = Some(now);
        self.is_known.then_some((now - self.since).min(10.0))
    }
}

/// So many datagrams each period, which come within some time of its end.
fn each(period: f64, count: usize, within: f64, seconds: f64) -> Vec<Sent> {
    let periods = (seconds / period) as usize;
    let of_period = |at: usize| {
        let from = at as f64 * period;
        (0..count).map(move |one| {
            let (part, of) = (one as f64, count as f64);
            let late = if count > 1 { within * part / (of - 1.0) } else { 0.0 };
            (from + period + late, from + period * part / of, from + period * (part + 1.0) / of)
        })
    };
    (0..periods).flat_map(of_period).collect()
}

/// Datagrams of a tenth of a second; those that would come while it stands still come evenly in a time after that.
fn held(every: f64, still: f64, within: f64, seconds: f64) -> Vec<Sent> {
    let mut all: Vec<Sent> = each(0.1, 1, 0.0, seconds);
    for (came, ..) in &mut all {
        let phase = (*came + every / 2.0) % every;
        if phase < still {
            *came += (still - phase) - within + within * phase / still + within;
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// The patterns of the plan.
fn patterns(seconds: f64) -> Vec<(&'static str, Vec<Sent>)> {
    vec![
        ("each 0.1 s", each(0.1, 1, 0.0, seconds)),
        ("each 10 ms", each(0.01, 1, 0.0, seconds)),
        ("each second", each(1.0, 1, 0.0, seconds)),
        ("ten a second within 10 ms", each(1.0, 10, 0.01, seconds)),
        ("ten a second within 80 ms", each(1.0, 10, 0.08, seconds)),
        ("ten a second within 300 ms", each(1.0, 10, 0.3, seconds)),
        ("each 5 s", each(5.0, 1, 0.0, seconds)),
        ("twenty each 5 s within 90 ms", each(5.0, 20, 0.09, seconds)),
        ("forty each 10 s within 40 ms", each(10.0, 40, 0.04, seconds)),
        ("stands still 2 s in 20", held(20.0, 2.0, 0.0, seconds)),
        ("stands still 2 s in 20, then within 0.5 s", held(20.0, 2.0, 0.45, seconds)),
        ("let through once in 3 s", held(3.0, 2.99, 0.0, seconds)),
    ]
}

const THRESHOLD: f64 = 40.0;

/// What is found of hosts that get so much of their threshold, all told by streams of one agent, each with its part of the load; a sample is a packet.
fn found(streams: &[(f64, Vec<Sent>)], hosts: u32, load: impl Fn(f64) -> f64) -> Vec<Finding> {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(vec![Threshold::packets(Class::UdpFlood, THRESHOLD)]));
    let mut bursts: Vec<Bursts> = streams.iter().map(|_| Bursts::default()).collect();
    let mut all: Vec<(Sent, usize)> = Vec::new();
    for (stream, (_, sent)) in streams.iter().enumerate() {
        all.extend(sent.iter().map(|one| (*one, stream)));
    }
    all.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
    let mut findings = Vec::new();
    for ((came, from, to), stream) in all {
        let exposure = bursts[stream].enter(came).map(|seconds| (seconds * 1e9) as u64);
        let time = SECOND + (came * 1e9) as u64;
        let rate = streams[stream].0 * load((from + to) / 2.0) * THRESHOLD * (to - from);
        for number in 0..hosts {
            for _ in 0..random.poisson(rate) as u64 {
                // Each in a prefix of its own.
                let packet = udp(ip("198.51.100.9"), host(256 * number), (9, 9), 100);
                let plain = sighting(time, "10.0.0.1", 1.0, packet);
                detector.sample(&Sighting { stream: stream as u32, exposure, ..plain });
            }
        }
        if detector.alive.get(&ip("10.0.0.1")).is_none_or(|heard| heard[1] + SECOND <= time) {
            alive(&mut detector, "10.0.0.1", time);
        }
        detector.tick(time, 0);
        findings.extend(detector.take_findings());
    }
    findings
}

#[test]
fn no_pattern_of_datagrams_makes_a_flood() {
    for (what, sent) in patterns(60.0) {
        for load in [0.9, 1.0] {
            let findings = found(&[(1.0, sent.clone())], 10, |_| load);
            assert_eq!(floods(&findings).len(), 0, "{what} at {load}: {:?}", standing(&findings));
        }
    }
}

#[test]
fn streams_of_different_rhythm_in_one_view_make_none_either() {
    for (fast, slow) in [(0.1, 5.0), (0.1, 1.0), (1.0, 5.0)] {
        for load in [0.9, 1.0] {
            let streams = [(0.5, each(fast, 1, 0.0, 100.0)), (0.5, each(slow, 1, 0.0, 100.0))];
            let findings = found(&streams, 20, |_| load);
            assert_eq!(floods(&findings).len(), 0, "{fast} and {slow} at {load}: {:?}", standing(&findings));
        }
    }
}

/// A flood begins at 20 s: how long until it is decided, and within what it is told a few bursts later.
#[test]
fn a_flood_is_decided_as_soon_as_its_datagrams_permit() {
    let median = |sent: &Vec<Sent>, times: f64| {
        let mut delays: Vec<f64> = (0..9)
            .map(|_| {
                let findings = found(&[(1.0, sent.clone())], 1, |at| if at < 20.0 { 0.25 } else { times });
                let told = floods(&findings);
                told.first().map_or(f64::INFINITY, |one| one.decided as f64 / 1e9 - 21.0)
            })
            .collect();
        delays.sort_by(f64::total_cmp);
        delays[4]
    };
    for (what, sent, most) in [
        ("each 0.1 s", each(0.1, 1, 0.0, 60.0), [5.0, 0.8, 0.25]),
        ("each second", each(1.0, 1, 0.0, 60.0), [6.5, 2.1, 1.1]),
        ("ten a second within 80 ms", each(1.0, 10, 0.08, 60.0), [6.5, 2.1, 1.1]),
        ("twenty each 5 s within 90 ms", each(5.0, 20, 0.09, 60.0), [11.0, 6.0, 5.2]),
    ] {
        for (times, most) in [2.0, 5.0, 20.0].into_iter().zip(most) {
            let delay = median(&sent, times);
            assert!(delay <= most, "{what}, {times} times: {delay:.2} s");
        }
    }
}

#[test]
fn what_is_told_is_what_it_is_however_it_comes() {
    for (what, sent) in patterns(60.0) {
        let findings = found(&[(1.0, sent)], 1, |at| if at < 20.0 { 0.25 } else { 20.0 });
        let told = floods(&findings);
        let last = told[told.len() - 1].evidence.packets;
        assert!(last.high.is_some() && (0.7..1.4).contains(&(last.value / 20.0 / THRESHOLD)), "{what}: {last:?}");
        let first = told[0].evidence.packets;
        assert!(first.low <= 20.0 * THRESHOLD * 1.1, "{what}: {first:?}");
    }
}
