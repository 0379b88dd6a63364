//! Watching a file descriptor with tokio, which cannot check what it relies on.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches for readability. Call it where a runtime is entered, else it panics.
pub(super) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open as long as it lives, always tells the same descriptor, and moves into the `AsyncFd`;
    // nobody replaces the description behind a descriptor that he doesn't own (dup2).
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}
