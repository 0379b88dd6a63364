//! Arbitrary datagrams at arbitrary times: each is counted once, whoever sent them.
//!
//! `cargo +nightly fuzz run sessions` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_traffic::foreign;

fuzz_target!(|datagrams: Vec<(u32, &[u8])>| {
    let count = datagrams.len() as u64;
    let report = foreign::sessions(datagrams.into_iter().map(|(after, bytes)| (after.into(), bytes)));
    let report = report.expect("an event descriptor");
    let listed: u64 = report
        .sessions
        .iter()
        .map(|session| {
            assert!(session.delivered <= session.sent_at_least());
            session.delivered + session.duplicates + session.stale + session.announcements
        })
        .sum();
    assert_eq!(listed + report.foreign + report.evicted_messages, count);
});
