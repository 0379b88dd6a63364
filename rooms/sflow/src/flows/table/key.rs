//! Keys of flows: most are short, and stay where the flow is.

/// An encoded key.
#[derive(Debug)]
pub(super) enum Key {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

/// Two addresses of IPv4 with protocol and ports are 20 bytes. With more, a flow would need more than a line of the cache.
const SHORT: usize = 30;

impl Key {
    /// That of no flow.
    pub(super) const EMPTY: Key = Key::Short(0, [0; SHORT]);

    pub(super) fn new(bytes: &[u8]) -> Key {
        let mut short = [0; SHORT];
        match short.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Key::Short(bytes.len() as u8, short)
            }
            None => Key::Long(bytes.into()),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Key::Short(length, bytes) => &bytes[..usize::from(*length)],
            Key::Long(bytes) => bytes,
        }
    }
}
