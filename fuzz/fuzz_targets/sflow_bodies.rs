//! Arbitrary bytes as the body of a PUT request to `weir sflow`: refused, or a definition that makes sense.
//!
//! `cargo +nightly fuzz run sflow_bodies` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_sflow::foreign::bodies;

fuzz_target!(|json: &[u8]| {
    let _ = bodies(json);
});
