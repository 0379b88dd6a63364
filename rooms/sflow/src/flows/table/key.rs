//! Keys of flows: most are short, and stay where the flow is.

/// An encoded key.
#[derive(Debug)]
pub(super) enum Key {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

/// Two addresses of IPv4 with protocol and ports are 20 bytes, two of IPv6 34.
const SHORT: usize = 38;

impl Key {
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
