//! The data path of a tee as a room holds it: what is carried out, and who looks after it from the start to the stop.
//! Used by `weir tee` itself, and by rooms that forward what they receive.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use weir_kernel::capabilities::Capability;
use weir_kernel::limits;
use weir_service::links;
use weir_service::losses::{Line, Losses};
use weir_service::{Room, Service, Setup};
use weir_units::Size;

use super::liveness::Liveness;
use super::names::Names;
use super::neighbours::Neighbours;
use super::privileges;
use super::verdicts::Verdicts;
use crate::losses;
use weir_forward::plan::{self, Addresses, Plan};
use weir_forward::settings::{self, Settings};
use weir_forward::sockets::{Sockets, TRIED};
use weir_forward::worker::{Tap, Workers};

/// A data path whose sockets are open: it needs its privileges no more, and has no thread yet.
#[derive(Debug)]
pub struct Prepared {
    plan: Plan,
    sockets: Sockets,
}

/// A running data path, in the hands of a control thread, which alone changes its plan.
pub struct Carrier {
    settings: Arc<Settings>,
    names: Names,
    verdicts: Verdicts,
    neighbours: Neighbours,
    workers: Arc<Workers>,
    liveness: Liveness,
    losses: Losses,
    /// Closed outlets that were tried again.
    tried: usize,
    /// The last to end: probes run on it.
    _runtime: Runtime,
}

impl Prepared {
    /// Opens every socket, but for those that a service manager has passed.
    ///
    /// # Errors
    /// One line: a privilege is missing, the kernel refuses a socket.
    pub fn open(settings: Settings, setup: &mut Setup) -> Result<Self> {
        limits::ensure_file_descriptors(descriptors(&settings))?;
        privileges::check(&settings)?;
        let mut passed = Vec::new();
        for listener in &settings.listeners {
            passed.extend(setup.passed(&listener.name, listener.address)?);
        }
        let plan = Plan::build(Arc::new(settings), &Addresses::new(), None);
        let sockets = Sockets::open(&plan, passed, None)?;
        Ok(Self { plan, sockets })
    }

    /// What datagrams, and a reload, need from now on.
    pub fn privileges(&self) -> Vec<Capability> {
        privileges::needed(&self.plan.settings)
    }

    /// Starts the workers, each with its tap, after a moment for what names mean.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start<R: Room>(self, service: &Service<R>, taps: Vec<Box<dyn Tap>>) -> Result<Carrier> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("probes").enable_all().build();
        let runtime = runtime.context("start the thread for probes")?;
        // The kernel keeps what comes in meanwhile.
        let mut names = Names::new(&self.plan.settings);
        let addresses = names.addresses(&self.plan.settings);
        let Self { plan, sockets } = self.with_addresses(&addresses)?;
        let settings = plan.settings.clone();
        let (plan, mut neighbours) = (Arc::new(plan), Neighbours::new());
        neighbours.follow(&plan);
        let workers = Arc::new(Workers::start_tapped(plan, sockets, taps)?);
        neighbours.start(workers.clone()).context("start the thread that listens to neighbours")?;
        Ok(Carrier {
            liveness: Liveness::new(service.pulse("workers")),
            workers,
            neighbours,
            verdicts: Verdicts::new(runtime.handle().clone()),
            losses: Losses::new(LOSSES_APART, Instant::now()),
            tried: 0,
            settings,
            names,
            _runtime: runtime,
        })
    }

    /// The same with what names mean.
    fn with_addresses(self, addresses: &Addresses) -> Result<Self> {
        if addresses.values().all(Vec::is_empty) {
            return Ok(self);
        }
        let plan = Plan::build(self.plan.settings.clone(), addresses, Some(&self.plan));
        let sockets = Sockets::open(&plan, Vec::new(), Some(&self.sockets))?;
        Ok(Self { plan, sockets })
    }
}

impl Carrier {
    /// What moves the datagrams, for other threads to ask.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// What is carried out.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Everything is started: says where each listener listens.
    pub fn begin(&mut self) {
        self.tell_listeners(None);
        self.verdicts.follow(&self.workers.plan());
    }

    /// Looks after workers, destinations and what is lost; to be called every second or so.
    pub fn look(&mut self) {
        let ledger = self.workers.ledger();
        self.losses.lines(Instant::now(), losses::losses(&ledger)).iter().for_each(Line::log);
        self.workers.plan().books.take_returns().iter().for_each(|line| tracing::warn!("{line}"));
        self.liveness.look(&self.workers);
        self.verdicts.look(&self.workers.plan());
        self.neighbours.ask_again(&self.workers);
        let stale = self.workers.with_sockets(|plan, sockets| {
            let names = sockets.stale(plan);
            names.iter().for_each(|name| tracing::info!("destination {name}: sent to from another port from now on"));
            !names.is_empty()
        });
        if stale || self.names.changed() || self.would_open() {
            let settings = self.settings.clone();
            match self.replace(&settings) {
                Ok(()) => links::look(false),
                Err(error) => tracing::error!("open sockets: {error:#} (nothing has changed)"),
            }
        }
    }

    /// Goes over to other settings, of as many workers as before; every socket is open before anything changes.
    ///
    /// # Errors
    /// One line; nothing has changed: a privilege is missing, the kernel refuses a socket.
    pub fn reload(&mut self, settings: Settings) -> Result<()> {
        privileges::check(&settings)?;
        let settings = Arc::new(settings);
        // Those that stay keep their addresses, whatever comes of it.
        self.names.follow([&*self.settings, &*settings]);
        let outcome = self.replace(&settings);
        if outcome.is_ok() {
            let before = std::mem::replace(&mut self.settings, settings);
            self.tell_listeners(Some(&before));
        }
        self.names.follow([&*self.settings]);
        outcome
    }

    /// Sends what was received, and ends the workers.
    pub fn end(&mut self) {
        self.neighbours.refresh(&self.workers);
        self.workers.stop(self.settings.drain);
    }

    /// Carries out other settings, or the same with other addresses. Every socket is open before anything changes.
    fn replace(&mut self, settings: &Arc<Settings>) -> Result<()> {
        let workers = &self.workers;
        let plan = Plan::build(settings.clone(), &self.names.addresses(settings), Some(&workers.plan()));
        let sockets = workers.open(&plan)?;
        for (index, why) in sockets.closed() {
            tracing::debug!("destination {}: {why} (tried again)", plan.outlets[index].settings.name);
        }
        let plan = Arc::new(plan);
        self.neighbours.follow(&plan);
        self.verdicts.follow(&plan);
        workers.replace(plan, sockets);
        Ok(())
    }

    /// Whether something that had no route would have one now.
    fn would_open(&mut self) -> bool {
        let from = self.tried;
        let would = self.workers.with_sockets(|plan, sockets| sockets.would_open(plan, from));
        if !would {
            self.tried = from.wrapping_add(TRIED);
        }
        would
    }

    /// Says where each listener listens, or each that was not there `before` with this buffer, and what to do where its buffer was capped.
    fn tell_listeners(&self, before: Option<&Settings>) {
        let is_known = |listener: &settings::Listener| {
            let same = |known: &settings::Listener| {
                (&known.name, known.receive_buffer) == (&listener.name, listener.receive_buffer)
            };
            before.is_some_and(|before| before.listeners.iter().any(same))
        };
        let listening = self.workers.with_sockets(|plan, sockets| {
            let listeners = plan.listeners.iter().enumerate();
            let told = |(index, listener): (usize, &plan::Listener)| {
                let least =
                    sockets.granted(index).map(|granted| granted.receive_buffer).min_by_key(|buffer| buffer.granted);
                Some((listener.settings.name.clone(), sockets.local_addr(index)?, least?))
            };
            listeners.filter(|(_, listener)| !is_known(&listener.settings)).filter_map(told).collect::<Vec<_>>()
        });
        for (name, address, buffer) in listening {
            tracing::info!("listener {name}: {address}, receive buffer {}", Size { bytes: buffer.granted as u64 });
            if let (Some(limit), Some(asked)) = (buffer.limit, buffer.asked) {
                let (granted, wanted) = (Size { bytes: buffer.granted as u64 / 2 }, Size { bytes: asked as u64 });
                tracing::warn!(
                    "listener {name}: receive buffer {granted} instead of {wanted} (run `sysctl -w {limit}={asked}`)"
                );
            }
        }
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How many may be open at once: sockets of both generations during a reload, and what else there is.
fn descriptors(settings: &Settings) -> u64 {
    let sockets = settings.workers * (settings.listeners.len() + settings.destinations.len());
    let replies = settings.destinations.iter().filter_map(settings::Destination::answers);
    // A worker has at least one, and a descriptor by which it learns of answers.
    let sessions: usize = replies.map(|replies| replies.sessions + 2 * settings.workers).sum();
    2 * sockets as u64 + sessions as u64 + 64
}

/// From one line about what is lost to the next.
const LOSSES_APART: Duration = Duration::from_secs(10);
