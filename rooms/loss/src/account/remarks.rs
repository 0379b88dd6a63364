//! What an account says beside its numbers. The words are in [`crate::statement`]; in JSON they are all there is.

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::places::Place;

/// What cannot be known from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Unknown {
    /// What was sent to a receiver that did not get all that went to its port.
    SentToIt(Partial),
    /// What was sent: not everything was traced, and no session told.
    Sent,
    /// What was sent: nobody was seen sending on this host.
    BeforeThisHost,
    /// What was sent: so many more came than were seen to be sent.
    AnotherSender(u64),
    /// The port of so many failed calls of sockets that are not connected, their error, and where it is met.
    FailedCalls(u64, String, Place),
    /// What the program read: not traced, and it told nothing.
    Read,
    /// How many it read, of joined ones.
    ReadJoined,
    /// How many datagrams so many bytes of its queue are.
    Queue(u64),
    /// How many wait in its queue, of joined ones.
    QueueJoined,
    /// How many datagrams its drops were, which count buffers.
    DropsJoined,
    /// Why the socket dropped so many: what the namespace counted.
    WhyDropped(u64, Vec<(Place, u64)>),
    /// What a socket dropped and left that was closed.
    Closed,
    /// How much of what a counter tells is of this traffic.
    ShareOf {
        /// The counter.
        counter: String,
        /// What it counted.
        packets: u64,
        /// The place it means.
        place: Place,
    },
    /// Losses that leave no counter.
    WithoutCounter,
    /// What became of so many that left the namespaces followed.
    Elsewhere(u64),
    /// Which went to the group.
    Group,
    /// What so many events were that the trace missed.
    Missed(u64),
    /// What was lost between two hosts.
    Network,
    /// What an account told that was read.
    Told(String),
}

/// Why what was sent to a port is not what was sent to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// Sockets that nobody follows receive there, too.
    OtherSockets,
    /// It was not there all the time.
    CameOrWent,
}

/// Why it was lost, or where it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Explanation {
    /// So many sent ones were not of the session.
    SentBeside(u64),
    /// The session sent more than was traced.
    SentUntraced {
        /// By the session.
        session: u64,
        /// Of these.
        traced: u64,
    },
    /// So many read ones were not of the session.
    ReadBeside(u64),
    /// The program counted otherwise than the trace.
    ReadUntraced {
        /// By the program.
        session: u64,
        /// By the trace.
        traced: u64,
    },
    /// So many vanished between departure and arrival.
    VanishedBefore(u64),
    /// So many vanished behind arrival.
    VanishedBehind(u64),
    /// So many were taken by the kernel itself.
    TakenByKernel(u64),
    /// So many more were read than came to the port.
    ReadMore(u64),
    /// So many more were read than came: copies for several sockets.
    Copied(u64),
    /// So many bytes did not fit the program's buffer.
    CutOff(u64),
    /// So many more were dropped before the ledger begins.
    Upstream(u64, Place),
    /// More came than left.
    MoreCame(u64),
    /// Its reader did not read, ns.
    Stalled {
        /// At the longest.
        longest: u64,
        /// In all.
        total: u64,
    },
    /// Its reader was ready and did not run for so long, ns.
    Waited(u64),
    /// What helps.
    Advice(Advice),
    /// Percent of the time that one processor received.
    OneProcessor(f64),
    /// What an account told that was read.
    Told(String),
}

/// Which source is believed, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Belief {
    /// A share of what is missing, at most what a counter tells of all ports.
    AtMost {
        /// The counter.
        counter: String,
        /// What it counted.
        packets: u64,
    },
    /// The socket's own counter.
    OwnSocket,
    /// The trace: the counter counts buffers, and those of others.
    Trace,
    /// What an account told that was read.
    Told(String),
}

impl From<Unknown> for String {
    fn from(unknown: Unknown) -> String {
        unknown.to_string()
    }
}

impl From<Explanation> for String {
    fn from(explanation: Explanation) -> String {
        explanation.to_string()
    }
}

impl From<Belief> for String {
    fn from(belief: Belief) -> String {
        belief.to_string()
    }
}

/// Those that another host may answer are found again.
impl From<String> for Unknown {
    fn from(words: String) -> Unknown {
        let number = words.split(' ').find_map(|word| word.parse().ok()).unwrap_or(0);
        let known = [Unknown::BeforeThisHost, Unknown::Elsewhere(number)];
        known.into_iter().find(|known| known.to_string() == words).unwrap_or(Unknown::Told(words))
    }
}

impl From<String> for Explanation {
    fn from(words: String) -> Explanation {
        Explanation::Told(words)
    }
}

impl From<String> for Belief {
    fn from(words: String) -> Belief {
        Belief::Told(words)
    }
}
