//! The least and the greatest of a slice, at the speed of the memory: in lanes, which the compiler makes vectors of.

use weir_wire::signal::{Bucket, Element};

/// A value that can be thinned: `f32`, `f64`, `i16`, `i32`.
pub trait Sample: sealed::Sealed {}

mod sealed {
    /// What the four types have in common.
    pub trait Sealed: Copy + PartialOrd + Into<f64> {
        /// Not less than any.
        const GREATEST: Self;
        /// Not greater than any.
        const LEAST: Self;

        /// Whether it is no number.
        fn is_none(self) -> bool;

        /// The least and the greatest of those that are numbers; of none [`Self::GREATEST`] and [`Self::LEAST`].
        fn bounds(samples: &[Self]) -> (Self, Self);
    }
}

/// Lanes: as many as fill the vectors that the processor compares at a time, and not more than a short bucket has values.
macro_rules! sample {
    ($type:ty, $lanes:literal, $least:expr, $greatest:expr, $is_none:expr) => {
        impl Sample for $type {}
        impl sealed::Sealed for $type {
            const GREATEST: Self = $greatest;
            const LEAST: Self = $least;

            fn is_none(self) -> bool {
                $is_none(self)
            }

            fn bounds(samples: &[Self]) -> (Self, Self) {
                bounds::<Self, $lanes>(samples)
            }
        }
    };
}

sample!(f32, 32, f32::NEG_INFINITY, f32::INFINITY, f32::is_nan);
sample!(f64, 16, f64::NEG_INFINITY, f64::INFINITY, f64::is_nan);
sample!(i16, 32, i16::MIN, i16::MAX, |_| false);
sample!(i32, 32, i32::MIN, i32::MAX, |_| false);

/// What a bucket says of at least one sample.
pub(super) fn extremes<S: Sample>(samples: &[S]) -> Bucket {
    let (least, greatest) = S::bounds(samples);
    let number = |value: Option<&S>| value.map_or(f64::NAN, |&value| value.into());
    let first = number(samples.iter().find(|value| !value.is_none()));
    let last = number(samples.iter().rev().find(|value| !value.is_none()));
    // Of none that is a number, the least is still above the greatest.
    let (least, greatest) = if least > greatest { (f64::NAN, f64::NAN) } else { (least.into(), greatest.into()) };
    Bucket { least, greatest, first, last }
}

/// The least and the greatest of samples as they are on the wire, of those that are numbers, and the last, whatever it is; of none three
/// that are no numbers.
pub fn of_wire(element: Element, bytes: &[u8]) -> [f64; 3] {
    match element {
        Element::F32 => read(bytes, f32::from_le_bytes),
        Element::F64 => read(bytes, f64::from_le_bytes),
        Element::I16 => read(bytes, i16::from_le_bytes),
        Element::I32 => read(bytes, i32::from_le_bytes),
    }
}

fn read<S: Sample, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> S) -> [f64; 3] {
    let (values, _) = bytes.as_chunks::<N>();
    let (mut least, mut greatest, mut part) = (S::GREATEST, S::LEAST, [S::LEAST; PART]);
    for values in values.chunks(PART) {
        let part = &mut part[..values.len()];
        part.iter_mut().zip(values).for_each(|(to, &bytes)| *to = value(bytes));
        let (low, high) = S::bounds(part);
        least = if low < least { low } else { least };
        greatest = if high > greatest { high } else { greatest };
    }
    let last = values.last().map_or(f64::NAN, |&bytes| value(bytes).into());
    if least > greatest { [f64::NAN, f64::NAN, last] } else { [least.into(), greatest.into(), last] }
}

fn bounds<S: Sample, const LANES: usize>(samples: &[S]) -> (S, S) {
    // What is no number is neither lower nor higher, and leaves both as they are.
    let lower = |least: S, value: S| if value < least { value } else { least };
    let higher = |greatest: S, value: S| if value > greatest { value } else { greatest };
    let (mut least, mut greatest, mut rest) = (S::GREATEST, S::LEAST, samples);
    if samples.len() >= 2 * LANES {
        let (chunks, behind) = samples.as_chunks::<LANES>();
        let (mut lows, mut highs) = ([least; LANES], [greatest; LANES]);
        for chunk in chunks {
            for lane in 0..LANES {
                lows[lane] = lower(lows[lane], chunk[lane]);
                highs[lane] = higher(highs[lane], chunk[lane]);
            }
        }
        least = lows.into_iter().fold(least, lower);
        greatest = highs.into_iter().fold(greatest, higher);
        rest = behind;
    }
    for &value in rest {
        least = lower(least, value);
        greatest = higher(greatest, value);
    }
    (least, greatest)
}

/// Samples that are read at once: a datagram has hardly more.
const PART: usize = 512;
