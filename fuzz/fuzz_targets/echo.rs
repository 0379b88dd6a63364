//! Arbitrary bytes as the answer to an echo request: nothing shorter than one is.
//!
//! `cargo +nightly fuzz run echo` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_tee::foreign;

fuzz_target!(|input: (&[u8], u64, u16)| {
    let (message, token, sequence) = input;
    let answers = foreign::echo(message, token, sequence);
    assert!(message.len() >= 16 || answers == [false; 2]);
});
