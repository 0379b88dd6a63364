//! Arbitrary bytes as a capture: packets lie within it, and every step goes on or asks for more.
//!
//! `cargo +nightly fuzz run pcap` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_wire::pcap::{Reader, Step};

fuzz_target!(|bytes: &[u8]| {
    let (mut reader, mut rest, mut idle) = (Reader::new(), bytes, 0);
    while let Ok(Step::Used(used, packet)) = reader.step(rest) {
        if let Some(packet) = packet {
            assert!(packet.bytes.len() < used);
            let _ = packet.link.ip(packet.bytes);
        }
        rest = &rest[used..];
        idle = if used == 0 { idle + 1 } else { 0 };
        assert!(idle < 2);
    }
});
