//! Keys of flows: most are short, and stay where the flow is.

/// A key as it is worked with: its first bytes, the first in the lowest place, and in the highest one how many there are, or [`LONG`].
///
/// Two numbers, not bytes: keys are put together and compared within the processor. It would have to wait for bytes that were
/// written one by one and are read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flows) struct Key {
    low: u128,
    high: u128,
}

/// A part of a key, of at most 16 bytes, the first in the lowest place.
#[derive(Clone, Copy, Debug)]
pub(in crate::flows) struct Piece {
    pub(in crate::flows) length: u8,
    pub(in crate::flows) bytes: u128,
}

/// A key as it is kept: where bytes can be borrowed.
#[derive(Debug)]
#[repr(align(16))]
pub(super) struct Kept([u8; 32]);

/// Two addresses of IPv4 with protocol and ports are 20 bytes. With more, a flow would need more than a line of the cache.
const SHORT: usize = 31;

/// A key that has more bytes than fit.
const LONG: u8 = u8::MAX;

impl Key {
    /// That of a definition without keys.
    pub(in crate::flows) const EMPTY: Key = Key { low: 0, high: 0 };

    /// Of these bytes.
    pub(in crate::flows) fn new(bytes: &[u8]) -> Key {
        let mut kept = Kept([0; 32]);
        let first = bytes.len().min(SHORT);
        kept.0[..first].copy_from_slice(&bytes[..first]);
        kept.0[SHORT] = if bytes.len() > SHORT { LONG } else { first as u8 };
        kept.key()
    }

    /// With a piece behind what it has; `None`: it is long.
    #[inline]
    pub(in crate::flows) fn with(self, piece: Piece) -> Option<Key> {
        let at = (self.high >> 120) as u32;
        if at + u32::from(piece.length) > SHORT as u32 {
            return None;
        }
        let (low, high) = match 8 * at {
            0 => (piece.bytes, 0),
            shift @ ..128 => (piece.bytes << shift, piece.bytes >> (128 - shift)),
            shift => (0, piece.bytes << (shift - 128)),
        };
        Some(Key { low: self.low | low, high: (self.high | high) + (u128::from(piece.length) << 120) })
    }

    /// Whether the first bytes are not all of it.
    #[inline]
    pub(in crate::flows) fn is_long(self) -> bool {
        (self.high >> 120) as u8 == LONG
    }

    #[inline]
    pub(super) fn words(self) -> [u128; 2] {
        [self.low, self.high]
    }

    #[inline]
    pub(super) fn keep(self) -> Kept {
        let mut kept = Kept([0; 32]);
        kept.0[..16].copy_from_slice(&self.low.to_le_bytes());
        kept.0[16..].copy_from_slice(&self.high.to_le_bytes());
        kept
    }
}

impl Kept {
    /// That of no flow.
    pub(super) const EMPTY: Kept = Kept([0; 32]);

    #[inline]
    pub(super) fn key(&self) -> Key {
        let half = |at: usize| {
            let mut half = [0; 16];
            half.copy_from_slice(&self.0[at..at + 16]);
            u128::from_le_bytes(half)
        };
        Key { low: half(0), high: half(16) }
    }

    /// All of it, or the first bytes of a long one.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0[..usize::from(self.0[SHORT]).min(SHORT)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_make_the_key_of_their_bytes(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..=16), 0..5)) {
            let bytes = pieces.concat();
            let key = pieces.iter().try_fold(Key::EMPTY, |key, piece| {
                let mut all = [0; 16];
                all[..piece.len()].copy_from_slice(piece);
                key.with(Piece { length: piece.len() as u8, bytes: u128::from_le_bytes(all) })
            });
            prop_assert_eq!(key.is_none(), bytes.len() > SHORT);
            prop_assert_eq!(Key::new(&bytes).is_long(), bytes.len() > SHORT);
            if let Some(key) = key {
                prop_assert_eq!(key, Key::new(&bytes));
                let kept = key.keep();
                prop_assert_eq!(kept.as_bytes(), bytes.as_slice());
                prop_assert_eq!(kept.key(), key);
            }
        }
    }
}
