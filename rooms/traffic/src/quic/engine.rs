//! quinn's protocol on one thread: a socket, its connections, and their wake-ups.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags};
use quinn_proto::{
    AcceptError, ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
    Event, ServerConfig, Transmit,
};
use quinn_udp::{RecvMeta, UdpSocketState};
use weir_dgram::Socket;
use weir_program::clock::{self, Nanos, nanos, now};

use super::{DONE, tls};

/// Runs only within the calls of [`Self::turn`] and [`Self::work`].
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) socket: Socket,
    state: UdpSocketState,
    endpoint: Endpoint,
    /// Connections that are over stay until they are removed.
    pub(super) connections: HashMap<ConnectionHandle, Connection>,
    /// Events for the caller. A connection that could not be accepted has the handle [`REFUSED`].
    pub(super) events: VecDeque<(ConnectionHandle, Event)>,
    /// Datagrams that belonged to no connection and began none, for the caller.
    pub(super) foreign: u64,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// The content of `outgoing`, if the socket had no room for it.
    held: Option<Transmit>,
}

impl Engine {
    /// An engine that only connects, or also accepts.
    pub(super) fn new(socket: Socket, server: Option<ServerConfig>) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        let config = EndpointConfig::default();
        let incoming = vec![0; BATCH * state.gro_segments() * config.get_max_udp_payload_size() as usize];
        let endpoint = Endpoint::new(Arc::new(config), server.map(Arc::new), false, None);
        let (connections, events) = (HashMap::new(), VecDeque::new());
        let (outgoing, held, foreign) = (Vec::new(), None, 0);
        Ok(Self { socket, state, endpoint, connections, events, foreign, incoming, outgoing, held })
    }

    pub(super) fn connect(&mut self, config: ClientConfig, to: SocketAddr) -> io::Result<ConnectionHandle> {
        let connected = self.endpoint.connect(Instant::now(), config, to, tls::SERVER_NAME);
        let (handle, connection) = connected.map_err(io::Error::other)?;
        self.connections.insert(handle, connection);
        Ok(handle)
    }

    /// Receives all packets, and sends those that may leave.
    pub(super) fn turn(&mut self) {
        let _ = (0..ROUNDS).all(|_| self.receive());
        let Self { socket, state, endpoint, connections, events, outgoing, held, .. } = self;
        let (at, segments) = (Instant::now(), state.max_gso_segments().min(MAX_SEGMENTS));
        for (&handle, connection) in connections {
            if connection.poll_timeout().is_some_and(|due| due <= at) {
                connection.handle_timeout(at);
            }
            loop {
                if held.is_none() {
                    outgoing.clear();
                    *held = connection.poll_transmit(at, segments, outgoing);
                }
                match held {
                    Some(packets) if send(socket, state, packets, outgoing) => *held = None,
                    _ => break,
                }
            }
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = endpoint.handle_event(handle, event) {
                    connection.handle_event(event);
                }
            }
            events.extend(std::iter::from_fn(|| connection.poll()).map(|event| (handle, event)));
        }
    }

    /// Runs until something has happened to a connection, the time `until` has come (`None`: never), or one of `wakes`
    /// is ready.
    pub(super) fn work(&mut self, until: Option<Nanos>, wakes: &[PollFd<'_>]) {
        self.turn();
        if self.events.is_empty() {
            let due = self.connections.values_mut().filter_map(Connection::poll_timeout).min();
            let due = due.map(|due| now() + nanos(due.saturating_duration_since(Instant::now())));
            let room = if self.held.is_some() { PollFlags::POLLOUT } else { PollFlags::empty() };
            let mut fds = vec![PollFd::new(self.socket.as_fd(), PollFlags::POLLIN | room)];
            fds.extend_from_slice(wakes);
            clock::wait(&mut fds, due.into_iter().chain(until).min());
            self.turn();
        }
    }

    /// Closes all connections as planned. Their peers need not receive it.
    pub(super) fn close(&mut self) {
        self.connections.values_mut().for_each(|connection| connection.close(Instant::now(), DONE, Vec::new().into()));
        self.turn();
    }

    /// Receives some packets. `false`: there are none.
    fn receive(&mut self) -> bool {
        let Self { socket, state, endpoint, connections, events, foreign, incoming, .. } = self;
        let size = incoming.len() / BATCH;
        let mut parts = incoming.chunks_mut(size);
        let mut buffers: [_; BATCH] = std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        let (mut metas, mut answer) = ([RecvMeta::default(); BATCH], Vec::new());
        // ICMP errors about sent packets are ignored: anybody can forge them.
        let Ok(count) = state.recv((&*socket).into(), &mut buffers, &mut metas) else { return false };
        let at = Instant::now();
        for (meta, buffer) in metas.iter().zip(&buffers).take(count) {
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            for packet in buffer[..meta.len].chunks(meta.stride.max(1)) {
                let answered = match endpoint.handle(at, meta.addr, meta.dst_ip, ecn, packet.into(), &mut answer) {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        connections.entry(handle).and_modify(|connection| connection.handle_event(event));
                        None
                    }
                    Some(DatagramEvent::NewConnection(new)) if connections.len() >= MAX_CONNECTIONS => {
                        Some(endpoint.refuse(new, &mut answer))
                    }
                    Some(DatagramEvent::NewConnection(new)) => match endpoint.accept(new, at, &mut answer, None) {
                        Ok((handle, connection)) => {
                            connections.insert(handle, connection);
                            None
                        }
                        Err(AcceptError { cause: reason, response }) => {
                            events.push_back((REFUSED, Event::ConnectionLost { reason }));
                            response
                        }
                    },
                    // An answer is a stateless reset, or a list of versions.
                    other => {
                        *foreign += 1;
                        if let Some(DatagramEvent::Response(answer)) = other { Some(answer) } else { None }
                    }
                };
                // A packet without room in the socket is requested again.
                let _ = answered.is_some_and(|packets| send(socket, state, &packets, &answer));
                answer.clear();
            }
        }
        true
    }
}

/// Closes the connections.
impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

/// `false`: the socket has no room.
fn send(socket: &Socket, state: &UdpSocketState, packets: &Transmit, bytes: &[u8]) -> bool {
    let packets = quinn_udp::Transmit {
        destination: packets.destination,
        ecn: packets.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
        contents: &bytes[..packets.size],
        segment_size: packets.segment_size,
        src_ip: packets.src_ip,
    };
    // Any other error counts as loss on the way.
    state.send(socket.into(), &packets).is_ok()
}

const REFUSED: ConnectionHandle = ConnectionHandle(usize::MAX);

/// Max connections of an endpoint.
const MAX_CONNECTIONS: usize = 1024;

/// Buffers per receive call, each with as many packets as the kernel joins (UDP_GRO).
const BATCH: usize = 8;

/// Receive calls between two checks for packets to send.
const ROUNDS: usize = 4;

/// Packets per send call, as in quinn (MAX_TRANSMIT_SEGMENTS in quinn/src/connection.rs): more would delay
/// acknowledgements.
const MAX_SEGMENTS: usize = 10;
