//! The headers of a sampled frame as JSON, outermost first.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use weir_wire::frame::{Frame, Protocol};

use super::text::mac;

/// An object a header.
pub(super) struct Layers<'a>(pub(super) &'a Frame<'a>);

impl Serialize for Layers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for (place, layer) in self.0.layers().iter().enumerate() {
            // Of several headers of one protocol, which.
            let before = &self.0.layers()[..place];
            let occurrence = before.iter().filter(|other| other.protocol == layer.protocol).count();
            list.serialize_element(&Layer { frame: self.0, protocol: layer.protocol, occurrence: occurrence as u8 })?;
        }
        list.end()
    }
}

struct Layer<'a> {
    frame: &'a Frame<'a>,
    protocol: Protocol,
    occurrence: u8,
}

impl Serialize for Layer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("layer", name(self.protocol))?;
        self.fields(&mut map)?;
        map.end()
    }
}

/// Writes `name: value` pairs.
macro_rules! entries {
    ($map:ident, $($name:literal: $value:expr),+ $(,)?) => { $($map.serialize_entry($name, &$value)?;)+ };
}

impl Layer<'_> {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let (frame, at) = (self.frame, self.occurrence);
        match self.protocol {
            Protocol::Ethernet => {
                let Some(header) = frame.ethernet(at) else { return Ok(()) };
                entries!(map, "destination": mac(header.destination()), "source": mac(header.source()), "type": header.ethertype());
            }
            Protocol::Vlan => {
                let Some(tag) = frame.vlan(at) else { return Ok(()) };
                entries!(map, "id": tag.id(), "priority": tag.priority(), "type": tag.ethertype());
            }
            Protocol::Mpls => {
                let Some(entry) = frame.mpls(at) else { return Ok(()) };
                entries!(map, "label": entry.label(), "traffic_class": entry.class(), "bottom": entry.bottom(), "ttl": entry.ttl());
            }
            Protocol::Arp => {
                let Some(arp) = frame.arp(at) else { return Ok(()) };
                entries!(map, "operation": arp.operation());
                entries!(map, "sender_mac": mac(arp.sender_mac()), "sender_ip": arp.sender_ip());
                entries!(map, "target_mac": mac(arp.target_mac()), "target_ip": arp.target_ip());
            }
            Protocol::Pppoe => {
                let Some(header) = frame.pppoe(at) else { return Ok(()) };
                entries!(map, "session": header.session());
            }
            Protocol::Ipv4 => {
                let Some(ip) = frame.ipv4(at) else { return Ok(()) };
                entries!(map, "tos": ip.tos(), "length": ip.length(), "identification": ip.identification());
                entries!(map, "flags": ip.flags(), "fragment_offset": ip.fragment_offset(), "ttl": ip.ttl());
                entries!(map, "protocol": ip.protocol(), "source": ip.source(), "destination": ip.destination());
            }
            Protocol::Ipv6 => {
                let Some(ip) = frame.ipv6(at) else { return Ok(()) };
                entries!(map, "traffic_class": ip.class(), "flow_label": ip.flow_label());
                entries!(map, "payload_length": ip.payload_length(), "hop_limit": ip.hop_limit());
                entries!(map, "protocol": ip.protocol(), "source": ip.source(), "destination": ip.destination());
            }
            Protocol::Fragment => {
                let Some((offset, more)) = frame.fragment(at) else { return Ok(()) };
                entries!(map, "offset": offset, "more": more);
            }
            Protocol::Esp => {
                let Some(spi) = frame.esp(at) else { return Ok(()) };
                entries!(map, "spi": spi);
            }
            Protocol::Tcp | Protocol::Udp | Protocol::Sctp => {
                let Some(ports) = frame.ports(self.protocol, at) else { return Ok(()) };
                entries!(map, "source_port": ports.source, "destination_port": ports.destination);
                match self.protocol {
                    Protocol::Tcp => {
                        entries!(map, "flags": frame.tcp(at).and_then(|tcp| tcp.flags()));
                    }
                    Protocol::Udp => {
                        entries!(map, "length": frame.find(Protocol::Udp, at).and_then(udp_length));
                    }
                    _ => {}
                }
            }
            Protocol::Icmp => {
                let Some(icmp) = frame.icmp(at) else { return Ok(()) };
                entries!(map, "type": icmp.kind(), "code": icmp.code());
            }
            Protocol::Icmpv6 => {
                let Some(icmp) = frame.icmpv6(at) else { return Ok(()) };
                entries!(map, "type": icmp.kind(), "code": icmp.code());
            }
            Protocol::Gre => {
                let Some(gre) = frame.gre(at) else { return Ok(()) };
                entries!(map, "version": gre.version(), "type": gre.ethertype(), "key": gre.key());
            }
            Protocol::Vxlan => {
                let Some(vxlan) = frame.vxlan(at) else { return Ok(()) };
                entries!(map, "vni": vxlan.vni());
            }
            Protocol::Geneve => {
                let Some(geneve) = frame.geneve(at) else { return Ok(()) };
                entries!(map, "vni": geneve.vni(), "options_length": geneve.options());
            }
            Protocol::Llc | Protocol::Lldp | Protocol::Authentication | Protocol::Igmp => {}
        }
        Ok(())
    }
}

/// What the header says; `None` if cut off.
fn udp_length(header: &[u8]) -> Option<u16> {
    header.get(4..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Ethernet => "ethernet",
        Protocol::Vlan => "vlan",
        Protocol::Ipv4 => "ipv4",
        Protocol::Ipv6 => "ipv6",
        Protocol::Fragment => "ipv6_fragment",
        Protocol::Authentication => "authentication",
        Protocol::Icmpv6 => "icmpv6",
        other => other.name().unwrap_or_default(),
    }
}
