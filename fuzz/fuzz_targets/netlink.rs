//! Arbitrary bytes as the kernel's answers over netlink.
//!
//! `cargo +nightly fuzz run netlink` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| weir_kernel::foreign::netlink(bytes));
