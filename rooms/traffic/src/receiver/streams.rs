//! Messages over TCP.

use std::io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use weir_program::clock::{self, Nanos, now};

use super::ending::Ending;
use super::frames::Frames;
use super::sessions::Sessions;
use crate::reverse::lines::{First, Request};
use crate::reverse::{Desk, LONGEST_LINE, LOOK, end_when_dead};
use crate::sender::channel::Outlet;
use crate::{Ended, ErrorLog, ReceiveReport};

/// Receives until the ending stops it: from new connections, and from the existing one. `desk`: answers requests for
/// messages.
pub(crate) fn receive(
    listener: Option<&TcpListener>,
    connection: Option<(TcpStream, SocketAddr)>,
    sessions: Sessions<'_>,
    mut ending: Ending<'_>,
    desk: Option<&Arc<Desk>>,
) -> ReceiveReport {
    let mut errors = ErrorLog::default();
    let streams = Streams::new(listener, &ending, sessions, desk).map_err(|error| errors.count("epoll", &error));
    let Ok(mut streams) = streams else {
        return ReceiveReport { ended: Ended::Failed, errors: errors.into_counts(), ..ReceiveReport::default() };
    };
    if let Some((socket, peer)) = connection {
        streams.admit(socket, peer);
    }
    let ended = streams.run(&mut ending);
    let left: usize = streams.open.iter().flatten().map(|stream| stream.frames.partial()).sum();
    ReceiveReport {
        ended,
        connections: streams.accepted,
        evicted_connections: streams.evicted,
        partial_bytes: streams.partial_bytes + left as u64,
        errors: streams.errors.into_counts(),
        ..streams.sessions.into_report()
    }
}

struct Streams<'a> {
    listener: Option<&'a TcpListener>,
    epoll: Epoll,
    sessions: Sessions<'a>,
    /// By token; closed ones leave a gap.
    open: Vec<Option<Stream>>,
    accepted: u64,
    evicted: u64,
    partial_bytes: u64,
    buffer: Vec<u8>,
    errors: ErrorLog,
    desk: Option<&'a Arc<Desk>>,
}

struct Stream {
    socket: TcpStream,
    peer: SocketAddr,
    frames: Frames,
    /// The received part of its first line, if it begins like a control connection.
    line: Vec<u8>,
    /// Whether it has brought a message, or a token.
    is_ours: bool,
    /// When it last brought data.
    last_heard: Nanos,
}

/// The state of a stream after a read.
enum Next {
    Stays,
    Closes,
    /// It is not ours.
    Foreign,
    /// It requests messages.
    Asks(Request),
}

impl<'a> Streams<'a> {
    fn new(
        listener: Option<&'a TcpListener>,
        ending: &Ending<'_>,
        sessions: Sessions<'a>,
        desk: Option<&'a Arc<Desk>>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        if let Some(listener) = listener {
            epoll.add(listener, readable(LISTENER))?;
        }
        // They stay readable, but wake it up once.
        let once = EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT;
        epoll.add(ending.stop_fd(), EpollEvent::new(once, WAKE))?;
        epoll.add(ending.exchange_fd(), EpollEvent::new(once, WAKE))?;
        Ok(Self {
            listener,
            epoll,
            sessions,
            open: Vec::new(),
            accepted: 0,
            evicted: 0,
            partial_bytes: 0,
            buffer: vec![0; READ],
            errors: ErrorLog::default(),
            desk,
        })
    }

    fn run(&mut self, ending: &mut Ending<'_>) -> Ended {
        let mut events = [EpollEvent::empty(); 64];
        // Whether a connection has been ours: others (a health check, a port scan) do not end it.
        let mut was_there = false;
        loop {
            let at = now();
            if let Some(desk) = self.desk {
                desk.tick(&mut self.sessions, at);
            }
            let is_there = self.open.iter().flatten().any(|stream| stream.is_ours);
            was_there |= is_there;
            let next = match ending.check(&mut self.sessions, was_there && !is_there, at) {
                Ok(next) => next,
                Err(ended) => return ended,
            };
            let ready = self.epoll.wait(&mut events, clock::epoll_timeout(next)).unwrap_or(0);
            for event in &events[..ready] {
                match event.data() {
                    LISTENER => self.accept(),
                    WAKE => {}
                    token => {
                        let place = (token - FIRST_STREAM) as usize;
                        was_there |= self.take(place);
                    }
                }
            }
        }
    }

    fn accept(&mut self) {
        let Some(listener) = self.listener else { return };
        match listener.accept() {
            Ok((socket, peer)) => self.admit(socket, peer),
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted) => {}
            Err(error) => {
                self.errors.count("accept", &error);
                // No descriptors left. If this closes none, retrying at once would be a busy loop.
                if !self.hang_up() {
                    thread::sleep(LOOK);
                }
            }
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr) {
        if self.open.len() == MAX_STREAMS && self.open.iter().all(Option::is_some) {
            self.hang_up();
        }
        let free = self.open.iter().position(Option::is_none);
        let place = free.unwrap_or(self.open.len());
        let event = EpollEvent::new(EpollFlags::EPOLLIN, FIRST_STREAM + place as u64);
        let added = socket.set_nonblocking(true).and_then(|()| Ok(self.epoll.add(&socket, event)?));
        if let Err(error) = added {
            self.errors.count("accept", &error);
            return;
        }
        let (frames, line) = (Frames::default(), Vec::new());
        let stream = Some(Stream { socket, peer, frames, line, is_ours: false, last_heard: now() });
        match free {
            Some(place) => self.open[place] = stream,
            None => self.open.push(stream),
        }
        self.accepted += 1;
    }

    /// Closes the longest silent connection, so that another can be accepted: one without messages first. `false`:
    /// there is none.
    fn hang_up(&mut self) -> bool {
        let heard = |stream: &Stream| (stream.is_ours, stream.last_heard);
        let open = self.open.iter().enumerate().filter_map(|(place, stream)| Some((heard(stream.as_ref()?), place)));
        let Some(((is_ours, _), place)) = open.min() else { return false };
        if is_ours {
            self.evicted += 1;
        } else {
            self.sessions.count_foreign();
        }
        self.close(place);
        true
    }

    /// Reads a stream, and handles the result. Returns whether it was ours.
    fn take(&mut self, place: usize) -> bool {
        let next = self.read(place);
        let is_ours = self.open.get(place).and_then(Option::as_ref).is_some_and(|stream| stream.is_ours);
        match next {
            Next::Stays => {}
            Next::Closes => self.close(place),
            Next::Foreign => {
                self.sessions.count_foreign();
                self.forget(place);
            }
            Next::Asks(request) => {
                if let (Some(desk), Some(Stream { socket, peer, .. })) = (self.desk, self.forget(place)) {
                    desk.take(socket, request, peer);
                }
            }
        }
        is_ours
    }

    /// Reads at most a few buffers from a stream, so that others get their turn.
    fn read(&mut self, place: usize) -> Next {
        let Some(Some(stream)) = self.open.get_mut(place) else { return Next::Stays };
        for _ in 0..READS {
            let length = match stream.socket.read(&mut self.buffer) {
                Ok(0) => return Next::Closes,
                Ok(length) => length,
                Err(error) if error.kind() == WouldBlock => return Next::Stays,
                Err(error) if error.kind() == Interrupted => continue,
                Err(error) => {
                    self.errors.count("receive", &error);
                    return Next::Closes;
                }
            };
            let (at, mut bytes) = (now(), &self.buffer[..length]);
            if !stream.is_ours && (bytes.starts_with(b"{") || !stream.line.is_empty()) {
                let end = bytes.iter().position(|&byte| byte == b'\n');
                stream.line.extend_from_slice(&bytes[..end.unwrap_or(length)]);
                if stream.line.len() > LONGEST_LINE {
                    return Next::Foreign;
                }
                let Some(end) = end else { continue };
                match (serde_json::from_slice(&stream.line), self.desk) {
                    (Ok(First::Request(request)), Some(_)) => return Next::Asks(request),
                    (Ok(First::Token { token }), Some(desk))
                        if desk.arrive(&token, stream.peer, || {
                            end_when_dead(&stream.socket)?;
                            stream.socket.try_clone().map(|socket| Outlet::Stream(socket.into(), true))
                        }) => {}
                    _ => return Next::Foreign,
                }
                // Its client is receiving: it is not evicted.
                (stream.is_ours, stream.last_heard, bytes) = (true, Nanos::MAX, &bytes[end + 1..]);
            }
            stream.last_heard = stream.last_heard.max(at);
            let (peer, sessions, is_ours) = (stream.peer, &mut self.sessions, &mut stream.is_ours);
            let fed = stream.frames.feed(bytes, |probe, length| {
                *is_ours = true;
                sessions.count(probe, length, peer, at);
            });
            if fed.is_err() {
                return Next::Foreign;
            }
            if length < self.buffer.len() {
                return Next::Stays;
            }
        }
        Next::Stays
    }

    fn close(&mut self, place: usize) {
        if let Some(stream) = self.forget(place) {
            self.partial_bytes += stream.frames.partial() as u64;
        }
    }

    fn forget(&mut self, place: usize) -> Option<Stream> {
        let stream = self.open[place].take()?;
        // A flow may have a copy, which would keep it in the set.
        let _ = self.epoll.delete(&stream.socket);
        Some(stream)
    }
}

const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const FIRST_STREAM: u64 = 2;

const MAX_STREAMS: usize = if cfg!(test) { 256 } else { 1024 };
const READ: usize = 256 * 1024;
const READS: usize = 8;
