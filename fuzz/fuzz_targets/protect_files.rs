//! Arbitrary bytes as the journal of `[protect]` and as its file of tokens: read, or refused in one line.
//!
//! `cargo +nightly fuzz run protect_files` (needs cargo-fuzz).
#![no_main]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use libfuzzer_sys::fuzz_target;
use weir_protect::journal;
use weir_protect::people::Tokens;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("weir-protect-files-{}", std::process::id()));
    fs::write(&path, bytes).expect("a file for what is read");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a file of ours");
    let _ = journal::read(&path);
    if let Err(error) = Tokens::read(&path) {
        assert!(!error.to_string().contains('\n'));
    }
});
