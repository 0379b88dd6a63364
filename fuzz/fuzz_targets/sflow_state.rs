//! Arbitrary bytes as the state of `weir sflow`: refused in one line. Every other input gets a right beginning and checksum.
//!
//! `cargo +nightly fuzz run sflow_state` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_sflow::state::check;

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (right, bytes) = input;
    let file = if right {
        let mut file = b"weir sflow state 6\n".to_vec();
        file.extend(bytes);
        file.extend(crc32fast::hash(&file).to_le_bytes());
        file
    } else {
        bytes
    };
    if let Err(why) = check(&file) {
        assert_eq!(why.lines().count(), 1, "{why}");
    }
});
