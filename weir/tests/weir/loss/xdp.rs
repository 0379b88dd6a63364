//! An XDP program, assembled by hand: tests need no compiler, and no mount of bpffs.

use std::os::fd::OwnedFd;

use super::sys;
use crate::network::Host;

/// Drops frames of this length that come to a host, until what is returned is.
pub(super) fn dropping(length: usize, host: &Host) -> OwnedFd {
    let length = u8::try_from(length).unwrap();
    // code, destination and source register, offset, immediate value (linux/bpf.h; struct xdp_md: data, data_end).
    let program: [[u8; 8]; 7] = [
        [0x61, 0x12, 4, 0, 0, 0, 0, 0],      // r2 = *(u32 *)(r1 + 4)
        [0x61, 0x13, 0, 0, 0, 0, 0, 0],      // r3 = *(u32 *)(r1 + 0)
        [0x1f, 0x32, 0, 0, 0, 0, 0, 0],      // r2 -= r3
        [0xb7, 0x00, 0, 0, PASS, 0, 0, 0],   // r0 = XDP_PASS
        [0x55, 0x02, 1, 0, length, 0, 0, 0], // if r2 != length goto +1
        [0xb7, 0x00, 0, 0, DROP, 0, 0, 0],   // r0 = XDP_DROP
        [0x95, 0x00, 0, 0, 0, 0, 0, 0],      // exit
    ];
    let interface = host.netlink().link("eth0").unwrap().index;
    // The kernel looks for the interface in the caller's network.
    host.run(|| sys::attach_xdp(&program, interface)).unwrap()
}

const DROP: u8 = 1;
const PASS: u8 = 2;
