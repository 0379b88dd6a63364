//! Captures of real agents, held against an independent decoder, sflowtool, and against arithmetic.
//!
//! The captures are no part of the project: `WEIR_CAPTURES` names their folder, `../shared/captures` beside the workspace
//! otherwise. A machine without them skips these tests, also in continuous integration.

#![allow(clippy::unwrap_used)]

mod fields;
mod names;
mod sampling;

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the captures; `None` if the machine has none: the test is skipped.
#[track_caller]
fn captures() -> Option<PathBuf> {
    let named = env::var_os("WEIR_CAPTURES").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures"));
    let folder = folder.join("sflow");
    if !folder.is_dir() {
        weir_testbed::leave_unjudged(format_args!("there is no {}", folder.display()));
        return None;
    }
    Some(folder)
}
