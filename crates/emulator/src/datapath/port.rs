//! A packet socket on one interface.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::sys::socket;
use super::{EmulatorSettings, Error};

/// A packet socket on one interface. It receives frames that arrive there, and sends frames through it.
#[derive(Debug)]
pub struct Port {
    socket: OwnedFd,
    receive_buffer: usize,
    came: Came,
}

/// Frames received by a port's socket so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    /// All of them.
    pub(super) frames: u64,
    /// Of these, those that the kernel dropped because the socket's buffer was full.
    pub(super) dropped: u64,
}

impl Port {
    /// Opens a packet socket on the interface `ifindex` of the calling thread's network namespace. From then on frames
    /// collect in the socket's buffer, so attach it to an emulator soon.
    ///
    /// # Errors
    /// No CAP_NET_RAW over the namespace, no such interface, or no descriptor is left.
    pub fn open(ifindex: u32, settings: &EmulatorSettings) -> Result<Self, Error> {
        let open = |source: io::Error| {
            let hint = match source.raw_os_error() {
                Some(libc::EPERM) => " (needs CAP_NET_RAW over the network namespace)",
                Some(libc::EMFILE) => " (raise the limit of open files: ulimit -n)",
                Some(libc::ENODEV | libc::ENXIO) => " (no such interface in this network namespace)",
                _ => "",
            };
            Error::Open { ifindex, source, hint }
        };
        let option = |option| move |source| Error::Option { ifindex, option, source };

        let socket = socket::create().map_err(open)?;
        let fd = socket.as_fd();
        socket::set_packet_option(fd, libc::PACKET_IGNORE_OUTGOING, 1).map_err(option("PACKET_IGNORE_OUTGOING"))?;
        socket::set_packet_option(fd, libc::PACKET_QDISC_BYPASS, 1).map_err(option("PACKET_QDISC_BYPASS"))?;
        socket::set_packet_option(fd, libc::PACKET_VNET_HDR, 1).map_err(option("PACKET_VNET_HDR"))?;
        socket::stamp_arrivals(fd).map_err(option("SO_TIMESTAMPNS"))?;
        let receive_buffer = socket::grow_buffers(fd, settings.receive_buffer).map_err(option("SO_RCVBUF"))?;
        // Frames arrive from here on.
        socket::bind(fd, ifindex).map_err(open)?;
        Ok(Self { socket, receive_buffer, came: Came::default() })
    }

    /// Effective size of the socket's receive buffer, bytes of kernel memory (a full-sized frame takes about 2 KiB).
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Frames so far (packet(7), PACKET_STATISTICS: reading resets the kernel's counters, so they are summed up here).
    pub(super) fn came(&mut self) -> Came {
        let more = socket::take_statistics(self.socket.as_fd()).unwrap_or_default();
        self.came.frames += u64::from(more.packets);
        self.came.dropped += u64::from(more.drops);
        self.came
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
