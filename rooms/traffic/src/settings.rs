//! What a sender and a receiver are told to do.

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

/// What carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One datagram a message.
    #[default]
    Udp,
    /// One connection; messages are framed by their length.
    Tcp,
    /// One QUIC connection with one stream; messages are framed as over TCP.
    Quic,
    /// One QUIC connection; one QUIC datagram (RFC 9221) a message.
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
    /// The interval after the previous one was sent, as a script does that sends and sleeps.
    #[default]
    Sleep,
    /// At start + n x interval, whatever happened before; a late message is sent at once and keeps its intended time.
    Schedule,
}

/// What a [`Sender`](super::Sender) does; most of it is a flag of `weir send`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct SenderSettings {
    /// Where the receiver listens, e.g. 192.0.2.7:5000 or host.example:5000.
    #[arg(long, value_name = "ADDR:PORT", value_parser = flags::endpoint)]
    pub to: SocketAddr,
    /// What carries the messages.
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Transport,
    /// Bytes of a message, its header included: at least 16B, over TCP and QUIC streams 40B.
    #[arg(long = "payload", value_name = "SIZE", value_parser = flags::bytes, default_value = "1000B")]
    pub payload_bytes: usize,
    /// Time between messages.
    #[arg(long, value_name = "SPAN", value_parser = flags::span, default_value = "10ms")]
    pub interval: Duration,
    /// When the next message is due.
    #[arg(skip)]
    pub pacing: Pacing,
    /// UDP, by schedule: wake up once in this time and send in one batch what has become due, each message late by up to
    /// this time, for rates that a call a message cannot reach; 0: each message alone.
    #[arg(long, value_name = "SPAN", value_parser = flags::span, default_value = "0s")]
    pub quantum: Duration,
    /// UDP: most messages in one call (sendmmsg), each a datagram of its own, never joined (UDP_SEGMENT). They leave as
    /// they are due, or, with an `interval` of zero, one call behind the other; what has not left by the end of the
    /// window never does. `None`: as `quantum` says.
    #[arg(skip)]
    pub batch: Option<NonZeroUsize>,
    /// How long to send (not 0) [default: 60s, with --count: until that].
    #[arg(long, value_name = "SPAN", value_parser = flags::duration, default_value = "60s", hide_default_value = true)]
    #[arg(default_value_if("count", ArgPredicate::IsPresent, "36500d"))]
    pub duration: Duration,
    /// How many messages to send, each of the senders.
    #[arg(long, short = 'n', value_name = "MESSAGES", value_parser = flags::one_or_more::<NonZeroU64>)]
    pub count: Option<NonZeroU64>,
    /// UDP by [`Pacing::Schedule`]: how long behind the window messages are sent that were due in it. What has not left by
    /// then never does.
    #[arg(skip)]
    pub overtime: Duration,
    /// Number that tells these messages from another sender's [default: a random one].
    #[arg(long, default_value_t = random_session(), hide_default_value = true)]
    pub session: u16,
    /// Address and port to send from, e.g. 0.0.0.0:4000 to fix the port alone.
    #[arg(long, value_name = "ADDR:PORT", value_parser = flags::endpoint)]
    pub from: Option<SocketAddr>,
    /// Differentiated services code point of the packets, a number or a name, e.g. 46 or ef (UDP, TCP).
    #[arg(long, value_name = "POINT", value_parser = flags::code_point)]
    pub dscp: Option<u8>,
    /// TTL or hop limit of the packets [default: the host's, multicast: 1].
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    pub ttl: Option<u8>,
    /// Interface to send through, e.g. for a multicast group [default: where a route leads].
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// TCP, QUIC: congestion control, e.g. cubic or bbr [default: the host's, QUIC: cubic].
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// TCP: send small segments at once (switches Nagle's algorithm off).
    #[arg(long)]
    pub nodelay: bool,
    /// TCP, QUIC: how long connecting may take; with --reverse or --bidir, connecting and the receiver's answer.
    #[arg(long, value_name = "SPAN", value_parser = flags::span, default_value = "10s")]
    pub connect_timeout: Duration,
    /// TCP, QUIC: how long to wait, when all is sent, until the receiver has it.
    #[arg(long, value_name = "SPAN", value_parser = flags::span, default_value = "10s")]
    pub drain: Duration,
    /// Send buffer to ask for (SO_SNDBUF) [default: the kernel's, QUIC: 4 MiB that quinn keeps].
    #[arg(long, value_name = "SIZE", value_parser = flags::buffer)]
    pub send_buffer: Option<usize>,
    /// Whether to announce the number of messages behind the last one, for a receiver in another process.
    #[arg(skip)]
    pub announce: bool,
    /// UDP, not in batches: whether to count all that the network reports about datagrams, also that a host cannot be reached,
    /// which the kernel keeps to itself otherwise (IP_RECVERR).
    #[arg(skip)]
    pub reports: bool,
    /// Of how many messages it is kept when they were due and sent (16 bytes each).
    #[arg(skip)]
    pub keep_departures: usize,
}

impl SenderSettings {
    /// Messages that an end should keep the times of: 64 MiB, at a receiver 128 MiB.
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

    /// Whether the kernel may be handed runs to cut.
    pub(super) fn in_runs(&self) -> bool {
        self.in_batches() && self.batch.is_none()
    }

    /// Whether the network's reports are read.
    pub(super) fn reads_reports(&self) -> bool {
        self.reports && self.transport == Transport::Udp && !self.in_batches()
    }

    /// Refuses what no socket could do.
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
                "payload of {bytes}B: a message over {transport} has between {shortest}B and {longest}B"
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
    /// Where to listen; port 0 lets the kernel choose.
    #[arg(long, value_name = "ADDR:PORT", value_parser = flags::endpoint)]
    pub listen: SocketAddr,
    /// What carries the messages.
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Transport,
    /// Count this session alone.
    #[arg(long)]
    pub session: Option<u16>,
    /// Count senders in this network, or at this address, alone, e.g. 192.0.2.0/24. Repeatable.
    #[arg(long, value_name = "NETWORK", value_parser = flags::network)]
    pub from: Vec<IpNet>,
    /// Senders and sessions told apart at once; the one heard least lately gives way to one too many, and is counted.
    // They take 200 MB at most.
    #[arg(long, value_name = "SESSIONS", value_parser = flags::one_or_more::<NonZeroUsize>, default_value = "10000")]
    pub sessions: NonZeroUsize,
    /// UDP: multicast groups to join. Other receivers of the machine may then listen at the same address.
    #[arg(skip)]
    pub groups: Vec<Membership>,
    /// Receive buffer to ask for (SO_RCVBUF) [default: the kernel's, QUIC: 4 MiB].
    #[arg(long, value_name = "SIZE", value_parser = flags::buffer)]
    pub receive_buffer: Option<usize>,
    /// UDP: bytes of the longest datagram that may come; longer ones are foreign. Memory for 64 of these is kept.
    #[arg(skip = 65_536_usize)]
    pub longest: usize,
    /// UDP: a reader that stops reading again and again, as one does that another program keeps from running; `None`:
    /// it does not.
    #[arg(skip)]
    pub stall: Option<Stall>,
    /// Of how many messages of all sessions the times are kept one by one (32 bytes each).
    #[arg(skip)]
    pub keep_flights: usize,
    /// When to end, besides the [`Exchange`](super::Exchange) and the stop.
    #[command(flatten)]
    pub until: Until,
    /// What is sent to those that ask for messages; `None`: nothing, and no datagram ever leaves.
    #[arg(skip)]
    pub reverse: Option<ReverseSettings>,
}

/// What a receiver sends, at most, to those that ask it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
#[group(skip)]
pub struct ReverseSettings {
    /// Bits of IP packets a second that are sent to all of them together.
    #[arg(long = "reverse-rate", value_name = "RATE", default_value = "100mbit", requires = "allow_reverse")]
    pub rate: BitRate,
    /// How long is sent to each, at most.
    #[arg(long = "reverse-duration", value_name = "SPAN", default_value = "1h", requires = "allow_reverse")]
    #[arg(id = "reverse-duration", value_parser = flags::duration)]
    pub duration: Duration,
    /// To how many at once.
    #[arg(long = "reverse-flows", value_name = "SENDERS", default_value = "16", requires = "allow_reverse")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub flows: u16,
}

impl ReceiverSettings {
    /// Whether it takes what comes from there.
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
    /// From the beginning of one stall to that of the next. The first one begins so long after [`Receiver::run`] was
    /// called.
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
    /// End after this time (not 0) at the latest, with --idle-timeout 0 not before [default: never].
    #[arg(long, value_name = "SPAN", value_parser = flags::duration)]
    pub duration: Option<Duration>,
    /// End when nothing has come for this long, with status 1 if the end of a sender was not announced; 0: never. If it is
    /// given it counts from the start, by default from the first message [default: 10s, TCP and QUIC: 2m].
    #[arg(long = "idle-timeout", value_name = "SPAN", value_parser = flags::span)]
    pub idle: Option<Duration>,
    /// The idle time also counts from the beginning, when nothing has come yet.
    #[arg(skip)]
    pub idle_from_start: bool,
    /// Every known session has announced its end, or its connection was closed, and no message has come for 1 s since.
    #[arg(skip)]
    pub announced: bool,
    /// End by announced ends only when so many senders have announced theirs.
    #[arg(long, value_name = "SENDERS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub senders: u64,
    /// How long to go on when everything sent has arrived, for duplicates still under way.
    #[arg(skip)]
    pub settle: Duration,
    /// How long a stop waits for what is under way: all that was sent here, or else the announcements of those who send.
    #[arg(skip)]
    pub under_way: Duration,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// A number that another sender hardly has, too.
fn random_session() -> u16 {
    (clock::now() >> 10) as u16 ^ std::process::id() as u16
}
