//! External data representation (RFC 4506), as far as sFlow uses it: big-endian words, and bytes filled up to a
//! multiple of four.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes that are taken from the front. `None`: fewer are left than asked for; then nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What is left.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(head)
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().copied().map(u32::from_be_bytes)
    }

    /// So many words at once: one look at whether they are there.
    #[inline]
    pub(super) fn words<const N: usize>(&mut self) -> Option<[u32; N]> {
        let (head, rest) = self.bytes.split_at_checked(4 * N)?;
        let words: &[[u8; 4]; N] = head.as_chunks().0.first_chunk()?;
        self.bytes = rest;
        Some(words.map(u32::from_be_bytes))
    }

    /// `unsigned hyper`.
    #[inline]
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().copied().map(u64::from_be_bytes)
    }

    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(head)
    }

    /// Bytes and what fills them up. Some agents leave the filling away behind the very last of them.
    #[inline]
    pub(super) fn padded(&mut self, length: usize) -> Option<&'a [u8]> {
        let bytes = self.take(length)?;
        self.bytes = self.bytes.get(length.wrapping_neg() % 4..).unwrap_or_default();
        Some(bytes)
    }

    /// `opaque<>` and `string<>`: their length, then themselves.
    #[inline]
    pub(super) fn opaque(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let length = ahead.u32()?;
        let bytes = ahead.padded(length as usize)?;
        *self = ahead;
        Some(bytes)
    }

    /// `opaque mac[6]`.
    #[inline]
    pub(super) fn mac(&mut self) -> Option<[u8; 6]> {
        let bytes: &[u8; 8] = self.array()?;
        bytes.first_chunk().copied()
    }

    #[inline]
    pub(super) fn ipv4(&mut self) -> Option<IpAddr> {
        self.array::<4>().map(|&octets| Ipv4Addr::from(octets).into())
    }

    #[inline]
    pub(super) fn ipv6(&mut self) -> Option<IpAddr> {
        self.array::<16>().map(|&octets| Ipv6Addr::from(octets).into())
    }
}
