//! The least and the greatest of a slice, at the speed of the memory: in lanes, which the compiler makes vectors of.

use weir_wire::signal::Bucket;

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
    }
}

macro_rules! sample {
    ($type:ty, $least:expr, $greatest:expr, $is_none:expr) => {
        impl Sample for $type {}
        impl sealed::Sealed for $type {
            const GREATEST: Self = $greatest;
            const LEAST: Self = $least;

            fn is_none(self) -> bool {
                $is_none(self)
            }
        }
    };
}

sample!(f32, f32::NEG_INFINITY, f32::INFINITY, f32::is_nan);
sample!(f64, f64::NEG_INFINITY, f64::INFINITY, f64::is_nan);
sample!(i16, i16::MIN, i16::MAX, |_| false);
sample!(i32, i32::MIN, i32::MAX, |_| false);

/// What a bucket says of at least one sample.
pub(super) fn extremes<S: Sample>(samples: &[S]) -> Bucket {
    let (chunks, rest) = samples.as_chunks::<LANES>();
    let (mut least, mut greatest) = ([S::GREATEST; LANES], [S::LEAST; LANES]);
    for chunk in chunks {
        for lane in 0..LANES {
            // What is no number is neither, and leaves both as they are.
            least[lane] = if chunk[lane] < least[lane] { chunk[lane] } else { least[lane] };
            greatest[lane] = if chunk[lane] > greatest[lane] { chunk[lane] } else { greatest[lane] };
        }
    }
    let lower = |least: S, &value: &S| if value < least { value } else { least };
    let higher = |greatest: S, &value: &S| if value > greatest { value } else { greatest };
    let least: f64 = least.iter().chain(rest).fold(S::GREATEST, lower).into();
    let greatest: f64 = greatest.iter().chain(rest).fold(S::LEAST, higher).into();
    let number = |value: Option<&S>| value.map_or(f64::NAN, |&value| value.into());
    let (first, last) = (
        number(samples.iter().find(|value| !value.is_none())),
        number(samples.iter().rev().find(|value| !value.is_none())),
    );
    // Of none that is a number, the least is still above the greatest.
    if least > greatest {
        Bucket { least: f64::NAN, greatest: f64::NAN, first, last }
    } else {
        Bucket { least, greatest, first, last }
    }
}

/// As many as keep the units of a processor busy, whose next comparison need not wait for the last.
const LANES: usize = 16;
