//! Private parsers of untrusted input, public only for the targets in fuzz/.

use std::path::Path;

use crate::record::{Manifest, Record};
use crate::store::{self, StoreError};

/// The records of a run, from its manifest and `cells.jsonl`.
///
/// # Errors
/// One line: the input is something else.
pub fn result(manifest: &[u8], cells: &[u8]) -> Result<(Manifest, Vec<Record>), StoreError> {
    let manifest = store::parse_manifest(Path::new(store::MANIFEST), manifest)?;
    let mut records = store::parse_records(Path::new(store::CELLS), cells)?;
    store::put_in_order(&manifest, &mut records);
    Ok((manifest, records))
}
