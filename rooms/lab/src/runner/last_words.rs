//! What is said where a run ends without its report.

use std::path::Path;

use weir_program::output::complain;
use weir_program::stop::Stop;

/// Said by a second signal, or by a panic while this is held.
pub(super) struct LastWords(String);

impl LastWords {
    pub(super) fn new(dir: &Path, stop: &Stop) -> LastWords {
        let dir = dir.display();
        let words = format!("ended without a report: `weir lab report {dir}` renders what was measured");
        stop.last_words(words.clone());
        LastWords(words)
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        if std::thread::panicking() {
            complain!("weir: {}", self.0);
        }
    }
}
