//! From one plan to the next: sockets and lanes that stay, that come, and that leave.

use std::sync::Arc;
use std::time::Instant;

use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::stat::fstat;
use weir_dgram::Socket;

use super::carrier::Carrier;
use super::lane::{Lane, Place};
use super::routing::Routing;
use super::thread::{Intake, Listening, Share, Thread};
use super::wait::LEAVING;
use crate::settings::Source;

/// A lane to an outlet that the plan no longer has.
pub(super) struct Leaving {
    pub(super) carrier: Box<Carrier>,
    pub(super) until: Instant,
    /// Tells it apart from others: its token.
    pub(super) number: u64,
}

impl Thread {
    /// Goes over to another plan. No lane may be lent. What a removed listener has in its queue still goes where the old
    /// plan says.
    pub(super) fn replace(&mut self, share: Share) {
        let Share { plan, intakes, ways } = share;
        let stays = |intake: &Intake| intakes.iter().any(|new| is_same(&new.socket, &intake.socket));
        for at in 0..self.intakes.len() {
            if !stays(&self.intakes[at]) {
                self.close(at);
            }
            let _ = self.inputs.epoll.delete(&*self.intakes[at].socket);
        }
        self.settle_gathered();
        for at in 0..self.lanes.len() {
            self.unwatch(at);
        }
        let old = std::mem::take(&mut self.lanes);
        let mut old: Vec<_> = old.into_iter().map(Some).collect();
        for (outlet, way) in plan.outlets.iter().zip(ways) {
            let before = old.iter_mut().find(|lane| lane.as_ref().is_some_and(|lane| lane.is_to(outlet)));
            self.lanes.push(match before.and_then(Option::take) {
                Some(mut lane) => {
                    lane.adapt(outlet, way);
                    lane
                }
                None => Lane::new(self.number, outlet, way),
            });
        }
        let until = Instant::now() + plan.settings.drain;
        for lane in old.into_iter().flatten() {
            if let Place::Here(carrier) = lane.place
                && carrier.has_backlog()
            {
                let number = self.leaving.last().map_or(0, |last| last.number + 1);
                self.leaving.push(Leaving { carrier, until, number });
            }
        }
        self.sharing.allowed = self.desks.len() > 1;
        self.headers = plan.settings.destinations.iter().any(|destination| destination.source == Source::Proxy);
        self.intakes = Vec::new();
        for (at, Listening { listener, socket, lasting }) in intakes.into_iter().enumerate() {
            // It fails only for want of memory, and then the queue is looked at until it works.
            // On edges: a batch that was not full has emptied the queue, and the kernel need not look into it once more.
            let events = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
            let _ = self.inputs.epoll.add(&*socket, EpollEvent::new(events, at as u64));
            let address = socket.local_addr();
            self.intakes.push(Intake { listener, socket, address, lasting, ready: true });
        }
        self.routing = Routing::new(Arc::clone(&plan), self.number);
        self.plan = plan;
        self.watch_all();
    }

    /// Sends what is queued at a listener, and lets nothing more in. A socket that others will go on with stays open:
    /// what comes in meanwhile is theirs.
    pub(super) fn close(&mut self, at: usize) {
        let Intake { listener, socket, lasting, .. } = &self.intakes[at];
        // What the closed door turns away counts as dropped at the socket, but is no loss.
        let drops = socket.memory().map_or(0, |memory| memory.drops);
        let closed = !lasting && socket.close_intake().is_ok();
        self.plan.listeners[*listener].book.cell(self.number).kernel_drops.add(drops.into());
        let most = if closed { usize::MAX } else { LASTING };
        for _ in 0..most {
            if self.take(at).is_err() {
                break;
            }
        }
    }

    /// Makes what waits for company wait for room only.
    pub(super) fn settle_gathered(&mut self) {
        self.gathering.clear();
        for carrier in self.lanes.iter_mut().filter_map(Lane::carrier) {
            carrier.due = None;
        }
    }

    /// Ends leaving lanes that are empty or have had their time.
    pub(super) fn dismiss(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let now = Instant::now();
        let phase = self.plan.books.phase(self.number);
        phase.begin();
        for Leaving { carrier, number, .. } in self.leaving.iter_mut().filter(|leaving| leaving.until <= now) {
            carrier.abandon();
            self.inputs.watch(carrier, LEAVING + *number);
        }
        self.leaving.retain(|leaving| leaving.carrier.has_backlog());
        phase.end();
    }
}

/// Whether two handles are of the same socket: one may have been made from the other to change its options.
fn is_same(one: &Arc<Socket>, other: &Arc<Socket>) -> bool {
    Arc::ptr_eq(one, other)
        || fstat(one).ok().zip(fstat(other).ok()).is_some_and(|(one, other)| one.st_ino == other.st_ino)
}

/// Batches that are taken of a socket that stays open before it is left to others.
const LASTING: usize = 64;
