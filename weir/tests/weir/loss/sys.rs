//! What tests ask of the kernel themselves: tun devices, XDP programs.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    file
}

/// Loads instructions and has them look at each frame that comes to an interface of the calling thread's namespace, in
/// generic mode, as long as the descriptor is held.
pub(super) fn attach_xdp(instructions: &[[u8; 8]], interface: u32) -> io::Result<OwnedFd> {
    const PROG_LOAD: libc::c_int = 5;
    const LINK_CREATE: libc::c_int = 28;
    const TYPE_XDP: u32 = 6;
    const ATTACH_XDP: u32 = 37;
    const SKB_MODE: u32 = 2;
    let license = c"Apache-2.0";
    let load = Load {
        kind: TYPE_XDP,
        count: u32::try_from(instructions.len()).unwrap(),
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
    };
    // SAFETY: as many instructions as it says and a string that ends, both of which outlive the call.
    let program = unsafe { bpf(PROG_LOAD, &load) }?;
    let create = [program.as_raw_fd().cast_unsigned(), interface, ATTACH_XDP, SKB_MODE];
    // SAFETY: no pointers are in it.
    unsafe { bpf(LINK_CREATE, &create) }
}

/// The beginning of `union bpf_attr` for BPF_PROG_LOAD (linux/bpf.h); the rest is 0.
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
}

/// bpf(2), for commands that make a descriptor.
///
/// # Safety
///
/// `attributes` are of the command's kind, and pointers in them are good.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads as many bytes as there are; the caller answers for what is in them.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    let descriptor = i32::try_from(result).ok().filter(|&descriptor| descriptor >= 0);
    // SAFETY: it is new, and nobody else's.
    descriptor.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }).ok_or_else(io::Error::last_os_error)
}
