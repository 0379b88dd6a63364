//! Arbitrary bytes as a PROXY v2 header: refused, or split where the header's own length says.
//!
//! `cargo +nightly fuzz run proxy` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_wire::proxy::{self, Origin};

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = proxy::parse(bytes) else { return };
    let header = &bytes[..bytes.len() - read.payload.len()];
    assert_eq!(header.len(), 16 + usize::from(header[14]) * 256 + usize::from(header[15]));
    assert!(header.ends_with(read.extensions) && bytes.ends_with(read.payload));
    if let Origin::Datagram { source, destination } = read.origin {
        let again = proxy::encode(source, destination);
        let canonical = source.ip().to_canonical().is_ipv4() == source.is_ipv4();
        if canonical {
            assert_eq!(again[16..], header[16..header.len() - read.extensions.len()]);
        }
    }
});
