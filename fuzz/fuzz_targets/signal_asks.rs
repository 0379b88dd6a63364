//! Arbitrary text as a question of the page of `weir monitor serve`: refused, or understood.
//!
//! `cargo +nightly fuzz run signal_asks` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_monitor::foreign::asks;

fuzz_target!(|text: &str| {
    let _ = asks(text);
});
