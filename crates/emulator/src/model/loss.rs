//! Planned loss: which packets of a flow are lost, by index.

use std::sync::Arc;

use super::Probability;
use super::impairments::{InvalidImpairment, probability};
use super::random::{Chance, Purpose, StreamKey};

/// A planned-loss process. Gilbert-Elliott as in Elliott (1963): two states, good and bad.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet is lost independently.
    Bernoulli(Probability),
    /// Losses come in bursts. The chain steps once per packet, before the packet's fate is drawn, starting in the
    /// stationary distribution.
    GilbertElliott {
        /// Probability of going from good to bad.
        to_bad: Probability,
        /// Probability of going from bad to good.
        to_good: Probability,
        /// Loss probability in the good state (often 0).
        good: Probability,
        /// Loss probability in the bad state (often 1).
        bad: Probability,
    },
    /// Exactly these packets of every flow, by index from 0.
    List(Vec<u64>),
}

impl Loss {
    /// Long-run share of packets lost. An explicit list is finite: 0.
    pub fn mean(&self) -> Probability {
        match *self {
            Loss::None | Loss::List(_) => 0.0,
            Loss::Bernoulli(loss) => loss,
            Loss::GilbertElliott { to_bad, to_good, good, bad } if to_bad + to_good > 0.0 => {
                (to_good * good + to_bad * bad) / (to_bad + to_good)
            }
            Loss::GilbertElliott { good, .. } => good,
        }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidImpairment> {
        match *self {
            Loss::None | Loss::List(_) => Ok(()),
            Loss::Bernoulli(share) => probability("loss", share),
            Loss::GilbertElliott { to_bad, to_good, good, bad } => {
                probability("loss.to_bad", to_bad)?;
                probability("loss.to_good", to_good)?;
                probability("loss.good", good)?;
                probability("loss.bad", bad)
            }
        }
    }
}

/// A prepared loss process; the part that all flows share.
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
    List(Arc<[u64]>),
}

/// The state of one flow in its loss process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossState {
    /// Gilbert-Elliott: whether the chain is in the bad state; `None`: it has not started.
    bad: Option<bool>,
    /// List: how many entries are past, if it is still the same list.
    passed: usize,
}

impl LossProcess {
    pub(super) fn new(loss: &Loss) -> Self {
        match loss {
            Loss::Bernoulli(probability) if !never(*probability) => LossProcess::Bernoulli(Chance::new(*probability)),
            Loss::GilbertElliott { to_bad, to_good, good, bad } if !never(*good) || !never(*bad) => {
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
            // Processes that never lose are the same: the chain of a flow pauses meanwhile.
            Loss::None | Loss::Bernoulli(_) | Loss::GilbertElliott { .. } | Loss::List(_) => LossProcess::None,
        }
    }

    /// Whether it can never lose a packet.
    #[inline]
    pub(super) fn is_none(&self) -> bool {
        matches!(self, LossProcess::None)
    }

    /// Whether the flow's packet `index` is lost. Called with ascending indexes.
    #[inline]
    pub(super) fn loses(&self, state: &mut LossState, flow: StreamKey, index: u64) -> bool {
        match self {
            LossProcess::None => false,
            LossProcess::Bernoulli(chance) => chance.hits(flow, Purpose::Loss, index),
            LossProcess::GilbertElliott { starts_bad, to_bad, to_good, good, bad } => {
                let was_bad = state.bad.unwrap_or_else(|| starts_bad.hits(flow, Purpose::ChainStart, 0));
                let leaves = if was_bad { to_good } else { to_bad };
                let is_bad = was_bad ^ leaves.hits(flow, Purpose::ChainStep, index);
                state.bad = Some(is_bad);
                let chance = if is_bad { bad } else { good };
                chance.hits(flow, Purpose::Loss, index)
            }
            LossProcess::List(indexes) => {
                let behind = |passed: usize| {
                    let before = passed.checked_sub(1).and_then(|last| indexes.get(last));
                    let next = indexes.get(passed);
                    before.is_none_or(|&before| before < index) && next.is_none_or(|&next| next >= index)
                };
                // It may have been another list, or have paused.
                if state.passed > indexes.len() || !behind(state.passed) {
                    state.passed = indexes.partition_point(|&listed| listed < index);
                }
                let listed = indexes.get(state.passed) == Some(&index);
                state.passed += usize::from(listed);
                listed
            }
        }
    }
}

fn never(probability: Probability) -> bool {
    Chance::new(probability).is_never()
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

    #[test]
    fn lists_follow_one_another_by_index() {
        let flow = StreamKey::of(Key { seed: 1, link: 0, direction: Way::Forward });
        let lists =
            [vec![0, 1, 2, 3, 17, 20], vec![4, 6, 7], vec![11, 21]].map(|list| LossProcess::new(&Loss::List(list)));
        let mut state = LossState::default();
        // Each for five packets, in turn.
        let lost = (0..30).filter(|&index| lists[index as usize / 5 % 3].loses(&mut state, flow, index));
        assert_eq!(lost.collect::<Vec<_>>(), [0, 1, 2, 3, 6, 7, 11, 17]);
    }

    fn lost(loss: &Loss, packets: u64) -> Vec<u64> {
        let flow = StreamKey::of(Key { seed: 1, link: 0, direction: Way::Forward });
        let process = LossProcess::new(loss);
        let mut state = LossState::default();
        (0..packets).filter(|&index| process.loses(&mut state, flow, index)).collect()
    }
}
