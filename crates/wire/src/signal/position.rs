//! Where the channels of a sender stand.

use super::Malformed;

/// Where a channel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The channel.
    pub channel: u16,
    /// Index that its next sample will have.
    pub next: u64,
}

/// The positions of a heartbeat or an end, checked.
#[derive(Clone, Copy, Debug)]
pub struct Positions<'a>(&'a [[u8; POSITION_LEN]]);

impl Position {
    /// Appends it.
    pub fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.channel.to_le_bytes());
        bytes.extend(self.next.to_le_bytes());
    }
}

impl<'a> Positions<'a> {
    pub(super) fn parse(bytes: &'a [u8], count: u16) -> Result<Self, Malformed> {
        let (positions, rest) = bytes.as_chunks();
        match positions.len().cmp(&usize::from(count)) {
            std::cmp::Ordering::Less => Err(Malformed::Cut("a list of positions")),
            std::cmp::Ordering::Equal if rest.is_empty() => Ok(Self(positions)),
            _ => Err(Malformed::Behind(bytes.len() - usize::from(count) * POSITION_LEN)),
        }
    }
}

impl Iterator for Positions<'_> {
    type Item = Position;

    fn next(&mut self) -> Option<Position> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        let channel = u16::from_le_bytes([first[0], first[1]]);
        Some(Position { channel, next: u64::from_le_bytes(std::array::from_fn(|byte| first[2 + byte])) })
    }
}

/// Bytes of a position.
pub(super) const POSITION_LEN: usize = 10;
