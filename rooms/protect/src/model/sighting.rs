//! What the room is told: one sampled packet.

use std::net::IpAddr;

use serde::Serialize;

/// Where packets are counted: a data source of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Point {
    /// The agent's address.
    pub agent: IpAddr,
    /// The interface (ifIndex), or whatever index its data source has.
    pub index: u32,
}

/// Which of the streams of datagrams in an agent's name: what somebody else sends in it does not continue the agent's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// `sub_agent_id` of its datagrams.
    pub sub_agent: u32,
    /// A number that no other stream of this agent had: another after a restart, or if it comes from elsewhere.
    pub run: u32,
}

/// A packet that was sampled, and for how many it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sighting<'a> {
    /// When it came to the analyser, in ns on a clock that only goes forward.
    pub time: u64,
    /// For how long it may have been kept before it came, ns: since the datagram of its stream before was sent, at most.
    pub kept: u64,
    /// How long before it came it was taken, as far as that is known best, ns: at some time from the first to the second.
    pub ago: [u64; 2],
    /// Where it was sampled.
    pub point: Point,
    /// In which of the agent's streams it was told.
    pub stream: Stream,
    /// Whether it was sampled as it came in at that interface; `None`: the agent does not tell.
    pub ingress: Option<bool>,
    /// Packets that it stands for: the effective sampling rate, lost samples included.
    pub frames: f64,
    /// What was in it.
    pub packet: Packet,
    /// Its first bytes, from the frame's first on; what an event shows.
    pub header: &'a [u8],
}

/// The outermost IP packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it, as it says.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// The protocol behind all extension headers (IANA).
    pub protocol: u8,
    /// What its transport's header says; `None`: a later fragment, another protocol, cut off.
    pub transport: Option<Transport>,
    /// Whether it is a fragment, a first one too.
    pub fragment: bool,
    /// Length of the whole frame in bytes.
    pub length: u32,
    /// DSCP.
    pub dscp: u8,
}

/// What a header of the transport says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// The source's port.
        source: u16,
        /// The destination's port.
        destination: u16,
        /// CWR ECE URG ACK PSH RST SYN FIN, from the highest bit on.
        flags: u8,
    },
    /// UDP.
    Udp {
        /// The source's port.
        source: u16,
        /// The destination's port.
        destination: u16,
    },
    /// ICMP or ICMPv6.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
    },
}
