//! Tun devices, whose reader is the test.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::libc;

/// Makes `tun0` in the calling thread's namespace: each read is an IP packet that left by it, each write one that comes.
pub(super) fn tun() -> File {
    let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: all of it may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"tun0") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_TUN | libc::IFF_NO_PI).unwrap();
    // SAFETY: the request is a whole ifreq, as TUNSETIFF wants it (linux/if_tun.h), and outlives the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    file
}
