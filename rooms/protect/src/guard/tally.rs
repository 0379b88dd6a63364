//! What was counted since the start.

use std::collections::BTreeMap;

use super::words::LIMITS;
use crate::model::Doubt;

/// What was counted since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) attacks: u64,
    pub(super) unheard: u64,
    pub(super) announced: u64,
    pub(super) withdrawn: u64,
    pub(super) doubted: BTreeMap<&'static str, u64>,
    pub(super) refused: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// None of any.
    pub(super) fn new() -> Self {
        let (doubted, refused) = (Doubt::NAMES.map(|doubt| (doubt, 0)).into(), LIMITS.map(|limit| (limit, 0)).into());
        Self { doubted, refused, ..Self::default() }
    }

    pub(super) fn refuse(&mut self, limit: &'static str) {
        debug_assert!(LIMITS.contains(&limit), "{limit} is not counted from the start");
        *self.refused.entry(limit).or_default() += 1;
    }

    pub(super) fn doubt(&mut self, doubt: &'static str) {
        debug_assert!(Doubt::NAMES.contains(&doubt), "{doubt} is not counted from the start");
        *self.doubted.entry(doubt).or_default() += 1;
    }
}
