//! What was detected, and what shows it.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Class, Point, Rule};

/// What is under attack: a host, or the prefix over which a flood is spread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct Target {
    /// The host as /32 or /128, or the prefix.
    pub prefix: IpNet,
    /// The protected group that it belongs to.
    pub group: String,
}

/// A rate with the interval in which the true one is with 95 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    /// What is most likely.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// One of the values that a field had, and its part of the flood, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The value: `203.0.113.7`, `53`, `SYN`, `DE`, `64500`.
    pub value: String,
    /// Its part of the packets.
    pub share: f64,
}

/// A flood, as of its newest sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Detection {
    /// What is under attack.
    pub target: Target,
    /// By what; of several classes the narrowest that explains it.
    pub class: Class,
    /// When the first sample above the threshold came, and when it was decided; ns as in [`super::Sighting::time`]. Both 0: nobody knows,
    /// it was before a restart.
    pub first_excess: u64,
    /// As above.
    pub decided: u64,
    /// For how long that first sample may have been kept by its agent before it came, ns: packets were too many by so much earlier at most.
    pub kept: u64,
    /// What shows it.
    pub evidence: Evidence,
    /// As narrow as the evidence permits, the narrowest last; the first is the bare destination.
    pub rules: Vec<Rule>,
    /// Why it may be no flood; empty: nothing speaks against it.
    pub doubts: Vec<Doubt>,
    /// Whether nobody tells it whose word counts: it is another attack than one that is told by others of the same target.
    #[serde(skip)]
    pub is_hearsay: bool,
    /// Other agents that tell it, too, and against whom nothing speaks.
    #[serde(skip)]
    pub seconds: Vec<IpAddr>,
}

/// What shows a flood.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// Which threshold it was held against: `group web, udp_flood, 40,000 packets/s (learnt, Mon 14:00)`.
    pub rule: String,
    /// What was not to be exceeded, in packets/s; `None`: bits/s count.
    pub threshold_packets: Option<f64>,
    /// As above, in bits/s.
    pub threshold_bits: Option<f64>,
    /// Packets a second now.
    pub packets: Rate,
    /// Bits a second now.
    pub bits: Rate,
    /// How sure: an attack is announced in error less often than once in e to this.
    pub log_evidence: f64,
    /// Samples that it rests on.
    pub samples: u64,
    /// Different sources among them.
    pub sources: usize,
    /// Hosts that are hit, in a prefix.
    pub hosts: usize,
    /// Where it was seen.
    pub points: Vec<Point>,
    /// Most frequent sources.
    pub top_sources: Vec<Share>,
    /// Most frequent ports of the source, `udp/53`.
    pub top_source_ports: Vec<Share>,
    /// Most frequent ports of the destination.
    pub top_destination_ports: Vec<Share>,
    /// TCP's flags, types of ICMP.
    pub top_flags: Vec<Share>,
    /// Countries, where known.
    pub top_countries: Vec<Share>,
    /// Autonomous systems, where known.
    pub top_asns: Vec<Share>,
    /// First bytes of some packets, hexadecimal.
    pub headers: Vec<String>,
}

impl Evidence {
    /// Whether the rate is above the threshold that it was held against.
    pub fn exceeds(&self) -> bool {
        let above = |threshold: Option<f64>, rate: Rate| threshold.is_some_and(|threshold| rate.value > threshold);
        above(self.threshold_packets, self.packets) || above(self.threshold_bits, self.bits)
    }
}

/// Why evidence is not believed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "doubt")]
pub enum Doubt {
    /// The agent is not on the list, or its datagrams come from another address.
    Stranger {
        /// Who.
        agent: IpAddr,
        /// From where.
        from: IpAddr,
    },
    /// Datagrams that say they are of this agent do not continue one another.
    Sequence {
        /// Who.
        agent: IpAddr,
        /// What was found, in a few words.
        what: String,
    },
    /// Samples say what the counters of the same interface do not.
    Counters {
        /// Where.
        point: Point,
        /// Packets a second by samples.
        samples: Rate,
        /// By counters.
        counters: Rate,
    },
    /// More than the interface can carry.
    Speed {
        /// Where.
        point: Point,
        /// Bits a second that samples tell.
        bits: f64,
        /// ifSpeed, bits a second.
        speed: f64,
    },
    /// No counters of that interface are known, or not for long enough, that could speak for it.
    Uncounted {
        /// Where.
        point: Point,
    },
    /// Another agent on the path does not see it.
    Alone {
        /// Who sees it.
        agent: IpAddr,
        /// Who should.
        other: IpAddr,
    },
}

/// What the detector tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It began, or is known better: evidence and rules are replaced.
    Flood(Box<Detection>),
    /// It is over, as of this time: below the threshold for as long as was asked.
    Over {
        /// Whose.
        target: Target,
        /// Which.
        class: Class,
        /// When its last sample above the threshold came.
        last: u64,
        /// As in [`Detection::is_hearsay`].
        is_hearsay: bool,
        /// It goes on as part of what attacks this prefix; `None`: it does not.
        widened: Option<IpNet>,
    },
    /// It is below its threshold now, and not over yet.
    Ebbing {
        /// Whose.
        target: Target,
        /// Which.
        class: Class,
        /// Packets a second now.
        packets: Rate,
        /// Bits a second now.
        bits: Rate,
        /// As in [`Detection::is_hearsay`].
        is_hearsay: bool,
    },
    /// Nobody tells of it any more, but those who did are in doubt since: nobody knows whether it is over.
    Unheard {
        /// Whose.
        target: Target,
        /// Which.
        class: Class,
    },
    /// An agent that is not believed yet, since it began again, tells of it: what is there already is not to end meanwhile.
    GoesOn {
        /// Whose.
        target: Target,
        /// Which.
        class: Class,
    },
    /// What an agent told of late is not to be believed: what was done on its word alone is undone, also where nobody tells of it any more.
    Discredited {
        /// What speaks against it: [`Doubt::Sequence`] against all that its agent told, [`Doubt::Counters`] against what it told of an interface.
        doubt: Doubt,
        /// Since when it may have been wrong, ns as in [`super::Sighting::time`].
        since: u64,
    },
    /// What an agent tells is inconsistent, whether or not it tells of a flood.
    Inconsistent {
        /// Who.
        agent: IpAddr,
        /// What was found, in a few words.
        what: String,
    },
}
