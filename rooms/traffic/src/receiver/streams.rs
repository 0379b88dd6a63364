//! Messages over TCP.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use weir_service::clock::{self, now};

use super::ending::Ending;
use super::frames::Frames;
use super::sessions::Sessions;
use crate::{Ended, ErrorLog, ReceiveReport};

/// Receives until the ending says so.
pub(super) fn receive(listener: &TcpListener, sessions: Sessions<'_>, mut ending: Ending<'_>) -> ReceiveReport {
    let mut errors = ErrorLog::default();
    let streams = Streams::new(listener, &ending, sessions).map_err(|error| errors.count("epoll", &error));
    let Ok(mut streams) = streams else {
        return ReceiveReport { ended: Ended::Failed, errors: errors.into_counts(), ..ReceiveReport::default() };
    };
    streams.errors = errors;
    let ended = streams.run(&mut ending);
    let left: usize = streams.open.iter().flatten().map(|stream| stream.frames.partial()).sum();
    ReceiveReport {
        ended,
        connections: streams.accepted,
        partial_bytes: streams.partial_bytes + left as u64,
        errors: streams.errors.into_counts(),
        ..streams.sessions.into_report()
    }
}

struct Streams<'a> {
    listener: &'a TcpListener,
    epoll: Epoll,
    sessions: Sessions<'a>,
    /// By token; closed ones leave a gap.
    open: Vec<Option<Stream>>,
    accepted: u64,
    partial_bytes: u64,
    buffer: Vec<u8>,
    errors: ErrorLog,
    watches_exchange: bool,
}

struct Stream {
    socket: TcpStream,
    peer: SocketAddr,
    frames: Frames,
}

impl<'a> Streams<'a> {
    fn new(listener: &'a TcpListener, ending: &Ending<'_>, sessions: Sessions<'a>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        epoll.add(listener, readable(LISTENER))?;
        epoll.add(ending.stop_fd(), readable(STOP))?;
        epoll.add(ending.exchange_fd(), readable(EXCHANGE))?;
        Ok(Self {
            listener,
            epoll,
            sessions,
            open: Vec::new(),
            accepted: 0,
            partial_bytes: 0,
            buffer: vec![0; READ],
            errors: ErrorLog::default(),
            watches_exchange: true,
        })
    }

    fn run(&mut self, ending: &mut Ending<'_>) -> Ended {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let next = match ending.check(&self.sessions, now()) {
                Ok(next) => next,
                Err(ended) => return ended,
            };
            if self.accepted > 0
                && self.open.iter().all(Option::is_none)
                && let Some(ended) = ending.without_connections()
            {
                return ended;
            }
            self.unwatch_exchange(ending);
            let ready = self.epoll.wait(&mut events, clock::epoll_timeout(next)).unwrap_or(0);
            for event in &events[..ready] {
                match event.data() {
                    LISTENER => self.accept(),
                    STOP | EXCHANGE => {}
                    token => self.read((token - FIRST_STREAM) as usize),
                }
            }
        }
    }

    /// The exchange stays readable once closed: forget it then.
    fn unwatch_exchange(&mut self, ending: &Ending<'_>) {
        if self.watches_exchange && !ending.awaits_exchange() {
            let _ = self.epoll.delete(ending.exchange_fd());
            self.watches_exchange = false;
        }
    }

    fn accept(&mut self) {
        match self.listener.accept() {
            Ok((socket, peer)) => {
                if let Err(error) = self.admit(socket, peer) {
                    self.errors.count("accept", &error);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                self.errors.count("accept", &error);
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    // No descriptors left: to ask again at once would be a busy loop.
                    let _ = self.epoll.delete(self.listener);
                }
            }
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let free = self.open.iter().position(Option::is_none);
        let place = free.unwrap_or(self.open.len());
        if place == MAX_STREAMS {
            return Err(io::Error::other("too many connections at once"));
        }
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, FIRST_STREAM + place as u64))?;
        let stream = Some(Stream { socket, peer, frames: Frames::default() });
        match free {
            Some(place) => self.open[place] = stream,
            None => self.open.push(stream),
        }
        self.accepted += 1;
        Ok(())
    }

    /// Reads what a stream has, a few buffers at most so that others get their turn.
    fn read(&mut self, place: usize) {
        let Some(Some(stream)) = self.open.get_mut(place) else {
            return;
        };
        for _ in 0..READS {
            match stream.socket.read(&mut self.buffer) {
                Ok(0) => {
                    self.close(place);
                    return;
                }
                Ok(length) => {
                    let (at, peer, sessions) = (now(), stream.peer, &mut self.sessions);
                    let fed = stream.frames.feed(&self.buffer[..length], |probe, length| {
                        sessions.count(probe, length, peer, at);
                    });
                    if fed.is_err() {
                        self.sessions.count_foreign();
                        self.open[place] = None;
                        return;
                    }
                    if length < self.buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.errors.count("receive", &error);
                    self.close(place);
                    return;
                }
            }
        }
    }

    /// Dropping the socket takes it out of the epoll set, too.
    fn close(&mut self, place: usize) {
        if let Some(stream) = self.open[place].take() {
            self.partial_bytes += stream.frames.partial() as u64;
        }
    }
}

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const EXCHANGE: u64 = 2;
const FIRST_STREAM: u64 = 3;

const MAX_STREAMS: usize = 1024;
const READ: usize = 256 * 1024;
const READS: usize = 8;
