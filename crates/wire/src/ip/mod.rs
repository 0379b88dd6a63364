//! IP packets: [`Headers`] reads those of others, [`UdpPacket`] writes those that carry a datagram, [`Checksum`] is what both
//! are protected by.

mod checksum;
mod headers;
mod udp;

pub use checksum::Checksum;
pub(crate) use headers::skip_extensions;
pub use headers::{Headers, Malformed};
pub use udp::{
    Header, MAX_HEADER_LEN, MAX_PAYLOAD_V4, MAX_PAYLOAD_V6, MIN_MTU_V4, MIN_MTU_V6, Packet, Packets, UdpPacket,
    Unsendable, cut,
};

/// Protocol number of TCP (IANA, as all of these).
pub const TCP: u8 = 6;

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;

/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// Protocol number of IGMP.
pub const IGMP: u8 = 2;

/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;

/// The fragment header of IPv6.
const FRAGMENT: u8 = 44;

/// Bytes of a header of IPv4 without options.
const V4_LEN: usize = 20;

/// Bytes of a header of IPv6.
const V6_LEN: usize = 40;
