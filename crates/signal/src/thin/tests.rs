//! Against buckets made the plain way: no value differs.

use proptest::prelude::*;
use weir_wire::signal::{Body, Datagram, Element, Form, Header, Packer, Rate};
use weir_wire::signal::{Clock, Flags, Kind};

use super::*;

/// One value after another, no part, no lane.
fn naive(first: u64, samples: &[f64], bucket: u32) -> Vec<Thinned> {
    let mut all: Vec<Thinned> = Vec::new();
    for (at, &value) in (first..).zip(samples) {
        let begins = all.last().is_none_or(|_| at.is_multiple_of(bucket.into()));
        if begins {
            let bucket = Bucket { least: f64::NAN, greatest: f64::NAN, first: f64::NAN, last: f64::NAN };
            all.push(Thinned { first: at, samples: 0, bucket });
        }
        let Thinned { samples, bucket, .. } = all.last_mut().unwrap();
        *samples += 1;
        if !value.is_nan() {
            bucket.least = if bucket.least <= value { bucket.least } else { value };
            bucket.greatest = if bucket.greatest >= value { bucket.greatest } else { value };
            bucket.first = if bucket.first.is_nan() { value } else { bucket.first };
            bucket.last = value;
        }
    }
    all
}

/// Equal also where both are not numbers.
fn same(a: &[Thinned], b: &[Thinned]) -> bool {
    let values = |b: &Bucket| [b.least, b.greatest, b.first, b.last];
    let equal = |(a, b): (f64, f64)| a == b || a.is_nan() && b.is_nan();
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let each = values(&a.bucket).into_iter().zip(values(&b.bucket));
            a.first == b.first && a.samples == b.samples && each.into_iter().all(equal)
        })
}

fn thinned<S: Sample>(first: u64, parts: &[&[S]], bucket: u32) -> Vec<Thinned> {
    let (mut thinner, mut all, mut at) = (Thinner::new(bucket), Vec::new(), first);
    for part in parts {
        thinner.push(at, part, |thinned| all.push(thinned));
        at += part.len() as u64;
    }
    thinner.flush(|thinned| all.push(thinned));
    all
}

/// Cuts a slice at places that are drawn.
fn cut<'a, S>(samples: &'a [S], places: &[usize]) -> Vec<&'a [S]> {
    let mut places: Vec<_> = places.iter().map(|place| place % (samples.len() + 1)).collect();
    places.sort_unstable();
    places.push(samples.len());
    let mut begin = 0;
    places.into_iter().map(|end| &samples[std::mem::replace(&mut begin, end)..end]).collect()
}

fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => any::<f32>(),
        2 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
    ]
}

proptest! {
    #[test]
    fn floats_are_thinned_without_error(
        samples in proptest::collection::vec(value(), 1..600),
        first in 0..1_000_u64,
        bucket in 1..120_u32,
        places in proptest::collection::vec(any::<usize>(), 0..8),
    ) {
        let wide: Vec<f64> = samples.iter().map(|&value| value.into()).collect();
        let expected = naive(first, &wide, bucket);
        prop_assert!(same(&thinned(first, &cut(&samples, &places), bucket), &expected));
        prop_assert!(same(&thinned(first, &cut(&wide, &places), bucket), &expected));
    }

    #[test]
    fn integers_are_thinned_without_error(
        samples in proptest::collection::vec(any::<i16>(), 1..600),
        first in 0..1_000_u64,
        bucket in 1..120_u32,
        places in proptest::collection::vec(any::<usize>(), 0..8),
    ) {
        let wide: Vec<i32> = samples.iter().map(|&value| i32::from(value) << 16 | 7).collect();
        let expected: Vec<f64> = samples.iter().map(|&value| value.into()).collect();
        prop_assert!(same(&thinned(first, &cut(&samples, &places), bucket), &naive(first, &expected, bucket)));
        let expected: Vec<f64> = wide.iter().map(|&value| value.into()).collect();
        prop_assert!(same(&thinned(first, &cut(&wide, &places), bucket), &naive(first, &expected, bucket)));
    }

    /// Thinned twice is thinned once, and blocks are thinned as what is in them.
    #[test]
    fn buckets_are_thinned_further(
        samples in proptest::collection::vec(value(), 1..300),
        first in 0..1_000_u64,
        fine in 1..12_u32,
        times in 1..12_u32,
    ) {
        let wide: Vec<f64> = samples.iter().map(|&value| value.into()).collect();
        let (mut thinner, mut all) = (Thinner::new(fine * times), Vec::new());
        for part in naive(first, &wide, fine) {
            thinner.push_buckets(part.first, part.samples, [part.bucket], |thinned| all.push(thinned));
        }
        thinner.flush(|thinned| all.push(thinned));
        prop_assert!(same(&all, &naive(first, &wide, fine * times)));

        let mut packer = Packer::new(9000);
        let bytes = packer.block((1, first, 0), Rate::hertz(1), (Element::F32, Form::Samples), samples.len() as u16);
        wide.iter().for_each(|&value| Element::F32.write(value, bytes));
        let header = Header { kind: Kind::Data, flags: Flags::default(), clock: Clock::default(), count: 0, session: 0, sequence: 0 };
        let Ok(Datagram { body: Body::Data(mut blocks), .. }) = Datagram::parse(packer.finish(header)) else { panic!("no data") };
        let (mut thinner, mut all) = (Thinner::new(fine), Vec::new());
        thinner.push_block(&blocks.next().unwrap(), |thinned| all.push(thinned));
        thinner.flush(|thinned| all.push(thinned));
        prop_assert!(same(&all, &naive(first, &wide, fine)));
    }

    /// As they are on the wire, in parts, beside one value after another.
    #[test]
    fn the_extremes_of_a_block_are_those_of_its_samples(values in proptest::collection::vec(value(), 0..1300)) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let wide: Vec<f64> = values.iter().map(|&value| value.into()).collect();
        let [least, greatest, last] = of_wire(Element::F32, &bytes);
        let equal = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
        prop_assert!(equal(least, wide.iter().copied().fold(f64::NAN, f64::min)));
        prop_assert!(equal(greatest, wide.iter().copied().fold(f64::NAN, f64::max)));
        prop_assert!(equal(last, wide.last().copied().unwrap_or(f64::NAN)));
    }

    /// Whatever comes, every sample is in one bucket, in order.
    #[test]
    fn counts_stay_exact(pushes in proptest::collection::vec((0..50_u64, 1..200_usize, 1..70_u32), 1..30)) {
        let (mut thinner, mut all, mut at, mut due) = (Thinner::new(10), Vec::new(), 0, 0);
        for (gap, length, bucket) in pushes {
            at += gap;
            thinner.push(at, &vec![1_i16; length], |thinned| all.push(thinned));
            at += length as u64;
            due += length as u64;
            thinner.flush(|thinned| all.push(thinned));
            thinner = Thinner::new(bucket);
        }
        thinner.flush(|thinned| all.push(thinned));
        prop_assert_eq!(all.iter().map(|thinned| u64::from(thinned.samples)).sum::<u64>(), due);
        prop_assert!(all.is_sorted_by(|a, b| a.end() <= b.first));
    }
}

#[test]
fn sizes_that_do_not_divide_end_where_what_came_does() {
    let bucket = |value| Bucket { least: value, greatest: value, first: value, last: value };
    let (mut thinner, mut all) = (Thinner::new(10), Vec::new());
    thinner.push_buckets(0, 4, (0..6).map(|value| bucket(f64::from(value))), |thinned| all.push(thinned));
    thinner.flush(|thinned| all.push(thinned));
    let seen: Vec<_> = all.iter().map(|thinned| (thinned.first, thinned.samples, thinned.bucket.last)).collect();
    assert_eq!(seen, [(0, 12, 2.0), (12, 8, 4.0), (20, 4, 5.0)]);
}
