//! The receiving end: receives messages and keeps the ledger of every session.

pub(crate) mod datagrams;
pub(crate) mod ending;
pub(crate) mod frames;
mod gauge;
mod quic;
pub(crate) mod sessions;
mod stalls;
pub(crate) mod streams;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use socket2::{Domain, Type};
use weir_dgram::{Options, Socket};

use self::ending::Ending;
pub use self::gauge::{Gauge, Level};
use weir_program::clock::now;
use weir_program::stop::Stop;

use self::sessions::Sessions;
use self::stalls::Stalls;
use crate::error::{cannot_bind, cannot_set};
use crate::quic::Listener;
use crate::reverse::{Desk, OtherWay};
use crate::sender::channel::Channel;
use crate::{Exchange, Interval, ReceiveReport, ReceiverSettings, TrafficError, Transport};

/// A bound socket that already receives.
#[derive(Debug)]
pub struct Receiver {
    settings: ReceiverSettings,
    endpoint: Endpoint,
    /// UDP: the TCP listener for requests.
    control: Option<TcpListener>,
    /// Their desk.
    desk: Option<Arc<Desk>>,
    other: Option<Arc<OtherWay>>,
    intervals: Option<(Duration, mpsc::Sender<Interval>)>,
}

#[derive(Debug)]
enum Endpoint {
    /// The socket, and how often it was read: also for a [`Gauge`].
    Datagrams(Arc<Socket>, Arc<AtomicU64>),
    /// The listener, or the one existing connection.
    Streams {
        listener: Option<TcpListener>,
        connection: Option<TcpStream>,
        address: SocketAddr,
        receive_buffer: Option<usize>,
    },
    Quic(Box<Listener>),
}

impl Receiver {
    /// Creates, binds and (TCP) listens on the socket in the calling thread's network namespace. UDP joins its groups.
    pub fn bind(settings: &ReceiverSettings) -> Result<Self, TrafficError> {
        let mut control = None;
        let endpoint = match settings.transport {
            Transport::Udp => {
                let mut socket = datagram_socket(settings)?;
                let mut ports = PORTS;
                while settings.reverse.is_some() && control.is_none() {
                    ports -= 1;
                    match listen(SocketAddr::new(settings.listen.ip(), socket.local_addr().port()), None) {
                        Ok((listener, ..)) => control = Some(listener),
                        // The kernel chose a port that TCP has in use.
                        Err(_) if settings.listen.port() == 0 && ports > 0 => socket = datagram_socket(settings)?,
                        Err(error) => return Err(error),
                    }
                }
                Endpoint::Datagrams(Arc::new(socket), Arc::default())
            }
            Transport::Tcp => {
                let (listener, address, receive_buffer) = listen(settings.listen, settings.receive_buffer)?;
                Endpoint::Streams { listener: Some(listener), connection: None, address, receive_buffer }
            }
            Transport::Quic | Transport::QuicDatagram => Endpoint::Quic(Box::new(Listener::bind(settings)?)),
        };
        let desk = match (settings.transport, settings.reverse) {
            (Transport::Udp, Some(_)) | (Transport::Tcp, _) => {
                let failed =
                    |source| TrafficError::Socket { transport: settings.transport, address: settings.listen, source };
                Some(Desk::new(settings).map_err(failed)?)
            }
            _ => None,
        };
        let (settings, other) = (settings.clone(), desk.as_ref().map(|desk| desk.other_way()));
        Ok(Self { settings, endpoint, control, desk, other, intervals: None })
    }

    /// A receiver on a client's socket, next to its sender.
    pub(crate) fn over(channel: &Channel, settings: ReceiverSettings) -> io::Result<Self> {
        let endpoint = match channel.datagrams() {
            Some(socket) => Endpoint::Datagrams(socket, Arc::default()),
            None => Endpoint::Streams {
                listener: None,
                connection: Some(channel.stream()?),
                address: settings.listen,
                receive_buffer: None,
            },
        };
        let other = Some(Arc::default());
        Ok(Self { settings, endpoint, control: None, desk: None, other, intervals: None })
    }

    /// The desk for reverse flows, if allowed.
    pub(crate) fn other_way(&self) -> Arc<OtherWay> {
        self.other.clone().unwrap_or_default()
    }

    /// Reports each interval of this length while it runs, and the last part of one at the end.
    pub fn tell(self, every: Duration, to: mpsc::Sender<Interval>) -> Self {
        Self { intervals: Some((every, to)), ..self }
    }

    /// The address it listens on, with the port the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.endpoint {
            Endpoint::Datagrams(socket, _) => socket.local_addr(),
            Endpoint::Streams { address, .. } => *address,
            Endpoint::Quic(listener) => listener.local_addr(),
        }
    }

    /// A gauge of its buffer for other threads. `None`: not datagrams.
    pub fn gauge(&self) -> Option<Gauge> {
        match &self.endpoint {
            Endpoint::Datagrams(socket, reads) => {
                Some(Gauge { socket: Arc::downgrade(socket), reads: Arc::clone(reads) })
            }
            _ => None,
        }
    }

    /// Receives until every sent message has arrived, the drain is over, `stop` is set, or as the settings require.
    pub fn run(self, exchange: &Exchange, stop: &Stop) -> ReceiveReport {
        let started = now();
        let mut sessions = Sessions::new(&self.settings, exchange);
        if let Some((every, to)) = self.intervals {
            sessions.tell(every, to);
        }
        if let Some(other) = self.other {
            sessions = sessions.beside(other);
        }
        let desk = self.desk.as_deref();
        let ending = Ending::new(&self.settings.until, exchange, stop, started);
        let mut report = match self.endpoint {
            Endpoint::Datagrams(socket, reads) => {
                if let (Some(desk), Some(listener)) = (&self.desk, self.control) {
                    desk.listen(listener, &self.settings);
                }
                let stalls = self.settings.stall.map(|stall| Stalls::new(stall, started));
                datagrams::receive(&socket, &reads, self.settings.longest, stalls, sessions, ending, desk)
            }
            Endpoint::Streams { listener, connection, address, receive_buffer } => {
                let connection = connection.map(|connection| (connection, address));
                let report = streams::receive(listener.as_ref(), connection, sessions, ending, self.desk.as_ref());
                ReceiveReport { receive_buffer, ..report }
            }
            Endpoint::Quic(listener) => quic::receive(*listener, sessions, ending),
        };
        if let Some(desk) = desk {
            desk.close(&mut report);
        }
        ReceiveReport { started, finished: now(), ..report }
    }
}

/// Max free UDP ports to try until one is free for TCP as well.
const PORTS: u32 = 16;

fn datagram_socket(settings: &ReceiverSettings) -> Result<Socket, TrafficError> {
    let options = Options {
        receive_buffer: settings.receive_buffer,
        reuse_address: !settings.groups.is_empty(),
        // Answers leave from the address of the request.
        local_address: settings.reverse.is_some(),
        ..Options::default()
    };
    let socket = Socket::bind(settings.listen, &options)?;
    for group in &settings.groups {
        socket.join(group)?;
    }
    Ok(socket)
}

/// A listening socket, its address with the kernel's port, and its effective receive buffer.
pub(crate) fn listen(
    address: SocketAddr,
    receive_buffer: Option<usize>,
) -> Result<(TcpListener, SocketAddr, Option<usize>), TrafficError> {
    let failed = |source| TrafficError::Socket { transport: Transport::Tcp, address, source };
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes).map_err(cannot_set("SO_RCVBUF", &bytes))?;
    }
    // Connections of an earlier receiver may still be in TIME_WAIT.
    socket.set_reuse_address(true).map_err(failed)?;
    let bind = cannot_bind(address);
    socket.bind(&address.into()).map_err(&bind)?;
    socket.listen(BACKLOG).map_err(&bind)?;
    let bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(address);
    let receive_buffer = socket.recv_buffer_size().ok();
    Ok((socket.into(), bound, receive_buffer))
}

/// As many connections as a bulk transfer may have.
const BACKLOG: i32 = 1024;
