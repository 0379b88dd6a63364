//! What can go wrong when a socket is made or changed, in one line: operation, object, reason, remedy.

use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;

/// Why a socket could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Making a socket failed.
    #[error("open a udp socket for {address}: {}{}", reason(.source), open_hint(.source))]
    Open {
        /// Where to listen or to send to.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Making a raw socket failed.
    #[error("open a raw socket for {address}: {}{}", reason(.source), raw_hint(.source))]
    Raw {
        /// The destination.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Binding failed.
    #[error("bind {address}: {}{}", reason(.source), bind_hint(*.address, .source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Setting the destination failed.
    #[error("connect to {address}: {}{}", reason(.source), connect_hint(.source))]
    Connect {
        /// The destination.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Setting an option failed.
    #[error("set {option} to {value}: {}{}", reason(.source), option_hint(.option, .source))]
    Option {
        /// Its name, e.g. `IP_TTL`.
        option: &'static str,
        /// The value asked for.
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// There is no such interface in the socket's network namespace.
    #[error("find the interface {name}: {}", reason(.source))]
    Interface {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Joining or leaving a multicast group failed.
    #[error("{operation} {membership}: {}{}", reason(.source), membership_hint(.operation, .source))]
    Membership {
        /// `join` or `leave`.
        operation: &'static str,
        /// Group, source and interface.
        membership: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A group to join is no multicast address.
    #[error("join {0}: no multicast address (224.0.0.0/4 or ff00::/8)")]
    NotMulticast(IpAddr),
    /// Two addresses that must belong together are of different families.
    #[error("{operation}: one is IPv4, the other IPv6")]
    Family {
        /// What was tried, with both addresses.
        operation: String,
    },
    /// A descriptor that was handed to us is not what it should be.
    #[error("take over descriptor {descriptor}: {detail}")]
    Adopt {
        /// Its number.
        descriptor: i32,
        /// What is wrong with it.
        detail: String,
    },
}

impl Error {
    /// The kernel's answer, where there is one.
    pub fn answer(&self) -> Option<&io::Error> {
        match self {
            Error::Open { source, .. }
            | Error::Raw { source, .. }
            | Error::Bind { source, .. }
            | Error::Connect { source, .. }
            | Error::Option { source, .. }
            | Error::Interface { source, .. }
            | Error::Membership { source, .. } => Some(source),
            Error::NotMulticast(_) | Error::Family { .. } | Error::Adopt { .. } => None,
        }
    }
}

/// The kernel's answer in lower case and without the error number: `address already in use`.
pub fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => Errno::from_raw(code).desc().to_lowercase(),
        None => error.to_string(),
    }
}

fn open_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => " (this kernel has no IPv6)",
        Some(libc::EMFILE) => " (raise the limit with `ulimit -n`, or LimitNOFILE in a systemd unit)",
        _ => "",
    }
}

fn raw_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (keeping source addresses needs CAP_NET_RAW)",
        _ => open_hint(error),
    }
}

fn bind_hint(address: SocketAddr, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied if address.port() < 1024 => " (ports below 1024 need CAP_NET_BIND_SERVICE)",
        io::ErrorKind::AddrInUse if address.ip().is_multicast() => " (another receiver without SO_REUSEADDR?)",
        io::ErrorKind::AddrInUse => " (another program listens there: choose another port, or end it)",
        io::ErrorKind::AddrNotAvailable => " (no interface has this address: `0.0.0.0` or `[::]` listens on all)",
        _ => "",
    }
}

fn connect_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EACCES) => " (a broadcast address has to be asked for)",
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => " (no route leads there)",
        Some(libc::EINVAL) => " (from loopback only loopback is reached)",
        _ => "",
    }
}

fn option_hint(option: &str, error: &io::Error) -> &'static str {
    match (option, error.raw_os_error()) {
        ("SO_BINDTODEVICE", Some(libc::EPERM)) => " (needs CAP_NET_RAW once the socket is bound to another)",
        ("SO_BINDTODEVICE", Some(libc::ENODEV)) => " (no interface has this name)",
        (_, Some(libc::EPERM)) => " (needs CAP_NET_ADMIN)",
        _ => "",
    }
}

fn membership_hint(operation: &str, error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENODEV) => " (no route to the group: name the interface, or add a route to 224.0.0.0/4 or ff00::/8)",
        Some(libc::ENOBUFS) => " (too many: raise the sysctl net.ipv4.igmp_max_memberships or igmp_max_msf)",
        Some(libc::EADDRINUSE) if operation == "join" => " (this socket is a member already)",
        Some(libc::EADDRNOTAVAIL) if operation == "leave" => " (this socket is no member)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_operation_object_reason_and_remedy() {
        let source = || io::Error::from_raw_os_error(libc::EADDRINUSE);
        let group = Error::Bind { address: "239.1.1.1:5000".parse().unwrap(), source: source() };
        assert_eq!(
            group.to_string(),
            "bind 239.1.1.1:5000: address already in use (another receiver without SO_REUSEADDR?)"
        );
        assert_eq!(group.answer().and_then(io::Error::raw_os_error), Some(libc::EADDRINUSE));
        let low =
            Error::Bind { address: "[::]:514".parse().unwrap(), source: io::Error::from_raw_os_error(libc::EACCES) };
        assert_eq!(low.to_string(), "bind [::]:514: permission denied (ports below 1024 need CAP_NET_BIND_SERVICE)");
        let joined = Error::Membership { operation: "join", membership: "239.1.1.1".into(), source: source() };
        assert_eq!(joined.to_string(), "join 239.1.1.1: address already in use (this socket is a member already)");
    }
}
