//! Arbitrary bytes as a MaxMind DB file: refused in one line, or asked for addresses.
//!
//! `cargo +nightly fuzz run geo` (needs cargo-fuzz).
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use weir_sflow::names::Geo;

fuzz_target!(|input: ([u8; 16], [u8; 4], Vec<u8>)| {
    let (v6, v4, mut bytes) = input;
    // The metadata is looked for behind this marker, from the end.
    if let Some(half) = bytes.len().checked_div(2).filter(|_| !bytes.windows(3).any(|three| three == b"\xab\xcd\xef")) {
        bytes.splice(half..half, *b"\xab\xcd\xefMaxMind.com");
    }
    match Geo::from_bytes(bytes) {
        Ok(geo) => {
            for ip in [IpAddr::from(v6), IpAddr::from(v4)] {
                let _ = (geo.country(ip), geo.system(ip));
            }
        }
        Err(error) => assert_eq!(error.lines().count(), 1),
    }
});
