//! Why something cannot be read.

use std::fmt;

/// Bytes that are no sFlow version 5, or not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The first word of a datagram is not 5.
    #[error("{}", version(*.0))]
    Version(u32),
    /// Fewer bytes than its fixed fields take.
    #[error("{0} ends early")]
    Cut(Part),
    /// A length longer than what is left around it: what follows cannot be found.
    #[error("{part} of {said} bytes, where {left} are left")]
    Length {
        /// What it is the length of.
        part: Part,
        /// As it says.
        said: u32,
        /// Bytes that are left.
        left: u32,
    },
    /// An address that is neither unknown (0), IPv4 (1) nor IPv6 (2): how long it is, nobody knows.
    #[error("address of type {0}, neither unknown (0), IPv4 (1) nor IPv6 (2)")]
    AddressType(u32),
}

/// What is malformed: all else of what is around it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The datagram's own header.
    Datagram,
    /// A sample, or its header.
    Sample,
    /// A flow or counter record: its format and length.
    Record,
    /// What is in a record.
    Structure,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Datagram => "datagram",
            Self::Sample => "sample",
            Self::Record => "record",
            Self::Structure => "structure",
        })
    }
}

/// Other protocols for flows come to the same ports: their version is the first half of the word.
fn version(word: u32) -> String {
    match (word >> 16, word) {
        (5, _) => "NetFlow version 5, not sFlow version 5".to_owned(),
        (9, _) => "NetFlow version 9, not sFlow version 5".to_owned(),
        (10, _) => "IPFIX, not sFlow version 5".to_owned(),
        (_, 1..=99) => format!("sFlow version {word}, not 5"),
        _ => "not sFlow".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named() {
        let of = |word| Malformed::Version(word).to_string();
        assert_eq!(of(2), "sFlow version 2, not 5");
        assert_eq!(of(4), "sFlow version 4, not 5");
        assert_eq!(of(0x0005_001e), "NetFlow version 5, not sFlow version 5");
        assert_eq!(of(0x0009_0004), "NetFlow version 9, not sFlow version 5");
        assert_eq!(of(0x000a_0420), "IPFIX, not sFlow version 5");
        assert_eq!(of(0x4745_5420), "not sFlow");
    }
}
