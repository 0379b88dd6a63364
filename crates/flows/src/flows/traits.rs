//! Which definitions a packet may be of, as far as one look at its protocols tells.
//!
//! Most definitions are of some packets only: those over ports of UDP never of a packet of TCP. What all packets of a definition
//! have is worked out when it is compiled, so that others cost it nothing, and nothing of them is worked out for it.

use super::definition::Checked;
use super::expression::{Expression, Function};
use super::filter::{Filter, Right, Test};
use super::packet::Packet;

/// A set of what packets have: a bit for each [`Protocol`], and one for whether it was sampled or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traits(u32);

const NONE: Traits = Traits(0);
const SAMPLED: Traits = Traits(1 << 31);
const DROPPED: Traits = Traits(1 << 30);
/// What stands for all protocols, where records tell of a packet without its header.
const ANY: Traits = Traits(DROPPED.0 - 1);

/// Definitions, by what their packets have.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    needed: Vec<Traits>,
    found: Vec<u32>,
}

impl Candidates {
    /// Of these definitions.
    pub(super) fn new<'d>(definitions: impl Iterator<Item = &'d Checked>) -> Candidates {
        let needed: Vec<Traits> = definitions.map(Traits::needed).collect();
        Candidates { found: vec![0; needed.len()], needed }
    }

    /// Those that a packet may be of, by their places.
    #[inline]
    pub(super) fn of(&mut self, packet: &Packet<'_>) -> &[u32] {
        let traits = Traits::of(packet);
        let mut count = 0;
        // Without a branch that only the packet knows.
        for (definition, needed) in self.needed.iter().enumerate() {
            self.found[count] = definition as u32;
            count += usize::from(traits.have(*needed));
        }
        &self.found[..count]
    }
}

impl Traits {
    /// Those of a packet.
    #[inline]
    fn of(packet: &Packet<'_>) -> Traits {
        let counted = if packet.is_discarded() { DROPPED } else { SAMPLED };
        counted.and(if packet.has_header() { Traits(packet.frame().protocols()) } else { ANY })
    }

    /// Those that all packets of a definition have.
    fn needed(definition: &Checked) -> Traits {
        let counted = if definition.definition.dropped { DROPPED } else { SAMPLED };
        let value = definition.columns.first().map_or(NONE, |column| Traits::there(&column.of));
        let keys = definition.keys.iter().map(Traits::there).fold(NONE, Traits::and);
        counted.and(value).and(keys).and(definition.filter.as_ref().map_or(NONE, Traits::met))
    }

    /// Those of all packets for which an expression is not null.
    fn there(expression: &Expression) -> Traits {
        let keys = expression.keys.iter().map(Traits::there);
        match expression.function {
            Function::Field(field, _) => field.protocol().map_or(NONE, |protocol| Traits(1 << protocol as u32)),
            Function::Null(_) | Function::If(_) => NONE,
            Function::Or => keys.reduce(Traits::or).unwrap_or(NONE),
            // Nothing comes of nothing.
            _ => keys.fold(NONE, Traits::and),
        }
    }

    /// Those of all packets that meet a filter.
    fn met(filter: &Filter) -> Traits {
        match filter {
            Filter::All(filters) => filters.iter().map(Traits::met).fold(NONE, Traits::and),
            Filter::Any(filters) => filters.iter().map(Traits::met).reduce(Traits::or).unwrap_or(NONE),
            Filter::Test(Test { negated: true, .. }) => NONE,
            Filter::Test(Test { right: Right::Values(values), .. }) if values.iter().any(|value| value.is_null()) => {
                NONE
            }
            Filter::Test(Test { left, .. }) => Traits::there(left),
        }
    }

    #[inline]
    fn have(self, needed: Traits) -> bool {
        needed.0 & !self.0 == 0
    }

    #[inline]
    fn and(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }

    /// What is sure whichever of the two it is.
    fn or(self, other: Traits) -> Traits {
        Traits(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use weir_testbed::random::Source;
    use weir_wire::frame::{Frame, Protocol, Start};
    use weir_wire::sflow::DataSource;

    use super::super::Definition;
    use super::super::field::{Field, Key};
    use super::super::value::Scratch;
    use super::*;
    use crate::names::{AgentId, Nameless};

    /// Headers by their protocols: behind Ethernet an IP header of either version, and behind that anything.
    fn frame(source: &mut Source, transport: u8) -> Vec<u8> {
        let mut random = |count: usize| (0..count).map(|_| source.bits() as u8).collect::<Vec<u8>>();
        let mut bytes = random(12);
        if transport.is_multiple_of(2) {
            bytes.extend([8, 0, 0x45, 0, 0, 100, 0, 0, 0, 0, 64, transport, 0, 0]);
            bytes.extend(random(8));
        } else {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 60, transport, 64]);
            bytes.extend(random(32));
        }
        bytes.extend(random(60));
        bytes
    }

    fn packet(bytes: &[u8]) -> Packet<'_> {
        let source = DataSource { class: DataSource::IF_INDEX, index: 1 };
        Packet::captured(AgentId(1), source, 1000, Frame::parse(Start::Ethernet, bytes), &Nameless)
    }

    fn needed(keys: &str, filter: &str) -> Traits {
        let definition = Definition { keys: keys.into(), filter: filter.into(), ..Definition::default() };
        Traits::needed(&definition.check().unwrap())
    }

    #[test]
    fn what_is_there_has_its_protocol() {
        let (mut source, mut scratch, mut seen) = (Source::drawn(), Scratch::default(), 0);
        for transport in 0..=255 {
            for _ in 0..8 {
                let bytes = frame(&mut source, transport);
                let packet = packet(&bytes);
                for &Key { field, name, .. } in Field::TABLE {
                    for nth in 0..2 {
                        let is_there = !packet.field(field, nth, &mut scratch).is_null();
                        let needed =
                            Traits::there(&Expression { function: Function::Field(field, nth), keys: Vec::new() });
                        assert!(!is_there || Traits::of(&packet).have(needed), "{name}.{nth} of {bytes:02x?}");
                        seen += usize::from(is_there && needed != NONE);
                    }
                }
            }
        }
        assert!(seen > 10_000, "{seen}");
    }

    #[test]
    fn definitions_need_what_each_of_their_packets_has() {
        let of = |protocols: &[Protocol]| {
            Traits(protocols.iter().fold(SAMPLED.0, |sum, &protocol| sum | 1 << protocol as u32))
        };
        use Protocol::{Ipv4, Ipv6, Tcp, Udp};
        for (keys, filter, expected) in [
            ("", "", of(&[])),
            ("ipsource,udpsourceport", "", of(&[Ipv4, Udp])),
            ("or:ipsource:ip6source,null:tcpsourceport:none", "", of(&[])),
            ("or:ipsource:ipdestination", "", of(&[Ipv4])),
            ("mask:ipsource:24,if:stack:x:ip6source:ip6source", "", of(&[Ipv4])),
            ("vlan,macsource", "ipprotocol=6&tcpflags~.......1.", of(&[Ipv4, Tcp])),
            ("vlan", "tcpsourceport=1|udpsourceport=1", of(&[])),
            ("vlan", "ip6source=::1&(ip6nexthdr=6|ip6nexthdr=7)", of(&[Ipv6])),
            ("vlan", "udpsourceport!=53&tcpsourceport=null,1", of(&[])),
        ] {
            assert_eq!(needed(keys, filter), expected, "{keys} {filter}");
        }
    }
}
