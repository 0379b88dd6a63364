//! Token bucket in exact integer arithmetic.
//!
//! A packet leaves once the bucket holds its size, or is full if the packet is larger than the bucket, and those before
//! it have left. The release is when its sending starts: the next packet waits for its time on the wire.
//!
//! Instead of tokens the bucket keeps the time at which it will be full again, in nanoseconds and a remainder in units
//! of 1/rate nanoseconds. Only releases are rounded, up to the next nanosecond, so no error adds up.

use super::{Nanos, Rate};

/// A bucket after the packets it has let through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    bits_per_second: u64,
    burst_bytes: u64,
    /// Time for an empty bucket to fill.
    fill_time: ExactTime,
    /// When the bucket is full again if nothing more is sent.
    full_at: ExactTime,
    /// The last size, and its time at the rate.
    last_size: (u32, ExactTime),
}

/// A point or length of time; `part` is in units of 1/rate nanoseconds, below the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExactTime {
    nanos: Nanos,
    part: u64,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(rate: Rate) -> Self {
        let bits_per_second = rate.bits_per_second.max(1);
        Bucket {
            bits_per_second,
            burst_bytes: rate.burst_bytes,
            fill_time: time_for(rate.burst_bytes, bits_per_second),
            full_at: ExactTime { nanos: 0, part: 0 },
            last_size: (0, ExactTime { nanos: 0, part: 0 }),
        }
    }

    /// When a packet that may leave from `floor` on does so, and the turn to [`take`](Self::take) if it passes.
    #[inline]
    pub(super) fn turn(&mut self, floor: Nanos, bytes: u32) -> (ExactTime, ExactTime) {
        let full_before = self.full_at.max(ExactTime { nanos: floor, part: 0 });
        let full_after = full_before.plus(self.time_for(bytes), self.bits_per_second);
        let start = if u64::from(bytes) > self.burst_bytes {
            full_before
        } else {
            full_after.minus(self.fill_time, self.bits_per_second)
        };
        (start, full_after)
    }

    /// Lets the packet of this turn through.
    #[inline]
    pub(super) fn take(&mut self, full_after: ExactTime) {
        self.full_at = full_after;
    }

    /// The bucket that replaces this one at `time`: it begins with this one's tokens, up to its size, or its debt.
    pub(super) fn replaced(&self, rate: Rate, time: Nanos) -> Self {
        let new = Bucket::new(rate);
        // The missing bits times a second over a nanosecond: a whole number at any rate.
        let debt = match self.full_at.nanos.checked_sub(time) {
            None => 0,
            Some(nanos) => u128::from(nanos) * u128::from(self.bits_per_second) + u128::from(self.full_at.part),
        };
        let [old_depth, new_depth] =
            [self.burst_bytes, new.burst_bytes].map(|bytes| u128::from(bytes) * u128::from(BIT_NANOS_PER_BYTE));
        let debt = debt.saturating_add(new_depth).saturating_sub(old_depth);
        let rate = u128::from(new.bits_per_second);
        let nanos = Nanos::try_from(debt / rate).unwrap_or(Nanos::MAX);
        let full_at = ExactTime { nanos: time.saturating_add(nanos), part: (debt % rate) as u64 };
        Bucket { full_at, ..new }
    }

    #[inline]
    fn time_for(&mut self, bytes: u32) -> ExactTime {
        if self.last_size.0 != bytes {
            self.last_size = (bytes, time_for(u64::from(bytes), self.bits_per_second));
        }
        self.last_size.1
    }
}

impl ExactTime {
    /// Saturates at the end of time.
    #[inline]
    fn plus(self, other: ExactTime, bits_per_second: u64) -> ExactTime {
        // Both parts are below the rate, but their sum may overflow.
        let room = bits_per_second - other.part;
        let (carry, part) = if self.part >= room { (1, self.part - room) } else { (0, self.part + other.part) };
        ExactTime { nanos: self.nanos.saturating_add(other.nanos).saturating_add(carry), part }
    }

    /// Saturates at 0.
    #[inline]
    fn minus(self, other: ExactTime, bits_per_second: u64) -> ExactTime {
        if self <= other {
            return ExactTime { nanos: 0, part: 0 };
        }
        let (borrow, part) = if self.part >= other.part {
            (0, self.part - other.part)
        } else {
            (1, bits_per_second - (other.part - self.part))
        };
        ExactTime { nanos: self.nanos - other.nanos - borrow, part }
    }

    /// Its last whole nanosecond.
    #[inline]
    pub(super) fn rounded_down(self) -> Nanos {
        self.nanos
    }

    /// The first whole nanosecond that is not before it.
    #[inline]
    pub(super) fn rounded_up(self) -> Nanos {
        self.nanos.saturating_add(u64::from(self.part > 0))
    }
}

/// Bits of a byte, times a second over a nanosecond.
const BIT_NANOS_PER_BYTE: u64 = 8_000_000_000;

/// Time of this many bytes at the rate.
fn time_for(bytes: u64, bits_per_second: u64) -> ExactTime {
    if let Some(work) = bytes.checked_mul(BIT_NANOS_PER_BYTE) {
        return ExactTime { nanos: work / bits_per_second, part: work % bits_per_second };
    }
    let work = u128::from(bytes) * u128::from(BIT_NANOS_PER_BYTE);
    let rate = u128::from(bits_per_second);
    ExactTime { nanos: Nanos::try_from(work / rate).unwrap_or(Nanos::MAX), part: (work % rate) as u64 }
}
