//! What the two ends have seen.

use std::net::SocketAddr;
use std::time::Duration;

use weir_kernel::tcp::TcpInfo;
use weir_service::clock::Nanos;
use weir_stats::{DelayRecorder, Distribution};

use crate::{ErrorCount, Flights, SequenceSet, Window};

/// What a [`Sender`](super::Sender) has done.
#[derive(Debug, Default)]
pub struct SendReport {
    /// Messages wholly handed to the kernel (QUIC: to quinn). They carry the sequence numbers from 0 to `sent` - 1.
    pub sent: u64,
    /// Their bytes, headers of the transport not counted.
    pub sent_bytes: u64,
    /// TCP and QUIC: how long connecting took; `None`: UDP, or never connected (see `errors`).
    pub connect: Option<Duration>,
    /// The planned window; `None`: nothing was sent.
    pub window: Option<Window>,
    /// From the first send call to the end of the window, or to the stop or the error that ended it before. Zero if
    /// nothing was sent.
    pub used: Duration,
    /// The first send call.
    pub first_send: Option<Nanos>,
    /// The last send call.
    pub last_send: Option<Nanos>,
    /// Time spent waiting for a full send buffer.
    pub blocked: Duration,
    /// `schedule`: how much later than intended the send calls were.
    pub lateness: Distribution,
    /// TCP, QUIC streams: bytes of the last message that were handed over before the window ended in its middle.
    pub partial_bytes: u64,
    /// What went wrong, by operation and kind.
    pub errors: Vec<ErrorCount>,
    /// TCP: the connection when the window ended.
    pub tcp_at_end: Option<TcpInfo>,
    /// TCP: the connection when the drain ended, just before it was closed.
    pub tcp_after_drain: Option<TcpInfo>,
    /// QUIC: packets that quinn declared lost (RFC 9002, section 6), from the handshake to the end of the drain. What
    /// stream data they held was sent again, datagrams were not. `None`: another transport, or never connected.
    pub lost_packets: Option<u64>,
    /// UDP: announcements of the end, that the kernel took; not in `sent`.
    pub announcements: u64,
    /// The sender's own address, as the kernel chose it.
    pub local: Option<SocketAddr>,
    /// SO_SNDBUF as the kernel granted it (twice what was asked for), bytes; QUIC: quinn's send window.
    pub send_buffer: Option<usize>,
    /// Time of each send call by sequence number, if they were to be kept.
    pub send_times: Vec<Nanos>,
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
    /// Messages of sessions beyond those that a receiver can tell apart (256).
    pub unlisted: u64,
    /// Connections accepted (TCP, QUIC).
    pub connections: u64,
    /// TCP, QUIC streams: bytes at the end of connections that were no whole message.
    pub partial_bytes: u64,
    /// Datagrams the kernel dropped at this socket (SK_MEMINFO_DROPS); `None`: TCP, or the kernel does not tell.
    pub socket_drops: Option<u64>,
    /// SO_RCVBUF as the kernel granted it (twice what was asked for), bytes.
    pub receive_buffer: Option<usize>,
    /// The sysctl that kept it below what was asked for.
    pub receive_buffer_limit: Option<&'static str>,
    /// What went wrong, by operation and kind.
    pub errors: Vec<ErrorCount>,
    /// When `run` was called.
    pub started: Nanos,
    /// When it ended.
    pub finished: Nanos,
    /// Why it ended.
    pub ended: Ended,
}

impl ReceiveReport {
    /// The only session's report; `None` if there is none. Of several, that with the most messages.
    pub fn main_session(&self) -> Option<&SessionReport> {
        self.sessions.iter().max_by_key(|session| session.delivered)
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
    /// The drain, the duration or the idle time was over.
    Deadline,
    /// TCP: every connection was closed, and sending had ended.
    Closed,
    /// The socket failed (see `errors`).
    Failed,
}

/// The messages of one sender and session.
#[derive(Debug)]
pub struct SessionReport {
    /// Where they came from.
    pub peer: SocketAddr,
    /// Session number.
    pub session: u16,
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
    /// The sender's count, as its end announced it.
    pub announced: Option<u64>,
    /// Announcements of the end that came; not in `delivered`.
    pub announcements: u64,
    /// Where the sender's clock runs.
    pub machine: Machine,
    /// Arrival of the first message.
    pub first_arrival: Nanos,
    /// Arrival of the last new message.
    pub last_arrival: Nanos,
    /// From the actual send call to the return of the receive call, of delivered messages. Without meaning unless
    /// `machine` is ours.
    pub delays: DelayRecorder,
    /// The same from the intended send time; empty for messages without extension, too.
    pub intended_delays: DelayRecorder,
    /// The single messages behind these, as many as were to be kept.
    pub flights: Flights,
}

impl SessionReport {
    /// Messages that were sent at least: the announced number, or the highest one seen and all before it.
    pub fn sent_at_least(&self) -> u64 {
        self.announced.unwrap_or(0).max(self.numbers.end())
    }
}

/// Where a sender's clock runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    /// Its boot id is ours: delays are exact.
    Same,
    /// Its boot id is another: no delay is known.
    Other,
    /// Messages too short to tell. Delays are recorded as if it were ours.
    #[default]
    Unknown,
}

/// The counts of [`ErrorCount`] in one line: `send: connection refused (3 times)`.
pub fn in_words(errors: &[ErrorCount]) -> String {
    let one = |e: &ErrorCount| match e.count {
        1 => format!("{}: {}", e.operation, e.error),
        n => format!("{}: {} ({n} times)", e.operation, e.error),
    };
    errors.iter().map(one).collect::<Vec<_>>().join(", ")
}
