//! UDP datagrams as finished IP packets, for sockets that take those (IPPROTO_RAW): the way to send with a source address
//! that is not this machine's.
//!
//! The payload stays where it lies. What is made here are the headers before it and, where a packet does not fit the
//! path's MTU, the cuts: [`UdpPacket::packets`] yields each packet as header bytes and a range of the payload, ready to
//! leave as `[header, pieces of the payload ...]`. Nothing is allocated.

#[cfg(test)]
mod tests;

use std::iter::FusedIterator;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::{Deref, Range};

use super::{Checksum, FRAGMENT, UDP, V4_LEN, V6_LEN};

/// Most bytes of payload of a datagram over IPv4: 65,535 less both headers.
pub const MAX_PAYLOAD_V4: usize = 65_535 - V4_LEN - UDP_LEN;

/// Most bytes of payload of a datagram over IPv6, without jumbograms: the UDP length has 16 bits.
pub const MAX_PAYLOAD_V6: usize = 65_535 - UDP_LEN;

/// Most bytes of headers that precede the payload in a packet: IPv6, fragment, UDP.
pub const MAX_HEADER_LEN: usize = V6_LEN + FRAGMENT_LEN + UDP_LEN;

/// Least MTU of a link of IPv4 (RFC 791 section 3.2).
pub const MIN_MTU_V4: usize = 68;

/// Least MTU of a link of IPv6 (RFC 8200 section 5).
pub const MIN_MTU_V6: usize = 1280;

/// What the headers of a datagram say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPacket {
    /// Source address and port. An IPv4-mapped IPv6 address is an IPv4 address.
    pub source: SocketAddr,
    /// Destination address and port; of the source's family. An IPv4-mapped IPv6 address is an IPv4 address.
    pub destination: SocketAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// IPv4 type of service, IPv6 traffic class: DSCP times 4, plus ECN.
    pub tos: u8,
    /// Tells the fragments of one datagram from those of another with the same addresses: count it up.
    ///
    /// IPv6 carries it in fragments alone, IPv4 always, as `identification % 65,535 + 1`: for 0 the kernel would put
    /// another number into each fragment (raw(7)).
    pub identification: u32,
}

/// Why a datagram cannot be a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    /// The addresses are of different families.
    #[error("a packet from {from} to {to}: of different families")]
    Family {
        /// Source address.
        from: IpAddr,
        /// Destination address.
        to: IpAddr,
    },
    /// The payload is longer than the protocol allows.
    #[error("a payload of {len} bytes: the protocol allows {most}")]
    TooLong {
        /// Bytes of the payload.
        len: usize,
        /// [`MAX_PAYLOAD_V4`] or [`MAX_PAYLOAD_V6`].
        most: usize,
    },
}

/// The packets that carry one datagram, in order: one, or its fragments.
#[derive(Clone, Debug)]
pub struct Packets {
    /// The IP header, and room for the fragment header of IPv6, as in every packet; lengths and offsets are filled in.
    ip: [u8; V6_LEN + FRAGMENT_LEN],
    udp: [u8; UDP_LEN],
    family: Family,
    /// Bytes behind the IP header of an unfragmented packet: UDP header and payload.
    total: usize,
    /// Of them, those in packets already yielded; `None`: all.
    next: Option<usize>,
    /// Most of them in one packet.
    room: usize,
    /// Whether there is more than one packet.
    fragmented: bool,
}

/// One packet: header bytes, then a part of the datagram's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What precedes the payload.
    pub header: Header,
    /// The part of the payload; see [`cut`].
    pub payload: Range<usize>,
}

/// Header bytes of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; MAX_HEADER_LEN],
    len: u8,
}

impl UdpPacket {
    /// The packets that carry a payload, `pieces` one after another, over a path that takes packets of `mtu` bytes.
    /// [`MIN_MTU_V4`] or [`MIN_MTU_V6`] is taken for an `mtu` below it.
    ///
    /// # Errors
    /// For addresses of different families, and a payload longer than the protocol allows.
    pub fn packets<P: Deref<Target = [u8]>>(&self, pieces: &[P], mtu: usize) -> Result<Packets, Unsendable> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        match (self.source.ip().to_canonical(), self.destination.ip().to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                check_length(len, MAX_PAYLOAD_V4)?;
                let udp = self.udp_header((source.to_bits().into(), destination.to_bits().into()), pieces, len);
                Ok(Packets::new(self.v4_header(source, destination), udp, Family::V4, len, mtu.max(MIN_MTU_V4)))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                check_length(len, MAX_PAYLOAD_V6)?;
                let udp = self.udp_header((source.to_bits(), destination.to_bits()), pieces, len);
                Ok(Packets::new(self.v6_header(source, destination), udp, Family::V6, len, mtu.max(MIN_MTU_V6)))
            }
            (from, to) => Err(Unsendable::Family { from, to }),
        }
    }

    /// RFC 768.
    fn udp_header<P: Deref<Target = [u8]>>(&self, ends: (u128, u128), pieces: &[P], len: usize) -> [u8; UDP_LEN] {
        let length = ((UDP_LEN + len) as u16).to_be_bytes();
        let mut udp = [0; UDP_LEN];
        udp[0..2].copy_from_slice(&self.source.port().to_be_bytes());
        udp[2..4].copy_from_slice(&self.destination.port().to_be_bytes());
        udp[4..6].copy_from_slice(&length);

        // Addresses, length, protocol (RFC 768, RFC 8200 section 8.1), then the header itself. Zeros before an address
        // of IPv4 do not change the sum.
        let mut pseudo = [0; PSEUDO_LEN + UDP_LEN];
        pseudo[0..16].copy_from_slice(&ends.0.to_be_bytes());
        pseudo[16..32].copy_from_slice(&ends.1.to_be_bytes());
        pseudo[32..34].copy_from_slice(&length);
        pseudo[35] = UDP;
        pseudo[PSEUDO_LEN..].copy_from_slice(&udp);
        let mut sum = Checksum::new();
        sum.add(&pseudo);
        for piece in pieces {
            sum.add(piece);
        }
        udp[6..8].copy_from_slice(&sum.finish_udp().to_be_bytes());
        udp
    }

    /// RFC 791 section 3.1, without total length, fragment and checksum.
    fn v4_header(&self, source: Ipv4Addr, destination: Ipv4Addr) -> [u8; V6_LEN + FRAGMENT_LEN] {
        let identification = (self.identification % 65_535 + 1) as u16;
        let mut ip = [0; V6_LEN + FRAGMENT_LEN];
        ip[0] = 0x45; // version 4, 5 words of 32 bits
        ip[1] = self.tos;
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ip[8] = self.ttl;
        ip[9] = UDP;
        ip[12..16].copy_from_slice(&source.octets());
        ip[16..20].copy_from_slice(&destination.octets());
        ip
    }

    /// RFC 8200 sections 3 and 4.5, without payload length, next header and fragment offset. The flow label is 0.
    fn v6_header(&self, source: Ipv6Addr, destination: Ipv6Addr) -> [u8; V6_LEN + FRAGMENT_LEN] {
        let mut ip = [0; V6_LEN + FRAGMENT_LEN];
        ip[0] = 0x60 | self.tos >> 4;
        ip[1] = self.tos << 4;
        ip[7] = self.ttl;
        ip[8..24].copy_from_slice(&source.octets());
        ip[24..40].copy_from_slice(&destination.octets());
        ip[40] = UDP;
        ip[44..48].copy_from_slice(&self.identification.to_be_bytes());
        ip
    }
}

impl Packets {
    fn new(ip: [u8; V6_LEN + FRAGMENT_LEN], udp: [u8; UDP_LEN], family: Family, payload: usize, mtu: usize) -> Self {
        let total = UDP_LEN + payload;
        let (whole, cut) = match family {
            Family::V4 => (mtu - V4_LEN, mtu - V4_LEN),
            Family::V6 => (mtu - V6_LEN, mtu - V6_LEN - FRAGMENT_LEN),
        };
        let fragmented = total > whole;
        let room = if fragmented { cut } else { whole };
        Self { ip, udp, family, total, next: Some(0), room, fragmented }
    }

    /// Whether the datagram does not fit one packet.
    pub fn is_fragmented(&self) -> bool {
        self.fragmented
    }

    /// What the packet carries that begins behind `offset` bytes: all the rest, or whole units of 8 bytes.
    fn carried(&self, offset: usize) -> usize {
        let left = self.total - offset;
        if left <= self.room { left } else { self.room & !7 }
    }

    fn header(&self, offset: usize, carried: usize) -> Header {
        let more = offset + carried < self.total;
        let mut bytes = [0; MAX_HEADER_LEN];
        bytes[..self.ip.len()].copy_from_slice(&self.ip);
        let mut len = match self.family {
            Family::V4 => {
                bytes[V4_LEN..].fill(0);
                bytes[2..4].copy_from_slice(&((V4_LEN + carried) as u16).to_be_bytes());
                bytes[6..8].copy_from_slice(&((offset / 8) as u16 | if more { V4_MORE } else { 0 }).to_be_bytes());
                let mut sum = Checksum::new();
                sum.add(&bytes[..V4_LEN]);
                bytes[10..12].copy_from_slice(&sum.finish().to_be_bytes());
                V4_LEN
            }
            Family::V6 if self.fragmented => {
                bytes[4..6].copy_from_slice(&((FRAGMENT_LEN + carried) as u16).to_be_bytes());
                bytes[6] = FRAGMENT;
                // The offset counts units of 8 bytes, and lies 3 bits up: it is the number of bytes.
                bytes[42..44].copy_from_slice(&(offset as u16 | u16::from(more)).to_be_bytes());
                V6_LEN + FRAGMENT_LEN
            }
            Family::V6 => {
                bytes[4..6].copy_from_slice(&(carried as u16).to_be_bytes());
                bytes[6] = UDP;
                bytes[V6_LEN..].fill(0);
                V6_LEN
            }
        };
        if offset == 0 {
            bytes[len..len + UDP_LEN].copy_from_slice(&self.udp);
            len += UDP_LEN;
        }
        Header { bytes, len: len as u8 }
    }
}

impl Iterator for Packets {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        let offset = self.next?;
        let carried = self.carried(offset);
        let end = offset + carried;
        self.next = (end < self.total).then_some(end);
        Some(Packet { header: self.header(offset, carried), payload: offset.saturating_sub(UDP_LEN)..end - UDP_LEN })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self.next {
            None => 0,
            Some(offset) if self.total - offset <= self.room => 1,
            Some(offset) => 1 + (self.total - offset - self.room).div_ceil(self.room & !7),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Packets {}

impl FusedIterator for Packets {}

impl Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Header({:02x?})", &**self)
    }
}

/// The parts of `pieces` that make up a `range` of their concatenation: what a [`Packet`] carries. Empty parts are left
/// out.
pub fn cut<P: Deref<Target = [u8]>>(pieces: &[P], range: Range<usize>) -> impl Iterator<Item = &[u8]> {
    let mut before = 0;
    pieces.iter().filter_map(move |piece| {
        let start = range.start.clamp(before, before + piece.len()) - before;
        let end = range.end.clamp(before, before + piece.len()) - before;
        before += piece.len();
        (start < end).then(|| &piece[start..end])
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

fn check_length(len: usize, most: usize) -> Result<(), Unsendable> {
    if len > most { Err(Unsendable::TooLong { len, most }) } else { Ok(()) }
}

const FRAGMENT_LEN: usize = 8;
const UDP_LEN: usize = 8;
const PSEUDO_LEN: usize = 36;

/// More fragments follow (RFC 791 section 3.1). Don't Fragment stays clear: routers may cut further.
const V4_MORE: u16 = 0x2000;
