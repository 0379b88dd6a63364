//! Arbitrary bytes as an archive, and as one of its messages: read as far as they are whole.
//!
//! `cargo +nightly fuzz run signal_archive` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_monitor::archive::schema;
use weir_monitor::foreign::archive;

fuzz_target!(|bytes: &[u8]| {
    let _ = archive(bytes);
    let Ok(block) = schema::read(bytes) else { return };
    let mut again = Vec::new();
    schema::write(&block, (1.0, 0.0), &mut again);
    // Bytes, for values may be no numbers.
    let read = schema::read(&again).map(|block| format!("{block:?}"));
    assert_eq!(read, Ok(format!("{block:?}")));
});
