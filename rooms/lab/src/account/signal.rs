//! Messages as the samples of a signal: which of them a receiver lacks.

use std::ops::Range;

use weir_report::record::Signal;
use weir_traffic::{SequenceSet, Transport};

use super::PathAccount;
use crate::endpoints::interval;

impl PathAccount<'_> {
    /// A stretch of the signal around its longest gap; `None` where nobody watched, or for other traffic than datagrams.
    pub(super) fn signal(&self) -> Option<Signal> {
        let datagrams = self.cell.scenario.traffic.transport == Transport::Udp;
        let (sent, _) = self.messages().filter(|_| datagrams && self.measured.watched.is_some())?;
        let interval = match interval(&self.cell.scenario.traffic).as_secs_f64() {
            0.0 => sent.used.as_secs_f64() / sent.sent.max(1) as f64,
            interval => interval,
        };
        let numbers = &self.session()?.numbers;
        let wanted = (PERIODS * PERIOD / interval) as u64;
        let stretch = around_longest_gap(numbers, sent.sent, wanted);
        let (samples, missing) = gaps(numbers, &stretch, MOST_GAPS);
        Some(Signal { interval_s: interval, period_s: PERIOD, first: stretch.start, samples, missing, cause: None })
    }
}

/// `length` numbers of those below `sent` that are remembered, with the longest gap in their middle as far as there are
/// numbers on both sides; without a gap, in the middle of all.
fn around_longest_gap(numbers: &SequenceSet, sent: u64, length: u64) -> Range<u64> {
    let known = numbers.remembered().start..sent;
    let mut longest = (known.start + known.end) / 2..0;
    let mut gap: Option<u64> = None;
    for number in known.clone().chain([sent]) {
        match (number < sent && !numbers.contains(number), gap) {
            (true, None) => gap = Some(number),
            (false, Some(begin)) => {
                if number - begin > longest.end.saturating_sub(longest.start) {
                    longest = begin..number;
                }
                gap = None;
            }
            _ => {}
        }
    }
    let middle = (longest.start + longest.end.max(longest.start)) / 2;
    let start = middle.saturating_sub(length / 2).min(known.end.saturating_sub(length)).max(known.start);
    start..start.saturating_add(length).min(known.end).max(start)
}

/// How many numbers of a stretch are looked at, and their gaps, counted from its start. Before there are more gaps than
/// `most` the stretch ends.
fn gaps(numbers: &SequenceSet, stretch: &Range<u64>, most: usize) -> (u64, Vec<(u64, u64)>) {
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    for number in stretch.clone().filter(|number| !numbers.contains(*number)) {
        let at = number - stretch.start;
        let full = gaps.len() == most;
        match gaps.last_mut() {
            Some((begin, length)) if *begin + *length == at => *length += 1,
            _ if full => return (at, gaps),
            _ => gaps.push((at, 1)),
        }
    }
    (stretch.end - stretch.start, gaps)
}

/// 50 Hz, as from any mains.
const PERIOD: f64 = 0.02;

/// Periods that are drawn.
const PERIODS: f64 = 10.0;

/// Gaps that are kept of a stretch.
const MOST_GAPS: usize = 1000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(numbers: impl IntoIterator<Item = u64>) -> SequenceSet {
        let mut set = SequenceSet::new();
        numbers.into_iter().for_each(|number| {
            set.insert(number);
        });
        set
    }

    #[test]
    fn the_longest_gap_is_in_the_middle() {
        let holes = set((0..1000).filter(|n| !(100..103).contains(n) && !(600..620).contains(n)));
        assert_eq!(around_longest_gap(&holes, 1000, 100), 560..660);
        assert_eq!(gaps(&holes, &(90..650), 10), (560, vec![(10, 3), (510, 20)]));
        assert_eq!(gaps(&holes, &(90..650), 1), (510, vec![(10, 3)]), "before the second gap");
        assert_eq!(around_longest_gap(&set(0..1000), 1000, 100), 450..550);
        // The end of the run is lost.
        assert_eq!(around_longest_gap(&set(0..900), 1000, 200), 800..1000);
        assert_eq!(around_longest_gap(&set(0..10), 10, 100), 0..10, "shorter than wanted");
        assert_eq!(around_longest_gap(&SequenceSet::new(), 0, 100), 0..0);
    }

    proptest! {
        #[test]
        fn what_is_no_gap_has_arrived(numbers in proptest::collection::vec(0u64..300, 0..300), length in 1u64..200) {
            let set = set(numbers.iter().copied());
            let stretch = around_longest_gap(&set, 300, length);
            prop_assert_eq!(stretch.end - stretch.start, length);
            let (samples, gaps) = gaps(&set, &stretch, usize::MAX);
            prop_assert_eq!(samples, length);
            for number in stretch.clone() {
                let at = number - stretch.start;
                let in_gap = gaps.iter().any(|(begin, length)| (*begin..begin + length).contains(&at));
                prop_assert_eq!(in_gap, !numbers.contains(&number));
            }
        }
    }
}
