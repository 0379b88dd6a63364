//! A tee as a service's room: what its control thread does from the start to the stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_service::losses::{Line, Losses};
use weir_service::{Fixed, Observable, Room, stays};
use weir_units::Size;
use weir_units::format::counted;

use super::liveness::Liveness;
use super::names::{self, Names};
use super::privileges;
use super::state::State;
use super::verdicts::Verdicts;
use crate::config::{Config, Origin};
use crate::ledger::Ledger;
use crate::plan::{self, Plan};
use crate::settings::Settings;
use crate::{losses, resolve};

/// The control thread's own. It alone changes the plan.
pub(super) struct Tee<'a> {
    pub(super) origin: &'a Origin,
    pub(super) settings: Arc<Settings>,
    pub(super) names: Names,
    pub(super) verdicts: Verdicts,
    pub(super) state: Arc<State>,
    pub(super) liveness: Liveness,
    pub(super) losses: Losses,
}

impl Room for Tee<'_> {
    type News = resolve::Event;
    type State = State;
    const ENDING: &'static str = "sending what was received";

    fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    fn status(&self) -> String {
        let Settings { listeners, destinations, workers, .. } = &*self.settings;
        let counts = [(listeners.len(), "listener"), (destinations.len(), "destination"), (*workers, "worker")];
        counts.map(|(number, noun)| counted(number, noun)).join(", ")
    }

    fn begin(&mut self) -> Instant {
        self.tell_listeners(None);
        self.verdicts.follow(&self.state.workers.plan());
        Instant::now() + LOOKS_APART
    }

    fn look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.losses.lines(now, losses::losses(&self.ledger())).iter().for_each(Line::log);
        self.liveness.look(&self.state.workers);
        self.verdicts.look(&self.state.workers.plan());
        self.reopen();
        Some(now + LOOKS_APART)
    }

    /// A name has other addresses, or none.
    fn hear(&mut self, event: resolve::Event) {
        names::tell(&event);
        let settings = self.settings.clone();
        if let Err(error) = self.replace(&settings) {
            tracing::error!("{event}: {error:#} (nothing has changed)");
        }
    }

    fn reload(&mut self) -> Result<Fixed> {
        let Config { mut settings, fixed, warnings } = self.origin.load()?;
        let workers = std::mem::replace(&mut settings.workers, self.settings.workers);
        privileges::check(&settings)?;
        let settings = Arc::new(settings);
        // Those that stay keep their addresses, whatever comes of it.
        self.names.follow([&*self.settings, &*settings]);
        let outcome = self.replace(&settings);
        let before = self.settings.clone();
        if outcome.is_ok() {
            self.settings = settings;
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            stays("workers", &self.settings.workers, &workers);
            self.tell_listeners(Some(&before));
        }
        self.names.follow([&*self.settings]);
        outcome.map(|()| fixed)
    }

    /// Sends what was received.
    fn end(&mut self) {
        self.state.workers.stop(self.settings.drain);
    }
}

impl Tee<'_> {
    pub(super) fn ledger(&self) -> Ledger {
        self.state.ledger()
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
}

/// From one look at what is lost to the next.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// From one line about what is lost to the next.
pub(super) const LOSSES_APART: Duration = Duration::from_secs(10);
