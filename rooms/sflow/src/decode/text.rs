//! Values as text.

use std::str;

use serde::{Serialize, Serializer};

/// Bytes, two digits each.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

/// A MAC address, `98:03:9b:8f:b5:cc`.
pub(super) struct Mac(pub(super) [u8; 6]);

/// A UUID, `2c6a1f8e-...`.
pub(super) struct Uuid(pub(super) [u8; 16]);

/// Text of others; what is not UTF-8 is U+FFFD.
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = vec![0; self.0.len() * 2];
        write_hex(self.0, &mut digits);
        serializer.serialize_str(ascii(&digits))
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [b':'; 17];
        for (place, byte) in self.0.iter().enumerate() {
            write_hex(&[*byte], &mut text[place * 3..place * 3 + 2]);
        }
        serializer.serialize_str(ascii(&text))
    }
}

impl Serialize for Uuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [b'-'; 36];
        for (bytes, at) in [(0..4, 0), (4..6, 9), (6..8, 14), (8..10, 19), (10..16, 24)] {
            let length = bytes.len() * 2;
            write_hex(&self.0[bytes], &mut text[at..at + length]);
        }
        serializer.serialize_str(ascii(&text))
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(self.0))
    }
}

fn write_hex(bytes: &[u8], digits: &mut [u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    for (byte, digits) in bytes.iter().zip(digits.as_chunks_mut().0) {
        *digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
}

fn ascii(digits: &[u8]) -> &str {
    str::from_utf8(digits).unwrap_or_default()
}
