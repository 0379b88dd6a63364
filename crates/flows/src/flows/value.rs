//! Values of keys: what a packet says, as short as it can be kept, and as text for people.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::table::Piece;

/// What a key is. Texts are anything that tells where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<T> {
    /// The packet has no such thing.
    Null,
    /// A number.
    Number(u64),
    /// Yes or no.
    Truth(bool),
    /// Flags, as many as `width`.
    Bits {
        /// The first flag in the highest of them.
        bits: u16,
        /// How many.
        width: u8,
    },
    /// An Ethernet address.
    Mac([u8; 6]),
    /// An address.
    Ip(IpAddr),
    /// A name, with nothing in it that a terminal could take for more.
    Text(T),
}

/// What a key is for one packet. Texts lie in the [`Scratch`] of the evaluation.
pub(super) type Value = Part<Span>;

/// A part of a [`Scratch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text {} to {}", self.start, self.end)
    }
}

/// Texts that were made for one packet; emptied, but kept, for the next.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    text: String,
}

/// Longest text in bytes that is part of a flow's key; longer ones are cut, and flows that differ behind that are one.
pub const MAX_TEXT: usize = 200;

impl Scratch {
    pub(super) fn clear(&mut self) {
        self.text.clear();
    }

    pub(super) fn get(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// A new text, written by `write`.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut String)) -> Value {
        let start = self.text.len() as u32;
        write(&mut self.text);
        Value::Text(Span { start, end: self.text.len() as u32 })
    }

    /// A word of ours.
    pub(super) fn word(&mut self, word: &str) -> Value {
        self.write(|text| text.push_str(word))
    }

    /// A new text from one that lies here already; both ends must be where characters begin.
    pub(super) fn part(span: Span, from: usize, to: usize) -> Value {
        Value::Text(Span { start: span.start + from as u32, end: span.start + to as u32 })
    }

    /// A text that somebody else chose: control characters and what is no UTF-8 are escaped, so that it can be shown anywhere.
    pub(super) fn foreign(&mut self, bytes: &[u8]) -> Value {
        self.write(|text| {
            // Most are plain.
            if bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
                && let Ok(plain) = str::from_utf8(bytes)
            {
                return text.push_str(plain);
            }
            for chunk in bytes.utf8_chunks() {
                for c in chunk.valid().chars() {
                    if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
                }
                for byte in chunk.invalid() {
                    text.extend(byte.escape_ascii().map(char::from));
                }
            }
        })
    }

    /// A new text from several that lie here.
    pub(super) fn join(&mut self, separator: &str, spans: impl Iterator<Item = Span>) -> Value {
        let start = self.text.len();
        for (at, span) in spans.enumerate() {
            if at > 0 {
                self.text.push_str(separator);
            }
            self.text.extend_from_within(span.start as usize..span.end as usize);
        }
        Value::Text(Span { start: start as u32, end: self.text.len() as u32 })
    }

    /// A value as text that lies here.
    pub(super) fn render(&mut self, value: Value) -> Option<Span> {
        match value {
            Value::Null => None,
            Value::Text(span) => Some(span),
            other => {
                use fmt::Write;
                let start = self.text.len() as u32;
                // Writing to a string does not fail.
                let _ = write!(self.text, "{other}");
                Some(Span { start, end: self.text.len() as u32 })
            }
        }
    }
}

impl Value {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub(super) fn number(&self) -> Option<u64> {
        match *self {
            Value::Number(number) => Some(number),
            Value::Truth(truth) => Some(truth.into()),
            _ => None,
        }
    }

    /// Appends it to the key of a flow, so that equal bytes are equal values. [`Parts`] reads it back.
    pub(super) fn encode(&self, scratch: &Scratch, key: &mut Vec<u8>) {
        match (self.piece(scratch), self) {
            (Some(Piece { length, bytes }), _) => key.extend_from_slice(&bytes.to_le_bytes()[..length.into()]),
            (None, Value::Ip(IpAddr::V6(ip))) => {
                key.push(tag::V6);
                key.extend_from_slice(&ip.octets());
            }
            (None, Value::Text(span)) => encode_text(scratch.get(*span), key),
            (None, _) => {}
        }
    }

    /// The same as one piece; `None`: an address of IPv6 and a longer text are none.
    #[inline]
    pub(super) fn piece(&self, scratch: &Scratch) -> Option<Piece> {
        let tagged = |tag: u8, length: u8, rest: u64| Piece { length, bytes: u128::from(rest) << 8 | u128::from(tag) };
        Some(match self {
            Value::Null => tagged(tag::NULL, 1, 0),
            Value::Number(number) => {
                // The first is the highest byte that is not 0.
                let unused = number.leading_zeros() & !7;
                let used = 8 - (unused / 8) as u8;
                tagged(tag::NUMBER + used, 1 + used, number.checked_shl(unused).unwrap_or(0).swap_bytes())
            }
            Value::Truth(truth) => tagged(if *truth { tag::TRUE } else { tag::FALSE }, 1, 0),
            Value::Bits { bits, width } => tagged(tag::BITS, 4, u64::from(bits.swap_bytes()) << 8 | u64::from(*width)),
            Value::Mac([a, b, c, d, e, f]) => tagged(tag::MAC, 7, u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0])),
            Value::Ip(IpAddr::V4(ip)) => tagged(tag::V4, 5, u32::from_le_bytes(ip.octets()).into()),
            Value::Ip(IpAddr::V6(_)) => return None,
            Value::Text(span) => text_piece(scratch.get(*span))?,
        })
    }
}

fn text_piece(text: &str) -> Option<Piece> {
    let mut bytes = [0; 16];
    bytes.get_mut(2..2 + text.len())?.copy_from_slice(text.as_bytes());
    (bytes[0], bytes[1]) = (tag::TEXT, text.len() as u8);
    Some(Piece { length: 2 + text.len() as u8, bytes: u128::from_le_bytes(bytes) })
}

fn encode_text(text: &str, key: &mut Vec<u8>) {
    let length = text.floor_char_boundary(MAX_TEXT);
    key.push(tag::TEXT);
    key.push(length as u8);
    key.extend_from_slice(&text.as_bytes()[..length]);
}

mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const BITS: u8 = 3;
    pub(super) const MAC: u8 = 4;
    pub(super) const V4: u8 = 5;
    pub(super) const V6: u8 = 6;
    pub(super) const TEXT: u8 = 7;
    /// And as many as there are bytes of the number, 0 to 8.
    pub(super) const NUMBER: u8 = 16;
}

/// As sFlow-RT writes them: addresses of Ethernet as twelve digits, flags as binary digits.
impl<T: fmt::Display> fmt::Display for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Null => Ok(()),
            Part::Number(number) => write!(f, "{number}"),
            Part::Truth(truth) => write!(f, "{truth}"),
            Part::Bits { bits, width } => write!(f, "{bits:0width$b}", width = usize::from(*width)),
            Part::Mac(mac) => mac.iter().try_for_each(|byte| write!(f, "{byte:02X}")),
            Part::Ip(ip) => write!(f, "{ip}"),
            Part::Text(text) => text.fmt(f),
        }
    }
}

/// The parts of a flow's key, in the order of the definition.
#[derive(Clone, Debug)]
pub struct Parts<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = Part<&'a str>;

    fn next(&mut self) -> Option<Part<&'a str>> {
        let (&tag, rest) = self.0.split_first()?;
        let (part, used) = match tag {
            tag::TRUE => (Part::Truth(true), 0),
            tag::BITS => {
                let &[width, high, low] = rest.first_chunk()?;
                (Part::Bits { bits: u16::from_be_bytes([high, low]), width }, 3)
            }
            tag::MAC => (Part::Mac(*rest.first_chunk()?), 6),
            tag::V4 => (Part::Ip(Ipv4Addr::from(*rest.first_chunk::<4>()?).into()), 4),
            tag::V6 => (Part::Ip(Ipv6Addr::from(*rest.first_chunk::<16>()?).into()), 16),
            tag::TEXT => {
                let length = usize::from(*rest.first()?);
                (Part::Text(str::from_utf8(rest.get(1..=length)?).ok()?), length + 1)
            }
            tag::NUMBER.. => {
                let used = usize::from(tag - tag::NUMBER);
                let number = rest.get(..used)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
                (Part::Number(number), used)
            }
            _ => (Part::Truth(false), 0),
        };
        self.0 = &rest[used..];
        Some(part)
    }
}

/// What a filter compares with: a text in each of the forms that it can stand for. A network stands for all of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Literal {
    text: Box<str>,
    number: Option<u64>,
    ip: Option<IpAddr>,
    net: Option<IpNet>,
    mac: Option<[u8; 6]>,
    /// Whether it is `null`, which most packets are for most filters.
    null: bool,
}

impl Literal {
    pub(super) fn new(text: &str) -> Literal {
        let net = text.parse().ok();
        Literal {
            number: text.parse().ok(),
            ip: text.parse().ok(),
            net,
            mac: mac(text),
            null: text == "null",
            text: text.into(),
        }
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is what packets have that have no such thing.
    pub(super) fn is_null(&self) -> bool {
        self.null
    }

    /// Whether a value is this one; what a packet has not is `null`.
    #[inline]
    pub(super) fn is(&self, value: &Value, scratch: &Scratch) -> bool {
        match *value {
            Value::Null => self.null,
            Value::Number(number) => self.number == Some(number),
            Value::Truth(truth) => &*self.text == if truth { "true" } else { "false" },
            Value::Bits { bits, width } => {
                self.text.len() == usize::from(width)
                    && self.text.bytes().fold(0, |sum, digit| sum << 1 | u16::from(digit == b'1')) == bits
            }
            Value::Mac(mac) => self.mac == Some(mac),
            Value::Ip(ip) => self.ip == Some(ip) || self.net.is_some_and(|net| net.contains(&ip)),
            Value::Text(span) => *self.text == *scratch.get(span),
        }
    }
}

/// Twelve hexadecimal digits, with `:`, `-` or `.` between them or not.
pub(super) fn mac(text: &str) -> Option<[u8; 6]> {
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | '-' | '.')).collect();
    if digits.len() != 12 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(&digits, 16).ok()?;
    number.to_be_bytes().last_chunk().copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = (Value, String)> {
        prop_oneof![
            any::<u64>().prop_map(|n| (Value::Number(n), n.to_string())),
            (0u64..300).prop_map(|n| (Value::Number(n), n.to_string())),
            any::<bool>().prop_map(|b| (Value::Truth(b), b.to_string())),
            any::<[u8; 6]>().prop_map(|mac| { (Value::Mac(mac), mac.iter().map(|b| format!("{b:02X}")).collect()) }),
            any::<[u8; 4]>().prop_map(|ip| (Value::Ip(IpAddr::from(ip)), IpAddr::from(ip).to_string())),
            any::<[u8; 16]>().prop_map(|ip| (Value::Ip(IpAddr::from(ip)), IpAddr::from(ip).to_string())),
            (0u16..512).prop_map(|bits| (Value::Bits { bits, width: 9 }, format!("{bits:09b}"))),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_and_is_itself(parts in proptest::collection::vec(values(), 0..6)) {
            let (mut scratch, mut key) = (Scratch::default(), Vec::new());
            for &(value, ref text) in &parts {
                value.encode(&scratch, &mut key);
                prop_assert!(Literal::new(text).is(&value, &scratch), "{value:?} is {text}");
                prop_assert!(!Literal::new("other").is(&value, &scratch));
                let span = scratch.render(value).unwrap();
                prop_assert_eq!(scratch.get(span), text.as_str());
            }
            let shown: Vec<String> = Parts(&key).map(|part| part.to_string()).collect();
            prop_assert_eq!(shown, parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>());
        }

        #[test]
        fn no_key_is_too_strange(bytes: Vec<u8>) {
            // It ends, whatever it holds.
            prop_assert!(Parts(&bytes).count() <= bytes.len());
        }

        #[test]
        fn texts_of_others_cannot_drive_a_terminal(bytes: Vec<u8>) {
            let mut scratch = Scratch::default();
            let value = scratch.foreign(&bytes);
            let span = scratch.render(value).unwrap();
            prop_assert!(!scratch.get(span).chars().any(char::is_control));
            let mut key = Vec::new();
            value.encode(&scratch, &mut key);
            prop_assert_eq!(Parts(&key).count(), 1);
        }
    }

    #[test]
    fn addresses_are_compared_as_such() {
        let scratch = Scratch::default();
        let ip = |text: &str| Value::Ip(text.parse().unwrap());
        assert!(Literal::new("2001:DB8:0::1").is(&ip("2001:db8::1"), &scratch));
        for (net, inside) in [("10.0.0.0/8", true), ("10.1.2.0/23", true), ("10.1.2.0/24", false), ("::/0", false)] {
            assert_eq!(Literal::new(net).is(&ip("10.1.3.4"), &scratch), inside, "{net}");
        }
        for text in ["001122aabbcc", "00:11:22:AA:bb:cc", "0011.22aa.bbcc", "00-11-22-aa-bb-cc"] {
            assert!(Literal::new(text).is(&Value::Mac([0, 0x11, 0x22, 0xaa, 0xbb, 0xcc]), &scratch), "{text}");
        }
        assert!(Literal::new("null").is(&Value::Null, &scratch) && !Literal::new("0").is(&Value::Null, &scratch));
    }
}
