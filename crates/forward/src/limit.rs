//! Rate limits without drift: exact integers, shared by all workers, one atomic each.
//!
//! A generic cell rate algorithm turned round: not the time at which the next datagram conforms is kept (a rounded
//! interval adds up to a wrong rate), but how much of what the rate has granted since the start is used. At any time t
//! the grant is floor(rate x t), computed anew. What is not used within [`BURST`] is lost.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_units::{BitRate, Frequency};

/// The limits of one outlet.
#[derive(Debug)]
pub struct Limiter {
    start: Instant,
    datagrams: Option<Grant>,
    bytes: Option<Grant>,
}

impl Limiter {
    /// For at most so many datagrams and bits a second; `None` without a limit.
    pub fn new(rate: Option<Frequency>, bandwidth: Option<BitRate>) -> Option<Self> {
        let datagrams = rate.map(|rate| Grant::new(rate.micro_hertz, 1_000_000 * NANOS, 1));
        let bytes = bandwidth.map(|bandwidth| Grant::new(bandwidth.bits_per_second, 8 * NANOS, LONGEST));
        (datagrams.is_some() || bytes.is_some()).then(|| Self { start: Instant::now(), datagrams, bytes })
    }

    /// Nanoseconds of its clock, for [`take`](Self::take).
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Whether a datagram of so many payload bytes may pass now.
    pub fn take(&self, now: u64, bytes: usize) -> bool {
        let bytes = bytes as u64;
        if let Some(grant) = &self.bytes
            && !grant.take(now, bytes)
        {
            return false;
        }
        if let Some(grant) = &self.datagrams
            && !grant.take(now, 1)
        {
            if let Some(grant) = &self.bytes {
                grant.give_back(bytes);
            }
            return false;
        }
        true
    }
}

/// The first of each so many datagrams of an outlet, whichever worker takes it.
#[derive(Debug)]
pub struct Nth {
    n: NonZeroU64,
    seen: AtomicU64,
}

impl Nth {
    /// One of `n`; `None`: each.
    pub fn new(n: u32) -> Option<Self> {
        NonZeroU64::new(n.into()).filter(|n| n.get() > 1).map(|n| Self { n, seen: AtomicU64::new(0) })
    }

    /// Whether the datagram at hand may pass.
    pub fn take(&self) -> bool {
        self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.n.get())
    }
}

/// So many things in so much time.
#[derive(Debug)]
struct Grant {
    rate: u64,
    /// Nanoseconds in which `rate` things are granted.
    per: u64,
    burst: u64,
    /// Things used, out of all that were granted since the start.
    used: AtomicU64,
}

impl Grant {
    fn new(rate: u64, per: u64, least: u64) -> Self {
        let grant = Self { rate, per, burst: 0, used: AtomicU64::new(0) };
        let burst = grant.by(BURST.as_nanos() as u64).max(least);
        Self { burst, ..grant }
    }

    /// All that was granted by this time.
    fn by(&self, now: u64) -> u64 {
        let granted = u128::from(self.rate) * u128::from(now) / u128::from(self.per);
        u64::try_from(granted).unwrap_or(u64::MAX)
    }

    fn take(&self, now: u64, n: u64) -> bool {
        let granted = self.by(now);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                // The burst lies ahead of the grant, so that what was not used in time needs no keeping.
                let used = used.max(granted) + n;
                (used <= granted + self.burst).then_some(used)
            })
            .is_ok()
    }

    fn give_back(&self, n: u64) {
        self.used.fetch_sub(n, Ordering::Relaxed);
    }
}

/// What may pass at once after a pause: the grant of this time, but always one datagram.
pub(crate) const BURST: Duration = Duration::from_millis(100);

/// No payload is longer, in bytes.
const LONGEST: u64 = 65_535;

const NANOS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(text: &str) -> Limiter {
        Limiter::new(Some(text.parse().unwrap()), None).unwrap()
    }

    /// Offers one datagram every `step` ns for `seconds`, and counts those that pass.
    fn passed(limiter: &Limiter, step: u64, seconds: u64, bytes: usize) -> u64 {
        (0..seconds * NANOS).step_by(step as usize).filter(|&now| limiter.take(now, bytes)).count() as u64
    }

    #[test]
    fn no_limit_is_none() {
        assert!(Limiter::new(None, None).is_none());
    }

    #[test]
    fn a_rate_that_no_interval_expresses_does_not_drift() {
        // 3/s is 333,333,333.3 ns; after 10,000 s a rounded interval would be off by 3.
        let limiter = rate("3/s");
        assert_eq!(passed(&limiter, 100_000_000, 10_000, 1), 30_000);
    }

    #[test]
    fn a_pause_earns_no_more_than_the_burst() {
        let limiter = rate("1000/s");
        let hour = 3_600 * NANOS;
        assert_eq!((0..5_000).filter(|_| limiter.take(hour, 1)).count(), 100);
        assert_eq!((0..5_000).filter(|_| limiter.take(hour + NANOS / 100, 1)).count(), 10);
    }

    #[test]
    fn bandwidth_counts_bits_and_lets_the_longest_pass() {
        let limiter = Limiter::new(None, Some("8kbit".parse().unwrap())).unwrap();
        assert!(limiter.take(0, 65_507), "one of maximum size passes at any rate");
        assert!(!limiter.take(0, 1_000));
        // 64 s later 64,000 bytes more have been granted.
        assert!(limiter.take(64 * NANOS, 60_000));
    }

    #[test]
    fn what_one_limit_refuses_the_other_keeps() {
        let limiter = Limiter::new(Some("10/s".parse().unwrap()), Some("8mbit".parse().unwrap())).unwrap();
        assert!(limiter.take(0, 50_000));
        for _ in 0..100 {
            assert!(!limiter.take(0, 50_000), "the rate refuses");
        }
        assert!(limiter.take(NANOS / 10, 50_000), "the bandwidth was not used up by refused ones");
    }

    proptest! {
        #[test]
        fn any_rate_is_kept_over_any_time(per_second in 1_u64..5_000, step in 10_000_u64..3_000_000, seconds in 1_u64..5) {
            let limiter = Limiter::new(Some(Frequency { micro_hertz: per_second * 1_000_000 }), None).unwrap();
            let passed = passed(&limiter, step, seconds, 1);
            let most = per_second * seconds + (per_second / 10).max(1);
            let offered = (seconds * NANOS).div_ceil(step);
            prop_assert!(passed <= most);
            // All that the rate grants is used when there is always something to send.
            prop_assert!(passed >= offered.min(per_second * seconds * 99 / 100));
        }
    }
}
