//! What a tee is to do, validated: made by `config` from a file or by flags, carried out by everything else.
//!
//! Names are unique within their kind, references are indices, and every value is within its bounds.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_dgram::Steering;
use weir_program::config::Address;
use weir_program::{keys, values};
use weir_units::{BitRate, Frequency, Size, Span};

pub use weir_program::Target;

/// Everything one `weir tee` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Threads that move datagrams, at least 1. Cannot be changed by a reload.
    pub workers: usize,
    /// How long a worker waits before it receives again when little came; zero (the default): not at all.
    pub gather: Duration,
    /// How long a stop may take to send what was received.
    pub drain: Duration,
    /// Which worker gets a datagram, by what it says; `None` (a tee): the kernel's choice by addresses and ports, and
    /// datagrams of one sender in joined runs.
    pub steering: Option<Steering>,
    /// Where datagrams come in; at least one.
    pub listeners: Vec<Listener>,
    /// Where they go.
    pub destinations: Vec<Destination>,
    /// Destinations under one name.
    pub groups: Vec<Group>,
    /// Which go where, in the order of the file.
    pub rules: Vec<Rule>,
    /// Which of several matching rules count.
    pub matching: Matching,
    /// What is done about what is sent and comes back.
    pub on_loop: OnLoop,
}

/// Where datagrams come in.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Its name; without one in the file, its address.
    pub name: String,
    /// The address to bind.
    pub address: SocketAddr,
    /// The interface to listen on alone (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// Multicast groups to join.
    pub groups: Vec<Membership>,
    /// Receive buffer to ask for, bytes; `None`: the kernel's default.
    pub receive_buffer: Option<usize>,
}

/// A multicast group to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: IpAddr,
    /// Source-specific multicast: the one source to receive from.
    pub source: Option<IpAddr>,
    /// The interface to join on; `None`: the kernel chooses by its routes.
    pub interface: Option<String>,
}

keys! {
    /// Where datagrams go.
    pub struct Destination {
        /// What rules, groups and metrics call it. Without it: `to`.
        name: String = "";
        /// Address or host name, and port.
        to: Target;
        /// Of a host name: `first`, or `all`, each of which gets a copy (a Kubernetes headless service: every pod), 32 at most; a
        /// number: all, but no more than that.
        addresses: Addresses = "first";
        /// What it sees as the source: `own`, `kept` or `proxy`.
        source: Source = "own";
        /// Local address and port to send from; port 0: the kernel's choice.
        from: Option<Address>;
        /// Send through this interface. Without it: as routed.
        interface: Option<String>;
        /// TTL or hop limit, for multicast too. Without it: the kernel's.
        ttl: Option<u8>, 1 to 255;
        /// Each datagram leaves with one hop less than it came with, `ttl` at most, and not at all when it came with the last one.
        hop_guard: bool;
        /// Differentiated services code point.
        dscp: Option<u8>, 0 to 63;
        /// With `source = "kept"`: bytes of the longest packet; longer ones are cut into fragments. Without it: the route's MTU, over
        /// IPv6 1280.
        mtu: Option<u16>, 1280 to 65535;
        /// Multicast: whether this machine receives it, too. Without it: the kernel's, yes.
        loopback: Option<bool>;
        /// Send buffer to ask for; 0: the kernel's.
        send_buffer: Size = "0";
        /// Bytes that may wait, in each worker, while the socket takes nothing.
        queue: Size = "4MiB", "64KiB" to;
        /// Most datagrams per second, e.g. `10k/s`, over all workers; of what was not used, that of 100 ms is left for a burst.
        rate: Option<Frequency>;
        /// Most payload bits per second, e.g. `100mbit`, likewise.
        bandwidth: Option<BitRate>;
        /// Send one of so many, chosen at random.
        sample: u32 = 1, 1 to;
        /// Send the first of each so many, exactly, whichever worker takes them; not together with `sample`.
        every: u32 = 1, 1 to;
        /// Its answers go back to the clients that they are for.
        replies: bool;
        /// With `replies`: clients at a time, shared out among the workers, each of which has one at least. Each takes a socket.
        sessions: u32 = 1024, 1 to 60000;
        /// With `replies`: how long client and destination may both be silent.
        session_timeout: Span = "60s", "100ms" to "24h";
        /// How to find out whether it lives, besides ICMP and send errors.
        probe: Option<Probe>;
    }
}

impl Destination {
    /// The local address and port to send from.
    pub fn local(&self) -> Option<SocketAddr> {
        self.from.map(|Address(from)| from)
    }

    /// How its answers find their way back; `None`: nobody hears them.
    pub fn answers(&self) -> Option<Replies> {
        let replies = || Replies { sessions: self.sessions as usize, timeout: self.session_timeout.duration() };
        self.replies.then(replies)
    }

    /// Bytes that may wait in each worker.
    pub fn queue_bytes(&self) -> usize {
        usize::try_from(self.queue.bytes).unwrap_or(usize::MAX)
    }
}

/// Bytes of a buffer; `None`: the kernel's default.
pub fn buffer(size: Size) -> Option<usize> {
    (size.bytes > 0).then(|| usize::try_from(size.bytes).unwrap_or(usize::MAX))
}

/// How a destination's answers find their way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replies {
    /// Clients that it may have at a time, over all workers; each takes a socket.
    pub sessions: usize,
    /// How long a client and the destination may both be silent before their session is closed.
    pub timeout: Duration,
}

/// Which addresses of a host name get a copy: `"first"`, `"all"` or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// The first that the resolver gives.
    First,
    /// Each, as far as that is hardly a mistake.
    All,
    /// Each, but no more than so many.
    Most(u32),
}

impl Addresses {
    /// How many are used.
    pub fn most(self) -> usize {
        match self {
            Self::First => 1,
            // An answer of thousands is somebody's mistake, or malice.
            Self::All => 32,
            Self::Most(most) => most as usize,
        }
    }
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::First => serializer.serialize_str("first"),
            Self::All => serializer.serialize_str("all"),
            Self::Most(most) => serializer.serialize_u32(*most),
        }
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrNumber;

        impl Visitor<'_> for WordOrNumber {
            type Value = Addresses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"first\", \"all\" or the most addresses to send to, 1 to 4096")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Addresses, E> {
                match text {
                    "first" => Ok(Addresses::First),
                    "all" => Ok(Addresses::All),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Addresses, E> {
                let most = u32::try_from(number).ok().filter(|most| (1..=4096).contains(most));
                most.map(Addresses::Most).ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
            }
        }

        deserializer.deserialize_any(WordOrNumber)
    }
}

values! {
    Addresses = "`first`, `all` or number", Source = "source", Policy = "policy", Matching = "`first` or `all`",
    OnLoop = "`off`, `warn` or `stop`",
}

/// What a destination sees as the source of a datagram: the kinds of destinations. What they are to everybody else is
/// decided here; what precedes a payload, in `worker/headers.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// This machine.
    #[default]
    Own,
    /// The original source address and port (needs CAP_NET_RAW).
    #[serde(rename = "kept")]
    Preserved,
    /// This machine; the original source precedes each payload as a PROXY protocol v2 header.
    Proxy,
}

impl Source {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Own, Self::Preserved, Self::Proxy];

    /// Its name in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Preserved => "kept",
            Self::Proxy => "proxy",
        }
    }

    /// Whether packets leave with the sender's own address: finished ones, from raw sockets (CAP_NET_RAW).
    pub fn is_preserved(self) -> bool {
        match self {
            Self::Preserved => true,
            Self::Own | Self::Proxy => false,
        }
    }

    /// Whether a header precedes each payload, for which the local address of each datagram must be known.
    pub fn is_headed(self) -> bool {
        match self {
            Self::Proxy => true,
            Self::Own | Self::Preserved => false,
        }
    }
}

keys! {
    /// How a destination's life is probed. Two tries in a row that fail make it dead.
    pub struct Probe {
        /// Connect to this TCP port.
        tcp: Option<u16>, 1 to 65535;
        /// ICMP echo.
        ping: bool;
        /// From one try to the next.
        interval: Span = "2s", "10ms" to;
        /// When a try has failed. Without it: 1s, or half the interval.
        timeout: Option<Span>;
    }
}

impl Probe {
    /// When a try has failed.
    pub fn timeout(&self) -> Span {
        // Half of a short interval is enough to tell one try from the next.
        self.timeout.unwrap_or_else(|| Span::from_secs(1).min(Span::from_nanos(self.interval.nanos / 2)))
    }
}

/// Destinations under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name, unlike any destination's.
    pub name: String,
    /// How datagrams are shared out.
    pub policy: Policy,
    /// Indices into [`Settings::destinations`], at least one.
    pub members: Vec<usize>,
}

/// How a group shares out datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Each to every member.
    Replicate,
    /// Each source to one living member, the same as long as that lives (consistent hash of the source address).
    Hash,
    /// Each datagram to the next living member.
    RoundRobin,
    /// All to the first living member.
    Failover,
}

/// Which datagrams go where. What matches no rule is counted as `unmatched`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, by which its sources are counted; without one in the file, `rule 1` and so on.
    pub name: String,
    /// Sources it takes; empty: any.
    pub sources: Vec<IpNet>,
    /// Indices of the listeners it takes from; empty: any.
    pub listeners: Vec<usize>,
    /// Where its datagrams go. Empty: they are dropped, and counted as `discarded`.
    pub to: Vec<Recipient>,
}

/// Where a rule leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipient {
    /// Index into [`Settings::destinations`].
    Destination(usize),
    /// Index into [`Settings::groups`].
    Group(usize),
}

/// Which of several matching rules count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Matching {
    /// The first alone.
    #[default]
    First,
    /// All. A destination still gets each datagram once.
    All,
}

/// What is done about what is sent and comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLoop {
    /// Nothing.
    Off,
    /// It is said where a destination's address sends to a listener that leads there.
    #[default]
    Warn,
    /// What comes from a destination's address is not sent to that destination.
    Stop,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn files_flags_and_the_manual_have_the_same_names() {
        let manual = include_str!("../../../docs/tee-source.md");
        for source in Source::ALL {
            assert_eq!(serde_json::to_value(source).unwrap(), source.name());
            assert!(manual.contains(&format!("\n- `{}`: ", source.name())), "{}", source.name());
        }
    }

    /// A new kind of destination is a variant here, and a header perhaps. Whoever asks for a certain one anywhere else
    /// makes the next one dearer.
    #[test]
    fn kinds_of_destinations_are_told_apart_in_one_other_file() {
        fn visit(path: &Path, found: &mut BTreeSet<String>) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                fs::read_dir(path).unwrap().for_each(|entry| visit(&entry.unwrap().path(), found));
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(path).unwrap();
                let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                // A variant, and neither a constant nor a method.
                let is_kind = |rest: &str| {
                    rest.starts_with(char::is_uppercase) && rest.chars().nth(1).is_some_and(char::is_lowercase)
                };
                if program.split("Source::").skip(1).any(is_kind) {
                    found.insert(name);
                }
            }
        }
        let mut found = BTreeSet::new();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        visit(&here.join("src"), &mut found);
        visit(&here.join("../../weir/src/tee.rs"), &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["batch.rs"]);
    }
}
