//! Arbitrary bytes as a stream of messages: the same messages wherever the reads cut it.
//!
//! `cargo +nightly fuzz run stream` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_traffic::foreign::stream;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let whole = stream([bytes]);
    assert_eq!(stream(bytes.chunks(usize::from(piece).max(1))), whole);
    let length: usize = whole.into_iter().flatten().map(|(_, _, length)| length).sum();
    assert!(length <= bytes.len());
});
