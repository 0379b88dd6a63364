//! What `weir recv` prints at its end.

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

/// What `--json` prints; `intervals` is what was printed of each, `unwritten` what a disk did not take. Null: unknown.
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
        // Announced ends of sessions of which nothing came.
        "ends_alone": report.ends_alone,
        "foreign": report.foreign,
        // How often a session gave way to another, and the messages of these, which are not in `sessions`.
        "evicted": report.evicted,
        "evicted_messages": report.evicted_messages,
        "evicted_connections": report.evicted_connections,
        // Messages that the file of --messages does not have.
        "not_written": unwritten,
        "socket_drops": report.socket_drops,
        "receive_buffer_bytes": report.receive_buffer,
        "partial_bytes": report.partial_bytes,
        // Requests for messages that were refused.
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

/// All sessions together, those that gave way included; `None`: there are not several.
fn sum(total: &Total) -> Option<Value> {
    let times = total.first_arrival.zip(total.last_arrival).unwrap_or_default();
    let mut sum = json!(total);
    // Null: not all have announced their end.
    sum["sent"] = (total.open == 0).then_some(total.sent_at_least).into();
    let (msgs_per_s, mbit_per_s) = rates(times.0, times.1, total.received, total.received_bytes);
    (sum["msgs_per_s"], sum["mbit_per_s"]) = (msgs_per_s.into(), mbit_per_s.into());
    (total.sessions > 1).then_some(sum)
}

/// Prints the account of every session, and what else is to be known.
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
        Transport::Tcp => "+{foreign} connections or messages were not of `weir send`, or of others than are wanted",
        _ => "+{foreign} datagrams were not messages of `weir send`, or of others than are wanted",
    };
    lines::print(object, "", &[("foreign", foreign)]);
    lines::print(object, "", LINES);
    if !report.errors.is_empty() {
        say!("errors        {}", in_words(&report.errors));
    }
}

const LINES: &[Line<'_>] = &[
    ("end alone", "+{ends_alone} announced ends of sessions of which nothing came: all was lost, or they are forged"),
    ("refused", "+{refused} requests for messages"),
    ("gave way", "+{evicted} times a session, with {evicted_messages} messages in all, to another: raise --sessions"),
    ("gave way", "+{evicted_connections} connections to others"),
    NOT_WRITTEN,
    ("socket drops", "+{socket_drops} (this program was too slow: a larger --receive-buffer may help)"),
    ("cut off", "+{partial_bytes} bytes of messages that did not come to their end"),
];

/// Those of all flows, as far as there are both.
fn directions(report: &ReceiveReport) -> impl Iterator<Item = &Account> {
    report.reverse.iter().flat_map(|flow| &flow.directions)
}

/// Why a receiver has not come to a good end; `None`: it has.
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
        (Ended::Idle | Ended::Closed, 0) if listed == 0 && flows == 0 => format!("nothing came within {idle}"),
        (Ended::Idle | Ended::Closed, 0) if evicted == 0 => {
            format!("nothing more came within {idle}, and others are waited for")
        }
        (Ended::Idle | Ended::Closed, 0) => {
            format!("sessions gave way {evicted} times before their end was announced: raise --sessions")
        }
        (Ended::Idle | Ended::Closed, open) => format!(
            "{open} of {listed} sessions have not announced their end, and nothing more came of them: counts are of what came"
        ),
        _ if silent > 0 => format!(
            "{silent} of {flows} that asked for messages fell silent: sending to them was ended, and what they received is unknown"
        ),
        _ if untold > 0 => {
            format!("{untold} of {flows} that asked for messages have not reported what they received")
        }
        _ if contradicted > 0 => format!(
            "{contradicted} of {listed} sessions announced an end that what came contradicts (forged, or a sender that was \
             started again): counts are of what came"
        ),
        _ => return None,
    })
}
