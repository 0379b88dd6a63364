//! Arbitrary text as the accounts of two hosts: refused in one line, or joined and told.
//!
//! `cargo +nightly fuzz run account` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_loss::foreign;
use weir_program::output::in_one_line;

// The sender's ends with the first line's end.
fuzz_target!(|text: &str| {
    let (sender, receiver) = text.split_once('\n').unwrap_or((text, text));
    if let Err(error) = foreign::account(sender, receiver) {
        assert!(!in_one_line(&error).contains(char::is_control));
    }
    let report = serde_json::from_str(text).unwrap_or_default();
    let _ = weir_loss::account::SentSession::from_json(serde_json::Value::clone(&report));
    let _ = weir_loss::account::ReceivedSession::from_json(report);
});
