//! The life of a tee: start, reloads, names that move, and an orderly end.
//!
//! ```text
//! one thread:  sockets passed -> privileges checked -> plan -> sockets opened -> privileges given up
//! then:        signals -> log -> names -> workers -> admin, watchdog -> ready -> events, until one says stop
//! signals, names --> queue --> the control thread alone changes the plan
//! ```

mod events;
mod names;
mod privileges;
mod state;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use socket2::SockRef;
use weir_kernel::{activation, limits};

use super::config::{Config, Origin};
use super::ledger::Ledger;
use super::plan::{self, Addresses, Plan};
use super::settings::{Listener, Settings};
use super::sockets::Sockets;
use super::worker::Workers;
use super::{resolve, screen};
use crate::service::activation::{Kind, Passed};
use crate::service::admin::Admin;
use crate::service::log;
use crate::service::losses::{Line, Losses};
use crate::service::notify::{self, Watchdog};
use crate::service::pulse::{Pulse, Pulses};
use crate::service::stop::Stop;
use crate::units::Size;
use events::Event;
use names::Names;
use state::State;

/// How whoever started the tee wants to see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Shows the ledger live on the terminal.
    pub watch: bool,
    /// As in [`log::start`].
    pub verbosity: u8,
}

/// Runs a tee until it is asked to end; returns the final ledger.
///
/// # Errors
/// One line: a privilege is missing, the kernel refuses a socket, a thread cannot be started. Nothing runs then.
pub fn run(origin: &Origin, config: Config, manner: Manner) -> Result<Ledger> {
    let passed = Passed::new(activation::inherited()?);
    let Config { settings, admin, user, warnings } = config;
    let settings = Arc::new(settings);
    limits::ensure_file_descriptors(descriptors(&settings))?;
    privileges::check(&settings)?;
    let plan = Plan::build(settings.clone(), &Addresses::new(), None);
    let sockets = Sockets::open(&plan, take_passed(passed, &settings)?, None)?;
    let admin_server = admin.map(Admin::bind).transpose()?;
    privileges::give_up(&settings, user.as_deref())?;

    let (events, queue) = sync_channel(QUEUE);
    events::hear_signals(events.clone(), origin.file().is_some()).context("watch for signals")?;
    let log = log::start(manner.verbosity).context("start the log")?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let mut names = Names::start(events.clone()).context("start resolving names")?;
    names.follow([&*settings]);
    let pulses = Pulses::new();
    let (pulse, workers_pulse) = (pulses.pulse("control"), pulses.pulse("workers"));
    let workers = Workers::start(plan, sockets)?;
    let state = Arc::new(State::new(workers, pulses.clone(), settings.workers));
    let serving = admin_server.map(|server| server.serve(state.clone())).transpose()?;
    let watchdog = Watchdog::start(pulses).context("start the watchdog")?;
    let screen = manner.watch.then(|| Screen::start(state.clone(), events)).transpose().context("start the screen")?;

    let mut control =
        Control { origin, settings, admin, user, names, state, pulse, workers: Vigil::new(workers_pulse) };
    control.tell_listeners(None);
    if let Some(serving) = &serving {
        tracing::info!("admin: http://{}/", serving.local_addr());
    }
    let status = control.status();
    tracing::info!("ready: {status}");
    notify::ready(&status);
    control.until_stopped(&queue);
    let ledger = control.end();
    drop((screen, watchdog, serving, log));
    Ok(ledger)
}

/// The control thread's own. It alone changes the plan.
struct Control<'a> {
    origin: &'a Origin,
    settings: Arc<Settings>,
    admin: Option<SocketAddr>,
    user: Option<String>,
    names: Names,
    state: Arc<State>,
    pulse: Pulse,
    workers: Vigil,
}

impl Control<'_> {
    fn until_stopped(&mut self, queue: &Receiver<Event>) {
        let mut losses = Losses::new(LOSSES_APART, Instant::now());
        let mut next_look = Instant::now() + LOOKS_APART;
        loop {
            self.pulse.wait();
            let event = queue.recv_timeout(next_look.saturating_duration_since(Instant::now()));
            self.pulse.work();
            match event {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Event::Reload) => self.reload(),
                Ok(Event::Account) => self.print_ledger(),
                Ok(Event::Name(event)) => self.rename(&event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if now >= next_look {
                next_look = now + LOOKS_APART;
                losses.lines(now, super::losses::losses(&self.state.ledger())).iter().for_each(Line::log);
                self.workers.look(&self.state.workers);
                self.reopen();
            }
        }
    }

    fn reload(&mut self) {
        let Some(file) = self.origin.file() else { return };
        notify::reloading();
        let before = self.settings.clone();
        let outcome = self.load();
        match &outcome {
            Ok(()) => {
                self.tell_listeners(Some(&before));
                tracing::info!("reloaded {}: {}", file.display(), self.status());
            }
            Err(error) => tracing::error!("reload of {}: {error:#} (nothing has changed)", file.display()),
        }
        self.state.reloaded(outcome.is_ok());
        notify::ready(&self.status());
    }

    /// Everything or nothing.
    fn load(&mut self) -> Result<()> {
        let Config { mut settings, admin, user, warnings } = self.origin.load()?;
        let workers = std::mem::replace(&mut settings.workers, self.settings.workers);
        privileges::check(&settings)?;
        let settings = Arc::new(settings);
        // Those that stay keep their addresses, whatever comes of it.
        self.names.follow([&*self.settings, &*settings]);
        let outcome = self.replace(&settings);
        if outcome.is_ok() {
            self.settings = settings;
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            keeps("workers", &self.settings.workers, &workers);
            keeps("admin", &shown(self.admin.as_ref()), &shown(admin.as_ref()));
            keeps("user", &shown(self.user.as_ref()), &shown(user.as_ref()));
        }
        self.names.follow([&*self.settings]);
        outcome
    }

    /// A name has other addresses, or none.
    fn rename(&mut self, event: &resolve::Event) {
        match event {
            resolve::Event::Resolved { .. } => tracing::info!("{event}"),
            resolve::Event::Failing { .. } | resolve::Event::Withdrawn { .. } => tracing::warn!("{event}"),
        }
        let settings = self.settings.clone();
        if let Err(error) = self.replace(&settings) {
            tracing::error!("{event}: {error:#} (nothing has changed)");
        }
    }

    /// Carries out other settings, or the same with other addresses. Every socket is open before anything changes.
    fn replace(&mut self, settings: &Arc<Settings>) -> Result<()> {
        let workers = &self.state.workers;
        let plan = Plan::build(settings.clone(), &self.names.addresses(settings), Some(&workers.plan()));
        let sockets = workers.open(&plan)?;
        for (index, why) in sockets.closed() {
            tracing::debug!("destination {}: {why} (tried again)", plan.outlets[index].settings.name);
        }
        workers.replace(plan, sockets);
        Ok(())
    }

    /// Tries again to open what had no route.
    fn reopen(&mut self) {
        if self.state.workers.with_sockets(|_, sockets| sockets.closed().next().is_none()) {
            return;
        }
        let settings = self.settings.clone();
        if let Err(error) = self.replace(&settings) {
            tracing::error!("open sockets: {error:#} (nothing has changed)");
        }
    }

    /// Says where each listener listens, or each that was not there `before`, and what to do where its buffer was capped.
    fn tell_listeners(&self, before: Option<&Settings>) {
        let is_known =
            |name: &str| before.is_some_and(|before| before.listeners.iter().any(|known| known.name == name));
        let listening = self.state.workers.with_sockets(|plan, sockets| {
            let listeners = plan.listeners.iter().enumerate();
            let told = |(index, listener): (usize, &plan::Listener)| {
                let least =
                    sockets.granted(index).map(|granted| granted.receive_buffer).min_by_key(|buffer| buffer.granted);
                Some((listener.settings.name.clone(), sockets.local_addr(index)?, least?))
            };
            listeners.filter_map(told).collect::<Vec<_>>()
        });
        for (name, address, buffer) in listening {
            if is_known(&name) {
                continue;
            }
            tracing::info!("listener {name}: {address}, receive buffer {}", Size { bytes: buffer.granted as u64 });
            if let (Some(limit), Some(asked)) = (buffer.limit, buffer.asked) {
                let (granted, wanted) = (Size { bytes: buffer.granted as u64 / 2 }, Size { bytes: asked as u64 });
                tracing::warn!(
                    "listener {name}: receive buffer {granted} instead of {wanted} (run `sysctl -w {limit}={asked}`)"
                );
            }
        }
    }

    /// On standard output, which may be gone or full: that is no reason to end.
    fn print_ledger(&self) {
        let line = serde_json::to_string(&self.state.ledger()).map_err(io::Error::from);
        let printed = line.and_then(|line| {
            let mut output = io::stdout().lock();
            writeln!(output, "{line}").and_then(|()| output.flush())
        });
        if let Err(error) = printed {
            tracing::warn!("print the ledger on standard output: {error}");
        }
    }

    fn status(&self) -> String {
        let count = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        let Settings { listeners, destinations, workers, .. } = &*self.settings;
        [count(listeners.len(), "listener"), count(destinations.len(), "destination"), count(*workers, "worker")]
            .join(", ")
    }

    /// Sends what was received.
    fn end(self) -> Ledger {
        self.state.stopping();
        let drain = self.settings.drain;
        notify::stopping("sending what was received");
        tracing::info!("stopping: nothing more is taken in, what was received is sent");
        self.state.workers.stop(drain);
        self.state.ledger()
    }
}

/// Whether workers answer, as a pulse: it is at work from a question that nobody answers to the next that somebody does.
struct Vigil {
    pulse: Pulse,
    answered: bool,
}

impl Vigil {
    fn new(pulse: Pulse) -> Self {
        Self { pulse, answered: true }
    }

    fn look(&mut self, workers: &Workers) {
        if self.answered {
            self.pulse.work();
        }
        self.answered = workers.is_alive(LOOKS_APART);
        if self.answered {
            self.pulse.wait();
        }
    }
}

/// The thread of the live screen. Whoever ends the screen ends the tee.
struct Screen {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    fn start(state: Arc<State>, events: SyncSender<Event>) -> io::Result<Self> {
        let stop = Stop::new()?;
        let stopped = stop.clone();
        let show = move || match screen::run(|| state.ledger(), &stopped) {
            Ok(screen::Ended::Asked) => {
                let _ = events.send(Event::Stop);
            }
            Ok(screen::Ended::Stopped) => {}
            Err(error) => tracing::warn!("show the ledger: {error}"),
        };
        let thread = thread::Builder::new().name("screen".into()).spawn(show)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A panic on that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

/// Sockets that a service manager has passed, for the listeners.
fn take_passed(mut passed: Passed, settings: &Settings) -> Result<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    for Listener { name, address, .. } in &settings.listeners {
        for socket in passed.take(Kind::Datagrams, name, *address) {
            let bound = SockRef::from(&socket).local_addr().ok().and_then(|bound| bound.as_socket());
            if let Some(bound) = bound
                && bound != *address
            {
                bail!(
                    "socket activation: listener `{name}` is passed {bound}, and its address is {address} (make them one)"
                );
            }
            sockets.push(socket);
        }
    }
    passed.finish()?;
    Ok(sockets)
}

/// Says so where the file wants what only a start can change.
fn keeps<T: PartialEq + fmt::Display>(key: &str, is: &T, wanted: &T) {
    if is != wanted {
        tracing::warn!("{key} stays {is}: a reload does not change it (restart for {wanted})");
    }
}

fn shown<T: fmt::Display>(value: Option<&T>) -> String {
    value.map_or_else(|| "unset".to_owned(), T::to_string)
}

/// How many may be open at once: sockets of both generations during a reload, and what else there is.
fn descriptors(settings: &Settings) -> u64 {
    let sockets = settings.workers * (settings.listeners.len() + settings.destinations.len());
    2 * sockets as u64 + 64
}

/// Signals and names that may wait for the control thread.
const QUEUE: usize = 64;

/// From one look at what is lost to the next.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// From one line about what is lost to the next.
const LOSSES_APART: Duration = Duration::from_secs(10);
