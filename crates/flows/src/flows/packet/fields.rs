//! The values of a packet's keys, of its headers or of records.

use std::net::IpAddr;

use weir_wire::frame::{IpV4, IpV6, Ports, Protocol};
use weir_wire::sflow::{DataSource, Interface, Numbers, Record, SampledIp, Value as Raw, reason_name};

use super::super::field::Field;
use super::super::value::{Scratch, Value};
use super::Packet;

impl Packet<'_> {
    /// The value of a key; `Null`, if the packet has no such thing.
    pub(in crate::flows) fn field(&self, field: Field, nth: u8, scratch: &mut Scratch) -> Value {
        let mut value = Value::Null;
        self.read_field(field, nth, scratch, &mut value);
        value
    }

    /// As above, into its place.
    pub(in crate::flows) fn read_field(&self, field: Field, nth: u8, scratch: &mut Scratch, value: &mut Value) {
        *value = Value::Null;
        self.find(field, nth, scratch, value);
    }

    /// As above; it leaves what is there where there is nothing. (A value that is returned as an option is copied once more, and the
    /// processor waits for it.)
    #[inline]
    fn find(&self, field: Field, nth: u8, scratch: &mut Scratch, value: &mut Value) -> Option<()> {
        let (frame, known) = (&self.frame, &self.known);
        *value = match field {
            Field::Agent => Value::Ip(self.directory.address(self.agent)?),
            Field::DataSource => match self.source {
                DataSource { class: DataSource::IF_INDEX, index } => number(index),
                DataSource { class, index } => scratch.write(|text| text.push_str(&format!("{class}.{index}"))),
            },
            Field::InputIfIndex => interface(self.input, scratch)?,
            Field::OutputIfIndex => interface(self.output, scratch)?,
            Field::Direction => {
                let here = Interface::Index(self.source.index);
                let is_interface = self.source.class == DataSource::IF_INDEX;
                match () {
                    () if is_interface && self.input == here => scratch.word("ingress"),
                    () if is_interface && self.output == here => scratch.word("egress"),
                    () => return None,
                }
            }
            Field::Stack if frame.layers().is_empty() => return None,
            Field::Stack => scratch.write(|text| {
                for (at, name) in frame.stack().enumerate() {
                    text.push_str(if at == 0 { "" } else { "." });
                    text.push_str(name);
                }
            }),
            Field::Bytes => number(self.length),
            Field::Frames => Value::Number(1),
            Field::Requests => Value::Number(known.operation.map(|_| 1)?),
            Field::Duration => known.operation.and_then(duration)?,

            Field::MacSource => match frame.ethernet(nth) {
                Some(header) => Value::Mac(header.source()),
                None => Value::Mac(outermost(nth, known.ethernet)?.src_mac),
            },
            Field::MacDestination => Value::Mac(self.receiver(nth)?),
            Field::EthernetProtocol => match self.ethertype(nth) {
                Some(ethertype) => Value::Number(ethertype.into()),
                None => number(outermost(nth, known.ethernet)?.ethertype),
            },
            Field::IsUnicast => Value::Truth(self.receiver(nth)?[0] & 1 == 0),
            Field::IsMulticast => {
                let mac = self.receiver(nth)?;
                Value::Truth(mac[0] & 1 == 1 && mac != BROADCAST)
            }
            Field::IsBroadcast => Value::Truth(self.receiver(nth)? == BROADCAST),
            Field::Vlan => match frame.vlan(nth) {
                Some(tag) => Value::Number(tag.id().into()),
                None => number(outermost(nth, known.switch)?.src_vlan),
            },
            Field::Priority => match frame.vlan(nth) {
                Some(tag) => Value::Number(tag.priority().into()),
                None => number(outermost(nth, known.switch)?.src_priority),
            },
            Field::OutputVlan => number(known.switch?.dst_vlan),
            Field::OutputPriority => number(known.switch?.dst_priority),
            Field::PppoeSession => Value::Number(frame.pppoe(nth)?.session().into()),
            Field::MplsLabel => number(frame.mpls(nth)?.label()),
            Field::MplsLabels if nth > 0 || frame.mpls(0).is_none() => return None,
            Field::MplsLabels => {
                let labels = (0..).map_while(|nth| frame.mpls(nth)).map(|entry| entry.label());
                joined(scratch, labels, '.')
            }
            Field::ArpOperation => Value::Number(frame.arp(nth)?.operation().into()),
            Field::ArpMacSender => Value::Mac(frame.arp(nth)?.sender_mac()),
            Field::ArpMacTarget => Value::Mac(frame.arp(nth)?.target_mac()),
            Field::ArpIpSender => Value::Ip(frame.arp(nth)?.sender_ip().into()),
            Field::ArpIpTarget => Value::Ip(frame.arp(nth)?.target_ip().into()),

            Field::IpSource => Value::Ip(self.v4(nth, |header| header.source().into(), |ip| ip.src_ip)?),
            Field::IpDestination => Value::Ip(self.v4(nth, |header| header.destination().into(), |ip| ip.dst_ip)?),
            Field::IpProtocol => number(self.v4(nth, |header| header.protocol().into(), |ip| ip.protocol)?),
            Field::IpTtl => Value::Number(frame.ipv4(nth)?.ttl().into()),
            Field::IpTos | Field::IpDscp | Field::IpEcn => {
                class(self.v4(nth, |header| header.tos(), |ip| ip.traffic_class as u8)?, field)
            }
            Field::IpId => Value::Number(frame.ipv4(nth)?.identification().into()),
            Field::IpFlags => Value::Bits { bits: frame.ipv4(nth)?.flags().into(), width: 3 },
            Field::IpFragOffset => Value::Number(frame.ipv4(nth)?.fragment_offset().into()),
            Field::IpBytes => number(self.v4(nth, |header| header.length().into(), |ip| ip.length)?),

            Field::Ip6Source => Value::Ip(self.v6(nth, |header| header.source().into(), |ip| ip.src_ip)?),
            Field::Ip6Destination => Value::Ip(self.v6(nth, |header| header.destination().into(), |ip| ip.dst_ip)?),
            Field::Ip6NextHdr => number(self.v6(nth, |header| header.protocol().into(), |ip| ip.protocol)?),
            Field::Ip6HopLimit => Value::Number(frame.ipv6(nth)?.hop_limit().into()),
            Field::Ip6Tos | Field::Ip6Dscp | Field::Ip6Ecn => {
                class(self.v6(nth, |header| header.class(), |ip| ip.traffic_class as u8)?, field)
            }
            Field::Ip6FlowLabel => number(frame.ipv6(nth)?.flow_label()),
            Field::Ip6FragOffset => Value::Number((frame.fragment(nth)?.0 >> 3).into()),
            Field::Ip6FragM => scratch.word(if frame.fragment(nth)?.1 { "yes" } else { "no" }),
            Field::Ip6Bytes => {
                number(self.v6(nth, |header| u32::from(header.payload_length()) + 40, |ip| ip.length)?)
            }

            Field::TcpSourcePort => self.port(Protocol::Tcp, nth, |ports| ports.source)?,
            Field::TcpDestinationPort => self.port(Protocol::Tcp, nth, |ports| ports.destination)?,
            Field::TcpFlags => match frame.tcp(nth) {
                Some(header) => Value::Bits { bits: header.flags()?, width: 9 },
                None => {
                    let ip = outermost(nth, known.ip).filter(|ip| !known.header && ip.protocol == TCP)?;
                    Value::Bits { bits: ip.tcp_flags as u16 & 0x1ff, width: 9 }
                }
            },
            Field::UdpSourcePort => self.port(Protocol::Udp, nth, |ports| ports.source)?,
            Field::UdpDestinationPort => self.port(Protocol::Udp, nth, |ports| ports.destination)?,
            Field::SctpSourcePort => self.port(Protocol::Sctp, nth, |ports| ports.source)?,
            Field::SctpDestinationPort => self.port(Protocol::Sctp, nth, |ports| ports.destination)?,
            Field::IcmpType => Value::Number(frame.icmp(nth)?.kind().into()),
            Field::IcmpCode => Value::Number(frame.icmp(nth)?.code().into()),
            Field::Icmp6Type => Value::Number(frame.icmpv6(nth)?.kind().into()),
            Field::Icmp6Code => Value::Number(frame.icmpv6(nth)?.code().into()),
            Field::EspSpi => number(frame.esp(nth)?),

            Field::GreProtocol => Value::Number(frame.gre(nth)?.ethertype().into()),
            Field::GreKey => number(frame.gre(nth)?.key()?),
            Field::GreVersion => Value::Number(frame.gre(nth)?.version().into()),
            Field::Vni => match frame.vxlan(nth) {
                Some(header) => number(header.vni()),
                None => number(frame.geneve(nth)?.vni()),
            },
            Field::VxlanVni => number(frame.vxlan(nth)?.vni()),
            Field::GeneveVni => number(frame.geneve(nth)?.vni()),

            Field::IpNextHop => Value::Ip(known.router?.nexthop?),
            Field::IpSourceMaskLen => number(known.router?.src_mask_len),
            Field::IpDestinationMaskLen => number(known.router?.dst_mask_len),
            Field::BgpNextHop => Value::Ip(known.gateway?.nexthop?),
            Field::BgpAs => number(known.gateway?.as_number),
            Field::BgpSourceAs => number(known.gateway?.src_as),
            Field::BgpSourcePeerAs => number(known.gateway?.src_peer_as),
            Field::BgpDestinationAs => number(known.gateway?.dst_as()?),
            Field::BgpDestinationPeerAs => number(known.gateway?.dst_peer_as()?),
            Field::BgpAsPath => joined(scratch, known.gateway?.path.flat_map(|segment| segment.numbers), '-'),
            Field::BgpCommunities => communities(scratch, known.gateway?.communities),
            Field::BgpLocalPref => number(known.gateway?.localpref),

            Field::SourceUser => foreign(scratch, known.user?.src_user)?,
            Field::DestinationUser => foreign(scratch, known.user?.dst_user)?,
            Field::Url => foreign(scratch, known.url?.url)?,
            Field::Host => foreign(scratch, known.url?.host)?,

            Field::Reason => {
                let reason = self.reason?;
                reason_name(reason).map_or(number(reason), |name| scratch.word(name))
            }
            Field::Function => foreign(scratch, known.function?)?,
            Field::LinuxReason => foreign(scratch, known.linux_reason?)?,
            Field::HwTrapGroup => foreign(scratch, known.hw_trap?.group)?,
            Field::HwTrap => foreign(scratch, known.hw_trap?.trap)?,
            Field::AclNumber => number(known.acl?.number),
            Field::AclName => foreign(scratch, known.acl?.name)?,
            Field::AclDirection => match known.acl?.direction {
                1 => scratch.word("ingress"),
                2 => scratch.word("egress"),
                _ => return None,
            },
            Field::QueueIndex => number(known.queue?),
            Field::QueueDepth => number(known.queue_depth?),
            Field::TransitDelay => number(known.transit_delay?),
        };
        Some(())
    }

    /// Ethernet address of the receiver.
    fn receiver(&self, nth: u8) -> Option<[u8; 6]> {
        match self.frame.ethernet(nth) {
            Some(header) => Some(header.destination()),
            None => self.known.ethernet.filter(|_| nth == 0).map(|ethernet| ethernet.dst_mac),
        }
    }

    /// The type behind the tags of Ethernet header `nth`.
    fn ethertype(&self, nth: u8) -> Option<u16> {
        let header = self.frame.ethernet(nth)?;
        let mut layers = self.frame.layers().iter();
        layers.by_ref().filter(|layer| layer.protocol == Protocol::Ethernet).nth(nth.into())?;
        let before = layers.as_slice();
        let tags = before.iter().take_while(|layer| layer.protocol == Protocol::Vlan).count();
        if tags == 0 {
            return Some(header.ethertype());
        }
        let skipped = self.frame.layers().len() - before.len();
        let earlier = self.frame.layers()[..skipped].iter().filter(|layer| layer.protocol == Protocol::Vlan).count();
        Some(self.frame.vlan((earlier + tags - 1) as u8)?.ethertype())
    }

    /// What an IPv4 header says, or its decoding, if the agent sent none of the bytes.
    #[inline]
    fn v4<T>(&self, nth: u8, says: impl Fn(IpV4<'_>) -> T, decoded: impl Fn(SampledIp) -> T) -> Option<T> {
        match self.frame.ipv4(nth) {
            Some(header) => Some(says(header)),
            None => outermost(nth, self.decoded(true)).map(decoded),
        }
    }

    /// Likewise of IPv6.
    #[inline]
    fn v6<T>(&self, nth: u8, says: impl Fn(IpV6<'_>) -> T, decoded: impl Fn(SampledIp) -> T) -> Option<T> {
        match self.frame.ipv6(nth) {
            Some(header) => Some(says(header)),
            None => outermost(nth, self.decoded(false)).map(decoded),
        }
    }

    /// The decoding of an IP header, if the agent sent none of the bytes.
    fn decoded(&self, v4: bool) -> Option<SampledIp> {
        self.known.ip.filter(|ip| !self.known.header && ip.src_ip.is_ipv4() == v4)
    }

    fn port(&self, protocol: Protocol, nth: u8, which: impl Fn(Ports) -> u16) -> Option<Value> {
        if let Some(ports) = self.frame.ports(protocol, nth) {
            return Some(Value::Number(which(ports).into()));
        }
        let expected = match protocol {
            Protocol::Tcp => TCP,
            Protocol::Udp => u32::from(weir_wire::ip::UDP),
            _ => return None,
        };
        let ip = self.known.ip.filter(|ip| nth == 0 && !self.known.header && ip.protocol == expected)?;
        Some(Value::Number(which(Ports { source: ip.src_port as u16, destination: ip.dst_port as u16 }).into()))
    }
}

/// What is known without the bytes is of the outermost header.
fn outermost<T>(nth: u8, decoded: Option<T>) -> Option<T> {
    decoded.filter(|_| nth == 0)
}

fn number(number: u32) -> Value {
    Value::Number(number.into())
}

fn interface(interface: Interface, scratch: &mut Scratch) -> Option<Value> {
    Some(match interface {
        Interface::Unknown => return None,
        Interface::Index(index) => number(index),
        Interface::Internal => scratch.word("internal"),
        Interface::Discarded(_) => scratch.word("discard"),
        Interface::Multiple(_) => scratch.word("multiple"),
    })
}

fn class(tos: u8, field: Field) -> Value {
    match field {
        Field::IpDscp | Field::Ip6Dscp => Value::Number((tos >> 2).into()),
        Field::IpEcn | Field::Ip6Ecn => Value::Bits { bits: (tos & 3).into(), width: 2 },
        _ => Value::Number(tos.into()),
    }
}

fn foreign(scratch: &mut Scratch, text: &[u8]) -> Option<Value> {
    if text.is_empty() { None } else { Some(scratch.foreign(text)) }
}

fn joined(scratch: &mut Scratch, numbers: impl Iterator<Item = u32>, separator: char) -> Value {
    use std::fmt::Write;
    scratch.write(|text| {
        for (at, number) in numbers.take(MAX_NUMBERS).enumerate() {
            if at > 0 {
                text.push(separator);
            }
            // Writing to a string does not fail.
            let _ = write!(text, "{number}");
        }
    })
}

fn communities(scratch: &mut Scratch, numbers: Numbers<'_>) -> Value {
    use std::fmt::Write;
    scratch.write(|text| {
        for (at, number) in numbers.take(MAX_NUMBERS).enumerate() {
            let separator = if at == 0 { "" } else { "-" };
            // As above.
            let _ = write!(text, "{separator}{}:{}", number >> 16, number & 0xffff);
        }
    })
}

/// How long an operation took.
fn duration(operation: Record<'_>) -> Option<Value> {
    operation.values().flatten().find_map(|(field, value)| match value {
        Raw::U32(took) if matches!(field.name, "uS" | "duration" | "duration_uS") => Some(number(took)),
        _ => None,
    })
}

/// The name of an interface, if it has told one.
pub(in crate::flows) fn if_name(packet: &Packet<'_>, if_index: Value, scratch: &mut Scratch) -> Value {
    let index = if_index.number().and_then(|index| u32::try_from(index).ok());
    match index.and_then(|index| packet.directory.interface(packet.agent, index)) {
        Some(name) => scratch.foreign(name.as_bytes()),
        None => Value::Null,
    }
}

/// What an address has to have to be looked up.
pub(in crate::flows) fn ip(value: Value) -> Option<IpAddr> {
    match value {
        Value::Ip(ip) => Some(ip),
        _ => None,
    }
}

const BROADCAST: [u8; 6] = [0xff; 6];

const TCP: u32 = weir_wire::ip::TCP as u32;

/// Numbers of a path or communities of a route that are shown: more do not fit a key.
const MAX_NUMBERS: usize = 32;
