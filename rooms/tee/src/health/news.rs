//! Whether all that the kernel has told has been taken in: who concludes from a silence has to know.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What the kernel tells of next hops, and one who takes it in.
#[derive(Debug)]
pub(crate) struct News {
    /// Readable while there is something to hear.
    events: OwnedFd,
    /// Whether something is being taken in.
    listening: AtomicBool,
}

impl News {
    pub(crate) fn new(events: OwnedFd) -> Self {
        Self { events, listening: AtomicBool::new(false) }
    }

    /// Takes in what there is, as `listen` does. One at a time.
    pub(crate) fn take_in<T>(&self, listen: impl FnOnce() -> T) -> T {
        self.listening.store(true, Ordering::SeqCst);
        let heard = listen();
        self.listening.store(false, Ordering::SeqCst);
        heard
    }

    /// Whether all that was told until now has been taken in.
    pub(super) fn are_known(&self) -> bool {
        let mut events = [PollFd::new(self.events.as_fd(), PollFlags::POLLIN)];
        // In this order: what is not in there any more may not have been passed on yet.
        poll(&mut events, PollTimeout::ZERO) == Ok(0) && !self.listening.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_told_is_known_when_it_has_been_taken_in() {
        let (mut kernel, events) = UnixStream::pair().unwrap();
        let news = News::new(events.try_clone().unwrap().into());
        assert!(news.are_known());
        kernel.write_all(b"x").unwrap();
        assert!(!news.are_known());
        news.take_in(|| {
            (&events).read_exact(&mut [0]).unwrap();
            assert!(!news.are_known(), "nobody has been told yet");
        });
        assert!(news.are_known());
    }
}
