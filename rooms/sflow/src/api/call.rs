//! Names that a request gives.

use crate::escape::{self, is_obeyed};

/// A name that something is to be kept and shown under.
///
/// # Errors
/// Why it is none, in one line.
pub(crate) fn named(name: &str) -> Result<&str, String> {
    if (1..=LONGEST_NAME).contains(&name.len()) && !name.contains(|c| is_obeyed(c) || c == '/') {
        return Ok(name);
    }
    let name = escape::escaped(name);
    Err(format!("name \"{name}\": use 1 to {LONGEST_NAME} bytes without control characters and slashes"))
}

const LONGEST_NAME: usize = 128;
