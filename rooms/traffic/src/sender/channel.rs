//! A sending socket: whole messages or none, and never past the deadline.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::libc::{EINPROGRESS, MSG_NOSIGNAL};
use nix::poll::{PollFd, PollFlags};
use socket2::{Domain, Type};
use weir_dgram::{MAX_RUN_BYTES, MAX_SEGMENTS, Options, Outgoing, SendProgress};
use weir_kernel::tcp::TcpInfo;
use weir_service::clock::{self, Nanos, nanos, now};
use weir_service::stop::Stop;

use super::message::Batch;
use crate::error::cannot_bind;
use crate::quic::{Client, Written};
use crate::{ErrorCount, ErrorLog, Exchange, SenderSettings, TrafficError, Transport, congestion};

/// A non-blocking socket and what went wrong with it.
#[derive(Debug)]
pub(super) struct Channel {
    outlet: Outlet,
    errors: ErrorLog,
    blocked: Nanos,
    /// Whether batches leave in runs.
    runs: bool,
}

#[derive(Debug)]
enum Outlet {
    Datagrams(Box<weir_dgram::Socket>),
    Stream { socket: socket2::Socket, connected: bool },
    Quic { client: Box<Client>, longest: usize },
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The kernel has it.
    Sent,
    /// The kernel did not take this one (UDP); the next one may do better.
    Refused,
    /// The deadline or a stop came before the kernel had taken all of it.
    Late {
        /// Bytes it had taken.
        handed_over: u64,
    },
    /// The connection is gone.
    Broken,
}

impl Channel {
    /// Makes the socket. UDP gets its destination, TCP its options.
    pub(super) fn open(settings: &SenderSettings) -> Result<Self, TrafficError> {
        let outlet = match settings.transport {
            Transport::Udp => Outlet::Datagrams(Box::new(datagram_socket(settings)?)),
            Transport::Tcp => Outlet::Stream { socket: stream_socket(settings)?, connected: false },
            Transport::Quic | Transport::QuicDatagram => {
                Outlet::Quic { client: Box::new(Client::open(settings)?), longest: settings.payload_bytes }
            }
        };
        Ok(Self { outlet, errors: ErrorLog::default(), blocked: 0, runs: settings.in_runs() })
    }

    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match &self.outlet {
            Outlet::Datagrams(socket) => Some(socket.local_addr()),
            Outlet::Stream { socket, .. } => socket.local_addr().ok()?.as_socket(),
            Outlet::Quic { client, .. } => client.local_addr(),
        }
    }

    pub(super) fn send_buffer(&self) -> Option<usize> {
        match &self.outlet {
            Outlet::Datagrams(socket) => Some(socket.granted().send_buffer.granted),
            Outlet::Stream { socket, .. } => socket.send_buffer_size().ok(),
            Outlet::Quic { client, .. } => Some(client.send_buffer()),
        }
    }

    /// The connection's state; `None`: UDP, or never connected.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        match &self.outlet {
            Outlet::Stream { socket, connected: true } => TcpInfo::of(socket).ok(),
            _ => None,
        }
    }

    /// QUIC: packets declared lost so far; `None`: another transport, or never connected.
    pub(super) fn lost_packets(&self) -> Option<u64> {
        match &self.outlet {
            Outlet::Quic { client, .. } => client.stats().map(|stats| stats.path.lost_packets),
            _ => None,
        }
    }

    /// Time spent waiting for the send buffer.
    pub(super) fn blocked(&self) -> Duration {
        match &self.outlet {
            Outlet::Quic { client, .. } => client.blocked(),
            _ => Duration::from_nanos(self.blocked),
        }
    }

    /// Waits until the time `until` or the stop; a connection that needs this thread works meanwhile.
    pub(super) fn sleep(&self, until: Nanos, stop: &Stop) {
        match &self.outlet {
            Outlet::Quic { client, .. } => client.sleep(until),
            _ => clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(until)),
        }
    }

    pub(super) fn into_errors(self) -> Vec<ErrorCount> {
        self.errors.into_counts()
    }

    /// Makes the connection. `false`: it was not made before the deadline or the stop; the reason is counted.
    pub(super) fn connect(&mut self, to: SocketAddr, deadline: Nanos, stop: &Stop) -> bool {
        let (socket, connected) = match &mut self.outlet {
            Outlet::Datagrams(_) => return true,
            Outlet::Stream { socket, connected } => (socket, connected),
            Outlet::Quic { client, longest } => {
                let result = client.connect(to, *longest, deadline, stop);
                return result.map_err(|error| self.errors.count("connect", &error)).is_ok();
            }
        };
        let mut result = socket.connect(&to.into());
        if result.as_ref().is_err_and(|error| error.raw_os_error() == Some(EINPROGRESS)) {
            result = connected_by(socket, deadline, stop);
        }
        match result {
            Ok(()) => *connected = true,
            Err(error) => self.errors.count("connect", &error),
        }
        *connected
    }

    /// Hands over a message; waits while the send buffer is full, as a blocking `send` would.
    pub(super) fn send(&mut self, message: &[u8], deadline: Nanos, stop: &Stop) -> Outcome {
        let mut handed_over = 0;
        loop {
            let (socket, result) = match &mut self.outlet {
                Outlet::Datagrams(socket) => {
                    let result = send_datagram(socket, message, &mut self.errors);
                    (AsFd::as_fd(&**socket), result)
                }
                Outlet::Stream { socket, .. } => {
                    let result = send_rest(socket, message, &mut handed_over);
                    (AsFd::as_fd(&*socket), result)
                }
                Outlet::Quic { client, .. } => return write(client, message, deadline, &mut self.errors),
            };
            match result {
                Ok(()) => return Outcome::Sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let begin = now();
                    if begin >= deadline || stop.is_set() {
                        return Outcome::Late { handed_over: handed_over as u64 };
                    }
                    wait(socket, PollFlags::POLLOUT, deadline, stop);
                    self.blocked += now() - begin;
                }
                Err(error) => {
                    self.errors.count("send", &error);
                    return match self.outlet {
                        Outlet::Datagrams(_) => Outcome::Refused,
                        Outlet::Stream { .. } | Outlet::Quic { .. } => Outcome::Broken,
                    };
                }
            }
        }
    }

    /// Hands over as many messages of a batch as the kernel takes at once, and tells how many those were; the others
    /// are to be stamped anew. Waits for room if the send buffer is full. UDP only: streams have no batches.
    pub(super) fn send_batch(&mut self, batch: Batch<'_>, deadline: Nanos, stop: &Stop) -> (usize, Outcome) {
        let Outlet::Datagrams(socket) = &self.outlet else { return (0, Outcome::Broken) };
        let (datagrams, taken) = send_runs(socket, batch, self.runs);
        if let Some(errno) = taken.reported {
            self.errors.count("send", &io::Error::from_raw_os_error(errno));
        }
        let outcome = match taken.error {
            None => Outcome::Sent,
            Some(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let begin = now();
                if begin >= deadline || stop.is_set() {
                    return (datagrams, Outcome::Late { handed_over: 0 });
                }
                wait(socket.as_fd(), PollFlags::POLLOUT, deadline, stop);
                self.blocked += now() - begin;
                Outcome::Sent
            }
            Some(error) => {
                self.errors.count("send", &error);
                Outcome::Refused
            }
        };
        (datagrams, outcome)
    }

    /// Sends what tells the receiver that this was all: once where nothing is lost, else several times. Returns how many
    /// datagrams the kernel took.
    pub(super) fn announce(&mut self, end: &[u8], deadline: Nanos, stop: &Stop) -> u64 {
        let Outlet::Datagrams(socket) = &self.outlet else {
            self.send(end, deadline, stop);
            return 0;
        };
        let mut announced = 0;
        for _ in 0..ANNOUNCEMENTS {
            let next = now() + nanos(ANNOUNCEMENT_INTERVAL);
            let taken = send_one(socket, end);
            announced += taken.messages as u64;
            if taken.icmp > 0 {
                // It has heard the announcement, or was never there, which the messages' errors tell.
                return announced;
            }
            if let Some(error) = taken.error.filter(|error| error.kind() != io::ErrorKind::WouldBlock) {
                self.errors.count("announce", &error);
            }
            while now() < next {
                clock::wait(&mut [], Some(next));
            }
        }
        announced
    }

    /// TCP and QUIC: says that nothing follows, and waits until the peer has read it and closed, too.
    pub(super) fn drain(&mut self, exchange: &Exchange, deadline: Nanos, stop: &Stop) {
        if let Outlet::Quic { client, .. } = &mut self.outlet
            && let Some(reason) = client.drain(exchange, deadline, stop)
        {
            self.errors.count("drain", &io::Error::other(reason));
        }
        // A connection that broke before has nothing to drain. Closed by both ends, it hangs up (always polled for).
        if let Outlet::Stream { socket, connected: true } = &self.outlet
            && socket.shutdown(Shutdown::Write).is_ok()
        {
            while !wait(socket.as_fd(), PollFlags::empty(), deadline, stop) && now() < deadline && !stop.is_set() {}
        }
    }
}

/// Sends bytes over QUIC.
fn write(client: &mut Client, message: &[u8], deadline: Nanos, errors: &mut ErrorLog) -> Outcome {
    match client.write(message, deadline) {
        Written::All => Outcome::Sent,
        Written::Late(handed_over) => Outcome::Late { handed_over: handed_over as u64 },
        Written::Broken(reason) => {
            errors.count("send", &io::Error::other(reason));
            Outcome::Broken
        }
    }
}

/// Sends a datagram. What an ICMP message reports about an earlier one is counted, and in its way no more.
fn send_datagram(socket: &weir_dgram::Socket, message: &[u8], errors: &mut ErrorLog) -> io::Result<()> {
    let taken = send_one(socket, message);
    if let Some(errno) = taken.reported {
        errors.count("send", &io::Error::from_raw_os_error(errno));
    }
    taken.error.map_or(Ok(()), Err)
}

fn send_one(socket: &weir_dgram::Socket, message: &[u8]) -> SendProgress {
    socket.send(&[Outgoing { pieces: &[IoSlice::new(message)], segment: None, to: None }])
}

/// Sends a batch, in `runs` that the kernel cuts into datagrams, where it can, or one by one. Returns the datagrams
/// taken.
fn send_runs(socket: &weir_dgram::Socket, batch: Batch<'_>, runs: bool) -> (usize, SendProgress) {
    let length = batch.length;
    let in_run = if runs { (MAX_RUN_BYTES / length).clamp(1, MAX_SEGMENTS) } else { 1 };
    let segment = if in_run > 1 { u16::try_from(length).ok().and_then(NonZeroU16::new) } else { None };
    let mut pieces = [IoSlice::new(&[]); RUNS];
    let mut used = 0;
    for (piece, run) in pieces.iter_mut().zip(batch.bytes.chunks(in_run * length)) {
        *piece = IoSlice::new(run);
        used += 1;
    }
    let mut runs = [Outgoing { pieces: &[], segment, to: None }; RUNS];
    for (run, piece) in runs.iter_mut().zip(pieces[..used].chunks(1)) {
        run.pieces = piece;
    }
    let taken = socket.send(&runs[..used]);
    let datagrams = (taken.messages * in_run + taken.segments).min(batch.bytes.len() / length);
    (datagrams, taken)
}

/// Sends what is left of a message on a stream.
fn send_rest(socket: &socket2::Socket, message: &[u8], handed_over: &mut usize) -> io::Result<()> {
    while *handed_over < message.len() {
        match socket.send_with_flags(&message[*handed_over..], MSG_NOSIGNAL) {
            Ok(bytes) => *handed_over += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn connected_by(socket: &socket2::Socket, deadline: Nanos, stop: &Stop) -> io::Result<()> {
    loop {
        if wait(socket.as_fd(), PollFlags::POLLOUT, deadline, stop) {
            return socket.take_error()?.map_or(Ok(()), Err);
        }
        if stop.is_set() {
            return Err(io::Error::other("stopped"));
        }
        if now() >= deadline {
            return Err(io::Error::from_raw_os_error(nix::libc::ETIMEDOUT));
        }
    }
}

/// Waits for an event of a socket. `false`: time or stop came before it.
fn wait(socket: BorrowedFd<'_>, events: PollFlags, deadline: Nanos, stop: &Stop) -> bool {
    let mut fds = [PollFd::new(socket, events), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    clock::wait(&mut fds, Some(deadline));
    fds[0].revents().is_some_and(|revents| !revents.is_empty())
}

/// Runs, or datagrams, that a call has at most.
const RUNS: usize = 64;

const ANNOUNCEMENTS: u32 = 5;
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(20);

fn datagram_socket(settings: &SenderSettings) -> Result<weir_dgram::Socket, TrafficError> {
    let multicast = settings.to.ip().is_multicast();
    let interface = settings.interface.clone();
    let options = Options {
        send_buffer: settings.send_buffer,
        ttl: settings.ttl,
        multicast_ttl: settings.ttl,
        multicast_interface: interface.clone().filter(|_| multicast),
        interface: interface.filter(|_| !multicast),
        gso: settings.in_runs(),
        ..Options::default()
    };
    Ok(weir_dgram::Socket::connect(settings.from, settings.to, &options)?)
}

fn stream_socket(settings: &SenderSettings) -> Result<socket2::Socket, TrafficError> {
    let to = settings.to;
    let failed = |source| TrafficError::Socket { transport: Transport::Tcp, address: to, source };
    let socket = socket2::Socket::new(Domain::for_address(to), Type::STREAM, None).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    if let Some(bytes) = settings.send_buffer {
        let failed =
            |source| TrafficError::Option { option: "SO_SNDBUF", value: bytes.to_string(), hint: "".into(), source };
        socket.set_send_buffer_size(bytes).map_err(failed)?;
    }
    if let Some(name) = &settings.interface {
        let failed = |source| TrafficError::Option {
            option: "SO_BINDTODEVICE",
            value: name.clone(),
            hint: " (the interface's name, and before Linux 5.7 CAP_NET_RAW)".into(),
            source,
        };
        socket.bind_device(Some(name.as_bytes())).map_err(failed)?;
    }
    if let Some(ttl) = settings.ttl {
        let result = match to {
            SocketAddr::V4(_) => socket.set_ttl_v4(ttl.into()),
            SocketAddr::V6(_) => socket.set_unicast_hops_v6(ttl.into()),
        };
        let failed =
            |source| TrafficError::Option { option: "IP_TTL", value: ttl.to_string(), hint: "".into(), source };
        result.map_err(failed)?;
    }
    tcp_options(&socket, settings)?;
    if let Some(address) = settings.from {
        socket.bind(&address.into()).map_err(cannot_bind(address))?;
    }
    Ok(socket)
}

fn tcp_options(socket: &socket2::Socket, settings: &SenderSettings) -> Result<(), TrafficError> {
    if let Some(name) = &settings.tcp.congestion {
        congestion::set(socket, name)?;
    }
    let nodelay = settings.tcp.nodelay;
    socket.set_tcp_nodelay(nodelay).map_err(|source| TrafficError::Option {
        option: "TCP_NODELAY",
        value: nodelay.to_string(),
        hint: "".into(),
        source,
    })?;
    if settings.from.is_some() {
        // A port that was used a minute ago may be used again.
        socket.set_reuse_address(true).map_err(|source| TrafficError::Option {
            option: "SO_REUSEADDR",
            value: "1".to_owned(),
            hint: "".into(),
            source,
        })?;
    }
    Ok(())
}
