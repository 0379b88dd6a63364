//! That false alarms are as rare as is stated, with a rate that can be seen, and with the real one by importance sampling.

use super::*;
use crate::sequential::{Bar, Most, RATIOS, Test, YEAR};

/// How packets come that conform.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// One after the other.
    Even,
    /// The whole burst at once, as often as the bucket allows: all that is permitted, as unevenly as may be.
    Bursts,
    /// One after the other, and told all together as often as such a burst is full.
    Kept,
}

/// False alarms of one test over so many days, at exactly the threshold; sampling by the gaps between sampled packets.
fn alarms(
    random: &mut Source,
    days: f64,
    rate: f64,
    burst: f64,
    weights: &[f32],
    permitted: f64,
    how: Arrivals,
) -> f64 {
    let allowed = if matches!(how, Arrivals::Bursts) { burst / rate } else { 0.0 };
    let confidence = Confidence::new(permitted * YEAR / 86_400.0, 1.0, allowed);
    let (bar, mut test) = (Bar::new(rate), Test::default());
    let most = Most::new(weights.iter().copied().fold(0.0, f32::max));
    let (mut packets, mut alarms, total) = (0.0, 0.0, days * 86_400.0 * rate);
    loop {
        let weight = weights[random.size(0..weights.len())];
        // The next packet that is sampled: geometric.
        packets += 1.0 + ((1.0 - random.uniform()).ln() / (-1.0 / f64::from(weight)).ln_1p()).floor();
        if packets > total {
            return alarms;
        }
        let seconds = match how {
            Arrivals::Even => packets / rate,
            Arrivals::Bursts => (packets / burst).floor() * burst / rate,
            Arrivals::Kept => (packets / burst).ceil() * burst / rate,
        };
        let kept = if matches!(how, Arrivals::Kept) { burst / rate } else { 0.0 };
        let when = ((seconds * 1e9) as u64, (kept * 1e9) as u64);
        // The clock of tests is in ns; slowed down a million times it lasts for the whole simulation.
        let standing = test.sample(when, weight, most, &bar, &confidence);
        if standing.share >= 1.0 {
            alarms += 1.0;
            test = Test::default();
            test.sample(when, 0.0, most, &bar, &confidence);
        }
    }
}

/// 120,000 days of a target that always gets exactly what it may. At one permitted alarm in 20 days.
#[test]
fn alarms_at_the_threshold_are_no_more_than_permitted() {
    let mut random = Source::drawn();
    for (what, burst, weights, how) in [
        ("even", 0.0, &[1000.0][..], Arrivals::Even),
        ("several rates", 0.0, &[1000.0, 300.0, 50.0][..], Arrivals::Even),
        ("bursts", 4000.0, &[1000.0][..], Arrivals::Bursts),
        ("kept", 40_000.0, &[1000.0][..], Arrivals::Kept),
    ] {
        let (days, permitted) = (40_000.0, 0.05);
        let found = alarms(&mut random, days, 10.0, burst, weights, permitted, how);
        let bound = days * permitted;
        println!("{what}: {found} false alarms in {days} days, {bound} permitted");
        assert!(found <= bound + 4.0 * bound.sqrt(), "{what}: {found} of {bound}");
        // A test that never alarms takes more samples to decide than it has to. Samples that count little are worth less than is reckoned.
        assert!(found >= if what == "even" { 0.02 } else { 0.0 } * bound, "{what}: {found} of {bound}");
    }
}

/// The same at one false alarm a year among 65,536 targets with six tests: too rare to be waited for. Under traffic of r times the
/// threshold alarms come soon; each counts as much less as it is less likely at the threshold, which is exp(-S) of the test of ratio r.
#[test]
fn alarms_at_the_stated_rate_are_no_more_than_permitted() {
    let mut random = Source::drawn();
    let (rate, weight) = (40_000.0f64, 1000.0f32);
    let tests = 65_536.0 * 6.0;
    let confidence = Confidence::new(1.0, tests, 0.0);
    let (bar, most) = (Bar::new(rate), Most::new(weight));
    for ratio in RATIOS.map(f64::from) {
        let per_second = rate / f64::from(weight);
        // A cycle begins with a sample that comes to empty buckets, and ends when they are empty again. `leak` as in the test.
        let leak = (ratio - 1.0) / ratio.ln();
        let (runs, mut sum) = (20_000, 0.0);
        for _ in 0..runs {
            let (mut time, mut held, mut passed) = (0.0f64, 1.0f64, 0.0f64);
            let mut test = Test::default();
            test.sample((0, 0), weight, most, &bar, &confidence);
            loop {
                let gap = random.exponential(1.0 / (per_second * ratio));
                held -= leak * per_second * gap;
                if held <= 0.0 {
                    break;
                }
                (time, passed, held) = (time + gap, passed + gap * per_second, held + 1.0);
                let standing = test.sample(((time * 1e9) as u64, 0), weight, most, &bar, &confidence);
                if standing.share >= 1.0 {
                    if (f64::from(RATIOS[standing.ratio]) - ratio).abs() < 1e-3 {
                        // Likelihood at the threshold over that at r times it, of all samples but the first.
                        let samples = ((held + leak * passed) - 1.0).round();
                        sum += (-samples * ratio.ln() + (ratio - 1.0) * passed).exp();
                    }
                    break;
                }
            }
        }
        // Cycles a second are fewer than samples.
        let yearly = sum / f64::from(runs) * per_second * YEAR;
        let bound = 1.0 / tests / RATIOS.len() as f64;
        println!("ratio {ratio}: {yearly:.2e} false alarms a year and test, {bound:.2e} permitted");
        assert!(yearly <= 1.2 * bound && yearly > 1e-4 * bound, "{ratio}: {yearly} of {bound}");
    }
}

/// Were it not for the burst in the depth, what conforms would alarm.
#[test]
fn a_burst_that_is_not_permitted_alarms() {
    let mut random = Source::drawn();
    let (bar, most) = (Bar::new(40_000.0), Most::new(100.0));
    let confidence = Confidence::new(1.0, 65_536.0, 0.1);
    for (burst, alarms) in [(4_000.0, false), (60_000.0, true)] {
        let mut test = Test::default();
        let samples = random.binomial(burst as u64, 0.01);
        let share =
            (0..samples).map(|_| test.sample((SECOND, 0), 100.0, most, &bar, &confidence).share).fold(0.0, f32::max);
        assert_eq!(share >= 1.0, alarms, "{burst}: {share}");
    }
}
