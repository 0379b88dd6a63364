//! From a listener's socket to the lanes: one batch.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU16;

use super::batch::{Batch, Look, Part};
use super::command::ListenerSocket;
use super::lane::Arrived;
use super::lanes::Lanes;
use super::routing::{Delivery, Routing};
use super::tap::Tapped;
use super::thread::Worker;
use super::turn::Turn;
use crate::counters::ListenerCell;
use crate::plan::Plan;

impl Worker {
    /// Takes a batch from a listener and sends it on; returns how many messages that were. `wait`: sleeps until there is
    /// one, as long as the socket may. WouldBlock: nothing is there.
    pub(super) fn receive(&mut self, at: usize, wait: bool) -> io::Result<usize> {
        let Self { number, plan, turns, scratch, listeners, routing, lanes, batch, tap, events, singly, .. } = self;
        let listener = &listeners[at];
        let received = batch.receive(&listener.socket, if wait { singly.look() } else { Look::Now });
        if wait {
            singly.note(received.as_ref().ok().copied());
        }
        if received.is_ok() {
            let mut turn = Turn::begin(turns, scratch);
            Dispatch { worker: *number, plan, routing, lanes }.dispatch(listener, batch, &mut turn);
            if lanes.are_touched() {
                lanes.send(batch, &mut turn);
                lanes.finish_batch(events);
            }
            if let Some(tap) = tap {
                // Still within the turn: what a tap counts agrees with what listeners count.
                tap.read(Tapped::new(batch.inbox(), *number));
            }
        }
        received
    }
}

/// What it takes to find the lanes of a datagram.
struct Dispatch<'a> {
    worker: usize,
    plan: &'a Plan,
    routing: &'a mut Routing,
    lanes: &'a mut Lanes,
}

impl Dispatch<'_> {
    /// Offers every message of the batch to the lanes that rules lead to. A datagram that came alone leaves at once by those
    /// whose way is clear.
    fn dispatch(self, listener: &ListenerSocket, batch: &mut Batch, turn: &mut Turn<'_>) {
        let Self { worker, plan, routing, lanes } = self;
        let book = &plan.listeners[listener.listener].book;
        let answered = plan.answered.then_some(book.number);
        let mut taken = Taken::default();
        let mut last: Option<(IpAddr, usize)> = None;
        let alone = batch.inbox().len() == 1;
        batch.messages(plan.headed.then_some(listener.address), plan.guarded, answered, |index, origin, message| {
            // What goes to all comes to every worker, see `sockets`: it is the first one's.
            if message.to_all && worker > 0 {
                return;
            }
            let (datagrams, bytes) = (message.datagrams() as u64, message.length as u64);
            let source = origin.source;
            taken.received += datagrams;
            taken.bytes += bytes;
            if message.truncated {
                taken.truncated += datagrams;
                return;
            }
            // Neighbours in a batch are often from one sender.
            let route = match last {
                Some((before, route)) if before == source.ip() => route,
                _ => routing.route(listener.listener, source.ip()),
            };
            last = Some((source.ip(), route));
            let rules = &routing.get(route).rules;
            let matched = if rules.is_empty() { &mut taken.unmatched } else { &mut taken.matched };
            *matched += datagrams;
            for &rule in rules {
                let rule = &plan.rules[rule];
                let count = rule.book.cell(worker);
                count.matched.add(datagrams);
                count.matched_bytes.add(bytes);
                if rule.outlets.is_empty() && rule.groups.is_empty() {
                    count.discarded.add(datagrams);
                }
            }
            let singly = routing.get(route).singly;
            let is_last_hop = message.hops.is_some_and(|hops| hops <= 1);
            let alone = alone && message.segment.is_none();
            let whole = Part { message: index, start: 0, end: message.bytes.len(), segment: message.segment };
            let mut offer = |part: Part, each: Option<NonZeroU16>| {
                for delivery in routing.choose(route, source.ip()) {
                    plan.rules[delivery.rule].book.cell(worker).copies.add(part.datagrams() as u64);
                    let &Delivery { outlet, returns, .. } = delivery;
                    if returns || !alone || !lanes.pass(outlet, message.bytes, origin, turn) {
                        let arrived = Arrived { source, is_last_hop, returns };
                        lanes.offer(outlet, |lane| lane.offer(part, each, arrived, turn));
                    }
                }
            };
            if singly {
                whole.singles().for_each(|single| offer(single, whole.segment));
            } else {
                offer(whole, None);
            }
        });
        taken.count(book.cell(worker));
    }
}

/// What a batch brought, until it is counted.
#[derive(Default)]
struct Taken {
    received: u64,
    bytes: u64,
    matched: u64,
    unmatched: u64,
    truncated: u64,
}

impl Taken {
    fn count(&self, cell: &ListenerCell) {
        cell.received.add(self.received);
        cell.received_bytes.add(self.bytes);
        cell.matched.add(self.matched);
        cell.unmatched.add(self.unmatched);
        cell.truncated.add(self.truncated);
    }
}
