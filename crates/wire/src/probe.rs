//! The header of a Weir test message: which message it is, and when it was sent.
//!
//! All numbers are big-endian. The *base* is all that a message of 16 to 39 bytes carries; longer ones carry the
//! *extension* behind it, and any bytes behind that.
//!
//! | offset | bytes | field | |
//! |---|---|---|---|
//! | 0 | 1 | magic | `0xA7` |
//! | 1 | 1 | version, flags | version 2 in the upper four bits; flags: 1 extended, 2 end |
//! | 2 | 2 | session | tells one sender's messages from another's |
//! | 4 | 4 | sequence | from 0, modulo 2^32; of an end: the number of messages sent |
//! | 8 | 8 | sent | the send call, ns of the sender's CLOCK_MONOTONIC |
//! | 16 | 8 | intended | when it should have been sent, same clock |
//! | 24 | 4 | clock | tells the sender's clock from others: its boot id and time namespace; 0: unknown |
//! | 28 | 4 | incarnation | random at the sender's start; 0: unknown |
//! | 32 | 4 | length | of the whole message, bytes |
//! | 36 | 4 | mark | `WEIR`, so that a foreign packet is not taken for one of ours by accident |
//!
//! Only `clock`s that are equal make times comparable. A sender that is started again with the session and port of an
//! earlier one is told from it by its `incarnation`; a message of the base alone by having been sent after an announced end.
//!
//! On a stream all messages have the extended form, which says its own length. An end is always extended and
//! [`EXTENDED_LEN`] bytes.

use std::fmt;

/// Bytes of the base, and so of the shortest message.
pub const BASE_LEN: usize = 16;

/// Bytes of base and extension.
pub const EXTENDED_LEN: usize = 40;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What the message says.
    pub kind: Kind,
    /// Tells one sender's messages from another's.
    pub session: u16,
    /// Number of the message, modulo 2^32; of an end: the number of messages sent.
    pub sequence: u32,
    /// The send call, ns of the sender's CLOCK_MONOTONIC.
    pub sent: u64,
    /// What a message of 40 bytes and more knows besides; always present in an end.
    pub extension: Option<Extension>,
}

/// What a message says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// It is one of those that are counted.
    #[default]
    Message,
    /// The sender has sent its last message.
    End,
}

/// The further header of a message that has room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// When it should have been sent, ns of the sender's CLOCK_MONOTONIC.
    pub intended: u64,
    /// Tells the sender's clock from others; 0: unknown.
    pub clock: u32,
    /// Random at the sender's start; 0: unknown.
    pub incarnation: u32,
    /// Bytes of the whole message.
    pub length: u32,
}

/// Bytes that are a probe header.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

/// Why bytes are not a probe header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// Too few bytes.
    #[error("{0} bytes: a probe has 16, or 40 with its extension")]
    Short(usize),
    /// Another first byte.
    #[error("first byte {0:#04x}: a probe starts with 0xa7")]
    Magic(u8),
    /// Another version.
    #[error("probe version {0}: this is version 2")]
    Version(u8),
    /// Flags that contradict each other or are unknown.
    #[error("probe flags {0:#03x}: unknown, or an end without extension")]
    Flags(u8),
    /// Another mark at the end of the extension.
    #[error("no mark `WEIR` at the end of the extension")]
    Mark,
    /// A length that cannot be.
    #[error("a probe of {0} bytes: impossible")]
    Length(u32),
}

impl Probe {
    /// Reads the header at the beginning of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Foreign> {
        View::new(bytes).map(|view| view.probe())
    }

    /// Reads the header of a datagram, whose length must be the one it claims.
    pub fn parse_datagram(bytes: &[u8]) -> Result<Self, Foreign> {
        let probe = Self::parse(bytes)?;
        match probe.extension {
            Some(extension) if extension.length as usize != bytes.len() => Err(Foreign::Length(extension.length)),
            None if bytes.len() >= EXTENDED_LEN => Err(Foreign::Flags(0)),
            _ => Ok(probe),
        }
    }

    /// Bytes of this header.
    pub fn header_len(&self) -> usize {
        if self.extension.is_some() { EXTENDED_LEN } else { BASE_LEN }
    }

    /// Writes the header to the beginning of `bytes`. `None`, and nothing written, if it does not fit.
    pub fn write(&self, bytes: &mut [u8]) -> Option<()> {
        let bytes = bytes.get_mut(..self.header_len())?;
        bytes[0] = MAGIC;
        bytes[1] = VERSION << 4 | self.flags();
        bytes[2..4].copy_from_slice(&self.session.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sent.to_be_bytes());
        if let Some(extension) = self.extension {
            bytes[16..24].copy_from_slice(&extension.intended.to_be_bytes());
            bytes[24..28].copy_from_slice(&extension.clock.to_be_bytes());
            bytes[28..32].copy_from_slice(&extension.incarnation.to_be_bytes());
            bytes[32..36].copy_from_slice(&extension.length.to_be_bytes());
            bytes[36..40].copy_from_slice(MARK);
        }
        Some(())
    }

    fn flags(&self) -> u8 {
        let kind = match self.kind {
            Kind::Message => 0,
            Kind::End => END,
        };
        kind | if self.extension.is_some() { EXTENDED } else { 0 }
    }
}

impl<'a> View<'a> {
    /// Checks that `bytes` start with a probe header; what follows it is not looked at.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Foreign> {
        if bytes.len() < BASE_LEN {
            return Err(Foreign::Short(bytes.len()));
        }
        if bytes[0] != MAGIC {
            return Err(Foreign::Magic(bytes[0]));
        }
        if bytes[1] >> 4 != VERSION {
            return Err(Foreign::Version(bytes[1] >> 4));
        }
        let flags = bytes[1] & 0xf;
        let view = Self(bytes);
        match flags {
            0 => return Ok(view),
            EXTENDED | EXTENDED_END => {}
            _ => return Err(Foreign::Flags(flags)),
        }
        if bytes.len() < EXTENDED_LEN {
            return Err(Foreign::Short(bytes.len()));
        }
        if &bytes[36..40] != MARK {
            return Err(Foreign::Mark);
        }
        let length = view.u32_at(32);
        let possible = match flags {
            EXTENDED_END => length as usize == EXTENDED_LEN,
            _ => length as usize >= EXTENDED_LEN,
        };
        if possible { Ok(view) } else { Err(Foreign::Length(length)) }
    }

    /// The header as a value.
    pub fn probe(&self) -> Probe {
        let flags = self.0[1] & 0xf;
        Probe {
            kind: if flags == EXTENDED_END { Kind::End } else { Kind::Message },
            session: u16::from_be_bytes([self.0[2], self.0[3]]),
            sequence: self.u32_at(4),
            sent: self.u64_at(8),
            extension: (flags & EXTENDED != 0).then(|| Extension {
                intended: self.u64_at(16),
                clock: self.u32_at(24),
                incarnation: self.u32_at(28),
                length: self.u32_at(32),
            }),
        }
    }

    fn u32_at(&self, at: usize) -> u32 {
        let mut field = [0; 4];
        field.copy_from_slice(&self.0[at..at + 4]);
        u32::from_be_bytes(field)
    }

    fn u64_at(&self, at: usize) -> u64 {
        let mut field = [0; 8];
        field.copy_from_slice(&self.0[at..at + 8]);
        u64::from_be_bytes(field)
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Message => "message",
            Kind::End => "end after",
        };
        write!(f, "{kind} {} of session {}", self.sequence, self.session)
    }
}

pub(crate) const MAGIC: u8 = 0xa7;
pub(crate) const VERSION: u8 = 2;
pub(crate) const MARK: &[u8; 4] = b"WEIR";

const EXTENDED: u8 = 1;
const END: u8 = 2;
const EXTENDED_END: u8 = EXTENDED | END;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn probes() -> impl Strategy<Value = Probe> {
        let header = (any::<u16>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<(u32, u32)>());
        let form = prop_oneof![
            Just((Kind::Message, None)),
            (EXTENDED_LEN as u32..).prop_map(|length| (Kind::Message, Some(length))),
            Just((Kind::End, Some(EXTENDED_LEN as u32))),
        ];
        (header, form).prop_map(|((session, sequence, sent, intended, (clock, incarnation)), (kind, length))| Probe {
            kind,
            session,
            sequence,
            sent,
            extension: length.map(|length| Extension { intended, clock, incarnation, length }),
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(probe in probes(), behind in 0usize..100) {
            let mut bytes = vec![0x55; probe.header_len() + behind];
            prop_assert_eq!(probe.write(&mut bytes), Some(()));
            prop_assert_eq!(Probe::parse(&bytes), Ok(probe));
            prop_assert!(bytes[probe.header_len()..].iter().all(|&b| b == 0x55));
        }

        #[test]
        fn a_cut_header_is_foreign(probe in probes(), cut in 1usize..=EXTENDED_LEN) {
            let mut bytes = [0; EXTENDED_LEN];
            probe.write(&mut bytes).unwrap();
            let len = probe.header_len().saturating_sub(cut);
            prop_assert_eq!(Probe::parse(&bytes[..len]), Err(Foreign::Short(len)));
            prop_assert_eq!(probe.write(&mut bytes[..len]), None);
        }

        #[test]
        fn arbitrary_bytes_are_foreign_or_written_alike(mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
                                                        near in any::<bool>()) {
            if near && bytes.len() >= 40 {
                bytes[0] = MAGIC;
                bytes[1] = VERSION << 4 | bytes[1] & 7;
                bytes[36..40].copy_from_slice(MARK);
                bytes[32..35].copy_from_slice(&[0; 3]);
            }
            if let Ok(probe) = Probe::parse(&bytes) {
                let mut again = bytes.clone();
                prop_assert_eq!(probe.write(&mut again), Some(()));
                prop_assert_eq!(&again, &bytes);
            }
            let _ = Probe::parse_datagram(&bytes);
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let extension =
            Extension { intended: 0x1112_1314_1516_1718, clock: 0x2122_2324, incarnation: 0x2526_2728, length: 1000 };
        let probe = Probe {
            kind: Kind::Message,
            session: 0x0102,
            sequence: 0x0304_0506,
            sent: 0x0708_090a_0b0c_0d0e,
            extension: Some(extension),
        };
        let mut bytes = [0; EXTENDED_LEN];
        probe.write(&mut bytes).unwrap();
        let expected = *b"\xa7\x21\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\
            \x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24\x25\x26\x27\x28\x00\x00\x03\xe8WEIR";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn says_why_bytes_are_foreign() {
        let mut bytes = [0; EXTENDED_LEN];
        assert_eq!(Probe::parse(&bytes), Err(Foreign::Magic(0)));
        bytes[0] = MAGIC;
        assert_eq!(Probe::parse(&bytes), Err(Foreign::Version(0)));
        bytes[1] = 0x20 | END;
        assert_eq!(Probe::parse(&bytes), Err(Foreign::Flags(END)));
        bytes[1] = 0x20 | EXTENDED;
        assert_eq!(Probe::parse(&bytes), Err(Foreign::Mark));
        bytes[36..40].copy_from_slice(MARK);
        assert_eq!(Probe::parse(&bytes), Err(Foreign::Length(0)));
        bytes[35] = 41;
        assert!(Probe::parse(&bytes).is_ok());
        assert_eq!(Probe::parse_datagram(&bytes), Err(Foreign::Length(41)));
    }
}
