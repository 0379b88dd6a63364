//! The thread: waits for datagrams, room and commands, and serves them in turn.
//!
//! A turn takes one batch from each listener that has something, and sends it on before the next. A listener that is
//! never empty waits for the others after each batch; the thread sleeps when all are empty.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::stat::fstat;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{Expiration, TimerFd, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};
use weir_dgram::Socket;

use super::carrier::{Carrier, Tools};
use super::desk::Desk;
use super::lane::{Lane, Place};
use super::lend::{Held, Sharing};
use super::load::{Load, MESSAGES, Pool};
use super::routing::Routing;
use crate::tee::plan::Plan;
use crate::tee::settings::Source;
use crate::tee::sockets::Way;

/// What a worker is to do.
pub(super) enum Command {
    /// Carry out another plan; the answer comes when it does.
    Replace(Box<Share>, mpsc::Sender<()>),
    /// Show that it lives.
    Answer(mpsc::Sender<()>),
    /// Send what was received, no longer than this, and end.
    Stop(Duration),
    /// Tell how much CPU time was used.
    CpuTime(mpsc::Sender<Duration>),
    /// Take all lanes back, and lend none until the next plan.
    Settle(mpsc::Sender<()>),
    /// Hold the far part of another's lane.
    Lend { lender: usize, lane: usize, carrier: Box<Carrier> },
    /// Send what of this goes to lanes held here.
    Work { lender: usize, load: Arc<Load> },
    /// A load of this worker's may be free.
    Freed,
    /// Return what another worker lent, or so many lanes of it.
    GiveBack { lender: usize, lanes: usize },
    /// What this worker lent: the lanes' indices and far parts.
    Returned(Vec<(usize, Box<Carrier>)>),
    /// Take lanes back: the holder is busy with its own.
    Relieve,
}

/// A worker's share of a plan.
pub(super) struct Share {
    pub(super) plan: Arc<Plan>,
    pub(super) intakes: Vec<Listening>,
    /// By outlet.
    pub(super) ways: Vec<Way>,
}

/// A listener's socket for a worker.
pub(super) struct Listening {
    /// Index of the listener.
    pub(super) listener: usize,
    pub(super) socket: Arc<Socket>,
    /// Whether a service manager holds the socket, too.
    pub(super) lasting: bool,
}

/// How the thread learns of things.
pub(super) struct Inputs {
    epoll: Epoll,
    wake: Arc<EventFd>,
    timer: TimerFd,
    pub(super) commands: mpsc::Receiver<Command>,
}

/// The state of a worker's thread. It stays on its thread.
pub(super) struct Thread {
    pub(super) number: usize,
    pub(super) inputs: Inputs,
    /// Of all workers, by their numbers.
    pub(super) desks: Arc<[Desk]>,
    /// Commands that came while an answer was waited for.
    pub(super) stash: VecDeque<Command>,
    pub(super) plan: Arc<Plan>,
    pub(super) routing: Routing,
    pub(super) intakes: Vec<Intake>,
    /// By outlet.
    pub(super) lanes: Vec<Lane>,
    /// Lanes to outlets that the plan no longer has, as long as something waits there.
    leaving: Vec<Leaving>,
    pub(super) pool: Pool,
    pub(super) sharing: Sharing,
    pub(super) bodies: Vec<&'static [u8]>,
    /// Lanes that wait for company (gather).
    pub(super) gathering: Vec<usize>,
    /// Whether the plan has a destination that wants headers.
    pub(super) headers: bool,
    /// Lanes that were given something of the batch.
    pub(super) touched: Vec<usize>,
    pub(super) tools: Tools,
}

/// A listener's socket.
pub(super) struct Intake {
    /// Index of the listener.
    pub(super) listener: usize,
    pub(super) socket: Arc<Socket>,
    /// Where it listens, for headers when the kernel does not tell.
    pub(super) address: SocketAddr,
    /// Whether others hold the socket, too, and will go on with it.
    lasting: bool,
    /// Whether there may be more.
    ready: bool,
}

struct Leaving {
    carrier: Box<Carrier>,
    until: Instant,
    /// Tells it apart from others: its token.
    number: u64,
}

impl Inputs {
    pub(super) fn new(
        epoll: Epoll,
        wake: Arc<EventFd>,
        timer: TimerFd,
        commands: mpsc::Receiver<Command>,
    ) -> io::Result<Self> {
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        Ok(Self { epoll, wake, timer, commands })
    }

    /// Has epoll tell when a lane's socket takes more, exactly as long as something waits for that. At other times the
    /// kernel shall not tell: every packet that leaves an interface would wake us.
    fn watch(&self, carrier: &mut Carrier, token: u64) {
        let wanted = carrier.has_backlog() && carrier.due.is_none();
        if !wanted {
            self.unwatch(carrier);
        } else if !carrier.watched
            && let Some(descriptor) = carrier.descriptor()
        {
            carrier.watched = self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLOUT, token)).is_ok();
        }
    }

    /// The same for a lane of another worker.
    pub(super) fn watch_held(&self, held: &mut Held) {
        self.watch(&mut held.carrier, HELD + held.number);
    }

    pub(super) fn unwatch(&self, carrier: &mut Carrier) {
        if carrier.watched {
            if let Some(descriptor) = carrier.descriptor() {
                let _ = self.epoll.delete(descriptor);
            }
            carrier.watched = false;
        }
    }
}

impl Thread {
    pub(super) fn new(number: usize, share: Share, inputs: Inputs, desks: Arc<[Desk]>) -> Self {
        let mut thread = Self {
            number,
            inputs,
            routing: Routing::new(Arc::clone(&share.plan), number),
            plan: Arc::clone(&share.plan),
            intakes: Vec::new(),
            lanes: Vec::new(),
            leaving: Vec::new(),
            pool: Pool::default(),
            sharing: Sharing::new(desks.len()),
            desks,
            stash: VecDeque::new(),
            bodies: Vec::new(),
            gathering: Vec::new(),
            headers: false,
            touched: Vec::new(),
            tools: Tools::default(),
        };
        thread.replace(share);
        thread
    }

    /// Runs until told to stop.
    pub(super) fn run(&mut self) {
        let mut woken = false;
        loop {
            if let Some(drain) = self.obey(woken) {
                return self.finish(drain);
            }
            for at in 0..self.intakes.len() {
                if self.intakes[at].ready {
                    self.intakes[at].ready = self.take(at) == Some(MESSAGES);
                }
            }
            if self.desks.len() > 1 {
                self.assess();
            }
            match self.wait(None) {
                Ok(commanded) => woken = commanded,
                // Nothing but a descriptor that is no epoll any more: a fault that no work can go on with.
                Err(_) => return self.finish(Duration::ZERO),
            }
        }
    }

    /// Carries out the commands that wait; returns how long to drain if told to stop. `woken`: somebody rang.
    fn obey(&mut self, woken: bool) -> Option<Duration> {
        if woken {
            let _ = self.inputs.wake.read();
        }
        // Listeners have their turn, however many loads others send.
        for _ in 0..COMMANDS {
            let command = match self.stash.pop_front() {
                Some(command) => command,
                None => match self.inputs.commands.try_recv() {
                    Ok(command) => command,
                    Err(mpsc::TryRecvError::Disconnected) => return Some(Duration::ZERO),
                    Err(mpsc::TryRecvError::Empty) => return None,
                },
            };
            // Whoever asked may have gone meanwhile; then nobody minds that the answer is lost.
            match command {
                Command::Replace(share, reply) => {
                    self.replace(*share);
                    let _ = reply.send(());
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
                    self.sharing.allowed = false;
                    self.recall();
                    let _ = reply.send(());
                }
                Command::Lend { lender, lane, carrier } => self.hold(lender, lane, carrier),
                Command::Work { lender, load } => self.help(lender, load),
                Command::GiveBack { lender, lanes } => self.give_back(lender, lanes),
                Command::Relieve => self.recall(),
                // Whoever waited for these has had them.
                Command::Freed | Command::Returned(_) => {}
            }
        }
        None
    }

    /// Goes over to another plan. No lane may be lent. What a removed listener has in its queue still goes where the old plan says.
    fn replace(&mut self, share: Share) {
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
    fn close(&mut self, at: usize) {
        let Intake { listener, socket, lasting, .. } = &self.intakes[at];
        // What the closed door turns away counts as dropped at the socket, but is no loss.
        let drops = socket.memory().map_or(0, |memory| memory.drops);
        let closed = !lasting && socket.close_intake().is_ok();
        self.plan.listeners[*listener].book.cell(self.number).kernel_drops.add(drops.into());
        let most = if closed { usize::MAX } else { LASTING };
        for _ in 0..most {
            if self.take(at).is_none() {
                break;
            }
        }
    }

    /// Makes what waits for company wait for room only.
    fn settle_gathered(&mut self) {
        self.gathering.clear();
        for carrier in self.lanes.iter_mut().filter_map(Lane::carrier) {
            carrier.due = None;
        }
    }

    /// Sends what has waited for company long enough.
    fn release_due(&mut self) {
        let now = Instant::now();
        self.plan.books.phase(self.number).begin();
        for at in std::mem::take(&mut self.gathering) {
            let Some(carrier) = self.lanes[at].carrier() else { continue };
            match carrier.due {
                Some(due) if due > now => self.gathering.push(at),
                Some(_) => carrier.drain(&mut self.tools),
                None => {}
            }
        }
        self.plan.books.phase(self.number).end();
        self.set_timer(now);
        self.watch_all();
    }

    /// Has the timer wake us for the lane that is due first.
    pub(super) fn set_timer(&self, now: Instant) {
        let due = |&at: &usize| match &self.lanes[at].place {
            Place::Here(carrier) => carrier.due,
            Place::Lent(_) => None,
        };
        let first = self.gathering.iter().filter_map(due).min();
        if let Some(first) = first {
            // Zero would stop the timer.
            let left = first.saturating_duration_since(now).max(Duration::from_nanos(1));
            let expiration = Expiration::OneShot(TimeSpec::from_duration(left));
            let _ = self.inputs.timer.set(expiration, TimerSetTimeFlags::empty());
        }
    }

    /// Waits until there is something to do, `until` then at the latest; returns whether commands wait.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let until = self.leaving.iter().map(|leaving| leaving.until).chain(until).min();
        let timeout = if self.intakes.iter().any(|intake| intake.ready) {
            EpollTimeout::ZERO
        } else {
            until.map_or(EpollTimeout::NONE, |until| {
                let left = until.saturating_duration_since(Instant::now());
                // Rounded up: waking early would be waking for nothing.
                EpollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
            })
        };
        let mut events = [EpollEvent::empty(); 64];
        let timeout = self.doze(timeout);
        let result = self.inputs.epoll.wait(&mut events, timeout);
        self.rise(timeout);
        let count = match result {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let mut commanded = false;
        for event in &events[..count] {
            let broken = event.events().contains(EpollFlags::EPOLLERR);
            match event.data() {
                WAKE => commanded = true,
                TIMER => {
                    let _ = self.inputs.timer.wait();
                    self.release_due();
                }
                token if token < LANE => self.intakes[token as usize].ready = true,
                token => self.resume(token, broken),
            }
        }
        self.dismiss();
        Ok(commanded)
    }

    /// Before a sleep: nobody's command must be slept through.
    fn doze(&mut self, timeout: EpollTimeout) -> EpollTimeout {
        if timeout == EpollTimeout::ZERO {
            return timeout;
        }
        self.desks[self.number].doze();
        self.stash.extend(self.inputs.commands.try_recv());
        if self.stash.is_empty() { timeout } else { EpollTimeout::ZERO }
    }

    fn rise(&mut self, timeout: EpollTimeout) {
        self.desks[self.number].rise();
        if timeout != EpollTimeout::ZERO && self.desks.len() > 1 {
            self.sharing.risen = Instant::now();
        }
    }

    /// The socket of a lane takes more, or has something to tell.
    fn resume(&mut self, token: u64, broken: bool) {
        let carrier = if token >= HELD {
            let held = self.sharing.held.iter_mut().find(|held| HELD + held.number == token);
            held.map(|held| &mut *held.carrier)
        } else if token >= LEAVING {
            let leaving = self.leaving.iter_mut().find(|leaving| LEAVING + leaving.number == token);
            leaving.map(|leaving| &mut *leaving.carrier)
        } else {
            self.lanes[(token - LANE) as usize].carrier()
        };
        let Some(carrier) = carrier else { return };
        let phase = self.plan.books.phase(self.number);
        phase.begin();
        if broken {
            carrier.hear(0);
        }
        carrier.drain(&mut self.tools);
        phase.end();
        self.inputs.watch(carrier, token);
    }

    /// Ends leaving lanes that are empty or have had their time.
    fn dismiss(&mut self) {
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

    /// Watches a lane, or no longer.
    pub(super) fn watch(&mut self, at: usize) {
        if let Some(carrier) = self.lanes[at].carrier() {
            self.inputs.watch(carrier, LANE + at as u64);
        }
    }

    /// Stops watching a lane: who stands for it is about to change.
    pub(super) fn unwatch(&mut self, at: usize) {
        if let Some(carrier) = self.lanes[at].carrier() {
            self.inputs.unwatch(carrier);
        }
    }

    fn watch_all(&mut self) {
        for at in 0..self.lanes.len() {
            self.watch(at);
        }
        for Leaving { carrier, number, .. } in &mut self.leaving {
            self.inputs.watch(carrier, LEAVING + *number);
        }
    }

    /// Lets nothing more in, sends what is here, for `drain` at the longest, and counts the rest.
    fn finish(&mut self, drain: Duration) {
        let until = Instant::now() + drain;
        for at in 0..self.intakes.len() {
            let _ = self.inputs.epoll.delete(&*self.intakes[at].socket);
            self.close(at);
            self.intakes[at].ready = false;
        }
        for leaving in &mut self.leaving {
            leaving.until = leaving.until.min(until);
        }
        self.settle_gathered();
        self.watch_all();
        let waits = |thread: &Self| thread.lanes.iter().any(Lane::has_backlog) || !thread.leaving.is_empty();
        while waits(self) && Instant::now() < until {
            if self.wait(Some(until)).is_err() {
                break;
            }
        }
        let phase = self.plan.books.phase(self.number);
        phase.begin();
        let here = self.lanes.iter_mut().filter_map(Lane::carrier);
        for carrier in here.chain(self.leaving.iter_mut().map(|leaving| &mut *leaving.carrier)) {
            carrier.abandon();
        }
        phase.end();
    }
}

/// The same memory for payloads that live differently long: collecting in place allocates nothing.
pub(super) fn emptied<'b>(mut list: Vec<&[u8]>) -> Vec<&'b [u8]> {
    list.clear();
    list.into_iter().map(|_| &[][..]).collect()
}

/// Whether two handles are of the same socket: one may have been made from the other to change its options.
fn is_same(one: &Arc<Socket>, other: &Arc<Socket>) -> bool {
    Arc::ptr_eq(one, other)
        || fstat(one).ok().zip(fstat(other).ok()).is_some_and(|(one, other)| one.st_ino == other.st_ino)
}

/// Tokens of events: listeners come first.
const LANE: u64 = 1 << 32;
const LEAVING: u64 = 1 << 48;
const HELD: u64 = 1 << 56;
const TIMER: u64 = u64::MAX - 1;
const WAKE: u64 = u64::MAX;

/// Commands that are carried out before listeners have their turn.
const COMMANDS: usize = 8;

/// Batches that are taken of a socket that stays open before it is left to others.
const LASTING: usize = 64;
