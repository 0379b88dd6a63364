//! The thread: waits for frames, releases and commands, and handles them in turn.
//!
//! Every turn takes one batch from each port that has frames, then sends what is due, a batch of one direction after
//! the other in the order of their releases, so that no link waits for another for longer than a turn. Links without
//! traffic cost nothing: frames are announced by epoll, releases by timers with one entry for each direction that
//! waits.

use std::cmp::Reverse;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;

use super::clock::{self, Clock};
use super::frame::MAX_HEADERS;
use super::links::{Link, Links, Timers};
use super::pipeline::Scratch;
use super::pool::{LARGE, Pool, Slot};
use super::sys::batch::{MAX_BATCH, ReceiveBatch};
use super::sys::wait::{self, Event};
use super::{EmulatorSettings, Error, LinkId, LinkPorts};
use crate::ledger::LinkReport;
use crate::model::{Nanos, Plan, Way};

/// Commands of the handle to the thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Carries frames of this link.
    Attach(Box<LinkPorts>, mpsc::Sender<Result<LinkId, Error>>),
    /// Sets time 0 of a link's plans.
    StartClock(LinkId, Nanos, mpsc::Sender<Option<()>>),
    /// Changes the plan of one direction of a link.
    ChangePlan(LinkId, Way, Box<Plan>, mpsc::Sender<Option<()>>),
    /// Reports a link.
    Report(LinkId, mpsc::Sender<Option<LinkReport>>),
    /// Ends a link.
    Detach(LinkId, mpsc::Sender<Option<LinkReport>>),
    /// Reports the used CPU time.
    CpuTime(mpsc::Sender<Duration>),
    /// Ends the thread.
    Stop,
}

/// The thread's sources of events.
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
    scratch: Scratch,
    links: Links,
    /// Directions whose port may have frames.
    ready: Vec<u32>,
    /// Directions by their next release.
    releases: Timers,
    /// Directions by the time of their next poll, if epoll does not report them.
    polls: Timers,
    commanded: bool,
}

impl Worker {
    pub(super) fn new(settings: &EmulatorSettings, inputs: Inputs) -> Self {
        let batch = settings.batch.clamp(1, MAX_BATCH);
        let slots: Vec<Slot> = (0..batch).map(|_| std::iter::repeat_n(0, LARGE).collect()).collect();
        let scratch = Scratch {
            pool: Pool::new(settings.pool_bytes),
            inbox: ReceiveBatch::new(slots),
            headers: Box::new([[0; MAX_HEADERS]; MAX_BATCH]),
            batch,
            run_span: settings.run_span.as_nanos() as Nanos,
        };
        Self {
            inputs,
            clock: Clock::default(),
            scratch,
            links: Links::default(),
            ready: Vec::new(),
            releases: Timers::new(),
            polls: Timers::new(),
            commanded: false,
        }
    }

    /// Runs until it is stopped.
    pub(super) fn run(&mut self) {
        // Both only improve the timing; a kernel that refuses them is fine.
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
        let now = self.clock.tick();
        while let Some(&Reverse((at, number))) = self.polls.peek()
            && at <= now
        {
            self.polls.pop();
            let watch = self.links.direction(number).map(|(link, side)| link.watches[side]);
            if watch.is_some_and(|watch| watch.look_at == Some(at)) {
                self.ready.push(number);
            }
        }
        let mut still_ready = 0;
        for at in 0..self.ready.len() {
            let number = self.ready[at];
            let Some((link, side)) = self.links.direction(number) else {
                continue;
            };
            let mut taken = 0;
            let more = match self.scratch.inbox.receive(link.ports[side].fd()) {
                Ok(count) => {
                    self.clock.tick();
                    for index in 0..count {
                        let arrival = self.clock.arrival(self.scratch.inbox.message(index).stamp);
                        link.directions[side].accept(index, arrival, &mut self.scratch);
                    }
                    taken = count;
                    count == self.scratch.batch
                }
                Err(error) => match error.raw_os_error() {
                    // A frame that cannot be described by a virtio header.
                    Some(libc::EINVAL) => {
                        link.directions[side].count_malformed();
                        true
                    }
                    // Nothing there, or the interface went down, which epoll would report again.
                    _ => false,
                },
            };
            link.schedule(number, &mut self.releases);
            if more {
                self.ready[still_ready] = number;
                still_ready += 1;
            } else {
                link.watch(number, self.clock.now(), taken, &self.inputs.epoll, &mut self.polls);
            }
        }
        self.ready.truncate(still_ready);
    }

    /// Sends a batch of every direction with due frames.
    fn send(&mut self) {
        let now = self.clock.tick();
        while let Some(&Reverse((at, number))) = self.releases.peek()
            && at <= now
        {
            self.releases.pop();
            let Some((link, side)) = self.links.direction(number) else {
                continue;
            };
            if link.scheduled[side] != at {
                continue;
            }
            link.scheduled[side] = Nanos::MAX;
            link.directions[side].send(link.ports[1 - side].fd(), &mut self.clock, &mut self.scratch);
            link.schedule(number, &mut self.releases);
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) -> io::Result<()> {
        let now = self.clock.tick();
        let next = self.releases.peek().map(|&Reverse((at, _))| at);
        let poll = self.polls.peek().map(|&Reverse((at, _))| at);
        let wake = next.into_iter().chain(poll).min();
        let sleep = if self.ready.is_empty() { wake.map(|at| at.saturating_sub(now)) } else { Some(0) };
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
        Ok(())
    }

    /// Executes waiting commands; returns whether to continue.
    fn obey(&mut self) -> bool {
        self.commanded = false;
        let _ = self.inputs.wake.read();
        loop {
            // The requester may have gone meanwhile and does not need the answer.
            match self.inputs.commands.try_recv() {
                Ok(Command::Attach(link, reply)) => drop(reply.send(self.links.attach(&self.inputs.epoll, *link))),
                Ok(Command::StartClock(id, at, reply)) => {
                    let _ = reply.send(self.links.get(id).map(|link| link.start_clock(at)));
                }
                Ok(Command::ChangePlan(id, way, plan, reply)) => {
                    let _ = reply.send(self.change_plan(id, way, &plan));
                }
                Ok(Command::Report(id, reply)) => drop(reply.send(self.links.get(id).map(Link::report))),
                Ok(Command::Detach(id, reply)) => drop(reply.send(self.detach(id))),
                Ok(Command::CpuTime(reply)) => drop(reply.send(clock::cpu_time())),
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    fn change_plan(&mut self, id: LinkId, way: Way, plan: &Plan) -> Option<()> {
        let number = self.links.number(id, way)?;
        let now = self.clock.tick();
        self.links.get(id)?.change_plan(number, plan, now, &self.inputs.epoll);
        Some(())
    }

    fn detach(&mut self, id: LinkId) -> Option<LinkReport> {
        let (slot, mut link) = self.links.detach(&self.inputs.epoll, id)?;
        self.ready.retain(|number| number / 2 != slot);
        let report = link.report();
        for direction in &mut link.directions {
            direction.clear(&mut self.scratch.pool);
        }
        Some(report)
    }
}

/// The requested time slice, ns.
const SLICE: u64 = 100_000;
