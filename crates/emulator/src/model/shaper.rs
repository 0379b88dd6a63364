//! Token bucket with a drop-tail queue before it, in exact integer arithmetic.
//!
//! A packet leaves as soon as the bucket holds its size, or is full if it is larger than the bucket, and those before it
//! have left. Release is when the packet starts to be sent: the time on the wire is what the next one waits for.
//!
//! Instead of tokens the bucket keeps the instant at which it will be full again, as nanoseconds and a remainder in
//! units of 1/rate nanoseconds. Nothing is rounded but the releases, up to the next nanosecond, so no error adds up.

use std::collections::VecDeque;

use super::{Nanos, QueueLimit, Rate};

/// Packets wait here for their turn.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    bits_per_second: u64,
    burst_bytes: u64,
    /// How long an empty bucket takes to fill.
    fill_time: ExactTime,
    limit: QueueLimit,
    /// When the bucket is full again if nothing more is sent.
    full_at: ExactTime,
    /// Release and size of what waits, in order, and of what left since the last arrival.
    waiting: VecDeque<(Nanos, u32)>,
    waiting_bytes: u64,
    /// The size met last, and the time that the rate takes for it.
    last_size: (u32, ExactTime),
}

/// What waits for a shaper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// IP packets, the one being sent not included.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

/// A point or length of time; `part` is in units of 1/rate nanoseconds, below the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ExactTime {
    nanos: Nanos,
    part: u64,
}

impl Shaper {
    pub(super) fn new(rate: Rate, limit: QueueLimit) -> Self {
        let bits_per_second = rate.bits_per_second.max(1);
        Shaper {
            bits_per_second,
            burst_bytes: rate.burst_bytes,
            fill_time: time_for(rate.burst_bytes, bits_per_second),
            limit,
            full_at: ExactTime { nanos: 0, part: 0 },
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last_size: (0, ExactTime { nanos: 0, part: 0 }),
        }
    }

    /// When a packet that arrives `now` leaves; `None` if the queue has no room for it. A packet that can leave at once
    /// needs no room. `now` never decreases.
    #[inline]
    pub(super) fn offer(&mut self, now: Nanos, bytes: u32) -> Option<Nanos> {
        self.forget_until(now);
        let full_before = self.full_at.max(ExactTime { nanos: now, part: 0 });
        let full_after = full_before.plus(self.time_for(bytes), self.bits_per_second);
        let start = if u64::from(bytes) > self.burst_bytes {
            full_before
        } else {
            full_after.minus(self.fill_time, self.bits_per_second)
        };
        let release = start.rounded_up().max(now);
        if release > now {
            if !self.has_room(bytes) {
                return None;
            }
            self.waiting.push_back((release, bytes));
            self.waiting_bytes += u64::from(bytes);
        }
        self.full_at = full_after;
        Some(release)
    }

    /// What waits at `time`, which lies not before the last arrival.
    pub(super) fn waiting(&self, time: Nanos) -> Waiting {
        let left = self.waiting.partition_point(|&(release, _)| release <= time);
        let still = self.waiting.range(left..);
        Waiting {
            packets: still.len() as u64,
            bytes: still.map(|&(_, bytes)| u64::from(bytes)).sum(),
        }
    }

    #[inline]
    fn forget_until(&mut self, now: Nanos) {
        while let Some(&(release, bytes)) = self.waiting.front()
            && release <= now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
        }
    }

    #[inline]
    fn has_room(&self, bytes: u32) -> bool {
        match self.limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Bytes(most) => self.waiting_bytes + u64::from(bytes) <= most,
            QueueLimit::Packets(most) => (self.waiting.len() as u64) < most,
        }
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
        // Both parts are below the rate, but their sum may not fit.
        let room = bits_per_second - other.part;
        let (carry, part) = if self.part >= room {
            (1, self.part - room)
        } else {
            (0, self.part + other.part)
        };
        ExactTime {
            nanos: self.nanos.saturating_add(other.nanos).saturating_add(carry),
            part,
        }
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
        ExactTime {
            nanos: self.nanos - other.nanos - borrow,
            part,
        }
    }

    #[inline]
    fn rounded_up(self) -> Nanos {
        self.nanos.saturating_add(u64::from(self.part > 0))
    }
}

/// How long the rate takes for so many bytes.
fn time_for(bytes: u64, bits_per_second: u64) -> ExactTime {
    const BIT_NANOS_PER_BYTE: u64 = 8_000_000_000;
    if let Some(work) = bytes.checked_mul(BIT_NANOS_PER_BYTE) {
        return ExactTime {
            nanos: work / bits_per_second,
            part: work % bits_per_second,
        };
    }
    let work = u128::from(bytes) * u128::from(BIT_NANOS_PER_BYTE);
    let rate = u128::from(bits_per_second);
    ExactTime {
        nanos: Nanos::try_from(work / rate).unwrap_or(Nanos::MAX),
        part: (work % rate) as u64,
    }
}
