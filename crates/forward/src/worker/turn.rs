//! A turn: the stretch in which a worker's counts disagree, and what sending needs meanwhile.

use super::packetize::Packing;
use super::random::Random;
use super::send::SendScratch;
use crate::counters::{TurnMark, Turns};

/// Work on lanes. Whoever offers, sends or gives up datagrams needs one, so that nothing is counted outside of it and no
/// reader of the ledger sees half of a batch. It ends when it is dropped.
pub(super) struct Turn<'a> {
    pub(super) scratch: &'a mut Scratch,
    _mark: TurnMark<'a>,
}

/// Lists that every batch fills anew, kept for their memory, and chance. One a worker.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) send: SendScratch,
    pub(super) packing: Packing,
    pub(super) random: Random,
}

impl<'a> Turn<'a> {
    pub(super) fn begin(turns: &'a Turns, scratch: &'a mut Scratch) -> Self {
        Self { _mark: turns.begin(), scratch }
    }
}
