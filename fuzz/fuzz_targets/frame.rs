//! Arbitrary bytes as a frame behind its virtio header: malformed, or packets that are as long as it was said to be.
//!
//! `cargo +nightly fuzz run frame` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_emulator::datapath::foreign::packets;

fuzz_target!(|input: ([u8; 10], Option<bool>, &[u8])| {
    let (virtio, version, rest) = input;
    // Of IPv4, of IPv6, or of whatever it says.
    let ethertype = match version {
        Some(true) => &[0x08, 0x00][..],
        Some(false) => &[0x86, 0xdd],
        None => &[],
    };
    let buffer = [&virtio[..], &[0; 12], ethertype, rest].concat();
    if let Some((lengths, on_the_wire)) = packets(&buffer) {
        assert_eq!(lengths.iter().sum::<usize>(), on_the_wire as usize);
    }
});
