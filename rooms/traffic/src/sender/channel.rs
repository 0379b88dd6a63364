//! A sending socket: sends whole messages or none, and never after the deadline.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::libc::{EINPROGRESS, ENOBUFS, MSG_NOSIGNAL};
use nix::poll::{PollFd, PollFlags};
use quinn_proto::PathStats;
use weir_dgram::{MAX_RUN_BYTES, MAX_SEGMENTS, Outgoing, SendProgress};
use weir_kernel::tcp::TcpInfo;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;

use super::message::Batch;
use super::sockets::{datagram_socket, stream_socket};
use crate::quic::{Client, Known};
use crate::{ErrorCount, ErrorLog, Exchange, SenderSettings, TrafficError, Transport};

/// A non-blocking socket and its errors.
#[derive(Debug)]
pub(crate) struct Channel {
    outlet: Outlet,
    errors: ErrorLog,
    blocked: Nanos,
    /// Whether batches leave in buffers for the kernel to split.
    runs: bool,
    /// Whether the kernel queues ICMP errors to be read.
    reports: bool,
    /// Whether others keep using its socket after this has ended.
    pub(crate) shared: bool,
}

#[derive(Debug)]
pub(crate) enum Outlet {
    /// The socket, and the destination if it is not connected.
    Datagrams(Arc<weir_dgram::Socket>, Option<Way>),
    /// The socket, and whether it is connected.
    Stream(socket2::Socket, bool),
    Quic(Box<Client>),
}

/// Destination of datagrams of an unconnected socket, and their source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) to: SocketAddr,
    /// `None`: the kernel chooses.
    pub(crate) from: Option<IpAddr>,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The kernel accepted it.
    Sent,
    /// The kernel did not accept this one (UDP); the next one may succeed.
    Refused,
    /// The deadline or a stop came before the kernel had accepted all of it.
    Late {
        /// Bytes accepted.
        handed_over: u64,
    },
    /// The connection is gone.
    Broken,
}

impl Channel {
    /// Creates the socket. UDP gets its destination, TCP its options.
    pub(crate) fn open(settings: &SenderSettings) -> Result<Self, TrafficError> {
        let outlet = match settings.transport {
            Transport::Udp => Outlet::Datagrams(Arc::new(datagram_socket(settings)?), None),
            Transport::Tcp => Outlet::Stream(stream_socket(settings)?, false),
            Transport::Quic | Transport::QuicDatagram => Outlet::Quic(Box::new(Client::open(settings)?)),
        };
        let (runs, reports) = (settings.in_runs(), settings.reads_reports());
        Ok(Self { runs, reports, shared: false, ..Self::shared(outlet) })
    }

    /// A channel through a shared socket.
    pub(crate) fn shared(outlet: Outlet) -> Self {
        Self { outlet, errors: ErrorLog::default(), blocked: 0, runs: false, reports: false, shared: true }
    }

    /// The UDP socket, for shared use. `None`: it is another kind.
    pub(crate) fn datagrams(&self) -> Option<Arc<weir_dgram::Socket>> {
        match &self.outlet {
            Outlet::Datagrams(socket, _) => Some(Arc::clone(socket)),
            _ => None,
        }
    }

    /// The TCP socket, for shared use.
    pub(crate) fn stream(&self) -> io::Result<TcpStream> {
        match &self.outlet {
            Outlet::Stream(socket, _) => socket.try_clone().map(TcpStream::from),
            _ => Err(io::Error::other("not a connection")),
        }
    }

    /// The path statistics of a QUIC connection. `None`: another transport.
    pub(crate) fn path(&self) -> Option<Arc<Mutex<PathStats>>> {
        if let Outlet::Quic(client) = &self.outlet { Some(client.path()) } else { None }
    }

    /// Whether it is connected.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.outlet, Outlet::Stream(_, true))
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match &self.outlet {
            Outlet::Datagrams(socket, _) => Some(socket.local_addr()),
            Outlet::Stream(socket, _) => socket.local_addr().ok()?.as_socket(),
            Outlet::Quic(client) => Some(client.local_addr()),
        }
    }

    #[cfg(test)]
    pub(super) fn traffic_class(&self) -> Option<u32> {
        let socket = match &self.outlet {
            Outlet::Datagrams(socket, _) => socket2::SockRef::from(&**socket),
            Outlet::Stream(socket, _) => socket2::SockRef::from(socket),
            Outlet::Quic(_) => return None,
        };
        if socket.domain().ok()? == socket2::Domain::IPV4 { socket.tos_v4().ok() } else { socket.tclass_v6().ok() }
    }

    pub(super) fn send_buffer(&self) -> Option<usize> {
        match &self.outlet {
            Outlet::Datagrams(socket, _) => Some(socket.granted().send_buffer.granted),
            Outlet::Stream(socket, _) => socket.send_buffer_size().ok(),
            Outlet::Quic(client) => Some(client.send_buffer()),
        }
    }

    /// The connection's state; `None`: UDP, or never connected.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        match &self.outlet {
            Outlet::Stream(socket, true) => TcpInfo::of(socket).ok(),
            _ => None,
        }
    }

    /// The state of a QUIC connection. `None`: another transport.
    pub(super) fn quic(&self) -> Option<Known> {
        if let Outlet::Quic(client) = &self.outlet { Some(client.known()) } else { None }
    }

    /// Time spent waiting for the send buffer.
    pub(super) fn blocked(&self) -> Duration {
        match &self.outlet {
            Outlet::Quic(client) => client.blocked(),
            _ => Duration::from_nanos(self.blocked),
        }
    }

    /// Waits until the time `until` or the stop; a QUIC connection is served meanwhile.
    pub(super) fn sleep(&mut self, until: Nanos, stop: &Stop) {
        match &mut self.outlet {
            Outlet::Quic(client) => client.sleep(until, stop),
            _ => clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(until)),
        }
    }

    pub(crate) fn take_errors(&mut self) -> Vec<ErrorCount> {
        std::mem::take(&mut self.errors).into_counts()
    }

    /// Connects. `false`: it did not connect before the deadline or the stop; the reason is counted.
    pub(crate) fn connect(&mut self, to: SocketAddr, deadline: Nanos, stop: &Stop) -> bool {
        let (socket, connected) = match &mut self.outlet {
            Outlet::Datagrams(..) => return true,
            Outlet::Stream(socket, connected) => (socket, connected),
            Outlet::Quic(client) => {
                let result = client.connect(to, deadline, stop);
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

    /// Sends a message; waits while the send buffer is full, as a blocking `send` would.
    pub(crate) fn send(&mut self, message: &[u8], deadline: Nanos, stop: &Stop) -> Outcome {
        let mut handed_over = 0;
        loop {
            let (socket, result) = match &mut self.outlet {
                Outlet::Datagrams(socket, way) => {
                    let result = send_datagram(socket, *way, message, self.reports, &mut self.errors);
                    (AsFd::as_fd(&**socket), result)
                }
                Outlet::Stream(socket, _) => {
                    let result = send_rest(socket, message, &mut handed_over);
                    (AsFd::as_fd(&*socket), result)
                }
                Outlet::Quic(client) => {
                    return client.write(message, deadline, stop).unwrap_or_else(|reason| {
                        self.errors.count("send", &io::Error::other(reason));
                        Outcome::Broken
                    });
                }
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
                        Outlet::Datagrams(..) => Outcome::Refused,
                        Outlet::Stream(..) | Outlet::Quic(_) => Outcome::Broken,
                    };
                }
            }
        }
    }

    /// Sends as many messages of a batch as the kernel accepts at once, and returns their number; the others
    /// must be stamped again. Waits for room if the send buffer is full. UDP only: streams have no batches.
    pub(super) fn send_batch(&mut self, batch: Batch<'_>, deadline: Nanos, stop: &Stop) -> (usize, Outcome) {
        let Outlet::Datagrams(socket, None) = &self.outlet else { return (0, Outcome::Broken) };
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

    /// Announces the end to the receiver: once if nothing can be lost, else several times. Returns how many datagrams
    /// the kernel accepted.
    pub(super) fn announce(&mut self, end: &[u8], deadline: Nanos, stop: &Stop) -> u64 {
        let (socket, way) = match &mut self.outlet {
            Outlet::Datagrams(socket, way) => (socket, *way),
            Outlet::Quic(client) if client.datagrams => {
                for _ in 0..ANNOUNCEMENTS {
                    // A peer that has closed has received it.
                    if client.write(end, deadline, stop) != Ok(Outcome::Sent) || stop.is_set() {
                        break;
                    }
                    client.sleep(now() + nanos(ANNOUNCEMENT_INTERVAL), stop);
                }
                return 0;
            }
            Outlet::Quic(_) | Outlet::Stream(..) => {
                self.send(end, deadline, stop);
                return 0;
            }
        };
        let mut announced = 0;
        for round in 0..ANNOUNCEMENTS {
            let next = now() + nanos(ANNOUNCEMENT_INTERVAL);
            let taken = send_one(socket, way, end);
            announced += taken.messages as u64;
            if taken.icmp > 0 {
                // Refused: the receiver has got an announcement and gone, or was never there. Before the first
                // announcement only messages can have been refused.
                if let Some(errno) = taken.reported.filter(|_| round == 0) {
                    self.errors.count("send", &io::Error::from_raw_os_error(errno));
                }
                return announced;
            }
            match taken.error {
                Some(error) if is_queue_drop(&error, self.reports) => {
                    self.errors.count(INTERFACE_QUEUE, &error);
                    announced += 1;
                }
                Some(error) if error.kind() != io::ErrorKind::WouldBlock => self.errors.count("announce", &error),
                _ => {}
            }
            while now() < next {
                clock::wait(&mut [], Some(next));
            }
        }
        announced
    }

    /// TCP and QUIC: closes for sending, and waits until the peer has read everything and closed as well.
    pub(super) fn drain(&mut self, exchange: &Exchange, deadline: Nanos, stop: &Stop) {
        if let Outlet::Quic(client) = &mut self.outlet
            && let Some(reason) = client.drain(exchange, deadline, stop)
        {
            self.errors.count("drain", &io::Error::other(reason));
        }
        // A broken connection has nothing to drain. Closed by both ends, it hangs up (always polled for).
        if let Outlet::Stream(socket, true) = &self.outlet
            && !self.shared
            && socket.shutdown(Shutdown::Write).is_ok()
        {
            while !wait(socket.as_fd(), PollFlags::empty(), deadline, stop) && now() < deadline && !stop.is_set() {}
        }
    }
}

/// Sends a datagram. An ICMP error about an earlier one is counted, and does not block this one.
fn send_datagram(
    socket: &weir_dgram::Socket,
    way: Option<Way>,
    message: &[u8],
    reports: bool,
    errors: &mut ErrorLog,
) -> io::Result<()> {
    let mut taken = send_one(socket, way, message);
    // An ICMP error that came while the call was repeated is not about this datagram either.
    for _ in 0..REPEATS {
        let pending = count_reports(socket, &taken, reports, errors);
        if !pending || taken.error.as_ref().is_none_or(|error| error.kind() == io::ErrorKind::WouldBlock) {
            break;
        }
        taken = send_one(socket, way, message);
    }
    match taken.error {
        Some(error) if is_queue_drop(&error, reports) => {
            errors.count(INTERFACE_QUEUE, &error);
            Ok(())
        }
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Whether an interface's queue dropped the datagram. Only sockets with IP_RECVERR learn of it; it counts as sent as
/// without it.
fn is_queue_drop(error: &io::Error, reports: bool) -> bool {
    reports && error.raw_os_error() == Some(ENOBUFS)
}

/// The name under which such a drop is counted.
const INTERFACE_QUEUE: &str = "interface queue";

/// Counts the ICMP errors about earlier datagrams: each one, if the kernel queues them. Reads all, since they would
/// wake up everyone who waits for the socket. Returns whether there was one.
fn count_reports(socket: &weir_dgram::Socket, taken: &SendProgress, reports: bool, errors: &mut ErrorLog) -> bool {
    let mut any_report = false;
    if reports && (taken.icmp > 0 || taken.error.is_some()) {
        while let Ok(Some(report)) = socket.next_error() {
            // Errors of this machine were returned by the send call already.
            if report.origin != weir_dgram::Origin::Local {
                errors.count("send", &io::Error::from_raw_os_error(report.errno));
                any_report = true;
            }
        }
    }
    if let Some(errno) = taken.reported.filter(|_| !any_report) {
        errors.count("send", &io::Error::from_raw_os_error(errno));
    }
    any_report
}

fn send_one(socket: &weir_dgram::Socket, way: Option<Way>, message: &[u8]) -> SendProgress {
    if let Some(Way { to, from }) = way {
        return match socket.send_from(message, to, from) {
            Ok(()) => SendProgress { messages: 1, calls: 1, ..SendProgress::default() },
            Err(error) => SendProgress { calls: 1, error: Some(error), ..SendProgress::default() },
        };
    }
    socket.send(&[Outgoing { pieces: &[IoSlice::new(message)], segment: None, to: None }])
}

/// Sends a batch, in `runs` that the kernel splits into datagrams if it can, or one by one. Returns the number of
/// accepted datagrams.
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

/// Sends the rest of a message on a stream.
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

/// Waits for an event of a socket. `false`: the time or the stop came first.
fn wait(socket: BorrowedFd<'_>, events: PollFlags, deadline: Nanos, stop: &Stop) -> bool {
    let mut fds = [PollFd::new(socket, events), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    clock::wait(&mut fds, Some(deadline));
    fds[0].revents().is_some_and(|revents| !revents.is_empty())
}

/// Max runs or datagrams per call.
const RUNS: usize = 64;

/// Max calls for one datagram that may fail with errors of earlier ones.
const REPEATS: u32 = 8;

const ANNOUNCEMENTS: u32 = 5;
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(20);
