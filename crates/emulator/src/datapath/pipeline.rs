//! One direction of a link: frames in, decisions, frames out, and the ledger.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use super::clock::Clock;
use super::cut::{self, Run};
use super::frame::{self, Content, Layout, MAX_HEADERS};
use super::lateness::Lateness;
use super::pool::{Pool, Slot};
use super::port::Came;
use super::queue::{Entry, ReleaseQueue};
use super::sys::batch::{self, MAX_BATCH, ReceiveBatch};
use crate::ledger::{DirectionReport, Ledger};
use crate::model::{self, Alterations, Cause, Decision, Nanos};

/// How often a frame that the kernel has no room for is retried, and after which time.
const ATTEMPTS: u32 = 20;
const RETRY: Nanos = 50_000;

/// One direction of a link.
pub(super) struct Pipeline {
    model: model::Direction,
    queue: ReleaseQueue,
    /// Due, but not yet accepted by the kernel.
    outbox: VecDeque<Entry>,
    /// How often the first of the outbox was refused for lack of room.
    refusals: u32,
    retry_at: Nanos,
    last_arrival: Nanos,
    ledger: Ledger,
    lateness: Lateness,
}

/// Shared by the directions of an emulator thread.
pub(super) struct Scratch {
    pub(super) pool: Pool,
    pub(super) inbox: ReceiveBatch,
    /// Headers of the runs being sent.
    pub(super) headers: Box<[[u8; MAX_HEADERS]; MAX_BATCH]>,
    /// Frames to send in one call.
    pub(super) batch: usize,
    /// Max difference of the releases within a run.
    pub(super) run_span: Nanos,
}

impl Pipeline {
    pub(super) fn new(model: model::Direction) -> Self {
        Self {
            model,
            queue: ReleaseQueue::default(),
            outbox: VecDeque::new(),
            refusals: 0,
            retry_at: 0,
            last_arrival: 0,
            ledger: Ledger::default(),
            lateness: Lateness::new(),
        }
    }

    /// Min time from a packet's arrival to its release.
    pub(super) fn least_delay(&self) -> Nanos {
        self.model.least_delay()
    }

    /// Sets time 0 of the plan.
    pub(super) fn start_clock(&mut self, at: Nanos) {
        self.model.start_clock(at);
    }

    /// Follows another plan from `now` on.
    pub(super) fn change_plan(&mut self, plan: &model::Plan, now: Nanos) {
        self.model.change_plan(plan, now);
    }

    /// The time of the next work.
    pub(super) fn next(&self) -> Option<Nanos> {
        if self.outbox.is_empty() { self.queue.next() } else { Some(self.retry_at) }
    }

    /// Counts a frame that the kernel could not deliver.
    pub(super) fn count_malformed(&mut self) {
        self.ledger.frames_received += 1;
        self.ledger.received += 1;
        self.ledger.malformed += 1;
    }

    /// Decides the fate of the frame at `index` of the inbox.
    pub(super) fn accept(&mut self, index: usize, arrival: Nanos, scratch: &mut Scratch) {
        let message = scratch.inbox.message(index);
        let length = message.length;
        let buffer = &scratch.inbox.slot(index)[..length];
        let frame = match frame::parse(buffer) {
            Ok(frame) if !message.truncated => frame,
            _ => return self.count_malformed(),
        };
        let layout = frame.layout;
        let packets = layout.packets();
        self.ledger.frames_received += 1;
        self.ledger.received += u64::from(packets);
        self.ledger.received_bytes += u64::from(layout.bytes());
        // CPUs stamp separately; a frame is not taken as older than the one received before it.
        let arrival = arrival.max(self.last_arrival);
        self.last_arrival = arrival;

        let mut incoming = Incoming { index, length, layout, kept: None, scratch };
        match frame.content {
            Content::Control => {
                self.ledger.control += 1;
                let release = self.model.control(arrival);
                self.enqueue(&mut incoming, Run { first: 0, count: 1 }, release, release);
            }
            Content::Flow(tuple) => {
                let flow = self.model.flow(&tuple);
                let whole = if packets > 1 { self.model.pass_run(flow, arrival, packets) } else { None };
                match whole {
                    Some(release) => {
                        self.enqueue(&mut incoming, Run { first: 0, count: packets }, release, release);
                    }
                    None => self.decide(flow, arrival, &mut incoming),
                }
            }
        }
        if let Some(slot) = incoming.kept {
            scratch.pool.give(slot);
        }
    }

    /// Sends due frames, at most one batch.
    pub(super) fn send(&mut self, port: BorrowedFd<'_>, clock: &mut Clock, scratch: &mut Scratch) {
        let mut now = clock.tick();
        while self.outbox.len() < scratch.batch {
            match self.queue.pop(now) {
                Some(entry) => self.outbox.push_back(entry),
                None => break,
            }
        }
        while !self.outbox.is_empty() {
            match self.offer(port, scratch) {
                Ok(taken) => {
                    self.refusals = 0;
                    // The frames of a call are assumed to leave evenly spread over its time.
                    let (began, each) = (now, if taken > 1 { (clock.tick() - now) / taken as Nanos } else { 0 });
                    for at in 0..taken as Nanos {
                        self.finish(Some(began + at * each), scratch);
                    }
                    now = began + taken as Nanos * each;
                }
                Err(error) => {
                    if is_want_of_room(&error) && self.refusals < ATTEMPTS {
                        self.refusals += 1;
                        self.retry_at = now + RETRY;
                        return;
                    }
                    // Once patience has run out it stays so, until a frame succeeds.
                    self.finish(None, scratch);
                }
            }
        }
    }

    /// The ledger so far.
    pub(super) fn report(&self, came: Came) -> DirectionReport {
        let waiting = self.queue.iter().chain(&self.outbox);
        let ledger = Ledger {
            in_flight: waiting.map(|entry| u64::from(entry.packets)).sum(),
            unlisted_flows: self.model.unlisted_flows(),
            socket_dropped_frames: came.dropped,
            // Frames received since the kernel counted are not missing.
            unread_frames: came.frames.saturating_sub(came.dropped + self.ledger.frames_received),
            ..self.ledger
        };
        let (late, unlisted_late) = self.lateness.late();
        let lateness = self.lateness.histogram();
        DirectionReport { ledger, drops: self.model.drops(), lateness, late, unlisted_late }
    }

    /// Returns all slots.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        while let Some(entry) = self.outbox.pop_front().or_else(|| self.queue.pop(Nanos::MAX)) {
            pool.give(entry.slot);
        }
    }

    /// Asks the model about every packet of a frame and queues those that pass, in runs as long as possible.
    fn decide(&mut self, flow: model::FlowHandle, arrival: Nanos, incoming: &mut Incoming<'_>) {
        let mut open: Option<(Run, Nanos, Nanos)> = None;
        for index in 0..incoming.layout.packets() {
            let single = Run { first: index, count: 1 };
            let decision = self.model.decide(flow, arrival, incoming.layout.bytes_of(index, 1));
            let passes = match decision {
                Decision::Pass { release, alterations, .. } if alterations.is_none() => Some(release),
                _ => None,
            };
            open = match (open, passes) {
                (Some((run, due, last)), Some(release))
                    if release >= last && release - due <= incoming.scratch.run_span =>
                {
                    Some((Run { count: run.count + 1, ..run }, due, release))
                }
                (ended, passes) => {
                    if let Some((run, due, last)) = ended {
                        self.enqueue(incoming, run, due, last);
                    }
                    passes.map(|release| (single, release, release))
                }
            };
            match decision {
                Decision::Drop(Cause::Loss) => self.ledger.lost += 1,
                Decision::Drop(Cause::Queue) => self.ledger.queue_dropped += 1,
                Decision::Pass { release, alterations, copy } => {
                    if !alterations.is_none() {
                        self.enqueue_altered(incoming, index, alterations, release);
                    }
                    if let Some(release) = copy {
                        self.ledger.duplicated += 1;
                        self.enqueue(incoming, single, release, release);
                    }
                }
            }
        }
        if let Some((run, due, last)) = open {
            self.enqueue(incoming, run, due, last);
        }
    }

    fn enqueue(&mut self, incoming: &mut Incoming<'_>, run: Run, due: Nanos, release: Nanos) {
        let layout = incoming.layout;
        let Some(slot) = incoming.keep() else {
            self.ledger.buffer_dropped += u64::from(run.count);
            return;
        };
        self.queue.push(Entry {
            release,
            due,
            slot,
            length: incoming.length as u32,
            run: if run.count == layout.packets() { None } else { Some((layout, run)) },
            packets: run.count,
            bytes: layout.bytes_of(run.first, run.count),
            alterations: Alterations::default(),
        });
    }

    /// Queues one altered packet in its own slot.
    fn enqueue_altered(
        &mut self,
        incoming: &mut Incoming<'_>,
        index: u32,
        alterations: Alterations<Option<u64>>,
        release: Nanos,
    ) {
        let layout = incoming.layout;
        let bytes = layout.bytes_of(index, 1);
        let whole = frame::IP + bytes as usize;
        let Some(mut slot) = incoming.scratch.pool.take(whole) else {
            self.ledger.buffer_dropped += 1;
            return;
        };
        let written = Rc::get_mut(&mut slot).and_then(|out| {
            let length = cut::packet(incoming.buffer(), &layout, index, out)?;
            cut::alter(&mut out[..length], &layout, &alterations);
            Some(length)
        });
        let Some(length) = written else {
            self.ledger.buffer_dropped += 1;
            return;
        };
        self.queue.push(Entry {
            release,
            due: release,
            slot,
            length: length as u32,
            run: None,
            packets: 1,
            bytes,
            alterations,
        });
    }

    /// Offers the outbox to the kernel; returns how many frames it accepted.
    fn offer(&self, port: BorrowedFd<'_>, scratch: &mut Scratch) -> io::Result<usize> {
        let mut frames = [[IoSlice::new(&[]); 2]; MAX_BATCH];
        let mut count = 0;
        for ((entry, headers), frame) in self.outbox.iter().zip(scratch.headers.iter_mut()).zip(&mut frames) {
            let buffer = &entry.slot[..entry.length as usize];
            *frame = match &entry.run {
                None => [IoSlice::new(buffer), IoSlice::new(&[])],
                Some((layout, run)) => {
                    let length = cut::headers(buffer, layout, *run, headers);
                    [IoSlice::new(&headers[..length]), IoSlice::new(&buffer[layout.payload_of(run.first, run.count)])]
                }
            };
            count += 1;
        }
        batch::send(port, &frames[..count])
    }

    /// Counts the first of the outbox, which left at that time or not at all, and returns its slot.
    fn finish(&mut self, left: Option<Nanos>, scratch: &mut Scratch) {
        let Some(entry) = self.outbox.pop_front() else { return };
        let packets = u64::from(entry.packets);
        if let Some(left) = left {
            self.ledger.frames_delivered += 1;
            self.ledger.delivered += packets;
            self.ledger.delivered_bytes += u64::from(entry.bytes);
            for (kind, choice) in entry.alterations.iter() {
                self.ledger.altered[kind] += u64::from(choice.is_some());
            }
            self.lateness.record(entry.due, left);
        } else {
            self.ledger.send_failed += packets;
        }
        scratch.pool.give(entry.slot);
    }
}

/// A frame in the inbox that may have to be kept.
struct Incoming<'a> {
    index: usize,
    length: usize,
    layout: Layout,
    kept: Option<Slot>,
    scratch: &'a mut Scratch,
}

impl Incoming<'_> {
    fn buffer(&self) -> &[u8] {
        let slot = self.kept.as_deref().unwrap_or_else(|| self.scratch.inbox.slot(self.index));
        &slot[..self.length]
    }

    /// Another reference to the frame's bytes. `None`: no memory is left.
    fn keep(&mut self) -> Option<Slot> {
        if self.kept.is_none() {
            let mut slot = self.scratch.pool.take(self.length)?;
            if slot.len() < self.scratch.inbox.slot(self.index).len() {
                Rc::get_mut(&mut slot)?[..self.length].copy_from_slice(self.buffer());
            } else {
                slot = self.scratch.inbox.exchange(self.index, slot);
            }
            self.kept = Some(slot);
        }
        self.kept.clone()
    }
}

fn is_want_of_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM | libc::EINTR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Direction, Key, Plan, Way};

    /// What came to the socket and is neither dropped nor taken in waits there.
    #[test]
    fn what_nobody_has_read_is_told() {
        let mut pipeline =
            Pipeline::new(Direction::new(&Plan::default(), Key { seed: 1, link: 0, direction: Way::Forward }));
        pipeline.count_malformed();
        let ledger = pipeline.report(Came { frames: 10, dropped: 3 }).ledger;
        assert_eq!((ledger.unread_frames, ledger.socket_dropped_frames, ledger.unexplained()), (6, 3, 0));
        // Frames may be taken in between two looks at the kernel's counter.
        assert_eq!(pipeline.report(Came { frames: 0, dropped: 0 }).ledger.unread_frames, 0);
    }
}
