//! Which floods a packet may be part of.

use crate::model::{Class, Packet, Transport};

/// Of each class the bit `1 << class as u8`.
pub(super) type Classes = u8;

const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const SYN_ACK: u8 = 0x12;

/// The bit of a class.
pub(super) const fn bit(class: Class) -> Classes {
    1 << class as u8
}

/// All that a packet counts for.
#[inline]
pub(super) fn of(packet: &Packet) -> Classes {
    let protocol = match packet.protocol {
        UDP => bit(Class::UdpFlood),
        TCP => bit(Class::TcpFlood),
        ICMP | ICMPV6 => bit(Class::IcmpFlood),
        _ => 0,
    };
    let amplified = match packet.transport {
        Some(Transport::Udp { source, .. }) if AMPLIFIERS.binary_search(&source).is_ok() => {
            bit(Class::UdpAmplification)
        }
        Some(Transport::Tcp { source, flags, .. })
            if flags & SYN_ACK == SYN_ACK && REFLECTORS.binary_search(&source).is_ok() =>
        {
            bit(Class::TcpAmplification)
        }
        _ => 0,
    };
    let fragment = if packet.fragment { bit(Class::IpFragmentation) } else { 0 };
    bit(Class::IpFlood) | protocol | amplified | fragment
}

/// Classes, the narrowest first.
pub(super) const NARROWEST_FIRST: [Class; 7] = [
    Class::TcpAmplification,
    Class::UdpAmplification,
    Class::IpFragmentation,
    Class::IcmpFlood,
    Class::TcpFlood,
    Class::UdpFlood,
    Class::IpFlood,
];

/// Of a packet's classes those that are no wider than the narrowest of some.
#[inline]
pub(super) fn within(classes: Classes, some: Classes) -> Classes {
    match NARROWEST_FIRST.iter().position(|&class| some & bit(class) != 0) {
        Some(narrowest) => NARROWEST_FIRST[..=narrowest].iter().fold(0, |all, &class| all | bit(class)) & classes,
        None => classes,
    }
}

/// Classes that have all packets of a class, and others.
pub(super) fn holding(class: Class) -> impl Iterator<Item = Class> {
    let own = match class {
        Class::UdpAmplification => Some(Class::UdpFlood),
        Class::TcpAmplification => Some(Class::TcpFlood),
        _ => None,
    };
    own.into_iter().chain((class != Class::IpFlood).then_some(Class::IpFlood))
}

/// Where a class is among [`NARROWEST_FIRST`].
pub(super) fn breadth(class: Class) -> usize {
    NARROWEST_FIRST.iter().position(|&of| of == class).unwrap_or(NARROWEST_FIRST.len())
}

/// UDP ports whose services answer with more than they are asked (CISA alert TA14-017A, and what was found since): QOTD, CHARGEN, DNS, TFTP,
/// portmap, NTP, NetBIOS, SNMP, XDMCP, CLDAP, SLP, RIP, IPMI, SQL Server, Citrix, SSDP, ARMS, STUN, WS-Discovery, mDNS, CoAP,
/// BitTorrent, TP-240, memcached, VxWorks, Quake, Steam, Plex, Jenkins, DVRs, BACnet.
const AMPLIFIERS: [u16; 32] = [
    17, 19, 53, 69, 111, 123, 137, 161, 177, 389, 427, 520, 623, 1434, 1604, 1900, 3283, 3478, 3702, 5353, 5683, 6881,
    10074, 11211, 17185, 26000, 27015, 27960, 32414, 33848, 37810, 47808,
];

/// TCP ports of services that are everywhere, and answer a SYN that somebody forged.
const REFLECTORS: [u16; 18] = [21, 22, 23, 25, 53, 80, 110, 143, 179, 443, 465, 587, 993, 995, 1723, 3389, 8080, 8443];

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, transport: Option<Transport>, fragment: bool) -> Packet {
        let address = "192.0.2.1".parse().unwrap();
        Packet { source: address, destination: address, protocol, transport, fragment, length: 100, dscp: 0 }
    }

    fn names(packet: &Packet) -> Vec<&'static str> {
        Class::ALL.into_iter().filter(|&class| of(packet) & bit(class) != 0).map(Class::name).collect()
    }

    #[test]
    fn a_packet_counts_for_all_that_it_is() {
        let udp = |source| Some(Transport::Udp { source, destination: 4000 });
        let tcp = |source, flags| Some(Transport::Tcp { source, destination: 4000, flags });
        assert_eq!(names(&packet(47, None, false)), ["ip_flood"]);
        assert_eq!(names(&packet(17, udp(443), false)), ["ip_flood", "udp_flood"]);
        assert_eq!(names(&packet(17, udp(53), false)), ["ip_flood", "udp_flood", "udp_amplification"]);
        assert_eq!(names(&packet(17, None, true)), ["ip_flood", "udp_flood", "ip_fragmentation"]);
        assert_eq!(names(&packet(6, tcp(443, 0x12), false)), ["ip_flood", "tcp_flood", "tcp_amplification"]);
        assert_eq!(names(&packet(6, tcp(443, 0x10), false)), ["ip_flood", "tcp_flood"]);
        assert_eq!(names(&packet(58, None, false)), ["ip_flood", "icmp_flood"]);
    }

    #[test]
    fn ports_are_in_order() {
        assert!(AMPLIFIERS.is_sorted() && REFLECTORS.is_sorted());
        assert!(NARROWEST_FIRST.iter().all(|class| Class::ALL.contains(class)));
    }
}
