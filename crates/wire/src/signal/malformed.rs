//! Why bytes are no signal.

/// Bytes that are no signal datagram of version 1, or not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The first two bytes are others.
    #[error("no signal: it does not begin with WS")]
    Magic,
    /// Another version.
    #[error("signal version {0}: this is version 1")]
    Version(u8),
    /// A kind that version 1 does not have.
    #[error("kind {0}: version 1 has 0 to 4")]
    Kind(u8),
    /// Flags that version 1 does not have.
    #[error("flags {0:#04x}: version 1 has 1 and 2")]
    Flags(u8),
    /// It has to be opened with a key first.
    #[error("signed or encrypted: a key is needed to read it")]
    Sealed,
    /// Fewer bytes than what it says takes.
    #[error("{0} ends early")]
    Cut(&'static str),
    /// Bytes behind the last of what it says.
    #[error("{0} bytes behind the end")]
    Behind(usize),
    /// An element that version 1 does not have.
    #[error("element {0}: version 1 has 0 to 3")]
    Element(u8),
    /// A form that version 1 does not have.
    #[error("form {0}: version 1 has 0 to 2")]
    Form(u8),
    /// No ticks per second or per sample.
    #[error("a sampling clock without ticks")]
    Rate,
    /// A block of nothing, a bucket of no samples, or of several where it has to be 1.
    #[error("a block of {count} x {bucket} samples")]
    Size {
        /// Samples or buckets.
        count: u16,
        /// Samples a bucket.
        bucket: u32,
    },
    /// Samples beyond index 2^64, or a sequence of 2^63 or more.
    #[error("samples beyond index 2^64, or a sequence from 2^63 on")]
    Index,
    /// A field whose value has another length than its key has.
    #[error("field {key} of {length} bytes")]
    Field {
        /// Its key.
        key: u8,
        /// Bytes of its value.
        length: u8,
    },
    /// A text that is not UTF-8.
    #[error("field {0} is not UTF-8")]
    Text(u8),
    /// A field of a channel in front of the first channel.
    #[error("field {0} belongs to no channel")]
    Homeless(u8),
}
