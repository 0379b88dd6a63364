//! Arbitrary text as a configuration of `weir tee`: refused in one line, or printed as a file that says the same.
//!
//! `cargo +nightly fuzz run tee_config` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_tee::config::{Config, Local};

fuzz_target!(|text: &str| {
    let local = Local::default();
    match Config::read("fuzz.toml", text, &local) {
        Ok(config) => {
            let again = Config::read("again.toml", &config.to_toml(), &local).expect("what was printed is read");
            assert_eq!(again.settings, config.settings);
        }
        Err(error) => assert!(!format!("{error:#}").contains('\n'), "{error:#}"),
    }
});
