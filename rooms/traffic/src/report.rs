//! What the two ends have seen.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use weir_kernel::tcp::TcpInfo;
use weir_program::clock::Nanos;
use weir_stats::{DelayRecorder, Distribution};

use crate::{Departure, ErrorCount, Flight, Flow, SequenceSet, Window};

/// What a [`Sender`](super::Sender) has done.
#[derive(Debug, Default)]
pub struct SendReport {
    /// Messages wholly handed to the kernel (QUIC: to quinn). They carry the sequence numbers from 0 to `sent` - 1.
    pub sent: u64,
    /// Their bytes, headers of the transport not counted.
    pub sent_bytes: u64,
    /// TCP and QUIC: how long connecting took; `None`: UDP, or never connected (see `errors`).
    pub connect: Option<Duration>,
    /// What it drew at its start; 0: its messages have no room for it.
    pub incarnation: u32,
    /// The planned window; `None`: nothing was sent.
    pub window: Option<Window>,
    /// From the first send call to the end of the window, or to the stop, the count or the error that ended it before, or to
    /// the last message where that was sent behind it. Zero if nothing was sent.
    pub used: Duration,
    /// `schedule`: messages that were due in this time; `None`: the pacing has no schedule.
    pub due: Option<u64>,
    /// The first send call.
    pub first_send: Option<Nanos>,
    /// The last send call.
    pub last_send: Option<Nanos>,
    /// Time spent waiting for a full send buffer.
    pub blocked: Duration,
    /// `schedule`: how much later than intended the send calls were.
    pub lateness: Distribution,
    /// TCP, QUIC streams: bytes of the last message, of which not all was handed over in time: before the window ended, or
    /// before the drain did if the end is announced.
    pub partial_bytes: u64,
    /// What went wrong, by operation and kind.
    pub errors: Vec<ErrorCount>,
    /// TCP: the connection when the drain ended, just before it was closed.
    pub tcp_after_drain: Option<TcpInfo>,
    /// QUIC: packets that quinn declared lost (RFC 9002, section 6), from the handshake to the end of the drain. What
    /// stream data they held was sent again, datagrams were not. `None`: another transport, or never connected.
    pub lost_packets: Option<u64>,
    /// QUIC datagrams: bytes that quinn kept for messages that had not left when the drain was over.
    pub left_behind: u64,
    /// QUIC datagrams: messages that quinn had taken and that had not left when the drain was over.
    pub never_left: u64,
    /// QUIC: whether the peer had acknowledged everything when the drain was over; of datagrams, something behind the last of
    /// them. `None`: another transport, or nothing was drained.
    pub acknowledged: Option<bool>,
    /// UDP: announcements of the end, that the kernel took; not in `sent`.
    pub announcements: u64,
    /// The sender's own address, as the kernel chose it.
    pub local: Option<SocketAddr>,
    /// SO_SNDBUF as the kernel granted it (twice what was asked for), bytes; QUIC: quinn's send window.
    pub send_buffer: Option<usize>,
    /// The messages by sequence number, if they were to be kept.
    pub departures: Vec<Departure>,
    /// Whether a stop ended the window early.
    pub stopped: bool,
}

/// What a [`Receiver`](super::Receiver) has seen.
#[derive(Debug, Default)]
pub struct ReceiveReport {
    /// One entry a sender and session, in the order of their first message.
    pub sessions: Vec<SessionReport>,
    /// Datagrams, or on TCP connections, that were not ours: counted and otherwise left alone. A session other than
    /// the one asked for is foreign, too.
    pub foreign: u64,
    /// Announced ends of sessions of which nothing else had come, in no other count.
    pub ends_alone: u64,
    /// How often a session gave way to another. What came of it is not in `sessions`.
    pub evicted: u64,
    /// Messages of these, of all kinds.
    pub evicted_messages: u64,
    /// What was counted of them.
    pub evicted_total: Total,
    /// Connections accepted (TCP, QUIC).
    pub connections: u64,
    /// TCP: of these, senders' that had fallen silent and were closed since there was no room for another.
    pub evicted_connections: u64,
    /// TCP, QUIC streams: bytes at the end of connections that were no whole message.
    pub partial_bytes: u64,
    /// Datagrams the kernel dropped at this socket (SK_MEMINFO_DROPS); `None`: TCP, or the kernel does not tell.
    pub socket_drops: Option<u64>,
    /// UDP: of what came when it had ended, what the kernel had dropped and counted by the time it was told; not in
    /// `socket_drops`.
    pub late_drops: u64,
    /// SO_RCVBUF as the kernel granted it (twice what was asked for), bytes.
    pub receive_buffer: Option<usize>,
    /// What was sent to those that asked for it, in the order in which they ended.
    pub reverse: Vec<Flow>,
    /// Requests for messages that were refused.
    pub refused: u64,
    /// What went wrong, by operation and kind.
    pub errors: Vec<ErrorCount>,
    /// When `run` was called.
    pub started: Nanos,
    /// When it ended.
    pub finished: Nanos,
    /// Why it ended.
    pub ended: Ended,
}

impl SendReport {
    /// Messages that were due and were not sent.
    pub fn shortfall(&self) -> u64 {
        self.due.unwrap_or(0).saturating_sub(self.sent)
    }

    /// TCP: segments sent again. QUIC: packets declared lost. `None`: another transport, or never connected.
    pub fn sent_again(&self) -> Option<u64> {
        self.tcp_after_drain.map(|info| info.retransmits.into()).or(self.lost_packets)
    }
}

impl ReceiveReport {
    /// The only session's report; `None` if there is none. Of several, that with the most messages.
    pub fn main_session(&self) -> Option<&SessionReport> {
        self.sessions.iter().max_by_key(|session| session.delivered)
    }

    /// All sessions together, those that gave way to others included.
    pub fn total(&self) -> Total {
        let mut total = self.evicted_total;
        self.sessions.iter().for_each(|session| total.add(session));
        total
    }
}

/// Sums over sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// How many.
    pub sessions: u64,
    /// Times that one ended, or gave way, without an announced end.
    #[serde(skip)]
    pub open: u64,
    /// Messages sent, at least, see [`SessionReport::sent_at_least`].
    pub sent_at_least: u64,
    /// Messages received, duplicates not counted.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Sent at least, and not received.
    pub lost: u64,
    /// Messages received again.
    pub duplicated: u64,
    /// Messages behind one with a higher number.
    pub reordered: u64,
    /// When the first message came; `None`: none did.
    #[serde(skip)]
    pub first_arrival: Option<Nanos>,
    /// When the last new one did.
    #[serde(skip)]
    pub last_arrival: Option<Nanos>,
}

impl Total {
    /// Adds a session.
    pub fn add(&mut self, session: &SessionReport) {
        let sent = session.sent_at_least().saturating_sub(session.before);
        // One that has come back was counted when it gave way.
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
    /// Everything sent has arrived.
    Complete,
    /// The drain or the duration was over.
    Deadline,
    /// Nothing had come for the idle time, while the end of a session was not announced.
    Idle,
    /// TCP, QUIC: every connection was closed, and the sender of this process had ended, or ends were not announced.
    Closed,
    /// The socket failed (see `errors`).
    Failed,
}

/// The messages of one sender and session.
#[derive(Debug)]
pub struct SessionReport {
    /// Where they last came from.
    pub peer: SocketAddr,
    /// Session number.
    pub session: u16,
    /// What the sender drew at its start; 0: unknown, messages were too short to tell.
    pub incarnation: u32,
    /// Messages received, duplicates not counted.
    pub delivered: u64,
    /// Of them, those received within the window; equal to `delivered` where the window is unknown.
    pub in_window: u64,
    /// Bytes of the delivered messages.
    pub delivered_bytes: u64,
    /// Messages received again.
    pub duplicates: u64,
    /// Messages that arrived behind one with a higher number.
    pub reordered: u64,
    /// Messages so far behind that nobody knows whether they are duplicates; not in `delivered`.
    pub stale: u64,
    /// The numbers received.
    pub numbers: SequenceSet,
    /// Messages before its first one, where it may have given way before: sums count those that came then. 0: it has not.
    pub before: u64,
    /// The sender's count, as its end announced it.
    pub announced: Option<u64>,
    /// Announcements of the end that came; not in `delivered`.
    pub announcements: u64,
    /// Announced ends that what came contradicts: forged, or of another run of the sender; in none of the other counts.
    pub contradicted: u64,
    /// Whether the sender has our clock ([`clock::id`](weir_program::clock::id)), so that delays are exact; if it has
    /// another one none is known. `None`: messages too short to tell, whose delays are recorded as if it were ours.
    pub same_machine: Option<bool>,
    /// Arrival of the first message.
    pub first_arrival: Nanos,
    /// Arrival of the last new message.
    pub last_arrival: Nanos,
    /// Messages that were received before they were sent, by the clock that they claim to share with ours; without a delay.
    pub negative: u64,
    /// How much the time between messages changes on the way, ns, smoothed (RFC 3550, section 6.4.1). It needs no common
    /// clock.
    pub jitter_ns: f64,
    /// From the actual send call to the return of the receive call, of delivered messages. Without meaning unless
    /// it is `same_machine`.
    pub delays: DelayRecorder,
    /// The first of the single messages, in the order of arrival, if they were to be kept.
    pub flights: Vec<Flight>,
}

impl SessionReport {
    /// That of a session whose first message came at the time `at`, before it is counted. Its delays are cut into batches
    /// of a window of this length.
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

    /// Messages that were sent at least: the announced number, or the highest one seen and all before it.
    pub fn sent_at_least(&self) -> u64 {
        self.announced.unwrap_or(0).max(self.numbers.end())
    }
}

/// What came in an interval, of all sessions. Times are seconds since the first message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// When it began.
    pub start_s: f64,
    /// When it was over.
    pub end_s: f64,
    /// Messages sent the other way, where both ends may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Messages received, duplicates not counted.
    pub received: u64,
    /// By how many more the highest numbers rose; negative where those that had been missing came late.
    pub lost: i64,
    /// Messages received again.
    pub duplicated: u64,
    /// Messages behind one with a higher number.
    pub reordered: u64,
    /// Payload bits of those received.
    pub mbit_per_s: f64,
    /// Mean delay, of senders with our clock; `None`: nothing came of these.
    pub delay_mean_us: Option<f64>,
    /// The largest of these delays.
    pub delay_max_us: Option<f64>,
    /// [`SessionReport::jitter_ns`], the mean over the sessions of which something came; `None`: nothing did, or the
    /// interval was cut off by the end.
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
