//! An analyser as a service's room: what its control thread does from the start to the stop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_program::config::Table;
use weir_program::signals::GRACE;
use weir_service::losses::{Line, Losses};
use weir_service::{Fixed, Observable, Room};
use weir_tee::control::Carrier;

use super::state::State;
use super::{Outcome, held};
use crate::config::{Config, Origin, Settings};
use crate::losses;
use crate::shard::{Names, Now};
use crate::state::Keeper;

/// The control thread's own. It alone changes what is carried out.
pub(super) struct Analyser<'a> {
    origin: &'a Origin,
    /// What it was started with.
    started: Config,
    settings: Settings,
    carrier: Carrier,
    state: Arc<State>,
    /// Where REST is served.
    http: SocketAddr,
    keeper: Option<Keeper>,
    losses: Losses,
    /// When agents, losses and what is kept are looked at next.
    due: Instant,
    /// Why the state could not be written at the end.
    unsaved: Option<anyhow::Error>,
}

impl Room for Analyser<'_> {
    type News = Infallible;
    type State = State;
    const ENDING: &'static str = "analysing what was received";

    fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    fn status(&self) -> String {
        let count = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        let carrier = &self.settings.carrier;
        let (flows, thresholds) = self.state.shards.in_force();
        let parts = [
            count(carrier.listeners.len(), "listener"),
            count(carrier.workers, "worker"),
            count(flows, "flow definition"),
            count(thresholds, "threshold"),
            count(carrier.destinations.len(), "destination"),
        ];
        format!("{}, http://{}/", parts.join(", "), self.http)
    }

    fn begin(&mut self) -> Instant {
        self.carrier.begin();
        Instant::now() + TICKS_APART
    }

    fn look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.state.shards.tell(self.state.shards.tick(Now::read()));
        if now >= self.due {
            self.carrier.look();
            self.state.shards.expire(Now::read());
            self.losses.lines(now, losses::losses(&self.state.ledger())).iter().for_each(Line::log);
            if let Some(keeper) = &mut self.keeper {
                keeper.look(now, &self.state.shards, &self.settings);
            }
            self.due = now + LOOKS_APART;
        }
        Some(now + TICKS_APART)
    }

    fn reload(&mut self) -> Result<Fixed> {
        let mut settings = Settings::load(self.origin, true)?;
        settings.carrier.workers = self.settings.carrier.workers;
        // What can fail comes first: files, then sockets. Definitions have been compiled by now.
        let names = Names::read(&settings)?;
        self.protect(&mut settings, names.atlas())?;
        self.carrier.reload(settings.carrier.clone())?;
        self.state.shards.adopt(&self.settings, &settings, names);
        // Of admin and user the service says it.
        for key in self.started.stays(&settings.config).into_iter().filter(|key| !matches!(*key, "admin" | "user")) {
            tracing::warn!("{key}: a reload does not change it (restart for it)");
        }
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        self.settings = settings;
        Ok(self.settings.fixed())
    }

    fn grace(&self) -> Duration {
        self.carrier.settings().drain + GRACE
    }

    fn end(&mut self) {
        self.carrier.end();
        if let Some(keeper) = &mut self.keeper {
            self.unsaved = keeper.save(&self.state.shards, &self.settings).err();
        }
    }
}

impl<'a> Analyser<'a> {
    /// Goes over to what is protected now.
    fn protect(&self, settings: &mut Settings, atlas: Option<Box<dyn weir_protect::detect::Atlas>>) -> Result<()> {
        match (&self.state.protection, &settings.protect) {
            (Some(protection), Some(protect)) => {
                held(protection).adopt(protect, atlas)?;
                self.state.shards.protect_others(&protect.protected(), &Arc::new(protect.listed()));
            }
            (None, None) => {}
            _ => {
                tracing::warn!("protect stays: a reload does not switch it on or off (restart)");
                settings.protect = self.settings.protect.clone();
            }
        }
        Ok(())
    }

    pub(super) fn new(
        origin: &'a Origin,
        settings: Settings,
        carrier: Carrier,
        state: Arc<State>,
        http: SocketAddr,
        keeper: Option<Keeper>,
    ) -> Self {
        let (now, started) = (Instant::now(), settings.config.clone());
        let (losses, due) = (Losses::new(LOSSES_APART, now), now + LOOKS_APART);
        Self { origin, started, settings, carrier, state, http, keeper, losses, due, unsaved: None }
    }

    pub(super) fn outcome(self) -> Outcome {
        Outcome { ledger: self.state.ledger(), unsaved: self.unsaved }
    }
}

/// From one look at flows that are over to the next.
const TICKS_APART: Duration = Duration::from_millis(50);

/// From one look at what is lost and what has expired to the next.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// From one line about what is lost to the next.
const LOSSES_APART: Duration = Duration::from_secs(10);
