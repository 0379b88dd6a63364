//! Arbitrary text as a scenario: refused in one line, or cells that are checked, and a document that lays out the same.
//!
//! `cargo +nightly fuzz run scenario fuzz/corpus/scenario scenarios` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_lab::cell;
use weir_lab::sweep::Sweep;
use weir_program::output::in_one_line;

fuzz_target!(|text: &str| {
    // Files of the machine that runs this, and sweeps that take long to lay out, are not what is looked for.
    if text.contains("trace") || text.len() > 20_000 {
        return;
    }
    let one_line = |error: anyhow::Error| assert!(!in_one_line(&error).contains(char::is_control));
    match Sweep::new("fuzz.toml", text, &[]) {
        Ok(sweep) => {
            let _ = sweep.cells.iter().try_for_each(|cell| cell::check(cell).map(drop)).map_err(one_line);
            let printed = sweep.to_toml().expect("a scenario can be written");
            let again = Sweep::new("again.toml", &printed, &[]).expect("what was written is read");
            assert_eq!(again.to_toml().expect("and written again"), printed);
        }
        Err(error) => one_line(error),
    }
});
