//! Arbitrary bytes as the body of a PUT request to `weir sflow`: refused, or a definition that makes sense.
//!
//! `cargo +nightly fuzz run sflow_bodies` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_sflow::api::Groups;
use weir_sflow::flows::Definition;
use weir_sflow::thresholds::Threshold;

fuzz_target!(|json: &[u8]| {
    let _ = serde_json::from_slice::<Definition>(json).map(Definition::check);
    let _ = serde_json::from_slice::<Threshold>(json).map(|threshold| threshold.check());
    let _ = serde_json::from_slice::<Groups>(json);
});
