//! Fields of metadata: a key, a length, a value.
//!
//! | key | value | |
//! |---|---|---|
//! | 1 | text | station |
//! | 2 | text | stream of the station: `display`, `full`, the name of a server |
//! | 3 | text | software |
//! | 16 | u16 | channel: what follows is of it, up to the next |
//! | 17 | text | name |
//! | 18 | text | unit |
//! | 19 | text | description |
//! | 20 | text | station that it comes from, where another sends it on |
//! | 21, 22 | f64 | low and high of its display |
//! | 23 to 26 | f64 | alarm limits: very low, low, high, very high |
//! | 27, 28 | f64 | scale and offset: what it measures is value x scale + offset |
//! | 29, 30 | u32 | ticks per second, ticks per sample |
//! | 31 | u8 | element |
//! | 32 | u32 | samples a bucket as it is sent now; 1: each sample; 0: it is not sent |
//! | 33 | u8 | of those that send a channel on, the one with the least is to be followed; absent: 0 |
//! | 34 | u8 | 1: a server computes it of other channels; absent: 0 |
//! | 35 | text | stream that it comes from, with 20 |
//! | 64, 65 | | reserved: requests of earlier versions |

use super::Malformed;

pub(super) const STATION: u8 = 1;
pub(super) const STREAM: u8 = 2;
pub(super) const SOFTWARE: u8 = 3;
pub(super) const CHANNEL: u8 = 16;
pub(super) const NAME: u8 = 17;
pub(super) const UNIT: u8 = 18;
pub(super) const DESCRIPTION: u8 = 19;
pub(super) const ORIGIN: u8 = 20;
pub(super) const DISPLAY: [u8; 2] = [21, 22];
pub(super) const ALARM: [u8; 4] = [23, 24, 25, 26];
pub(super) const SCALE: u8 = 27;
pub(super) const OFFSET: u8 = 28;
pub(super) const PER_SECOND: u8 = 29;
pub(super) const PER_SAMPLE: u8 = 30;
pub(super) const ELEMENT: u8 = 31;
pub(super) const BUCKET: u8 = 32;
pub(super) const PRIORITY: u8 = 33;
pub(super) const DERIVED: u8 = 34;
pub(super) const ORIGIN_STREAM: u8 = 35;

/// Longest description, bytes.
pub const MOST_DESCRIPTION: usize = 255;

/// Longest other text, bytes: so that a channel and its sender fit one datagram.
pub const MOST_TEXT: usize = 120;

/// A field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) key: u8,
    value: &'a [u8],
}

/// Fields one behind another; the first that is cut is the last.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&key, rest) = self.0.split_first()?;
        let cut = Some(Err(Malformed::Cut("a field")));
        self.0 = &[];
        let Some((&length, rest)) = rest.split_first() else { return cut };
        let Some((value, rest)) = rest.split_at_checked(length.into()) else { return cut };
        self.0 = rest;
        Some(Ok(Field { key, value }))
    }
}

impl<'a> Field<'a> {
    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.value).map_err(|_| Malformed::Text(self.key))
    }

    pub(super) fn f64(self) -> Result<f64, Malformed> {
        self.exact().map(f64::from_le_bytes)
    }

    pub(super) fn u32(self) -> Result<u32, Malformed> {
        self.exact().map(u32::from_le_bytes)
    }

    pub(super) fn u16(self) -> Result<u16, Malformed> {
        self.exact().map(u16::from_le_bytes)
    }

    pub(super) fn u8(self) -> Result<u8, Malformed> {
        self.exact().map(u8::from_le_bytes)
    }

    fn exact<const N: usize>(self) -> Result<[u8; N], Malformed> {
        // A field is at most 255 bytes long.
        self.value.try_into().map_err(|_| Malformed::Field { key: self.key, length: self.value.len() as u8 })
    }
}

/// Appends a field.
pub(super) fn put<const N: usize>(bytes: &mut Vec<u8>, key: u8, value: [u8; N]) {
    bytes.extend([key, N as u8]);
    bytes.extend(value);
}

/// Appends a text, cut at a character where it is too long; of an empty one nothing.
pub(super) fn put_text(bytes: &mut Vec<u8>, key: u8, text: &str) {
    let most = if key == DESCRIPTION { MOST_DESCRIPTION } else { MOST_TEXT };
    let text = &text[..text.floor_char_boundary(most)];
    if !text.is_empty() {
        bytes.extend([key, text.len() as u8]);
        bytes.extend_from_slice(text.as_bytes());
    }
}
