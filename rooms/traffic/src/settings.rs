//! Settings of a sender and a receiver.

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::ArgPredicate;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_dgram::Membership;
use weir_program::clock;
use weir_units::BitRate;
use weir_wire::probe;

use crate::{TrafficError, flags, quic};

/// Transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One datagram per message.
    #[default]
    Udp,
    /// One connection; messages are framed by length.
    Tcp,
    /// One QUIC connection with one stream; messages are framed as over TCP.
    Quic,
    /// One QUIC connection; one QUIC datagram (RFC 9221) per message.
    QuicDatagram,
}

impl Transport {
    /// Whether a connection is made before messages flow.
    pub fn connects(self) -> bool {
        self != Self::Udp
    }
}

/// When the next message is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// Wait one interval after each send, like a script that sends and sleeps.
    #[default]
    Sleep,
    /// Send at fixed times; a late message leaves at once and keeps its due time.
    Schedule,
}

/// What a [`Sender`](super::Sender) does; most of it is a flag of `weir send`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct SenderSettings {
    /// Address or host name, and port, of the receiver, e.g. 192.0.2.7:5000.
    #[arg(long, value_name = "ADDR:PORT", value_parser = flags::endpoint)]
    pub to: SocketAddr,
    /// Transport protocol.
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Transport,
    /// Message size with its header: min 16B, over TCP and QUIC streams 40B.
    #[arg(long = "payload", value_name = "SIZE", value_parser = flags::bytes, default_value = "1000B")]
    pub payload_bytes: usize,
    /// Time between messages.
    #[arg(long, value_name = "SPAN", value_parser = flags::span, default_value = "10ms")]
    pub interval: Duration,
    /// When the next message is due.
    #[arg(skip)]
    pub pacing: Pacing,
    /// UDP by schedule: send due messages in one batch per SPAN; 0: one by one.
    #[arg(long, value_name = "SPAN", value_parser = flags::span, default_value = "0s")]
    pub quantum: Duration,
    /// UDP: max messages per call (sendmmsg), each its own datagram, never joined (UDP_SEGMENT). They leave when due, or
    /// call after call if `interval` is zero. Messages left over when the window ends are not sent. `None`: as `quantum`
    /// says.
    #[arg(skip)]
    pub batch: Option<NonZeroUsize>,
    /// Time to send, not 0 [default: 60s, with --count: no limit].
    #[arg(long, value_name = "SPAN", value_parser = flags::duration, default_value = "60s", hide_default_value = true)]
    #[arg(default_value_if("count", ArgPredicate::IsPresent, "36500d"))]
    pub duration: Duration,
    /// Number of messages that each sender sends.
    #[arg(long, short = 'n', value_name = "MESSAGES", value_parser = flags::one_or_more::<NonZeroU64>)]
    pub count: Option<NonZeroU64>,
    /// UDP by [`Pacing::Schedule`]: time after the window in which messages that were due in it are still sent.
    #[arg(skip)]
    pub overtime: Duration,
    /// Session number, which identifies the sender [default: random].
    #[arg(long, default_value_t = random_session(), hide_default_value = true)]
    pub session: u16,
    /// Local address and port, e.g. 0.0.0.0:4000 to set only the port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = flags::endpoint)]
    pub from: Option<SocketAddr>,
    /// UDP, TCP: DSCP of the packets, a number or a name, e.g. 46 or ef.
    #[arg(long, value_name = "POINT", value_parser = flags::code_point)]
    pub dscp: Option<u8>,
    /// TTL or hop limit of the packets [default: the host's; multicast: 1].
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    pub ttl: Option<u8>,
    /// Interface to send through, e.g. for a multicast group [default: by route].
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// TCP, QUIC: congestion control, e.g. bbr [default: the host's; QUIC: cubic].
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// TCP: send small segments at once (disable Nagle's algorithm).
    #[arg(long)]
    pub nodelay: bool,
    /// Max time to connect; with --reverse or --bidir also to get the answer.
    #[arg(long, value_name = "SPAN", value_parser = flags::span, default_value = "10s")]
    pub connect_timeout: Duration,
    /// TCP, QUIC: max time to wait for delivery after the last message.
    #[arg(long, value_name = "SPAN", value_parser = flags::span, default_value = "10s")]
    pub drain: Duration,
    /// Send buffer to request (SO_SNDBUF) [default: the kernel's; QUIC: 4 MiB].
    #[arg(long, value_name = "SIZE", value_parser = flags::buffer)]
    pub send_buffer: Option<usize>,
    /// Whether to announce the number of messages after the last one, for a receiver in another process.
    #[arg(skip)]
    pub announce: bool,
    /// UDP, not in batches: whether to count all ICMP errors, including unreachable hosts, which the kernel reports only with
    /// IP_RECVERR.
    #[arg(skip)]
    pub reports: bool,
    /// Max messages whose due and send times are kept (16 bytes each).
    #[arg(skip)]
    pub keep_departures: usize,
}

impl SenderSettings {
    /// Max messages whose times an end should keep: 64 MiB, at a receiver 128 MiB.
    pub const MOST_DEPARTURES: usize = 1 << 22;

    /// The defaults: 1000 bytes every 10 ms over UDP for 60 s.
    pub fn new(to: SocketAddr) -> Self {
        flags::defaults(["--to", &to.to_string()])
    }

    /// Whether messages leave in batches.
    pub(super) fn in_batches(&self) -> bool {
        let scheduled = self.pacing == Pacing::Schedule && self.quantum > Duration::ZERO;
        let spaced = scheduled && self.interval > Duration::ZERO;
        self.transport == Transport::Udp && (self.batch.is_some() || spaced)
    }

    /// Whether the kernel may get several messages in one buffer to split (UDP_SEGMENT).
    pub(super) fn in_runs(&self) -> bool {
        self.in_batches() && self.batch.is_none()
    }

    /// Whether ICMP errors are read.
    pub(super) fn reads_reports(&self) -> bool {
        self.reports && self.transport == Transport::Udp && !self.in_batches()
    }

    /// Refuses settings that no socket can have.
    pub fn validate(&self) -> Result<(), TrafficError> {
        let (shortest, longest) = match (self.transport, self.to) {
            // A message on a stream says its own length.
            (Transport::Tcp | Transport::Quic, _) => (probe::EXTENDED_LEN, u32::MAX as usize),
            (Transport::QuicDatagram, to) => (probe::BASE_LEN, quic::longest_datagram(to)),
            (Transport::Udp, SocketAddr::V4(_)) => (probe::BASE_LEN, 65_507),
            (Transport::Udp, SocketAddr::V6(_)) => (probe::BASE_LEN, 65_527),
        };
        if !(shortest..=longest).contains(&self.payload_bytes) {
            let (bytes, transport) = (self.payload_bytes, self.transport);
            return Err(TrafficError::Refused(format!(
                "payload of {bytes}B: a message over {transport} has {shortest}B to {longest}B"
            )));
        }
        if let Some(from) = self.from
            && from.is_ipv4() != self.to.is_ipv4()
        {
            let to = self.to;
            return Err(TrafficError::Refused(format!("send from {from} to {to}: one is IPv4, the other IPv6")));
        }
        Ok(())
    }
}

/// What a [`Receiver`](super::Receiver) does; some of it is a flag of `weir recv`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct ReceiverSettings {
    /// Address and port to listen on; port 0: the kernel chooses.
    #[arg(long, value_name = "ADDR:PORT", value_parser = flags::endpoint)]
    pub listen: SocketAddr,
    /// Transport protocol.
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Transport,
    /// Count only this session.
    #[arg(long)]
    pub session: Option<u16>,
    /// Count only senders in this network or at this address. Repeatable.
    #[arg(long, value_name = "NETWORK", value_parser = flags::network)]
    pub from: Vec<IpNet>,
    /// Max sessions tracked at once; beyond it the longest silent one is evicted.
    // They take at most 200 MB.
    #[arg(long, value_name = "SESSIONS", value_parser = flags::one_or_more::<NonZeroUsize>, default_value = "10000")]
    pub sessions: NonZeroUsize,
    /// UDP: multicast groups to join. Other receivers on the machine may then listen on the same address.
    #[arg(skip)]
    pub groups: Vec<Membership>,
    /// Receive buffer to request (SO_RCVBUF) [default: the kernel's; QUIC: 4 MiB].
    #[arg(long, value_name = "SIZE", value_parser = flags::buffer)]
    pub receive_buffer: Option<usize>,
    /// UDP: max bytes of a datagram; longer ones are foreign. There are 64 buffers of this size.
    #[arg(skip = 65_536_usize)]
    pub longest: usize,
    /// UDP: how a reader repeatedly stops reading, as if another program kept it from running. `None`: it does not.
    #[arg(skip)]
    pub stall: Option<Stall>,
    /// Max messages of all sessions whose times are kept one by one (32 bytes each).
    #[arg(skip)]
    pub keep_flights: usize,
    /// When to end, besides the [`Exchange`](super::Exchange) and the stop.
    #[command(flatten)]
    pub until: Until,
    /// Limits for sending to clients that ask for messages. `None`: it never sends.
    #[arg(skip)]
    pub reverse: Option<ReverseSettings>,
}

/// Limits for sending to clients that ask for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
#[group(skip)]
pub struct ReverseSettings {
    /// Max rate of IP packets to all reverse clients together.
    #[arg(long = "reverse-rate", value_name = "RATE", default_value = "100mbit", requires = "allow_reverse")]
    pub rate: BitRate,
    /// Longest time to send to one client.
    #[arg(long = "reverse-duration", value_name = "SPAN", default_value = "1h", requires = "allow_reverse")]
    #[arg(id = "reverse-duration", value_parser = flags::duration)]
    pub duration: Duration,
    /// Max clients to send to at once.
    #[arg(long = "reverse-flows", value_name = "SENDERS", default_value = "16", requires = "allow_reverse")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub flows: u16,
}

impl ReceiverSettings {
    /// Whether it accepts messages from this peer.
    pub(super) fn admits(&self, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        self.from.is_empty() || self.from.iter().any(|network| network.contains(&address))
    }

    /// The defaults: UDP, every session, until stopped.
    pub fn new(listen: SocketAddr) -> Self {
        flags::defaults(["--listen", &listen.to_string()])
    }
}

/// How a reader stops reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// From the start of one stall to the start of the next; also from the call of [`Receiver::run`] to the first stall.
    ///
    /// [`Receiver::run`]: super::Receiver::run
    pub every: Duration,
    /// How long it does not read.
    pub length: Duration,
}

/// Events that end a receiver; the first one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[group(skip)]
pub struct Until {
    /// Stop after this time, not 0; with --idle-timeout 0 not before [default: never].
    #[arg(long, value_name = "SPAN", value_parser = flags::duration)]
    pub duration: Option<Duration>,
    /// Stop after this long without messages; 0: never [default: 10s; TCP, QUIC: 2m].
    #[arg(long = "idle-timeout", value_name = "SPAN", value_parser = flags::span)]
    pub idle: Option<Duration>,
    /// Whether the idle time counts from the start, before the first message.
    #[arg(skip)]
    pub idle_from_start: bool,
    /// Whether it ends 1 s after the last message, once all known sessions have announced their end or closed.
    #[arg(skip)]
    pub announced: bool,
    /// Wait until at least this many senders have finished.
    #[arg(long, value_name = "SENDERS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub senders: u64,
    /// Time to wait for late duplicates once every message has arrived.
    #[arg(skip)]
    pub settle: Duration,
    /// Time that a stop waits for messages in flight, or else for the senders' announcements.
    #[arg(skip)]
    pub under_way: Duration,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// A number that hardly any other sender has.
fn random_session() -> u16 {
    (clock::now() >> 10) as u16 ^ std::process::id() as u16
}
