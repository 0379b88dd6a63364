//! The facts about a machine that a reader needs to judge its numbers.

use weir_kernel::host;

/// Name and value, in the order to print them.
pub fn facts() -> Vec<(String, String)> {
    host::facts()
}
