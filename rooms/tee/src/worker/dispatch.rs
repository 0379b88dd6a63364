//! From a listener's socket to the lanes: one batch.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Instant;

use weir_dgram::Received;
use weir_wire::proxy;

use super::batch::Part;
use super::lane::{Lane, Place};
use super::load::Load;
use super::thread::{Intake, Thread, emptied};

impl Thread {
    /// Takes a batch from a listener and sends it on; returns how many messages that were. WouldBlock: nothing is there.
    pub(super) fn take(&mut self, at: usize) -> io::Result<usize> {
        let mut load = self.load();
        let received = match Arc::get_mut(&mut load) {
            Some(load) => load.inbox.receive(&self.intakes[at].socket),
            // Never: nobody else has it.
            None => Err(io::ErrorKind::ResourceBusy.into()),
        };
        if received.is_ok() {
            self.plan.books.phase(self.number).begin();
            self.sort(at, &mut load);
            self.hand_over(&mut load);
            self.send(&load);
            self.plan.books.phase(self.number).end();
        }
        self.pool.put(load);
        if !self.gathering.is_empty() {
            self.set_timer(Instant::now());
        }
        received
    }

    /// Gives every message of the batch to the lanes that rules lead to.
    fn sort(&mut self, at: usize, load: &mut Arc<Load>) {
        let Some(load) = Arc::get_mut(load) else { return };
        load.clear();
        let Load { inbox, sources, headers: known, .. } = load;
        let Self { number, plan, routing, intakes, lanes, touched, tools, headers, .. } = self;
        let &Intake { listener, address, .. } = &intakes[at];
        let cell = plan.listeners[listener].book.cell(*number);
        let mut last: Option<(IpAddr, usize)> = None;
        for (index, message) in inbox.messages().enumerate() {
            let (datagrams, bytes) = (message.datagrams() as u64, message.length as u64);
            let source = message.source;
            sources.push(source);
            if *headers {
                known.push(header(source, &message, address));
            }
            // What goes to all comes to every worker, see `sockets`: it is the first one's.
            if message.to_all && *number > 0 {
                continue;
            }
            cell.received.add(datagrams);
            cell.received_bytes.add(bytes);
            if message.truncated {
                cell.truncated.add(datagrams);
                continue;
            }
            // Neighbours in a batch are often from one sender.
            let course = match last {
                Some((before, course)) if before == source.ip() => course,
                _ => routing.course(listener, source.ip()),
            };
            last = Some((source.ip(), course));
            let rules = &routing.get(course).rules;
            let matched = if rules.is_empty() { &cell.unmatched } else { &cell.matched };
            matched.add(datagrams);
            for &rule in rules {
                let route = &plan.routes[rule];
                let count = route.book.cell(*number);
                count.matched.add(datagrams);
                count.matched_bytes.add(bytes);
                if route.outlets.is_empty() && route.groups.is_empty() {
                    count.discarded.add(datagrams);
                }
            }
            let singly = routing.get(course).singly;
            let whole = Part { message: index, start: 0, end: message.bytes.len(), segment: message.segment };
            let mut give = |part: Part, each: Option<NonZeroU16>| {
                for copy in routing.choose(course, source.ip()) {
                    plan.routes[copy.rule].book.cell(*number).copies.add(part.datagrams() as u64);
                    let lane = &mut lanes[copy.outlet];
                    let before = lane.pending.is_empty();
                    lane.offer(part, each, source, &mut tools.random);
                    if before && !lane.pending.is_empty() {
                        touched.push(copy.outlet);
                    }
                }
            };
            if singly {
                whole.singles().for_each(|single| give(single, whole.segment));
            } else {
                give(whole, None);
            }
        }
    }

    /// Sends on what lanes were given. Lanes in trouble come last: they only copy, but the others need not wait for it.
    fn send(&mut self, load: &Load) {
        let Self { bodies, lanes, touched, tools, gathering, plan, .. } = self;
        let mut payloads = emptied(std::mem::take(bodies));
        payloads.extend(load.inbox.payloads());
        let batch = load.batch(&payloads);
        let gather = plan.settings.gather;
        for troubled in [false, true] {
            for &at in touched.iter() {
                let Lane { pending, place: Place::Here(carrier), .. } = &mut lanes[at] else { continue };
                // A lane that was well may be troubled now, but then nothing of the batch is left to it.
                if pending.is_empty() || carrier.has_backlog() != troubled {
                    continue;
                }
                if gather.is_zero() || (troubled && carrier.due.is_none()) {
                    carrier.flush(pending, batch, tools);
                } else if carrier.gather(pending, batch, gather, tools) && !gathering.contains(&at) {
                    gathering.push(at);
                }
            }
        }
        *bodies = emptied(payloads);
        for at in 0..self.touched.len() {
            self.watch(self.touched[at]);
        }
        self.touched.clear();
    }
}

/// What a header says of a message. The listener's own address stands for one that the kernel does not tell.
fn header(source: SocketAddr, message: &Received<'_>, listener: SocketAddr) -> proxy::Header {
    let local = message.local.map_or(listener, |local| SocketAddr::new(local, listener.port()));
    proxy::encode(source, local)
}
