//! Sequence numbers of 32 bits that wrap: which are missing, late or here twice.

use serde::{Deserialize, Serialize};

/// What a number says about those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first one, or the first after a [`Sequence::restart`].
    First,
    /// The one behind the highest.
    Next,
    /// So many before it have not come.
    Lost(u32),
    /// Overtaken by later ones: it gives back what was counted lost.
    Late,
    /// It was here before.
    Duplicate,
    /// So far behind that nobody knows whether it was here before; it stays counted as it was.
    Stale,
    /// So far ahead or behind that it continues nothing: counting begins anew with it.
    Jump,
}

/// The numbers of one source, and its ledger.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sequence {
    highest: u32,
    /// Bit `i`: the number `highest - i` has come. 0: none has.
    window: u128,
    /// Numbers from the first of this run to the highest.
    run: u64,
    ledger: Ledger,
}

/// What has come of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Different numbers that have come.
    pub received: u64,
    /// Numbers that have not come.
    pub lost: u64,
    /// Received, but overtaken by later ones.
    pub late: u64,
    /// Come again; not among `received`.
    pub duplicates: u64,
}

impl Ledger {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.lost += other.lost;
        self.late += other.late;
        self.duplicates += other.duplicates;
    }
}

impl Sequence {
    /// Numbers behind the highest of which it is known whether they have come.
    pub const WINDOW: i32 = u128::BITS as i32;
    /// Behind the window, but not by so much as a run begun anew.
    pub const STALE: i32 = 4096;
    /// The most that may be lost at once.
    pub const GAP: i32 = 1 << 24;

    /// How far a number is ahead of the highest; 0 or less: not at all. `None`: there is no highest.
    #[inline]
    pub fn ahead(&self, number: u32) -> Option<i32> {
        (self.window != 0).then(|| number.wrapping_sub(self.highest) as i32)
    }

    /// Takes a number to the books.
    #[inline]
    pub fn advance(&mut self, number: u32) -> Step {
        match self.ahead(number) {
            None => {
                self.restart(number);
                Step::First
            }
            Some(ahead @ 1..=Self::GAP) => self.forward(number, ahead as u32),
            Some(behind) if behind <= 0 && behind > -Self::WINDOW => self.backward(behind.unsigned_abs()),
            Some(behind) if behind <= 0 && behind > -Self::STALE => Step::Stale,
            Some(_) => {
                self.restart(number);
                Step::Jump
            }
        }
    }

    /// Begins a new run at `number`.
    pub fn restart(&mut self, number: u32) {
        (self.highest, self.window, self.run) = (number, 1, 1);
        self.ledger.received += 1;
    }

    /// What has come so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether a number has come, as far as that is known.
    pub(super) fn has(&self, number: u32) -> bool {
        let behind = self.highest.wrapping_sub(number);
        behind < u128::BITS && self.window >> behind & 1 == 1
    }

    #[inline]
    fn forward(&mut self, number: u32, by: u32) -> Step {
        self.highest = number;
        self.window = self.window.checked_shl(by).unwrap_or(0) | 1;
        self.run += u64::from(by);
        self.ledger.received += 1;
        self.ledger.lost += u64::from(by - 1);
        if by == 1 { Step::Next } else { Step::Lost(by - 1) }
    }

    fn backward(&mut self, by: u32) -> Step {
        if self.window >> by & 1 == 1 {
            self.ledger.duplicates += 1;
            return Step::Duplicate;
        }
        self.window |= 1 << by;
        self.ledger.received += 1;
        self.ledger.late += 1;
        match u64::from(by) + 1 - self.run.min(u64::from(by) + 1) {
            0 => self.ledger.lost -= 1,
            // The run began earlier than was known.
            earlier => {
                self.run += earlier;
                self.ledger.lost += earlier - 1;
            }
        }
        Step::Late
    }
}
