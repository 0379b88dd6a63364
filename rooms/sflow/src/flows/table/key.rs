//! Keys of flows: most are short, and stay where the flow is.

/// An encoded key; a long one lies where `L` says.
#[derive(Clone, Copy, Debug)]
pub(in crate::flows) enum Key<L> {
    Short(Short),
    Long(L),
}

/// A key of few bytes. Behind them are zeros: two are compared as a whole, which is quicker than up to where they end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::flows) struct Short {
    length: u8,
    bytes: [u8; Short::MOST],
}

impl Short {
    /// Two addresses of IPv4 with protocol and ports are 20 bytes. With more, a flow would need more than a line of the cache.
    pub(in crate::flows) const MOST: usize = 30;

    /// The first bytes of these; those behind `length` are 0.
    #[inline]
    pub(in crate::flows) fn new<const N: usize>(bytes: &[u8; N], length: usize) -> Short {
        const { assert!(N >= Short::MOST) };
        let mut short = Short { length: length as u8, bytes: [0; Short::MOST] };
        short.bytes.copy_from_slice(&bytes[..Short::MOST]);
        short
    }

    /// All of it as two numbers, which share two bytes.
    #[inline]
    pub(super) fn words(&self) -> [u128; 2] {
        let word = |at: usize| {
            let mut word = [0; 16];
            word.copy_from_slice(&self.bytes[at..at + 16]);
            u128::from_le_bytes(word)
        };
        [word(0), word(Short::MOST - 16)]
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl<'k> Key<&'k [u8]> {
    /// Of these bytes.
    #[cfg(test)]
    pub(super) fn new(bytes: &'k [u8]) -> Self {
        let mut short = [0; Short::MOST];
        match short.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Key::Short(Short::new(&short, bytes.len()))
            }
            None => Key::Long(bytes),
        }
    }

    /// The same, to be kept.
    pub(super) fn keep(&self) -> Key<Box<[u8]>> {
        match self {
            Key::Short(short) => Key::Short(*short),
            Key::Long(bytes) => Key::Long((*bytes).into()),
        }
    }
}

impl Key<Box<[u8]>> {
    /// That of no flow.
    pub(super) const EMPTY: Self = Key::Short(Short { length: 0, bytes: [0; Short::MOST] });

    #[inline]
    pub(super) fn is(&self, other: &Key<&[u8]>) -> bool {
        match (self, other) {
            (Key::Short(a), Key::Short(b)) => a == b,
            (Key::Long(a), Key::Long(b)) => **a == **b,
            _ => false,
        }
    }

    /// The same, to be looked for.
    pub(super) fn as_ref(&self) -> Key<&[u8]> {
        match self {
            Key::Short(short) => Key::Short(*short),
            Key::Long(bytes) => Key::Long(bytes),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Key::Short(short) => short.as_bytes(),
            Key::Long(bytes) => bytes,
        }
    }
}
