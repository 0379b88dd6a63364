//! Kinds of floods, by the names that sFlow-RT's ddos-protect gave them.

use serde::{Deserialize, Serialize};

/// What a flood consists of. A packet may count for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// All of it, of any protocol.
    IpFlood,
    /// ICMP and ICMPv6.
    IcmpFlood,
    /// TCP.
    TcpFlood,
    /// UDP.
    UdpFlood,
    /// Fragments: an offset, or more to come.
    IpFragmentation,
    /// UDP from ports whose services answer with more than they are asked (53, 123, 389, 1900, 11211 ...).
    UdpAmplification,
    /// TCP with SYN and ACK from ports of servers that answer a forged SYN (80, 443, 179 ...).
    TcpAmplification,
}

impl Class {
    /// All of them, the widest first.
    pub const ALL: [Class; 7] = [
        Class::IpFlood,
        Class::IcmpFlood,
        Class::TcpFlood,
        Class::UdpFlood,
        Class::IpFragmentation,
        Class::UdpAmplification,
        Class::TcpAmplification,
    ];

    /// As configurations and answers have it: `udp_flood`.
    pub fn name(self) -> &'static str {
        match self {
            Class::IpFlood => "ip_flood",
            Class::IcmpFlood => "icmp_flood",
            Class::TcpFlood => "tcp_flood",
            Class::UdpFlood => "udp_flood",
            Class::IpFragmentation => "ip_fragmentation",
            Class::UdpAmplification => "udp_amplification",
            Class::TcpAmplification => "tcp_amplification",
        }
    }
}
