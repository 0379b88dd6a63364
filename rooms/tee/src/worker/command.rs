//! What a worker is told: by the program, and by other workers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use weir_dgram::Socket;

use super::egress::Egress;
use super::shared::SharedBatch;
use crate::plan::Plan;
use crate::sockets::EgressSocket;

/// What a worker is to do.
pub(super) enum Command {
    /// Carry out another plan; the answer comes when it does.
    Replace(Box<Assignment>, mpsc::Sender<()>),
    /// Show that it lives.
    Answer(mpsc::Sender<()>),
    /// Look at what waits for next hops: some have answered, or failed.
    Look,
    /// Send what was received, no longer than this, and end.
    Stop(Duration),
    /// Tell how much CPU time was used.
    CpuTime(mpsc::Sender<Duration>),
    /// Take all lanes back, and lend none until the next plan.
    Settle(mpsc::Sender<()>),
    /// Hold the egress of another's lane.
    Hold { lender: usize, lane: usize, egress: Box<Egress> },
    /// Send what of this batch goes to lanes held here.
    Send { lender: usize, batch: Arc<SharedBatch> },
    /// A batch of this worker's may be free.
    Released,
    /// Return what another worker lent, at most so many lanes of it.
    Return { lender: usize, most: usize },
    /// What this worker lent: the lanes' indices and egresses.
    Returned(Vec<(usize, Box<Egress>)>),
    /// Take all lanes back: the holder is busy with its own.
    Relieve,
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

/// The commands of a worker, first in, first out; those that came while an answer was awaited have their turn first.
pub(super) struct Commands {
    queue: mpsc::Receiver<Command>,
    deferred: VecDeque<Command>,
}

impl Commands {
    pub(super) fn new(queue: mpsc::Receiver<Command>) -> Self {
        Self { queue, deferred: VecDeque::new() }
    }

    /// The next one, if there is one. Nobody is left who could send one: the worker is to end.
    pub(super) fn next(&mut self) -> Option<Command> {
        self.deferred.pop_front().or_else(|| match self.queue.try_recv() {
            Ok(command) => Some(command),
            Err(mpsc::TryRecvError::Empty) => None,
            Err(mpsc::TryRecvError::Disconnected) => Some(Command::Stop(Duration::ZERO)),
        })
    }

    /// Whether there is one.
    pub(super) fn is_waiting(&mut self) -> bool {
        if let Ok(command) = self.queue.try_recv() {
            self.deferred.push_back(command);
        }
        !self.deferred.is_empty()
    }

    /// Waits for what was lent to come back; other commands have their turn later.
    pub(super) fn await_returned(&mut self) -> Vec<(usize, Box<Egress>)> {
        while let Ok(command) = self.queue.recv() {
            match command {
                Command::Returned(lanes) => return lanes,
                other => self.deferred.push_back(other),
            }
        }
        Vec::new()
    }

    /// Waits until something comes, which may be that a batch is free.
    pub(super) fn await_released(&mut self, timeout: Duration) {
        match self.queue.recv_timeout(timeout) {
            Ok(Command::Released) | Err(_) => {}
            Ok(other) => self.deferred.push_back(other),
        }
    }
}
