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
            Loss::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
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
            LossProcess::GilbertElliott { starts_bad, .. } => LossState {
                bad: starts_bad.hits(flow, Purpose::ChainStart, 0),
                passed: 0,
            },
            _ => LossState::default(),
        }
    }

    /// Whether the flow's packet `index` is lost. Called once for each index, ascending.
    #[inline]
    pub(super) fn loses(&self, state: &mut LossState, flow: StreamKey, index: u64) -> bool {
        match self {
            LossProcess::None => false,
            LossProcess::Bernoulli(chance) => chance.hits(flow, Purpose::Loss, index),
            LossProcess::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
                ..
            } => {
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
