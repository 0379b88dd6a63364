//! Whether chance has the distribution that the settings promise. Seeds are fixed, so a test passes always or never;
//! the bounds are such that a right generator would fail one in ten thousand seeds.

use statrs::distribution::{Binomial, ChiSquared, ContinuousCDF, DiscreteCDF, Exp, Normal, Uniform};

use super::*;
use crate::model::random::{Purpose, StreamKey};

/// Least probability, on either side, of what is accepted.
const TAIL: f64 = 5e-5;

#[test]
fn bernoulli_loses_its_share() {
    for share in [0.001, 0.01, 0.05, 0.2, 0.5, 0.99] {
        for seed in 0..4 {
            let lost = drops(&Loss::Bernoulli(share), forward(seed), 100_000).len();
            assert_binomial(lost as u64, 100_000, share, &format!("loss {share}, seed {seed}"));
        }
    }
}

/// Neither clustered nor too even: the losses in blocks of 100 packets scatter as they should.
#[test]
fn bernoulli_losses_scatter() {
    let share = 0.1;
    let mut blocks = vec![0.0; 1000];
    for index in drops(&Loss::Bernoulli(share), forward(3), 100_000) {
        blocks[index as usize / 100] += 1.0;
    }
    let scatter =
        blocks.iter().map(|lost: &f64| (lost - 100.0 * share).powi(2) / (100.0 * share * (1.0 - share))).sum();
    assert_chi_squared(scatter, blocks.len(), "blocks");
}

#[test]
fn chain_loses_its_share() {
    let packets = 100_000;
    for (seed, &(to_bad, to_good, good, bad)) in
        [(0.01, 0.25, 0.0, 1.0), (0.05, 0.5, 0.001, 0.5), (0.5, 0.6, 0.2, 0.9)].iter().enumerate()
    {
        let loss = Loss::GilbertElliott { to_bad, to_good, good, bad };
        let lost = drops(&loss, forward(seed as u64), packets).len() as f64;
        let in_bad = to_bad / (to_bad + to_good);
        let share = in_bad * bad + (1.0 - in_bad) * good;
        // The chain's memory fades by this factor a packet, and adds its covariances to the variance of the mean.
        let memory: f64 = 1.0 - to_bad - to_good;
        let covariance = in_bad * (1.0 - in_bad) * (bad - good).powi(2) * 2.0 * memory / (1.0 - memory);
        let deviation = ((share * (1.0 - share) + covariance) * packets as f64).sqrt();
        let z = (lost - share * packets as f64) / deviation;
        assert!(z.abs() < 3.9, "{loss:?}: {z} standard deviations off");
    }
}

/// Lengths of bursts and of the gaps between them are geometric, with the chain's two probabilities.
#[test]
fn bursts_and_gaps_are_geometric() {
    let (to_bad, to_good) = (0.05, 0.3);
    let loss = Loss::GilbertElliott { to_bad, to_good, good: 0.0, bad: 1.0 };
    let lost = drops(&loss, forward(7), 300_000);
    let (mut bursts, mut gaps) = (Vec::new(), Vec::new());
    let mut burst = 1;
    for pair in lost.windows(2) {
        match pair[1] - pair[0] {
            1 => burst += 1,
            step => {
                bursts.push(burst);
                gaps.push(step - 1);
                burst = 1;
            }
        }
    }
    // The first burst may have begun before the flow did.
    assert_geometric(&bursts[1..], to_good, "bursts");
    assert_geometric(&gaps[1..], to_bad, "gaps");
}

#[test]
fn chain_starts_stationary() {
    let (to_bad, to_good) = (0.02, 0.08);
    let loss = Loss::GilbertElliott { to_bad, to_good, good: 0.0, bad: 1.0 };
    let first = (0..20_000).filter(|&seed| drops(&loss, forward(seed), 1) == [0]).count();
    assert_binomial(first as u64, 20_000, to_bad / (to_bad + to_good), "first packets");
}

#[test]
fn sequences_are_independent() {
    let packets = 100_000;
    let loss = Loss::Bernoulli(0.2);
    let base = indicator(&drops(&loss, forward(1), packets), packets);
    let others = [
        ("backward", Key { direction: Way::Backward, ..forward(1) }),
        ("next link", Key { link: 1, ..forward(1) }),
        ("next seed", forward(2)),
        ("distant seed", forward(1 | 1 << 63)),
    ];
    for (name, key) in others {
        assert_uncorrelated(&base, &indicator(&drops(&loss, key, packets), packets), name);
    }
    for lag in [1, 2, 3, 64] {
        assert_uncorrelated(&base[lag..], &base[..base.len() - lag], &format!("lag {lag}"));
    }

    let mut direction = Direction::new(&only_loss(loss).into(), forward(1));
    let flows = [5000, 5001, 40_000, 40_001].map(|port| direction.flow(&udp(port)));
    for flow in flows {
        for _ in 0..packets {
            direction.decide(flow, 0, 100);
        }
    }
    let flows: Vec<_> = direction.drops().iter().map(|flow| indicator(&flow.indexes, packets)).collect();
    for (place, flow) in flows.iter().enumerate() {
        for other in &flows[place + 1..] {
            assert_uncorrelated(flow, other, "flows");
        }
    }
}

#[test]
fn impairments_are_independent_and_hit_their_share() {
    let packets = 100_000;
    let impairments = Impairments {
        duplicate: 0.5,
        alterations: Alterations::only(Alteration::Corrupt, 0.2),
        reorder: Some(Reorder { probability: 0.3, by: Duration::from_millis(5) }),
        ..only_loss(Loss::List(vec![]))
    };
    let mut direction = Direction::new(&impairments.clone().into(), forward(1));
    let flow = direction.flow(&udp(5000));
    let mut hits = [const { Vec::new() }; 3];
    let (mut held, mut held_copies) = (Vec::new(), Vec::new());
    for packet in 0..packets {
        let Decision::Pass { release, alterations, copy } = direction.decide(flow, packet, 100) else {
            panic!("packet {packet} dropped");
        };
        for (hits, hit) in hits.iter_mut().zip([copy.is_some(), !alterations.is_none(), release > packet]) {
            hits.push(f64::from(u8::from(hit)));
        }
        if let Some(copy) = copy {
            held.push(f64::from(u8::from(release > packet)));
            held_copies.push(f64::from(u8::from(copy > packet)));
        }
    }
    assert_uncorrelated(&held, &held_copies, "packets and their copies");
    for (hits, share) in hits.iter().zip([0.5, 0.2, 0.3]) {
        assert_binomial(hits.iter().sum::<f64>() as u64, packets, share, "share");
    }
    for [one, other] in [[0, 1], [0, 2], [1, 2]] {
        assert_uncorrelated(&hits[one], &hits[other], "impairments");
    }
}

/// Along a sequence and across sequences (of seeds, links, flows), in the high and the low bits.
#[test]
fn draws_are_uniform() {
    let key = |seed, link| StreamKey::of(Key { seed, link, direction: Way::Forward });
    let sequences: [(&str, &dyn Fn(u64) -> u64); 5] = [
        ("indexes", &|n| key(0, 0).draw(Purpose::Loss, n)),
        ("high indexes", &|n| key(0, 0).draw(Purpose::Loss, n << 40)),
        ("seeds", &|n| key(n, 0).draw(Purpose::Loss, 0)),
        ("links", &|n| key(0, n as u32).draw(Purpose::Loss, 0)),
        ("flows", &|n| key(0, 0).with(n).draw(Purpose::Loss, 0)),
    ];
    for (name, sequence) in sequences {
        for shift in [0, 24, 56] {
            let mut bins = [0u32; 256];
            for n in 0..1 << 16 {
                bins[(sequence(n) >> shift) as usize & 255] += 1;
            }
            let statistic = bins.iter().map(|&count| (f64::from(count) - 256.0).powi(2) / 256.0).sum();
            assert_chi_squared(statistic, 255, &format!("{name}, bits from {shift}"));
        }
    }
}

#[test]
fn variation_has_its_distribution() {
    let ms = Duration::from_millis;
    let expectations: [(Distribution, Cdf); 4] = [
        (Distribution::Uniform(ms(4)), cdf(Uniform::new(0.0, 4e6).unwrap())),
        (Distribution::Exponential(ms(3)), cdf(Exp::new(1.0 / 3e6).unwrap())),
        (Distribution::Normal(ms(50), ms(5)), cdf(Normal::new(50e6, 5e6).unwrap())),
        // Cut off: what would be below 0 is 0.
        (Distribution::Normal(ms(1), ms(2)), cdf(Normal::new(1e6, 2e6).unwrap())),
    ];
    for (distribution, expected) in expectations {
        let [mut delays, copies] = variations(distribution, 100_000);
        let as_numbers = |delays: &[Nanos]| delays.iter().map(|&delay| delay as f64).collect::<Vec<_>>();
        let numbers = as_numbers(&delays);
        assert_uncorrelated(&numbers, &as_numbers(&copies), "copies");
        assert_uncorrelated(&numbers[1..], &numbers[..numbers.len() - 1], "neighbours");
        delays.sort_unstable();
        // Kolmogorov and Smirnov's distance, where the distribution is continuous.
        let n = delays.len() as f64;
        let distance = delays.iter().enumerate().filter(|&(_, &delay)| delay > 0).map(|(below, &delay)| {
            let expected = expected(delay as f64);
            (expected - below as f64 / n).abs().max((expected - (below + 1) as f64 / n).abs())
        });
        let scaled = distance.fold(0.0, f64::max) * n.sqrt();
        assert!(scaled < 2.23, "{distribution:?}: {scaled}");
    }
}

/// A cumulative distribution function.
type Cdf = Box<dyn Fn(f64) -> f64>;

/// Additions to the delays of so many packets, and of their copies.
fn variations(distribution: Distribution, packets: u64) -> [Vec<Nanos>; 2] {
    let variation = Some(Variation { distribution, order: Order::Reorder });
    let mut direction =
        Direction::new(&Impairments { variation, duplicate: 1.0, ..Impairments::default() }.into(), forward(5));
    let flow = direction.flow(&udp(5000));
    let delays = (0..packets).map(|packet| match direction.decide(flow, packet, 100) {
        Decision::Pass { release, copy: Some(copy), .. } => (release - packet, copy - packet),
        other => panic!("packet {packet}: {other:?}"),
    });
    let (originals, copies) = delays.unzip();
    [originals, copies]
}

fn cdf(distribution: impl ContinuousCDF<f64, f64> + 'static) -> Cdf {
    Box::new(move |value| distribution.cdf(value))
}

/// 1 where a packet was lost, else 0.
fn indicator(lost: &[u64], packets: u64) -> Vec<f64> {
    let mut indicator = vec![0.0; packets as usize];
    for &index in lost {
        indicator[index as usize] = 1.0;
    }
    indicator
}

fn assert_binomial(hits: u64, of: u64, share: f64, what: &str) {
    let binomial = Binomial::new(share, of).unwrap();
    let at_most = binomial.cdf(hits);
    let at_least = hits.checked_sub(1).map_or(1.0, |below| binomial.sf(below));
    assert!(at_most > TAIL && at_least > TAIL, "{what}: {hits} of {of}, expected {share}");
}

fn assert_chi_squared(statistic: f64, freedom: usize, what: &str) {
    let at_least = ChiSquared::new(freedom as f64).unwrap().sf(statistic);
    assert!((TAIL..1.0 - TAIL).contains(&at_least), "{what}: {statistic} with {freedom} degrees of freedom");
}

/// Lengths from 1, each further step ending with probability `ends`.
fn assert_geometric(lengths: &[u64], ends: f64, what: &str) {
    let n = lengths.len() as f64;
    let (mut statistic, mut bins, mut left) = (0.0, 0, 1.0);
    let mut compare = |count: usize, share: f64| {
        statistic += (count as f64 - n * share).powi(2) / (n * share);
        bins += 1;
    };
    for length in 1.. {
        let share = left * ends;
        // The last bin takes all that is longer.
        if n * (left - share) * ends < 10.0 {
            compare(lengths.iter().filter(|&&found| found >= length).count(), left);
            break;
        }
        compare(lengths.iter().filter(|&&found| found == length).count(), share);
        left -= share;
    }
    assert!(bins > 5, "{what}: too few to tell");
    assert_chi_squared(statistic, bins - 1, what);
}

fn assert_uncorrelated(one: &[f64], other: &[f64], what: &str) {
    let n = one.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
    let (one_mean, other_mean) = (mean(one), mean(other));
    let covariance = |a: &[f64], a_mean: f64, b: &[f64], b_mean: f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - a_mean) * (b - b_mean)).sum()
    };
    let together = covariance(one, one_mean, other, other_mean);
    let apart = covariance(one, one_mean, one, one_mean) * covariance(other, other_mean, other, other_mean);
    let z = together / apart.sqrt() * n.sqrt();
    assert!(z.abs() < 3.9, "{what}: correlated by {z} standard deviations");
}
