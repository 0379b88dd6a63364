//! What all datagrams begin with.

use super::Malformed;

/// Bytes of a header.
pub const HEADER_LEN: usize = 24;

/// What all datagrams begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// How it is protected.
    pub flags: Flags,
    /// What the sender's times are worth.
    pub clock: Clock,
    /// Blocks or positions; of other kinds 0.
    pub count: u16,
    /// Random at each start of a sender.
    pub session: u64,
    /// Of data: its number in the session; of all else: the number that the next data will have.
    pub sequence: u64,
}

/// What a datagram is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Samples.
    #[default]
    Data,
    /// The sender lives.
    Heartbeat,
    /// The sender ends.
    End,
    /// What channels are.
    Metadata,
    /// What earlier versions asked of a sender.
    Reserved,
}

/// How a datagram is protected: the trailers are described with the keys, in docs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// A signature of 64 bytes over everything before it is at its end.
    pub signed: bool,
    /// What is behind the header is encrypted.
    pub encrypted: bool,
}

/// What a sender's times are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clock {
    /// What keeps it right.
    pub source: ClockSource,
    /// It is wrong by at most 2^n ns; `None`: nobody knows.
    pub error: Option<u8>,
}

/// What keeps a clock right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClockSource {
    /// Not told.
    #[default]
    Unknown,
    /// Nothing does.
    FreeRunning,
    /// The network time protocol.
    Ntp,
    /// The precision time protocol.
    Ptp,
}

impl Header {
    /// Reads the header, and returns what is behind it.
    ///
    /// # Errors
    /// Another magic, version or kind; unknown flags; fewer bytes; a sequence that no sender reaches.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        if !bytes.starts_with(MAGIC) {
            return Err(Malformed::Magic);
        }
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::Cut("the header"))?;
        let version = header[2] >> 4;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let kind = match header[2] & 15 {
            0 => Kind::Data,
            1 => Kind::Heartbeat,
            2 => Kind::End,
            3 => Kind::Metadata,
            4 => Kind::Reserved,
            other => return Err(Malformed::Kind(other)),
        };
        if header[3] & !(SIGNED | ENCRYPTED) != 0 {
            return Err(Malformed::Flags(header[3]));
        }
        let flags = Flags { signed: header[3] & SIGNED != 0, encrypted: header[3] & ENCRYPTED != 0 };
        // A source of later versions is none that is known.
        let source = match header[4] {
            1 => ClockSource::FreeRunning,
            2 => ClockSource::Ntp,
            3 => ClockSource::Ptp,
            _ => ClockSource::Unknown,
        };
        let clock = Clock { source, error: (header[5] != UNKNOWN).then_some(header[5]) };
        let count = u16::from_le_bytes([header[6], header[7]]);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        if word(16) >> 63 != 0 {
            return Err(Malformed::Index);
        }
        Ok((Self { kind, flags, clock, count, session: word(8), sequence: word(16) }, rest))
    }

    /// As it stands in a datagram.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..2].copy_from_slice(MAGIC);
        bytes[2] = VERSION << 4 | self.kind as u8;
        bytes[3] = if self.flags.signed { SIGNED } else { 0 } | if self.flags.encrypted { ENCRYPTED } else { 0 };
        bytes[4] = self.clock.source as u8;
        bytes[5] = self.clock.error.unwrap_or(UNKNOWN);
        bytes[6..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.session.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }
}

const MAGIC: &[u8] = b"WS";
const VERSION: u8 = 1;
const SIGNED: u8 = 1;
const ENCRYPTED: u8 = 2;
const UNKNOWN: u8 = 255;
