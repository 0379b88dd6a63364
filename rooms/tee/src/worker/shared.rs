//! A batch with its memory, which may be shared with other workers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_dgram::{Inbox, Received, Socket};

use super::batch::{Batch, Origin, Pending};
use super::headers::Headers;
use super::recycle::recycle;
use super::turn::Turn;
use super::ways::Ways;
use crate::counters::ListenerBook;

/// What one look at a listener brought. Filled by one worker; then it and others read it, the last gives it back by
/// letting go.
pub(super) struct SharedBatch {
    inbox: Inbox,
    /// Who sent each message.
    sources: Vec<Origin>,
    headers: Headers,
    /// Hops with which each message may leave, if they count.
    hops: Vec<u8>,
    /// What goes to lanes that other workers hold; the first `used` count.
    given: Vec<Given>,
    used: usize,
}

/// What goes to one such lane.
struct Given {
    /// The worker that holds the lane.
    holder: usize,
    /// The lane's index at the worker whose lane it is.
    lane: usize,
    pending: Pending,
}

/// The batches of a worker: one, or a few while it shares them with others.
#[derive(Default)]
pub(super) struct Pool {
    /// The one that was used last is the last: its memory is still in the caches.
    batches: Vec<Arc<SharedBatch>>,
}

/// How a listener is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// For what is there.
    Now,
    /// The same, but it waits for the first message, as long as the socket may.
    Wait,
    /// It waits for one message and takes no more.
    WaitForOne,
}

/// How the messages of a batch came in.
pub(super) struct Incoming<'a> {
    pub(super) ways: &'a mut Ways,
    pub(super) listener: &'a Arc<ListenerBook>,
}

impl Incoming<'_> {
    fn way(&mut self, message: &Received<'_>) -> u16 {
        self.ways.number(self.listener, message.local.filter(|_| !message.to_all))
    }
}

impl SharedBatch {
    fn new() -> Self {
        Self {
            inbox: Inbox::new(MESSAGES, BYTES),
            sources: Vec::new(),
            headers: Headers::default(),
            hops: Vec::new(),
            given: Vec::new(),
            used: 0,
        }
    }

    /// Takes what waits at a listener, instead of what it had; returns how many messages that is.
    ///
    /// # Errors
    /// WouldBlock: nothing is there.
    pub(super) fn receive(&mut self, socket: &Socket, look: Look) -> io::Result<usize> {
        self.sources.clear();
        self.headers.clear();
        self.hops.clear();
        self.used = 0;
        match look {
            Look::Now => self.inbox.receive(socket),
            Look::Wait => self.inbox.wait(socket),
            Look::WaitForOne => self.inbox.wait_for_one(socket),
        }
    }

    /// Shows each message with its index and its sender, and notes what sending needs of it. `headed`: for headers, the listener's
    /// address. `guarded`: whether the hops that it has left count. `incoming`: for answers, how it came.
    pub(super) fn messages(
        &mut self,
        headed: Option<SocketAddr>,
        guarded: bool,
        mut incoming: Option<Incoming<'_>>,
        mut show: impl FnMut(usize, Origin, &Received<'_>),
    ) {
        for (index, message) in self.inbox.messages().enumerate() {
            let way = incoming.as_mut().map_or(0, |incoming| incoming.way(&message));
            let origin = Origin { source: message.source, way };
            self.sources.push(origin);
            if let Some(listener) = headed {
                self.headers.add(&message, listener);
            }
            if guarded {
                self.hops.push(message.hops.map_or(0, |hops| hops.saturating_sub(1)));
            }
            show(index, origin, &message);
        }
    }

    /// Adds what goes to a lane that `holder` holds; `pending` is empty afterwards.
    pub(super) fn give(&mut self, holder: usize, lane: usize, pending: &mut Pending) {
        if self.used == self.given.len() {
            self.given.push(Given { holder, lane, pending: Pending::default() });
        }
        let given = &mut self.given[self.used];
        (given.holder, given.lane) = (holder, lane);
        std::mem::swap(&mut given.pending, pending);
        pending.clear();
        self.used += 1;
    }

    /// What goes to lanes that a worker holds: their indices at their owner, and what.
    pub(super) fn given_to(&self, holder: usize) -> impl Iterator<Item = (usize, &Pending)> {
        let those = self.given[..self.used].iter().filter(move |given| given.holder == holder);
        those.map(|given| (given.lane, &given.pending))
    }

    /// What it has received.
    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Shows it as lanes see it.
    pub(super) fn read(&self, turn: &mut Turn<'_>, send: impl FnOnce(Batch<'_>, &mut Turn<'_>)) {
        let mut bodies = recycle(std::mem::take(&mut turn.scratch.bodies));
        bodies.extend(self.inbox.payloads());
        send(Batch { bodies: &bodies, sources: &self.sources, headers: &self.headers, hops: &self.hops }, turn);
        turn.scratch.bodies = recycle(bodies);
    }
}

impl Pool {
    /// A batch that nobody else has; `None`: there are `most`, and all are with others.
    pub(super) fn take(&mut self, most: usize) -> Option<Arc<SharedBatch>> {
        match self.batches.iter_mut().rposition(|batch| Arc::get_mut(batch).is_some()) {
            Some(at) => Some(self.batches.remove(at)),
            None if self.batches.len() < most => Some(Arc::new(SharedBatch::new())),
            None => None,
        }
    }

    /// Puts one back that others may still have.
    pub(super) fn put(&mut self, batch: Arc<SharedBatch>) {
        self.batches.push(batch);
    }

    /// Keeps one: the others take memory for nothing.
    pub(super) fn shrink(&mut self) {
        self.batches.drain(..self.batches.len().saturating_sub(1));
    }
}

/// Messages of a batch.
pub(super) const MESSAGES: usize = 64;

/// Bytes of each: every datagram and every joined run fits.
const BYTES: usize = 65_535;
