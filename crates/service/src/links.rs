//! What becomes of interfaces that go away and come back ([`weir_program::links`]), in the log of a service.

use weir_dgram::interfaces::{Change, restore};

/// Looks at once, and logs what has changed; see [`restore`].
pub fn look(reroute: bool) {
    restore(reroute).iter().for_each(log);
}

/// In the log of a service.
pub(crate) fn log(change: &Change) {
    match change {
        Change::Missing(_) => tracing::warn!("{change}"),
        Change::Back(_) => tracing::info!("{change}"),
    }
}
