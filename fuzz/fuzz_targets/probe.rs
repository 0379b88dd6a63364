//! Arbitrary bytes as a probe header: refused, or written back byte for byte. As a line of a control connection:
//! refused, or what it says comes back.
//!
//! `cargo +nightly fuzz run probe` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_wire::probe::Probe;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(probe) = Probe::parse(bytes) {
        let mut again = bytes.to_vec();
        probe.write(&mut again).expect("a header that was read has room");
        assert_eq!(again, bytes);
    }
    let _ = Probe::parse_datagram(bytes);
    weir_traffic::foreign::line(bytes);
});
