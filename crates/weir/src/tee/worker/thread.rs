//! The thread: waits for datagrams, room and commands, and serves them in turn.
//!
//! A turn takes one batch from each listener that has something, and sends it on before the next. A listener that is
//! never empty waits for the others after each batch; the thread sleeps when all are empty.

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
use weir_dgram::{Inbox, Socket};

use super::batch::Origin;
use super::lane::{Lane, Tools};
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
    commands: mpsc::Receiver<Command>,
}

/// The state of a worker's thread. It stays on its thread.
pub(super) struct Thread {
    pub(super) number: usize,
    inputs: Inputs,
    pub(super) plan: Arc<Plan>,
    pub(super) routing: Routing,
    pub(super) intakes: Vec<Intake>,
    /// By outlet.
    pub(super) lanes: Vec<Lane>,
    /// Lanes to outlets that the plan no longer has, as long as something waits there.
    leaving: Vec<Leaving>,
    pub(super) inbox: Inbox,
    pub(super) origins: Vec<Origin>,
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
    lane: Lane,
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
}

impl Thread {
    pub(super) fn new(number: usize, share: Share, inputs: Inputs) -> Self {
        let mut thread = Self {
            number,
            inputs,
            routing: Routing::new(Arc::clone(&share.plan), number),
            plan: Arc::clone(&share.plan),
            intakes: Vec::new(),
            lanes: Vec::new(),
            leaving: Vec::new(),
            inbox: Inbox::new(MESSAGES, BYTES),
            origins: Vec::new(),
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
        let mut commanded = true;
        loop {
            if commanded && let Some(drain) = self.obey() {
                return self.finish(drain);
            }
            for at in 0..self.intakes.len() {
                if self.intakes[at].ready {
                    self.intakes[at].ready = self.take(at) == Some(MESSAGES);
                }
            }
            match self.wait(None) {
                Ok(woken) => commanded = woken,
                // Nothing but a descriptor that is no epoll any more: a fault that no work can go on with.
                Err(_) => return self.finish(Duration::ZERO),
            }
        }
    }

    /// Carries out the commands that wait; returns how long to drain if told to stop.
    fn obey(&mut self) -> Option<Duration> {
        let _ = self.inputs.wake.read();
        loop {
            // Whoever asked may have gone meanwhile; then nobody minds that the answer is lost.
            match self.inputs.commands.try_recv() {
                Ok(Command::Replace(share, reply)) => {
                    self.replace(*share);
                    let _ = reply.send(());
                }
                Ok(Command::Answer(reply)) => {
                    let _ = reply.send(());
                }
                Ok(Command::Stop(drain)) => return Some(drain),
                Err(mpsc::TryRecvError::Disconnected) => return Some(Duration::ZERO),
                Err(mpsc::TryRecvError::Empty) => return None,
            }
        }
    }

    /// Goes over to another plan. What a removed listener has in its queue still goes where the old plan says.
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
        self.unwatch_all();
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
        for lane in old.into_iter().flatten().filter(Lane::has_backlog) {
            let number = self.leaving.last().map_or(0, |last| last.number + 1);
            self.leaving.push(Leaving { lane, until, number });
        }
        self.headers = plan.settings.destinations.iter().any(|destination| destination.source == Source::Proxy);
        self.intakes = Vec::new();
        for (at, Listening { listener, socket, lasting }) in intakes.into_iter().enumerate() {
            // It fails only for want of memory, and then the queue is looked at until it works.
            let _ = self.inputs.epoll.add(&*socket, EpollEvent::new(EpollFlags::EPOLLIN, at as u64));
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
        for lane in &mut self.lanes {
            lane.due = None;
        }
    }

    /// Sends what has waited for company long enough.
    fn release_due(&mut self) {
        let now = Instant::now();
        self.plan.books.phase(self.number).begin();
        for at in std::mem::take(&mut self.gathering) {
            match self.lanes[at].due {
                Some(due) if due > now => self.gathering.push(at),
                Some(_) => self.lanes[at].drain(&mut self.tools),
                None => {}
            }
        }
        self.plan.books.phase(self.number).end();
        self.set_timer(now);
        self.watch_all();
    }

    /// Has the timer wake us for the lane that is due first.
    pub(super) fn set_timer(&self, now: Instant) {
        let first = self.gathering.iter().filter_map(|&at| self.lanes[at].due).min();
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
        let count = match self.inputs.epoll.wait(&mut events, timeout) {
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
                token if token >= LEAVING => self.let_go(token - LEAVING, broken),
                token if token >= LANE => self.resume((token - LANE) as usize, broken),
                token => self.intakes[token as usize].ready = true,
            }
        }
        self.dismiss();
        Ok(commanded)
    }

    /// A lane's socket takes more, or has something to tell.
    fn resume(&mut self, at: usize, broken: bool) {
        let phase = self.plan.books.phase(self.number);
        phase.begin();
        let lane = &mut self.lanes[at];
        if broken {
            lane.hear(0);
        }
        lane.drain(&mut self.tools);
        phase.end();
        watch(&self.inputs.epoll, lane, LANE + at as u64);
    }

    /// The same for a lane that the plan no longer has.
    fn let_go(&mut self, number: u64, broken: bool) {
        let phase = self.plan.books.phase(self.number);
        if let Some(leaving) = self.leaving.iter_mut().find(|leaving| leaving.number == number) {
            phase.begin();
            if broken {
                leaving.lane.hear(0);
            }
            leaving.lane.drain(&mut self.tools);
            phase.end();
            watch(&self.inputs.epoll, &mut leaving.lane, LEAVING + number);
        }
    }

    /// Ends leaving lanes that are empty or have had their time.
    fn dismiss(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let now = Instant::now();
        let phase = self.plan.books.phase(self.number);
        phase.begin();
        for leaving in self.leaving.iter_mut().filter(|leaving| leaving.until <= now) {
            leaving.lane.abandon();
            watch(&self.inputs.epoll, &mut leaving.lane, LEAVING + leaving.number);
        }
        self.leaving.retain(|leaving| leaving.lane.has_backlog());
        phase.end();
    }

    /// Watches a lane, or no longer.
    pub(super) fn watch(&mut self, at: usize) {
        watch(&self.inputs.epoll, &mut self.lanes[at], LANE + at as u64);
    }

    /// Stops watching lanes: what stands for them is about to change.
    fn unwatch_all(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.watched) {
            if let Some(descriptor) = lane.descriptor() {
                let _ = self.inputs.epoll.delete(descriptor);
            }
            lane.watched = false;
        }
    }

    fn watch_all(&mut self) {
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            watch(&self.inputs.epoll, lane, LANE + at as u64);
        }
        for Leaving { lane, number, .. } in &mut self.leaving {
            watch(&self.inputs.epoll, lane, LEAVING + *number);
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
        for lane in self.lanes.iter_mut().chain(self.leaving.iter_mut().map(|leaving| &mut leaving.lane)) {
            lane.abandon();
        }
        phase.end();
    }
}

/// Has epoll tell when a lane's socket takes more, exactly as long as something waits for that. At other times the
/// kernel shall not tell: every packet that leaves an interface would wake us.
fn watch(epoll: &Epoll, lane: &mut Lane, token: u64) {
    let wanted = lane.has_backlog() && lane.due.is_none();
    if wanted == lane.watched {
        return;
    }
    let Some(descriptor) = lane.descriptor() else { return };
    lane.watched = if wanted {
        epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLOUT, token)).is_ok()
    } else {
        epoll.delete(descriptor).is_err()
    };
}

/// Whether two handles are of the same socket: one may have been made from the other to change its options.
fn is_same(one: &Arc<Socket>, other: &Arc<Socket>) -> bool {
    Arc::ptr_eq(one, other)
        || fstat(one).ok().zip(fstat(other).ok()).is_some_and(|(one, other)| one.st_ino == other.st_ino)
}

/// Tokens of events: listeners come first.
const LANE: u64 = 1 << 32;
const LEAVING: u64 = 1 << 48;
const TIMER: u64 = u64::MAX - 1;
const WAKE: u64 = u64::MAX;

/// Messages of a batch.
const MESSAGES: usize = 64;

/// Batches that are taken of a socket that stays open before it is left to others.
const LASTING: usize = 64;

/// Bytes of each: every datagram and every joined run fits.
const BYTES: usize = 65_535;
