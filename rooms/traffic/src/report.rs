//! The reports of both ends.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use weir_kernel::tcp::TcpInfo;
use weir_program::clock::Nanos;
use weir_stats::{DelayRecorder, Distribution};

use crate::{Departure, ErrorCount, Flight, Flow, SequenceSet, Window};

/// The report of a [`Sender`](super::Sender).
#[derive(Debug, Default)]
pub struct SendReport {
    /// Messages completely handed to the kernel (QUIC: to quinn). Their sequence numbers are 0 to `sent` - 1.
    pub sent: u64,
    /// Their bytes, without transport headers.
    pub sent_bytes: u64,
    /// TCP and QUIC: time to connect. `None`: UDP, or never connected (see `errors`).
    pub connect: Option<Duration>,
    /// Random number of its run; 0: its messages are too short for it.
    pub incarnation: u32,
    /// The planned window. `None`: nothing was sent.
    pub window: Option<Window>,
    /// Time from the first send call to the end of the window, or to an earlier stop, count or error, or to the last
    /// message if it was sent after the window. Zero if nothing was sent.
    pub used: Duration,
    /// `schedule`: messages due in this time. `None`: the pacing has no schedule.
    pub due: Option<u64>,
    /// Time of the first send call.
    pub first_send: Option<Nanos>,
    /// Time of the last send call.
    pub last_send: Option<Nanos>,
    /// Time spent waiting for a full send buffer.
    pub blocked: Duration,
    /// `schedule`: lateness of the send calls.
    pub lateness: Distribution,
    /// TCP, QUIC streams: bytes of the last message if it was not completely handed over in time: before the window
    /// ended, or before the drain did if the end is announced.
    pub partial_bytes: u64,
    /// Errors, by operation and kind.
    pub errors: Vec<ErrorCount>,
    /// TCP: the connection when the drain ended, just before it was closed.
    pub tcp_after_drain: Option<TcpInfo>,
    /// QUIC: packets that quinn declared lost (RFC 9002, section 6), from the handshake to the end of the drain. Their
    /// stream data was retransmitted, datagrams were not. `None`: another transport, or never connected.
    pub lost_packets: Option<u64>,
    /// QUIC datagrams: bytes of messages still in quinn when the drain was over.
    pub left_behind: u64,
    /// QUIC datagrams: messages still in quinn when the drain was over.
    pub never_left: u64,
    /// QUIC: whether the peer had acknowledged everything when the drain was over; for datagrams, something after the
    /// last of them. `None`: another transport, or nothing was drained.
    pub acknowledged: Option<bool>,
    /// UDP: announcements of the end that the kernel accepted; not in `sent`.
    pub announcements: u64,
    /// The sender's own address, as the kernel chose it.
    pub local: Option<SocketAddr>,
    /// Effective SO_SNDBUF (twice the requested size), bytes; QUIC: quinn's send window.
    pub send_buffer: Option<usize>,
    /// The messages by sequence number, if requested.
    pub departures: Vec<Departure>,
    /// Whether a stop ended the window early.
    pub stopped: bool,
}

/// The report of a [`Receiver`](super::Receiver).
#[derive(Debug, Default)]
pub struct ReceiveReport {
    /// One entry per sender and session, in the order of their first message.
    pub sessions: Vec<SessionReport>,
    /// Datagrams, or TCP connections, that were not ours: counted and otherwise ignored. So are sessions other than the
    /// requested one.
    pub foreign: u64,
    /// Announced ends of sessions without messages; in no other count.
    pub ends_alone: u64,
    /// How often a session was evicted. Its results are not in `sessions`.
    pub evicted: u64,
    /// Messages of evicted sessions, of all kinds.
    pub evicted_messages: u64,
    /// Their sums.
    pub evicted_total: Total,
    /// Connections accepted (TCP, QUIC).
    pub connections: u64,
    /// TCP: of these, silent senders' connections that were closed to make room.
    pub evicted_connections: u64,
    /// TCP, QUIC streams: bytes of incomplete messages at the end of connections.
    pub partial_bytes: u64,
    /// Datagrams the kernel dropped at this socket (SK_MEMINFO_DROPS). `None`: TCP, or the kernel does not report it.
    pub socket_drops: Option<u64>,
    /// UDP: datagrams after its end that the kernel had dropped and counted by then; not in `socket_drops`.
    pub late_drops: u64,
    /// Effective SO_RCVBUF (twice the requested size), bytes.
    pub receive_buffer: Option<usize>,
    /// Results of reverse flows, in the order of their ends.
    pub reverse: Vec<Flow>,
    /// Refused requests for messages.
    pub refused: u64,
    /// Errors, by operation and kind.
    pub errors: Vec<ErrorCount>,
    /// When `run` was called.
    pub started: Nanos,
    /// When it ended.
    pub finished: Nanos,
    /// Why it ended.
    pub ended: Ended,
}

impl SendReport {
    /// Scheduled messages that were not sent.
    pub fn shortfall(&self) -> u64 {
        self.due.unwrap_or(0).saturating_sub(self.sent)
    }

    /// TCP: retransmitted segments. QUIC: packets declared lost. `None`: another transport, or never connected.
    pub fn sent_again(&self) -> Option<u64> {
        self.tcp_after_drain.map(|info| info.retransmits.into()).or(self.lost_packets)
    }
}

impl ReceiveReport {
    /// The session's report, or `None`. Of several, that with the most messages.
    pub fn main_session(&self) -> Option<&SessionReport> {
        self.sessions.iter().max_by_key(|session| session.delivered)
    }

    /// The sum of all sessions, including evicted ones.
    pub fn total(&self) -> Total {
        let mut total = self.evicted_total;
        self.sessions.iter().for_each(|session| total.add(session));
        total
    }
}

/// Sums over sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Their number.
    pub sessions: u64,
    /// How often one ended or was evicted without an announced end.
    #[serde(skip)]
    pub open: u64,
    /// Lower bound of sent messages, see [`SessionReport::sent_at_least`].
    pub sent_at_least: u64,
    /// Messages received, duplicates not counted.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages lost: the lower bound of sent ones minus the received ones.
    pub lost: u64,
    /// Duplicates.
    pub duplicated: u64,
    /// Messages after one with a higher number.
    pub reordered: u64,
    /// When the first message came. `None`: none did.
    #[serde(skip)]
    pub first_arrival: Option<Nanos>,
    /// When the last new one came.
    #[serde(skip)]
    pub last_arrival: Option<Nanos>,
}

impl Total {
    /// Adds a session.
    pub fn add(&mut self, session: &SessionReport) {
        let sent = session.sent_at_least().saturating_sub(session.before);
        // A session that has come back was counted at its eviction.
        self.sessions += u64::from(session.before == 0);
        self.open += u64::from(session.announced.is_none());
        self.sent_at_least += sent;
        self.received += session.delivered;
        self.received_bytes += session.delivered_bytes;
        self.lost += sent.saturating_sub(session.delivered);
        self.duplicated += session.duplicates;
        self.reordered += session.reordered;
        if session.delivered > 0 {
            let first = self.first_arrival.unwrap_or(Nanos::MAX);
            self.first_arrival = Some(first.min(session.first_arrival));
            self.last_arrival = self.last_arrival.max(Some(session.last_arrival));
        }
    }
}

/// Why a receiver ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ended {
    /// The stop was set.
    #[default]
    Stopped,
    /// Every sent message has arrived.
    Complete,
    /// The drain or the duration was over.
    Deadline,
    /// Nothing came for the idle time, before the end of a session was announced.
    Idle,
    /// TCP, QUIC: every connection was closed, and this process's sender had ended, or ends were not announced.
    Closed,
    /// The socket failed (see `errors`).
    Failed,
}

/// The messages of one sender and session.
#[derive(Debug)]
pub struct SessionReport {
    /// Their latest source address.
    pub peer: SocketAddr,
    /// Session number.
    pub session: u16,
    /// Random number of the sender's run; 0: unknown, messages were too short.
    pub incarnation: u32,
    /// Messages received, duplicates not counted.
    pub delivered: u64,
    /// Of these, those received within the window; all if the window is unknown.
    pub in_window: u64,
    /// Bytes of the delivered messages.
    pub delivered_bytes: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Messages that arrived after one with a higher number.
    pub reordered: u64,
    /// Messages too late to know whether they are duplicates; not in `delivered`.
    pub stale: u64,
    /// The received numbers.
    pub numbers: SequenceSet,
    /// Messages before its first one, if it may have been evicted before: sums count those that came then. 0: it was
    /// not.
    pub before: u64,
    /// The sender's announced count.
    pub announced: Option<u64>,
    /// Received announcements of the end; not in `delivered`.
    pub announcements: u64,
    /// Announced ends that contradict the messages: forged, or of another run of the sender; in none of the other
    /// counts.
    pub contradicted: u64,
    /// Whether the sender has our clock ([`clock::id`](weir_program::clock::id)), so that delays are exact; with
    /// another clock none is known. `None`: messages too short to know; their delays assume our clock.
    pub same_machine: Option<bool>,
    /// Arrival of the first message.
    pub first_arrival: Nanos,
    /// Arrival of the last new message.
    pub last_arrival: Nanos,
    /// Messages received before they were sent, although they claim to share our clock; without a delay.
    pub negative: u64,
    /// Smoothed change of the time between messages on the way, ns (RFC 3550, section 6.4.1). Needs no common clock.
    pub jitter_ns: f64,
    /// From the actual send call to the return of the receive call, of delivered messages. Invalid unless it is
    /// `same_machine`.
    pub delays: DelayRecorder,
    /// The first messages one by one, in the order of arrival, if requested.
    pub flights: Vec<Flight>,
}

impl SessionReport {
    /// The report of a session whose first message came at the time `at`, before it is counted. Its delays are divided
    /// into batches of a window of this length.
    pub fn new(peer: SocketAddr, session: u16, at: Nanos, window: Duration) -> Self {
        Self {
            peer,
            session,
            incarnation: 0,
            delivered: 0,
            in_window: 0,
            delivered_bytes: 0,
            duplicates: 0,
            reordered: 0,
            stale: 0,
            numbers: SequenceSet::new(),
            before: 0,
            announced: None,
            announcements: 0,
            contradicted: 0,
            same_machine: None,
            first_arrival: at,
            last_arrival: at,
            negative: 0,
            jitter_ns: 0.0,
            delays: DelayRecorder::new(window),
            flights: Vec::new(),
        }
    }

    /// Lower bound of sent messages: the announced number, or the highest one seen plus all before it.
    pub fn sent_at_least(&self) -> u64 {
        self.announced.unwrap_or(0).max(self.numbers.end())
    }
}

/// The messages of all sessions in an interval. Times are seconds since the first message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Messages sent the other way, if both ends may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Messages received, duplicates not counted.
    pub received: u64,
    /// The advance of the highest numbers minus the received messages; negative if missing ones arrived late.
    pub lost: i64,
    /// Duplicates.
    pub duplicated: u64,
    /// Messages after one with a higher number.
    pub reordered: u64,
    /// Payload bits per second of those received.
    pub mbit_per_s: f64,
    /// Mean delay, of senders with our clock. `None`: nothing came from these.
    pub delay_mean_us: Option<f64>,
    /// The largest of these delays.
    pub delay_max_us: Option<f64>,
    /// [`SessionReport::jitter_ns`], the mean over the sessions with messages. `None`: there were none, or the end cut
    /// off the interval.
    pub jitter_us: Option<f64>,
}

/// The counts of [`ErrorCount`] in one line: `send: connection refused (3 times)`.
pub fn in_words(errors: &[ErrorCount]) -> String {
    let one = |e: &ErrorCount| match e.count {
        1 => format!("{}: {}", e.operation, e.error),
        n => format!("{}: {} ({n} times)", e.operation, e.error),
    };
    errors.iter().map(one).collect::<Vec<_>>().join(", ")
}
