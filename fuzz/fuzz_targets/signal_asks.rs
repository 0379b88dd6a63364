//! Arbitrary text as a question of the page of `weir monitor serve`, and as an expression: refused, or understood.
//!
//! `cargo +nightly fuzz run signal_asks` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_monitor::foreign::asks;
use weir_units::expression::Expression;

fuzz_target!(|text: &str| {
    let _ = asks(text);
    match Expression::parse(text, |_| Ok(())) {
        Ok(read) => drop(read.evaluate(&vec![1.5; read.names().len()], &mut Vec::new())),
        Err(error) => assert!(text.is_char_boundary(error.at) && !error.message.contains(char::is_control)),
    }
});
