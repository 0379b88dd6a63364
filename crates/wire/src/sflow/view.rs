//! Structures that are needed for every packet, as types of their own.

use std::net::IpAddr;

use super::datagram::address;
use super::record::Record;
use super::structure::Space;
use super::xdr::Reader;
use super::{Malformed, Part};

/// A record whose fields are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View<'a> {
    /// 0:1
    Header(SampledHeader<'a>),
    /// 0:2
    Ethernet(SampledEthernet),
    /// 0:3 and 0:4
    Ip(SampledIp),
    /// 0:1001
    Switch(ExtendedSwitch),
    /// 0:1002
    Router(ExtendedRouter),
    /// 0:1003
    Gateway(ExtendedGateway<'a>),
    /// 0:1004
    User(ExtendedUser<'a>),
    /// 0:1005
    Url(ExtendedUrl<'a>),
    /// 0:1036, `extended_egress_queue`: the queue that was chosen.
    EgressQueue(u32),
    /// 0:1037
    Acl(ExtendedAcl<'a>),
    /// 0:1038, `extended_function`: the function of the software that dropped the packet.
    Function(&'a [u8]),
    /// 0:1039, `extended_transit`: how long the packet was in the device, ns; 0xffffffff: that or more.
    TransitDelay(u32),
    /// 0:1040, `extended_queue`: how much waited in the queue, bytes.
    QueueDepth(u32),
    /// 0:1041
    HwTrap(ExtendedHwTrap<'a>),
    /// 0:1042, `extended_linux_drop_reason`: the reason that Linux gives.
    LinuxReason(&'a [u8]),
    /// Another: [`Record::values`] tells what is in it.
    Other,
}

/// `sampled_header` (0:1): the first bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledHeader<'a> {
    /// With which header it begins.
    pub protocol: HeaderProtocol,
    /// Bytes of the whole packet; of a frame with its check sequence.
    pub frame_length: u32,
    /// Bytes that were taken off before the header was sampled, check sequence included.
    pub stripped: u32,
    /// The bytes.
    pub header: &'a [u8],
}

/// `header_protocol`: with which header a sampled packet begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderProtocol(pub u32);

/// `sampled_ethernet` (0:2): an Ethernet header that was already decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledEthernet {
    /// Bytes of the frame with its check sequence.
    pub length: u32,
    /// Source address.
    pub src_mac: [u8; 6],
    /// Destination address.
    pub dst_mac: [u8; 6],
    /// EtherType.
    pub ethertype: u32,
}

/// `sampled_ipv4` (0:3), `sampled_ipv6` (0:4): an IP header that was already decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledIp {
    /// Bytes of the IP packet.
    pub length: u32,
    /// Protocol above it.
    pub protocol: u32,
    /// Source address.
    pub src_ip: IpAddr,
    /// Destination address.
    pub dst_ip: IpAddr,
    /// Source port of TCP or UDP.
    pub src_port: u32,
    /// Destination port of TCP or UDP.
    pub dst_port: u32,
    /// Flags of TCP.
    pub tcp_flags: u32,
    /// `tos`, or `priority` of IPv6.
    pub traffic_class: u32,
}

/// `extended_switch` (0:1001).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedSwitch {
    /// VLAN in which the frame came.
    pub src_vlan: u32,
    /// Its 802.1p priority.
    pub src_priority: u32,
    /// VLAN in which it went.
    pub dst_vlan: u32,
    /// Its 802.1p priority then.
    pub dst_priority: u32,
}

/// `extended_router` (0:1002).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedRouter {
    /// Next router; `None`: unknown.
    pub nexthop: Option<IpAddr>,
    /// Bits of the prefix of the source.
    pub src_mask_len: u32,
    /// Bits of the prefix of the destination.
    pub dst_mask_len: u32,
}

/// `extended_gateway` (0:1003): what BGP knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedGateway<'a> {
    /// Border router towards the destination; `None`: unknown.
    pub nexthop: Option<IpAddr>,
    /// AS of the router.
    pub as_number: u32,
    /// AS of the source.
    pub src_as: u32,
    /// AS from which the packet came.
    pub src_peer_as: u32,
    /// `dst_as_path`.
    pub path: AsPath<'a>,
    /// Communities of the route.
    pub communities: Numbers<'a>,
    /// Local preference of the route.
    pub localpref: u32,
}

/// Segments of the way to the destination, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsPath<'a> {
    left: u32,
    reader: Reader<'a>,
}

/// Part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsSegment<'a> {
    /// `AS_SET` (1), no order, or `AS_SEQUENCE` (2).
    pub kind: u32,
    /// AS numbers.
    pub numbers: Numbers<'a>,
}

/// 32-bit numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers<'a> {
    words: &'a [[u8; 4]],
}

/// `extended_user` (0:1004). Texts are in the character sets that their MIBEnum numbers tell (RFC 2978; 106 is UTF-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedUser<'a> {
    /// User at the source.
    pub src_user: &'a [u8],
    /// User at the destination.
    pub dst_user: &'a [u8],
}

/// `extended_url` (0:1005).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedUrl<'a> {
    /// Request line.
    pub url: &'a [u8],
    /// `Host` of the request.
    pub host: &'a [u8],
}

/// `extended_acl` (0:1037): the rule that matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedAcl<'a> {
    /// Number of the access list.
    pub number: u32,
    /// Its name.
    pub name: &'a [u8],
    /// 0: unknown; 1: ingress; 2: egress.
    pub direction: u32,
}

/// `extended_hw_trap` (0:1041): names of devlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedHwTrap<'a> {
    /// Group of traps.
    pub group: &'a [u8],
    /// The trap.
    pub trap: &'a [u8],
}

impl HeaderProtocol {
    /// Ethernet, from the destination address on.
    pub const ETHERNET: Self = Self(1);
    /// IPv4.
    pub const IPV4: Self = Self(11);
    /// IPv6.
    pub const IPV6: Self = Self(12);
}

impl<'a> Record<'a> {
    /// Its fields as a type.
    ///
    /// # Errors
    /// A body that ends before the structure does. It costs no other record anything.
    #[inline]
    pub fn view(&self) -> Result<View<'a>, Malformed> {
        if self.format.enterprise != 0 {
            return Ok(View::Other);
        }
        let reader = &mut Reader::new(self.body);
        let view = match (self.space, self.format.format) {
            (Space::Flow, 1) => header(reader).map(View::Header),
            (Space::Flow, 2) => ethernet(reader).map(View::Ethernet),
            (Space::Flow, 3) => ip(reader, Reader::ipv4).map(View::Ip),
            (Space::Flow, 4) => ip(reader, Reader::ipv6).map(View::Ip),
            (Space::Flow, 1001) => switch(reader).map(View::Switch),
            (Space::Flow, 1002) => return router(reader).map(View::Router),
            (Space::Flow, 1003) => return ExtendedGateway::read(reader).map(View::Gateway),
            (Space::Flow, 1004) => user(reader).map(View::User),
            (Space::Flow, 1005) => url(reader).map(View::Url),
            (Space::Flow, 1036) => reader.u32().map(View::EgressQueue),
            (Space::Flow, 1037) => acl(reader).map(View::Acl),
            (Space::Flow, 1038) => reader.opaque().map(View::Function),
            (Space::Flow, 1039) => reader.u32().map(View::TransitDelay),
            (Space::Flow, 1040) => reader.u32().map(View::QueueDepth),
            (Space::Flow, 1041) => hw_trap(reader).map(View::HwTrap),
            (Space::Flow, 1042) => reader.opaque().map(View::LinuxReason),
            _ => Some(View::Other),
        };
        view.ok_or(CUT)
    }
}

const CUT: Malformed = Malformed::Cut(Part::Structure);

#[inline]
fn header<'a>(reader: &mut Reader<'a>) -> Option<SampledHeader<'a>> {
    let [protocol, frame_length, stripped] = reader.words()?;
    Some(SampledHeader { protocol: HeaderProtocol(protocol), frame_length, stripped, header: reader.opaque()? })
}

fn ethernet(reader: &mut Reader<'_>) -> Option<SampledEthernet> {
    Some(SampledEthernet {
        length: reader.u32()?,
        src_mac: reader.mac()?,
        dst_mac: reader.mac()?,
        ethertype: reader.u32()?,
    })
}

fn ip<'a>(reader: &mut Reader<'a>, address: fn(&mut Reader<'a>) -> Option<IpAddr>) -> Option<SampledIp> {
    Some(SampledIp {
        length: reader.u32()?,
        protocol: reader.u32()?,
        src_ip: address(reader)?,
        dst_ip: address(reader)?,
        src_port: reader.u32()?,
        dst_port: reader.u32()?,
        tcp_flags: reader.u32()?,
        traffic_class: reader.u32()?,
    })
}

#[inline]
fn switch(reader: &mut Reader<'_>) -> Option<ExtendedSwitch> {
    let [src_vlan, src_priority, dst_vlan, dst_priority] = reader.words()?;
    Some(ExtendedSwitch { src_vlan, src_priority, dst_vlan, dst_priority })
}

#[inline]
fn router(reader: &mut Reader<'_>) -> Result<ExtendedRouter, Malformed> {
    let nexthop = address(reader, Part::Structure)?;
    let [src_mask_len, dst_mask_len] = reader.words().ok_or(CUT)?;
    Ok(ExtendedRouter { nexthop, src_mask_len, dst_mask_len })
}

impl<'a> ExtendedGateway<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let nexthop = address(reader, Part::Structure)?;
        let [as_number, src_as, src_peer_as] = reader.words().ok_or(CUT)?;
        let path = AsPath::read(reader).ok_or(CUT)?;
        let communities = Numbers::read(reader).ok_or(CUT)?;
        let localpref = reader.u32().ok_or(CUT)?;
        Ok(Self { nexthop, as_number, src_as, src_peer_as, path, communities, localpref })
    }

    /// AS of the destination: the last of the path; `None`: it is the router's own.
    pub fn dst_as(&self) -> Option<u32> {
        self.path.flat_map(|segment| segment.numbers).last()
    }

    /// AS to which the packet goes: the first of the path.
    pub fn dst_peer_as(&self) -> Option<u32> {
        self.path.flat_map(|segment| segment.numbers).next()
    }
}

impl<'a> AsPath<'a> {
    /// Leaves `reader` behind the path.
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let path = Self { left: reader.u32()?, reader: *reader };
        for _ in 0..path.left {
            AsSegment::read(reader)?;
        }
        Some(path)
    }
}

impl<'a> Iterator for AsPath<'a> {
    type Item = AsSegment<'a>;

    fn next(&mut self) -> Option<AsSegment<'a>> {
        self.left = self.left.checked_sub(1)?;
        // All have been read once, when the path was.
        AsSegment::read(&mut self.reader)
    }
}

impl<'a> AsSegment<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self { kind: reader.u32()?, numbers: Numbers::read(reader)? })
    }
}

impl<'a> Numbers<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let count = reader.u32()?;
        let bytes = reader.take((count as usize).checked_mul(4)?)?;
        Some(Self { words: bytes.as_chunks().0 })
    }
}

impl Iterator for Numbers<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(u32::from_be_bytes(*first))
    }
}

fn user<'a>(reader: &mut Reader<'a>) -> Option<ExtendedUser<'a>> {
    // Before each text is the number of its character set.
    let mut text = || reader.u32().and_then(|_| reader.opaque());
    Some(ExtendedUser { src_user: text()?, dst_user: text()? })
}

fn url<'a>(reader: &mut Reader<'a>) -> Option<ExtendedUrl<'a>> {
    let [_direction] = reader.words()?;
    Some(ExtendedUrl { url: reader.opaque()?, host: reader.opaque()? })
}

fn acl<'a>(reader: &mut Reader<'a>) -> Option<ExtendedAcl<'a>> {
    Some(ExtendedAcl { number: reader.u32()?, name: reader.opaque()?, direction: reader.u32()? })
}

fn hw_trap<'a>(reader: &mut Reader<'a>) -> Option<ExtendedHwTrap<'a>> {
    Some(ExtendedHwTrap { group: reader.opaque()?, trap: reader.opaque()? })
}
