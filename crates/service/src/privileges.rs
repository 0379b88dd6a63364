//! Which capabilities a service needs once its sockets are open.

use weir_kernel::capabilities::Capability;
use weir_kernel::sysctl;

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
