//! What `weir monitor check` looks at: packets of an interface, and the kernel's list of groups.
//!
//! `cargo +nightly fuzz run signal_check` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_monitor::foreign::check;

fuzz_target!(|given: (&[u8], &str)| {
    let _ = check(given.0, given.1);
});
