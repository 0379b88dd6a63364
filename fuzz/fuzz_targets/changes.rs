//! Arbitrary text as the changes of `weir loss check --apply`: refused in one line, or read as it was written.
//!
//! `cargo +nightly fuzz run changes` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_loss::foreign;
use weir_program::output::in_one_line;

fuzz_target!(|text: &str| {
    match foreign::changes(text) {
        Ok(written) => assert_eq!(foreign::changes(&written).unwrap(), written),
        Err(error) => assert!(!in_one_line(&error).contains(char::is_control)),
    }
});
