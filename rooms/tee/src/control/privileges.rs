//! Which privileges the configuration needs.

use anyhow::{Result, bail};
use weir_kernel::capabilities::{Capability, has};
use weir_service::privileges::to_bind;

use weir_forward::settings::Settings;

/// Refuses what would fail for every single datagram.
pub(super) fn check(settings: &Settings) -> Result<()> {
    let kept = settings.destinations.iter().find(|destination| destination.source.is_preserved());
    if let Some(destination) = kept
        && !has(Capability::CAP_NET_RAW)
    {
        bail!(
            "destination `{}`: source = \"kept\" needs CAP_NET_RAW (run as root, or give the unit \
             AmbientCapabilities=CAP_NET_RAW, or use source = \"proxy\")",
            destination.name
        );
    }
    Ok(())
}

/// What datagrams, and a reload that binds its ports once more, need.
pub(super) fn needed(settings: &Settings) -> Vec<Capability> {
    let ports = settings.listeners.iter().map(|listener| listener.address.port());
    let kept = settings.destinations.iter().any(|destination| destination.source.is_preserved());
    let raw = kept.then_some(Capability::CAP_NET_RAW);
    to_bind(ports).into_iter().chain(raw).collect()
}
