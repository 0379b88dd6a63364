//! Filters and rings of packet sockets (packet(7), Documentation/networking/packet_mmap.rst).
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void, socklen_t};
use nix::errno::Errno;

use super::ring::{FRAMES, SLOT};

/// Has frames pass a program of classic BPF before the socket gets them.
pub(super) fn attach(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> Result<(), Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::E2BIG)?;
    // The kernel only reads the program.
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: `program` points to `length` instructions that outlive the call, which copies them.
    unsafe { set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
}

/// Leaves a socket room for as little as the kernel permits, some frames.
pub(super) fn shrink_receive_buffer(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: an integer, without pointers.
    unsafe { set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &1_i32) }
}

/// Memory that a socket writes frames to: [`FRAMES`] slots of [`SLOT`] bytes.
pub(super) struct Mapping {
    start: NonNull<u8>,
}

// SAFETY: the memory belongs to this mapping alone, wherever it is dropped or read, and to the kernel.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Of a socket that hears nothing yet.
    pub(super) fn open(socket: BorrowedFd<'_>) -> Result<Self, Errno> {
        let ring = Ring {
            block_size: BLOCK as u32,
            blocks: (FRAMES * SLOT / BLOCK) as u32,
            frame_size: SLOT as u32,
            frames: FRAMES as u32,
        };
        // SAFETY: integers and a struct of them, without pointers.
        unsafe {
            set(socket, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)?;
            set(socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1_i32)?;
            set(socket, libc::SOL_PACKET, PACKET_RX_RING, &ring)?;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of the socket's ring, of the ring's size, wherever the kernel likes.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), FRAMES * SLOT, access, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        NonNull::new(start.cast()).map(|start| Self { start }).ok_or(Errno::ENOMEM)
    }

    /// Copies the frame out of a slot below [`FRAMES`], which is the kernel's again; `None`: there is none.
    pub(super) fn take(&mut self, slot: usize) -> Option<[u8; SLOT]> {
        assert!(slot < FRAMES);
        // SAFETY: the mapping has so many slots, the start of which, the status, is aligned as an integer is.
        let (from, status) = unsafe {
            let from = self.start.add(slot * SLOT);
            (from, AtomicU32::from_ptr(from.cast().as_ptr()))
        };
        if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel leaves a slot alone whose status says that it is ours, until we change that.
        let frame = unsafe { from.cast::<[u8; SLOT]>().read() };
        status.store(TP_STATUS_KERNEL, Ordering::Release);
        Some(frame)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, of which nothing is borrowed.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), FRAMES * SLOT) };
    }
}

/// # Safety
/// Pointers in `value` have to be valid for what the option does with them.
unsafe fn set<T>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
    let (at, length) = ((&raw const *value).cast(), size_of::<T>() as socklen_t);
    // SAFETY: pointer and length describe `value`, which outlives the call; the kernel only reads it.
    Errno::result(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, length) }).map(drop)
}

/// `struct tpacket_req`.
#[repr(C)]
struct Ring {
    block_size: u32,
    blocks: u32,
    frame_size: u32,
    frames: u32,
}

/// Bytes that the kernel allocates at once: pages, wherever they are 4 to 64 KiB.
const BLOCK: usize = 64 << 10;

const PACKET_RX_RING: c_int = 5;
const PACKET_VERSION: c_int = 10;
const PACKET_VNET_HDR: c_int = 15;
const TPACKET_V2: c_int = 1;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;
