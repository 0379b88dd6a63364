//! Impairments that change while packets pass.

use std::fmt::Write;

use proptest::prelude::*;

use super::properties::{any_impairments, any_loss, any_traffic};
use super::*;

proptest! {
    /// Whatever changes, each packet has one fate, in time, and in order where order is promised.
    #[test]
    fn every_packet_of_any_plan_is_accounted_for(
        plan in any_plan(), traffic in any_traffic(), started in prop::option::of(0..500 * MILLISECOND), seed: u64,
    ) {
        let mut direction = Direction::new(&plan, forward(seed));
        let (mut fates, mut lost, mut in_runs) = (0u64, 0u64, 0u64);
        let mut releases = Vec::new();
        for (number, packet) in traffic.iter().enumerate() {
            if number == traffic.len() / 3 && let Some(at) = started {
                direction.start_clock(at);
            }
            let min = packet.arrival + direction.least_delay();
            if let Some(release) = packet.pass_run(&mut direction) {
                prop_assert!(release >= min);
                in_runs += u64::from(packet.segments());
                releases.push(release);
                continue;
            }
            fates += 1;
            match packet.decide(&mut direction) {
                Decision::Drop(Cause::Loss) => lost += 1,
                Decision::Drop(Cause::Queue) => {}
                Decision::Pass { release, copy, .. } => {
                    prop_assert!(release >= min && copy.is_none_or(|copy| copy >= min));
                    releases.push(release);
                    releases.extend(copy);
                }
            }
        }
        let drops = direction.drops();
        prop_assert_eq!(drops.iter().map(|flow| flow.packets).sum::<u64>(), fates + in_runs);
        prop_assert_eq!(drops.iter().map(|flow| flow.indexes.len() as u64).sum::<u64>(), lost);
        prop_assert!(!direction.keeps_order() || releases.is_sorted(), "{releases:?}");
    }

    /// Steps that change nothing are not felt, to the nanosecond.
    #[test]
    fn steps_to_the_same_do_nothing(
        impairments in any_impairments(), steps in prop::collection::btree_set(1..300 * MILLISECOND, 1..5),
        repeat in prop::option::of(300..400 * MILLISECOND), traffic in any_traffic(), zero in 0..100 * MILLISECOND,
        seed: u64,
    ) {
        let step = |after| Step { after: Duration::from_nanos(after), impairments: impairments.clone() };
        let repeat = repeat.map(|repeat| Duration::from_nanos(repeat + 300 * MILLISECOND));
        let plan = Plan { first: impairments.clone(), steps: steps.into_iter().map(step).collect(), repeat };
        prop_assert_eq!(plan.validate(), Ok(()));
        let mut stepped = Direction::new(&plan, forward(seed));
        let mut steady = Direction::new(&impairments.into(), forward(seed));
        stepped.start_clock(zero);
        steady.start_clock(zero);
        for packet in &traffic {
            prop_assert_eq!(packet.decide(&mut stepped), packet.decide(&mut steady));
            prop_assert_eq!(stepped.waiting(packet.arrival), steady.waiting(packet.arrival));
        }
        prop_assert_eq!(stepped.drops(), steady.drops());
    }

    /// A packet's draws depend on its index alone: what a phase loses of a flow is what it would lose if it held
    /// always, of the packets that arrive in it. (A chain remembers, and is left out.)
    #[test]
    fn phases_lose_what_they_would_lose_alone(
        losses in prop::collection::vec(any_loss(), 3), traffic in any_traffic(), repeats: bool, seed: u64,
    ) {
        prop_assume!(losses.iter().all(|loss| !matches!(loss, Loss::GilbertElliott { .. })));
        let step = |index: usize| Step {
            after: Duration::from_millis(100 * index as u64), impairments: only_loss(losses[index].clone()),
        };
        let repeat = repeats.then_some(Duration::from_millis(300));
        let plan = Plan { first: only_loss(losses[0].clone()), steps: vec![step(1), step(2)], repeat };
        let mut stepped = Direction::new(&plan, forward(seed));
        stepped.start_clock(0);
        let mut alone = [0, 1, 2].map(|phase| Direction::new(&only_loss(losses[phase].clone()).into(), forward(seed)));
        for packet in &traffic {
            let at = packet.arrival / (100 * MILLISECOND);
            let phase = if repeats { at % 3 } else { at.min(2) } as usize;
            let expected = alone.each_mut().map(|direction| packet.decide(direction))[phase];
            prop_assert_eq!(packet.decide(&mut stepped), expected);
        }
    }

    /// A backlog that lives through changes of the rate leaves as the area below the rate says.
    #[test]
    fn backlog_is_served_at_the_rate_of_the_time(
        rates in prop::collection::vec(1_000..100_000_000u64, 1..5), lengths in prop::collection::vec(1..50 * MILLISECOND, 5),
        sizes in prop::collection::vec(28..1500u32, 1..60), zero in 1..100u64,
    ) {
        let impairments = |rate: u64| Impairments {
            rate: Some(Rate { bits_per_second: rate, burst_bytes: 0 }), ..Impairments::default()
        };
        let mut plan = Plan::from(impairments(rates[0]));
        let mut after = 0;
        for (&rate, length) in rates[1..].iter().zip(&lengths) {
            after += length;
            plan.steps.push(Step { after: Duration::from_nanos(after), impairments: impairments(rate) });
        }
        let mut direction = Direction::new(&plan, forward(1));
        direction.start_clock(zero);
        let flow = direction.flow(&udp(5000));
        let mut ahead = 0u128;
        for &bytes in &sizes {
            let decision = direction.decide(flow, zero, bytes);
            // Bits times a second over a nanosecond, which each phase works off at its rate.
            let mut work = ahead;
            let mut begins = zero;
            let mut release = None;
            for (phase, &rate) in rates.iter().enumerate() {
                let length = if phase + 1 < rates.len() { u128::from(lengths[phase]) } else { u128::MAX / u128::from(rate) };
                if work < length * u128::from(rate) {
                    release = Some(begins + work.div_ceil(u128::from(rate)) as u64);
                    break;
                }
                work -= length * u128::from(rate);
                begins += length as u64;
            }
            prop_assert_eq!(decision, Decision::Pass { release: release.expect("last"), alterations: Alterations::default(), copy: None });
            ahead += u128::from(bytes) * 8_000_000_000;
        }
    }

    /// At the ends of time and for plans that make no sense, nothing overflows and nothing takes for ever.
    #[test]
    fn any_plan_at_any_time_is_survived(
        phases in prop::collection::vec((any::<u64>(), any_impairments()), 0..4), first in any_impairments(),
        repeat: Option<u64>, zeros in any::<[u64; 2]>(), arrivals in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        let steps = phases.into_iter().map(|(after, impairments)| {
            Step { after: Duration::from_nanos(after), impairments }
        });
        let plan = Plan { first, steps: steps.collect(), repeat: repeat.map(Duration::from_nanos) };
        let mut direction = Direction::new(&plan, forward(1));
        let flow = direction.flow(&udp(5000));
        for (number, &arrival) in arrivals.iter().chain(&[u64::MAX, 0]).enumerate() {
            if let (Some(&zero), 0) = (zeros.get(number / 10), number % 10) {
                direction.start_clock(zero);
            }
            direction.decide(flow, arrival, if number % 2 == 0 { u32::MAX } else { 100 });
            direction.control(arrival);
            direction.waiting(u64::MAX);
        }
    }
}

const DELAY: Duration = Duration::from_millis(10);

#[test]
fn steps_wait_for_the_clock() {
    let lossy = Step { after: DELAY, impairments: only_loss(Loss::Bernoulli(1.0)) };
    let mut direction =
        Direction::new(&Plan { steps: vec![lossy], repeat: Some(DELAY * 2), ..Plan::default() }, forward(1));
    let flow = direction.flow(&udp(5000));
    let passes = |direction: &mut Direction, at: u64| {
        matches!(direction.decide(flow, at * MILLISECOND, 100), Decision::Pass { .. })
    };
    assert!(passes(&mut direction, 15), "not started");
    direction.start_clock(100 * MILLISECOND);
    let fates = [99, 100, 109, 110, 119, 120, 129, 130, 10_009, 10_010].map(|at| passes(&mut direction, at));
    assert_eq!(fates, [true, true, true, false, false, true, true, false, true, false]);
    direction.start_clock(20_005 * MILLISECOND);
    let fates = [20_004, 20_014, 20_015].map(|at| passes(&mut direction, at));
    assert_eq!(fates, [false, true, false], "what held goes on until the new time 0");
}

#[test]
fn packets_keep_their_order_when_the_delay_shrinks() {
    let delay = |millis| Impairments { delay: Duration::from_millis(millis), ..Impairments::default() };
    let plan = Plan { first: delay(50), steps: vec![Step { after: DELAY, impairments: delay(5) }], repeat: None };
    let mut direction = Direction::new(&plan, forward(1));
    direction.start_clock(0);
    assert_eq!(direction.least_delay(), 5 * MILLISECOND);
    assert!(direction.keeps_order());
    let flow = direction.flow(&udp(5000));
    let releases = [0, 9, 10, 40, 54, 60].map(|at| direction.pass_run(flow, at * MILLISECOND, 2).unwrap());
    assert_eq!(releases.map(|release| release / MILLISECOND), [50, 59, 59, 59, 59, 65]);
}

#[test]
fn order_is_lost_if_any_phase_loses_it() {
    let reorder = Some(Reorder { probability: 0.5, by: DELAY });
    let steps = vec![Step { after: DELAY, impairments: Impairments { reorder, ..Impairments::default() } }];
    assert!(!Direction::new(&Plan { steps, ..Plan::default() }, forward(1)).keeps_order());
}

/// 1000 bytes a millisecond; from 4.5 ms on half that: what is half through by then takes twice as long for the rest.
#[test]
fn what_waits_is_served_at_the_new_rate() {
    let rate = |bits_per_second| Impairments {
        rate: Some(Rate { bits_per_second, burst_bytes: 0 }),
        queue: QueueLimit::Packets(7),
        ..Impairments::default()
    };
    let unlimited = Step { after: Duration::from_millis(10), impairments: Impairments::default() };
    let steps = vec![Step { after: Duration::from_micros(4500), impairments: rate(4_000_000) }, unlimited];
    let mut direction = Direction::new(&Plan { first: rate(8_000_000), steps, repeat: None }, forward(1));
    direction.start_clock(0);
    let flow = direction.flow(&udp(5000));
    let releases = [0; 9].map(|at| match direction.decide(flow, at, 1000) {
        Decision::Pass { release, .. } => Some(release as f64 / 1e6),
        Decision::Drop(_) => None,
    });
    let expected = [0.0, 1.0, 2.0, 3.0, 4.0, 5.5, 7.5, 9.5].map(Some);
    assert_eq!(releases[..8], expected);
    assert_eq!(releases[8], None, "seven wait");
    let last = direction.decide(flow, MILLISECOND, 1000);
    assert_eq!(
        last,
        Decision::Pass { release: 10 * MILLISECOND, alterations: Alterations::default(), copy: None },
        "no limit any more"
    );
    assert_eq!(direction.pass_run(flow, 10 * MILLISECOND, 3), Some(10 * MILLISECOND));
}

/// A bucket keeps its tokens, as far as the new one holds them, and its debt.
#[test]
fn tokens_survive_a_change_of_the_bucket() {
    let rate = |burst_bytes| Impairments {
        rate: Some(Rate { bits_per_second: 8_000_000, burst_bytes }),
        ..Impairments::default()
    };
    // 2000 bytes at 0 leave 1000; at 1 ms, after the change, there are 2000 of old.
    for (burst, expected) in [(6000, [1.0, 2.0, 3.0]), (1500, [1.0, 2.5, 3.5]), (0, [1.0, 2.5, 4.0])] {
        let steps = vec![Step { after: Duration::from_millis(1), impairments: rate(burst) }];
        let mut direction = Direction::new(&Plan { first: rate(3000), steps, repeat: None }, forward(1));
        direction.start_clock(0);
        let flow = direction.flow(&udp(5000));
        let mut release = |at: u64, bytes| match direction.decide(flow, at * MILLISECOND, bytes) {
            Decision::Pass { release, .. } => release as f64 / 1e6,
            drop => panic!("{drop:?}"),
        };
        assert_eq!(release(0, 2000), 0.0);
        let releases = [1500, 1500, 1000].map(|bytes| release(1, bytes));
        assert_eq!(releases, expected, "a bucket of {burst} bytes");
    }
}

/// What a trace has begun to deliver, a rate finishes; what waits for a rate takes the next opportunity of a trace.
#[test]
fn rates_and_traces_take_over_from_one_another() {
    let by_rate =
        Impairments { rate: Some(Rate { bits_per_second: 8_000_000, burst_bytes: 0 }), ..Impairments::default() };
    let by_trace =
        |times: &str| Impairments { trace: Some(Arc::new(Trace::parse(times).unwrap())), ..Impairments::default() };
    let releases = |first: Impairments, micros, then, sizes: [u32; 4]| {
        let steps = vec![Step { after: Duration::from_micros(micros), impairments: then }];
        let mut direction = Direction::new(&Plan { first, steps, repeat: None }, forward(1));
        direction.start_clock(0);
        let flow = direction.flow(&udp(5000));
        let releases = sizes.map(|bytes| match direction.decide(flow, 0, bytes) {
            Decision::Pass { release, .. } => release as f64 / 1e6,
            drop => panic!("{drop:?}"),
        });
        (releases, direction.waiting(10 * MILLISECOND).packets)
    };
    // Of 3000 bytes 1500 are left at 15 ms; being begun, they wait no longer, and the next waits for them.
    let (left, waiting) = releases(by_trace("10"), 15_000, by_rate.clone(), [3000, 1000, 1000, 500]);
    assert_eq!((left, waiting), ([15.0, 16.5, 17.5, 18.5], 3));
    let (left, _) = releases(by_rate, 2_500, by_trace("1\n4"), [1000, 1000, 1000, 1500]);
    assert_eq!(left, [0.0, 1.0, 2.0, 4.0], "1 and 5 have no part in it");
    // From one trace to another, in the middle of a packet: 1504 bytes at 2, the rest at 5 and 10.
    let (left, _) = releases(by_trace("2"), 3_000, by_trace("5"), [4000, 100, 100, 1500]);
    assert_eq!(left, [10.0, 10.0, 10.0, 15.0]);
}

/// What was accepted under another plan stays ahead of what comes later, though that could leave at once.
#[test]
fn late_clock_changes_no_release_and_no_order() {
    let rate = Some(Rate { bits_per_second: 8_000_000, burst_bytes: 0 });
    let steps = vec![Step { after: DELAY, impairments: Impairments::default() }];
    let first = Impairments { rate, ..Impairments::default() };
    let mut direction = Direction::new(&Plan { first, steps, repeat: None }, forward(1));
    let flow = direction.flow(&udp(5000));
    let pass = |release| Decision::Pass { release, alterations: Alterations::default(), copy: None };
    for packet in 0..30 {
        assert_eq!(direction.decide(flow, 0, 1000), pass(packet * MILLISECOND));
    }
    direction.start_clock(0);
    assert_eq!(direction.pass_run(flow, 15 * MILLISECOND, 2), None, "14 wait");
    assert_eq!(direction.decide(flow, 15 * MILLISECOND, 1000), pass(29 * MILLISECOND));
    assert_eq!(direction.pass_run(flow, 29 * MILLISECOND, 2), Some(29 * MILLISECOND));
}

#[test]
fn chain_rests_while_another_loss_holds() {
    let chain = Loss::GilbertElliott { to_bad: 0.1, to_good: 0.1, good: 0.0, bad: 1.0 };
    let steps = [(1, Loss::None), (2, chain.clone())]
        .map(|(index, loss)| Step { after: DELAY * index, impairments: only_loss(loss) });
    let plan = Plan { first: only_loss(chain), steps: steps.to_vec(), repeat: None };
    for seed in 0..20 {
        let mut direction = Direction::new(&plan, forward(seed));
        direction.start_clock(0);
        let flow = direction.flow(&udp(5000));
        for at in 0..30 {
            direction.decide(flow, at * MILLISECOND, 100);
        }
        let lost = direction.drops().remove(0).indexes;
        assert!(!lost.iter().any(|index| (10..20).contains(index)));
        // Steps of the chain's own draws, told by a chain that never rests, from the state it was left in.
        let whole = drops(&Loss::GilbertElliott { to_bad: 0.1, to_good: 0.1, good: 0.0, bad: 1.0 }, forward(seed), 30);
        let states = |lost: &[u64]| (0..30).map(|index| lost.contains(&index)).collect::<Vec<_>>();
        let (rested, whole) = (states(&lost), states(&whole));
        assert_eq!(rested[..10], whole[..10]);
        let flips = rested[9] != whole[19];
        let expected: Vec<bool> = whole[20..].iter().map(|lost| lost ^ flips).collect();
        assert_eq!(rested[20..], expected, "moves of probability 0.1 either way are the same draws");
    }
}

/// A stream of 1000-byte packets, one a millisecond, through a bad minute in small: what happens to it by phase.
#[test]
fn fates_by_phase() {
    let rate = |kilobits: u64| Some(Rate { bits_per_second: kilobits * 1000, burst_bytes: 0 });
    let first =
        Impairments { rate: rate(10_000), delay: DELAY, queue: QueueLimit::Packets(50), ..Impairments::default() };
    let steps = [
        ("lossy", Impairments { loss: Loss::Bernoulli(0.1), ..first.clone() }),
        ("slow", Impairments { rate: rate(4_000), ..first.clone() }),
        ("far", Impairments { delay: DELAY * 8, ..first.clone() }),
        ("near", first.clone()),
        ("dead", Impairments { loss: Loss::Bernoulli(1.0), ..first.clone() }),
    ];
    let plan = Plan {
        first,
        steps: (1..).zip(&steps).map(|(n, step)| Step { after: DELAY * 20 * n, impairments: step.1.clone() }).collect(),
        repeat: Some(DELAY * 120),
    };
    let mut direction = Direction::new(&plan, forward(1));
    direction.start_clock(0);
    let flow = direction.flow(&udp(5000));
    let mut table = format!(
        "{:>7} {:>6} {:>8} {:>7} {:>14} {:>13}\n",
        "", "lost", "no room", "passed", "shortest us", "longest us"
    );
    for round in 0..2 {
        for (phase, name) in ["plain"].into_iter().chain(steps.iter().map(|step| step.0)).enumerate() {
            let begins = (round * 6 + phase as u64) * 200;
            let (mut lost, mut no_room, mut times) = (0, 0, Vec::new());
            for at in begins..begins + 200 {
                match direction.decide(flow, at * MILLISECOND, 1000) {
                    Decision::Drop(Cause::Loss) => lost += 1,
                    Decision::Drop(Cause::Queue) => no_room += 1,
                    Decision::Pass { release, .. } => times.push((release - at * MILLISECOND) / 1000),
                }
            }
            let (shortest, longest) = (times.iter().min(), times.iter().max());
            let text = |time: Option<&u64>| time.map_or("-".to_owned(), u64::to_string);
            let (shortest, longest) = (text(shortest), text(longest));
            let passed = times.len();
            writeln!(table, "{name:>7} {lost:>6} {no_room:>8} {passed:>7} {shortest:>14} {longest:>13}").unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let steps = prop::collection::vec((1..200 * MILLISECOND, any_impairments()), 0..4);
    (any_impairments(), steps, prop::option::of(1..200 * MILLISECOND)).prop_map(|(first, steps, tail)| {
        let mut after = Duration::ZERO;
        let mut ascend = |(gap, impairments)| {
            after += Duration::from_nanos(gap);
            Step { after, impairments }
        };
        let steps: Vec<Step> = steps.into_iter().map(&mut ascend).collect();
        let repeat = tail.map(|tail| after + Duration::from_nanos(tail));
        let plan = Plan { first, steps, repeat };
        assert_eq!(plan.validate(), Ok(()));
        plan
    })
}
