//! The keys that packets have: their names, as sFlow-RT has them, what their values can be, and what each says.

use Protocol::{Arp, Esp, Fragment, Geneve, Gre, Icmp, Icmpv6, Ipv4, Ipv6, Mpls, Pppoe, Sctp, Tcp, Udp, Vxlan};
use weir_wire::frame::Protocol;

use super::kind::*;

/// What is known of a key.
pub(super) struct Key {
    pub(super) field: Field,
    pub(super) name: &'static str,
    /// The forms of its values.
    kinds: &'static [Kind],
    /// The protocol whose header alone says it, unless records do in place of all headers.
    protocol: Option<Protocol>,
    about: &'static str,
}

/// One row a key.
macro_rules! fields {
    ($($field:ident, $name:literal, $kinds:ident, $protocol:expr, $about:literal;)*) => {
        /// A key of a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum Field {
            $($field,)*
        }

        impl Field {
            pub(super) const TABLE: &[Key] =
                &[$(Key { field: Field::$field, name: $name, kinds: $kinds, protocol: $protocol, about: $about },)*];
        }
    };
}

fields! {
    Agent, "agent", IP, None, "address of the agent";
    DataSource, "datasource", SOURCE, None, "ifIndex of the data source, or its class and index";
    InputIfIndex, "inputifindex", INPUT, None, "interface by which the packet came in: its ifIndex, or `internal`";
    OutputIfIndex, "outputifindex", OUTPUT, None, "interface by which it went out: its ifIndex, `internal`, `multiple` or `discard`";
    Direction, "direction", WAYS, None, "`ingress` if the data source is the input, `egress` if it is the output";
    Stack, "stack", TEXT, None, "names of the protocols, outside to inside: eth.ip.tcp";
    Bytes, "bytes", U32, None, "bytes of the frame";
    Frames, "frames", ONE, None, "1";

    MacSource, "macsource", MAC, None, "Ethernet address of the sender";
    MacDestination, "macdestination", MAC, None, "Ethernet address of the receiver";
    EthernetProtocol, "ethernetprotocol", U16, None, "type behind all tags";
    IsUnicast, "isunicast", TRUTH, None, "whether the receiver's Ethernet address is of one station";
    IsMulticast, "ismulticast", TRUTH, None, "whether it is of a group, broadcast left out";
    IsBroadcast, "isbroadcast", TRUTH, None, "whether it is the broadcast address";
    Vlan, "vlan", U32, None, "VLAN in which the frame came: of its tag, else as the switch says";
    Priority, "priority", UP_TO_7, None, "802.1p priority of the same";
    OutputVlan, "outputvlan", U32, None, "VLAN in which it went out, as the switch says";
    OutputPriority, "outputpriority", U32, None, "802.1p priority with which it went out, as the switch says";
    PppoeSession, "pppoesession", U16, Some(Pppoe), "session of PPPoE";
    MplsLabel, "mplslabel", LABEL, Some(Mpls), "label of the outermost entry; mplslabel.1 of the next";
    MplsLabels, "mplslabels", TEXT, Some(Mpls), "all labels, outermost first, with dots between them";
    ArpOperation, "arpoperation", U16, Some(Arp), "1 request, 2 reply";
    ArpMacSender, "arpmacsender", MAC, Some(Arp), "Ethernet address of the sender of an ARP packet";
    ArpMacTarget, "arpmactarget", MAC, Some(Arp), "Ethernet address of whom it asks";
    ArpIpSender, "arpipsender", IP4, Some(Arp), "IP address of its sender";
    ArpIpTarget, "arpiptarget", IP4, Some(Arp), "IP address that it asks for";

    IpSource, "ipsource", IP4, Some(Ipv4), "IPv4 address of the sender";
    IpDestination, "ipdestination", IP4, Some(Ipv4), "IPv4 address of the receiver";
    IpProtocol, "ipprotocol", U8, Some(Ipv4), "protocol number that IPv4 carries";
    IpTtl, "ipttl", U8, Some(Ipv4), "time to live";
    IpTos, "iptos", U8, Some(Ipv4), "type of service, eight bits";
    IpDscp, "ipdscp", UP_TO_63, Some(Ipv4), "differentiated services code point";
    IpEcn, "ipecn", BITS2, Some(Ipv4), "congestion notification: two binary digits";
    IpId, "ipid", U16, Some(Ipv4), "identification";
    IpFlags, "ipflags", BITS3, Some(Ipv4), "reserved, don't fragment, more fragments: three binary digits";
    IpFragOffset, "ipfragoffset", OFFSET, Some(Ipv4), "offset of the fragment in units of 8 bytes";
    IpBytes, "ipbytes", U32, Some(Ipv4), "bytes of the packet";

    Ip6Source, "ip6source", IP6, Some(Ipv6), "IPv6 address of the sender";
    Ip6Destination, "ip6destination", IP6, Some(Ipv6), "IPv6 address of the receiver";
    Ip6NextHdr, "ip6nexthdr", U8, Some(Ipv6), "protocol number behind the extension headers";
    Ip6HopLimit, "ip6hoplimit", U8, Some(Ipv6), "hop limit";
    Ip6Tos, "ip6tos", U8, Some(Ipv6), "traffic class, eight bits";
    Ip6Dscp, "ip6dscp", UP_TO_63, Some(Ipv6), "differentiated services code point";
    Ip6Ecn, "ip6ecn", BITS2, Some(Ipv6), "congestion notification: two binary digits";
    Ip6FlowLabel, "ip6flowlabel", LABEL, Some(Ipv6), "flow label";
    Ip6FragOffset, "ip6fragoffset", OFFSET, Some(Fragment), "offset of the fragment in units of 8 bytes";
    Ip6FragM, "ip6fragm", YES_NO, Some(Fragment), "`yes` if more fragments follow, else `no`";
    Ip6Bytes, "ip6bytes", U32, Some(Ipv6), "bytes of the packet";

    TcpSourcePort, "tcpsourceport", U16, Some(Tcp), "source port of TCP";
    TcpDestinationPort, "tcpdestinationport", U16, Some(Tcp), "destination port of TCP";
    TcpFlags, "tcpflags", BITS9, Some(Tcp), "NS CWR ECE URG ACK PSH RST SYN FIN: nine binary digits";
    UdpSourcePort, "udpsourceport", U16, Some(Udp), "source port of UDP";
    UdpDestinationPort, "udpdestinationport", U16, Some(Udp), "destination port of UDP";
    SctpSourcePort, "sctpsourceport", U16, Some(Sctp), "source port of SCTP";
    SctpDestinationPort, "sctpdestinationport", U16, Some(Sctp), "destination port of SCTP";
    IcmpType, "icmptype", U8, Some(Icmp), "type of ICMP";
    IcmpCode, "icmpcode", U8, Some(Icmp), "code of ICMP";
    Icmp6Type, "icmp6type", U8, Some(Icmpv6), "type of ICMPv6";
    Icmp6Code, "icmp6code", U8, Some(Icmpv6), "code of ICMPv6";
    EspSpi, "espspi", U32, Some(Esp), "security parameters index";

    GreProtocol, "greprotocol", U16, Some(Gre), "type of what GRE carries";
    GreKey, "grekey", U32, Some(Gre), "key of GRE";
    GreVersion, "greversion", UP_TO_7, Some(Gre), "version of GRE";
    Vni, "vni", VNI, None, "network identifier of VXLAN or GENEVE";
    VxlanVni, "vxlanvni", VNI, Some(Vxlan), "network identifier of VXLAN";
    GeneveVni, "genevevni", VNI, Some(Geneve), "network identifier of GENEVE";

    IpNextHop, "ipnexthop", IP, None, "next router, as the router says";
    IpSourceMaskLen, "ipsourcemasklen", U32, None, "bits of the prefix of the source";
    IpDestinationMaskLen, "ipdestinationmasklen", U32, None, "bits of the prefix of the destination";
    BgpNextHop, "bgpnexthop", IP, None, "border router towards the destination";
    BgpAs, "bgpas", U32, None, "AS of the router";
    BgpSourceAs, "bgpsourceas", U32, None, "AS of the source";
    BgpSourcePeerAs, "bgpsourcepeeras", U32, None, "AS from which the packet came";
    BgpDestinationAs, "bgpdestinationas", U32, None, "AS of the destination: the last of the path";
    BgpDestinationPeerAs, "bgpdestinationpeeras", U32, None, "AS to which it goes next: the first of the path";
    BgpAsPath, "bgpaspath", TEXT, None, "path to the destination, with dashes between its numbers";
    BgpCommunities, "bgpcommunities", TEXT, None, "communities of the route, with dashes between them: 65000:1-65000:2";
    BgpLocalPref, "bgplocalpref", U32, None, "local preference of the route";

    SourceUser, "sourceuser", TEXT, None, "user at the source";
    DestinationUser, "destinationuser", TEXT, None, "user at the destination";
    Url, "url", TEXT, None, "request line";
    Host, "host", TEXT, None, "host that was asked";

    Reason, "reason", REASON, None, "why the packet was dropped: the specification's name, or a number";
    Function, "function", TEXT, None, "function of the software that dropped it";
    LinuxReason, "linuxreason", TEXT, None, "reason that Linux gives";
    HwTrapGroup, "hwtrapgroup", TEXT, None, "group of the hardware's trap";
    HwTrap, "hwtrap", TEXT, None, "the hardware's trap";
    AclNumber, "aclnumber", U32, None, "number of the access list that matched";
    AclName, "aclname", TEXT, None, "its name";
    AclDirection, "acldirection", WAYS, None, "its direction: `ingress` or `egress`";
    QueueIndex, "queueindex", U32, None, "queue of the output that was chosen";
    QueueDepth, "queuedepth", U32, None, "bytes that waited in it";
    TransitDelay, "transitdelay", U32, None, "nanoseconds that the packet was in the device";
    Duration, "duration", U32, None, "microseconds that an operation of an application took";
    Requests, "requests", ONE, None, "1 for an operation of an application";
}

impl Field {
    pub(super) fn from_name(name: &str) -> Option<Field> {
        Self::TABLE.iter().find(|key| key.name == name).map(|key| key.field)
    }

    /// Names and meanings, in the order of the table.
    pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        Self::TABLE.iter().map(|key| (key.name, key.about))
    }

    pub(super) fn kinds(self) -> &'static [Kind] {
        Self::TABLE[self as usize].kinds
    }

    pub(super) fn protocol(self) -> Option<Protocol> {
        Self::TABLE[self as usize].protocol
    }

    /// Whether headers of it can occur within one another, so that `.1` asks for the inner one.
    pub(super) fn is_of_header(self) -> bool {
        let first = Field::MacSource as usize;
        let last = Field::GeneveVni as usize;
        (first..=last).contains(&(self as usize)) && !matches!(self, Field::OutputVlan | Field::OutputPriority)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_is_one_field() {
        let names: HashSet<&str> = Field::all().map(|(name, _)| name).collect();
        assert_eq!(names.len(), Field::TABLE.len());
        for (at, &Key { field, name, about: meaning, .. }) in Field::TABLE.iter().enumerate() {
            assert_eq!((Field::from_name(name), field as usize), (Some(field), at));
            assert!(
                !meaning.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
                "{name}"
            );
        }
        assert_eq!(Field::from_name("ipsorce"), None);
    }
}
