//! Lateness of packets against the model, and its times.

use hdrhistogram::Histogram;

use crate::ledger::Late;
use crate::model::Nanos;

/// The lateness of one direction.
pub(super) struct Lateness {
    histogram: Histogram<u64>,
    late: Vec<Late>,
    unlisted: u64,
}

impl Lateness {
    pub(super) fn new() -> Self {
        let mut histogram = Histogram::new_with_bounds(1, MAX_RECORDED, 2).unwrap_or_else(|_| unreachable_bounds());
        histogram.auto(false);
        Lateness { histogram, late: Vec::new(), unlisted: 0 }
    }

    /// Counts a packet that was due and left at these times.
    pub(super) fn record(&mut self, due: Nanos, left: Nanos) {
        let lateness = left.saturating_sub(due);
        self.histogram.saturating_record(lateness);
        if lateness < Late::MIN {
            return;
        }
        let room = self.late.len() < MAX_LISTED;
        match self.late.last_mut() {
            // Delay variation releases packets in another order than their arrival.
            Some(last) if due <= last.left => {
                last.due = last.due.min(due);
                last.left = last.left.max(left);
            }
            _ if room => self.late.push(Late { due, left }),
            _ => self.unlisted += 1,
        }
    }

    pub(super) fn histogram(&self) -> Histogram<u64> {
        self.histogram.clone()
    }

    /// The times that are listed, and how many more there were.
    pub(super) fn late(&self) -> (Vec<Late>, u64) {
        (self.late.clone(), self.unlisted)
    }
}

/// Lateness is recorded up to this, with two significant digits.
const MAX_RECORDED: Nanos = 60_000_000_000;

/// Max listed times.
const MAX_LISTED: usize = 4096;

/// The bounds above are constants that the constructor accepts.
fn unreachable_bounds() -> Histogram<u64> {
    unreachable!("1 to 60 s with two digits is a valid histogram")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn what_waits_together_is_late_once() {
        let mut lateness = Lateness::new();
        let sends = [(10, 10), (20, 120), (30, 120), (110, 121), (119, 119), (200, 200), (300, 301), (400, 400)];
        for (due, left) in sends {
            lateness.record(due * MS, left * MS);
        }
        assert_eq!(lateness.histogram().len(), 8);
        let expected = [(20, 121), (300, 301)].map(|(due, left)| Late { due: due * MS, left: left * MS });
        assert_eq!(lateness.late(), (expected.into(), 0));
    }

    #[test]
    fn the_list_is_bounded_and_says_what_it_lacks() {
        let mut lateness = Lateness::new();
        let times = MAX_LISTED as u64 + 3;
        (0..times).for_each(|n| lateness.record(n * 10 * MS, n * 10 * MS + 2 * MS));
        let (listed, more) = lateness.late();
        assert_eq!((listed.len(), more), (MAX_LISTED, 3));
    }
}
