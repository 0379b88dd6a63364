//! Arbitrary text as a journal of changes: refused in one line, or changes that are open, each once.
//!
//! `cargo +nightly fuzz run journal` (needs cargo-fuzz).
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use weir_loss::check::journal::{Closed, Journal, Storage};
use weir_program::output::in_one_line;

struct Nowhere;

impl Storage for Nowhere {
    fn append(&mut self, _line: &str) -> anyhow::Result<()> {
        Ok(())
    }
}

fuzz_target!(|text: &str| {
    match Journal::replay(Nowhere, Path::new("journal"), text) {
        Ok(mut journal) => {
            let numbers: Vec<u64> = journal.open_changes().iter().map(|open| open.intent.number).collect();
            for number in numbers {
                journal.close(number, Closed::Undone).expect("it is written nowhere");
            }
            assert!(journal.open_changes().is_empty());
        }
        Err(error) => assert!(!in_one_line(&error).contains(char::is_control)),
    }
});
