//! How much of the samples is kept in a flood.

/// The share of each interface's samples to be kept so that all together are no more than `most`: those with few keep all,
/// the others as many as one another.
pub(crate) fn kept(chosen: &[u64], most: u64) -> Vec<f64> {
    let level = level(chosen, most);
    chosen.iter().map(|&chosen| if chosen as f64 <= level { 1.0 } else { level / chosen as f64 }).collect()
}

/// What no interface may exceed.
fn level(chosen: &[u64], most: u64) -> f64 {
    if chosen.iter().sum::<u64>() <= most {
        return f64::INFINITY;
    }
    let mut ascending = chosen.to_vec();
    ascending.sort_unstable();
    let mut left = most as f64;
    for (at, &chosen) in ascending.iter().enumerate() {
        let share = left / (ascending.len() - at) as f64;
        if chosen as f64 > share {
            return share;
        }
        left -= chosen as f64;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_flood_on_one_interface_costs_the_others_nothing() {
        assert_eq!(kept(&[10, 900, 5], 115), [1.0, 1.0 / 9.0, 1.0]);
        assert_eq!(kept(&[200, 200], 100), [0.25, 0.25]);
        assert_eq!(kept(&[3, 4], 7), [1.0, 1.0]);
        assert_eq!(kept(&[], 7), [] as [f64; 0]);
    }

    proptest! {
        #[test]
        fn as_many_as_may_be_are_kept(chosen in proptest::collection::vec(0_u64..100_000, 1..20), most in 1_u64..50_000) {
            let all: u64 = chosen.iter().sum();
            let sum: f64 = chosen.iter().zip(kept(&chosen, most)).map(|(&chosen, kept)| chosen as f64 * kept).sum();
            prop_assert!((sum - all.min(most) as f64).abs() < 1e-3 * most as f64, "{}", sum);
        }
    }
}
