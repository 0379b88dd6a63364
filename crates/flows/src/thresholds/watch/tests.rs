use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::thresholds::{Fact, Filter, Threshold, Thresholds};

const SUBJECTS: usize = 4_096;

const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn threshold(value: f64, timeout: f64, by_flow: bool) -> Threshold {
    Threshold { metric: "m".into(), value, filter: Filter::default(), by_flow, timeout }
}

fn watch(threshold: Threshold) -> (Watch, On) {
    let mut thresholds = Thresholds::default();
    thresholds.put("t", threshold).unwrap();
    let mut watch = Watch::new(SUBJECTS);
    watch.adopt(thresholds.rules());
    let on = watch.on("m");
    (watch, on)
}

fn metric(value: f64) -> Observation {
    Observation { agent: AGENT, source: DataSource { class: 0, index: 1 }, flow: None, value, decay: None }
}

fn flow(key: u64, value: f64) -> Observation {
    Observation { flow: Some(key), decay: Some(Duration::from_secs(2)), ..metric(value) }
}

/// Seconds at which there was an event, of values at seconds.
fn events(threshold: Threshold, values: &[(u64, Observation)]) -> Vec<u64> {
    let (mut watch, on) = watch(threshold);
    let mut events = Vec::new();
    for (second, observation) in values {
        watch.observe(on.clone(), observation, &(), Duration::from_secs(*second), |_| events.push(*second));
    }
    events
}

#[test]
fn a_value_crosses_once_until_it_has_been_low_for_long_enough() {
    let at = |values: &[(u64, f64)]| {
        let values: Vec<_> = values.iter().map(|(second, value)| (*second, metric(*value))).collect();
        events(threshold(10.0, 5.0, false), &values)
    };
    assert_eq!(at(&[(0, 10.0), (1, 10.1), (2, 50.0)]), [1]);
    // Below too shortly, and up again: the clock of the hysteresis begins anew.
    assert_eq!(at(&[(0, 11.0), (1, 1.0), (5, 11.0), (6, 1.0), (10, 11.0)]), [0]);
    assert_eq!(at(&[(0, 11.0), (1, 1.0), (6, 11.0)]), [0, 6]);
    // Silence says nothing of a counter.
    assert_eq!(at(&[(0, 11.0), (1000, 11.0)]), [0]);
    // Nor does what is no number.
    assert_eq!(at(&[(0, f64::NAN), (1, 11.0), (2, f64::NAN), (9, 11.0)]), [1]);
}

#[test]
fn each_flow_crosses_or_the_first_of_a_source() {
    let values = [(0, flow(1, 20.0)), (1, flow(2, 20.0)), (2, flow(1, 20.0)), (2, flow(3, 1.0))];
    assert_eq!(events(threshold(10.0, 5.0, true), &values), [0, 1]);
    assert_eq!(events(threshold(10.0, 5.0, false), &values), [0]);
    // A small flow does not end what a large one has begun.
    let values = [(0, flow(1, 20.0)), (1, flow(2, 1.0)), (6, flow(1, 20.0))];
    assert_eq!(events(threshold(10.0, 6.0, false), &values), [0]);
}

/// 2 s x ln 2 = 1.39 s from 20 down to 10, then the timeout of 5 s.
#[test]
fn a_flow_that_ends_decays() {
    for by_flow in [false, true] {
        let again = |second| events(threshold(10.0, 5.0, by_flow), &[(0, flow(1, 20.0)), (second, flow(1, 20.0))]);
        assert_eq!(again(6), [0]);
        assert_eq!(again(7), [0, 7]);
    }
}

/// 2 s x ln 5 = 3.2 s from 50 down to 10. What begins again is small at first.
#[test]
fn a_flow_that_begins_again_crosses_again() {
    let again = |timeout, pause| {
        let on =
            |begin| (begin..begin + 8).map(move |second| (second, flow(1, if second == begin { 1.0 } else { 50.0 })));
        events(threshold(10.0, timeout, true), &on(0).chain(on(7 + pause)).collect::<Vec<_>>())
    };
    for (timeout, pause) in [(5.0, 25), (5.0, 79), (1.0, 25), (1.0, 79)] {
        assert_eq!(again(timeout, pause), [1, 8 + pause], "timeout {timeout}, pause {pause}");
    }
    assert_eq!(again(5.0, 7), [1], "quiet for 4.8 s only");
}

#[test]
fn a_crossing_makes_an_event() {
    let (mut watch, on) = watch(threshold(10.0, 5.0, false));
    let mut events = Vec::new();
    watch.observe(on, &metric(10.5), &(), Duration::ZERO, |rule| events.push(rule.event(1000, &metric(10.5))));
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!((event.timestamp, &*event.threshold_id, &*event.metric), (1000, "t", "m"));
    assert_eq!((event.agent, event.value, event.threshold), (AGENT, 10.5, 10.0));
}

struct Speed(f64);

impl Facts for Speed {
    fn fact(&self, name: &str) -> Option<Fact<'_>> {
        (name == "ifspeed").then_some(Fact::Number(self.0))
    }
}

#[test]
fn a_filter_says_whom_it_is_about() {
    let filtered = Threshold { filter: Filter::new([("ifspeed", "1000000000")]), ..threshold(10.0, 5.0, false) };
    let (mut watch, on) = watch(filtered);
    let mut count = 0;
    for (second, speed) in [(0, 1e8), (1, 1e9), (2, 1e9)] {
        watch.observe(on.clone(), &metric(11.0), &Speed(speed), Duration::from_secs(second), |_| count += 1);
    }
    watch.observe(
        on.clone(),
        &Observation { agent: Ipv4Addr::LOCALHOST.into(), ..metric(11.0) },
        &(),
        Duration::ZERO,
        |_| {
            count += 1;
        },
    );
    assert_eq!((count, watch.len()), (1, 1));
}

#[test]
fn what_changes_begins_anew_and_the_rest_goes_on() {
    let mut thresholds = Thresholds::default();
    thresholds.put("stays", threshold(10.0, 5.0, false)).unwrap();
    thresholds.put("changes", threshold(10.0, 5.0, false)).unwrap();
    let mut watch = Watch::new(SUBJECTS);
    let mut told = Vec::new();
    let observe = |watch: &mut Watch, told: &mut Vec<String>| {
        let on = watch.on("m");
        watch.observe(on, &metric(50.0), &(), Duration::ZERO, |rule| told.push(rule.name.to_string()));
    };
    watch.adopt(thresholds.rules());
    observe(&mut watch, &mut told);
    assert_eq!(std::mem::take(&mut told), ["changes", "stays"]);
    thresholds.put("changes", threshold(20.0, 5.0, false)).unwrap();
    thresholds.put("stays", threshold(10.0, 5.0, false)).unwrap();
    watch.adopt(thresholds.rules());
    assert_eq!(watch.len(), 1);
    observe(&mut watch, &mut told);
    assert_eq!(told, ["changes"]);
    assert!(watch.on("other").is_empty());
    watch.retain_agents(|agent| agent != AGENT);
    assert_eq!(watch.len(), 0);
}

#[test]
fn what_is_too_much_pushes_out_the_oldest_and_is_counted() {
    let (mut watch, on) = watch(threshold(10.0, 5.0, true));
    let (mut told, subjects) = (0, 2 * SUBJECTS as u64);
    for key in 0..subjects {
        let steady = Observation { decay: None, ..flow(key, 20.0) };
        watch.observe(on.clone(), &steady, &(), Duration::from_millis(key), |_| told += 1);
    }
    // Nobody who crosses is passed over.
    assert_eq!(told, subjects);
    assert!(watch.len() <= SUBJECTS);
    assert_eq!(watch.evicted() + watch.len() as u64, subjects);
    // The newest is known still.
    watch.observe(on, &flow(subjects - 1, 20.0), &(), Duration::from_millis(subjects), |_| told += 1);
    assert_eq!(told, subjects);
}

proptest! {
    /// Between two events of one subject its value was at or below for the timeout, in one piece; and what was low for
    /// that long and then rises is told at once. The expectation knows only the list of values.
    #[test]
    fn there_is_no_flapping_and_no_silence(
        timeout in 1..8_u64,
        steps in prop::collection::vec((1..4_u64, 0..3_u8), 1..60),
    ) {
        let mut now = 0;
        let values: Vec<(u64, bool)> = steps.iter().map(|(step, level)| {
            now += step;
            (now, *level > 0)
        }).collect();
        let observed: Vec<_> = values.iter().map(|(at, above)| (*at, metric(if *above { 11.0 } else { 10.0 }))).collect();
        let mut expected = Vec::new();
        for (index, (at, above)) in values.iter().enumerate() {
            let since_event = expected.last().map(|event| {
                let after = values.iter().position(|(at, _)| at == event).unwrap();
                &values[after..index]
            });
            // The last piece at or below, which lasts until now.
            let low_since = |past: &[(u64, bool)]| {
                let low = past.iter().rev().take_while(|(_, above)| !above).last();
                low.map(|(since, _)| *since)
            };
            // A longer piece before it would have armed it as well, and then it would have crossed at its end.
            let armed = since_event.is_none_or(|past| low_since(past).is_some_and(|since| at - since >= timeout));
            if *above && armed {
                expected.push(*at);
            }
        }
        prop_assert_eq!(events(threshold(10.0, timeout as f64, false), &observed), expected);
    }
}
