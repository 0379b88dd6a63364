//! A running tee: what the control thread does until it is told to stop.

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_service::losses::{Line, Losses};
use weir_service::notify;
use weir_service::pulse::Pulse;
use weir_units::Size;

use super::events::Event;
use super::names::{self, Names};
use super::privileges;
use super::state::State;
use super::threads::Vigil;
use super::verdicts::Verdicts;
use crate::config::{Config, Origin};
use crate::ledger::Ledger;
use crate::plan::{self, Plan};
use crate::settings::Settings;
use crate::{losses, resolve};

/// The control thread's own. It alone changes the plan.
pub(super) struct Control<'a> {
    pub(super) origin: &'a Origin,
    pub(super) settings: Arc<Settings>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) user: Option<String>,
    pub(super) names: Names,
    pub(super) verdicts: Verdicts,
    pub(super) state: Arc<State>,
    pub(super) pulse: Pulse,
    pub(super) workers: Vigil,
}

impl Control<'_> {
    pub(super) fn until_stopped(&mut self, queue: &Receiver<Event>) {
        let mut watched = Losses::new(LOSSES_APART, Instant::now());
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
                watched.lines(now, losses::losses(&self.state.ledger())).iter().for_each(Line::log);
                self.workers.look(&self.state.workers);
                self.verdicts.look(&self.state.workers.plan());
                self.reopen();
            }
        }
    }

    fn reload(&mut self) {
        let Some(file) = self.origin.file() else { return };
        notify::reloading();
        let before = self.settings.clone();
        let outcome = self.load();
        // Whoever reads the line finds it counted.
        self.state.reloaded(outcome.is_ok());
        match &outcome {
            Ok(()) => {
                self.tell_listeners(Some(&before));
                tracing::info!("reloaded {}: {}", file.display(), self.status());
            }
            Err(error) => tracing::error!("reload of {}: {error:#} (nothing has changed)", file.display()),
        }
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
        names::tell(event);
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
        self.verdicts.follow(&workers.plan());
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
    pub(super) fn tell_listeners(&self, before: Option<&Settings>) {
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

    pub(super) fn status(&self) -> String {
        let count = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        let Settings { listeners, destinations, workers, .. } = &*self.settings;
        [count(listeners.len(), "listener"), count(destinations.len(), "destination"), count(*workers, "worker")]
            .join(", ")
    }

    /// Sends what was received.
    pub(super) fn end(self) -> Ledger {
        self.state.stopping();
        let drain = self.settings.drain;
        notify::stopping("sending what was received");
        tracing::info!("stopping: nothing more is taken in, what was received is sent");
        self.state.workers.stop(drain);
        self.state.ledger()
    }
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

/// From one look at what is lost to the next.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// From one line about what is lost to the next.
const LOSSES_APART: Duration = Duration::from_secs(10);
