//! How much of the samples is kept in a flood.

use std::time::Duration;

/// The share of each interface's samples to be kept so that all together are no more than `most`, both a second: those with
/// few keep all, the others as many as one another.
pub(crate) fn kept(chosen: &[f64], most: f64) -> Vec<f64> {
    let level = level(chosen, most);
    chosen.iter().map(|&chosen| if chosen <= level { 1.0 } else { level / chosen }).collect()
}

/// A rate a second that forgets within a second or two: a burst is no flood.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate(f64);

impl Rate {
    /// Takes what came in the time since the last call, and returns the rate.
    pub(crate) fn take(&mut self, count: u64, elapsed: Duration) -> f64 {
        let seconds = elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.0 += (count as f64 / seconds - self.0) * -(-seconds).exp_m1();
        }
        self.0
    }
}

/// What no interface may exceed.
fn level(chosen: &[f64], most: f64) -> f64 {
    if chosen.iter().sum::<f64>() <= most {
        return f64::INFINITY;
    }
    let mut ascending = chosen.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    let mut left = most;
    for (at, &chosen) in ascending.iter().enumerate() {
        let share = left / (ascending.len() - at) as f64;
        if chosen > share {
            return share;
        }
        left -= chosen;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_flood_on_one_interface_costs_the_others_nothing() {
        assert_eq!(kept(&[10.0, 900.0, 5.0], 115.0), [1.0, 1.0 / 9.0, 1.0]);
        assert_eq!(kept(&[200.0, 200.0], 100.0), [0.25, 0.25]);
        assert_eq!(kept(&[3.0, 4.0], 7.0), [1.0, 1.0]);
        assert_eq!(kept(&[], 7.0), [] as [f64; 0]);
    }

    #[test]
    fn a_burst_is_no_flood() {
        let look = Duration::from_millis(100);
        let mut rate = Rate::default();
        let burst = rate.take(500, look);
        assert!((400.0..500.0).contains(&burst), "{burst}");
        let flood = (0..50).map(|_| rate.take(500, look)).last().unwrap();
        assert!((4900.0..5000.0).contains(&flood), "{flood}");
        let over = (0..50).map(|_| rate.take(0, look)).last().unwrap();
        assert!(over < 50.0, "{over}");
    }

    proptest! {
        #[test]
        fn as_many_as_may_be_are_kept(chosen in proptest::collection::vec(0.0..1e5, 1..20), most in 1.0..5e4) {
            let all: f64 = chosen.iter().sum();
            let sum: f64 = chosen.iter().zip(kept(&chosen, most)).map(|(&chosen, kept)| chosen * kept).sum();
            prop_assert!((sum - all.min(most)).abs() < 1e-6 * most, "{}", sum);
        }
    }
}
