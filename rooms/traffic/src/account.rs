//! The account of the messages of one sender, as both ends print it and tell it to one another.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_program::clock::Nanos;

use crate::{SendReport, SessionReport};

/// The account of one sender and session, in the same words at either end. `None`: unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Where both ends tell of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The other end.
    pub peer: SocketAddr,
    /// Number of the session.
    pub session: u16,
    /// Drawn by the sender at its start; `None`: messages too short to carry it.
    pub incarnation: Option<u32>,
    /// As the sender announced it.
    pub sent: Option<u64>,
    /// The announced number, or the highest one seen and all before it.
    pub sent_at_least: u64,
    /// Different messages.
    pub received: Option<u64>,
    /// Their bytes.
    pub received_bytes: Option<u64>,
    /// Datagrams that announced the end, not in `received`.
    pub announcements: u64,
    /// Announced ends that what came contradicts, in no other count.
    pub contradicted: u64,
    /// Without an announced count: those missing before the last one that came. `None`, too: some came before it gave way.
    pub lost: Option<u64>,
    /// Messages received again.
    pub duplicated: Option<u64>,
    /// Messages that arrived after one with a higher number.
    pub reordered: Option<u64>,
    /// Too late to tell whether new or duplicated; counted in `lost`.
    pub stale: Option<u64>,
    /// From the first arrival to the last.
    pub msgs_per_s: Option<f64>,
    /// Payload bits, likewise.
    pub mbit_per_s: Option<f64>,
    /// RFC 3550, section 6.4.1.
    pub jitter_us: Option<f64>,
    /// Whether both ends have one clock.
    pub same_machine: Option<bool>,
    /// Messages received before they were sent, by a clock that claims to be ours; they have no delay.
    pub negative_delays: Option<u64>,
    /// Delays measured.
    pub delay_n: Option<u64>,
    /// Their mean.
    pub delay_mean_us: Option<f64>,
    /// Their median.
    pub delay_p50_us: Option<f64>,
    /// Of 99 % of them.
    pub delay_p99_us: Option<f64>,
    /// The largest.
    pub delay_max_us: Option<f64>,
    /// Messages that the sender's schedule had for the time, and that it did not send. Where both ends tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<u64>,
    /// Whether the messages are sent to `peer`.
    #[serde(skip)]
    pub to_peer: bool,
}

/// An IPv4 address that came over an IPv6 socket, as itself.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// Messages and payload Mbit a second, of so many messages and bytes from the first arrival to the last; `None`: no time passed.
pub fn rates(first: Nanos, last: Nanos, messages: u64, bytes: u64) -> (Option<f64>, Option<f64>) {
    // n messages span n - 1 intervals.
    let per_second = (messages > 1 && last > first).then(|| (messages - 1) as f64 * 1e9 / (last - first) as f64);
    (per_second, per_second.map(|rate| rate * bytes as f64 * 8e-6 / messages as f64))
}

/// Which way messages go, seen from the end that has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From it.
    Forward,
    /// To it.
    Reverse,
}

impl Account {
    /// What a receiver knows of a session.
    pub fn new(session: &SessionReport) -> Self {
        let (first, last) = (session.first_arrival, session.last_arrival);
        let (msgs_per_s, mbit_per_s) = rates(first, last, session.delivered, session.delivered_bytes);
        // Only a clock known to be ours gives delays.
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

    /// That of a session of which nothing came, of so many messages; `None`: unknown.
    pub fn nothing(peer: SocketAddr, session: u16, sent: Option<u64>) -> Self {
        Self::new(&SessionReport { announced: sent, ..SessionReport::new(peer, session, 0, Duration::ZERO) })
    }

    /// That of messages to `peer`, by what it says that it received; `None`: it never said.
    pub fn told(peer: SocketAddr, session: u16, report: &SendReport, told: Option<&Self>) -> Self {
        let unknown = Self {
            received: None,
            duplicated: None,
            reordered: None,
            delay_n: None,
            ..Self::nothing(peer, session, None)
        };
        let received = told.and_then(|told| told.lost.and(told.received));
        Self {
            peer: canonical(peer),
            incarnation: Some(report.incarnation).filter(|&incarnation| incarnation != 0),
            sent: Some(report.sent),
            sent_at_least: report.sent,
            lost: received.map(|received| report.sent.saturating_sub(received)),
            shortfall: report.due.map(|_| report.shortfall()),
            to_peer: true,
            ..told.cloned().unwrap_or(unknown)
        }
    }

    /// The same, of messages this way.
    pub fn going(self, direction: Direction) -> Self {
        Self { direction: Some(direction), ..self }
    }
}
