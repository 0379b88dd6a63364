//! What `weir recv` tells.

use std::net::SocketAddr;

use serde::Serialize;
use weir_program::output::say;
use weir_traffic::{
    ErrorCount, Interval, Parted, ReceiveReport, ReceiverSettings, ReverseReport, SessionReport, Total, Transport,
    in_words,
};
use weir_units::format;

use super::account::{Account, Direction};
use super::fragments::Fragments;

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
    /// Messages of sessions too many to tell apart.
    unlisted: u64,
    /// Announced ends of these.
    unlisted_announcements: u64,
    /// Sessions that gave way to others, and their messages; they are not in `sessions`.
    evicted: u64,
    evicted_messages: u64,
    #[serde(skip)]
    evicted_open: u64,
    /// TCP: connections of senders that had fallen silent, and gave way to others.
    evicted_connections: u64,
    /// Messages that --messages could not write, or not in time.
    not_written: u64,
    /// Dropped at this socket; null: the kernel does not tell.
    socket_drops: Option<u64>,
    receive_buffer_bytes: Option<usize>,
    /// UDP: what the kernel could not put together; null: it does not tell.
    fragments: Option<Fragments>,
    /// Askers for messages beyond the limits, and those of them that were forgotten, since there were so many; cookies that
    /// were forged or too old; requests that were one too many within a second.
    refused: u64,
    forgotten: u64,
    forged: u64,
    unanswered: u64,
    /// Requests for messages without --allow-reverse, and the first addresses that they came from.
    not_allowed: u64,
    not_allowed_to: &'a [SocketAddr],
    /// Of each sender that asked for messages, what was sent to it, and before that what it sent itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    directions: Vec<Account>,
    errors: &'a [ErrorCount],
    elapsed_s: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Told>,
}

impl<'a> Summary<'a> {
    /// That of a receiver that has ended; `told` is what was said of each interval, `unwritten` what a disk did not take.
    pub(super) fn new(
        settings: &ReceiverSettings,
        report: &'a ReceiveReport,
        told: Vec<Told>,
        unwritten: u64,
        fragments: Option<Fragments>,
    ) -> Self {
        let total = report.total();
        Self {
            transport: settings.transport,
            listen: settings.listen,
            sessions: report.sessions.iter().map(Account::new).collect(),
            total: Sum::of(&total),
            ends_alone: total.ends_alone,
            ends_alone_messages: total.ends_alone_messages,
            foreign: report.foreign,
            unlisted: report.unlisted,
            unlisted_announcements: report.unlisted_announcements,
            evicted: report.evicted,
            evicted_messages: report.evicted_messages,
            evicted_open: report.evicted_open,
            evicted_connections: report.evicted_connections,
            not_written: report.not_handed_over + unwritten,
            socket_drops: report.socket_drops,
            receive_buffer_bytes: report.receive_buffer,
            fragments,
            refused: report.requests.refused,
            forgotten: report.requests.forgotten,
            forged: report.requests.forged,
            unanswered: report.requests.unanswered,
            not_allowed: report.not_allowed,
            not_allowed_to: &report.not_allowed_to,
            directions: directions(report),
            errors: &report.errors,
            elapsed_s: (report.finished - report.started) as f64 / 1e9,
            intervals: told,
        }
    }

    /// Why a receiver that ended by silence has not ended well.
    pub(super) fn what_did_not_end(&self, settings: &ReceiverSettings) -> String {
        let idle = settings.until.idle.unwrap_or_default().as_secs_f64();
        let (listed, evicted) = (self.sessions.len() as u64, self.evicted_open);
        let open = self.sessions.iter().filter(|session| session.sent.is_none()).count();
        match open {
            0 if listed + self.evicted == self.ends_alone && self.directions.is_empty() => match self.ends_alone {
                0 => format!("nothing came within {}", format::span(idle)),
                ends => format!("nothing but {ends} announced ends came within {}", format::span(idle)),
            },
            0 if evicted == 0 => format!("nothing more came within {}, and others are waited for", format::span(idle)),
            0 => format!("{evicted} sessions gave way to others before their end was announced: raise --sessions"),
            _ => format!(
                "{open} of {listed} sessions have not announced their end, and nothing came of them for {}: counts are \
                 of what came",
                format::span(idle)
            ),
        }
    }
}

impl Summary<'_> {
    /// Why counts cannot be relied on that have come to an end; `None`: they can.
    pub(super) fn what_contradicts(&self) -> Option<String> {
        let contradicted = self.sessions.iter().filter(|session| session.is_contradicted()).count();
        let all = self.sessions.len();
        (contradicted > 0).then(|| {
            format!(
                "{contradicted} of {all} sessions told an end or a number that what came contradicts (forged, or a sender that was \
                 started again): counts are of what came"
            )
        })
    }
}

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

    fn print(&self) {
        let least = if self.sent.is_none() { "at least " } else { "" };
        let share = format::short(self.lost as f64 / self.sent_at_least.max(1) as f64 * 100.0);
        let rate = match (self.msgs_per_s, self.mbit_per_s) {
            (Some(messages), Some(mbit)) => format!(", {}/s, {} Mbit/s", format::short(messages), format::short(mbit)),
            _ => String::new(),
        };
        say!("all {} sessions", self.sessions);
        say!("  sent        {least}{}", self.sent_at_least);
        say!("  received    {}{rate}", self.received);
        say!("  lost        {least}{} ({share} %)", self.lost);
    }
}

/// Both directions, as far as there are both.
fn directions(report: &ReceiveReport) -> Vec<Account> {
    let accounts = |flow: &ReverseReport| {
        let ours = |session: &&SessionReport| (session.peer, session.session) == (flow.peer, flow.session);
        let session = report.sessions.iter().rfind(ours).filter(|_| flow.both);
        let shortfall = flow.account.and_then(|account| account.shortfall);
        let forward = session.map(|session| Account::new(session).going(Direction::Forward, shortfall));
        let reverse = Account::told(flow.peer, flow.session, &flow.sent, flow.account.as_ref());
        forward.into_iter().chain([reverse.going(Direction::Reverse, None)])
    };
    report.reverse.iter().flat_map(accounts).collect()
}

/// Why messages that were asked for have not come to a good end; `None`: they have.
pub(super) fn what_did_not_part(report: &ReceiveReport) -> Option<String> {
    let ended = |parted| report.reverse.iter().filter(|flow| flow.parted == parted).count();
    let (silent, untold, all) = (ended(Parted::Silent), ended(Parted::Untold), report.reverse.len());
    match (silent, untold) {
        (0, 0) => None,
        (0, untold) => Some(format!("{untold} of {all} that asked for messages have not told what they received")),
        (silent, _) => Some(format!(
            "{silent} of {all} that asked for messages fell silent: sending to them was ended, and what they received is unknown"
        )),
    }
}

/// Prints the account of every session.
pub(super) fn print(settings: &ReceiverSettings, report: &ReceiveReport, unwritten: u64, fragments: Option<Fragments>) {
    let total = report.total();
    let both = directions(report);
    let mut accounts = report.sessions.iter().map(Account::new).peekable();
    if accounts.peek().is_none() && both.is_empty() {
        say!("nothing received");
    }
    let told =
        |account: &Account| report.reverse.iter().any(|flow| flow.both && account.is_of(flow.peer, flow.session));
    accounts.filter(|account| !told(account)).for_each(|account| account.print());
    both.iter().for_each(Account::print);
    if let Some(sum) = Sum::of(&total).filter(|sum| sum.sessions > 1) {
        sum.print();
    }
    let foreign = if settings.transport == Transport::Tcp { "connections" } else { "datagrams" };
    if report.foreign > 0 {
        say!("foreign       {} {foreign} were not messages of `weir send`", report.foreign);
    }
    if report.unlisted > 0 {
        say!("unlisted      {} messages of further senders: raise --sessions", report.unlisted);
    }
    if report.not_allowed > 0 {
        let askers: Vec<String> = report.not_allowed_to.iter().map(ToString::to_string).collect();
        let (requests, askers) = (report.not_allowed, askers.join(", "));
        say!("not allowed   {requests} requests for messages, from {askers}: --allow-reverse grants them");
    }
    if total.ends_alone > 0 {
        let (ends, claimed) = (total.ends_alone, total.ends_alone_messages);
        say!(
            "end alone     {ends} sessions told their end, and not one of the {claimed} messages that they claim came: all lost, \
             or forged; in no sum"
        );
    }
    let requests = report.requests;
    if requests.refused > 0 {
        say!("refused       {} askers for messages beyond the limits", requests.refused);
    }
    if requests.forgotten > 0 {
        say!("forgotten     {} refused askers: each that asked again was counted again", requests.forgotten);
    }
    if requests.forged > 0 {
        say!("forged        {} cookies that were not of this address, or too old", requests.forged);
    }
    if requests.unanswered > 0 {
        say!("unanswered    {} requests for messages: too many within a second", requests.unanswered);
    }
    if report.evicted > 0 {
        let (sessions, messages) = (report.evicted, report.evicted_messages);
        say!(
            "gave way      {sessions} sessions, silent or ended, of {messages} messages, to others: raise --sessions to keep them"
        );
    }
    if report.evicted_connections > 0 {
        say!("gave way      {} connections that had fallen silent, to others", report.evicted_connections);
    }
    if report.not_handed_over > 0 {
        say!("not written   {} messages came faster than --messages could write them", report.not_handed_over);
    }
    if unwritten > 0 {
        say!("not written   {unwritten} messages: the file of --messages could not be written");
    }
    if let Some(drops) = report.socket_drops.filter(|&drops| drops > 0) {
        say!("socket drops  {drops} (this program was too slow: a larger --receive-buffer may help)");
    }
    if let Some(fragments) = fragments {
        fragments.print();
    }
    if report.partial_bytes > 0 {
        say!("cut off       {} bytes of messages that did not come to their end", report.partial_bytes);
    }
    if !report.errors.is_empty() {
        say!("errors        {}", in_words(&report.errors));
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
}

/// Prints the line of an interval, behind the names of its columns if it is the first.
pub(crate) fn print_interval(told: &Told, first: bool) {
    let sent = |text: String| if told.sent.is_some() { format!("{text:>8}  ") } else { String::new() };
    if first {
        say!(
            "{:>8}  {}{:>8}  {:>7}  {:>7}  {:>10}  {:>10}  {:>10}  {:>10}",
            "until",
            sent("sent".to_owned()),
            "received",
            "lost",
            "lost %",
            "Mbit/s",
            "delay",
            "max",
            "jitter"
        );
    }
    let known = |us: Option<f64>| us.map_or("-".to_owned(), format::duration);
    let due = told.received as f64 + told.lost.max(0) as f64;
    let share = if due > 0.0 { format::short(told.lost.max(0) as f64 / due * 100.0) } else { "-".to_owned() };
    let (delay, max, jitter) = (known(told.delay_mean_us), known(told.delay_max_us), known(told.jitter_us));
    say!(
        "{:>7.2}s  {}{:>8}  {:>7}  {share:>7}  {:>10}  {delay:>10}  {max:>10}  {jitter:>10}",
        told.end_s,
        sent(told.sent.unwrap_or(0).to_string()),
        told.received,
        told.lost,
        format::short(told.mbit_per_s),
    );
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
