//! What a worker counts of datagrams.

use weir_forward::counters::Counter;

use crate::fate::Fate;

/// The counts of one worker, which alone writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Cells {
    fates: [Counter; Fate::COUNT],
    misdirected: Counter,
}

/// What became of datagrams: a copy of [`Cells`], or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Datagrams by fate, in their order.
    pub fates: [u64; Fate::COUNT],
    /// Of them all, those that came to another worker's socket than their agent's.
    pub misdirected: u64,
}

impl Cells {
    /// Counts what became of a datagram.
    #[inline]
    pub(super) fn count(&self, fate: Fate) {
        self.fates[fate as usize].add(1);
    }

    pub(super) fn count_misdirected(&self) {
        self.misdirected.add(1);
    }

    /// The counts now.
    pub fn copy(&self) -> Intake {
        Intake { fates: std::array::from_fn(|fate| self.fates[fate].get()), misdirected: self.misdirected.get() }
    }
}

impl Intake {
    /// Adds the counts of another worker.
    pub fn absorb(&mut self, other: &Self) {
        self.fates.iter_mut().zip(other.fates).for_each(|(mine, theirs)| *mine += theirs);
        self.misdirected += other.misdirected;
    }

    /// Datagrams of one fate.
    pub fn of(&self, fate: Fate) -> u64 {
        self.fates[fate as usize]
    }
}
