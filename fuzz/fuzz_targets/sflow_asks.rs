//! Arbitrary text as a question of the page of `weir sflow`: refused, or understood.
//!
//! `cargo +nightly fuzz run sflow_asks` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_sflow::api::is_question;

fuzz_target!(|text: &str| {
    let _ = is_question(text);
});
