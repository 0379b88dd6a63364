//! The receiving end: accepts, and discards what comes as fast as the kernel can.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::time::Duration;

use nix::libc::{MSG_DONTWAIT, MSG_TRUNC};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use weir_program::clock::{self, now};
use weir_program::stop::Stop;

use super::WAKE;
use crate::bulk::BulkSettings;
use crate::bulk::batches::Batches;
use crate::error::cannot_bind;
use crate::{ErrorCount, ErrorLog, Exchange, TrafficError, Transport};

/// A socket that listens, and what both ends share.
#[derive(Debug)]
pub(in crate::bulk) struct Receiver {
    pub(super) exchange: Exchange,
    pub(super) listener: Listener,
    address: SocketAddr,
}

/// A socket that listens, and what becomes of what it takes.
#[derive(Debug)]
pub(super) struct Listener {
    listener: socket2::Socket,
    epoll: Epoll,
    batches: Batches,
}

/// What the receiving end has to tell, and the sockets it still holds.
pub(super) struct Received {
    pub(super) batches: Batches,
    pub(super) errors: Vec<ErrorCount>,
    pub(super) streams: Vec<Option<socket2::Socket>>,
}

impl Receiver {
    /// Listens in the calling thread's network namespace.
    pub(in crate::bulk) fn bind(settings: &BulkSettings) -> Result<Self, TrafficError> {
        let address = settings.to;
        let failed = |source| TrafficError::Socket { transport: Transport::Tcp, address, source };
        let listener = super::socket(address)?;
        // Connections of an earlier receiver may still be in TIME_WAIT.
        listener.set_reuse_address(true).map_err(failed)?;
        let bind = cannot_bind(address);
        listener.bind(&address.into()).map_err(&bind)?;
        listener.listen(BulkSettings::MAX_STREAMS as i32).map_err(&bind)?;
        let address = listener.local_addr().map_err(failed)?.as_socket().unwrap_or(address);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let batches = Batches::new(settings.duration, settings.batch);
        let exchange = Exchange::new(Duration::ZERO).map_err(failed)?;
        Ok(Self { exchange, listener: Listener { listener, epoll, batches }, address })
    }

    pub(in crate::bulk) fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Listener {
    /// Receives until the window is over, the sender has ended, or the stop is set.
    pub(super) fn run(self, exchange: &Exchange, stop: &Stop) -> Received {
        let mut run = Run { listener: self, exchange, streams: Vec::new(), errors: ErrorLog::default() };
        if let Err(errno) = run.watch(stop) {
            run.errors.count("watch", &errno.into());
        } else {
            run.receive(stop);
        }
        let Run { listener, streams, errors, .. } = run;
        Received { batches: listener.batches, errors: errors.into_counts(), streams }
    }
}

/// A transfer under way.
struct Run<'a> {
    listener: Listener,
    exchange: &'a Exchange,
    /// By token; closed ones leave a gap.
    streams: Vec<Option<socket2::Socket>>,
    errors: ErrorLog,
}

impl Run<'_> {
    fn watch(&self, stop: &Stop) -> nix::Result<()> {
        let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        self.listener.epoll.add(&self.listener.listener, readable(LISTENER))?;
        self.listener.epoll.add(stop, readable(WAKE))?;
        self.listener.epoll.add(self.exchange, readable(WAKE))
    }

    fn receive(&mut self, stop: &Stop) {
        let mut events = [EpollEvent::empty(); EVENTS];
        // Nothing is ever written to it, so that it takes no memory either.
        let mut nowhere = Vec::with_capacity(GULP);
        loop {
            let end = self.exchange.window().map(|window| window.end);
            if stop.is_set() || self.exchange.ending().is_some() || end.is_some_and(|end| now() >= end) {
                return;
            }
            let ready = self.listener.epoll.wait(&mut events, clock::epoll_timeout(end)).unwrap_or(0);
            for event in &events[..ready] {
                match event.data() {
                    WAKE => {}
                    LISTENER => self.accept(),
                    token => self.discard(token as usize, nowhere.spare_capacity_mut()),
                }
            }
        }
    }

    fn accept(&mut self) {
        match self.listener.listener.accept() {
            Ok((socket, _)) => {
                if let Err(error) = self.admit(socket) {
                    self.errors.count("accept", &error);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                self.errors.count("accept", &error);
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    // No descriptors left: to ask again at once would be a busy loop.
                    let _ = self.listener.epoll.delete(&self.listener.listener);
                }
            }
        }
    }

    fn admit(&mut self, socket: socket2::Socket) -> io::Result<()> {
        socket.set_linger(Some(Duration::ZERO))?;
        let token = self.streams.len() as u64;
        self.listener.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        self.streams.push(Some(socket));
        Ok(())
    }

    /// Takes what a stream has, a few gulps at most so that others get their turn. With MSG_TRUNC the kernel drops the
    /// bytes instead of copying them (tcp(7)): nobody looks at them.
    fn discard(&mut self, index: usize, nowhere: &mut [MaybeUninit<u8>]) {
        let Some(Some(socket)) = self.streams.get(index) else { return };
        for _ in 0..GULPS {
            match socket.recv_with_flags(nowhere, MSG_TRUNC | MSG_DONTWAIT) {
                Ok(0) => {
                    self.streams[index] = None;
                    return;
                }
                Ok(bytes) => {
                    if let Some(window) = self.exchange.window() {
                        self.listener.batches.count(window, now(), bytes as u64);
                    }
                    if bytes < nowhere.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.errors.count("receive", &error);
                    self.streams[index] = None;
                    return;
                }
            }
        }
    }
}

/// The token of the listening socket.
const LISTENER: u64 = WAKE - 1;

/// Events taken at once.
const EVENTS: usize = 64;

/// Bytes taken at once, at most.
const GULP: usize = 1 << 20;

/// Gulps before the next stream has its turn.
const GULPS: usize = 4;
