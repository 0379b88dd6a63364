//! The thread: waits for datagrams, room and commands, and serves them in turn.
//!
//! A turn takes one batch from each listener that has something, and sends it on before the next. A listener that is
//! never empty waits for the others after each batch; the thread sleeps when all are empty.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use weir_dgram::Socket;

use super::carrier::{Carrier, Tools};
use super::desk::Desk;
use super::lane::Lane;
use super::lend::Sharing;
use super::load::{Load, MESSAGES, Pool};
use super::replace::Leaving;
use super::routing::Routing;
use super::wait::Inputs;
use crate::plan::Plan;
use crate::sockets::Way;

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
    pub(super) leaving: Vec<Leaving>,
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
    pub(super) lasting: bool,
    /// Whether there may be more.
    pub(super) ready: bool,
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
                    // An edge comes once: after an error of the moment the queue is looked into again.
                    self.intakes[at].ready = match self.take(at) {
                        Ok(messages) => messages == MESSAGES,
                        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
                    };
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

/// Commands that are carried out before listeners have their turn.
const COMMANDS: usize = 8;
