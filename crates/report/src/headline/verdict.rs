//! Which of two courses lies higher, and where that turns: only what intervals decide.

use super::reading::{Point, Series, ratio};
use crate::cells::Measured;

/// What is decided of two courses. Places are indexes into the points that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The lower one is higher at an earlier place.
    Crosses {
        /// The last of those places.
        higher_at: usize,
        /// Where it is lower.
        less: Lower,
    },
    /// It is nowhere higher.
    Below(Lower),
}

/// Where a course is lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lower {
    /// At this place and all that follow.
    From(usize),
    /// At this place; at the last one it is not decided.
    At(usize),
}

/// Two courses over the places that they share.
pub(super) struct Pair<'a> {
    /// That which is lower at the last place of which something is decided.
    pub(super) lower: &'a Series,
    /// The other one.
    pub(super) higher: &'a Series,
    /// Points of the lower and of the higher one.
    pub(super) shared: Vec<(&'a Point, &'a Point)>,
    /// `None`: nowhere is anything decided, or it turns more than once.
    pub(super) verdict: Option<Verdict>,
    /// Whether nowhere anything is decided.
    pub(super) undecided: bool,
}

/// The joint confidence over all places.
const CONFIDENCE: f64 = 0.95;

/// What differs by less is as good as the same, however certain.
const WORTH_SAYING: f64 = 1.02;

/// Compares two courses wherever both have a point; `None` if that is nowhere.
pub(super) fn compare<'a>(a: &'a Series, b: &'a Series) -> Option<Pair<'a>> {
    let shared = a.points.iter().filter_map(|p| Some((p, b.points.iter().find(|q| q.x == p.x)?)));
    let mut shared: Vec<(&Point, &Point)> = shared.collect();
    let level = 1.0 - (1.0 - CONFIDENCE) / shared.len().max(1) as f64;
    let mut signs: Vec<i8> = shared.iter().map(|(p, q)| sign(&p.measured, &q.measured, level)).collect();
    let (mut lower, mut higher) = (a, b);
    if signs.iter().rev().find(|sign| **sign != 0) == Some(&1) {
        (lower, higher) = (b, a);
        shared.iter_mut().for_each(|(p, q)| std::mem::swap(p, q));
        signs.iter_mut().for_each(|sign| *sign = -*sign);
    }
    let undecided = signs.iter().all(|sign| *sign == 0);
    let verdict = judge(&signs);
    (!shared.is_empty()).then_some(Pair { lower, higher, shared, verdict, undecided })
}

/// From what is decided at each place: -1 where the course is lower, 1 where it is higher, 0 where that is open.
fn judge(signs: &[i8]) -> Option<Verdict> {
    let higher_at = signs.iter().rposition(|sign| *sign > 0);
    let after = higher_at.map_or(0, |at| at + 1);
    let first = signs.iter().position(|sign| *sign < 0).filter(|first| *first >= after)?;
    let from = signs.len() - signs.iter().rev().take_while(|sign| **sign < 0).count();
    let less = if from < signs.len() { Lower::From(from) } else { Lower::At(first) };
    Some(higher_at.map_or(Verdict::Below(less), |higher_at| Verdict::Crosses { higher_at, less }))
}

/// -1 if the first is lower, 1 if it is higher, 0 if that is not decided.
fn sign(a: &Measured, b: &Measured, level: f64) -> i8 {
    // A count without an interval is exact for its run, and says nothing of the next.
    let (Measured::Estimate(_), Measured::Estimate(_)) = (a, b) else { return 0 };
    let (Some((a, a_low, a_high)), Some((b, b_low, b_high))) = (a.interval(level), b.interval(level)) else { return 0 };
    match () {
        () if ratio(a.min(b), a.max(b)) < WORTH_SAYING => 0,
        () if a_high < b_low => -1,
        () if a_low > b_high => 1,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_turn_is_a_crossing() {
        let crosses = |higher_at, less| Some(Verdict::Crosses { higher_at, less });
        assert_eq!(judge(&[0, 1, 1, 0, -1, -1]), crosses(2, Lower::From(4)));
        assert_eq!(judge(&[0, 1, 0, -1, 0, -1]), crosses(1, Lower::From(5)), "in between it is open again");
        assert_eq!(judge(&[1, -1, 0]), crosses(0, Lower::At(1)));
        assert_eq!(judge(&[-1, 1, -1]), None, "it turns twice");
        assert_eq!(judge(&[-1, -1, -1]), Some(Verdict::Below(Lower::From(0))));
        assert_eq!(judge(&[0, -1, 0, 0]), Some(Verdict::Below(Lower::At(1))));
        assert_eq!((judge(&[0, 0]), judge(&[])), (None, None));
    }
}
