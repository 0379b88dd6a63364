//! Which packets are meant: what a FlowSpec rule can say (RFC 8955, section 4.2; RFC 8956 for IPv6).

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Packet, Transport};

/// Packets to a prefix, and what else they have in common. What is empty or `None` is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct Rule {
    /// Type 1.
    pub destination: IpNet,
    /// Type 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpNet>,
    /// Type 3: one of these; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<u8>,
    /// Type 5: in one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destination_ports: Vec<Ports>,
    /// Type 6: in one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_ports: Vec<Ports>,
    /// Types 7 and 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp: Option<Icmp>,
    /// Type 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_flags: Option<TcpFlags>,
    /// Type 10: lengths of IP packets in bytes, the first and the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<(u16, u16)>,
    /// Type 11.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Type 12: fragments alone, first ones too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fragment: bool,
}

/// Ports, the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct Ports(pub u16, pub u16);

/// A message of ICMP or ICMPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code; `None`: any.
    pub code: Option<u8>,
}

/// Bits of TCP's flags: those of `mask` are as in `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct TcpFlags {
    /// Which are looked at.
    pub mask: u8,
    /// What they are.
    pub value: u8,
}

impl TcpFlags {
    /// Flags that are set.
    pub fn names(bits: u8) -> Vec<&'static str> {
        let all = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        all.into_iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0).map(|(_, name)| name).collect()
    }
}

impl Rule {
    /// All packets to a prefix.
    pub fn to(destination: IpNet) -> Self {
        Self { destination, ..Self::default() }
    }

    /// Whether it asks for nothing but the destination: what a blackhole route can do.
    pub fn is_bare(&self) -> bool {
        *self == Self::to(self.destination)
    }

    /// Whether it names more than those have in common who talk to a service anyway: more than a protocol, the service's port and
    /// the flags of connections that stand.
    pub fn is_telling(&self) -> bool {
        const SYN: u8 = 2;
        const ACK: u8 = 16;
        let stands = |flags: TcpFlags| flags.value & SYN == 0 && (flags.mask & ACK == 0 || flags.value & ACK != 0);
        self.source.is_some()
            || !self.source_ports.is_empty()
            || self.icmp.is_some()
            || self.tcp_flags.is_some_and(|flags| !stands(flags))
            || self.lengths.is_some()
            || self.fragment
    }

    /// Whether a packet is meant. Lengths are not judged: a frame's length does not tell the packet's.
    pub fn matches(&self, packet: &Packet) -> bool {
        let is_in = |list: &[Ports], port: Option<u16>| {
            list.is_empty() || port.is_some_and(|port| list.iter().any(|ports| ports.0 <= port && port <= ports.1))
        };
        let (source_port, destination_port) = packet.ports().unzip();
        self.destination.contains(&packet.destination)
            && self.source.is_none_or(|source| source.contains(&packet.source))
            && (self.protocols.is_empty() || self.protocols.contains(&packet.protocol))
            && is_in(&self.destination_ports, destination_port)
            && is_in(&self.source_ports, source_port)
            && self.icmp.is_none_or(|icmp| {
                matches!(packet.transport, Some(Transport::Icmp { kind, code })
                    if kind == icmp.kind && icmp.code.is_none_or(|wanted| wanted == code))
            })
            && self.tcp_flags.is_none_or(|wanted| {
                matches!(packet.transport, Some(Transport::Tcp { flags, .. }) if flags & wanted.mask == wanted.value)
            })
            && self.dscp.is_none_or(|dscp| dscp == packet.dscp)
            && (!self.fragment || packet.fragment)
    }
}
