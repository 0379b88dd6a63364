//! The report about the messages of one sender, as text.

use serde_json::Value;
use weir_program::output::say;
use weir_traffic::{Account, Direction, Transport};

use crate::lines::{self, Line};

/// Prints it as a block.
pub(crate) fn print(account: &Account, transport: Transport) {
    let way = if account.to_peer { "to" } else { "from" };
    let direction = match account.direction {
        None => "",
        Some(Direction::Forward) => "forward, ",
        Some(Direction::Reverse) => "reverse, ",
    };
    say!("{direction}session {} {way} {}", account.session, account.peer);
    let mut object = serde_json::to_value(account).unwrap_or(Value::Null);
    if transport == Transport::Tcp && account.lost > Some(0) {
        object["not_delivered"] = object["lost"].take();
    }
    lines::print(&object, "  ", LINES);
    if account.received.is_some() {
        lines::print(&object, "  ", &[("delay", unknown_delay(account).unwrap_or(DELAY))]);
    }
    lines::print(&object, "  ", REST);
}

fn unknown_delay(account: &Account) -> Option<&'static str> {
    match account.same_machine {
        Some(true) if account.delay_mean_us.is_some() => None,
        Some(true) if account.negative_delays > Some(0) => Some("unknown"),
        Some(false) => Some("unknown: the sender has another clock (another machine or time namespace)"),
        None if account.received > Some(0) => Some("unknown: messages below 40B do not identify the sender's clock"),
        _ => Some("unknown: nothing was received"),
    }
}

pub(super) const LINES: &[Line<'_>] = &[
    ("sent", "{sent}"),
    ("sent", "{!sent}unknown, at least {sent_at_least}: the end was not announced"),
    ("shortfall", "+{shortfall} scheduled messages were not sent"),
    ("received", "{!received}unknown: the other end did not report it"),
    ("received", "{received}"),
    ("lost", "{?sent}{lost} ({lost%sent_at_least} %)"),
    ("lost", "{!sent}at least {lost} ({lost%sent_at_least} %)"),
    (
        "cut off",
        "{not_delivered} ({not_delivered%sent_at_least} %) not delivered: the connection broke or was too slow",
    ),
    (
        "lost",
        "{?received}{!lost}{!not_delivered}unknown: this session was evicted before, and its earlier messages are only in the sum",
    ),
    ("duplicated", "{duplicated}"),
    ("reordered", "{reordered}"),
    ("no end", "+{contradicted} announced ends contradict the messages: forged, or from another run of the sender"),
    ("too late", "+{stale}, duplicates or counted as lost"),
    ("throughput", "{msgs_per_s}/s, {mbit_per_s} Mbit/s"),
    ("jitter", "{jitter_us}"),
];

const DELAY: &str =
    "mean {delay_mean_us}[, p50 {delay_p50_us}][, p99 {delay_p99_us}], max {delay_max_us} (n {delay_n})";

const REST: &[Line<'_>] = &[
    (
        "runs",
        "+{duplicated}{!incarnation} duplicates may be from another run: messages below 40B do not identify their run",
    ),
    (
        "clock",
        "+{negative_delays} messages arrived before they were sent: the sender has another clock, so no delay is valid",
    ),
];
