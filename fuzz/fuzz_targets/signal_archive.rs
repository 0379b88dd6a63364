//! Arbitrary bytes as an archive, and as one of its messages: read as far as they are whole.
//!
//! `cargo +nightly fuzz run signal_archive` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_monitor::archive::schema::Message;
use weir_monitor::foreign::archive;

fuzz_target!(|bytes: &[u8]| {
    let _ = archive(bytes);
    let Ok(message) = Message::read(bytes) else { return };
    let mut again = Vec::new();
    Message::new(&message.block(0).unwrap(), (1.0, 0.0)).write(&mut again);
    // Texts, for values may not be numbers.
    let text = |message: &Message| format!("{:?}", message.block(0));
    assert_eq!(Message::read(&again).as_ref().map(text), Ok(text(&message)));
});
