//! Arbitrary bytes as control messages: read to their end or to the first malformed one, and never beyond.
//!
//! `cargo +nightly fuzz run control` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_dgram::control::{Ancillary, Messages, parse_error};

fuzz_target!(|bytes: &[u8]| {
    let header = size_of::<usize>() + 8;
    let all: usize = Messages::new(bytes).map(|message| header + message.data.len()).sum();
    assert!(all <= bytes.len());
    let beside = Ancillary::parse(bytes);
    assert_eq!(beside.local.is_some(), beside.interface.is_some());
    let _ = parse_error(bytes);
});
