//! What reads text and bytes that others write, as far as it is not public anyway, for the targets in fuzz/ and nobody
//! else.

use crate::signals;

/// Text of /proc/PID/status.
pub fn status(text: &str) -> bool {
    signals::ignores(text, nix::sys::signal::Signal::SIGHUP)
}
