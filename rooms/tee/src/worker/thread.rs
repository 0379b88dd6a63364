//! The thread: waits for datagrams, room and commands, and serves them in turn.
//!
//! A turn takes one batch from each listener that has something, and sends it on before the next. A listener that is
//! never empty waits for the others after each batch; the thread sleeps when all are empty.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::stat::fstat;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use weir_dgram::Socket;

use super::command::{Assignment, Command, Commands, ListenerSocket};
use super::events::{Event, Events, Token};
use super::handle::Handle;
use super::lanes::Lanes;
use super::routing::Routing;
use super::shared::MESSAGES;
use super::sharing::Sharing;
use super::tap::Tap;
use super::turn::{Scratch, Turn};
use crate::counters::Phase;
use crate::plan::Plan;

/// The state of a worker's thread. It stays on its thread. Its parts know nothing of one another: each is handed what it
/// needs for a step.
pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) phase: Arc<Phase>,
    pub(super) scratch: Scratch,
    pub(super) listeners: Vec<ListenerSocket>,
    pub(super) routing: Routing,
    pub(super) lanes: Lanes,
    pub(super) sharing: Sharing,
    /// What else reads what comes in.
    pub(super) tap: Option<Box<dyn Tap>>,
    pub(super) commands: Commands,
    pub(super) events: Events,
}

impl Worker {
    pub(super) fn new(
        number: usize,
        assignment: Assignment,
        commands: Commands,
        events: Events,
        workers: Arc<[Handle]>,
        tap: Option<Box<dyn Tap>>,
    ) -> Self {
        let plan = Arc::clone(&assignment.plan);
        let mut worker = Self {
            number,
            phase: plan.books.phase(number),
            scratch: Scratch::default(),
            listeners: Vec::new(),
            routing: Routing::new(Arc::clone(&plan), number),
            lanes: Lanes::new(number),
            sharing: Sharing::new(number, workers),
            tap,
            commands,
            events,
            plan,
        };
        worker.replace(assignment);
        worker
    }

    /// Runs until told to stop.
    pub(super) fn run(&mut self) {
        loop {
            if let Some(drain) = self.obey() {
                return self.finish(drain);
            }
            for at in 0..self.listeners.len() {
                if self.listeners[at].ready {
                    // An edge comes once: after an error of the moment the queue is looked into again.
                    self.listeners[at].ready = match self.receive(at) {
                        Ok(messages) => messages == MESSAGES,
                        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
                    };
                }
            }
            self.sharing.assess(&mut self.lanes, &mut self.commands, &self.events);
            // Nothing but a descriptor that is no epoll any more: a fault that no work can go on with.
            if self.wait(None).is_err() {
                return self.finish(Duration::ZERO);
            }
        }
    }

    /// Carries out commands that wait; returns how long to drain if told to stop.
    fn obey(&mut self) -> Option<Duration> {
        let Self { lanes, sharing, commands, events, phase, scratch, .. } = self;
        // Listeners have their turn, however many batches others send.
        for _ in 0..COMMANDS {
            // Whoever asked may have gone meanwhile; then nobody minds that the answer is lost.
            match commands.next()? {
                Command::Replace(assignment, reply) => {
                    self.replace(*assignment);
                    let _ = reply.send(());
                    return None;
                }
                Command::Answer(reply) => {
                    let _ = reply.send(());
                }
                Command::CpuTime(reply) => {
                    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(TimeSpec::new(0, 0));
                    let _ = reply.send(time.into());
                }
                Command::Stop(drain) => return Some(drain),
                Command::Settle(reply) => {
                    sharing.allow(false);
                    sharing.take_all_back(lanes, commands, events);
                    let _ = reply.send(());
                }
                Command::Hold { lender, lane, egress } => sharing.hold(lender, lane, egress),
                Command::Send { lender, batch } => {
                    sharing.count_busy(false);
                    sharing.send(lender, &batch, events, &mut Turn::begin(phase, scratch));
                    sharing.release(lender, batch);
                    sharing.count_busy(true);
                }
                Command::Return { lender, most } => sharing.give_back(lender, most, events),
                Command::Relieve => sharing.take_all_back(lanes, commands, events),
                // Whoever waited for these has had them.
                Command::Released | Command::Returned(_) => {}
            }
        }
        None
    }

    /// Waits until there is something to do, `until` then at the latest, and sends what has room or has waited enough.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let Self { listeners, lanes, sharing, commands, events, phase, scratch, .. } = self;
        let until = lanes.deadline().into_iter().chain(until).min();
        let timeout = if listeners.iter().any(|listener| listener.ready) {
            Some(Duration::ZERO)
        } else {
            until.map(|until| until.saturating_duration_since(Instant::now()))
        };
        for Event { subject, broken } in sharing.park(timeout, commands, |timeout| events.wait(timeout))? {
            let mut turn = Turn::begin(phase, scratch);
            let egress = match subject {
                Token::Lane(at) => lanes.egress(at),
                Token::Leaving(number) => lanes.leaving(number),
                Token::Held { lender, lane } => sharing.held(lender, lane),
                Token::Listener(at) => {
                    listeners[at].ready = true;
                    None
                }
                Token::Timer => {
                    lanes.release_due(events, &mut turn);
                    None
                }
                Token::Wake => None,
            };
            if let Some(egress) = egress {
                egress.resume(broken, &mut turn);
                egress.watch(events, subject);
            }
        }
        if lanes.has_leaving() {
            lanes.dismiss(events, &Turn::begin(phase, scratch));
        }
        Ok(())
    }

    /// Goes over to another plan. No lane may be lent. What a removed listener has in its queue still goes where the old
    /// plan says.
    fn replace(&mut self, assignment: Assignment) {
        let Assignment { plan, listeners, egress } = assignment;
        for at in 0..self.listeners.len() {
            if !listeners.iter().any(|new| is_same(&new.socket, &self.listeners[at].socket)) {
                self.close(at);
            }
            self.events.unwatch(&*self.listeners[at].socket);
        }
        self.lanes.replace(&plan, egress, &self.events, &Turn::begin(&self.phase, &mut self.scratch));
        self.sharing.allow(plan.settings.lending && plan.settings.gather.is_zero());
        for (at, listener) in listeners.iter().enumerate() {
            self.events.watch_listener(&*listener.socket, at);
        }
        self.listeners = listeners;
        self.routing = Routing::new(Arc::clone(&plan), self.number);
        self.plan = plan;
    }

    /// Sends what is queued at a listener, and lets nothing more in. A socket that others will go on with stays open:
    /// what comes in meanwhile is theirs.
    fn close(&mut self, at: usize) {
        let ListenerSocket { listener, socket, lasting, .. } = &self.listeners[at];
        // What the closed door turns away counts as dropped at the socket, but is no loss.
        let drops = socket.memory().map_or(0, |memory| memory.drops);
        let closed = !lasting && socket.close_intake().is_ok();
        self.plan.listeners[*listener].book.cell(self.number).kernel_drops.add(drops.into());
        let most = if closed { usize::MAX } else { LASTING };
        for _ in 0..most {
            if self.receive(at).is_err() {
                break;
            }
        }
    }

    /// Lets nothing more in, sends what is here, for `drain` at the longest, and counts the rest.
    fn finish(&mut self, drain: Duration) {
        let until = Instant::now() + drain;
        for at in 0..self.listeners.len() {
            self.events.unwatch(&*self.listeners[at].socket);
            self.close(at);
            self.listeners[at].ready = false;
        }
        self.lanes.shorten(until);
        self.lanes.stop_gathering();
        self.lanes.watch(&self.events);
        while self.lanes.has_backlog() && Instant::now() < until {
            if self.wait(Some(until)).is_err() {
                break;
            }
        }
        self.lanes.abandon(&Turn::begin(&self.phase, &mut self.scratch));
    }
}

/// Whether two handles are of the same socket: one may have been made from the other to change its options.
fn is_same(one: &Arc<Socket>, other: &Arc<Socket>) -> bool {
    Arc::ptr_eq(one, other)
        || fstat(one).ok().zip(fstat(other).ok()).is_some_and(|(one, other)| one.st_ino == other.st_ino)
}

/// Commands that are carried out before listeners have their turn.
const COMMANDS: usize = 8;

/// Batches that are taken of a socket that stays open before it is left to others.
const LASTING: usize = 64;
