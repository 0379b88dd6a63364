//! What a tee is to do, validated: made by `config` from a file or by flags, carried out by everything else.
//!
//! Names are unique within their kind, references are indices, and every value is within its bounds.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_dgram::Steering;
use weir_units::{BitRate, Frequency};

pub use weir_service::Target;

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

/// Where datagrams go.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Its name; without one in the file, its address as written.
    pub name: String,
    /// An address, or a host name to resolve.
    pub to: Target,
    /// Addresses of a name to use: the first, or each of them (every address gets a copy).
    pub all_addresses: bool,
    /// Most addresses of a name that are used.
    pub most_addresses: usize,
    /// What the destination sees as the source.
    pub source: Source,
    /// The local address and port to send from; port 0: the kernel's choice.
    pub from: Option<SocketAddr>,
    /// The interface to send through (SO_BINDTODEVICE; for multicast, IP_MULTICAST_IF too).
    pub interface: Option<String>,
    /// TTL or hop limit; for multicast the multicast TTL. `None`: the kernel's default.
    pub ttl: Option<u8>,
    /// Whether each datagram leaves with one hop less than it came with, and not at all where none is left; `ttl` is then
    /// the most.
    pub hop_guard: bool,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
    /// Bytes of the longest packet with a kept source; `None`: the route's MTU, over IPv6 what every link carries.
    pub mtu: Option<u16>,
    /// Multicast: whether listeners on this machine hear it.
    pub loopback: Option<bool>,
    /// Send buffer to ask for, bytes; `None`: the kernel's default.
    pub send_buffer: Option<usize>,
    /// Bytes that may wait for this destination in each worker while its socket takes none.
    pub queue: usize,
    /// Most datagrams a second.
    pub rate: Option<Frequency>,
    /// Most payload bits a second.
    pub bandwidth: Option<BitRate>,
    /// Sends one of so many, chosen at random; 1: each.
    pub sample: NonZeroU32,
    /// Sends the first of each so many, in the order in which workers take them; 1: each.
    pub every: NonZeroU32,
    /// How to find out whether it lives, besides ICMP and send errors.
    pub probe: Option<Probe>,
    /// Whether its answers go back to whom they are for; `None`: nobody hears them.
    pub replies: Option<Replies>,
}

/// How a destination's answers find their way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replies {
    /// Clients that it may have at a time, over all workers; each takes a socket.
    pub sessions: usize,
    /// How long a client and the destination may both be silent before their session is closed.
    pub timeout: Duration,
}

/// Addresses of a name that `addresses = "all"` means. An answer of thousands is somebody's mistake, or malice.
pub const MOST_ADDRESSES: usize = 32;

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

/// How a destination's life is probed.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// What is tried.
    pub kind: ProbeKind,
    /// From one try to the next.
    pub interval: Duration,
    /// When a try has failed.
    pub timeout: Duration,
}

/// What a probe tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A TCP connection to this port of the destination.
    Tcp(u16),
    /// An ICMP echo.
    Ping,
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
        let manual = include_str!("../../../docs/tee.md");
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
