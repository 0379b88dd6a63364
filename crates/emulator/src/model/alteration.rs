//! Alterations of packets: one table for validation, decisions, the data path and the ledger.

use std::ops::{Index, IndexMut};

/// The kinds of alteration in the order of a packet's path: description, variant, key, counter, the first of two random
/// sequences (see [`Purpose`](super::random::Purpose)), and the function, given the IP header with its extensions, the
/// rest, and a random number.
macro_rules! alterations {
    ($($(#[$about:meta])+ $variant:ident, $key:literal, $counter:literal, $sequence:literal, $apply:path;)+) => {
        /// A kind of alteration of a packet. Copies are not altered.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Alteration { $($(#[$about])+ $variant,)+ }

        impl Alteration {
            /// Every kind.
            pub const ALL: [Self; [$($key),+].len()] = [$(Self::$variant),+];

            /// Its key in scenarios.
            pub fn key(self) -> &'static str {
                match self { $(Self::$variant => $key,)+ }
            }

            /// The name of its counter.
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

alterations! {
    /// One bit after the IP header is flipped; the checksums stay unchanged.
    Corrupt, "corrupt", "corrupted_packets", 5, flip_bit;
}

/// A value for each kind of [`Alteration`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alterations<T>([T; Alteration::ALL.len()]);

impl<T> Alterations<T> {
    /// The value of each kind.
    pub fn each(value: impl FnMut(Alteration) -> T) -> Self {
        Self(Alteration::ALL.map(value))
    }

    /// Every kind with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Alteration, &T)> {
        Alteration::ALL.into_iter().zip(&self.0)
    }
}

impl<T: Default> Alterations<T> {
    /// A value for one kind; the others have the default.
    pub fn only(kind: Alteration, value: T) -> Self {
        let mut alterations = Self::each(|_| T::default());
        alterations[kind] = value;
        alterations
    }
}

/// The alterations of a packet: for each kind that hits it, the random number for it.
impl Alterations<Option<u64>> {
    /// Whether the packet stays unchanged.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Alters a packet, given as its IP header with its extensions, and the rest.
    pub fn apply(&self, header: &mut [u8], body: &mut [u8]) {
        for (kind, choice) in self.iter() {
            if let Some(choice) = *choice {
                kind.apply(header, body, choice);
            }
        }
    }
}

impl<T> Index<Alteration> for Alterations<T> {
    type Output = T;

    fn index(&self, kind: Alteration) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<Alteration> for Alterations<T> {
    fn index_mut(&mut self, kind: Alteration) -> &mut T {
        &mut self.0[kind as usize]
    }
}

/// The bit is the choice modulo the number of bits; none, if nothing follows the header.
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
        let alterations = |choice| Alterations::only(Alteration::Corrupt, Some(choice));
        let (mut header, mut body) = ([0x45; 20], [0; 3]);
        alterations(24 + 9).apply(&mut header, &mut body);
        assert_eq!((header, body), ([0x45; 20], [0, 2, 0]));
        alterations(9).apply(&mut header, &mut []);
        assert_eq!(header, [0x45; 20]);
        assert!(!alterations(0).is_none() && Alterations::default().is_none());
    }
}
