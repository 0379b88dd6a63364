//! The receiving end: takes every connection, and hands on what comes in the order in which it comes.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bytes::Bytes;
use nix::sys::socket::{setsockopt, sockopt};
use quinn::{Connection, Endpoint, EndpointConfig, Incoming, ReadError, RecvStream, TokioRuntime};
use tokio::select;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weir_dgram::Memory;
use weir_program::clock::{Nanos, now};
use weir_program::stop::Stop;
use weir_wire::probe::Probe;

use super::reactor::{Flag, Reactor};
use super::{DONE, ended_by, tls, transport_config, udp_socket};
use crate::error::{cannot_bind, cannot_set};
use crate::receiver::frames::Frames;
use crate::{ReceiverSettings, TrafficError, Transport};

/// A bound socket. What comes before [`Self::start`] waits in it.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UdpSocket,
    address: SocketAddr,
    config: quinn::ServerConfig,
    purpose: Purpose,
    receive_buffer: Option<usize>,
}

/// What is done with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Messages in datagrams.
    Datagrams,
    /// Messages in streams.
    Streams,
    /// Streams of which only the length counts.
    Bulk,
}

/// Something that has come.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection.
    Connected,
    /// A message of so many bytes.
    Message { probe: Probe, length: usize, peer: SocketAddr, at: Nanos },
    /// A datagram or a stream that is not ours; nothing more of the stream is read.
    Foreign,
    /// The end of a stream that was not a whole message.
    CutOff { bytes: u64 },
    /// Bytes of a bulk transfer.
    Bytes { bytes: u64, at: Nanos },
    /// A connection is closed.
    Closed,
    /// Something went wrong: what was tried, and why, in words.
    Failed { operation: &'static str, reason: String },
}

/// The connections of a listener, at work.
#[derive(Debug)]
pub(crate) struct Arrivals {
    events: mpsc::Receiver<Event>,
    exchange: Flag,
    endpoint: Endpoint,
    socket: UdpSocket,
    // Last: the others belong to it.
    reactor: Reactor,
}

impl Listener {
    /// Makes and binds the socket in the calling thread's network namespace.
    pub(crate) fn bind(settings: &ReceiverSettings) -> Result<Self, TrafficError> {
        let ReceiverSettings { transport, listen: address, .. } = *settings;
        let mut config = tls::server(transport)?;
        config.transport_config(Arc::new(transport_config()));
        let socket = udp_socket(transport, address)?;
        let bytes = settings.receive_buffer.unwrap_or(SOCKET_BUFFER);
        // Past rmem_max, where the process may.
        if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
            socket.set_recv_buffer_size(bytes).map_err(cannot_set("SO_RCVBUF", &bytes))?;
        }
        let bind = cannot_bind(address);
        socket.bind(&address.into()).map_err(&bind)?;
        let receive_buffer = socket.recv_buffer_size().ok();
        let purpose = if transport == Transport::QuicDatagram { Purpose::Datagrams } else { Purpose::Streams };
        let socket = UdpSocket::from(socket);
        let address = socket.local_addr().map_err(&bind)?;
        Ok(Self { socket, address, config, purpose, receive_buffer })
    }

    /// The same, of a bulk transfer.
    pub(super) fn of_bulk(self) -> Self {
        Self { purpose: Purpose::Bulk, ..self }
    }

    /// The address it listens on, with the port the kernel chose.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// SO_RCVBUF as the kernel granted it, bytes.
    pub(crate) fn receive_buffer(&self) -> Option<usize> {
        self.receive_buffer
    }

    /// Takes connections from now on, on the thread that asks for their events. `exchange` is a descriptor that
    /// becomes readable when sending has ended. Fails where the process has no file descriptor left.
    pub(crate) fn start(self, stop: &Stop, exchange: BorrowedFd<'_>) -> io::Result<Arrivals> {
        let reactor = Reactor::new(stop)?;
        let socket = self.socket.try_clone()?;
        let (sender, events) = mpsc::channel(EVENTS);
        let (exchange, endpoint) = reactor.with(|| {
            let exchange = Flag::new(exchange)?;
            let runtime = Arc::new(TokioRuntime);
            let endpoint = Endpoint::new(EndpointConfig::default(), Some(self.config), self.socket, runtime)?;
            tokio::spawn(accept(endpoint.clone(), self.purpose, sender));
            io::Result::Ok((exchange, endpoint))
        })?;
        Ok(Arrivals { events, exchange, endpoint, socket, reactor })
    }
}

impl Arrivals {
    /// Adds to `events` what has come, and waits for it until the time `until` (`None`: without end), the stop, or
    /// (`watch_exchange`) the end of sending.
    pub(crate) fn next(&mut self, events: &mut Vec<Event>, until: Option<Nanos>, watch_exchange: bool) {
        let Self { events: queue, exchange, reactor, .. } = self;
        reactor.until(until, async {
            select! {
                biased;
                _ = queue.recv_many(events, BATCH) => {}
                () = exchange.set(), if watch_exchange => {}
            }
        });
    }

    /// Waits on although there was a stop.
    pub(crate) fn outlast_the_stop(&mut self) {
        self.reactor.outlast_the_stop();
    }

    /// Datagrams that the kernel dropped at the socket; `None`: it does not tell.
    pub(crate) fn socket_drops(&self) -> Option<u64> {
        Memory::of(self.socket.as_fd()).ok().map(|memory| memory.drops.into())
    }
}

/// Tells the peers that it was enough. They need not hear it.
impl Drop for Arrivals {
    fn drop(&mut self) {
        self.endpoint.close(DONE, b"");
        for _ in 0..LAST_TURNS {
            self.reactor.turn();
        }
    }
}

async fn accept(endpoint: Endpoint, purpose: Purpose, events: mpsc::Sender<Event>) {
    while let Some(incoming) = endpoint.accept().await {
        if endpoint.open_connections() > MOST_CONNECTIONS {
            incoming.refuse();
            continue;
        }
        tokio::spawn(serve(incoming, purpose, events.clone()));
    }
}

/// Serves a connection to its end. Nobody listens to its events any more once the receiver has ended.
async fn serve(incoming: Incoming, purpose: Purpose, events: mpsc::Sender<Event>) {
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => {
            if let Some(reason) = ended_by(&error) {
                let _ = events.send(Event::Failed { operation: "accept", reason }).await;
            }
            return;
        }
    };
    let _ = events.send(Event::Connected).await;
    let error = match purpose {
        Purpose::Datagrams => read_datagrams(&connection, &events).await,
        Purpose::Streams | Purpose::Bulk => read_streams(&connection, purpose, &events).await,
    };
    if let Some(reason) = ended_by(&error) {
        let _ = events.send(Event::Failed { operation: "receive", reason }).await;
    }
    let _ = events.send(Event::Closed).await;
}

async fn read_datagrams(connection: &Connection, events: &mpsc::Sender<Event>) -> quinn::ConnectionError {
    let peer = connection.remote_address();
    loop {
        let event = match connection.read_datagram().await {
            Ok(bytes) => match Probe::parse_datagram(&bytes) {
                Ok(probe) => Event::Message { probe, length: bytes.len(), peer, at: now() },
                Err(_) => Event::Foreign,
            },
            Err(error) => return error,
        };
        let _ = events.send(event).await;
    }
}

async fn read_streams(
    connection: &Connection,
    purpose: Purpose,
    events: &mpsc::Sender<Event>,
) -> quinn::ConnectionError {
    let mut readers = JoinSet::new();
    let error = loop {
        match connection.accept_uni().await {
            Ok(stream) => readers.spawn(read(stream, purpose, connection.remote_address(), events.clone())),
            Err(error) => break error,
        };
    };
    // What came before the end is read to the end.
    readers.join_all().await;
    error
}

async fn read(mut stream: RecvStream, purpose: Purpose, peer: SocketAddr, events: mpsc::Sender<Event>) {
    let (mut chunks, mut frames, mut come) = ([const { Bytes::new() }; CHUNKS], Frames::default(), Vec::new());
    let end = loop {
        match stream.read_chunks(&mut chunks).await {
            Ok(Some(count)) if purpose == Purpose::Bulk => {
                let bytes = chunks[..count].iter().map(|chunk| chunk.len() as u64).sum();
                come.push(Event::Bytes { bytes, at: now() });
            }
            Ok(Some(count)) => {
                let at = now();
                let mut message = |probe: &Probe, length| come.push(Event::Message { probe: *probe, length, peer, at });
                if chunks[..count].iter().any(|chunk| frames.feed(chunk, &mut message).is_err()) {
                    break Event::Foreign;
                }
            }
            // What ended the connection its own task tells.
            Ok(None) | Err(ReadError::ConnectionLost(_)) => break Event::CutOff { bytes: frames.partial() as u64 },
            Err(error) => break Event::Failed { operation: "receive", reason: error.to_string() },
        }
        for event in come.drain(..) {
            if events.send(event).await.is_err() {
                return;
            }
        }
    };
    come.push(end);
    for event in come {
        let _ = events.send(event).await;
    }
}

/// Connections at once, at most.
const MOST_CONNECTIONS: usize = 1024;

/// Events between the connections and the receiver; behind them flow control holds the senders back.
const EVENTS: usize = 1024;

/// Events taken at once.
const BATCH: usize = 256;

/// Pieces of a stream taken at once: each is what one packet held.
const CHUNKS: usize = 64;

/// The UDP socket's receive buffer unless told otherwise: user space reads in bursts, and what a burst drops would be
/// taken for the path's loss. The kernel caps it.
const SOCKET_BUFFER: usize = 4 << 20;

/// Turns of the runtime that a closing connection needs to say so.
const LAST_TURNS: usize = 4;
