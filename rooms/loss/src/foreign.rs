//! What reads text and bytes that others write, as far as it is not public anyway, for the targets in fuzz/ and nobody
//! else.

use std::path::Path;

use anyhow::Result;

use crate::account::join;
use crate::check::changes;
use crate::statement;

/// The accounts of two hosts, joined, in words.
///
/// # Errors
/// One line: they are something else.
pub fn account(sender: &str, receiver: &str) -> Result<String> {
    let read = |text| join::parse(Path::new("account.json"), text);
    Ok(statement::of(&join::join(read(sender)?, read(receiver)?)))
}

/// The changes of `weir loss check --apply`, as JSON.
///
/// # Errors
/// One line: they are something else.
pub fn changes(text: &str) -> Result<String> {
    Ok(serde_json::to_string(&changes::parse(Path::new("changes.json"), text)?)?)
}
