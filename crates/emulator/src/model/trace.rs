//! Links with a recorded capacity: packet delivery opportunities in the format of mahimahi.
//!
//! Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP" (USENIX ATC 2015); mahimahi's
//! `src/frontend/link_queue.cc`.

use super::Nanos;

/// When a link can deliver. Each opportunity carries [`Trace::OPPORTUNITY`] bytes; a packet counts its bytes from the
/// IP header on plus [`Trace::HEADER`], so that one of 1500 bytes takes exactly one.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    /// Ascending; the last is the period, and above 0.
    times: Box<[Nanos]>,
}

/// Why a text is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that is neither a time nor a comment.
    #[error("line {line}: {found:?} is not a time in whole milliseconds")]
    NotATime {
        /// Its number, from 1.
        line: usize,
        /// Its beginning.
        found: String,
    },
    /// A time beyond the max of a trace.
    #[error("line {line}: {found} ms is too late: a trace lasts for at most {MAX_MILLIS} ms (49 days)")]
    TooLate {
        /// Its number, from 1.
        line: usize,
        /// Its beginning.
        found: String,
    },
    /// A time before the one above it.
    #[error("line {line}: {millis} ms comes after {before} ms: times must not decrease")]
    Decreases {
        /// Its number, from 1.
        line: usize,
        /// The time.
        millis: u64,
        /// The time above it.
        before: u64,
    },
    /// Not a single time.
    #[error("there is no time in it: expected one per line, in whole milliseconds")]
    Empty,
    /// Only times of 0.
    #[error("its last time is 0 ms: the trace starts again then, so it must be at least 1 ms")]
    NoPeriod,
}

/// One opportunity among all repetitions of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    round: u64,
    index: usize,
}

impl Trace {
    /// Bytes that one opportunity carries (mahimahi: `PACKET_SIZE`).
    pub const OPPORTUNITY: u32 = 1504;
    /// Bytes that a packet takes besides its IP bytes (mahimahi: the header that a tun device puts before each packet).
    pub const HEADER: u32 = 4;

    /// Parses a trace: one opportunity per line, its time in whole milliseconds, not decreasing. After the last one it
    /// starts again. Unlike mahimahi it skips blank lines and lines that begin with `#`.
    ///
    /// # Errors
    /// The error, and its line.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut times = Vec::new();
        let mut before = 0;
        for (number, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line_number = number + 1;
            let found = || line.chars().take(MAX_FOUND).collect();
            if !line.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(TraceError::NotATime { line: line_number, found: found() });
            }
            // Digits alone are refused only if the number is too large.
            let millis = line.parse().ok().filter(|&millis| millis <= MAX_MILLIS);
            let millis = millis.ok_or_else(|| TraceError::TooLate { line: line_number, found: found() })?;
            if millis < before {
                return Err(TraceError::Decreases { line: line_number, millis, before });
            }
            before = millis;
            times.push(millis * 1_000_000);
        }
        match times.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoPeriod),
            Some(_) => Ok(Trace { times: times.into() }),
        }
    }

    /// Long-run bits per second for packets of 1500 bytes; bytes count from the IP header on.
    pub fn mean_bits_per_second(&self) -> f64 {
        let bits = self.times.len() as f64 * f64::from(8 * (Trace::OPPORTUNITY - Trace::HEADER));
        bits / (self.period() as f64 / 1e9)
    }

    /// Opportunities in one repetition.
    pub fn opportunities(&self) -> usize {
        self.times.len()
    }

    /// Its period, ns.
    pub fn period(&self) -> Nanos {
        // There is a last one, or parsing would have failed.
        self.times.last().copied().unwrap_or(Nanos::MAX)
    }

    /// The time of `spot`, from the trace's beginning.
    #[inline]
    pub(super) fn time(&self, spot: Spot) -> Nanos {
        self.period().saturating_mul(spot.round).saturating_add(self.times[spot.index])
    }

    /// The opportunity `count` after `spot`.
    #[inline]
    pub(super) fn ahead(&self, spot: Spot, count: u64) -> Spot {
        let index = spot.index as u64 + count;
        if index < self.times.len() as u64 {
            return Spot { index: index as usize, ..spot };
        }
        let length = self.times.len() as u64;
        Spot { round: spot.round.saturating_add(index / length), index: (index % length) as usize }
    }

    /// The number of opportunities between `from` and `to`, including the first.
    pub(super) fn count(&self, from: Spot, to: Spot) -> u64 {
        let rounds = to.round.saturating_sub(from.round).saturating_mul(self.times.len() as u64);
        rounds.saturating_add(to.index as u64).saturating_sub(from.index as u64)
    }

    /// The first opportunity after `time`; none up to `spot` qualifies.
    #[inline]
    pub(super) fn first_after(&self, spot: Spot, time: Nanos) -> Spot {
        let mut near = spot;
        for _ in 0..NEAR {
            near = self.ahead(near, 1);
            if self.time(near) > time {
                return near;
            }
        }
        self.find_after(time)
    }

    /// The first opportunity after `time`, looked up.
    pub(super) fn find_after(&self, time: Nanos) -> Spot {
        let (round, within) = (time / self.period(), time % self.period());
        // The last of a round comes after everything within it.
        Spot { round, index: self.times.partition_point(|&at| at <= within) }
    }
}

/// Thousands of times are no help.
impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Trace({} opportunities in {} ms)", self.times.len(), self.period() / 1_000_000)
    }
}

const MAX_MILLIS: u64 = u32::MAX as u64;
/// Max characters of a faulty line in an error.
const MAX_FOUND: usize = 40;
/// Opportunities to try one by one before searching.
const NEAR: u32 = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_and_the_rest_is_skipped() {
        let trace = Trace::parse("# an LTE cell\n0\n 5 \r\n\n5\n#\n10").unwrap();
        assert_eq!(&trace.times[..], [0, 5_000_000, 5_000_000, 10_000_000]);
        assert_eq!((trace.period(), trace.opportunities()), (10_000_000, 4));
        // 4 x 12,000 bits in 10 ms.
        assert_eq!(trace.mean_bits_per_second(), 4_800_000.0);
        assert_eq!(format!("{trace:?}"), "Trace(4 opportunities in 10 ms)");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let long = "x".repeat(100);
        let texts =
            ["", "# nothing\n\n", "0\n0", "1\n2\n\n# and\n3\n4\n12.5x", "5\n-1", "+5", "7\n6", "4294967296", &long];
        let beyond = "9".repeat(30);
        let message = |text: &&str| Trace::parse(text).expect_err(text).to_string();
        insta::assert_snapshot!(texts.iter().chain(&[beyond.as_str()]).map(message).collect::<Vec<_>>().join("\n"));
        assert_eq!(Trace::parse("4294967295").map(|trace| trace.period()), Ok(4_294_967_295_000_000));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([0-9]{0,12}[ \\PC]?\n){0,20}|\\PC{0,200}") {
            if let Ok(trace) = Trace::parse(&text) {
                prop_assert!(trace.times.is_sorted() && trace.period() > 0);
            }
        }

        /// Looked up or walked to, it is the first of all that come later.
        #[test]
        fn next_opportunity_is_the_first_later_one(trace in any_trace(), time in 0..200_000_000u64) {
            let mut rounds = (0..time / trace.period() + 2).map(|round| round * trace.period());
            let later = |start: u64| trace.times.iter().map(|at| start + at).find(|&at| at > time);
            let first = rounds.find_map(later).expect("rounds go on");
            let (found, walked) = (trace.find_after(time), trace.first_after(Spot::default(), time));
            prop_assert_eq!(trace.time(found), first);
            if trace.time(Spot::default()) <= time {
                prop_assert_eq!(found, walked);
            }
        }

        #[test]
        fn counting_is_the_reverse_of_going_ahead(trace in any_trace(), start in 0..100u64, count in 0..1_000_000u64) {
            let start = trace.ahead(Spot::default(), start);
            prop_assert_eq!(trace.count(start, trace.ahead(start, count)), count);
        }
    }

    fn any_trace() -> impl Strategy<Value = Trace> {
        prop::collection::vec(0..12u64, 1..40).prop_filter_map("a period", |gaps| {
            let mut at = 0;
            let lines = gaps.iter().map(|gap| {
                at += gap;
                format!("{at}\n")
            });
            Trace::parse(&lines.collect::<String>()).ok()
        })
    }
}
