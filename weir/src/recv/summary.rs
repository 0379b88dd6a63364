//! What `weir recv` prints at its end.

use serde_json::{Value, json};
use weir_program::output::say;
use weir_traffic::{
    Account, Direction, Interval, Parted, ReceiveReport, ReceiverSettings, Total, Transport, in_words, rates,
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
    let (msgs_per_s, mbit_per_s) = rates(times.0, times.1, total.delivered, total.delivered_bytes);
    (total.sessions > 1).then_some(json!({
        "sessions": total.sessions,
        // Null: not all have announced their end.
        "sent": (total.open == 0).then_some(total.sent_at_least),
        "sent_at_least": total.sent_at_least,
        "received": total.delivered,
        "received_bytes": total.delivered_bytes,
        "lost": total.lost,
        "duplicated": total.duplicates,
        "reordered": total.reordered,
        "msgs_per_s": msgs_per_s,
        "mbit_per_s": mbit_per_s,
    }))
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
        lines::print(&object["total"], "  ", SUM);
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

const SUM: &[Line<'_>] = &[
    ("sent", "{?sent}{sent_at_least}"),
    ("sent", "{!sent}at least {sent_at_least}"),
    ("received", "{received}[, {msgs_per_s}/s, {mbit_per_s} Mbit/s]"),
    ("lost", "{?sent}{lost} ({lost%sent_at_least} %)"),
    ("lost", "{!sent}at least {lost} ({lost%sent_at_least} %)"),
];

/// Why a receiver that ended by silence, or since all connections were closed, has not ended well.
pub(super) fn what_did_not_end(settings: &ReceiverSettings, report: &ReceiveReport) -> String {
    let idle = format::span(settings.until.idle.unwrap_or_default().as_secs_f64());
    let (listed, evicted) = (report.sessions.len() as u64, report.evicted_total.open);
    match report.sessions.iter().filter(|session| session.announced.is_none()).count() {
        0 if listed == 0 && report.reverse.is_empty() => format!("nothing came within {idle}"),
        0 if evicted == 0 => format!("nothing more came within {idle}, and others are waited for"),
        0 => format!("sessions gave way {evicted} times before their end was announced: raise --sessions"),
        open => format!(
            "{open} of {listed} sessions have not announced their end, and nothing more came of them: counts are of what came"
        ),
    }
}

/// Why counts cannot be relied on that have come to an end; `None`: they can.
pub(super) fn what_contradicts(report: &ReceiveReport) -> Option<String> {
    let contradicted = report.sessions.iter().filter(|session| session.contradicted > 0).count();
    let all = report.sessions.len();
    (contradicted > 0).then(|| {
        format!(
            "{contradicted} of {all} sessions announced an end that what came contradicts (forged, or a sender that was \
             started again): counts are of what came"
        )
    })
}

/// Those of all flows, as far as there are both.
fn directions(report: &ReceiveReport) -> impl Iterator<Item = &Account> {
    report.reverse.iter().flat_map(|flow| &flow.directions)
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
