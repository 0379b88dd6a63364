//! Arbitrary text as any file of /proc that is read.
//!
//! `cargo +nightly fuzz run proc` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    weir_kernel::foreign::proc_text(text);
    weir_trace::foreign::symbols(text);
});
