//! The receiving end: accepts every connection, and passes events on in order of arrival.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use nix::poll::PollFd;
use quinn_proto::{ConnectionHandle, Dir, ReadError, StreamEvent, StreamId};
use weir_dgram::{Options, Socket};
use weir_program::clock::{Nanos, now};
use weir_wire::probe::Probe;

use super::engine::Engine;
use super::{ended_by, tls, transport_config};
use crate::error::cannot_bind;
use crate::receiver::frames::Frames;
use crate::{ReceiverSettings, TrafficError};

/// A bound socket, and its connections. Packets before the first call of [`Self::next`] wait in it.
#[derive(Debug)]
pub(crate) struct Listener {
    engine: Engine,
    /// Whether only the length of data counts.
    pub(super) is_bulk: bool,
    /// The connections that are up, each with its peer and its streams.
    peers: HashMap<ConnectionHandle, (SocketAddr, HashMap<StreamId, Frames>)>,
}

/// A received event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection.
    Connected,
    /// A message of this many bytes.
    Message { probe: Probe, length: usize, peer: SocketAddr, at: Nanos },
    /// A datagram or a stream that is not ours; the stream is not read further.
    Foreign,
    /// The end of a stream within a message.
    CutOff { bytes: u64 },
    /// Bytes of a bulk transfer.
    Bytes { bytes: u64, at: Nanos },
    /// A connection is closed.
    Closed,
    /// An error: the operation, and the reason as text.
    Failed { operation: &'static str, reason: String },
}

impl Listener {
    /// Creates and binds the socket in the calling thread's network namespace.
    pub(crate) fn bind(settings: &ReceiverSettings) -> Result<Self, TrafficError> {
        let mut config = tls::server(settings.transport)?;
        config.transport_config(Arc::new(transport_config()));
        let bytes = settings.receive_buffer.unwrap_or(SOCKET_BUFFER);
        let socket = Socket::bind(settings.listen, &Options { receive_buffer: Some(bytes), ..Options::default() })?;
        let engine = Engine::new(socket, Some(config)).map_err(cannot_bind(settings.listen))?;
        Ok(Self { engine, is_bulk: false, peers: HashMap::new() })
    }

    /// The address it listens on, with the port the kernel chose.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.engine.socket.local_addr()
    }

    /// Effective SO_RCVBUF, bytes.
    pub(crate) fn receive_buffer(&self) -> usize {
        self.engine.socket.granted().receive_buffer.granted
    }

    /// Datagrams that the kernel dropped at the socket. `None`: it does not report them.
    pub(crate) fn socket_drops(&self) -> Option<u64> {
        self.engine.socket.memory().ok().map(|memory| memory.drops.into())
    }

    /// Adds new events to `events`; waits for one until the time `until` (`None`: forever), or until one of `wakes` is
    /// ready.
    pub(crate) fn next(&mut self, events: &mut Vec<Event>, until: Option<Nanos>, wakes: &[PollFd<'_>]) {
        use quinn_proto::Event as Happened;
        self.engine.work(until, wakes);
        events.extend((0..std::mem::take(&mut self.engine.foreign)).map(|_| Event::Foreign));
        while let Some((handle, happened)) = self.engine.events.pop_front() {
            let connection = self.engine.connections.get_mut(&handle);
            match (happened, connection) {
                (Happened::Connected, Some(connection)) => {
                    self.peers.insert(handle, (connection.remote_address(), HashMap::new()));
                    events.push(Event::Connected);
                }
                (Happened::DatagramReceived, Some(connection)) => {
                    let (at, peer) = (now(), connection.remote_address());
                    while let Some(bytes) = connection.datagrams().recv() {
                        events.push(match Probe::parse_datagram(&bytes) {
                            Ok(probe) => Event::Message { probe, length: bytes.len(), peer, at },
                            Err(_) => Event::Foreign,
                        });
                    }
                }
                (Happened::Stream(StreamEvent::Opened { dir: Dir::Uni }), Some(connection)) => {
                    let opened: Vec<_> = std::iter::from_fn(|| connection.streams().accept(Dir::Uni)).collect();
                    for stream in opened {
                        if let Some((_, streams)) = self.peers.get_mut(&handle) {
                            streams.insert(stream, Frames::default());
                        }
                        self.read(handle, stream, events);
                    }
                }
                (Happened::Stream(StreamEvent::Readable { id }), _) => self.read(handle, id, events),
                (Happened::ConnectionLost { reason }, _) => {
                    let peer = self.peers.remove(&handle);
                    let operation = if peer.is_some() { "receive" } else { "accept" };
                    for frames in peer.iter().flat_map(|(_, streams)| streams.values()) {
                        events.push(Event::CutOff { bytes: frames.partial() as u64 });
                    }
                    events.extend(ended_by(&reason).map(|reason| Event::Failed { operation, reason }));
                    events.extend(peer.map(|_| Event::Closed));
                }
                _ => {}
            }
        }
        self.engine.connections.retain(|_, connection| !connection.is_drained());
    }

    /// Reads a stream's data. One that has ended, or is not ours, is not read again.
    fn read(&mut self, handle: ConnectionHandle, id: StreamId, events: &mut Vec<Event>) {
        let Some((peer, streams)) = self.peers.get_mut(&handle) else { return };
        let (Some(frames), Some(connection)) = (streams.get_mut(&id), self.engine.connections.get_mut(&handle)) else {
            return;
        };
        let (mut stream, at) = (connection.recv_stream(id), now());
        let Ok(mut chunks) = stream.read(true) else { return };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) if self.is_bulk => events.push(Event::Bytes { bytes: chunk.bytes.len() as u64, at }),
                Ok(Some(chunk)) => {
                    let message = |probe: &Probe, length| {
                        events.push(Event::Message { probe: *probe, length, peer: *peer, at });
                    };
                    if frames.feed(&chunk.bytes, message).is_err() {
                        break Some(Event::Foreign);
                    }
                }
                Ok(None) => break Some(Event::CutOff { bytes: frames.partial() as u64 }),
                Err(ReadError::Blocked) => break None,
                Err(error) => break Some(Event::Failed { operation: "receive", reason: error.to_string() }),
            }
        };
        // The engine's next turn tells the peer that there is room again.
        let _ = chunks.finalize();
        if let Some(end) = end {
            streams.remove(&id);
            events.push(end);
        }
    }
}

/// Default receive buffer of the UDP socket: user space reads in bursts, and drops would look like the path's loss. The
/// kernel limits it.
const SOCKET_BUFFER: usize = 4 << 20;
