//! Arbitrary bytes as answers of gobgpd: read without a panic.
//!
//! `cargo +nightly fuzz run speaker` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_protect::bgp::foreign::read;

fuzz_target!(|bytes: &[u8]| read(bytes));
