//! Whether packets in and out of a data source are counted together.

/// Whether a device counts packets in and out of a data source by one pool, or each by its own.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// The last sample: whether it was on its way in, and its pool.
    last: Option<(bool, u32)>,
    /// Times in a row that the pool went back when samples turned outwards, and inwards.
    back: [u8; 2],
}

impl Ways {
    /// Takes a sample. Whether each way has a pool of its own: one pool goes back in a datagram out of order at most, not time after time.
    pub(super) fn are_apart(&mut self, ingress: bool, pool: u32) -> bool {
        let Some((way, before)) = self.last.replace((ingress, pool)) else { return false };
        let back = &mut self.back[usize::from(ingress)];
        if way != ingress {
            *back = if pool.wrapping_sub(before) > u32::MAX / 2 { *back + 1 } else { 0 };
        }
        *back >= TURNS
    }
}

/// Turns after which it is no chance that the pool of one way is behind that of the other.
const TURNS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether samples, of which each is on its way in or out and has a pool, show two pools.
    fn are_apart(samples: impl IntoIterator<Item = (bool, u32)>) -> bool {
        let mut ways = Ways::default();
        samples.into_iter().any(|(ingress, pool)| ways.are_apart(ingress, pool))
    }

    #[test]
    fn one_pool_is_one_however_it_wraps() {
        assert!(!are_apart(
            (0..1000_u32).map(|number| (number.is_multiple_of(3), number.wrapping_mul(20).wrapping_sub(9000)))
        ));
        assert!(!are_apart((0..1000).map(|number| (true, number * 20))));
    }

    #[test]
    fn a_datagram_out_of_order_or_an_agent_that_begins_again_shows_no_second() {
        let pools = |number: u32| if number % 10 == 5 { number - 2 } else { number };
        assert!(!are_apart((2..1000).map(|number: u32| (number.is_multiple_of(2), pools(number) * 20))));
        assert!(!are_apart((0..1000).map(|number: u32| (number.is_multiple_of(2), number % 100 * 20))));
    }

    #[test]
    fn two_pools_are_found_after_four_turns() {
        let both = |number: u32| (number.is_multiple_of(2), number * 10 + (1 - number % 2) * 1_000_000);
        assert!(are_apart((0..8).map(both)) && !are_apart((0..7).map(both)));
    }
}
