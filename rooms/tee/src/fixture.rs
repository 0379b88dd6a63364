//! Ledgers for tests: made up, and closing.

use weir_forward::drops::{Drops, Reason};
use weir_forward::ledger::{Count, DestinationCount, Ledger, ListenerCount, Place, RuleCount};

fn count(datagrams: u64) -> Count {
    Count { datagrams, bytes: datagrams * 500 }
}

/// Two listeners, two rules; one destination that does well, one that is slow, one that does not resolve.
pub(super) fn busy() -> Ledger {
    at(60)
}

/// The same, `seconds` after the start.
pub(super) fn at(seconds: u64) -> Ledger {
    let received = 10_000 * seconds;
    let syslog = ListenerCount {
        name: "syslog".into(),
        address: "0.0.0.0:514".into(),
        received: count(received),
        matched: received,
        kernel_drops: Some(7 * seconds),
        asked_buffer: Some(4 << 20),
        receive_buffer: 8 << 20,
        receive_queue: Some(2 << 20),
        ..ListenerCount::default()
    };
    let flows = ListenerCount {
        name: "flows \"v9\"".into(),
        address: "[::]:2055".into(),
        received: count(30),
        matched: 20,
        unmatched: 9,
        truncated: 1,
        receive_buffer: 212_992,
        ..ListenerCount::default()
    };
    let all = RuleCount { name: "all".into(), matched: count(received), discarded: 0, copies: 2 * received };
    let dark = RuleCount { name: "rule 2".into(), matched: count(20), discarded: 20, copies: 0 };
    let archive = DestinationCount {
        name: "archive".into(),
        address: Place(Some("[2001:db8::5]:514".parse().unwrap())),
        healthy: Some(true),
        copies: count(received),
        sent: count(received),
        queue_limit: Some(8 << 20),
        calls: received / 40,
        joined: received / 2,
        ..DestinationCount::default()
    };
    let drops = Drops::count(|reason| match reason {
        Reason::QueueFull => 1_000 * seconds,
        Reason::Refused => 5,
        _ => 0,
    });
    let siem = DestinationCount {
        name: "siem".into(),
        address: Place(Some("10.0.0.5:514".parse().unwrap())),
        healthy: Some(false),
        copies: count(received),
        sent: count(received - drops.total() - 8_000),
        queued: 8_000,
        queued_bytes: 4_000_000,
        queue_limit: Some(4 << 20),
        drops,
        calls: received / 40,
        not_joined: Some("the interface cannot (EIO)".into()),
        icmp_errors: 3,
        ..DestinationCount::default()
    };
    let unresolved =
        DestinationCount { name: "late.example:514".into(), healthy: Some(true), ..DestinationCount::default() };
    Ledger {
        elapsed_s: seconds as f64,
        closed: true,
        listeners: vec![syslog, flows],
        rules: vec![all, dark],
        destinations: vec![archive, siem, unresolved],
    }
}
