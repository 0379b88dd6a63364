//! What the room is told: sampled packets, and whether agents are heard and agree with themselves.

use std::fmt;
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

/// A packet that was sampled, and for how many it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sighting<'a> {
    /// When it came to the analyser, in ns on a clock that only goes forward.
    pub time: u64,
    /// The stream of datagrams that it came in: a number that no other stream has.
    pub stream: u32,
    /// For how long before it came it may have been taken, ns; `None`: nobody knows, as of a stream's first burst.
    pub exposure: Option<u64>,
    /// What speaks against it.
    pub word: Word,
    /// Where it was sampled.
    pub point: Point,
    /// Whether it was sampled as it came in at that interface; `None`: the agent does not tell.
    pub ingress: Option<bool>,
    /// Packets that it stands for: the effective sampling rate, lost samples included.
    pub frames: f64,
    /// What was in it.
    pub packet: Packet,
    /// Its first bytes, from the frame's first on; what an event shows.
    pub header: &'a [u8],
}

/// What speaks against a sample, weighed where its datagram is read; the worst comes last. Samples of agents that are not listed, and of
/// rivals of a settled stream, are counted there and never come here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Nothing: it may lead to an action.
    #[default]
    Good,
    /// Its stream has been heard for less than `settle`.
    New,
    /// No counters of its interface have come of late.
    Uncounted,
    /// A datagram contradicted its stream of late.
    Contested,
    /// The counters of its interface tell of less than its samples.
    Counters,
}

/// A listed agent is heard; told once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alive {
    /// When, as in [`Sighting::time`].
    pub time: u64,
    /// Which agent.
    pub agent: IpAddr,
}

/// A stream or a data source of a listed agent contradicts itself: what was announced of late on its word alone is not to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contested {
    /// When, as in [`Sighting::time`].
    pub time: u64,
    /// Which agent.
    pub agent: IpAddr,
    /// Where; `None`: all that the agent tells.
    pub point: Option<Point>,
    /// How it shows.
    pub why: Why,
}

impl Contested {
    /// What speaks against the samples from there.
    pub fn word(&self) -> Word {
        if self.point.is_some() { Word::Counters } else { Word::Contested }
    }

    /// Whether it doubts what a point tells.
    pub fn means(&self, point: &Point) -> bool {
        self.why != Why::Short && self.agent == point.agent && self.point.is_none_or(|own| own == *point)
    }
}

/// What contradicts what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// A number came with two contents.
    Content,
    /// A number came more than a second after a later one.
    Overtaken,
    /// The next number came with an uptime that does not go on.
    Clock,
    /// Several streams of one identity, of which none is settled.
    Twins,
    /// Samples tell of more than the counters of their interface.
    Counters,
    /// They tell of less: nothing that they show is in doubt, and what they do not show may be there.
    Short,
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Content => "one datagram number came with two contents",
            Self::Overtaken => "a datagram came more than a second after later ones",
            Self::Clock => "its datagram numbers go on, and its uptime does not",
            Self::Twins => "several senders speak in its name at once",
            Self::Counters => "its samples tell of more than the counters of their interface",
            Self::Short => {
                "its samples tell of less than the counters of their interface: floods there are not seen, or late"
            }
        })
    }
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

impl Packet {
    /// The source's port, and the destination's.
    pub(crate) fn ports(&self) -> Option<(u16, u16)> {
        match self.transport? {
            Transport::Tcp { source, destination, .. } | Transport::Udp { source, destination } => {
                Some((source, destination))
            }
            Transport::Icmp { .. } => None,
        }
    }
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
