//! The links of an emulator thread, and how it watches their ports.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::pipeline::Pipeline;
use super::{Error, LinkId, LinkPorts, Port};
use crate::ledger::LinkReport;
use crate::model::{Nanos, Plan, Way};

/// Directions by a time. Superseded entries stay until then and are ignored.
pub(super) type Timers = BinaryHeap<Reverse<(Nanos, u32)>>;

/// Attached links; each has two directions, numbered `2 * slot` and `2 * slot + 1`.
#[derive(Default)]
pub(super) struct Links {
    slots: Vec<Option<Link>>,
    by_id: BTreeMap<LinkId, u32>,
    attached: u64,
}

/// A link. Direction 0 takes frames from port 0 and hands them to port 1.
pub(super) struct Link {
    pub(super) ports: [Port; 2],
    pub(super) directions: [Pipeline; 2],
    /// Each direction's entry in the timers of releases; `Nanos::MAX`: none.
    pub(super) scheduled: [Nanos; 2],
    pub(super) watches: [Watch; 2],
}

/// How the thread learns that a port has frames.
///
/// Normally epoll reports it. But if every packet is delayed by a millisecond anyway, there is no hurry, as the kernel
/// has stamped its arrival: a port with dense traffic is polled several times within the delay, as network drivers do
/// under load, which saves a wake-up for nearly every packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// Time between polls. `None`: the delay is too short.
    interval: Option<Nanos>,
    /// The last event of epoll.
    last_event: Nanos,
    /// The next poll. `None`: epoll reports.
    pub(super) look_at: Option<Nanos>,
}

impl Links {
    /// Adds a link and watches its ports.
    pub(super) fn attach(&mut self, epoll: &Epoll, link: LinkPorts) -> Result<LinkId, Error> {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        for (side, port) in [&link.a, &link.b].into_iter().enumerate() {
            // A port that is not attached closes with its owner, which ends the watch.
            epoll
                .add(port.fd(), epoll_event((2 * slot + side) as u32))
                .map_err(|error| Error::Attach { link: link.name.clone(), source: error.into() })?;
        }
        let directions = [Pipeline::new(link.forward), Pipeline::new(link.backward)];
        let ports = [link.a, link.b];
        let watches = [0, 1].map(|side| Watch::new(directions[side].least_delay(), ports[side].receive_buffer()));
        let link = Link { ports, directions, scheduled: [Nanos::MAX; 2], watches };
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(link);
        let id = LinkId(self.attached);
        self.attached += 1;
        self.by_id.insert(id, slot as u32);
        Ok(id)
    }

    /// Removes a link; its directions' numbers may be reused.
    pub(super) fn detach(&mut self, epoll: &Epoll, id: LinkId) -> Option<(u32, Link)> {
        let slot = self.by_id.remove(&id)?;
        let link = self.slots[slot as usize].take()?;
        for port in &link.ports {
            let _ = epoll.delete(port.fd());
        }
        Some((slot, link))
    }

    pub(super) fn get(&mut self, id: LinkId) -> Option<&mut Link> {
        let slot = *self.by_id.get(&id)?;
        self.slots[slot as usize].as_mut()
    }

    /// The number of a link's direction.
    pub(super) fn number(&self, id: LinkId, way: Way) -> Option<u32> {
        Some(2 * self.by_id.get(&id)? + way as u32)
    }

    /// The link of direction `number`, and its direction in that link.
    pub(super) fn direction(&mut self, number: u32) -> Option<(&mut Link, usize)> {
        let link = self.slots.get_mut(number as usize / 2)?.as_mut()?;
        Some((link, number as usize % 2))
    }
}

impl Link {
    /// Adds direction `number` to the timers of releases, unless it has an earlier entry.
    pub(super) fn schedule(&mut self, number: u32, timers: &mut Timers) {
        let side = number as usize % 2;
        if let Some(next) = self.directions[side].next()
            && next < self.scheduled[side]
        {
            self.scheduled[side] = next;
            timers.push(Reverse((next, number)));
        }
    }

    /// Decides how to learn of further frames, after receiving `count` from direction `number` and leaving none.
    pub(super) fn watch(&mut self, number: u32, now: Nanos, count: usize, epoll: &Epoll, polls: &mut Timers) {
        let side = number as usize % 2;
        let (port, watch) = (&self.ports[side], &mut self.watches[side]);
        let Some(interval) = watch.interval else { return };
        if watch.look_at.is_some() {
            if count == 0 && epoll.modify(port.fd(), &mut epoll_event(number)).is_ok() {
                watch.look_at = None;
                return;
            }
        } else {
            let dense = now - watch.last_event < interval;
            watch.last_event = now;
            if !dense || epoll.modify(port.fd(), &mut EpollEvent::empty()).is_err() {
                return;
            }
        }
        watch.look_at = Some(now + interval);
        polls.push(Reverse((now + interval, number)));
    }

    /// Sets time 0 of both directions' plans.
    pub(super) fn start_clock(&mut self, at: Nanos) {
        self.directions.iter_mut().for_each(|direction| direction.start_clock(at));
    }

    /// Makes direction `side` follow another plan from `now` on. epoll reports its port, which has the same number,
    /// until its frames are dense again.
    pub(super) fn change_plan(&mut self, number: u32, plan: &Plan, now: Nanos, epoll: &Epoll) {
        let side = number as usize % 2;
        self.directions[side].change_plan(plan, now);
        let port = &self.ports[side];
        let watch = Watch::new(self.directions[side].least_delay(), port.receive_buffer());
        let polled = std::mem::replace(&mut self.watches[side], watch).look_at;
        if polled.is_some() && epoll.modify(port.fd(), &mut epoll_event(number)).is_err() {
            // The thread continues polling if epoll cannot report.
            self.watches[side].look_at = polled;
        }
    }

    pub(super) fn report(&mut self) -> LinkReport {
        let came = [0, 1].map(|side| self.ports[side].came());
        let [forward, backward] = [0, 1].map(|side| self.directions[side].report(came[side]));
        LinkReport { forward, backward }
    }
}

impl Watch {
    fn new(least_delay: Nanos, receive_buffer: usize) -> Self {
        // Up to 32 Gbit/s of kernel memory must fit into the buffer meanwhile.
        let interval = (least_delay / 2).min(LONGEST_INTERVAL).min(receive_buffer as Nanos / 4);
        Self { interval: (interval >= SHORTEST_INTERVAL).then_some(interval), last_event: 0, look_at: None }
    }
}

const SHORTEST_INTERVAL: Nanos = 100_000;
const LONGEST_INTERVAL: Nanos = 1_000_000;

fn epoll_event(number: u32) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN, number.into())
}
