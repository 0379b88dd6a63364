//! How what is missing is handed out among those that may have it. Counters know no ports: each tells the most that it
//! may have lost of this traffic, and all together have no more than is missing. What nobody gets stays unexplained.

/// Who gets what where all of them claim more than is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The largest claim first, each as much as is left: the trace has told of everything else between two points.
    LargestFirst,
    /// Nobody gets anything: losses without a counter may be among what is missing.
    AllOrNothing,
}

/// Hands out what is missing: a share for each claim, in their order, at most the claim.
pub(super) fn apportion(missing: u64, claims: &[u64], rule: Rule) -> Vec<u64> {
    let fit = claims.iter().fold(0, |sum: u64, claim| sum.saturating_add(*claim)) <= missing;
    if !fit && rule == Rule::AllOrNothing {
        return vec![0; claims.len()];
    }
    let mut shares = vec![0; claims.len()];
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(claims[index]));
    let mut left = missing;
    for index in order {
        shares[index] = claims[index].min(left);
        left -= shares[index];
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_claims_most_gets_it_first_or_nobody_does() {
        assert_eq!(apportion(10, &[3, 4], Rule::LargestFirst), [3, 4]);
        assert_eq!(apportion(10, &[3, 4], Rule::AllOrNothing), [3, 4]);
        assert_eq!(apportion(5, &[3, 4], Rule::LargestFirst), [1, 4]);
        assert_eq!(apportion(5, &[3, 4], Rule::AllOrNothing), [0, 0]);
        assert_eq!(apportion(0, &[u64::MAX, 1], Rule::LargestFirst), [0, 0]);
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_it_claims_and_all_no_more_than_is_missing(
            missing: u64, claims in prop::collection::vec(any::<u64>(), 0..8), largest_first: bool,
        ) {
            let rule = if largest_first { Rule::LargestFirst } else { Rule::AllOrNothing };
            let shares = apportion(missing, &claims, rule);
            prop_assert_eq!(shares.len(), claims.len());
            prop_assert!(shares.iter().zip(&claims).all(|(share, claim)| share <= claim));
            let handed: u128 = shares.iter().map(|share| u128::from(*share)).sum();
            let claimed: u128 = claims.iter().map(|claim| u128::from(*claim)).sum();
            prop_assert!(handed <= u128::from(missing));
            if largest_first || claimed <= u128::from(missing) {
                prop_assert_eq!(handed, claimed.min(missing.into()));
            }
        }
    }
}
