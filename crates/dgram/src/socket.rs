//! A UDP socket: made, bound, connected or taken over.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use socket2::{Domain, Protocol, SockRef, Type};

use crate::buffers::{self, Buffer};
use crate::control::{SOURCE_SPACE, source_address};
use crate::error::reason;
use crate::interfaces::Attached;
use crate::offload::{self, Offload, Segmentation};
use crate::sys::option::{attach_closed_filter, attach_reuseport_program};
use crate::sys::send::send_beside;
use crate::sys::wait_for_deliveries;
use crate::{Address, Error, Options, Steering};

/// A UDP socket in the network namespace of the thread that made it. Nothing waits but [`Inbox::take`](crate::Inbox::take).
#[derive(Debug)]
pub struct Socket {
    pub(crate) attached: Arc<Attached>,
    receive_buffer: Buffer,
    send_buffer: Buffer,
    gro: Offload,
    segmentation: Segmentation,
    ancillary: bool,
    /// Whether a receive may wait, for a time.
    waits: bool,
}

/// What a socket got of what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The receive buffer.
    pub receive_buffer: Buffer,
    /// The send buffer.
    pub send_buffer: Buffer,
    /// Joined datagrams (UDP_GRO).
    pub gro: Offload,
    /// Cut sends (UDP_SEGMENT), as sends have shown so far.
    pub gso: Offload,
}

impl Socket {
    /// A socket that receives at `address`; port 0: the kernel chooses.
    ///
    /// # Errors
    /// The address cannot be bound, an option is refused, no interface of the name.
    pub fn bind(address: SocketAddr, options: &Options) -> Result<Self, Error> {
        let prepared = create(address, options)?;
        prepared.socket.bind(&address.into()).map_err(|source| Error::Bind { address, source })?;
        let local = local_addr(&prepared.socket, address)?;
        Ok(Self::bound(prepared, options, (local, None), false))
    }

    /// A socket that sends to `to` and receives from there alone. `from`: the address and port to send from; `None`:
    /// the kernel chooses. To fix only the port, use the unspecified address.
    ///
    /// # Errors
    /// As for [`Self::bind`]; no route leads there; the two are of different families.
    pub fn connect(from: Option<SocketAddr>, to: SocketAddr, options: &Options) -> Result<Self, Error> {
        if let Some(from) = from
            && from.is_ipv4() != to.is_ipv4()
        {
            return Err(Error::Family { operation: format!("send from {from} to {to}") });
        }
        let prepared = create(to, options)?;
        if let Some(address) = from {
            prepared.socket.bind(&address.into()).map_err(|source| Error::Bind { address, source })?;
        }
        prepared.socket.connect(&to.into()).map_err(|source| Error::Connect { address: to, source })?;
        let local = local_addr(&prepared.socket, to)?;
        let has_fixed_source = from.is_some_and(|from| !from.ip().is_unspecified());
        Ok(Self::bound(prepared, options, (local, Some(to)), has_fixed_source))
    }

    /// Takes over a bound UDP socket, as a service manager hands it over, and sets the options that a bound socket can
    /// still be given: not [`Options::reuse_address`], [`Options::reuse_port`] and [`Options::only_v6`].
    ///
    /// # Errors
    /// It is no UDP socket or not bound; an option is refused.
    pub fn adopt(fd: OwnedFd, options: &Options) -> Result<Self, Error> {
        let descriptor = fd.as_raw_fd();
        let failed = |detail: String| Error::Adopt { descriptor, detail };
        let refused = |error: io::Error| failed(reason(&error));
        let socket = socket2::Socket::from(fd);
        let kind = (socket.r#type().map_err(refused)?, socket.protocol().map_err(refused)?);
        let domain = socket.domain().map_err(refused)?;
        if kind != (Type::DGRAM, Some(Protocol::UDP)) || ![Domain::IPV4, Domain::IPV6].contains(&domain) {
            return Err(failed("no UDP socket".into()));
        }
        let local = socket.local_addr().map_err(refused)?.as_socket();
        let local = local.filter(|address| address.port() != 0).ok_or_else(|| failed("not bound".into()))?;
        socket.set_nonblocking(options.wait.is_none()).map_err(refused)?;
        socket.set_cloexec(true).map_err(refused)?;
        options.apply_bound(socket.as_fd(), local.is_ipv6())?;
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        Ok(Self::bound(Prepared::new(socket, options)?, options, (local, peer), false))
    }

    /// A second descriptor of the same socket, with other options: its queue stays, and its buffers never shrink.
    ///
    /// # Errors
    /// An option is refused, or the process has no file descriptor left.
    pub fn with_options(&self, options: &Options) -> Result<Self, Error> {
        let failed = |source| Error::Open { address: self.local_addr(), source };
        let descriptor = self.as_fd().try_clone_to_owned().map_err(failed)?;
        let as_it_is = Options { receive_buffer: None, send_buffer: None, ..options.clone() };
        let mut socket = Self::adopt(descriptor, &as_it_is)?;
        socket.attached.has_joined_as(&self.attached);
        socket.receive_buffer = Buffer::grow(self.as_fd(), buffers::RECEIVE, options.receive_buffer)?;
        socket.send_buffer = Buffer::grow(self.as_fd(), buffers::SEND, options.send_buffer)?;
        Ok(socket)
    }

    /// Where it receives, with the port and address that the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.attached.local
    }

    /// Where it is connected to; `None`: nowhere.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.attached.peer
    }

    /// Whether the interface that it was bound to was made anew, and it must be bound anew: bound to another, a socket leaves those
    /// with which it shares its address ([`Options::reuse_port`]; udp_lib_rehash of net/ipv4/udp.c), so that
    /// [`restore`](crate::interfaces::restore) leaves such as they are.
    pub fn is_outlived(&self) -> bool {
        self.attached.is_outlived()
    }

    /// What it got of what it was asked for, as it is now.
    pub fn granted(&self) -> Granted {
        Granted {
            receive_buffer: self.receive_buffer,
            send_buffer: self.send_buffer,
            gro: self.gro.clone(),
            gso: self.segmentation.state(),
        }
    }

    /// Takes in nothing more: what comes from now on is dropped (and counted as such in [`Self::memory`]), what is
    /// queued stays readable. A datagram that the kernel is delivering at this very moment may still come.
    ///
    /// # Errors
    /// The socket's filter is locked (SO_LOCK_FILTER).
    pub fn close_intake(&self) -> io::Result<()> {
        attach_closed_filter(self.as_fd())
    }

    /// The same, and waits for those that are being delivered: when it returns, nothing is added to the queue any more.
    ///
    /// # Errors
    /// As [`Self::close_intake`]; or the kernel does not tell when they are (before Linux 4.3, or where processors run
    /// without its tick): then one may still come.
    pub fn close_intake_for_good(&self) -> io::Result<()> {
        self.close_intake()?;
        wait_for_deliveries()
    }

    /// Has the kernel choose by `steering` among the `sockets` that share this one's address
    /// ([`Options::reuse_port`]), those that are bound later included. A datagram that came as part of a larger one (UDP_SEGMENT
    /// by a sender on this machine or across a virtual cable) goes where the first of them goes: whoever needs to be sure asks
    /// [`Steering::choose`] again.
    ///
    /// # Errors
    /// The socket was made without [`Options::reuse_port`], or the kernel is older than Linux 4.5.
    pub fn steer(&self, steering: &Steering, sockets: u32) -> Result<(), Error> {
        let failed =
            |source| Error::Option { option: "SO_ATTACH_REUSEPORT_CBPF", value: format!("{sockets} sockets"), source };
        attach_reuseport_program(self.as_fd(), &mut steering.program(sockets)).map_err(failed)
    }

    /// Leaves what comes from now on to the other sockets of its address ([`Options::reuse_port`]); what is queued stays
    /// readable. For good: a connected socket takes no part when the kernel spreads flows (Linux 5.4,
    /// net/core/sock_reuseport.c), and nobody sends from this host's address by this port but the others.
    ///
    /// # Errors
    /// No route leads to its own address.
    pub fn stand_aside(&self) -> io::Result<()> {
        let own = match self.local_addr().ip() {
            IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            own => own,
        };
        SockRef::from(self).connect(&SocketAddr::new(own, self.local_addr().port()).into())
    }

    /// Connects a connected socket anew if the kernel would choose another source address for it now: that of before may
    /// have gone from its interface, and then every send fails. Its port stays, and an address that it was bound to, and
    /// everything where no route leads to its peer. [`Self::local_addr`] tells the first address.
    ///
    /// # Errors
    /// No route leads to its peer; no descriptor is left.
    pub fn renew(&self) -> io::Result<()> {
        let Some(peer) = self.peer_addr().filter(|_| !self.attached.has_fixed_source) else { return Ok(()) };
        let socket = SockRef::from(self);
        let device = socket.device()?;
        // Asked by another socket: without a route this one would have lost its peer.
        let probe = self.attached.probe(peer, device.as_deref())?;
        let source =
            |socket: &socket2::Socket| Ok::<_, io::Error>(socket.local_addr()?.as_socket().map(|own| own.ip()));
        if source(&probe)? != source(&socket)? {
            self.attached.attach_anew(device.as_deref())?;
        }
        Ok(())
    }

    /// Gives a socket in use other options on its way out: TTL, code point, TTL and loop of multicast, send buffer. What is left
    /// open goes back to the kernel's default; all others stay. [`Self::granted`] tells the send buffer that it had first.
    ///
    /// # Errors
    /// An option is refused; no descriptor is left.
    pub fn set_outgoing(&self, options: &Options) -> Result<(), Error> {
        options.apply_anew(self.as_fd(), self.local_addr().is_ipv6())?;
        let buffer = match options.send_buffer {
            Some(bytes) => bytes,
            None => {
                let failed = |source| Error::Open { address: self.local_addr(), source };
                let fresh = socket2::Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(failed)?;
                // Twice what it was given.
                fresh.send_buffer_size().map_err(failed)? / 2
            }
        };
        Buffer::request(self.as_fd(), buffers::SEND, Some(buffer)).map(drop)
    }

    /// Sends one datagram to anybody from one of this machine's addresses; `None`: that which the kernel chooses.
    ///
    /// # Errors
    /// WouldBlock: the send buffer is full. The address is none of this machine's, no route leads there, or what else the
    /// kernel says.
    pub fn send_from(&self, payload: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
        let v6 = self.local_addr().is_ipv6();
        let to = match to {
            SocketAddr::V4(v4) if v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            other => other,
        };
        let (control, length) = from.map_or(([0; SOURCE_SPACE], 0), |from| source_address(from, v6));
        send_beside(self.as_fd(), &Address::from(to), payload, &control[..length])
    }

    /// Whether control messages may come with what it receives.
    pub(crate) fn tells_beside(&self) -> bool {
        self.ancillary
    }

    /// Whether a receive may wait, for a time.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    pub(crate) fn segmentation(&self) -> &Segmentation {
        &self.segmentation
    }

    fn bound(
        prepared: Prepared,
        options: &Options,
        ends: (SocketAddr, Option<SocketAddr>),
        has_fixed_source: bool,
    ) -> Self {
        let Prepared { socket, receive_buffer, send_buffer, gro, segmentation, ancillary, waits } = prepared;
        Self {
            attached: Attached::new(socket.into(), options, ends, has_fixed_source),
            receive_buffer,
            send_buffer,
            gro,
            segmentation,
            ancillary,
            waits,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.attached.as_fd()
    }
}

/// A socket with everything it was asked for, before it is bound: from its first datagram on it is as it should be.
struct Prepared {
    socket: socket2::Socket,
    receive_buffer: Buffer,
    send_buffer: Buffer,
    gro: Offload,
    segmentation: Segmentation,
    ancillary: bool,
    waits: bool,
}

impl Prepared {
    /// Asks for buffers and offloads.
    fn new(socket: socket2::Socket, options: &Options) -> Result<Self, Error> {
        let fd = socket.as_fd();
        let waits = options.wait.is_some_and(|wait| socket.set_read_timeout(Some(wait)).is_ok());
        Ok(Self {
            receive_buffer: Buffer::request(fd, buffers::RECEIVE, options.receive_buffer)?,
            send_buffer: Buffer::request(fd, buffers::SEND, options.send_buffer)?,
            gro: offload::gro(fd, options.gro),
            segmentation: Segmentation::probe(fd, options.gso),
            ancillary: options.gro
                || options.timestamps
                || options.count_drops
                || options.local_address
                || options.hops,
            waits,
            socket,
        })
    }
}

fn create(address: SocketAddr, options: &Options) -> Result<Prepared, Error> {
    let failed = |source| Error::Open { address, source };
    let domain = Domain::for_address(address);
    // Every call but one says that it does not wait.
    let kind = if options.wait.is_some() { Type::DGRAM } else { Type::DGRAM.nonblocking() };
    let socket = socket2::Socket::new(domain, kind, Some(Protocol::UDP)).map_err(failed)?;
    options.apply(socket.as_fd(), address.is_ipv6())?;
    Prepared::new(socket, options)
}

/// What the kernel made of `asked`.
fn local_addr(socket: &socket2::Socket, asked: SocketAddr) -> Result<SocketAddr, Error> {
    let local = socket.local_addr().map_err(|source| Error::Open { address: asked, source })?;
    Ok(local.as_socket().unwrap_or(asked))
}
