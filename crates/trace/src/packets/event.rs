//! Events as they stand in the ring: `struct packet_event` of `bpf/agent.bpf.c`.

/// A packet that was sampled or dropped, of which the ring has the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What became of it.
    pub fate: Fate,
    /// Its length, from its first header on, bytes; of a super-packet that of all its segments.
    pub length: u32,
    /// Packets in the buffer: a super-packet (GRO, GSO) is as many as its segments.
    pub segments: u32,
    /// EtherType of its VLAN tag and the tag itself, where the tag is not among the bytes.
    pub vlan: Option<(u16, u16)>,
    /// EtherType of the network header that the bytes begin with; of a sampled one only where the interface has no Ethernet
    /// header. 0: the bytes begin with an Ethernet header.
    pub protocol: u16,
    /// Whether it was leaving.
    pub outgoing: bool,
    /// Its first bytes, [`HEADER`] at most.
    pub bytes: &'a [u8],
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It passed an interface, and stands for others.
    Sampled {
        /// The interface.
        interface: u32,
        /// Samples that it is: more than one where a super-packet is.
        times: u32,
    },
    /// The kernel dropped it.
    Discarded {
        /// The interface it came by; `None`: it was sent by this machine.
        input: Option<u32>,
        /// The interface it was leaving by; `None`: it was not leaving.
        output: Option<u32>,
        /// Number of the reason; [`super::Packets::reason`] names it.
        reason: u32,
        /// Address of the function; [`super::Packets::function`] names it.
        location: u64,
    },
}

impl<'a> Packet<'a> {
    /// Samples that it is; none where it was dropped.
    pub(super) fn times(&self) -> u64 {
        match self.fate {
            Fate::Sampled { times, .. } => times.into(),
            Fate::Discarded { .. } => 0,
        }
    }

    /// `None`: no such event.
    pub(super) fn read(event: &'a [u8]) -> Option<Self> {
        let word = |at: usize| event.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let index = |at: usize| word(at).map(|index| (index != 0).then_some(index));
        let fate = match word(KIND)? {
            SAMPLED => Fate::Sampled { interface: word(INTERFACE)?, times: word(TIMES)? },
            DISCARDED => Fate::Discarded {
                input: index(INTERFACE)?,
                output: index(OUTPUT)?,
                reason: word(REASON)?,
                location: u64::from_ne_bytes(event.get(..8)?.try_into().ok()?),
            },
            _ => return None,
        };
        let vlan = word(VLAN)?;
        let protocol = u16::from_ne_bytes(event.get(PROTOCOL..PROTOCOL + 2)?.try_into().ok()?);
        Some(Self {
            fate,
            length: word(LENGTH)?,
            segments: word(SEGMENTS)?,
            vlan: (vlan != 0).then_some((u16::from_be((vlan >> 16) as u16), vlan as u16)),
            protocol: u16::from_be(protocol),
            outgoing: *event.get(OUTGOING)? != 0,
            bytes: event.get(BYTES..BYTES + (word(CAPTURED)? as usize).min(HEADER))?,
        })
    }
}

/// Bytes of a packet that an event has, at most.
pub const HEADER: usize = 128;

const SAMPLED: u32 = 1;
const DISCARDED: u32 = 2;

const KIND: usize = 8;
const INTERFACE: usize = 12;
const OUTPUT: usize = 16;
const REASON: usize = 20;
const LENGTH: usize = 24;
const CAPTURED: usize = 28;
const SEGMENTS: usize = 32;
const TIMES: usize = 40;
const VLAN: usize = 44;
const PROTOCOL: usize = 48;
const OUTGOING: usize = 50;
const BYTES: usize = 56;

#[cfg(test)]
pub(super) const SIZE: usize = BYTES + HEADER;

#[cfg(test)]
pub(super) const LAYOUT: [(&str, usize); 13] = [
    ("location", 0),
    ("kind", KIND),
    ("interface", INTERFACE),
    ("output", OUTPUT),
    ("reason", REASON),
    ("length", LENGTH),
    ("captured", CAPTURED),
    ("segments", SEGMENTS),
    ("times", TIMES),
    ("vlan", VLAN),
    ("protocol", PROTOCOL),
    ("outgoing", OUTGOING),
    ("bytes", BYTES),
];
