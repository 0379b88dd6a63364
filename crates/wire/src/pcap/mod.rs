//! Packets of a capture file, of both formats that there are, as they are read: nothing is copied.
//!
//! [`Reader`] is given the bytes at which it stands and says how many it has used, or how many it needs. So it reads
//! files as well as pipes, with a buffer of the caller's.
//!
//! Source: "PCAP Capture File Format", draft-ietf-opsawg-pcap; "PCAP Now Generic (pcapng) Capture File Format",
//! draft-ietf-opsawg-pcapng; link types: draft-ietf-opsawg-pcaplinktype. The writer is [`crate::pcapng`].

mod blocks;
mod classic;
mod link;

pub use link::{LinkType, NotIp};

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// With which header its bytes begin.
    pub link: LinkType,
    /// When it was captured, ns since 1970-01-01 UTC; `None`: the file does not say.
    pub stamp: Option<u64>,
    /// Bytes that it had; more than `bytes` has, where the capture cut it off.
    pub original_length: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
}

/// What a call of [`Reader::step`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// So many bytes are needed from the same place on. At the end of a file: it ends in the middle of something, unless none are
    /// left.
    Need(usize),
    /// So many bytes were used; they were this packet, or something else.
    Used(usize, Option<Packet<'a>>),
}

/// Bytes that are no capture, or a damaged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It begins as neither format does.
    #[error("no capture: begins with {0:08x}, neither as pcap nor as pcapng")]
    Magic(u32),
    /// A length that cannot be right.
    #[error("damaged: {0} of {1} bytes")]
    Length(&'static str, u32),
    /// A packet of an interface that the file has not described.
    #[error("damaged: packet of interface {0}, which is not described")]
    Interface(u32),
    /// More interfaces in one section than are remembered.
    #[error("more than {0} interfaces")]
    Interfaces(usize),
}

/// Reads a capture from its first byte on.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    format: Option<Format>,
}

#[derive(Clone, Debug)]
enum Format {
    Classic(classic::File),
    Blocks(blocks::Section),
}

impl Reader {
    /// Before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one part of the file, at the front of `bytes`: where the step before left off.
    ///
    /// # Errors
    /// What cannot be read: the rest of the file cannot be, either.
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Malformed> {
        match &mut self.format {
            Some(Format::Classic(file)) => file.step(bytes),
            Some(Format::Blocks(section)) => section.step(bytes),
            None => {
                let Some(&magic) = bytes.first_chunk() else { return Ok(Step::Need(4)) };
                if magic == blocks::MAGIC {
                    self.format = Some(Format::Blocks(blocks::Section::default()));
                    return Ok(Step::Used(0, None));
                }
                let Some(header) = bytes.first_chunk() else {
                    return if classic::is_magic(magic) {
                        Ok(Step::Need(classic::HEADER))
                    } else {
                        Err(Malformed::Magic(u32::from_be_bytes(magic)))
                    };
                };
                self.format = Some(Format::Classic(classic::File::read(header)?));
                Ok(Step::Used(classic::HEADER, None))
            }
        }
    }
}

/// Which end of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// More bytes than any packet has: a length above it is damage, not a reason to ask for memory.
const LONGEST: u32 = 1 << 26;

#[cfg(test)]
mod tests;
