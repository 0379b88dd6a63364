//! From a listener's socket to the lanes: one batch.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use super::batch::Part;
use super::command::ListenerSocket;
use super::lanes::Lanes;
use super::routing::Routing;
use super::shared::SharedBatch;
use super::tap::Tapped;
use super::thread::Worker;
use super::turn::Turn;
use crate::plan::Plan;

impl Worker {
    /// Takes a batch from a listener and sends it on; returns how many messages that were. WouldBlock: nothing is there.
    pub(super) fn receive(&mut self, at: usize) -> io::Result<usize> {
        let Self { number, plan, phase, scratch, listeners, routing, lanes, sharing, tap, commands, events } = self;
        let listener = &listeners[at];
        let mut batch = sharing.batch(lanes, commands);
        let received = match Arc::get_mut(&mut batch) {
            Some(batch) => batch.receive(&listener.socket),
            // Never: nobody else has it.
            None => Err(io::ErrorKind::ResourceBusy.into()),
        };
        if received.is_ok() {
            let mut turn = Turn::begin(phase, scratch);
            if let Some(batch) = Arc::get_mut(&mut batch) {
                Dispatch { worker: *number, plan, routing, lanes }.dispatch(listener, batch, &mut turn);
            }
            sharing.hand_over(&mut batch, lanes, &turn);
            batch.read(&mut turn, |batch, turn| lanes.send(batch, plan.settings.gather, turn));
            lanes.finish_batch(events);
            if let Some(tap) = tap {
                // Still within the turn: what a tap counts agrees with what listeners count.
                tap.read(Tapped::new(batch.inbox(), *number));
            }
        }
        sharing.recycle(batch);
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
    /// Offers every message of the batch to the lanes that rules lead to.
    fn dispatch(self, listener: &ListenerSocket, batch: &mut SharedBatch, turn: &mut Turn<'_>) {
        let Self { worker, plan, routing, lanes } = self;
        let cell = plan.listeners[listener.listener].book.cell(worker);
        let mut last: Option<(IpAddr, usize)> = None;
        batch.messages(plan.headed.then_some(listener.address), |index, message| {
            // What goes to all comes to every worker, see `sockets`: it is the first one's.
            if message.to_all && worker > 0 {
                return;
            }
            let (datagrams, bytes) = (message.datagrams() as u64, message.length as u64);
            let source = message.source;
            cell.received.add(datagrams);
            cell.received_bytes.add(bytes);
            if message.truncated {
                cell.truncated.add(datagrams);
                return;
            }
            // Neighbours in a batch are often from one sender.
            let route = match last {
                Some((before, route)) if before == source.ip() => route,
                _ => routing.route(listener.listener, source.ip()),
            };
            last = Some((source.ip(), route));
            let rules = &routing.get(route).rules;
            let matched = if rules.is_empty() { &cell.unmatched } else { &cell.matched };
            matched.add(datagrams);
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
            let whole = Part { message: index, start: 0, end: message.bytes.len(), segment: message.segment };
            let mut offer = |part: Part, each: Option<NonZeroU16>| {
                for delivery in routing.choose(route, source.ip()) {
                    plan.rules[delivery.rule].book.cell(worker).copies.add(part.datagrams() as u64);
                    lanes.offer(delivery.outlet, |lane| lane.offer(part, each, source, turn));
                }
            };
            if singly {
                whole.singles().for_each(|single| offer(single, whole.segment));
            } else {
                offer(whole, None);
            }
        });
    }
}
