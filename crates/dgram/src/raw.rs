//! Finished IP packets, sent as they are: for source addresses that are not this machine's. raw(7), IP_HDRINCL.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use socket2::{Domain, Protocol, SockRef, Type};

use crate::buffers::{self, Buffer};
use crate::interfaces::Attached;
use crate::offload::Segmentation;
use crate::outgoing::transmit;
use crate::sys::IPV6_HDRINCL;
use crate::sys::option::{get, set};
use crate::{Error, Options, Outgoing, SendProgress};

/// Sends IP packets that the caller has finished, headers and all, to one destination.
///
/// The kernel routes by the destination alone. Of an IPv4 header it fills in the total length and the checksum, and the
/// identification where that is 0. It neither fragments nor joins.
#[derive(Debug)]
pub struct RawSender {
    raw: Arc<Attached>,
    /// Connected the same way: knows the route's MTU.
    route: Arc<Attached>,
    to: SocketAddr,
    mtu: AtomicUsize,
    segmentation: Segmentation,
}

impl RawSender {
    /// A sender to the address `to`. The port is what the route lookup for the MTU uses, no more. Of `options` counts
    /// what concerns the way out: interfaces, send buffer, broadcast, multicast.
    ///
    /// # Errors
    /// Without CAP_NET_RAW; no route leads there; an option is refused.
    pub fn open(to: SocketAddr, options: &Options) -> Result<Self, Error> {
        let failed = |source| Error::Raw { address: to, source };
        let options = Options {
            interface: options.interface.clone(),
            send_buffer: options.send_buffer,
            multicast_loop: options.multicast_loop,
            multicast_interface: options.multicast_interface.clone(),
            broadcast: options.broadcast,
            ..Options::default()
        };
        let raw = Type::RAW.nonblocking();
        let raw = socket2::Socket::new(Domain::for_address(to), raw, Some(Protocol::from(libc::IPPROTO_RAW)));
        let raw = raw.map_err(failed)?;
        // The protocol implies both; said because some kernels' IPv6 does not listen to it.
        let included = match to {
            SocketAddr::V4(_) => set(raw.as_fd(), libc::IPPROTO_IP, libc::IP_HDRINCL, 1),
            SocketAddr::V6(_) => set(raw.as_fd(), libc::IPPROTO_IPV6, IPV6_HDRINCL, 1),
        };
        included.map_err(failed)?;
        let route = socket2::Socket::new(Domain::for_address(to), Type::DGRAM.nonblocking(), Some(Protocol::UDP));
        let route = route.map_err(failed)?;
        for socket in [&raw, &route] {
            options.apply_bound(socket.as_fd(), to.is_ipv6())?;
        }
        Buffer::request(raw.as_fd(), buffers::SEND, options.send_buffer)?;
        // A raw socket's port means a protocol.
        let mut address = to;
        address.set_port(0);
        raw.connect(&address.into()).map_err(|source| Error::Connect { address: to, source })?;
        let segmentation = Segmentation::none();
        let [raw, route] =
            [raw, route].map(|socket| Attached::new(socket.into(), &options, (address, Some(address)), false));
        let sender = Self { raw, route, to, mtu: AtomicUsize::new(0), segmentation };
        sender.look_up_mtu().map_err(|source| Error::Connect { address: to, source })?;
        Ok(sender)
    }

    /// Sends packets in order, as far as the kernel takes them; each is given as pieces, at most
    /// [`MAX_PIECES`](crate::MAX_PIECES).
    ///
    /// EMSGSIZE: a packet exceeds the interface's MTU; [`Self::mtu`] is read anew then.
    pub fn send(&self, packets: &[&[IoSlice<'_>]]) -> SendProgress {
        let packet = |index: usize| (Outgoing { pieces: packets[index], segment: None, to: None }, None);
        let taken = transmit(self.raw.as_fd(), packets.len(), packet, &self.segmentation);
        if taken.error.as_ref().and_then(std::io::Error::raw_os_error) == Some(libc::EMSGSIZE) {
            // Without a route any more the old value is as good as another.
            let _ = self.look_up_mtu();
        }
        taken
    }

    /// The MTU of the route, bytes of an IP packet, as it was when the sender was opened or a packet was last too long.
    pub fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Relaxed)
    }

    fn look_up_mtu(&self) -> std::io::Result<()> {
        // Connecting looks the route up anew; the socket otherwise stays with the one it has.
        SockRef::from(&*self.route).connect(&self.to.into())?;
        let mtu = match self.to {
            SocketAddr::V4(_) => get(self.route.as_fd(), libc::IPPROTO_IP, libc::IP_MTU),
            SocketAddr::V6(_) => get(self.route.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU),
        }?;
        self.mtu.store(mtu as usize, Ordering::Relaxed);
        Ok(())
    }
}

/// The socket that sends, to wait until it takes more.
impl AsFd for RawSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}
