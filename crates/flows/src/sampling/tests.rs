//! Single cases, with the right answer by arithmetic.

use weir_testbed::random::Source;

use super::{Discards, Estimator, Sampler, Weight};
use crate::agents::Moment;

const NOW: Moment = Moment { now: 0, uptime: 0, clock: 1, epoch: 0, late: false };
const LATE: Moment = Moment { late: true, ..NOW };

/// An agent's sampler: one packet in `rate`, each of so many samples.
struct Maker {
    number: u32,
    pool: u32,
    rate: u32,
}

impl Maker {
    fn feed(&mut self, sampler: &mut Sampler, samples: u32, arrives: impl Fn(u32) -> bool) -> f64 {
        let mut sum = 0.0;
        for _ in 0..samples {
            self.number = self.number.wrapping_add(1);
            self.pool = self.pool.wrapping_add(self.rate);
            if arrives(self.number) {
                sum += self.sample(sampler).unwrap().frames;
            }
        }
        sum
    }

    fn sample(&self, sampler: &mut Sampler) -> Option<Weight> {
        sampler.sample(&NOW, self.number, self.rate, self.pool, 0)
    }
}

fn close(value: f64, truth: f64, share: f64) {
    assert!((value / truth - 1.0).abs() <= share, "{value} for {truth}");
}

#[test]
fn the_first_sample_has_the_configured_rate() {
    let weight = Sampler::default().sample(&NOW, 17, 1000, 5_000_000, 3).unwrap();
    assert_eq!(weight, Weight { frames: 1000.0, passed: None });
}

#[test]
fn every_other_sample_lost_doubles_the_weight() {
    let (mut sampler, mut maker) = (Sampler::default(), Maker { number: 0, pool: 0, rate: 400 });
    maker.feed(&mut sampler, 4_000, |number| number % 2 == 0);
    close(sampler.effective_rate(), 800.0, 0.001);
    assert_eq!((sampler.ledger().received, sampler.ledger().lost), (2_000, 1_999));
}

/// What is handed out is what the pool grew by, but for the beginning and what is still kept.
#[test]
fn a_gap_is_handed_out_whole() {
    let (mut sampler, mut maker) = (Sampler::default(), Maker { number: 0, pool: 0, rate: 400 });
    maker.feed(&mut sampler, 1_000, |_| true);
    let before = maker.pool;
    let sum = maker.feed(&mut sampler, 5_000, |number| !(2_000..2_700).contains(&number));
    close(sum, f64::from(maker.pool - before), 1e-4);
}

/// Rates, pools and drops are what others write: none of them ends the worker that reads them.
#[test]
fn any_numbers_are_taken() {
    let (mut random, mut sampler) = (Source::drawn(), Sampler::default());
    for number in 0..10_000 {
        let [rate, pool, drops] = [(); 3].map(|()| (random.uniform() * f64::from(u32::MAX)) as u32);
        let weight = sampler.sample(&NOW, number, rate, pool, drops);
        assert!(weight.is_none_or(|weight| weight.frames.is_finite()), "{number}: {weight:?}");
    }
}

#[test]
fn numbers_and_pools_wrap() {
    let (mut sampler, mut maker) =
        (Sampler::default(), Maker { number: u32::MAX - 500, pool: u32::MAX - 200_000, rate: 400 });
    maker.feed(&mut sampler, 1_000, |_| true);
    close(sampler.effective_rate(), 400.0, 1e-5);
    assert_eq!(sampler.ledger().lost, 0);
}

/// The same samples in any order within the window add up to the same.
#[test]
fn late_samples_count_once() {
    let mut random = Source::drawn();
    let (mut sampler, mut sum, mut order) = (Sampler::default(), 0.0, Vec::new());
    for block in 0..200u32 {
        let mut numbers: Vec<u32> = (0..20).map(|i| 1 + block * 20 + i).collect();
        random.shuffle(&mut numbers);
        order.extend(numbers);
    }
    for number in order {
        let weight = sampler.sample(&NOW, number, 400, number * 400, 0).unwrap();
        sum += weight.frames;
        // Again: it changes nothing.
        assert_eq!(sampler.sample(&LATE, number, 400, number * 400, 0), None);
    }
    // The first block may have begun anywhere in it.
    close(sum, 4_000.0 * 400.0, 0.03);
    assert_eq!((sampler.ledger().received, sampler.ledger().lost, sampler.ledger().duplicates), (4_000, 0, 4_000));
}

#[test]
fn a_pool_that_begins_again_changes_nothing() {
    let (mut sampler, mut maker) = (Sampler::default(), Maker { number: 0, pool: 3_000_000_000, rate: 400 });
    maker.feed(&mut sampler, 1_000, |_| true);
    maker.pool = 0;
    maker.feed(&mut sampler, 1_000, |_| true);
    close(sampler.effective_rate(), 400.0, 1e-5);
}

#[test]
fn a_restart_forgets_the_rate_but_not_the_counts() {
    let (mut sampler, mut maker) = (Sampler::default(), Maker { number: 0, pool: 0, rate: 400 });
    maker.feed(&mut sampler, 2_000, |number| number % 2 == 0);
    let weight = sampler.sample(&Moment { epoch: 1, ..NOW }, 1, 400, 400, 0).unwrap();
    assert_eq!(weight, Weight { frames: 400.0, passed: None });
    assert_eq!((sampler.estimator(), sampler.ledger().received), (Estimator::Nominal, 1_001));
}

/// The program began again: the rate is known, what was lost is counted, and what the pool grew by meanwhile is not of now.
#[test]
fn what_passed_while_nobody_looked_is_in_no_sample() {
    let (mut before, mut maker) = (Sampler::default(), Maker { number: 0, pool: 0, rate: 400 });
    maker.feed(&mut before, 4_000, |number| number % 2 == 0);
    let kept = postcard::to_allocvec(&before).unwrap();
    let mut sampler: Sampler = postcard::from_bytes(&kept).unwrap();
    maker.feed(&mut sampler, 6_000, |_| false);
    let weight = maker.sample(&mut sampler).unwrap();
    assert_eq!((sampler.estimator(), weight.passed), (Estimator::Pool, None));
    close(weight.frames, 800.0, 0.001);
    assert_eq!((sampler.ledger().received, sampler.ledger().lost), (2_001, 7_998));
    let sum = maker.feed(&mut sampler, 2_000, |number| number % 2 == 0);
    close(sum, 800_000.0, 0.001);
}

#[test]
fn a_changed_rate_holds_at_once() {
    let (mut sampler, mut maker) = (Sampler::default(), Maker { number: 0, pool: 0, rate: 400 });
    maker.feed(&mut sampler, 2_000, |number| number % 2 == 0);
    maker.rate = 4_000;
    let sum = maker.feed(&mut sampler, 2_000, |number| number % 2 == 0);
    close(sum, 8_000_000.0, 0.01);
}

/// In a flood the agent thins its samples out and says so: from 1:5,000 to 1:1,000,000.
#[test]
fn samples_that_the_agent_dropped_are_in_the_pool() {
    let mut sampler = Sampler::default();
    let mut sum = 0.0;
    for i in 1..=2_000u32 {
        sum += sampler.sample(&NOW, i, 5_000, i.wrapping_mul(1_000_000), 199 * i).unwrap().frames;
    }
    close(sum, 2_000.0 * 1e6, 0.02);
    assert_eq!(sampler.dropped(), 199 * 1_999);
}

/// Open vSwitch: the pool is the configured rate times the number of samples made.
#[test]
fn a_made_up_pool_still_tells_what_was_lost() {
    let (mut sampler, mut maker) = (Sampler::default(), Maker { number: 0, pool: 0, rate: 64 });
    let mut random = Source::drawn();
    let lost: Vec<bool> = (0..=20_000).map(|_| random.uniform() < 0.3).collect();
    let sum = maker.feed(&mut sampler, 20_000, |number| !lost[number as usize]);
    close(sum, 20_000.0 * 64.0, 0.01);
    assert_eq!((sampler.estimator(), sampler.counts_packets()), (Estimator::Pool, false));
}

#[test]
fn without_a_pool_sequence_numbers_tell_what_was_lost() {
    for pool in [0, 77] {
        let mut sampler = Sampler::default();
        let numbers = (1..=4_000u32).filter(|number| number % 4 != 0);
        let sum: f64 = numbers.map(|number| sampler.sample(&NOW, number, 100, pool, 0).unwrap().frames).sum();
        close(sum, 400_000.0, 0.01);
        assert_eq!(sampler.estimator(), Estimator::Sequence);
    }
}

/// A pool that stops is left within 32 samples, and taken up again when it goes on.
#[test]
fn a_pool_that_stops_is_not_believed() {
    let (mut sampler, mut maker) = (Sampler::default(), Maker { number: 0, pool: 0, rate: 100 });
    maker.feed(&mut sampler, 1_000, |_| true);
    let stopped = maker.pool;
    for _ in 0..100 {
        maker.number += 1;
        assert!(sampler.sample(&NOW, maker.number, 100, stopped, 0).unwrap().frames >= 75.0);
    }
    assert_eq!((sampler.estimator(), sampler.effective_rate()), (Estimator::Sequence, 100.0));
    maker.feed(&mut sampler, 1_000, |_| true);
    assert_eq!(sampler.estimator(), Estimator::Pool);
    close(sampler.effective_rate(), 100.0, 0.01);
}

/// A configured rate that is far from what the pool counts, or none at all: the pool counts.
#[test]
fn a_pool_that_moves_goes_before_the_told_rate() {
    let mut random = Source::drawn();
    for told in [0, 1, 12, 800, 1_000, 2_000_000] {
        let (mut sampler, mut pool, mut sum, mut after) = (Sampler::default(), 7_u32, 0.0, 0);
        for number in 1..=3_000 {
            pool += 1 + random.number(0..200) as u32;
            let weight = sampler.sample(&NOW, number, told, pool, 0).unwrap();
            if number == 500 {
                (sum, after) = (0.0, pool);
            }
            sum += if number > 500 { weight.frames } else { 0.0 };
        }
        close(sum, f64::from(pool - after), 0.03);
        assert_eq!(sampler.estimator(), Estimator::Pool, "{told}");
    }
}

/// Two samplers behind one data source, each with a pool of its own, that number their samples together: what leaps is believed by nobody.
#[test]
fn pools_of_two_are_never_taken_for_traffic() {
    let mut random = Source::drawn();
    let (mut sampler, mut pools, mut sum) = (Sampler::default(), [7_u32, 500_000_000], 0.0);
    for number in 1..=4_000 {
        let pool = &mut pools[usize::from(random.uniform() < 0.5)];
        *pool += 100;
        let moment = Moment { now: u64::from(number) * 5_000_000, ..NOW };
        sum += sampler.sample(&moment, number, 100, *pool, 0).unwrap().frames;
    }
    close(sum, 400_000.0, 0.05);
}

/// Agents that do not count their samples, or begin to count again: their datagrams are in order.
#[test]
fn numbers_that_stand_still_or_go_back_lose_no_sample() {
    let (mut sampler, mut sum) = (Sampler::default(), 0.0);
    for i in 1..=1_000u32 {
        sum += sampler.sample(&NOW, 0, 100, i * 100, 0).unwrap().frames;
    }
    close(sum, 100_000.0, 0.01);
    let (mut sampler, mut sum) = (Sampler::default(), 0.0);
    for i in 1..=1_000u32 {
        sum += sampler.sample(&NOW, i % 100, 100, i * 100, 0).unwrap().frames;
    }
    close(sum, 100_000.0, 0.01);
}

#[test]
fn a_rate_of_zero_is_one() {
    assert_eq!(Sampler::default().sample(&NOW, 1, 0, 0, 0).unwrap().frames, 1.0);
}

/// An agent that sends `told` of the `dropped` packets of each second, the first of them, one after the other.
fn drop_for(
    discards: &mut Discards,
    clock: &mut u64,
    totals: &mut [u32; 2],
    seconds: u32,
    dropped: u32,
    told: u32,
) -> f64 {
    let mut sum = 0.0;
    for _ in 0..seconds {
        for number in 0..told {
            totals[0] = totals[0].wrapping_add(1);
            let now = *clock + u64::from(number) * 1_000_000_000 / u64::from(dropped);
            sum += discards.sample(&Moment { now, ..NOW }, totals[0], totals[1]).unwrap();
        }
        totals[1] = totals[1].wrapping_add(dropped - told);
        *clock += 1_000_000_000;
    }
    sum
}

#[test]
fn told_drops_stand_for_those_that_are_only_counted() {
    let (mut discards, mut clock, mut totals) =
        (Discards::default(), 1_000_000_000, [u32::MAX - 5_000, u32::MAX - 50_000]);
    let mut of = |seconds, dropped, told| drop_for(&mut discards, &mut clock, &mut totals, seconds, dropped, told);
    assert_eq!(of(10, 100, 100), 1_000.0, "all are told");
    of(10, 2_000, 100);
    close(of(60, 2_000, 100), 120_000.0, 0.01);
    // What was kept back is handed out within seconds, not within so many samples.
    of(30, 1, 1);
    close(of(60, 1, 1), 60.0, 0.1);
}

#[test]
fn a_first_drop_a_restart_and_a_long_silence_tell_no_flood() {
    let (mut discards, mut clock, mut totals) = (Discards::default(), 1_000_000_000, [7, 1_000_000]);
    assert_eq!(drop_for(&mut discards, &mut clock, &mut totals, 1, 100, 1), 1.0, "drops of before are not of now");
    drop_for(&mut discards, &mut clock, &mut totals, 20, 2_000, 100);
    let again = Moment { now: clock, epoch: 1, ..NOW };
    assert_eq!(discards.sample(&again, 1, 0), Some(1.0));
    assert_eq!(discards.sample(&again, 2, 0), Some(1.0), "nor is what an agent kept back that began again");
    // 5,000 in an hour are 7 in the last 5 s.
    let later = Moment { now: clock + 3_600_000_000_000, ..again };
    let weight = discards.sample(&later, 3, 5_000).unwrap();
    assert!(weight < 10.0, "{weight}");
    // The analyser itself began again, and does not know for how long it was away.
    let mut kept = postcard::from_bytes::<Discards>(&postcard::to_allocvec(&discards).unwrap()).unwrap();
    let weight = kept.sample(&Moment { now: later.now + 1, ..again }, 4, 90_000);
    assert_eq!(weight, Some(1.0));
}
