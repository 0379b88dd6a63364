//! Arbitrary bytes as a manifest and records: refused in one line, or rendered.
//!
//! `cargo +nightly fuzz run result` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_program::output::in_one_line;
use weir_report::foreign;
use weir_report::{judge, terminal, write_all};

// The manifest ends with the first empty line.
fuzz_target!(|bytes: &[u8]| {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").map_or(bytes.len(), |at| at + 2);
    let (manifest, cells) = bytes.split_at(end);
    match foreign::result(manifest, cells) {
        Ok((manifest, records)) => {
            terminal::render(&manifest, &records, false);
            judge::judge(&manifest, &records);
            let dir = std::env::temp_dir().join(format!("weir-fuzz-{}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("a temporary directory");
            let _ = write_all(&dir, &manifest, &records);
        }
        Err(error) => assert!(!in_one_line(&error.into()).contains(char::is_control)),
    }
});
