//! The congestion control of a TCP socket.

use std::io;

use nix::libc::EPERM;
use weir_kernel::sysctl;

use crate::{TrafficError, Transport, quic};

/// Sets it by the kernel's name (TCP_CONGESTION).
///
/// # Errors
/// It does not exist, or only the administrator may use it; the error names the choices.
pub(super) fn set(socket: &socket2::Socket, name: &str) -> Result<(), TrafficError> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|source| TrafficError::Option {
        option: "TCP_CONGESTION",
        value: name.to_owned(),
        hint: hint(&source).into(),
        source,
    })
}

/// Refuses a name that the kernel, or quinn for QUIC, does not know. Whether it may be used shows at its use.
///
/// # Errors
/// It does not exist; the error names the choices.
pub fn check(transport: Transport, name: &str) -> Result<(), TrafficError> {
    if transport != Transport::Tcp {
        return quic::controller(name).map(drop);
    }
    let Ok(socket) = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None) else { return Ok(()) };
    match set(&socket, name) {
        Err(TrafficError::Option { source, .. }) if source.raw_os_error() == Some(EPERM) => Ok(()),
        result => result,
    }
}

/// The name of a socket's congestion control.
pub(super) fn of(socket: &socket2::Socket) -> io::Result<String> {
    let name = socket.tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

fn hint(error: &io::Error) -> String {
    let (which, more) = match error.raw_os_error() {
        Some(EPERM) => ("allowed", "an administrator can change net.ipv4.tcp_allowed_congestion_control"),
        _ => ("available", "others are kernel modules: modprobe tcp_NAME"),
    };
    let setting = format!("net/ipv4/tcp_{which}_congestion_control");
    match sysctl::seen(&setting) {
        Some(names) => format!(" ({which}: {}; {more})", names.replace(' ', ", ")),
        None => format!(" (see /proc/sys/{setting}; {more})"),
    }
}
