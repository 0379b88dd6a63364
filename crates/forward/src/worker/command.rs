//! What the program tells a worker.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::sys::eventfd::EventFd;
use weir_dgram::Socket;

use crate::plan::Plan;
use crate::sockets::EgressSocket;

/// What a worker is to do.
pub(super) enum Command {
    /// Carry out another plan; the answer comes when it does.
    Replace(Box<Assignment>, mpsc::Sender<()>),
    /// Run this on its thread, between two batches.
    Run(Box<dyn FnOnce() + Send>),
    /// Look at what waits for next hops: some have answered, or failed.
    Look,
    /// Send what was received, no longer than this, and end.
    Stop(Duration),
}

/// How the program reaches a worker.
#[derive(Debug)]
pub(super) struct Handle {
    commands: mpsc::Sender<Command>,
    wake: Arc<EventFd>,
}

/// A worker's part of a plan.
pub(super) struct Assignment {
    pub(super) plan: Arc<Plan>,
    pub(super) listeners: Vec<ListenerSocket>,
    /// By outlet.
    pub(super) egress: Vec<EgressSocket>,
}

/// A listener's socket at a worker.
pub(super) struct ListenerSocket {
    /// Index of the listener.
    pub(super) listener: usize,
    pub(super) socket: Arc<Socket>,
    /// Where it listens, for headers when the kernel does not tell.
    pub(super) address: SocketAddr,
    /// Whether others hold the socket, too, and will go on with it.
    pub(super) lasting: bool,
    /// Whether there may be more.
    pub(super) ready: bool,
}

impl Handle {
    pub(super) fn new(commands: mpsc::Sender<Command>, wake: Arc<EventFd>) -> Self {
        Self { commands, wake }
    }

    /// Sends a command, in vain if the worker has ended, and wakes it from epoll; in a receive it wakes by itself.
    pub(super) fn send(&self, command: Command) {
        let _ = self.commands.send(command);
        // The counter of an eventfd is full only when there are 2^64 - 2 wake-ups to see.
        let _ = self.wake.write(1);
    }

    /// Runs something on the worker's thread, between two batches. A worker that has ended answers nobody.
    pub(super) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
        let (reply, answer) = mpsc::channel();
        self.send(Command::Run(Box::new(move || drop(reply.send(job())))));
        answer
    }
}
