//! Any text as keys, values and filter of a flow: refused with a place in it, or compiled and shown a packet.
//!
//! `cargo +nightly fuzz run flow_definition` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_sflow::flows::Definition;

fuzz_target!(|input: (&str, &str, &str, &str)| {
    let (keys, value, values, filter) = input;
    let [keys, value, values, filter] = [keys, value, values, filter].map(str::to_owned);
    if let Err(mistake) = (Definition { keys, value, values, filter, ..Definition::default() }).check() {
        assert!(mistake.syntax.at <= mistake.text.len());
        assert!(!mistake.to_string().chars().any(char::is_control), "{mistake:?}");
    }
});
