//! The thread: waits for frames, releases and commands, and serves them in turn.
//!
//! Every turn takes one batch from each port that has frames, then sends one batch of each direction that has something
//! due, so that no link waits for another for longer than a turn. Links without traffic cost nothing: frames are
//! announced by epoll, releases by an agenda with one entry for each direction that waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;

use super::clock::{self, Clock};
use super::direction::{Direction, Tools};
use super::frame::{MAX_HEADERS, VNET};
use super::pool::{LARGE, Pool, Slot};
use super::sys::batch::{MAX_BATCH, ReceiveBatch};
use super::sys::wait::{self, Event};
use super::{Error, LinkId, LinkPorts, Path, Port, Settings};
use crate::ledger::LinkReport;
use crate::model::Nanos;

/// What the handle asks of the thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Carry frames of this link.
    Attach(Box<LinkPorts>, mpsc::Sender<Result<LinkId, Error>>),
    /// Tell about a link.
    Report(LinkId, mpsc::Sender<Option<LinkReport>>),
    /// End a link.
    Detach(LinkId, mpsc::Sender<Option<LinkReport>>),
    /// How much CPU time has been used.
    CpuTime(mpsc::Sender<Duration>),
    /// End the thread.
    Stop,
}

/// How the thread learns of things.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) epoll: Epoll,
    pub(super) wake: Arc<EventFd>,
    pub(super) commands: mpsc::Receiver<Command>,
}

impl Inputs {
    pub(super) fn new(epoll: Epoll, wake: Arc<EventFd>, commands: mpsc::Receiver<Command>) -> io::Result<Self> {
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        Ok(Self { epoll, wake, commands })
    }
}

/// The token of the event that announces commands; directions have the tokens below.
const WAKE: u64 = u64::MAX;

/// The state of an emulator thread. It stays on its thread.
pub(super) struct Worker {
    inputs: Inputs,
    clock: Clock,
    spin_span: Nanos,
    tools: Tools,
    links: Links,
    /// Directions whose port may have frames.
    ready: Vec<u32>,
    /// Directions by their next release. Superseded entries stay until their time and are then ignored.
    agenda: BinaryHeap<Reverse<(Nanos, u32)>>,
    commanded: bool,
}

/// Attached links by number; each has two directions, numbered `2 * slot` and `2 * slot + 1`.
#[derive(Default)]
struct Links {
    slots: Vec<Option<Link>>,
    by_id: BTreeMap<LinkId, u32>,
    attached: u64,
}

struct Link {
    ports: [Port; 2],
    directions: [Direction; 2],
    /// When each direction is on the agenda; `Nanos::MAX`: not at all.
    scheduled: [Nanos; 2],
}

impl Worker {
    pub(super) fn new(settings: &Settings, inputs: Inputs) -> Self {
        let batch = settings.batch.clamp(1, MAX_BATCH);
        let slots: Vec<Slot> = (0..batch).map(|_| std::iter::repeat_n(0, LARGE).collect()).collect();
        let vnet = settings.path == Path::Segments;
        let tools = Tools {
            pool: Pool::new(settings.pool_bytes),
            inbox: ReceiveBatch::new(slots, if vnet { 0 } else { VNET }),
            headers: Box::new([[0; MAX_HEADERS]; MAX_BATCH]),
            batch,
            run_span: settings.run_span.as_nanos() as Nanos,
            vnet,
        };
        let spin_span = if settings.spin { settings.spin_span.as_nanos() as Nanos } else { 0 };
        Self {
            inputs,
            clock: Clock::default(),
            spin_span,
            tools,
            links: Links::default(),
            ready: Vec::new(),
            agenda: BinaryHeap::new(),
            commanded: false,
        }
    }

    /// Runs until told to stop.
    pub(super) fn run(&mut self) {
        // Both only sharpen the timing; a kernel that refuses them is used as it is.
        let _ = wait::drop_timer_slack();
        let _ = wait::shorten_slice(SLICE);
        loop {
            if self.commanded && !self.obey() {
                return;
            }
            self.receive();
            self.send();
            if self.wait().is_err() {
                return;
            }
        }
    }

    /// Takes a batch from every port that has frames.
    fn receive(&mut self) {
        let mut still_ready = 0;
        for at in 0..self.ready.len() {
            let number = self.ready[at];
            let Some((link, side)) = self.links.direction(number) else {
                continue;
            };
            let more = match self.tools.inbox.receive(link.ports[side].fd()) {
                Ok(count) => {
                    self.clock.tick();
                    for index in 0..count {
                        let arrival = self.clock.arrival(self.tools.inbox.message(index).stamp);
                        link.directions[side].accept(index, arrival, &mut self.tools);
                    }
                    count == self.tools.batch
                }
                Err(error) => match error.raw_os_error() {
                    // A frame that cannot be described by a virtio header.
                    Some(libc::EINVAL) => {
                        link.directions[side].count_malformed();
                        true
                    }
                    // Nothing there, or the interface went down, which epoll would tell again.
                    _ => false,
                },
            };
            link.schedule(number, &mut self.agenda);
            if more {
                self.ready[still_ready] = number;
                still_ready += 1;
            }
        }
        self.ready.truncate(still_ready);
    }

    /// Sends a batch of every direction that has something due.
    fn send(&mut self) {
        let now = self.clock.tick();
        while let Some(&Reverse((at, number))) = self.agenda.peek()
            && at <= now
        {
            self.agenda.pop();
            let Some((link, side)) = self.links.direction(number) else {
                continue;
            };
            if link.scheduled[side] != at {
                continue;
            }
            link.scheduled[side] = Nanos::MAX;
            link.directions[side].send(link.ports[1 - side].fd(), &mut self.clock, &mut self.tools);
            link.schedule(number, &mut self.agenda);
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) -> io::Result<()> {
        let now = self.clock.tick();
        let next = self.agenda.peek().map(|&Reverse((at, _))| at);
        let sleep = match next {
            _ if !self.ready.is_empty() => Some(0),
            Some(at) => Some(at.saturating_sub(self.spin_span).saturating_sub(now)),
            None => None,
        };
        let mut events = [Event::NONE; 128];
        let count = wait::wait(self.inputs.epoll.0.as_fd(), &mut events, sleep)?;
        for event in &events[..count] {
            match event.token() {
                WAKE => self.commanded = true,
                number => {
                    let number = number as u32;
                    if !self.ready.contains(&number) {
                        self.ready.push(number);
                    }
                }
            }
        }
        if self.spin_span > 0
            && count == 0
            && self.ready.is_empty()
            && let Some(at) = next
        {
            // A sleep that ended early must be gone on with, not spun through.
            let near = self.clock.tick() + 2 * self.spin_span >= at;
            while near && self.clock.tick() < at {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Carries out the commands that wait; returns whether to go on.
    fn obey(&mut self) -> bool {
        self.commanded = false;
        let _ = self.inputs.wake.read();
        loop {
            // Whoever asked may have gone meanwhile; then nobody minds that the answer is lost.
            match self.inputs.commands.try_recv() {
                Ok(Command::Attach(link, reply)) => drop(reply.send(self.attach(*link))),
                Ok(Command::Report(id, reply)) => drop(reply.send(self.report(id))),
                Ok(Command::Detach(id, reply)) => drop(reply.send(self.detach(id))),
                Ok(Command::CpuTime(reply)) => drop(reply.send(clock::cpu_time())),
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    fn attach(&mut self, link: LinkPorts) -> Result<LinkId, Error> {
        let slot = self.links.free_slot();
        for (side, port) in [&link.a, &link.b].into_iter().enumerate() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, u64::from(2 * slot) + side as u64);
            // A port that is not attached closes with its owner, and closing ends the watch.
            self.inputs
                .epoll
                .add(port.fd(), event)
                .map_err(|error| Error::Attach { link: link.name.clone(), source: error.into() })?;
        }
        let directions = [Direction::new(link.forward), Direction::new(link.backward)];
        let link = Link { ports: [link.a, link.b], directions, scheduled: [Nanos::MAX; 2] };
        Ok(self.links.put(slot, link))
    }

    fn report(&mut self, id: LinkId) -> Option<LinkReport> {
        let slot = *self.links.by_id.get(&id)?;
        self.links.slots[slot as usize].as_mut().map(Link::report)
    }

    fn detach(&mut self, id: LinkId) -> Option<LinkReport> {
        let slot = self.links.by_id.remove(&id)?;
        let mut link = self.links.slots[slot as usize].take()?;
        self.ready.retain(|number| number / 2 != slot);
        for port in &link.ports {
            let _ = self.inputs.epoll.delete(port.fd());
        }
        let report = link.report();
        for direction in &mut link.directions {
            direction.clear(&mut self.tools.pool);
        }
        Some(report)
    }
}

impl Links {
    fn direction(&mut self, number: u32) -> Option<(&mut Link, usize)> {
        let link = self.slots.get_mut(number as usize / 2)?.as_mut()?;
        Some((link, number as usize % 2))
    }

    fn free_slot(&self) -> u32 {
        self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len()) as u32
    }

    fn put(&mut self, slot: u32, link: Link) -> LinkId {
        if slot as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot as usize] = Some(link);
        let id = LinkId(self.attached);
        self.attached += 1;
        self.by_id.insert(id, slot);
        id
    }
}

impl Link {
    /// Puts direction `number` on the agenda, if it is not there for an earlier time.
    fn schedule(&mut self, number: u32, agenda: &mut BinaryHeap<Reverse<(Nanos, u32)>>) {
        let side = number as usize % 2;
        if let Some(next) = self.directions[side].next()
            && next < self.scheduled[side]
        {
            self.scheduled[side] = next;
            agenda.push(Reverse((next, number)));
        }
    }

    fn report(&mut self) -> LinkReport {
        let drops = [0, 1].map(|side| self.ports[side].dropped_frames());
        let [forward, backward] = [0, 1].map(|side| self.directions[side].report(drops[side]));
        LinkReport { forward, backward }
    }
}

/// The time slice asked of the scheduler, ns.
const SLICE: u64 = 100_000;
