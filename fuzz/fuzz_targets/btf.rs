//! Arbitrary bytes as the kernel's types.
//!
//! `cargo +nightly fuzz run btf` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, u32, u32, u32, &[u8])| {
    let (first, length, names, names_length, bytes) = input;
    // Magic number, version, flags, length of the header: otherwise nothing is read.
    let mut types = [&0xeb9f_u16.to_ne_bytes()[..], &[1, 0], &24_u32.to_ne_bytes()].concat();
    for word in [first, length, names, names_length] {
        types.extend(word.to_ne_bytes());
    }
    types.extend(bytes);
    weir_trace::foreign::btf(&types);
});
