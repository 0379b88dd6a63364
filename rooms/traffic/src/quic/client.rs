//! The sending end: one connection, and one stream or datagrams on it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{getsockopt, sockopt};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, Dir, Event, PathStats, SendDatagramError, StreamEvent, StreamId,
    WriteError,
};
use weir_program::clock::{Nanos, nanos, now};
use weir_program::stop::Stop;

use super::engine::Engine;
use super::{CONGESTION, DONE_WORD, ETHERNET, controller, ended_by, packet_size, tls, transport_config};
use crate::sender::channel::Outcome;
use crate::sender::sockets::datagram_socket;
use crate::{Exchange, SenderSettings, TrafficError, Transport};

/// A socket, and after [`Self::connect`] the connection.
#[derive(Debug)]
pub(crate) struct Client {
    engine: Engine,
    config: quinn_proto::ClientConfig,
    pub(crate) datagrams: bool,
    /// Bytes of a message.
    pub(super) length: usize,
    send_buffer: usize,
    /// The connection once it was attempted, whether it is up, its stream, if any, and why it ended.
    handle: Option<ConnectionHandle>,
    is_up: bool,
    stream: Option<StreamId>,
    lost: Option<ConnectionError>,
    /// Whether the peer has acknowledged the end of the stream.
    is_finished: bool,
    /// quinn's room when no datagram waits: a little less than it was given.
    room: usize,
    blocked: Nanos,
    known: Known,
    path: Arc<Mutex<PathStats>>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Packets declared lost so far. `None`: never connected.
    pub(crate) lost_packets: Option<u64>,
    /// Datagrams sent. `None`: a stream.
    pub(crate) have_left: Option<u64>,
    /// Bytes of datagrams still in quinn when the drain was over.
    pub(crate) left_behind: u64,
    /// Whether the peer had acknowledged the end when the drain was over, or everything had arrived. `None`: not
    /// drained.
    pub(crate) acknowledged: Option<bool>,
}

impl Client {
    /// Creates the socket in the calling thread's network namespace.
    pub(crate) fn open(settings: &SenderSettings) -> Result<Self, TrafficError> {
        let SenderSettings { transport, to, .. } = *settings;
        let mut limits = transport_config();
        limits.congestion_controller_factory(controller(settings.congestion.as_deref().unwrap_or(CONGESTION[0]))?);
        // quinn waits when a smaller buffer is full.
        let socket = datagram_socket(&SenderSettings { send_buffer: Some(SOCKET_BUFFER), ..settings.clone() })?;
        // The first link's MTU, at most that of Ethernet. quinn would start from 1200 bytes and probe for more, with
        // random results under loss. If a later link drops that size, quinn falls back to 1200.
        let mtu = getsockopt(&socket, sockopt::IpMtu).ok().and_then(|mtu| u16::try_from(mtu).ok());
        let packet = packet_size(mtu.unwrap_or(ETHERNET).min(ETHERNET), to.ip());
        limits.initial_mtu(packet).mtu_discovery_config(None);
        let send_buffer = settings.send_buffer.unwrap_or(SEND_BUFFER);
        limits.send_window(send_buffer as u64).datagram_send_buffer_size(send_buffer);
        let mut config = tls::client(transport)?;
        config.transport_config(Arc::new(limits));
        let failed = |source| TrafficError::Socket { transport, address: to, source };
        Ok(Self {
            engine: Engine::new(socket, None).map_err(failed)?,
            config,
            datagrams: transport == Transport::QuicDatagram,
            length: settings.payload_bytes,
            send_buffer,
            handle: None,
            is_up: false,
            stream: None,
            lost: None,
            is_finished: false,
            room: 0,
            blocked: 0,
            known: Known::default(),
            path: Arc::default(),
        })
    }

    /// Its own address.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.engine.socket.local_addr()
    }

    /// Bytes that quinn accepts before a sender must wait.
    pub(crate) fn send_buffer(&self) -> usize {
        self.send_buffer
    }

    /// The state of the connection's path at the last write.
    pub(crate) fn path(&self) -> Arc<Mutex<PathStats>> {
        Arc::clone(&self.path)
    }

    /// The state of the connection.
    pub(crate) fn known(&self) -> Known {
        let connection = self.handle.filter(|_| self.is_up).and_then(|handle| self.engine.connections.get(&handle));
        let stats = connection.map(Connection::stats);
        Known {
            lost_packets: stats.map(|stats| stats.path.lost_packets),
            have_left: stats.filter(|_| self.datagrams).map(|stats| stats.frame_tx.datagram),
            ..self.known
        }
    }

    /// Time spent waiting for room in quinn.
    pub(crate) fn blocked(&self) -> Duration {
        Duration::from_nanos(self.blocked)
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        self.engine.connections.get_mut(&self.handle?)
    }

    /// Runs the connection until something has happened to it, the time `until`, or the stop.
    fn work(&mut self, until: Nanos, stop: &Stop) {
        self.engine.work(Some(until), &[PollFd::new(stop.as_fd(), PollFlags::POLLIN)]);
        self.hear();
    }

    fn hear(&mut self) {
        for (_, event) in self.engine.events.drain(..).filter(|(handle, _)| Some(*handle) == self.handle) {
            match event {
                Event::Connected => self.is_up = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Finished { .. }) => self.is_finished = true,
                _ => {}
            }
        }
    }

    /// Connects.
    pub(crate) fn connect(&mut self, to: SocketAddr, deadline: Nanos, stop: &Stop) -> io::Result<()> {
        (self.handle, self.is_up) = (Some(self.engine.connect(self.config.clone(), to)?), false);
        while !self.is_up {
            self.work(deadline, stop);
            match &self.lost {
                Some(error) => return Err(io::Error::other(ended_by(error).unwrap_or_else(|| error.to_string()))),
                None if self.is_up => {}
                None if stop.is_set() => return Err(io::Error::other("stopped")),
                None if now() >= deadline => {
                    return Err(io::Error::other(format!("connection timed out: perhaps nothing listens on {to}")));
                }
                None => {}
            }
        }
        let (datagrams, length) = (self.datagrams, self.length);
        if let Some(connection) = self.connection() {
            let stream = if datagrams { None } else { connection.streams().open(Dir::Uni) };
            let (longest, room) = (connection.datagrams().max_size(), connection.datagrams().send_buffer_space());
            (self.stream, self.room) = (stream, room);
            if datagrams {
                fits(length, longest).map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    /// Sends bytes: the next ones of the stream, or one datagram. Waits while quinn's buffer is full. Error: why the
    /// connection is gone.
    pub(crate) fn write(&mut self, bytes: &[u8], deadline: Nanos, stop: &Stop) -> Result<Outcome, String> {
        let mut handed_over = 0;
        while handed_over < bytes.len() {
            if let Some(error) = &self.lost {
                return Err(format!("connection lost: {}", ended_by(error).unwrap_or_else(|| DONE_WORD.to_owned())));
            }
            let stream = self.stream;
            let connection = self.connection().ok_or("not connected")?;
            match stream.map(|stream| connection.send_stream(stream).write(&bytes[handed_over..])) {
                Some(Ok(taken)) => {
                    handed_over += taken;
                    continue;
                }
                Some(Err(WriteError::Blocked)) => {}
                Some(Err(error)) => return Err(error.to_string()),
                None => match connection.datagrams().send(bytes.to_vec().into(), false) {
                    Ok(()) => break,
                    Err(SendDatagramError::Blocked(_)) => {}
                    Err(SendDatagramError::TooLarge) => {
                        return Err(fits(bytes.len(), connection.datagrams().max_size()).err().unwrap_or_default());
                    }
                    Err(error) => return Err(error.to_string()),
                },
            }
            let begin = now();
            if begin >= deadline || stop.is_set() {
                return Ok(Outcome::Late { handed_over: handed_over as u64 });
            }
            self.work(deadline, stop);
            self.blocked += now() - begin;
        }
        self.engine.turn();
        self.hear();
        if let Some(path) = self.connection().map(|connection| connection.stats().path) {
            *self.path.lock().unwrap_or_else(PoisonError::into_inner) = path;
        }
        Ok(Outcome::Sent)
    }

    /// Runs the connection until the time `until` or the stop.
    pub(crate) fn sleep(&mut self, until: Nanos, stop: &Stop) {
        while now() < until && !stop.is_set() {
            self.work(until, stop);
        }
    }

    /// Finishes the stream, waits until everything has arrived and closes the connection. Returns the error that broke
    /// it meanwhile, if any.
    ///
    /// Everything has arrived, or is lost, once the peer has acknowledged the end of the stream; for datagrams, that of
    /// an empty stream that leaves after them. Only a receiver in this process knows what the network holds longer.
    pub(crate) fn drain(&mut self, exchange: &Exchange, deadline: Nanos, stop: &Stop) -> Option<String> {
        let (mut ended, room, stream) = (false, self.room, self.stream);
        let (error, acknowledged) = loop {
            let delivered = exchange.delivered();
            if delivered >= exchange.sent() || self.is_finished && !(self.datagrams && delivered > 0) {
                break (None, true);
            }
            if let Some(lost) = &self.lost {
                let error = ended_by(lost);
                let acknowledged = error.is_none();
                break (error, acknowledged);
            }
            if stop.is_set() || now() >= deadline {
                break (None, false);
            }
            if !ended
                && let connection = self.connection()?
                && connection.datagrams().send_buffer_space() >= room
                && let Some(stream) = stream.or_else(|| connection.streams().open(Dir::Uni))
            {
                // A stream that is gone needs no end.
                let _ = connection.send_stream(stream).finish();
                ended = true;
            }
            self.work(now().saturating_add(nanos(LOOK)).min(deadline), stop);
        };
        self.known.acknowledged = Some(acknowledged);
        if self.datagrams {
            let (room, connection) = (self.room, self.connection()?);
            self.known.left_behind = room.saturating_sub(connection.datagrams().send_buffer_space()) as u64;
        }
        self.engine.close();
        error
    }
}

fn fits(bytes: usize, longest: Option<usize>) -> Result<(), String> {
    match longest {
        None => Err("the peer does not accept datagrams".to_owned()),
        Some(longest) if bytes > longest => {
            Err(format!("payload of {bytes}B: a QUIC datagram on this path holds at most {longest}B"))
        }
        Some(_) => Ok(()),
    }
}

/// Max bytes unsent or unacknowledged: quinn's default for a stream is 10 MB, and the kernel's TCP autotunes up to 4
/// MiB (tcp_wmem).
const SEND_BUFFER: usize = 4 << 20;

/// The UDP socket's own buffers.
const SOCKET_BUFFER: usize = 4 << 20;

/// Time between two checks whether the receiver has everything.
const LOOK: Duration = Duration::from_millis(2);
