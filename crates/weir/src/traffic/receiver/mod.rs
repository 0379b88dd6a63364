//! The receiving end: takes messages as they come and keeps the account of every session.

mod datagrams;
mod ending;
mod frames;
mod sessions;
mod streams;

use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Socket, Type};

use self::ending::Ending;
use self::sessions::Sessions;
use super::clock::now;
use super::{Exchange, ReceiveReport, ReceiverSettings, TrafficError, Transport};
use crate::service::stop::Stop;

/// A socket that is bound, and receives already.
#[derive(Debug)]
pub struct Receiver {
    settings: ReceiverSettings,
    socket: Socket,
    address: SocketAddr,
}

impl Receiver {
    /// Makes, binds and (TCP) listens on the socket in the calling thread's network namespace.
    pub fn bind(settings: &ReceiverSettings) -> Result<Self, TrafficError> {
        let ReceiverSettings { transport, listen: address, .. } = *settings;
        let kind = match transport {
            Transport::Udp => Type::DGRAM,
            Transport::Tcp => Type::STREAM,
        };
        let failed = |source| TrafficError::Socket { transport, address, source };
        let socket = Socket::new(Domain::for_address(address), kind, None).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        if let Some(bytes) = settings.receive_buffer {
            let failed =
                |source| TrafficError::Option { option: "SO_RCVBUF", value: bytes.to_string(), hint: "", source };
            socket.set_recv_buffer_size(bytes).map_err(failed)?;
        }
        if transport == Transport::Tcp {
            // Connections of an earlier receiver may still be in TIME_WAIT.
            socket.set_reuse_address(true).map_err(failed)?;
        }
        socket.bind(&address.into()).map_err(|source| TrafficError::Bind { address, source })?;
        if transport == Transport::Tcp {
            socket.listen(BACKLOG).map_err(|source| TrafficError::Bind { address, source })?;
        }
        let bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(address);
        Ok(Self { settings: settings.clone(), socket, address: bound })
    }

    /// The address it listens on, with the port the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Receives until everything sent has arrived, the drain is over, `stop` is set, or as the settings say.
    pub fn run(self, exchange: &Exchange, stop: &Stop) -> ReceiveReport {
        let started = now();
        let receive_buffer = self.socket.recv_buffer_size().ok();
        let sessions = Sessions::new(&self.settings, exchange);
        let ending = Ending::new(&self.settings.until, exchange, stop, started);
        let mut report = match self.settings.transport {
            Transport::Udp => datagrams::receive(&UdpSocket::from(self.socket), sessions, ending),
            Transport::Tcp => streams::receive(&TcpListener::from(self.socket), sessions, ending),
        };
        (report.started, report.finished, report.receive_buffer) = (started, now(), receive_buffer);
        report
    }
}

const BACKLOG: i32 = 128;
