//! What hosts usually get, by the hour of the week.
//!
//! Time goes in slots of ten seconds. Of each slot the rate of the busiest host counts, since a threshold is for each host: a quantile over all
//! hosts would forget the few that always get much. At the end of an hour the 95 % quantile of its slots is what has been learnt of it: one
//! slot in twenty may be anything. Hosts under attack do not count, nor do slots in which an attack began, once
//! anything has been learnt. Of the same hour in another
//! week half of what is new counts, and no more than twice what was known: nobody teaches it a flood at once.

use serde::{Deserialize, Serialize};

/// Length of a slot, ns.
pub(super) const SLOT: u64 = 10_000_000_000;
/// Hours of a week, the first one Monday 00:00.
pub const HOURS: usize = 168;
/// Slots that an hour needs to count.
const FEWEST: u32 = 60;
/// Part of the slots that are below what is learnt.
const QUANTILE: f64 = 0.95;
/// Buckets are a tenth wide.
const STEP: f64 = 1.1;
const BUCKETS: usize = 320;

/// What was learnt of one kind of traffic, packets or bits a second of the busiest host or prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// By hour of the week; 0: nothing yet.
    hours: Vec<f32>,
    /// Slots of the present hour, by the logarithm of their rate.
    #[serde(skip)]
    slots: Vec<u16>,
    /// The largest of the present slot.
    #[serde(skip)]
    largest: f32,
    /// Whether the present slot does not count.
    #[serde(skip)]
    tainted: bool,
}

impl Default for Learnt {
    fn default() -> Self {
        Self { hours: vec![0.0; HOURS], slots: Vec::new(), largest: 0.0, tainted: false }
    }
}

impl Learnt {
    /// A host got so much in this slot so far.
    #[inline]
    pub(super) fn offer(&mut self, sum: f32) {
        self.largest = self.largest.max(sum);
    }

    /// An attack began in this slot.
    pub(super) fn taint(&mut self) {
        self.tainted = true;
    }

    /// The present slot has ended.
    pub(super) fn end_slot(&mut self) {
        if !self.tainted {
            self.slots.resize(BUCKETS, 0);
            let rate = f64::from(self.largest) / (SLOT as f64 / 1e9);
            let bucket = &mut self.slots[bucket(rate)];
            *bucket = bucket.saturating_add(1);
        }
        (self.largest, self.tainted) = (0.0, false);
    }

    /// A slot has ended of which not all was seen.
    pub(super) fn skip_slot(&mut self) {
        self.taint();
        self.end_slot();
    }

    /// An hour has ended.
    pub(super) fn end_hour(&mut self, hour: usize) {
        if let (Some(new), Some(known)) = (self.quantile(), self.hours.get_mut(hour)) {
            let new = new as f32;
            *known = if *known > 0.0 { 0.5 * (*known + new.min(2.0 * *known)) } else { new };
        }
        self.slots.fill(0);
    }

    fn quantile(&self) -> Option<f64> {
        let count: u32 = self.slots.iter().map(|&slots| u32::from(slots)).sum();
        if count < FEWEST {
            return None;
        }
        let wanted = (f64::from(count) * QUANTILE).ceil() as u32;
        let mut below = 0;
        let found = self.slots.iter().position(|&slots| {
            below += u32::from(slots);
            below >= wanted
        });
        found.map(|at| if at == 0 { 0.0 } else { STEP.powi(at as i32) })
    }

    /// What is usual at an hour: the most of it, of the hours before and after, and of what has been seen of it today.
    pub fn usual(&self, hour: usize) -> f64 {
        let near = [hour + HOURS - 1, hour, hour + 1].map(|hour| self.hours.get(hour % HOURS).copied().unwrap_or(0.0));
        let known = f64::from(near.into_iter().fold(0.0, f32::max));
        // While nothing is known of the hour: what has been seen of any.
        let known = if known > 0.0 { known } else { f64::from(self.hours.iter().copied().fold(0.0, f32::max)) };
        let today = self.quantile().unwrap_or(0.0);
        // Today alone does not raise it by much.
        if known > 0.0 { known.max(today.min(2.0 * known)) } else { today }
    }

    /// Nonsense in a saved state is no learning.
    pub(super) fn is_sound(&self) -> bool {
        self.hours.len() == HOURS && self.hours.iter().all(|rate| rate.is_finite() && *rate >= 0.0)
    }
}

fn bucket(rate: f64) -> usize {
    if rate <= 1.0 { 0 } else { ((rate.ln() / STEP.ln()).ceil() as usize).min(BUCKETS - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(learnt: &mut Learnt, hour: usize, rate: impl Fn(usize) -> f32) {
        for slot in 0..360 {
            learnt.offer(rate(slot) * 10.0);
            learnt.end_slot();
        }
        learnt.end_hour(hour);
    }

    #[test]
    fn an_hour_is_what_its_busiest_host_mostly_got() {
        let mut learnt = Learnt::default();
        // One slot in 30 has a hundred times as much.
        hour(&mut learnt, 5, |slot| if slot % 30 == 0 { 1e6 } else { 1e4 });
        let usual = learnt.usual(5);
        assert!((1e4..1.2e4).contains(&usual), "{usual}");
        assert_eq!(learnt.usual(100), usual, "as long as nothing is known of an hour, others speak for it");
        // Another week, ten times as much: it doubles at most, and half of that counts.
        hour(&mut learnt, 5, |_| 1e5);
        assert!((learnt.usual(5) / usual - 1.5).abs() < 0.01);
    }

    #[test]
    fn slots_of_attacks_and_too_few_slots_do_not_count() {
        let mut learnt = Learnt::default();
        for _ in 0..360 {
            learnt.offer(1e9);
            learnt.taint();
            learnt.end_slot();
        }
        learnt.end_hour(0);
        assert_eq!(learnt.usual(0), 0.0);
        (0..FEWEST - 1).for_each(|_| {
            learnt.offer(1e9);
            learnt.end_slot();
        });
        learnt.end_hour(0);
        assert_eq!(learnt.usual(0), 0.0);
    }

    #[test]
    fn what_was_saved_is_the_same() {
        let mut learnt = Learnt::default();
        hour(&mut learnt, 7, |_| 123.0);
        let text = serde_json::to_string(&learnt).unwrap();
        let again: Learnt = serde_json::from_str(&text).unwrap();
        assert!(again.is_sound());
        assert_eq!(again.usual(7), learnt.usual(7));
    }
}
