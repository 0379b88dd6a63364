//! What a sender and a receiver are told to do.

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use clap::ValueEnum;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_dgram::Membership;
use weir_wire::probe;

use crate::TrafficError;
use crate::quic;

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

/// What a [`Sender`](super::Sender) does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderSettings {
    /// What carries the messages.
    pub transport: Transport,
    /// Where they go.
    pub to: SocketAddr,
    /// Address and port to send from; `None`: the kernel chooses. To fix only the port use the unspecified address.
    pub from: Option<SocketAddr>,
    /// Bytes of a message, its header included; at least [`probe::BASE_LEN`], on streams [`probe::EXTENDED_LEN`].
    pub payload_bytes: usize,
    /// Time between messages.
    pub interval: Duration,
    /// When the next message is due.
    pub pacing: Pacing,
    /// UDP by [`Pacing::Schedule`]: least time between two wake-ups of the sender. All messages due by then leave in
    /// one batch, none early; each is late by up to this time, and says so. Zero: a wake-up and a call for each
    /// message.
    pub quantum: Duration,
    /// UDP: most messages in one call (sendmmsg), each a datagram of its own, never joined (UDP_SEGMENT). They leave as
    /// they are due, or, with an `interval` of zero, one call behind the other; what has not left by the end of the
    /// window never does. `None`: as `quantum` says.
    pub batch: Option<NonZeroUsize>,
    /// Length of the window.
    pub duration: Duration,
    /// Ends after so many messages, if the window does not before.
    pub count: Option<NonZeroU64>,
    /// UDP by [`Pacing::Schedule`]: how long behind the window messages are sent that were due in it. What has not left by
    /// then never does.
    pub overtime: Duration,
    /// Number that tells this sender's messages from others'.
    pub session: u16,
    /// TCP: congestion control by the kernel's name (TCP_CONGESTION); `None`: the host's default. QUIC: by quinn's; `None`:
    /// cubic.
    pub congestion: Option<String>,
    /// TCP: switches Nagle's algorithm off (TCP_NODELAY).
    pub nodelay: bool,
    /// Differentiated services code point (RFC 2474) of the packets, 0 to 63; `None`: 0. QUIC: `None`, since quinn sets the
    /// field itself.
    pub dscp: Option<u8>,
    /// TTL or hop limit, of multicast packets too; `None`: the kernel's default (multicast: 1).
    pub ttl: Option<u8>,
    /// The interface to send through; `None`: where a route leads.
    pub interface: Option<String>,
    /// SO_SNDBUF to ask for, bytes; `None`: the kernel's default (TCP: autotuned). QUIC: what quinn keeps until it is
    /// acknowledged or, of datagrams, sent; `None`: 4 MiB.
    pub send_buffer: Option<usize>,
    /// TCP and QUIC: give up connecting after this time.
    pub connect_timeout: Duration,
    /// TCP and QUIC: how long the kernel (quinn) may go on delivering after the window, before the connection is
    /// closed.
    pub drain: Duration,
    /// Whether to announce the number of messages behind the last one, for a receiver in another process.
    pub announce: bool,
    /// UDP, not in batches: whether to count all that the network reports about datagrams, also that a host cannot be reached,
    /// which the kernel keeps to itself otherwise (IP_RECVERR).
    pub reports: bool,
    /// Of how many messages it is kept when they were due and sent (16 bytes each).
    pub keep_departures: usize,
}

impl SenderSettings {
    /// Messages that an end should keep the times of: 64 MiB, at a receiver 128 MiB.
    pub const MOST_DEPARTURES: usize = 1 << 22;

    /// 1000 bytes every 10 ms over UDP for 60 s, drained for 10 s.
    pub fn new(to: SocketAddr) -> Self {
        Self {
            transport: Transport::Udp,
            to,
            from: None,
            payload_bytes: 1000,
            interval: Duration::from_millis(10),
            pacing: Pacing::Sleep,
            quantum: Duration::ZERO,
            batch: None,
            duration: Duration::from_secs(60),
            count: None,
            overtime: Duration::ZERO,
            session: 0,
            congestion: None,
            nodelay: false,
            dscp: None,
            ttl: None,
            interface: None,
            send_buffer: None,
            connect_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            announce: false,
            reports: false,
            keep_departures: 0,
        }
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

/// What a [`Receiver`](super::Receiver) does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverSettings {
    /// What carries the messages.
    pub transport: Transport,
    /// Where to listen; port 0: the kernel chooses.
    pub listen: SocketAddr,
    /// The only session to count, others are foreign; `None`: all.
    pub session: Option<u16>,
    /// Networks that sessions may come from; empty: any. Others are foreign.
    pub from: Vec<IpNet>,
    /// Sessions told apart at once. When one comes too many, the one heard least lately gives way.
    pub sessions: NonZeroUsize,
    /// UDP: multicast groups to join. Other receivers of the machine may then listen at the same address.
    pub groups: Vec<Membership>,
    /// SO_RCVBUF to ask for, bytes; `None`: the kernel's default (TCP: autotuned; QUIC: 4 MiB).
    pub receive_buffer: Option<usize>,
    /// UDP: bytes of the longest datagram that may come; longer ones are foreign. Memory for 64 of these is kept.
    pub longest: usize,
    /// UDP: a reader that stops reading again and again, as one does that another program keeps from running; `None`:
    /// it does not.
    pub stall: Option<Stall>,
    /// Of how many messages of all sessions the times are kept one by one (32 bytes each).
    pub keep_flights: usize,
    /// When to end, besides the [`Exchange`](super::Exchange) and the stop.
    pub until: Until,
    /// What is sent to those that ask for messages; `None`: nothing, and no datagram ever leaves.
    pub reverse: Option<ReverseSettings>,
}

/// What a receiver sends, at most, to those that ask it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReverseSettings {
    /// Bits of IP packets a second, of all flows together.
    pub rate: u64,
    /// How long a flow lasts.
    pub duration: Duration,
    /// Flows at once.
    pub flows: usize,
}

impl ReceiverSettings {
    /// Sessions told apart unless said otherwise: they take 200 MB at most.
    pub const SESSIONS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not 0");

    /// Whether it takes what comes from there.
    pub(super) fn admits(&self, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        self.from.is_empty() || self.from.iter().any(|network| network.contains(&address))
    }

    /// UDP, every session, until stopped.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            transport: Transport::Udp,
            listen,
            session: None,
            from: Vec::new(),
            sessions: Self::SESSIONS,
            groups: Vec::new(),
            receive_buffer: None,
            longest: 65_536,
            stall: None,
            keep_flights: 0,
            until: Until::default(),
            reverse: None,
        }
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// This long after `run` was called.
    pub duration: Option<Duration>,
    /// This long after the last message, once there was one.
    pub idle: Option<Duration>,
    /// The idle time also counts from the beginning, when nothing has come yet.
    pub idle_from_start: bool,
    /// Every known session has announced its end, or its connection was closed, and no message has come for 1 s since.
    pub announced: bool,
    /// So many sessions at least have announced their end, too.
    pub senders: u64,
    /// How long to go on when everything sent has arrived, for duplicates still under way.
    pub settle: Duration,
    /// How long a stop waits for what is under way: all that was sent here, or else the announcements of those who send.
    pub under_way: Duration,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
