//! A sending socket: whole messages or none, and never past the deadline.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::libc::{EINPROGRESS, MSG_NOSIGNAL};
use nix::poll::{PollFd, PollFlags};
use socket2::{Domain, Socket, Type};
use weir_kernel::tcp::TcpInfo;

use crate::service::stop::Stop;
use crate::traffic::clock::{self, Nanos, nanos, now};
use crate::traffic::{ErrorCount, ErrorLog, SenderSettings, TrafficError, Transport};

/// A non-blocking socket and what went wrong with it.
#[derive(Debug)]
pub(super) struct Channel {
    socket: Socket,
    transport: Transport,
    connected: bool,
    errors: ErrorLog,
    blocked: Nanos,
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
        let SenderSettings { transport, to, .. } = *settings;
        let kind = match transport {
            Transport::Udp => Type::DGRAM,
            Transport::Tcp => Type::STREAM,
        };
        let failed = |source| TrafficError::Socket { transport, address: to, source };
        let socket = Socket::new(Domain::for_address(to), kind, None).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        if let Some(bytes) = settings.send_buffer {
            let failed =
                |source| TrafficError::Option { option: "SO_SNDBUF", value: bytes.to_string(), hint: "", source };
            socket.set_send_buffer_size(bytes).map_err(failed)?;
        }
        if transport == Transport::Tcp {
            tcp_options(&socket, settings)?;
        }
        if let Some(address) = settings.from {
            socket.bind(&address.into()).map_err(|source| TrafficError::Bind { address, source })?;
        }
        if transport == Transport::Udp {
            socket.connect(&to.into()).map_err(|source| TrafficError::Connect { address: to, source })?;
        }
        Ok(Self { socket, transport, connected: false, errors: ErrorLog::default(), blocked: 0 })
    }

    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    pub(super) fn send_buffer(&self) -> Option<usize> {
        self.socket.send_buffer_size().ok()
    }

    /// The connection's state; `None`: UDP, or never connected.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        if self.connected { TcpInfo::of(&self.socket).ok() } else { None }
    }

    /// Time spent waiting for the send buffer.
    pub(super) fn blocked(&self) -> Duration {
        Duration::from_nanos(self.blocked)
    }

    pub(super) fn into_errors(self) -> Vec<ErrorCount> {
        self.errors.into_counts()
    }

    /// Makes the TCP connection. `false`: it was not made before the deadline or the stop; the reason is counted.
    pub(super) fn connect(&mut self, to: SocketAddr, deadline: Nanos, stop: &Stop) -> bool {
        let mut result = self.socket.connect(&to.into());
        if result.as_ref().is_err_and(|error| error.raw_os_error() == Some(EINPROGRESS)) {
            result = self.connected_by(deadline, stop);
        }
        match result {
            Ok(()) => self.connected = true,
            Err(error) => self.errors.count("connect", &error),
        }
        self.connected
    }

    fn connected_by(&self, deadline: Nanos, stop: &Stop) -> io::Result<()> {
        loop {
            if self.wait(PollFlags::POLLOUT, deadline, stop) {
                return self.socket.take_error()?.map_or(Ok(()), Err);
            }
            if stop.is_set() {
                return Err(io::Error::other("stopped"));
            }
            if now() >= deadline {
                return Err(io::Error::from_raw_os_error(nix::libc::ETIMEDOUT));
            }
        }
    }

    /// Hands over a message; waits while the send buffer is full, as a blocking `send` would.
    pub(super) fn send(&mut self, message: &[u8], deadline: Nanos, stop: &Stop) -> Outcome {
        let mut handed_over = 0;
        let mut refusals = 0;
        while handed_over < message.len() {
            match self.socket.send_with_flags(&message[handed_over..], MSG_NOSIGNAL) {
                Ok(bytes) => handed_over += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let begin = now();
                    if begin >= deadline || stop.is_set() {
                        return Outcome::Late { handed_over: handed_over as u64 };
                    }
                    self.wait(PollFlags::POLLOUT, deadline, stop);
                    self.blocked += now() - begin;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.errors.count("send", &error);
                    if self.transport == Transport::Tcp {
                        return Outcome::Broken;
                    }
                    // An ICMP answer to an earlier datagram was in the way; this one was not tried yet.
                    refusals += 1;
                    if error.kind() != io::ErrorKind::ConnectionRefused || refusals > 1 {
                        return Outcome::Refused;
                    }
                }
            }
        }
        Outcome::Sent
    }

    /// Sends what tells the receiver that this was all: once where nothing is lost, else several times.
    pub(super) fn announce(&mut self, end: &[u8], deadline: Nanos, stop: &Stop) {
        if self.transport == Transport::Tcp {
            self.send(end, deadline, stop);
            return;
        }
        for _ in 0..ANNOUNCEMENTS {
            let next = now() + nanos(ANNOUNCEMENT_INTERVAL);
            match self.socket.send_with_flags(end, MSG_NOSIGNAL) {
                // It has heard the announcement, or was never there, which the messages' errors tell.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.errors.count("announce", &error),
                _ => {}
            }
            while now() < next {
                clock::wait(&mut [], Some(next));
            }
        }
    }

    /// TCP: says that nothing follows, and waits until the peer has read it and closed, too.
    pub(super) fn drain(&mut self, deadline: Nanos, stop: &Stop) {
        // A connection that broke before has nothing to drain. Closed by both ends, it hangs up (always polled for).
        if self.connected && self.socket.shutdown(Shutdown::Write).is_ok() {
            while !self.wait(PollFlags::empty(), deadline, stop) && now() < deadline && !stop.is_set() {}
        }
    }

    /// Waits for an event of the socket. `false`: time or stop came before it.
    fn wait(&self, events: PollFlags, deadline: Nanos, stop: &Stop) -> bool {
        let mut fds = [PollFd::new(self.socket.as_fd(), events), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        clock::wait(&mut fds, Some(deadline));
        fds[0].revents().is_some_and(|revents| !revents.is_empty())
    }
}

const ANNOUNCEMENTS: u32 = 5;
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(20);

fn tcp_options(socket: &Socket, settings: &SenderSettings) -> Result<(), TrafficError> {
    if let Some(name) = &settings.tcp.congestion {
        let hint =
            " (see /proc/sys/net/ipv4/tcp_available_congestion_control; others are kernel modules: modprobe tcp_NAME)";
        socket.set_tcp_congestion(name.as_bytes()).map_err(|source| TrafficError::Option {
            option: "TCP_CONGESTION",
            value: name.clone(),
            hint,
            source,
        })?;
    }
    let nodelay = settings.tcp.nodelay;
    socket.set_tcp_nodelay(nodelay).map_err(|source| TrafficError::Option {
        option: "TCP_NODELAY",
        value: nodelay.to_string(),
        hint: "",
        source,
    })?;
    if settings.from.is_some() {
        // A port that was used a minute ago may be used again.
        socket.set_reuse_address(true).map_err(|source| TrafficError::Option {
            option: "SO_REUSEADDR",
            value: "1".to_owned(),
            hint: "",
            source,
        })?;
    }
    Ok(())
}
