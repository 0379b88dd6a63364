//! Control messages, which travel beside a payload: encoded and decoded, cmsg(3) and `struct cmsghdr` of
//! include/linux/socket.h.
//!
//! Each is a header (length with header, level, type), its data, and padding up to a multiple of the word size.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use crate::address::Address;
use crate::errors::{Origin, Reported};
use crate::sys::{SCM_TIMESTAMPNS, SO_RXQ_OVFL, SOL_UDP, UDP_GRO, UDP_SEGMENT};

/// One control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The protocol that speaks: SOL_SOCKET, IPPROTO_IP ...
    pub level: i32,
    /// What it says; the meaning depends on the level.
    pub kind: i32,
    /// Without padding.
    pub data: &'a [u8],
}

/// The messages in a control buffer, up to the first that is malformed.
#[derive(Clone, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Reads `bytes`, of the length that the kernel has told.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let length = usize::from_ne_bytes(*self.0.first_chunk()?);
        let level = i32::from_ne_bytes(*self.0.get(WORD..)?.first_chunk()?);
        let kind = i32::from_ne_bytes(*self.0.get(WORD + 4..)?.first_chunk()?);
        let data = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        Some(Message { level, kind, data })
    }
}

/// What the kernel tells beside a received payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ancillary {
    /// Bytes of each datagram of a run, but for the last (UDP_GRO); `None`: a single datagram.
    pub segment: Option<NonZeroU16>,
    /// Arrival, ns since 1970 (SO_TIMESTAMPNS).
    pub arrival: Option<u64>,
    /// Destination address of the packet (IP_PKTINFO, IPV6_RECVPKTINFO), IPv4 ones as such.
    pub local: Option<IpAddr>,
    /// Whether that is not this host's alone: broadcast or multicast (likewise).
    pub to_all: bool,
    /// Index of the interface it came in on (likewise).
    pub interface: Option<u32>,
    /// TTL or hop limit that was left (IP_RECVTTL, IPV6_RECVHOPLIMIT).
    pub hops: Option<u8>,
    /// Datagrams the socket had dropped when this one was queued, since it was made, modulo 2^32 (SO_RXQ_OVFL).
    /// `None`: the kernel says nothing before the first drop.
    pub socket_drops: Option<u32>,
}

impl Ancillary {
    /// Reads a control buffer. What is malformed or unknown is passed over.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut ancillary = Self::default();
        for message in Messages::new(bytes) {
            ancillary.take(&message);
        }
        ancillary
    }

    fn take(&mut self, message: &Message<'_>) {
        match (message.level, message.kind) {
            (SOL_UDP, UDP_GRO) => {
                let size = int(message.data, 0).and_then(|size| u16::try_from(size).ok());
                self.segment = size.and_then(NonZeroU16::new);
            }
            (libc::SOL_SOCKET, SCM_TIMESTAMPNS) => self.arrival = stamp(message.data),
            (libc::SOL_SOCKET, SO_RXQ_OVFL) => self.socket_drops = int(message.data, 0).map(|drops| drops as u32),
            // struct in_pktinfo: interface, the local address that answers, the packet's destination. The two are one
            // for what was sent to this host alone (net/ipv4/fib_frontend.c, fib_compute_spec_dst).
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let (interface, answers) = (int(message.data, 0), array::<4>(message.data, 4));
                if let (Some(interface), Some(answers), Some(local)) = (interface, answers, array(message.data, 8)) {
                    self.interface = Some(interface as u32);
                    self.local = Some(Ipv4Addr::from(local).into());
                    self.to_all |= answers != local;
                }
            }
            // struct in6_pktinfo: destination, interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                if let (Some(local), Some(interface)) = (array::<16>(message.data, 0), int(message.data, 16)) {
                    self.interface = Some(interface as u32);
                    let local = IpAddr::V6(Ipv6Addr::from(local)).to_canonical();
                    self.local = Some(local);
                    self.to_all |= local.is_multicast();
                }
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.hops = int(message.data, 0).and_then(|hops| u8::try_from(hops).ok());
            }
            _ => {}
        }
    }
}

/// Reads an entry of the error queue: `struct sock_extended_err` of include/uapi/linux/errqueue.h, behind which stands
/// the offender's address. `None`: there is none.
pub fn parse_error(bytes: &[u8]) -> Option<Reported> {
    let is_error = |message: &Message<'_>| {
        let kind = (message.level, message.kind);
        kind == (libc::IPPROTO_IP, libc::IP_RECVERR) || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    };
    let data = Messages::new(bytes).find(is_error)?.data;
    let &[origin, kind, code, _] = data.get(4..8)?.first_chunk()?;
    let origin = match origin {
        libc::SO_EE_ORIGIN_LOCAL => Origin::Local,
        libc::SO_EE_ORIGIN_ICMP => Origin::Icmp,
        libc::SO_EE_ORIGIN_ICMP6 => Origin::Icmp6,
        other => Origin::Other(other),
    };
    let offender = data.get(16..).and_then(Address::decode).map(|address| address.ip().to_canonical());
    let (errno, info) = (int(data, 0)?, int(data, 8)? as u32);
    Some(Reported { errno, origin, kind, code, info, offender, destination: None, quoted: Vec::new() })
}

/// The TTL or hop limit of a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Hops {
    /// To an IPv4 address.
    V4(u8),
    /// To one of IPv6.
    V6(u8),
}

/// Room for a segment size and hops.
pub const BESIDE_SPACE: usize = NUMBER_SPACE * 2;

/// Bytes of a message of a number.
const NUMBER_SPACE: usize = (HEADER + 4).next_multiple_of(WORD);

/// The messages that ask the kernel to cut a payload into datagrams of so many bytes (UDP_SEGMENT, udp(7)) and to send with
/// these hops (IP_TTL, IPV6_HOPLIMIT), and their length.
#[inline]
pub fn beside(segment: Option<u16>, hops: Option<Hops>) -> ([u8; BESIDE_SPACE], usize) {
    let mut bytes = [0; BESIDE_SPACE];
    let mut at = 0;
    let mut add = |level: i32, kind: i32, data: &[u8]| {
        let message = &mut bytes[at..at + NUMBER_SPACE];
        message[..WORD].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        message[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        message[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER..HEADER + data.len()].copy_from_slice(data);
        at += NUMBER_SPACE;
    };
    if let Some(segment) = segment {
        add(SOL_UDP, UDP_SEGMENT, &segment.to_ne_bytes());
    }
    match hops {
        Some(Hops::V4(hops)) => add(libc::IPPROTO_IP, libc::IP_TTL, &i32::from(hops).to_ne_bytes()),
        Some(Hops::V6(hops)) => add(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &i32::from(hops).to_ne_bytes()),
        None => {}
    }
    (bytes, at)
}

/// The message that has a datagram leave from one of this machine's addresses (IP_PKTINFO, IPV6_PKTINFO), and its length.
/// `v6`: for a socket of IPv6, or of both families.
pub fn source_address(from: IpAddr, v6: bool) -> ([u8; SOURCE_SPACE], usize) {
    let mut bytes = [0; SOURCE_SPACE];
    let (level, kind, length) = if v6 {
        let from = match from {
            IpAddr::V4(from) => from.to_ipv6_mapped(),
            IpAddr::V6(from) => from,
        };
        // struct in6_pktinfo: address, interface (any).
        bytes[HEADER..HEADER + 16].copy_from_slice(&from.octets());
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20)
    } else {
        let IpAddr::V4(from) = from.to_canonical() else { return (bytes, 0) };
        // struct in_pktinfo: interface (any), the address to send from, one that counts when receiving only.
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&from.octets());
        (libc::IPPROTO_IP, libc::IP_PKTINFO, 12)
    };
    bytes[..WORD].copy_from_slice(&(HEADER + length).to_ne_bytes());
    bytes[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
    bytes[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
    (bytes, (HEADER + length).next_multiple_of(WORD))
}

/// Bytes of the longer of [`source_address`].
pub const SOURCE_SPACE: usize = (HEADER + 20).next_multiple_of(WORD);

/// `struct timespec`, of 64-bit or, on old 32-bit machines, 32-bit numbers.
fn stamp(data: &[u8]) -> Option<u64> {
    let (seconds, nanoseconds) = match data.len() {
        8 => (u64::try_from(int(data, 0)?).ok()?, u64::try_from(int(data, 4)?).ok()?),
        _ => {
            let number = |at| array(data, at).and_then(|bytes| u64::try_from(i64::from_ne_bytes(bytes)).ok());
            (number(0)?, number(8)?)
        }
    };
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

fn int(data: &[u8], at: usize) -> Option<i32> {
    array(data, at).map(i32::from_ne_bytes)
}

fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk().copied()
}

/// The kernel's `size_t`, to which everything is aligned.
const WORD: usize = size_of::<usize>();

/// `struct cmsghdr`.
const HEADER: usize = WORD + 8;

#[cfg(test)]
mod tests;
