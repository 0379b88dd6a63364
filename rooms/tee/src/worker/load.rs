//! A batch with its memory, which may go from hand to hand.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_dgram::Inbox;
use weir_wire::proxy;

use super::batch::{Batch, Pending};

/// What one look at a listener brought. Filled by one worker; then it and others read it, the last gives it back by
/// letting go.
pub(super) struct Load {
    pub(super) inbox: Inbox,
    /// Who sent each message.
    pub(super) sources: Vec<SocketAddr>,
    /// What a header says about each; empty if no destination wants headers.
    pub(super) headers: Vec<proxy::Header>,
    /// What goes to lanes that other workers hold; the first `used` count.
    given: Vec<Given>,
    used: usize,
}

/// What goes to one such lane.
pub(super) struct Given {
    /// The worker that holds the lane.
    pub(super) holder: usize,
    /// The lane's index at the worker whose lane it is.
    pub(super) lane: usize,
    pub(super) pending: Pending,
}

/// The loads of a worker: one, or a few while it shares them with others.
#[derive(Default)]
pub(super) struct Pool {
    /// The one that was used last is the last: its memory is still in the caches.
    loads: Vec<Arc<Load>>,
}

impl Load {
    fn new() -> Self {
        Self {
            inbox: Inbox::new(MESSAGES, BYTES),
            sources: Vec::new(),
            headers: Vec::new(),
            given: Vec::new(),
            used: 0,
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

    /// The messages as lanes see them, with their payloads.
    pub(super) fn batch<'a>(&'a self, bodies: &'a [&'a [u8]]) -> Batch<'a> {
        Batch { bodies, sources: &self.sources, headers: &self.headers }
    }

    /// What goes to lanes of others.
    pub(super) fn given(&self) -> &[Given] {
        &self.given[..self.used]
    }

    /// Forgets what it brought.
    pub(super) fn clear(&mut self) {
        self.sources.clear();
        self.headers.clear();
        self.used = 0;
    }
}

impl Pool {
    /// A load that nobody else has; `None`: there are `most`, and all are with others.
    pub(super) fn take(&mut self, most: usize) -> Option<Arc<Load>> {
        match self.loads.iter_mut().rposition(|load| Arc::get_mut(load).is_some()) {
            Some(at) => Some(self.loads.remove(at)),
            None if self.loads.len() < most => Some(Arc::new(Load::new())),
            None => None,
        }
    }

    /// Puts one back that others may still have.
    pub(super) fn put(&mut self, load: Arc<Load>) {
        self.loads.push(load);
    }

    /// Keeps one: the others take memory for nothing.
    pub(super) fn shrink(&mut self) {
        self.loads.drain(..self.loads.len().saturating_sub(1));
    }
}

/// Messages of a batch.
pub(super) const MESSAGES: usize = 64;

/// Bytes of each: every datagram and every joined run fits.
const BYTES: usize = 65_535;
