//! The receiving end over TCP: a thread per connection discards data as fast as the kernel can.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::libc::MSG_TRUNC;
use nix::poll::{PollFd, PollFlags};
use socket2::Socket;
use weir_program::clock::{self, now};
use weir_program::stop::Stop;

use super::{Batches, BulkSettings, Received, joined};
use crate::receiver::listen;
use crate::{ErrorLog, Exchange, TrafficError};

/// A listening socket.
#[derive(Debug)]
pub(super) struct Receiver {
    listener: Socket,
    address: SocketAddr,
}

impl Receiver {
    /// Listens in the calling thread's network namespace.
    pub(super) fn bind(settings: &BulkSettings) -> Result<Self, TrafficError> {
        let (listener, address, _) = listen(settings.to, None)?;
        Ok(Self { listener: listener.into(), address })
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts, and discards data, until the window is over, the sender has ended, or the stop is set.
    pub(super) fn receive(self, batches: Batches, exchange: &Exchange, stop: &Stop) -> Received {
        let (batches, mut errors) = (Mutex::new(batches), ErrorLog::default());
        let is_over = || {
            let end = exchange.window().map(|window| window.end);
            stop.is_set() || exchange.ending().is_some() || end.is_some_and(|end| now() >= end)
        };
        let read = |socket: Socket| {
            let result = discard(&socket, &is_over, |bytes| {
                if let Some(window) = exchange.window() {
                    let mut batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
                    batches.count(window, now(), bytes);
                }
            });
            (socket, result.err())
        };
        let sockets: Vec<Socket> = thread::scope(|scope| {
            let mut readers = Vec::new();
            while !is_over() {
                let readable = PollFlags::POLLIN;
                let mut fds =
                    [self.listener.as_fd(), stop.as_fd(), exchange.as_fd()].map(|fd| PollFd::new(fd, readable));
                clock::wait(&mut fds, exchange.window().map(|window| window.end));
                match self.listener.accept() {
                    Ok((socket, _)) => readers.push(scope.spawn(|| read(socket))),
                    Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                    Err(error) => errors.count("accept", &error),
                }
            }
            let read = readers.into_iter().map(joined).map(|(socket, error)| {
                error.iter().for_each(|error| errors.count("receive", error));
                socket
            });
            read.collect()
        });
        let batches = batches.into_inner().unwrap_or_else(PoisonError::into_inner);
        Received { batches, errors: errors.into_counts(), kept: Box::new(sockets) }
    }
}

/// Reads a connection until it is over. With MSG_TRUNC the kernel drops the bytes instead of copying them (tcp(7)):
/// they are not used.
fn discard(socket: &Socket, is_over: &impl Fn() -> bool, count: impl Fn(u64)) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_read_timeout(Some(LOOK))?;
    // It is never written to, so it takes no memory either.
    let mut nowhere = Vec::<u8>::with_capacity(GULP);
    let nowhere: &mut [MaybeUninit<u8>] = nowhere.spare_capacity_mut();
    while !is_over() {
        match socket.recv_with_flags(nowhere, MSG_TRUNC) {
            Ok(0) => return Ok(()),
            Ok(bytes) => count(bytes as u64),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Max bytes per read.
const GULP: usize = 1 << 20;

/// Time between two checks of an idle thread whether it is over.
const LOOK: Duration = Duration::from_millis(20);
