//! Requests of those who are not known: how many, of whom, and when the next may come.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use weir_service::losses::grouped;

/// What was tried, by address; bounded.
#[derive(Debug)]
pub(super) struct Attempts {
    by: HashMap<IpAddr, Bucket>,
    total: u64,
    limited: u64,
    evicted: u64,
    /// When the last line was logged, and how many there have been since.
    told: Option<Instant>,
    untold: u64,
}

/// How much of its allowance an address has used, and when that was so.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    used: f64,
    at: Instant,
}

/// What is answered.
#[derive(Debug, PartialEq)]
pub(super) struct Failed {
    /// Seconds until it may be tried again; `None`: at once.
    pub(super) wait: Option<u64>,
    /// A line for the log, which is rare.
    pub(super) line: Option<String>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Requests without a known token.
    pub unknown: u64,
    /// Of those, the ones of addresses that had tried too often.
    pub limited: u64,
    /// Addresses that were forgotten before their time.
    pub evicted: u64,
}

impl Attempts {
    pub(super) fn new() -> Self {
        Self { by: HashMap::new(), total: 0, limited: 0, evicted: 0, told: None, untold: 0 }
    }

    /// Counts one more.
    pub(super) fn fail(&mut self, who: IpAddr, now: Instant) -> Failed {
        self.total += 1;
        self.untold += 1;
        if self.by.len() >= MOST && !self.by.contains_key(&who) {
            self.make_room(now);
        }
        let bucket = self.by.entry(who).or_insert(Bucket { used: 0.0, at: now });
        *bucket = Bucket { used: (bucket.used_now(now) + 1.0).min(BURST + 1.0), at: now };
        let wait = (bucket.used > BURST).then_some(EACH.as_secs());
        self.limited += u64::from(wait.is_some());
        let line = self.told.is_none_or(|told| now.saturating_duration_since(told) >= LINES_APART).then(|| {
            let (count, addresses) = (grouped(std::mem::take(&mut self.untold)), self.by.len());
            self.told = Some(now);
            format!(
                "protect: {count} requests without a known token, the last from {who}, of {addresses} addresses \
                 (is a token of `tokens` wrong, or does somebody try?)"
            )
        });
        Failed { wait, line }
    }

    pub(super) fn counts(&self) -> Refusals {
        Refusals { unknown: self.total, limited: self.limited, evicted: self.evicted }
    }

    /// Forgets those that have their whole allowance again, and if there is none the one that has used least.
    fn make_room(&mut self, now: Instant) {
        self.by.retain(|_, bucket| bucket.used_now(now) > 0.0);
        if self.by.len() >= MOST {
            let least = |one: &(&IpAddr, &Bucket), other: &(&IpAddr, &Bucket)| {
                one.1.used_now(now).total_cmp(&other.1.used_now(now))
            };
            let who = self.by.iter().min_by(least).map(|(who, _)| *who);
            who.map(|who| self.by.remove(&who));
            self.evicted += 1;
        }
    }
}

impl Bucket {
    fn used_now(&self, now: Instant) -> f64 {
        let idle = now.saturating_duration_since(self.at);
        (self.used - idle.as_secs_f64() / EACH.as_secs_f64()).max(0.0)
    }
}

/// Addresses that are remembered.
const MOST: usize = 4096;

/// Tries that an address has at once.
const BURST: f64 = 10.0;

/// Time that gives one back.
const EACH: Duration = Duration::from_secs(6);

/// From one line of the log to the next.
const LINES_APART: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u32) -> IpAddr {
        std::net::Ipv4Addr::from(0x0a00_0000 + last).into()
    }

    #[test]
    fn an_address_has_ten_tries_then_one_in_six_seconds() {
        let (start, mut attempts) = (Instant::now(), Attempts::new());
        let mut waits = |who, seconds| attempts.fail(address(who), start + Duration::from_secs(seconds)).wait.is_some();
        assert_eq!((0..12).map(|_| waits(1, 0)).collect::<Vec<_>>()[9..], [false, true, true]);
        assert!(!waits(2, 0), "another address pays for it");
        assert!(waits(1, 5));
        assert!(!waits(1, 60));
        assert_eq!(attempts.counts(), Refusals { unknown: 15, limited: 3, evicted: 0 });
    }

    #[test]
    fn lines_are_rare_and_tell_all() {
        let (start, mut attempts) = (Instant::now(), Attempts::new());
        let mut lines = Vec::new();
        for tenth in 0..250 {
            lines.extend(attempts.fail(address(tenth % 2), start + Duration::from_millis(100 * u64::from(tenth))).line);
        }
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains(": 1 requests") && lines[1].contains(": 100 requests"), "{lines:?}");
    }

    #[test]
    fn an_overfull_table_forgets_those_that_tried_least() {
        let (start, mut attempts) = (Instant::now(), Attempts::new());
        for _ in 0..20 {
            attempts.fail(address(0), start);
        }
        for other in 1..3 * MOST as u32 {
            attempts.fail(address(other), start);
        }
        assert_eq!(attempts.by.len(), MOST);
        assert_eq!(attempts.counts().evicted, 2 * MOST as u64);
        assert!(attempts.fail(address(0), start).wait.is_some(), "whoever comes from many addresses is forgiven");
    }
}
