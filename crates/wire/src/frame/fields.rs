//! The fields of headers. What a snapshot may have cut off is an `Option`; the rest was seen when the header was found.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Frame, Protocol};
use crate::ip::skip_extensions;

/// A header over its bytes, at least as many as its type says.
macro_rules! header {
    ($(#[$doc:meta])* $name:ident, $least:literal, $method:ident, $protocol:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>(&'a [u8; $least], &'a [u8]);

        impl<'a> Frame<'a> {
            #[doc = concat!("Header `occurrence` of this protocol; 0 is the outermost. See [`", stringify!($name), "`].")]
            #[inline]
            pub fn $method(&self, occurrence: u8) -> Option<$name<'a>> {
                let (header, rest) = self.find(Protocol::$protocol, occurrence)?.split_first_chunk()?;
                Some($name(header, rest))
            }
        }
    };
}

header!(
    /// An Ethernet header (IEEE 802.3).
    Ethernet, 14, ethernet, Ethernet
);
header!(
    /// A tag (IEEE 802.1Q, 9.6) and the type behind it.
    Vlan, 4, vlan, Vlan
);
header!(
    /// An entry of a label stack (RFC 3032).
    Mpls, 4, mpls, Mpls
);
header!(
    /// A session header of PPPoE (RFC 2516) and PPP's protocol.
    Pppoe, 8, pppoe, Pppoe
);
header!(
    /// A request or answer of ARP (RFC 826).
    Arp, 28, arp, Arp
);
header!(
    /// IPv4 (RFC 791).
    IpV4, 20, ipv4, Ipv4
);
header!(
    /// IPv6 (RFC 8200).
    IpV6, 40, ipv6, Ipv6
);
header!(
    /// What TCP, UDP and SCTP begin with.
    Tcp, 4, tcp, Tcp
);
header!(
    /// GRE (RFC 2784, RFC 2890, RFC 2637).
    Gre, 4, gre, Gre
);
header!(
    /// VXLAN (RFC 7348).
    Vxlan, 8, vxlan, Vxlan
);
header!(
    /// GENEVE (RFC 8926).
    Geneve, 8, geneve, Geneve
);
header!(
    /// ICMP (RFC 792).
    Icmp, 2, icmp, Icmp
);
header!(
    /// ICMPv6 (RFC 4443).
    IcmpV6, 2, icmpv6, Icmpv6
);

/// Source and destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Of the sender.
    pub source: u16,
    /// Of the receiver.
    pub destination: u16,
}

impl Frame<'_> {
    /// The ports of header `occurrence` of TCP, UDP or SCTP; `None` for a protocol without ports.
    pub fn ports(&self, protocol: Protocol, occurrence: u8) -> Option<Ports> {
        if !matches!(protocol, Protocol::Tcp | Protocol::Udp | Protocol::Sctp) {
            return None;
        }
        let &[a, b, c, d] = self.find(protocol, occurrence)?.first_chunk()?;
        Some(Ports { source: u16::from_be_bytes([a, b]), destination: u16::from_be_bytes([c, d]) })
    }

    /// Offset in bytes and "more fragments" of the fragment header of IPv6.
    pub fn fragment(&self, occurrence: u8) -> Option<(u16, bool)> {
        let &[_, _, high, low] = self.find(Protocol::Fragment, occurrence)?.first_chunk()?;
        Some((u16::from_be_bytes([high, low]) & 0xfff8, low & 1 != 0))
    }

    /// The security parameters index of ESP (RFC 4303).
    pub fn esp(&self, occurrence: u8) -> Option<u32> {
        self.find(Protocol::Esp, occurrence)?.first_chunk().copied().map(u32::from_be_bytes)
    }
}

impl Ethernet<'_> {
    /// Address of the receiver.
    pub fn destination(&self) -> [u8; 6] {
        mac(&self.0[0..])
    }

    /// Address of the sender.
    pub fn source(&self) -> [u8; 6] {
        mac(&self.0[6..])
    }

    /// Type, or length of an 802.3 frame; of a tagged frame that of the first tag.
    pub fn ethertype(&self) -> u16 {
        word(&self.0[12..])
    }
}

impl Vlan<'_> {
    /// Number of the VLAN.
    pub fn id(&self) -> u16 {
        word(self.0) & 0xfff
    }

    /// Priority code point, 0 to 7.
    pub fn priority(&self) -> u8 {
        self.0[0] >> 5
    }

    /// Type of what is tagged.
    pub fn ethertype(&self) -> u16 {
        word(&self.0[2..])
    }
}

impl Mpls<'_> {
    /// The label.
    pub fn label(&self) -> u32 {
        u32::from_be_bytes(*self.0) >> 12
    }

    /// Traffic class.
    pub fn class(&self) -> u8 {
        self.0[2] >> 1 & 7
    }

    /// Whether this is the last entry of its stack.
    pub fn bottom(&self) -> bool {
        self.0[2] & 1 != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.0[3]
    }
}

impl Pppoe<'_> {
    /// Number of the session.
    pub fn session(&self) -> u16 {
        word(&self.0[2..])
    }
}

impl Arp<'_> {
    /// 1 request, 2 reply.
    pub fn operation(&self) -> u16 {
        word(&self.0[6..])
    }

    /// Ethernet address of the sender.
    pub fn sender_mac(&self) -> [u8; 6] {
        mac(&self.0[8..])
    }

    /// IPv4 address of the sender.
    pub fn sender_ip(&self) -> Ipv4Addr {
        v4(&self.0[14..])
    }

    /// Ethernet address of whom it asks.
    pub fn target_mac(&self) -> [u8; 6] {
        mac(&self.0[18..])
    }

    /// IPv4 address that it asks for.
    pub fn target_ip(&self) -> Ipv4Addr {
        v4(&self.0[24..])
    }
}

impl IpV4<'_> {
    /// Type of service, all eight bits.
    pub fn tos(&self) -> u8 {
        self.0[1]
    }

    /// Length of the packet in bytes.
    pub fn length(&self) -> u16 {
        word(&self.0[2..])
    }

    /// Identification.
    pub fn identification(&self) -> u16 {
        word(&self.0[4..])
    }

    /// The three flags: reserved, don't fragment, more fragments.
    pub fn flags(&self) -> u8 {
        self.0[6] >> 5
    }

    /// Where in the larger packet this fragment begins, in units of 8 bytes as the header has it.
    pub fn fragment_offset(&self) -> u16 {
        word(&self.0[6..]) & 0x1fff
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// Number of the protocol that it carries.
    pub fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// Address of the sender.
    pub fn source(&self) -> Ipv4Addr {
        v4(&self.0[12..])
    }

    /// Address of the receiver.
    pub fn destination(&self) -> Ipv4Addr {
        v4(&self.0[16..])
    }
}

impl IpV6<'_> {
    /// Traffic class, all eight bits.
    pub fn class(&self) -> u8 {
        (word(self.0) >> 4) as u8
    }

    /// Flow label.
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.0[1] & 15, self.0[2], self.0[3]])
    }

    /// Length of what is behind this header, in bytes.
    pub fn payload_length(&self) -> u16 {
        word(&self.0[4..])
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Number of the protocol behind the extension headers, or of the first that is not there or not understood.
    pub fn protocol(&self) -> u8 {
        let (protocol, start, fragment) = skip_extensions(self.0[6], self.1, 0);
        if fragment && word(&self.1[start - 6..]) & 0xfff8 == 0 {
            // The first fragment has all headers.
            return skip_extensions(protocol, self.1, start).0;
        }
        protocol
    }

    /// Address of the sender.
    pub fn source(&self) -> Ipv6Addr {
        v6(&self.0[8..])
    }

    /// Address of the receiver.
    pub fn destination(&self) -> Ipv6Addr {
        v6(&self.0[24..])
    }
}

impl Tcp<'_> {
    /// The nine flags, NS first and FIN last (RFC 9293, RFC 3540); `None` if cut off.
    pub fn flags(&self) -> Option<u16> {
        // Offset 12 of the header.
        self.1.get(8..10).map(|flags| word(flags) & 0x1ff)
    }
}

impl Gre<'_> {
    /// Version: 0, or 1 for PPTP's.
    pub fn version(&self) -> u8 {
        self.0[1] & 7
    }

    /// Type of what it carries.
    pub fn ethertype(&self) -> u16 {
        word(&self.0[2..])
    }

    /// The key; of NVGRE the virtual subnet and the flow in one, of PPTP payload length and call; `None` without one.
    pub fn key(&self) -> Option<u32> {
        let at = if self.0[0] & 0xc0 != 0 && self.version() == 0 { 4 } else { 0 };
        let key = self.1.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)?;
        (self.0[0] & 0x20 != 0).then_some(key)
    }
}

impl Vxlan<'_> {
    /// Network identifier.
    pub fn vni(&self) -> u32 {
        u32::from_be_bytes([0, self.0[4], self.0[5], self.0[6]])
    }
}

impl Geneve<'_> {
    /// Network identifier.
    pub fn vni(&self) -> u32 {
        u32::from_be_bytes([0, self.0[4], self.0[5], self.0[6]])
    }

    /// Bytes of options.
    pub fn options(&self) -> usize {
        usize::from(self.0[0] & 0x3f) * 4
    }
}

impl Icmp<'_> {
    /// Type.
    pub fn kind(&self) -> u8 {
        self.0[0]
    }

    /// Code.
    pub fn code(&self) -> u8 {
        self.0[1]
    }
}

impl IcmpV6<'_> {
    /// Type.
    pub fn kind(&self) -> u8 {
        self.0[0]
    }

    /// Code.
    pub fn code(&self) -> u8 {
        self.0[1]
    }
}

fn word(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

fn mac(bytes: &[u8]) -> [u8; 6] {
    [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
}

fn v4(bytes: &[u8]) -> Ipv4Addr {
    Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])
}

fn v6(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[..16]);
    Ipv6Addr::from(octets)
}
