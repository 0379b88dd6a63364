//! What goes wrong with listening TCP sockets, for all who serve.

use std::io;

use nix::errno::Errno;

/// Why an address cannot be bound, and what to do about it, as the end of a line.
pub fn refusal(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "address in use (another service? choose another port)".into(),
        io::ErrorKind::PermissionDenied => {
            "permission denied (ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one)".into()
        }
        io::ErrorKind::AddrNotAvailable => "not an address of this machine (0.0.0.0 or [::] serves all of them)".into(),
        _ => error.to_string(),
    }
}

/// Whether a connection could not be accepted for want of descriptors or memory: trying again at once is in vain.
pub fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM))
}
