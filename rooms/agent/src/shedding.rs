//! How much of the samples is kept in a flood.

use std::time::Duration;

/// The share of each interface's samples to be kept so that all together are no more than `most`, both a second: those with
/// few keep all, the others as many as one another.
pub(crate) fn kept(chosen: &[f64], most: f64) -> Vec<f64> {
    let level = level(chosen, most);
    chosen.iter().map(|&chosen| if chosen <= level { 1.0 } else { level / chosen }).collect()
}

/// A rate a second: of the last five seconds or so, so that bursts that come again and again do not move it; or, where that is more,
/// a third of the last second's, so that a flood is seen at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    slow: f64,
    fast: f64,
}

impl Rate {
    /// Takes what came in the time since the last call, and returns the rate.
    pub(crate) fn take(&mut self, count: u64, elapsed: Duration) -> f64 {
        let seconds = elapsed.as_secs_f64();
        if seconds > 0.0 {
            let now = count as f64 / seconds;
            self.slow += (now - self.slow) * -(-seconds / 5.0).exp_m1();
            self.fast += (now - self.fast) * -(-seconds).exp_m1();
        }
        self.slow.max(self.fast / 3.0)
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
        assert!((90.0..200.0).contains(&burst), "{burst}");
        let flood = (0..300).map(|_| rate.take(500, look)).last().unwrap();
        assert!((4900.0..5001.0).contains(&flood), "{flood}");
        let over = (0..300).map(|_| rate.take(0, look)).last().unwrap();
        assert!(over < 50.0, "{over}");
    }

    #[test]
    fn bursts_that_come_again_hardly_move_it() {
        let (look, mut rate) = (Duration::from_millis(100), Rate::default());
        let rates: Vec<f64> = (0..400)
            .map(|look_number| {
                let burst = if look_number % 10 == 0 { 300 } else { 0 };
                rate.take(10 + burst, look)
            })
            .skip(300)
            .collect();
        let (least, greatest) = rates.iter().fold((f64::MAX, 0.0_f64), |(a, b), &rate| (a.min(rate), b.max(rate)));
        assert!(least > 350.0 && greatest < 470.0, "{least} to {greatest}, where 400 come");
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
