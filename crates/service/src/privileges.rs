//! Which privileges a service keeps once its sockets are open.

use weir_kernel::capabilities::Capability;
use weir_kernel::sysctl;

/// Privileges that a room needs while it runs, a reload included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// All that it was started with: it reads what only root may, over and over.
    All,
    /// These capabilities, as far as it has them; all others are given up for good.
    Only(Vec<Capability>),
}

/// The capability without which these ports cannot be bound once more; `None`: anybody may bind them.
pub fn to_bind(ports: impl IntoIterator<Item = u16>) -> Option<Capability> {
    let first_free = first_free_port();
    ports.into_iter().any(|port| port < first_free).then_some(Capability::CAP_NET_BIND_SERVICE)
}

/// The first port that anybody may bind (ip_unprivileged_port_start, ip-sysctl.rst); as the kernel has it by default,
/// where it does not say.
fn first_free_port() -> u16 {
    sysctl::seen("net/ipv4/ip_unprivileged_port_start").and_then(|port| port.parse().ok()).unwrap_or(1024)
}
