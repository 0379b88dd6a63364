//! What reads text and bytes that others write, as far as it is not public anyway, for the targets in fuzz/ and nobody
//! else.

use crate::api::Groups;
use crate::flows::Definition;
use crate::thresholds::Threshold;

/// Why a file is no state, in one line; `None`: it is one.
pub fn state(bytes: &[u8]) -> Option<String> {
    crate::state::check(bytes).err()
}

/// Whether a page can ask this.
pub fn asks(text: &str) -> bool {
    crate::api::is_question(text)
}

/// Which of the bodies of PUT requests this could be: a flow definition, a threshold, groups.
pub fn bodies(json: &[u8]) -> [bool; 3] {
    [
        serde_json::from_slice::<Definition>(json).is_ok_and(|definition| definition.check().is_ok()),
        serde_json::from_slice::<Threshold>(json).is_ok(),
        serde_json::from_slice::<Groups>(json).is_ok(),
    ]
}
