//! The result of `weir recv`.

use serde_json::{Value, json};
use weir_program::output::say;
use weir_traffic::{
    Account, Direction, Ended, Interval, Parted, ReceiveReport, ReceiverSettings, SessionReport, Total, Transport,
    in_words, rates,
};
use weir_units::format;

use super::account;
use crate::lines::{self, Line};
use crate::send::summary::NOT_WRITTEN;

/// The object of `--json`. `unwritten`: messages that the file of `--messages` lacks. Null: unknown.
pub(super) fn object(
    settings: &ReceiverSettings,
    report: &ReceiveReport,
    intervals: &[Interval],
    unwritten: u64,
) -> Value {
    let total = report.total();
    let mut object = json!({
        "transport": settings.transport,
        "listen": settings.listen,
        "sessions": report.sessions.iter().map(Account::new).collect::<Vec<_>>(),
        // Announced ends of sessions without messages.
        "ends_alone": report.ends_alone,
        "foreign": report.foreign,
        // How often a session was evicted, and their messages, which are not in `sessions`.
        "evicted": report.evicted,
        "evicted_messages": report.evicted_messages,
        "evicted_connections": report.evicted_connections,
        // Messages that the file of --messages lacks.
        "not_written": unwritten,
        "socket_drops": report.socket_drops,
        "receive_buffer_bytes": report.receive_buffer,
        "partial_bytes": report.partial_bytes,
        // Refused requests for messages.
        "refused": report.refused,
        "errors": report.errors,
        "elapsed_s": (report.finished - report.started) as f64 / 1e9,
    });
    if let Some(sum) = sum(&total) {
        object["total"] = sum;
    }
    if !report.reverse.is_empty() {
        object["directions"] = json!(directions(report).collect::<Vec<_>>());
    }
    if !intervals.is_empty() {
        object["intervals"] = json!(intervals);
    }
    object
}

/// The sum of all sessions, including evicted ones. `None`: there are not several.
fn sum(total: &Total) -> Option<Value> {
    let times = total.first_arrival.zip(total.last_arrival).unwrap_or_default();
    let mut sum = json!(total);
    // Null: some sessions have not announced their end.
    sum["sent"] = (total.open == 0).then_some(total.sent_at_least).into();
    let (msgs_per_s, mbit_per_s) = rates(times.0, times.1, total.received, total.received_bytes);
    (sum["msgs_per_s"], sum["mbit_per_s"]) = (msgs_per_s.into(), mbit_per_s.into());
    (total.sessions > 1).then_some(sum)
}

/// Prints the report of every session and the remarks.
pub(super) fn print(object: &Value, report: &ReceiveReport, transport: Transport) {
    if report.sessions.is_empty() && report.reverse.is_empty() {
        say!("nothing received");
    }
    let of_both = |session: &Account| {
        directions(report).any(|both| {
            both.direction == Some(Direction::Forward) && (both.peer, both.session) == (session.peer, session.session)
        })
    };
    let sessions = report.sessions.iter().map(Account::new).filter(|session| !of_both(session));
    sessions.for_each(|session| account::print(&session, transport));
    directions(report).for_each(|direction| account::print(direction, transport));
    if object["total"].is_object() {
        say!("all {} sessions", object["total"]["sessions"]);
        lines::print(&object["total"], "  ", account::LINES);
    }
    let foreign = match transport {
        Transport::Tcp => {
            "+{foreign} connections or messages were not from `weir send`, or from senders not wanted here"
        }
        _ => "+{foreign} datagrams were not from `weir send`, or from senders not wanted here",
    };
    lines::print(object, "", &[("foreign", foreign)]);
    lines::print(object, "", LINES);
    if !report.errors.is_empty() {
        say!("errors        {}", in_words(&report.errors));
    }
}

const LINES: &[Line<'_>] = &[
    ("end alone", "+{ends_alone} announced ends of sessions without messages: all were lost, or the ends are forged"),
    ("refused", "+{refused} requests for messages"),
    ("evicted", "+{evicted} sessions with {evicted_messages} messages in all. Raise --sessions."),
    ("evicted", "+{evicted_connections} connections"),
    NOT_WRITTEN,
    ("socket drops", "+{socket_drops}: this program was too slow. Try a larger --receive-buffer."),
    ("cut off", "+{partial_bytes} bytes of incomplete messages"),
];

/// The directions of all flows that have both.
fn directions(report: &ReceiveReport) -> impl Iterator<Item = &Account> {
    report.reverse.iter().flat_map(|flow| &flow.directions)
}

/// Why a receiver failed. `None`: it did not.
pub(super) fn why_not_well(settings: &ReceiverSettings, report: &ReceiveReport) -> Option<String> {
    let idle = format::span(settings.until.idle.unwrap_or_default().as_secs_f64());
    let count = |of: fn(&SessionReport) -> bool| report.sessions.iter().filter(|session| of(session)).count();
    let (open, contradicted) = (count(|of| of.announced.is_none()), count(|of| of.contradicted > 0));
    let parted = |parted| report.reverse.iter().filter(|flow| flow.parted == parted).count();
    let (silent, untold) = (parted(Parted::Silent), parted(Parted::Untold));
    let (listed, evicted, flows) = (report.sessions.len(), report.evicted_total.open, report.reverse.len());
    Some(match (report.ended, open) {
        (Ended::Failed, _) => {
            format!("receive on {} {}: {}", settings.transport, settings.listen, in_words(&report.errors))
        }
        (Ended::Idle | Ended::Closed, 0) if listed == 0 && flows == 0 => format!("nothing received within {idle}"),
        (Ended::Idle | Ended::Closed, 0) if evicted == 0 => {
            format!("nothing more received within {idle}, but more senders were expected")
        }
        (Ended::Idle | Ended::Closed, 0) => {
            format!("sessions were evicted {evicted} times before their end was announced. Raise --sessions.")
        }
        (Ended::Idle | Ended::Closed, open) => {
            format!("{open} of {listed} sessions fell silent without announcing their end: counts cover only what came")
        }
        _ if silent > 0 => format!("{silent} of {flows} reverse clients fell silent: what they received is unknown"),
        _ if untold > 0 => {
            format!("{untold} of {flows} reverse clients did not report what they received")
        }
        _ if contradicted > 0 => format!(
            "{contradicted} of {listed} sessions announced an end that contradicts their messages (forged, or a restarted \
             sender): counts cover only what came"
        ),
        _ => return None,
    })
}
