//! The keys that packets have: their names, as sFlow-RT has them, and what each says.

/// One row a key: its variant, its name, what it says.
macro_rules! fields {
    ($($variant:ident $name:literal $meaning:literal)*) => {
        /// A key of a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum Field {
            $($variant,)*
        }

        impl Field {
            const TABLE: &[(Field, &'static str, &'static str)] = &[$((Field::$variant, $name, $meaning),)*];
        }
    };
}

fields! {
    Agent "agent" "address of the agent"
    DataSource "datasource" "ifIndex of the data source, or its class and index"
    InputIfIndex "inputifindex" "interface by which the packet came in: its ifIndex, or `internal`"
    OutputIfIndex "outputifindex" "interface by which it went out: its ifIndex, `internal`, `multiple` or `discard`"
    Direction "direction" "`ingress` if the data source is the input, `egress` if it is the output"
    Stack "stack" "names of the protocols, outside to inside: eth.ip.tcp"
    Bytes "bytes" "bytes of the frame"
    Frames "frames" "1"

    MacSource "macsource" "Ethernet address of the sender"
    MacDestination "macdestination" "Ethernet address of the receiver"
    EthernetProtocol "ethernetprotocol" "type behind all tags"
    IsUnicast "isunicast" "whether the receiver's Ethernet address is of one station"
    IsMulticast "ismulticast" "whether it is of a group, broadcast left out"
    IsBroadcast "isbroadcast" "whether it is the broadcast address"
    Vlan "vlan" "VLAN in which the frame came: of its tag, else as the switch says"
    Priority "priority" "802.1p priority of the same"
    OutputVlan "outputvlan" "VLAN in which it went out, as the switch says"
    OutputPriority "outputpriority" "802.1p priority with which it went out, as the switch says"
    PppoeSession "pppoesession" "session of PPPoE"
    MplsLabel "mplslabel" "label of the outermost entry; mplslabel.1 of the next"
    MplsLabels "mplslabels" "all labels, outermost first, with dots between them"
    ArpOperation "arpoperation" "1 request, 2 reply"
    ArpMacSender "arpmacsender" "Ethernet address of the sender of an ARP packet"
    ArpMacTarget "arpmactarget" "Ethernet address of whom it asks"
    ArpIpSender "arpipsender" "IP address of its sender"
    ArpIpTarget "arpiptarget" "IP address that it asks for"

    IpSource "ipsource" "IPv4 address of the sender"
    IpDestination "ipdestination" "IPv4 address of the receiver"
    IpProtocol "ipprotocol" "protocol number that IPv4 carries"
    IpTtl "ipttl" "time to live"
    IpTos "iptos" "type of service, eight bits"
    IpDscp "ipdscp" "differentiated services code point"
    IpEcn "ipecn" "congestion notification: two binary digits"
    IpId "ipid" "identification"
    IpFlags "ipflags" "reserved, don't fragment, more fragments: three binary digits"
    IpFragOffset "ipfragoffset" "offset of the fragment in units of 8 bytes"
    IpBytes "ipbytes" "bytes of the packet"

    Ip6Source "ip6source" "IPv6 address of the sender"
    Ip6Destination "ip6destination" "IPv6 address of the receiver"
    Ip6NextHdr "ip6nexthdr" "protocol number behind the extension headers"
    Ip6HopLimit "ip6hoplimit" "hop limit"
    Ip6Tos "ip6tos" "traffic class, eight bits"
    Ip6Dscp "ip6dscp" "differentiated services code point"
    Ip6Ecn "ip6ecn" "congestion notification: two binary digits"
    Ip6FlowLabel "ip6flowlabel" "flow label"
    Ip6FragOffset "ip6fragoffset" "offset of the fragment in units of 8 bytes"
    Ip6FragM "ip6fragm" "`yes` if more fragments follow, else `no`"
    Ip6Bytes "ip6bytes" "bytes of the packet"

    TcpSourcePort "tcpsourceport" "source port of TCP"
    TcpDestinationPort "tcpdestinationport" "destination port of TCP"
    TcpFlags "tcpflags" "NS CWR ECE URG ACK PSH RST SYN FIN: nine binary digits"
    UdpSourcePort "udpsourceport" "source port of UDP"
    UdpDestinationPort "udpdestinationport" "destination port of UDP"
    SctpSourcePort "sctpsourceport" "source port of SCTP"
    SctpDestinationPort "sctpdestinationport" "destination port of SCTP"
    IcmpType "icmptype" "type of ICMP"
    IcmpCode "icmpcode" "code of ICMP"
    Icmp6Type "icmp6type" "type of ICMPv6"
    Icmp6Code "icmp6code" "code of ICMPv6"
    EspSpi "espspi" "security parameters index"

    GreProtocol "greprotocol" "type of what GRE carries"
    GreKey "grekey" "key of GRE"
    GreVersion "greversion" "version of GRE"
    Vni "vni" "network identifier of VXLAN or GENEVE"
    VxlanVni "vxlanvni" "network identifier of VXLAN"
    GeneveVni "genevevni" "network identifier of GENEVE"

    IpNextHop "ipnexthop" "next router, as the router says"
    IpSourceMaskLen "ipsourcemasklen" "bits of the prefix of the source"
    IpDestinationMaskLen "ipdestinationmasklen" "bits of the prefix of the destination"
    BgpNextHop "bgpnexthop" "border router towards the destination"
    BgpAs "bgpas" "AS of the router"
    BgpSourceAs "bgpsourceas" "AS of the source"
    BgpSourcePeerAs "bgpsourcepeeras" "AS from which the packet came"
    BgpDestinationAs "bgpdestinationas" "AS of the destination: the last of the path"
    BgpDestinationPeerAs "bgpdestinationpeeras" "AS to which it goes next: the first of the path"
    BgpAsPath "bgpaspath" "path to the destination, with dashes between its numbers"
    BgpCommunities "bgpcommunities" "communities of the route, with dashes between them: 65000:1-65000:2"
    BgpLocalPref "bgplocalpref" "local preference of the route"

    SourceUser "sourceuser" "user at the source"
    DestinationUser "destinationuser" "user at the destination"
    Url "url" "request line"
    Host "host" "host that was asked"

    Reason "reason" "why the packet was dropped: the specification's name, or a number"
    Function "function" "function of the software that dropped it"
    LinuxReason "linuxreason" "reason that Linux gives"
    HwTrapGroup "hwtrapgroup" "group of the hardware's trap"
    HwTrap "hwtrap" "the hardware's trap"
    AclNumber "aclnumber" "number of the access list that matched"
    AclName "aclname" "its name"
    AclDirection "acldirection" "its direction: `ingress` or `egress`"
    QueueIndex "queueindex" "queue of the output that was chosen"
    QueueDepth "queuedepth" "bytes that waited in it"
    TransitDelay "transitdelay" "nanoseconds that the packet was in the device"
    Duration "duration" "microseconds that an operation of an application took"
    Requests "requests" "1 for an operation of an application"
}

impl Field {
    pub(super) fn from_name(name: &str) -> Option<Field> {
        Self::TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Every one, with its name and meaning.
    pub(super) fn table() -> &'static [(Field, &'static str, &'static str)] {
        Self::TABLE
    }

    /// Names and meanings, in the order of the table.
    pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        Self::TABLE.iter().map(|&(_, name, meaning)| (name, meaning))
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
        for &(field, name, meaning) in Field::TABLE {
            assert_eq!(Field::from_name(name), Some(field));
            assert!(
                !meaning.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
                "{name}"
            );
        }
        assert_eq!(Field::from_name("ipsorce"), None);
    }
}
