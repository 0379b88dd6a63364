//! Sampled frames: which protocols a header holds, outside to inside, and what their fields say.
//!
//! A sample carries the first bytes of a frame (128, mostly). [`Frame::parse`] walks them once and writes down where each
//! header begins; fields are read from the bytes when they are asked for, so that what nobody asks for costs nothing. Where
//! the bytes end, or make no sense, the walk ends: what was read until there stays.
//!
//! A protocol that occurs several times (a tunnel's) is told apart by a number: 0 is the outermost.

mod fields;
mod walk;

#[cfg(test)]
mod tests;

pub use fields::{Arp, Ethernet, Geneve, Gre, Icmp, IcmpV6, IpV4, IpV6, Mpls, Ports, Pppoe, Tcp, Vlan, Vxlan};

/// What a frame begins with: `header_protocol` of a sampled header (sFlow v5, section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Ethernet (1), with or without LLC.
    Ethernet,
    /// IPv4 (11).
    Ipv4,
    /// IPv6 (12).
    Ipv6,
    /// MPLS (13).
    Mpls,
}

impl Start {
    /// From the number of the specification; `None` for what is not read (token ring, frame relay, PPP, 802.11 ...).
    pub fn from_header_protocol(protocol: u32) -> Option<Start> {
        match protocol {
            1 => Some(Start::Ethernet),
            11 => Some(Start::Ipv4),
            12 => Some(Start::Ipv6),
            13 => Some(Start::Mpls),
            _ => None,
        }
    }
}

/// A protocol whose header was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// Ethernet II and 802.3.
    Ethernet,
    /// A tag of 802.1Q or 802.1ad.
    Vlan,
    /// 802.2 LLC, SNAP's among them.
    Llc,
    /// LLDP.
    Lldp,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// One entry of a label stack.
    Mpls,
    /// A session of PPPoE.
    Pppoe,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// The fragment header of IPv6.
    Fragment,
    /// The authentication header of IPsec, before whatever it covers.
    Authentication,
    /// The payload of IPsec: what is in it cannot be read.
    Esp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP.
    Icmp,
    /// ICMPv6.
    Icmpv6,
    /// IGMP.
    Igmp,
    /// GRE, NVGRE among them.
    Gre,
    /// VXLAN.
    Vxlan,
    /// GENEVE.
    Geneve,
}

impl Protocol {
    /// Its name in a [`Frame::stack`]; `None`: a part of the header before it, no layer of its own (a tag, an extension
    /// header).
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Protocol::Vlan | Protocol::Fragment | Protocol::Authentication => return None,
            Protocol::Ethernet => "eth",
            Protocol::Llc => "llc",
            Protocol::Lldp => "lldp",
            Protocol::Arp => "arp",
            Protocol::Mpls => "mpls",
            Protocol::Pppoe => "pppoe",
            Protocol::Ipv4 => "ip",
            Protocol::Ipv6 => "ip6",
            Protocol::Esp => "esp",
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
            Protocol::Icmp => "icmp",
            Protocol::Icmpv6 => "icmp6",
            Protocol::Igmp => "igmp",
            Protocol::Gre => "gre",
            Protocol::Vxlan => "vxlan",
            Protocol::Geneve => "geneve",
        })
    }
}

/// A header that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Of which protocol.
    pub protocol: Protocol,
    /// Where it begins, in bytes from the start of the frame.
    pub start: u16,
}

/// Most headers that are written down: a frame within a tunnel within a tunnel, with tags and labels.
pub const MAX_LAYERS: usize = 24;

/// The headers of a frame, outermost first, over the bytes that were sampled.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    layers: [Layer; MAX_LAYERS],
    count: u8,
    /// A bit for each [`Protocol`] that is there.
    present: u32,
}

impl<'a> Frame<'a> {
    /// Walks the headers of a frame that begins with `start`. Of a frame over 65,535 bytes the rest is not looked at.
    pub fn parse(start: Start, bytes: &'a [u8]) -> Frame<'a> {
        let mut frame = Frame {
            bytes: &bytes[..bytes.len().min(usize::from(u16::MAX))],
            layers: [Layer { protocol: Protocol::Ethernet, start: 0 }; MAX_LAYERS],
            count: 0,
            present: 0,
        };
        walk::walk(&mut frame, start);
        frame
    }

    /// The headers, outermost first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers[..usize::from(self.count)]
    }

    /// The protocols that are there: of each the bit `1 << protocol as u32`.
    #[inline]
    pub fn protocols(&self) -> u32 {
        self.present
    }

    /// The bytes from the start of header `occurrence` (0: outermost) of a protocol to the end of what was sampled.
    pub fn find(&self, protocol: Protocol, occurrence: u8) -> Option<&'a [u8]> {
        if self.present & 1 << protocol as u32 == 0 {
            return None;
        }
        let mut found = self.layers().iter().filter(|layer| layer.protocol == protocol);
        self.bytes.get(usize::from(found.nth(occurrence.into())?.start)..)
    }

    /// The names of its layers, outermost first; a label stack is one layer. Joined by dots this is sFlow-RT's key `stack`:
    /// `eth.ip.udp.vxlan.eth.ip6.tcp`.
    pub fn stack(&self) -> impl Iterator<Item = &'static str> + '_ {
        let mut last = None;
        self.layers().iter().filter_map(move |layer| {
            let again = layer.protocol == Protocol::Mpls && last == Some(Protocol::Mpls);
            last = Some(layer.protocol);
            if again { None } else { layer.protocol.name() }
        })
    }

    /// Writes a header down; whether there was room.
    fn push(&mut self, protocol: Protocol, start: usize) -> bool {
        let (Some(layer), Ok(start)) = (self.layers.get_mut(usize::from(self.count)), u16::try_from(start)) else {
            return false;
        };
        *layer = Layer { protocol, start };
        self.count += 1;
        self.present |= 1 << protocol as u32;
        true
    }
}
