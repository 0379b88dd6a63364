//! What `weir recv` prints at its end.

use serde_json::{Value, json};
use weir_program::output::say;
use weir_traffic::{
    Account, Direction, Interval, Parted, ReceiveReport, ReceiverSettings, ReverseReport, Total, Transport, in_words,
    rates,
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
        // Sessions of which nothing but an announced end came, and the messages that these claim.
        "ends_alone": total.ends_alone,
        "ends_alone_messages": total.ends_alone_messages,
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
        object["directions"] = json!(report.reverse.iter().flat_map(directions).collect::<Vec<_>>());
    }
    if !intervals.is_empty() {
        object["intervals"] = json!(intervals);
    }
    object
}

/// All sessions together, those that gave way included; `None`: there are not several, or nothing came but their ends.
fn sum(total: &Total) -> Option<Value> {
    let times = total.first_arrival.zip(total.last_arrival).unwrap_or_default();
    let (msgs_per_s, mbit_per_s) = rates(times.0, times.1, total.delivered, total.delivered_bytes);
    (total.sessions > 0 && total.sessions + total.ends_alone > 1).then_some(json!({
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
    let directions: Vec<Account> = report.reverse.iter().flat_map(directions).collect();
    let of_both = |session: &Account| {
        directions.iter().any(|both| {
            both.direction == Some(Direction::Forward) && (both.peer, both.session) == (session.peer, session.session)
        })
    };
    let sessions = report.sessions.iter().map(Account::new).filter(|session| !of_both(session));
    sessions.for_each(|session| account::print(&session, transport));
    directions.iter().for_each(|direction| account::print(direction, transport));
    if object["total"]["sessions"].as_u64() > Some(1) {
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
    (
        "end alone",
        "+{ends_alone} sessions announced their end alone: the {ends_alone_messages} messages that they claim were lost, \
         forged, or counted before they gave way; in no sum",
    ),
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
    let (listed, evicted, ends) = (report.sessions.len() as u64, report.evicted_total.open, report.total().ends_alone);
    match report.sessions.iter().filter(|session| session.announced.is_none()).count() {
        0 if listed + report.evicted == ends && report.reverse.is_empty() => match ends {
            0 => format!("nothing came within {idle}"),
            ends => format!("nothing but {ends} announced ends came within {idle}"),
        },
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

/// Both directions of a flow, as far as there are both.
fn directions(flow: &ReverseReport) -> impl Iterator<Item = Account> + use<> {
    let forward = flow.forward.clone().map(|forward| forward.going(Direction::Forward));
    let reverse = Account::told(flow.peer, flow.session, &flow.sent, flow.account.as_ref());
    forward.into_iter().chain([reverse.going(Direction::Reverse)])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_alone_stands_beside_the_sum() {
        let claim = u64::from(u32::MAX);
        let heard = Total { sessions: 1, sent_at_least: 20, delivered: 20, ..Total::default() };
        assert!(sum(&heard).is_none(), "it is in the list of sessions");
        let both = sum(&Total { ends_alone: 1, ends_alone_messages: claim, ..heard }).unwrap();
        assert_eq!((&both["sessions"], &both["sent"], &both["received"]), (&json!(1), &json!(20), &json!(20)));
        assert_eq!(both["lost"], 0);
        assert!(sum(&Total { ends_alone: 2, ends_alone_messages: claim, ..Total::default() }).is_none());
    }
}
