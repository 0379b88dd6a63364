//! What an account tells: the shape of `weir loss account --json`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::places::Place;

/// The account of some traffic. `null` is unknown, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Of this shape.
    pub version: u32,
    /// When the first readings were complete, RFC 3339.
    pub started: String,
    /// From then to the last readings, seconds.
    pub took_s: f64,
    /// Where the numbers come from.
    pub sources: Sources,
    /// The namespaces followed.
    pub namespaces: Vec<Namespace>,
    /// One a receiver and port.
    pub ledgers: Vec<Ledger>,
    /// What went wrong, and what to keep in mind.
    pub warnings: Vec<String>,
}

/// The version of the shape.
pub const VERSION: u32 = 1;

/// Where the numbers come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// What was traced: everything, queues, drops; `null`: nothing.
    pub trace: Option<String>,
    /// Why no more is traced; `null`: nothing was refused.
    pub trace_refused: Option<String>,
    /// The counters read.
    pub counters: Vec<String>,
}

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its inode number.
    pub inode: u32,
    /// Its name in /run/netns; `null`: none.
    pub name: Option<String>,
    /// The counters that changed, and by how much: `Udp.NoPorts`.
    pub counters: BTreeMap<String, u64>,
}

/// The account of the traffic to one receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// Destination port.
    pub port: u16,
    /// The receiving socket; `null`: there was none.
    pub receiver: Option<Receiver>,
    /// Datagrams that were tried to be sent, failed calls included.
    pub sent: Option<u64>,
    /// Datagrams that left the senders' namespaces for an interface's queue.
    pub departed: Option<u64>,
    /// Datagrams that came to the receiver's namespace.
    pub arrived: Option<u64>,
    /// Datagrams that its program read.
    pub received: Option<u64>,
    /// Datagrams of which it is not decided yet; `null`: some, nobody knows how many.
    pub pending: Option<u64>,
    /// Where they are.
    pub pending_where: Vec<Pending>,
    /// Where datagrams were lost, in the order in which they pass.
    pub places: Vec<Entry>,
    /// sent (else arrived) - received - places - pending; `null`: one of them is unknown.
    pub unexplained: Option<i64>,
    /// What cannot be known from here.
    pub unknown: Vec<String>,
    /// Why it was lost, in sentences.
    pub explanation: Vec<String>,
    /// The receive queue; `null`: not traced, or no receiver.
    pub level: Option<Level>,
    /// What helps against a receive buffer that was full; `null`: it was not, or that is not traced.
    #[serde(default)]
    pub advice: Option<Advice>,
    /// Who sent, as far as it was seen.
    pub senders: Vec<Sender>,
    /// What was lost of whom; `null`: not asked for, or not traced.
    #[serde(default)]
    pub by_source: Option<BySource>,
}

impl Ledger {
    /// Its numbers: what changes while an account is not settled yet.
    pub(super) fn counts(&self) -> ([Option<u64>; 4], Option<i64>, u64) {
        let lost = self.places.iter().map(|entry| entry.datagrams).sum();
        ([self.sent, self.arrived, self.received, self.pending], self.unexplained, lost)
    }
}

/// A receiving socket, or several that share what comes (SO_REUSEPORT, a restarted program).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Receiver {
    /// What it is bound to.
    pub address: Option<SocketAddr>,
    /// Its cookie; `null`: the kernel did not tell.
    pub cookie: Option<u64>,
    /// Its namespace.
    pub namespace: u32,
    /// The process that holds it; `null`: not visible.
    pub pid: Option<u32>,
    /// That process's name.
    pub process: Option<String>,
    /// Whether that is the command that was followed, and the socket its own or of one of its children: nobody was seen to
    /// hold it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_descent: bool,
    /// The multicast group followed.
    pub group: Option<IpAddr>,
    /// Cookies of other sockets that took part of the same datagrams; they are in this ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<u64>,
}

/// A sending socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sender {
    /// Its cookie.
    pub cookie: u64,
    /// Its namespace.
    pub namespace: u32,
    /// The process that holds it; `null`: not visible.
    pub pid: Option<u32>,
    /// That process's name.
    pub process: Option<String>,
    /// Whether that is the command that was followed, and the socket its own or of one of its children: nobody was seen to
    /// hold it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_descent: bool,
    /// Datagrams it tried to send, failed calls included.
    pub sent: u64,
}

/// Losses by the address that sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BySource {
    /// How many sources were seen; `null`: arrivals are not traced.
    pub sources: Option<u64>,
    /// Those that lost anything, the most first; 1,000 at most.
    pub lost: Vec<SourceLoss>,
    /// How many more of those there are.
    pub unlisted: u64,
    /// Datagrams lost in this ledger of which the source is not known: no tracepoint told of them, or their counts gave way.
    pub unknown: u64,
    /// Counts that gave way to those of other sources; unless 0, what is here is a lower bound.
    pub evicted: u64,
}

/// What one source lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceLoss {
    /// Its address, or its network: `10.0.0.0/24`.
    pub source: String,
    /// Datagrams that were seen of it, lost ones included; `null`: arrivals are not traced, or others receive them, too.
    pub seen: Option<u64>,
    /// Of these, lost in this ledger.
    pub lost: u64,
    /// Where, the most first.
    pub places: Vec<LostAt>,
}

/// Datagrams lost at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostAt {
    /// The place.
    pub place: Place,
    /// How many.
    pub datagrams: u64,
}

/// Datagrams that are somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Where, in words.
    #[serde(rename = "where")]
    pub place: String,
    /// How many.
    pub datagrams: u64,
}

/// Datagrams lost at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The place.
    pub place: Place,
    /// How many.
    pub datagrams: u64,
    /// In which namespace, or most of them; `null`: unknown, or on the way.
    pub namespace: Option<u32>,
    /// What counted them: `trace`, `send calls`, `socket drops`, a counter's name, `session`.
    pub source: String,
    /// The kernel's drop reason, or the error's name, of most of them.
    pub reason: Option<String>,
    /// The kernel function that dropped most of them.
    pub function: Option<String>,
    /// What else counted them.
    pub also: Vec<Count>,
    /// Which source is believed, and why; only where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub believed: Option<String>,
    /// What to change.
    pub remedy: String,
    /// The drops it is made of, where there are several reasons, functions or namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// What a counter counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Its name.
    pub source: String,
    /// How much.
    pub count: u64,
}

/// A part of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// How many.
    pub datagrams: u64,
    /// The kernel's drop reason, or the error's name.
    pub reason: String,
    /// The function that dropped them.
    pub function: String,
    /// In which namespace.
    pub namespace: u32,
}

/// The receive queue of a socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// What it can hold, bytes of truesize.
    pub receive_buffer: u32,
    /// The most that was in it.
    pub max: u32,
    /// The longest time in which datagrams waited and nobody read, ms.
    pub longest_stall_ms: f64,
    /// How long its reader was ready to run and had no CPU, ms; `null`: /proc does not tell.
    pub reader_waited_ms: Option<f64>,
}
