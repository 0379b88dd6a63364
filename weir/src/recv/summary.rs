//! What `weir recv` prints at its end.

use std::net::SocketAddr;

use serde::Serialize;
use weir_program::output::say;
use weir_traffic::{
    Account, Direction, ErrorCount, Interval, Parted, ReceiveReport, ReceiverSettings, ReverseReport, Total, Transport,
    in_words,
};
use weir_units::format;

use super::account;
use crate::lines::{self, Line};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Summary<'a> {
    transport: Transport,
    listen: SocketAddr,
    sessions: Vec<Account>,
    /// All sessions together, if there are several, those that gave way included, `ends_alone` not.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Sum>,
    /// Sessions of which nothing but an announced end came, all lost or forged, and the messages that these claim.
    ends_alone: u64,
    ends_alone_messages: u64,
    /// Datagrams or connections that were not ours.
    foreign: u64,
    /// Sessions that gave way to others, and their messages; they are not in `sessions`.
    evicted: u64,
    evicted_messages: u64,
    #[serde(skip)]
    evicted_open: u64,
    /// TCP: connections of senders that gave way to others.
    evicted_connections: u64,
    /// Messages that --messages could not write, or not in time.
    not_written: u64,
    /// Dropped at this socket; null: the kernel does not tell.
    socket_drops: Option<u64>,
    receive_buffer_bytes: Option<usize>,
    partial_bytes: u64,
    /// Requests for messages that were refused.
    refused: u64,
    /// Of each sender that asked for messages, what was sent to it, and before that what it sent itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    directions: Vec<Account>,
    errors: &'a [ErrorCount],
    elapsed_s: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Told>,
}

impl<'a> Summary<'a> {
    /// That of a receiver that has ended; `told` is what was printed of each interval, `unwritten` what a disk did not take.
    pub(super) fn new(settings: &ReceiverSettings, report: &'a ReceiveReport, told: Vec<Told>, unwritten: u64) -> Self {
        let total = report.total();
        Self {
            transport: settings.transport,
            listen: settings.listen,
            sessions: report.sessions.iter().map(Account::new).collect(),
            total: Sum::of(&total),
            ends_alone: total.ends_alone,
            ends_alone_messages: total.ends_alone_messages,
            foreign: report.foreign,
            evicted: report.evicted,
            evicted_messages: report.evicted_messages,
            evicted_open: report.evicted_open,
            evicted_connections: report.evicted_connections,
            not_written: report.not_handed_over + unwritten,
            socket_drops: report.socket_drops,
            receive_buffer_bytes: report.receive_buffer,
            partial_bytes: report.partial_bytes,
            refused: report.refused,
            directions: report.reverse.iter().flat_map(directions).collect(),
            errors: &report.errors,
            elapsed_s: (report.finished - report.started) as f64 / 1e9,
            intervals: told,
        }
    }

    /// Why a receiver that ended by silence, or since all connections were closed, has not ended well.
    pub(super) fn what_did_not_end(&self, settings: &ReceiverSettings) -> String {
        let idle = format::span(settings.until.idle.unwrap_or_default().as_secs_f64());
        let (listed, evicted) = (self.sessions.len() as u64, self.evicted_open);
        match self.sessions.iter().filter(|session| session.sent.is_none()).count() {
            0 if listed + self.evicted == self.ends_alone && self.directions.is_empty() => match self.ends_alone {
                0 => format!("nothing came within {idle}"),
                ends => format!("nothing but {ends} announced ends came within {idle}"),
            },
            0 if evicted == 0 => format!("nothing more came within {idle}, and others are waited for"),
            0 => format!("{evicted} sessions gave way to others before their end was announced: raise --sessions"),
            open => format!(
                "{open} of {listed} sessions have not announced their end, and nothing more came of them: counts are of what came"
            ),
        }
    }

    /// Why counts cannot be relied on that have come to an end; `None`: they can.
    pub(super) fn what_contradicts(&self) -> Option<String> {
        let contradicted = self.sessions.iter().filter(|session| session.contradicted > 0).count();
        let all = self.sessions.len();
        (contradicted > 0).then(|| {
            format!(
                "{contradicted} of {all} sessions announced an end that what came contradicts (forged, or a sender that was \
                 started again): counts are of what came"
            )
        })
    }

    /// Prints the account of every session, and what else is to be known.
    pub(super) fn print(&self) {
        if self.sessions.is_empty() && self.directions.is_empty() {
            say!("nothing received");
        }
        let of_both = |session: &&Account| {
            self.directions.iter().any(|both| {
                both.direction == Some(Direction::Forward)
                    && (both.peer, both.session) == (session.peer, session.session)
            })
        };
        self.sessions.iter().filter(|session| !of_both(session)).chain(&self.directions).for_each(account::print);
        if let Some(sum) = self.total.as_ref().filter(|sum| sum.sessions > 1) {
            say!("all {} sessions", sum.sessions);
            lines::print(&serde_json::to_value(sum).unwrap_or_default(), "  ", SUM);
        }
        let foreign = match self.transport {
            Transport::Tcp => "+{foreign} connections were not of `weir send`",
            _ => "+{foreign} datagrams were not messages of `weir send`",
        };
        let object = serde_json::to_value(self).unwrap_or_default();
        lines::print(&object, "", &[("foreign", foreign)]);
        lines::print(&object, "", LINES);
        if !self.errors.is_empty() {
            say!("errors        {}", in_words(self.errors));
        }
    }
}

const LINES: &[Line<'_>] = &[
    (
        "end alone",
        "+{ends_alone} sessions announced their end, and none of the {ends_alone_messages} messages that they claim came: \
         all lost, or forged; in no sum",
    ),
    ("refused", "+{refused} requests for messages"),
    ("gave way", "+{evicted} sessions of {evicted_messages} messages to others: raise --sessions to keep them"),
    ("gave way", "+{evicted_connections} connections to others"),
    ("not written", "+{not_written} messages: --messages could not be written, or not in time"),
    ("socket drops", "+{socket_drops} (this program was too slow: a larger --receive-buffer may help)"),
    ("cut off", "+{partial_bytes} bytes of messages that did not come to their end"),
];

const SUM: &[Line<'_>] = &[
    ("sent", "{?sent}{sent_at_least}"),
    ("sent", "{!sent}at least {sent_at_least}"),
    ("received", "{received}[, {msgs_per_s}/s, {mbit_per_s} Mbit/s]"),
    ("lost", "{?sent}{lost} ({lost%sent_at_least} %)"),
    ("lost", "{!sent}at least {lost} ({lost%sent_at_least} %)"),
];

/// The sum of all sessions.
#[derive(Serialize)]
struct Sum {
    sessions: u64,
    /// Null: not all have announced their end.
    sent: Option<u64>,
    sent_at_least: u64,
    received: u64,
    received_bytes: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    /// Of the time from the first message to the last.
    msgs_per_s: Option<f64>,
    mbit_per_s: Option<f64>,
}

impl Sum {
    /// `None`: there are not several sessions, or nothing came but their ends.
    fn of(total: &Total) -> Option<Self> {
        let span = total.first_arrival.zip(total.last_arrival).map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
        let per_second = (span > 0.0).then(|| total.delivered.saturating_sub(1) as f64 / span);
        let bits = total.delivered_bytes as f64 * 8e-6 / total.delivered.max(1) as f64;
        (total.sessions > 0 && total.sessions + total.ends_alone > 1).then_some(Self {
            sessions: total.sessions,
            sent: (total.open == 0).then_some(total.sent_at_least),
            sent_at_least: total.sent_at_least,
            received: total.delivered,
            received_bytes: total.delivered_bytes,
            lost: total.lost,
            duplicated: total.duplicates,
            reordered: total.reordered,
            msgs_per_s: per_second,
            mbit_per_s: per_second.map(|rate| rate * bits),
        })
    }
}

/// Both directions of a flow, as far as there are both.
fn directions(flow: &ReverseReport) -> impl Iterator<Item = Account> + use<> {
    let forward = flow.forward.clone().map(|forward| forward.going(Direction::Forward, None));
    let reverse = Account::told(flow.peer, flow.session, &flow.sent, flow.account.as_ref());
    forward.into_iter().chain([reverse.going(Direction::Reverse, None)])
}

/// Why messages that were asked for have not come to a good end; `None`: they have.
pub(super) fn what_did_not_part(report: &ReceiveReport) -> Option<String> {
    let ended = |parted| report.reverse.iter().filter(|flow| flow.parted == parted).count();
    let (silent, untold, all) = (ended(Parted::Silent), ended(Parted::Untold), report.reverse.len());
    match (silent, untold) {
        (0, 0) => None,
        (0, untold) => Some(format!("{untold} of {all} that asked for messages have not reported what they received")),
        (silent, _) => Some(format!(
            "{silent} of {all} that asked for messages fell silent: sending to them was ended, and what they received is unknown"
        )),
    }
}

/// What came in an interval, of all senders. Null: unknown.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Told {
    /// When it began, after the receiver.
    start_s: f64,
    end_s: f64,
    /// Sent the other way, where both ends may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<u64>,
    received: u64,
    /// Negative where messages came that had been missing in an earlier interval.
    lost: i64,
    duplicated: u64,
    reordered: u64,
    mbit_per_s: f64,
    delay_mean_us: Option<f64>,
    delay_max_us: Option<f64>,
    jitter_us: Option<f64>,
}

impl Told {
    /// `both`: with what was sent the other way.
    pub(crate) fn new(interval: &Interval, both: bool) -> Self {
        let seconds = (interval.end - interval.start) as f64 / 1e9;
        Self {
            start_s: interval.start as f64 / 1e9,
            end_s: interval.end as f64 / 1e9,
            sent: both.then_some(interval.sent),
            received: interval.received,
            lost: interval.lost,
            duplicated: interval.duplicated,
            reordered: interval.reordered,
            mbit_per_s: interval.received_bytes as f64 * 8e-6 / seconds,
            delay_mean_us: interval.delay_mean_ns.map(|ns| ns / 1e3),
            delay_max_us: interval.delay_max_ns.map(|ns| ns as f64 / 1e3),
            jitter_us: interval.jitter_ns.map(|ns| ns / 1e3),
        }
    }

    /// Prints its line, after the names of the columns if it is the first.
    pub(crate) fn print(&self, first: bool) {
        let sent = |text: &str| if self.sent.is_some() { format!("{text:>8}  ") } else { String::new() };
        let row = |until: &str, sent: String, [received, lost, share, mbit, delay, max, jitter]: [&str; 7]| {
            say!(
                "{until:>8}  {sent}{received:>8}  {lost:>7}  {share:>7}  {mbit:>10}  {delay:>10}  {max:>10}  {jitter:>10}"
            );
        };
        if first {
            row("until", sent("sent"), ["received", "lost", "lost %", "Mbit/s", "delay", "max", "jitter"]);
        }
        let known = |us: Option<f64>| us.map_or("-".to_owned(), format::duration);
        let due = self.received as f64 + self.lost.max(0) as f64;
        let share = if due > 0.0 { format::short(self.lost.max(0) as f64 / due * 100.0) } else { "-".to_owned() };
        let (received, lost) = (self.received.to_string(), self.lost.to_string());
        let [delay, max, jitter] = [self.delay_mean_us, self.delay_max_us, self.jitter_us].map(known);
        let fields = [&received, &lost, &share, &format::short(self.mbit_per_s), &delay, &max, &jitter];
        let other_way = sent(&self.sent.unwrap_or(0).to_string());
        row(&format!("{:.2}s", self.end_s), other_way, fields.map(String::as_str));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_alone_stands_beside_the_sum() {
        let claim = u64::from(u32::MAX);
        let heard = Total { sessions: 1, sent_at_least: 20, delivered: 20, ..Total::default() };
        assert!(Sum::of(&heard).is_none(), "it is in the list of sessions");
        let sum = Sum::of(&Total { ends_alone: 1, ends_alone_messages: claim, ..heard }).unwrap();
        assert_eq!((sum.sessions, sum.sent, sum.received, sum.lost), (1, Some(20), 20, 0));
        assert!(Sum::of(&Total { ends_alone: 2, ends_alone_messages: claim, ..Total::default() }).is_none());
    }
}
