//! The sending end: one connection, and one stream or datagrams on it.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quinn::{Connection, Endpoint, EndpointConfig, SendDatagramError, SendStream, TokioRuntime, VarInt};
use weir_program::clock::{Nanos, nanos, now};
use weir_program::stop::Stop;

use super::reactor::{Reactor, Waited};
use super::{DONE, Route, SenderSettings, any_like, ended_by, tls, transport_config, udp_socket};
use crate::error::{cannot_bind, cannot_set};
use crate::sender::channel::Outcome;
use crate::sender::sockets::set_way;
use crate::{Exchange, TrafficError, Transport};

/// A socket, and from [`Self::connect`] on the connection.
#[derive(Debug)]
pub(crate) struct Client {
    socket: UdpSocket,
    /// Where its packets leave from.
    source: Option<IpAddr>,
    config: quinn::ClientConfig,
    pub(crate) datagrams: bool,
    /// Bytes of a message.
    pub(super) length: usize,
    send_buffer: usize,
    /// Whether the receiver lives in another process.
    any_peer: bool,
    connected: Option<Connected>,
    blocked: Nanos,
    known: Known,
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Packets declared lost so far; `None`: never connected.
    pub(crate) lost_packets: Option<u64>,
    /// Datagrams that quinn took.
    pub(crate) taken: u64,
    /// Datagrams that have left.
    pub(crate) have_left: u64,
    /// Bytes that quinn kept for datagrams that had not left when the drain was over.
    pub(crate) left_behind: u64,
    /// Whether the peer had acknowledged all when the drain was over. Of datagrams: something after the last of them, so
    /// that what was lost of them is declared lost. `None`: not drained, or the receiver of this process was asked instead.
    pub(crate) acknowledged: Option<bool>,
}

#[derive(Debug)]
struct Connected {
    connection: Connection,
    /// `None`: datagrams.
    stream: Option<SendStream>,
    /// What quinn has room for when no datagram waits: a little less than it was given.
    room: usize,
    endpoint: Endpoint,
    // Last: the others belong to it.
    reactor: Reactor,
}

impl Client {
    /// Makes the socket in the calling thread's network namespace.
    pub(crate) fn open(settings: &SenderSettings) -> Result<Self, TrafficError> {
        let SenderSettings { transport, to, .. } = *settings;
        let mut limits = transport_config();
        limits.congestion_controller_factory(settings.quic.controller()?);
        let route = Route::to(to);
        limits.initial_mtu(route.packet_size).mtu_discovery_config(None);
        let send_buffer = settings.send_buffer.unwrap_or(SEND_BUFFER);
        limits.send_window(send_buffer as u64).datagram_send_buffer_size(send_buffer);
        let any_peer = settings.quic.any_peer;
        let mut config = tls::client(transport)?;
        config.transport_config(Arc::new(limits));

        let socket = udp_socket(transport, to)?;
        // The kernel caps what is asked for: quinn waits where a smaller buffer is full.
        socket.set_send_buffer_size(SOCKET_BUFFER).map_err(cannot_set("SO_SNDBUF", &SOCKET_BUFFER))?;
        set_way(&socket, settings)?;
        let address = settings.from.unwrap_or_else(|| any_like(to));
        socket.bind(&address.into()).map_err(cannot_bind(address))?;
        Ok(Self {
            socket: socket.into(),
            source: route.source,
            config,
            datagrams: transport == Transport::QuicDatagram,
            length: settings.payload_bytes,
            send_buffer,
            any_peer,
            connected: None,
            blocked: 0,
            known: Known::default(),
        })
    }

    /// Its own address; unspecified if no route leads to the peer.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        let mut local = self.socket.local_addr().ok()?;
        if let Some(source) = self.source.filter(|_| local.ip().is_unspecified()) {
            local.set_ip(source);
        }
        Some(local)
    }

    /// Bytes that quinn takes before it makes a sender wait.
    pub(crate) fn send_buffer(&self) -> usize {
        self.send_buffer
    }

    /// The connection; `None`: never made.
    pub(crate) fn connection(&self) -> Option<Connection> {
        self.connected.as_ref().map(|connected| connected.connection.clone())
    }

    /// What is known of the connection.
    pub(crate) fn known(&self) -> Known {
        let stats = self.connected.as_ref().map(|connected| connected.connection.stats());
        Known {
            lost_packets: stats.map(|stats| stats.path.lost_packets),
            have_left: stats.map_or(0, |stats| stats.frame_tx.datagram),
            ..self.known
        }
    }

    /// Time spent waiting for quinn to take what was to be sent.
    pub(crate) fn blocked(&self) -> Duration {
        Duration::from_nanos(self.blocked)
    }

    /// Makes the connection.
    pub(crate) fn connect(&mut self, to: SocketAddr, deadline: Nanos, stop: &Stop) -> io::Result<()> {
        let reactor = Reactor::new(stop)?;
        let (socket, datagrams) = (self.socket.try_clone()?, self.datagrams);
        let endpoint =
            reactor.with(|| Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)))?;
        let shaking_hands = async {
            let config = self.config.clone();
            let connecting = endpoint.connect_with(config, to, tls::SERVER_NAME).map_err(io::Error::other)?;
            let reason = |error| ended_by(&error).unwrap_or_else(|| error.to_string());
            let connection = connecting.await.map_err(|error| io::Error::other(reason(error)))?;
            let stream = if datagrams { None } else { Some(connection.open_uni().await?) };
            io::Result::Ok((connection, stream))
        };
        let (connection, stream) = match reactor.until(Some(deadline), shaking_hands) {
            Waited::Come(connected) => connected?,
            Waited::Not if stop.is_set() => return Err(io::Error::other("stopped")),
            Waited::Not => {
                return Err(io::Error::other(format!("connection timed out: perhaps nobody listens at {to}")));
            }
        };
        if datagrams {
            fits(self.length, connection.max_datagram_size()).map_err(io::Error::other)?;
        }
        let room = connection.datagram_send_buffer_space();
        self.connected = Some(Connected { connection, stream, room, endpoint, reactor });
        Ok(())
    }

    /// Hands over bytes: the next ones of the stream, or one datagram. Waits while quinn's buffer is full. The error is why
    /// the connection is gone.
    pub(crate) fn write(&mut self, bytes: &[u8], deadline: Nanos) -> Result<Outcome, String> {
        let Some(Connected { connection, stream, reactor, .. }) = &mut self.connected else {
            return Err("not connected".to_owned());
        };
        let Some(stream) = stream else {
            let sending = connection.send_datagram_wait(bytes.to_vec().into());
            return match wait(reactor, &mut self.blocked, deadline, sending) {
                Waited::Come(Ok(())) => {
                    self.known.taken += 1;
                    Ok(Outcome::Sent)
                }
                Waited::Come(Err(SendDatagramError::TooLarge)) => {
                    Err(fits(bytes.len(), connection.max_datagram_size()).err().unwrap_or_default())
                }
                Waited::Come(Err(error)) => Err(error.to_string()),
                Waited::Not => Ok(Outcome::Late { handed_over: 0 }),
            };
        };
        let mut handed_over = 0;
        while handed_over < bytes.len() {
            match wait(reactor, &mut self.blocked, deadline, stream.write(&bytes[handed_over..])) {
                Waited::Come(taken) => handed_over += taken.map_err(|error| error.to_string())?,
                Waited::Not => return Ok(Outcome::Late { handed_over: handed_over as u64 }),
            }
        }
        Ok(Outcome::Sent)
    }

    /// Lets the connection work until the time `until` or the stop.
    pub(crate) fn sleep(&self, until: Nanos) {
        if let Some(connected) = &self.connected {
            connected.reactor.until(Some(until), pending::<()>());
        }
    }

    /// Says that nothing follows, waits until everything has arrived and closes the connection. What broke it
    /// meanwhile, if anything did.
    ///
    /// A stream has arrived when the peer has acknowledged its end; what datagrams have arrived only `exchange` knows.
    pub(crate) fn drain(&mut self, exchange: &Exchange, deadline: Nanos, stop: &Stop) -> Option<String> {
        let any_peer = self.any_peer;
        let Connected { connection, stream, room, endpoint, reactor } = self.connected.as_mut()?;
        let room = *room;
        let finished = stream.as_mut().map(|stream| {
            // A stream that is finished or gone has nothing left to say.
            let _ = stream.finish();
            stream.stopped()
        });
        let over = async {
            tokio::select! {
                error = connection.closed() => ended_by(&error),
                () = async {
                    match finished {
                        // One that is gone with its connection was not acknowledged, and the other branch says why.
                        Some(finished) => {
                            if finished.await.is_err() {
                                pending::<()>().await;
                            }
                        }
                        None if any_peer => have_left(connection, room).await,
                        None => pending().await,
                    }
                } => None,
            }
        };
        let mut over = pin!(over);
        let (error, acknowledged) = loop {
            if !any_peer && exchange.delivered() >= exchange.sent() {
                break (None, true);
            }
            // The receiver lives in this process: what it has counted needs no packet to tell.
            let look = now().saturating_add(nanos(LOOK)).min(deadline);
            match reactor.until(Some(look), over.as_mut()) {
                Waited::Come(error) => {
                    let acknowledged = error.is_none();
                    break (error, acknowledged);
                }
                Waited::Not if stop.is_set() || now() >= deadline => break (None, false),
                Waited::Not => {}
            }
        };
        self.known.acknowledged = (any_peer || !self.datagrams).then_some(acknowledged);
        if self.datagrams {
            self.known.left_behind = room.saturating_sub(connection.datagram_send_buffer_space()) as u64;
        }
        connection.close(DONE, b"");
        endpoint.close(DONE, b"");
        for _ in 0..LAST_TURNS {
            reactor.turn();
        }
        error
    }
}

/// Waits until no datagram waits to be sent and the peer has acknowledged something since, and as long again as those on
/// their way may take.
async fn have_left(connection: &Connection, room: usize) {
    while connection.datagram_send_buffer_space() < room {
        tokio::time::sleep(LOOK).await;
    }
    // Whether the last datagrams were acknowledged quinn does not tell. What follows them has to be: room for more streams,
    // which nobody needs.
    let acknowledgements = || connection.stats().frame_rx.acks;
    let before = acknowledgements();
    connection.set_max_concurrent_uni_streams(VarInt::from_u32(MORE_STREAMS));
    while acknowledgements() == before {
        tokio::time::sleep(LOOK).await;
    }
    tokio::time::sleep(2 * connection.rtt() + LAST_DATAGRAMS).await;
}

/// Waits for quinn to take something, and lets it leave.
fn wait<T>(reactor: &Reactor, blocked: &mut Nanos, deadline: Nanos, taking: impl Future<Output = T>) -> Waited<T> {
    let mut taking = pin!(taking);
    let at_once = poll_fn(|context| Poll::Ready(taking.as_mut().poll(context)));
    let taken = match reactor.until(None, at_once) {
        Waited::Come(Poll::Ready(taken)) => Waited::Come(taken),
        _ => {
            let begin = now();
            let taken = reactor.until(Some(deadline), taking);
            *blocked += now() - begin;
            taken
        }
    };
    reactor.turn();
    taken
}

fn fits(bytes: usize, longest: Option<usize>) -> Result<(), String> {
    match longest {
        None => Err("the peer takes no datagrams".to_owned()),
        Some(longest) if bytes > longest => {
            Err(format!("payload of {bytes}B: a QUIC datagram on this path holds at most {longest}B"))
        }
        Some(_) => Ok(()),
    }
}

/// What waits to be sent or acknowledged at most: what quinn allows a stream unless told otherwise is 10 MB, what the
/// kernel's TCP autotunes to is 4 MiB (tcp_wmem).
const SEND_BUFFER: usize = 4 << 20;

/// The UDP socket's own buffers.
const SOCKET_BUFFER: usize = 4 << 20;

/// What a receiver may take to read the last datagrams, before the connection's end overtakes them.
const LAST_DATAGRAMS: Duration = Duration::from_millis(20);

/// Streams that the peer may open, more than it could before (100): only then it is told.
const MORE_STREAMS: u32 = 200;

/// How often to ask the receiver whether everything has arrived.
const LOOK: Duration = Duration::from_millis(2);

/// Turns of the runtime that a closing connection needs to say so.
const LAST_TURNS: usize = 4;
