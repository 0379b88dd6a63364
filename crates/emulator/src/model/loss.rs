//! Planned loss: which packets of a flow are lost, by index.

use super::Loss;
use super::random::{Chance, Purpose, StreamKey};

/// A loss process made ready for use; the part that all flows share.
#[derive(Clone, Debug)]
pub(super) enum LossProcess {
    None,
    Bernoulli(Chance),
    GilbertElliott {
        /// Stationary probability of the bad state.
        starts_bad: Chance,
        to_bad: Chance,
        to_good: Chance,
        good: Chance,
        bad: Chance,
    },
    /// Ascending, without repetition.
    List(Box<[u64]>),
}

/// Where one flow stands in its loss process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossState {
    /// Gilbert-Elliott: whether the chain is in the bad state.
    bad: bool,
    /// List: how many entries lie behind.
    passed: usize,
}

impl LossProcess {
    pub(super) fn new(loss: &Loss) -> Self {
        match loss {
            Loss::Bernoulli(probability) if !Chance::new(*probability).is_never() => {
                LossProcess::Bernoulli(Chance::new(*probability))
            }
            Loss::GilbertElliott { to_bad, to_good, good, bad } => {
                let moves = to_bad + to_good;
                LossProcess::GilbertElliott {
                    starts_bad: Chance::new(if moves > 0.0 { to_bad / moves } else { 0.0 }),
                    to_bad: Chance::new(*to_bad),
                    to_good: Chance::new(*to_good),
                    good: Chance::new(*good),
                    bad: Chance::new(*bad),
                }
            }
            Loss::List(indexes) if !indexes.is_empty() => {
                let mut indexes = indexes.clone();
                indexes.sort_unstable();
                indexes.dedup();
                LossProcess::List(indexes.into())
            }
            Loss::None | Loss::Bernoulli(_) | Loss::List(_) => LossProcess::None,
        }
    }

    /// Whether it can never lose a packet.
    pub(super) fn is_none(&self) -> bool {
        match self {
            LossProcess::None => true,
            LossProcess::GilbertElliott { good, bad, .. } => good.is_never() && bad.is_never(),
            LossProcess::Bernoulli(_) | LossProcess::List(_) => false,
        }
    }

    /// The state of a flow before its first packet.
    pub(super) fn start(&self, flow: StreamKey) -> LossState {
        match self {
            LossProcess::GilbertElliott { starts_bad, .. } => {
                LossState { bad: starts_bad.hits(flow, Purpose::ChainStart, 0), passed: 0 }
            }
            _ => LossState::default(),
        }
    }

    /// Whether the flow's packet `index` is lost. Called once for each index, ascending.
    #[inline]
    pub(super) fn loses(&self, state: &mut LossState, flow: StreamKey, index: u64) -> bool {
        match self {
            LossProcess::None => false,
            LossProcess::Bernoulli(chance) => chance.hits(flow, Purpose::Loss, index),
            LossProcess::GilbertElliott { to_bad, to_good, good, bad, .. } => {
                let leaves = if state.bad { to_good } else { to_bad };
                state.bad ^= leaves.hits(flow, Purpose::ChainStep, index);
                let chance = if state.bad { bad } else { good };
                chance.hits(flow, Purpose::Loss, index)
            }
            LossProcess::List(indexes) => {
                let listed = indexes.get(state.passed) == Some(&index);
                state.passed += usize::from(listed);
                listed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Key, Way};
    use super::*;

    #[test]
    fn list_may_be_given_in_any_order() {
        assert_eq!(lost(&Loss::List(vec![5, 0, 3, 0, 1_000]), 10), [0, 3, 5]);
    }

    #[test]
    fn chain_that_always_moves_alternates() {
        let lost = lost(&Loss::GilbertElliott { to_bad: 1.0, to_good: 1.0, good: 0.0, bad: 1.0 }, 10);
        assert!(lost == [0, 2, 4, 6, 8] || lost == [1, 3, 5, 7, 9], "{lost:?}");
    }

    #[test]
    fn chain_that_never_moves_is_good() {
        assert_eq!(lost(&Loss::GilbertElliott { to_bad: 0.0, to_good: 0.0, good: 0.0, bad: 1.0 }, 100), [0; 0]);
    }

    #[test]
    fn chain_that_never_recovers_is_bad() {
        assert_eq!(lost(&Loss::GilbertElliott { to_bad: 0.1, to_good: 0.0, good: 0.0, bad: 1.0 }, 3), [0, 1, 2]);
    }

    #[test]
    fn what_never_loses_is_known_beforehand() {
        let never = Loss::GilbertElliott { to_bad: 0.5, to_good: 0.5, good: 0.0, bad: 0.0 };
        for loss in [Loss::None, Loss::Bernoulli(0.0), Loss::List(vec![]), never] {
            assert!(LossProcess::new(&loss).is_none(), "{loss:?}");
        }
        assert!(!LossProcess::new(&Loss::Bernoulli(1e-18)).is_none());
    }

    fn lost(loss: &Loss, packets: u64) -> Vec<u64> {
        let flow = StreamKey::of(Key { seed: 1, link: 0, direction: Way::Forward });
        let process = LossProcess::new(loss);
        let mut state = process.start(flow);
        (0..packets).filter(|&index| process.loses(&mut state, flow, index)).collect()
    }
}
