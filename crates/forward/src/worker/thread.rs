//! The thread: waits for datagrams, room and commands, and serves them in turn.
//!
//! A turn takes one batch from each listener that has something, and sends it on before the next. A listener that is
//! never empty waits for the others after each batch; the thread sleeps when all are empty.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nix::sys::stat::fstat;
use weir_dgram::Socket;

use super::batch::{Batch, Origin};
use super::command::{Assignment, Command, ListenerSocket};
use super::events::{Event, Events, Token};
use super::lanes::Lanes;
use super::routing::Routing;
use super::singly::Singly;
use super::tap::Tap;
use super::turn::{Scratch, Turn};
use crate::counters::Turns;
use crate::plan::Plan;

/// The state of a worker's thread. It stays on its thread. Its parts know nothing of one another: each is handed what it
/// needs for a step.
pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) turns: Arc<Turns>,
    pub(super) scratch: Scratch,
    pub(super) listeners: Vec<ListenerSocket>,
    pub(super) routing: Routing,
    pub(super) lanes: Lanes,
    pub(super) batch: Batch,
    /// What else reads what comes in.
    pub(super) tap: Option<Box<dyn Tap>>,
    commands: mpsc::Receiver<Command>,
    pub(super) events: Events,
    /// Waits in a row that brought nothing but datagrams.
    alone: u32,
    /// Whether datagrams come one at a time.
    pub(super) singly: Singly,
}

impl Worker {
    pub(super) fn new(
        number: usize,
        assignment: Assignment,
        commands: mpsc::Receiver<Command>,
        events: Events,
        tap: Option<Box<dyn Tap>>,
    ) -> Self {
        let plan = Arc::clone(&assignment.plan);
        let mut worker = Self {
            number,
            turns: plan.books.turns(number),
            scratch: Scratch::default(),
            listeners: Vec::new(),
            routing: Routing::new(Arc::clone(&plan), number),
            lanes: Lanes::new(number),
            batch: Batch::new(),
            tap,
            commands,
            events,
            alone: 0,
            singly: Singly::default(),
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
            let (mut some, mut full) = (false, false);
            if self.waits_for_one() {
                match self.receive(0, true) {
                    Ok(_) => some = true,
                    // It has slept enough, or is not fit for it.
                    Err(_) => self.alone = 0,
                }
                full = self.batch.is_full();
                self.listeners[0].ready = full;
            } else {
                for at in 0..self.listeners.len() {
                    if self.listeners[at].ready {
                        // An edge comes once: after an error of the moment the queue is looked into again.
                        self.listeners[at].ready = match self.receive(at, false) {
                            Ok(_) => {
                                some = true;
                                full |= self.batch.is_full();
                                self.batch.is_full()
                            }
                            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
                        };
                    }
                }
            }
            // The next ones come together.
            if some && !full && !self.plan.settings.gather.is_zero() {
                std::thread::sleep(self.plan.settings.gather);
            }
            if self.waits_for_one() {
                continue;
            }
            // Nothing but a descriptor that is no epoll any more: a fault that no work can go on with.
            if self.wait(None).is_err() {
                return self.finish(Duration::ZERO);
            }
        }
    }

    /// Whether nothing is waited for but what comes to one listener, and that has been so for a while: then it sleeps in the
    /// call that receives, and spares the one that says there is something.
    fn waits_for_one(&self) -> bool {
        self.alone >= ALONE
            && matches!(self.listeners[..], [ListenerSocket { ready: false, .. }])
            && !self.events.awaits_room()
            && !self.lanes.has_leaving()
            && !self.lanes.awaits_hop()
            && !self.lanes.is_answered()
    }

    /// Carries out commands that wait; returns how long to drain if told to stop.
    fn obey(&mut self) -> Option<Duration> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Replace(assignment, reply)) => {
                    self.replace(*assignment);
                    // Whoever asked may have gone meanwhile; then nobody minds that the answer is lost.
                    let _ = reply.send(());
                }
                Ok(Command::Run(job)) => job(),
                Ok(Command::Look) => self.look(),
                Ok(Command::Stop(drain)) => return Some(drain),
                Err(mpsc::TryRecvError::Empty) => return None,
                // Nobody is left who could send one.
                Err(mpsc::TryRecvError::Disconnected) => return Some(Duration::ZERO),
            }
        }
    }

    /// Waits until there is something to do, `until` then at the latest, and sends what has room.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let Self { listeners, lanes, events, turns, scratch, alone, plan, .. } = self;
        let until = lanes.deadline().into_iter().chain(until).min();
        let timeout = if listeners.iter().any(|listener| listener.ready) {
            Some(Duration::ZERO)
        } else {
            until.map(|until| until.saturating_duration_since(Instant::now()))
        };
        let mut others = false;
        for Event { subject, broken } in events.wait(timeout)? {
            let mut turn = Turn::begin(turns, scratch);
            others |= !matches!(subject, Token::Listener(_));
            match subject {
                Token::Lane(at) => {
                    if let Some(lane) = lanes.get(at) {
                        lane.resume(broken, &mut turn);
                        lane.watch(events, subject);
                    }
                }
                Token::Listener(at) => listeners[at].ready = true,
                Token::Answers(at) => {
                    let back = |client: Origin, bytes: &[u8]| {
                        let is_its =
                            |socket: &&ListenerSocket| plan.listeners[socket.listener].book.number == client.listener;
                        let socket = listeners.iter().find(is_its).ok_or(io::ErrorKind::NotFound)?;
                        socket.socket.send_from(bytes, client.source, client.local)
                    };
                    if let Some(lane) = lanes.get(at) {
                        lane.answer(back, &turn);
                    }
                }
                Token::Wake => {}
            }
        }
        *alone = if others { 0 } else { alone.saturating_add(1) };
        if lanes.is_answered() {
            lanes.age_sessions(&Turn::begin(turns, scratch));
        }
        if lanes.has_leaving() {
            lanes.dismiss(events, &Turn::begin(turns, scratch));
        }
        Ok(())
    }

    /// Goes over to another plan. What a removed listener has in its queue still goes where the old
    /// plan says.
    fn replace(&mut self, assignment: Assignment) {
        let Assignment { plan, listeners, egress } = assignment;
        let staying: HashSet<_> = listeners.iter().map(|new| identity(&new.socket)).collect();
        for at in 0..self.listeners.len() {
            if !staying.contains(&identity(&self.listeners[at].socket)) {
                self.close(at);
            }
            self.events.unwatch(&*self.listeners[at].socket);
        }
        self.lanes.replace(&plan, egress, &self.events, &Turn::begin(&self.turns, &mut self.scratch));
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
        let book = &self.plan.listeners[*listener].book;
        book.cell(self.number).kernel_drops.add(drops.into());
        let most = if closed { usize::MAX } else { LASTING };
        for _ in 0..most {
            if self.receive(at, false).is_err() {
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
        self.look();
        while self.lanes.has_backlog() && Instant::now() < until {
            if self.wait(Some(until)).is_err() {
                break;
            }
            // Whatever woke it: the command to look is one of those that nobody takes any more.
            self.look();
        }
        self.lanes.abandon(&Turn::begin(&self.turns, &mut self.scratch));
    }

    /// Goes on where next hops have answered, or failed.
    fn look(&mut self) {
        self.lanes.look(&self.events, &mut Turn::begin(&self.turns, &mut self.scratch));
    }
}

/// What tells a socket from others, whatever the descriptor: it may have a second one, made to change its options. Its place
/// in memory, where the kernel does not tell.
fn identity(socket: &Socket) -> Result<u64, *const Socket> {
    fstat(socket).map(|stat| stat.st_ino).map_err(|_| std::ptr::from_ref(socket))
}

/// Waits after which more of the same is expected.
const ALONE: u32 = 8;

/// Batches that are taken of a socket that stays open before it is left to others.
const LASTING: usize = 64;
