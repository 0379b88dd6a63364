//! What reads text and bytes that others write, as far as it is not public anyway, for the targets in fuzz/ and nobody
//! else.

use weir_wire::signal::Values;

use crate::api;
use crate::archive::Reading;

/// Samples and missing samples in an archive, as far as it can be read; `None`: it is none.
pub fn archive(bytes: &[u8]) -> Option<(u64, u64)> {
    let (mut samples, mut missing) = (0_u64, 0_u64);
    let mut reading = Reading::new(bytes, bytes.len() as u64);
    while let Some((_, message)) = reading.read_block().ok()? {
        let block = message.block(0).ok()?;
        let count = if matches!(block.values, Values::Gap(_)) { &mut missing } else { &mut samples };
        *count = count.saturating_add(block.samples());
    }
    Some((samples, missing))
}

/// Whether a page can ask this.
pub fn asks(text: &str) -> bool {
    api::is_question(text)
}
