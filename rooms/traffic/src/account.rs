//! The ledger of the messages of one sender, as both ends print it and exchange it.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_program::clock::Nanos;

use crate::{SendReport, SessionReport};

/// The ledger of one sender and session, in the same form at both ends. `None`: unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The direction, if both ends send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The other end.
    pub peer: SocketAddr,
    /// Number of the session.
    pub session: u16,
    /// Random number of the sender's run. `None`: messages too short to carry it.
    pub incarnation: Option<u32>,
    /// Sent messages, as announced.
    pub sent: Option<u64>,
    /// The announced number, or the highest one seen plus all before it.
    pub sent_at_least: u64,
    /// Messages without duplicates.
    pub received: Option<u64>,
    /// Their bytes.
    pub received_bytes: Option<u64>,
    /// Datagrams that announced the end, not in `received`.
    pub announcements: u64,
    /// Announced ends that contradict the messages; in no other count.
    pub contradicted: u64,
    /// Lost messages. Without an announced count: those missing before the last received one. `None`, too: it was
    /// evicted before.
    pub lost: Option<u64>,
    /// Duplicates.
    pub duplicated: Option<u64>,
    /// Messages that arrived after one with a higher number.
    pub reordered: Option<u64>,
    /// Too late to know whether new or duplicate; counted in `lost`.
    pub stale: Option<u64>,
    /// From the first arrival to the last.
    pub msgs_per_s: Option<f64>,
    /// Payload bits in the same time.
    pub mbit_per_s: Option<f64>,
    /// RFC 3550, section 6.4.1.
    pub jitter_us: Option<f64>,
    /// Whether both ends have the same clock.
    pub same_machine: Option<bool>,
    /// Messages received before they were sent, although the clock claims to be ours; they have no delay.
    pub negative_delays: Option<u64>,
    /// Number of measured delays.
    pub delay_n: Option<u64>,
    /// Their mean.
    pub delay_mean_us: Option<f64>,
    /// Their median.
    pub delay_p50_us: Option<f64>,
    /// Their 99th percentile.
    pub delay_p99_us: Option<f64>,
    /// The largest.
    pub delay_max_us: Option<f64>,
    /// Scheduled messages that the sender did not send, if it reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<u64>,
    /// Whether the messages are sent to `peer`.
    #[serde(skip)]
    pub to_peer: bool,
}

/// An IPv4 address from an IPv6 socket, as IPv4.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// Messages and payload Mbit per second, from the first arrival to the last. `None`: no time passed.
pub fn rates(first: Nanos, last: Nanos, messages: u64, bytes: u64) -> (Option<f64>, Option<f64>) {
    // n messages span n - 1 intervals.
    let per_second = (messages > 1 && last > first).then(|| (messages - 1) as f64 * 1e9 / (last - first) as f64);
    (per_second, per_second.map(|rate| rate * bytes as f64 * 8e-6 / messages as f64))
}

/// Direction of messages, seen from the end that has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From it.
    Forward,
    /// To it.
    Reverse,
}

impl Account {
    /// A receiver's ledger of a session.
    pub fn new(session: &SessionReport) -> Self {
        let (first, last) = (session.first_arrival, session.last_arrival);
        let (msgs_per_s, mbit_per_s) = rates(first, last, session.delivered, session.delivered_bytes);
        // Delays are known only with our clock.
        let delays = (session.same_machine == Some(true)).then(|| session.delays.delays());
        let quantile = |q| delays.and_then(|delays| delays.quantile_us(q)).map(|estimate| estimate.value);
        Self {
            direction: None,
            peer: canonical(session.peer),
            session: session.session,
            incarnation: Some(session.incarnation).filter(|&incarnation| incarnation != 0),
            sent: session.announced,
            sent_at_least: session.sent_at_least(),
            received: Some(session.delivered),
            received_bytes: Some(session.delivered_bytes),
            announcements: session.announcements,
            contradicted: session.contradicted,
            lost: (session.before == 0).then(|| session.sent_at_least().saturating_sub(session.delivered)),
            duplicated: Some(session.duplicates),
            reordered: Some(session.reordered),
            stale: Some(session.stale),
            msgs_per_s,
            mbit_per_s,
            jitter_us: (session.delivered > 1).then_some(session.jitter_ns / 1e3),
            same_machine: session.same_machine,
            negative_delays: Some(session.negative),
            delay_n: Some(delays.map_or(0, |delays| delays.n())),
            delay_mean_us: delays.and_then(|delays| delays.mean_us()),
            delay_p50_us: quantile(0.5),
            delay_p99_us: quantile(0.99),
            delay_max_us: delays.and_then(|delays| delays.max_us()),
            shortfall: None,
            to_peer: false,
        }
    }

    /// The ledger of a session without received messages, with this many sent. `None`: unknown.
    pub fn nothing(peer: SocketAddr, session: u16, sent: Option<u64>) -> Self {
        Self::new(&SessionReport { announced: sent, ..SessionReport::new(peer, session, 0, Duration::ZERO) })
    }

    /// The ledger of messages to `peer`, from its report. `None`: it did not report.
    pub fn reported(peer: SocketAddr, session: u16, report: &SendReport, reported: Option<&Self>) -> Self {
        let unknown = Self {
            received: None,
            duplicated: None,
            reordered: None,
            delay_n: None,
            ..Self::nothing(peer, session, None)
        };
        let received = reported.and_then(|reported| reported.lost.and(reported.received));
        Self {
            peer: canonical(peer),
            incarnation: Some(report.incarnation).filter(|&incarnation| incarnation != 0),
            sent: Some(report.sent),
            sent_at_least: report.sent,
            lost: received.map(|received| report.sent.saturating_sub(received)),
            shortfall: report.due.map(|_| report.shortfall()),
            to_peer: true,
            ..reported.cloned().unwrap_or(unknown)
        }
    }

    /// The same, of messages this way.
    pub fn going(self, direction: Direction) -> Self {
        Self { direction: Some(direction), ..self }
    }
}
