//! The account of the messages of one sender.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use weir_program::output::say;
use weir_traffic::{Machine, SendReport, SessionReport};
use weir_units::format;

/// The account of one sender and session, in the same words at either end. Null: unknown.
#[derive(Clone, Serialize)]
pub(crate) struct Account {
    /// Where both ends tell of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<Direction>,
    peer: SocketAddr,
    session: u16,
    /// Drawn by the sender at its start; null: messages too short to tell.
    incarnation: Option<u32>,
    /// As the sender announced it.
    pub(super) sent: Option<u64>,
    sent_at_least: u64,
    received: Option<u64>,
    received_bytes: Option<u64>,
    /// Datagrams that announced the end, not in `received`.
    announcements: u64,
    /// Announced ends, and numbers, that what came contradicts, in no other count.
    contradicted: u64,
    /// Without an announced count: those missing before the last one that came.
    lost: Option<u64>,
    duplicated: Option<u64>,
    reordered: Option<u64>,
    /// Too late to tell whether new or duplicated; counted in `lost`.
    stale: Option<u64>,
    msgs_per_s: Option<f64>,
    mbit_per_s: Option<f64>,
    jitter_us: Option<f64>,
    same_machine: Option<bool>,
    /// Messages received before they were sent, by a clock that claims to be ours; they have no delay.
    negative_delays: Option<u64>,
    delay_n: Option<u64>,
    delay_mean_us: Option<f64>,
    delay_p50_us: Option<f64>,
    delay_p99_us: Option<f64>,
    delay_max_us: Option<f64>,
    /// Messages that the sender's schedule had for the time, and that it did not send. Where both ends tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    shortfall: Option<u64>,
    /// Whether the messages are sent to `peer`.
    #[serde(skip)]
    to_peer: bool,
}

/// Which way messages go, seen from whoever has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// From it.
    Forward,
    /// To it.
    Reverse,
}

impl Account {
    pub(crate) fn new(session: &SessionReport) -> Self {
        // n messages span n - 1 intervals.
        let span = (session.last_arrival - session.first_arrival) as f64 / 1e9;
        let per_second = (session.delivered > 1 && span > 0.0).then(|| (session.delivered - 1) as f64 / span);
        let bits = session.delivered_bytes as f64 * 8e-6 / session.delivered.max(1) as f64;
        let same_machine = match session.machine {
            Machine::Same => Some(true),
            Machine::Other => Some(false),
            Machine::Unknown => None,
        };
        // Only a clock known to be ours gives delays.
        let delays = (same_machine == Some(true)).then(|| session.delays.delays());
        let quantile = |q| delays.and_then(|delays| delays.quantile_us(q)).map(|estimate| estimate.value);
        Self {
            direction: None,
            peer: session.peer,
            session: session.session,
            incarnation: Some(session.incarnation).filter(|&incarnation| incarnation != 0),
            sent: session.announced,
            sent_at_least: session.sent_at_least(),
            received: Some(session.delivered),
            received_bytes: Some(session.delivered_bytes),
            announcements: session.announcements,
            contradicted: session.contradicted,
            lost: Some(session.sent_at_least().saturating_sub(session.delivered)),
            duplicated: Some(session.duplicates),
            reordered: Some(session.reordered),
            stale: Some(session.stale),
            msgs_per_s: per_second,
            mbit_per_s: per_second.map(|rate| rate * bits),
            jitter_us: (session.delivered > 1).then_some(session.jitter_ns / 1e3),
            same_machine,
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

    /// That of messages to `peer`, as that told it; `None`: it never did.
    pub(crate) fn told(
        peer: SocketAddr,
        session: u16,
        sent: &SendReport,
        told: Option<&weir_traffic::Account>,
    ) -> Self {
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        let received = told.map(|told| told.received);
        let span = told.map_or(0.0, |told| told.span as f64 / 1e9);
        let per_second = received.filter(|&n| n > 1 && span > 0.0).map(|n| (n - 1) as f64 / span);
        let bits = sent.sent_bytes as f64 * 8e-6 / sent.sent.max(1) as f64;
        Self {
            direction: None,
            peer,
            session,
            incarnation: Some(sent.incarnation).filter(|&incarnation| incarnation != 0),
            sent: Some(sent.sent),
            sent_at_least: sent.sent,
            received,
            received_bytes: told.map(|told| told.received_bytes),
            announcements: sent.announcements,
            contradicted: 0,
            lost: received.map(|received| sent.sent.saturating_sub(received)),
            duplicated: told.map(|told| told.duplicated),
            reordered: told.map(|told| told.reordered),
            stale: told.map(|told| told.stale),
            msgs_per_s: per_second,
            mbit_per_s: per_second.map(|rate| rate * bits),
            jitter_us: us(told.and_then(|told| told.jitter)),
            same_machine: told.and_then(|told| told.same_machine),
            negative_delays: told.map(|told| told.negative),
            delay_n: told.map(|told| told.delay_n),
            delay_mean_us: us(told.and_then(|told| told.delay_mean)),
            delay_p50_us: us(told.and_then(|told| told.delay_p50)),
            delay_p99_us: us(told.and_then(|told| told.delay_p99)),
            delay_max_us: us(told.and_then(|told| told.delay_max)),
            shortfall: sent.due.map(|_| sent.shortfall()),
            to_peer: true,
        }
    }

    /// That of a session of which nothing came.
    pub(crate) fn nothing(peer: SocketAddr, session: u16) -> Self {
        Self::new(&SessionReport::new(peer, session, 0, Duration::ZERO))
    }

    /// The same, of messages this way, of which the sender has told that it did not send so many.
    pub(crate) fn going(self, direction: Direction, shortfall: Option<u64>) -> Self {
        // As the ends tell one another: to a nanosecond.
        let rounded = |us: Option<f64>| us.map(|us| (us * 1e3).round() / 1e3);
        Self {
            direction: Some(direction),
            shortfall: self.shortfall.or(shortfall),
            jitter_us: rounded(self.jitter_us),
            delay_mean_us: rounded(self.delay_mean_us),
            delay_p50_us: rounded(self.delay_p50_us),
            delay_p99_us: rounded(self.delay_p99_us),
            delay_max_us: rounded(self.delay_max_us),
            ..self
        }
    }

    /// Whether it is of messages of this session from there.
    pub(crate) fn is_of(&self, peer: SocketAddr, session: u16) -> bool {
        (self.peer, self.session) == (peer, session)
    }

    /// Whether an end was announced that was none.
    pub(super) fn is_contradicted(&self) -> bool {
        self.contradicted > 0
    }

    pub(crate) fn print(&self) {
        let way = if self.to_peer { "to" } else { "from" };
        match self.direction {
            None => say!("session {} {way} {}", self.session, self.peer),
            Some(Direction::Forward) => say!("forward, session {} {way} {}", self.session, self.peer),
            Some(Direction::Reverse) => say!("reverse, session {} {way} {}", self.session, self.peer),
        }
        match self.sent {
            Some(sent) => say!("  sent        {sent}"),
            None => say!("  sent        unknown, at least {}: the end was not announced", self.sent_at_least),
        }
        if let (Some(shortfall), Some(sent)) = (self.shortfall.filter(|&shortfall| shortfall > 0), self.sent) {
            let share = format::short(shortfall as f64 / (sent + shortfall) as f64 * 100.0);
            say!("  shortfall   {shortfall} messages that were due were not sent ({share} %)");
        }
        let (Some(received), Some(lost)) = (self.received, self.lost) else {
            say!("  received    unknown: the other end has not told");
            return;
        };
        say!("  received    {received}");
        let least = if self.sent.is_none() { "at least " } else { "" };
        let share = lost as f64 / self.sent_at_least.max(1) as f64 * 100.0;
        say!("  lost        {least}{lost} ({} %)", format::short(share));
        say!("  duplicated  {}", self.duplicated.unwrap_or(0));
        say!("  reordered   {}", self.reordered.unwrap_or(0));
        if self.contradicted > 0 {
            say!(
                "  no end      {} announced ends or numbers contradict what came: forged, or of another run of the sender",
                self.contradicted
            );
        }
        if !self.to_peer && self.incarnation.is_none() && self.duplicated > Some(0) {
            say!("  runs        messages below 40B do not tell a sender from its next run: duplicates may be such");
        }
        if let Some(stale) = self.stale.filter(|&stale| stale > 0) {
            say!("  too late    {stale}, duplicated or counted as lost");
        }
        if let (Some(messages), Some(mbit)) = (self.msgs_per_s, self.mbit_per_s) {
            say!("  throughput  {}/s, {} Mbit/s", format::short(messages), format::short(mbit));
        }
        if let Some(jitter) = self.jitter_us {
            say!("  jitter      {}", format::duration(jitter));
        }
        say!("  delay       {}", self.delay());
        if let Some(negative) = self.negative_delays.filter(|&negative| negative > 0) {
            say!(
                "  clock       {negative} messages were received before they were sent: the sender's clock is not ours, and \
                 no delay holds"
            );
        }
    }

    fn delay(&self) -> String {
        match (self.same_machine, self.delay_mean_us, self.delay_max_us) {
            (Some(true), Some(mean), Some(max)) => {
                let quantile = |name, us: Option<f64>| match us {
                    Some(us) => format!(", {name} {}", format::duration(us)),
                    None => String::new(),
                };
                let (p50, p99) = (quantile("p50", self.delay_p50_us), quantile("p99", self.delay_p99_us));
                let (mean, max) = (format::duration(mean), format::duration(max));
                format!("mean {mean}{p50}{p99}, max {max} (n {})", self.delay_n.unwrap_or(0))
            }
            (Some(true), ..) if self.negative_delays > Some(0) => "unknown".to_owned(),
            (Some(true), ..) => "unknown: nothing was received".to_owned(),
            (Some(false), ..) => {
                "unknown: the sender runs on another machine, or in another time namespace, whose clock cannot be compared"
                    .to_owned()
            }
            (None, ..) if self.received == Some(0) => "unknown: nothing was received".to_owned(),
            (None, ..) => "unknown: messages below 40B do not tell whose clock they carry".to_owned(),
        }
    }
}
