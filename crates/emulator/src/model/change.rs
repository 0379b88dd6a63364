//! What may be changed in packets: one table, from which validation, decisions, the data path and the ledger are made.

use std::ops::{Index, IndexMut};

/// The kinds of change in the order in which a packet meets them: what each does, its variant, its key, its counter, the
/// first of its two random sequences (see [`Purpose`](super::random::Purpose)), and the function that does it, given the
/// IP header with its extensions, what follows it, and a random number.
macro_rules! changes {
    ($($(#[$about:meta])+ $variant:ident, $key:literal, $counter:literal, $sequence:literal, $apply:path;)+) => {
        /// A kind of change of a packet. Copies stay as they were.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Change { $($(#[$about])+ $variant,)+ }

        impl Change {
            /// Every kind.
            pub const ALL: [Self; [$($key),+].len()] = [$(Self::$variant),+];

            /// Its key in scenarios.
            pub fn key(self) -> &'static str {
                match self { $(Self::$variant => $key,)+ }
            }

            /// The name under which packets changed so are counted.
            pub fn counter(self) -> &'static str {
                match self { $(Self::$variant => $counter,)+ }
            }

            pub(super) fn sequence(self) -> u64 {
                match self { $(Self::$variant => $sequence,)+ }
            }

            fn apply(self, header: &mut [u8], body: &mut [u8], choice: u64) {
                match self { $(Self::$variant => $apply(header, body, choice),)+ }
            }
        }
    };
}

changes! {
    /// One bit behind the IP header is flipped, and the checksums are left as they were.
    Corrupt, "corrupt", "corrupted_packets", 5, flip_bit;
}

/// A value for each kind of [`Change`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes<T>([T; Change::ALL.len()]);

impl<T> Changes<T> {
    /// The value of each kind.
    pub fn each(value: impl FnMut(Change) -> T) -> Self {
        Self(Change::ALL.map(value))
    }

    /// Every kind with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Change, &T)> {
        Change::ALL.into_iter().zip(&self.0)
    }
}

impl<T: Default> Changes<T> {
    /// A value for one kind; the others have the default.
    pub fn only(change: Change, value: T) -> Self {
        let mut changes = Self::each(|_| T::default());
        changes[change] = value;
        changes
    }
}

/// What is to be changed in a packet: for each kind that hits it, the number that chooses how.
impl Changes<Option<u64>> {
    /// Whether the packet stays as it is.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Changes a packet, given as its IP header with its extensions, and what follows it.
    pub fn apply(&self, header: &mut [u8], body: &mut [u8]) {
        for (change, choice) in self.iter() {
            if let Some(choice) = *choice {
                change.apply(header, body, choice);
            }
        }
    }
}

impl<T> Index<Change> for Changes<T> {
    type Output = T;

    fn index(&self, change: Change) -> &T {
        &self.0[change as usize]
    }
}

impl<T> IndexMut<Change> for Changes<T> {
    fn index_mut(&mut self, change: Change) -> &mut T {
        &mut self.0[change as usize]
    }
}

/// Which bit is the choice modulo the number of bits; nothing, if nothing follows the header.
fn flip_bit(_header: &mut [u8], body: &mut [u8], choice: u64) {
    if !body.is_empty() {
        let bit = choice % (body.len() as u64 * 8);
        body[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipped_bit_is_the_chosen_one() {
        let changes = |choice| Changes::only(Change::Corrupt, Some(choice));
        let (mut header, mut body) = ([0x45; 20], [0; 3]);
        changes(24 + 9).apply(&mut header, &mut body);
        assert_eq!((header, body), ([0x45; 20], [0, 2, 0]));
        changes(9).apply(&mut header, &mut []);
        assert_eq!(header, [0x45; 20]);
        assert!(!changes(0).is_none() && Changes::default().is_none());
    }
}
