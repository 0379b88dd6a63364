//! What a worker's thread sleeps for: datagrams, room in sockets, and commands.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;

/// The descriptors by which the thread learns of things.
pub(super) struct Events {
    epoll: Epoll,
    /// Sockets of which it tells when they take more.
    without_room: Cell<usize>,
    wake: Arc<EventFd>,
}

/// Something has happened.
pub(super) struct Event {
    pub(super) subject: Token,
    /// The socket has an error to tell.
    pub(super) broken: bool,
}

/// What something has happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The listener's socket of this index.
    Listener(usize),
    /// The lane of this index.
    Lane(usize),
    /// Answers to the lane of this index.
    Answers(usize),
    /// Somebody has sent a command.
    Wake,
}

impl Events {
    /// `wake`: written to by whoever sends a command to a thread that sleeps.
    ///
    /// # Errors
    /// The system call that failed.
    pub(super) fn new(wake: Arc<EventFd>) -> Result<Self, (&'static str, io::Error)> {
        let failed = |operation| move |errno: Errno| (operation, errno.into());
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("epoll_create1"))?;
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, Token::Wake.into())).map_err(failed("epoll_ctl"))?;
        Ok(Self { epoll, without_room: Cell::new(0), wake })
    }

    /// Sleeps until something happens, no longer than this; `None`: for as long as it takes.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<impl Iterator<Item = Event>> {
        let timeout = match timeout {
            Some(Duration::ZERO) => EpollTimeout::ZERO,
            // Rounded up: waking early would be waking for nothing.
            Some(time) => EpollTimeout::try_from(time + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX),
            None => EpollTimeout::NONE,
        };
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, timeout) {
            Err(Errno::EINTR) => 0,
            result => result?,
        };
        let events = events.into_iter().take(count);
        Ok(events.map(|event| {
            let subject = Token::from(event.data());
            if subject == Token::Wake {
                let _ = self.wake.read();
            }
            Event { subject, broken: event.events().contains(EpollFlags::EPOLLERR) }
        }))
    }

    /// Tells when datagrams come to a listener's socket. On edges: a batch that was not full has emptied the queue, and
    /// the kernel need not look into it once more.
    pub(super) fn watch_listener(&self, socket: impl AsFd, at: usize) {
        let events = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        // It fails only for want of memory, and then the queue is looked at until it works.
        let _ = self.epoll.add(socket, EpollEvent::new(events, Token::Listener(at).into()));
    }

    /// Tells when a socket takes more; `false`: it cannot.
    pub(super) fn watch_room(&self, socket: BorrowedFd<'_>, token: Token) -> bool {
        let watched = self.epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLOUT, token.into())).is_ok();
        self.without_room.update(|sockets| sockets + usize::from(watched));
        watched
    }

    /// Tells no more of it.
    pub(super) fn unwatch_room(&self, socket: BorrowedFd<'_>) {
        self.unwatch(socket);
        self.without_room.update(|sockets| sockets.saturating_sub(1));
    }

    /// Whether room is awaited in any socket.
    pub(super) fn awaits_room(&self) -> bool {
        self.without_room.get() > 0
    }

    /// Tells no more of a socket.
    pub(super) fn unwatch(&self, socket: impl AsFd) {
        let _ = self.epoll.delete(socket);
    }

    /// Tells as long as there are answers of a destination.
    pub(super) fn watch_answers(&self, descriptor: BorrowedFd<'_>, token: Token) {
        // It fails only for want of memory; then nobody hears the answers, and their sessions age.
        let _ = self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token.into()));
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        let (kind, index) = match token {
            Token::Listener(at) => (0, at),
            Token::Lane(at) => (1, at),
            Token::Answers(at) => (2, at),
            Token::Wake => (3, 0),
        };
        kind << 56 | index as Self
    }
}

impl From<u64> for Token {
    fn from(number: u64) -> Self {
        let index = (number & 0xff_ffff_ffff) as usize;
        match number >> 56 {
            0 => Self::Listener(index),
            1 => Self::Lane(index),
            2 => Self::Answers(index),
            _ => Self::Wake,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_told_apart() {
        let indices = [Token::Answers(7), Token::Listener(7), Token::Lane(7), Token::Lane(65_536)];
        for token in indices.into_iter().chain([Token::Wake]) {
            assert_eq!(Token::from(u64::from(token)), token);
        }
    }
}
