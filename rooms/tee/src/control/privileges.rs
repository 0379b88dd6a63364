//! Which privileges the configuration needs, and which are given up.

use anyhow::{Context, Result, bail};
use weir_kernel::capabilities::{Capability, User, has, keep_only};
use weir_kernel::sysctl;

use crate::settings::{ProbeKind, Settings, Source};

/// Refuses what would fail for every single datagram.
pub(super) fn check(settings: &Settings) -> Result<()> {
    let preserved = settings.destinations.iter().find(|destination| destination.source.is_preserved());
    if let Some(destination) = preserved
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

/// Gives up, for good, what a reload does not need, and becomes `user`. Only while the process has one thread.
pub(super) fn give_up(settings: &Settings, user: Option<&str>) -> Result<()> {
    let user = user.map(User::find).transpose()?;
    let mut kept = Vec::new();
    if settings.listeners.iter().any(|listener| listener.address.port() < first_free_port()) {
        kept.push(Capability::CAP_NET_BIND_SERVICE);
    }
    let raw = |source: Source, probe| source.is_preserved() || probe == Some(ProbeKind::Ping);
    let mut destinations = settings.destinations.iter();
    if destinations.any(|to| raw(to.source, to.probe.as_ref().map(|probe| probe.kind))) {
        kept.push(Capability::CAP_NET_RAW);
    }
    keep_only(&kept, user.as_ref()).map(drop).context("give up privileges")
}

/// The first port that anybody may bind (ip_unprivileged_port_start, ip-sysctl.rst); as the kernel has it by default,
/// where it does not say.
fn first_free_port() -> u16 {
    sysctl::seen("net/ipv4/ip_unprivileged_port_start").and_then(|port| port.parse().ok()).unwrap_or(1024)
}
