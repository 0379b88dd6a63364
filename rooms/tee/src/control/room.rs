//! A tee as a service's room: what its control thread does from the start to the stop.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_program::signals::GRACE;
use weir_service::{Fixed, Observable, Room, stays};
use weir_units::format::counted;

use super::carrier::Carrier;
use super::state::State;
use crate::config::{Config, Origin};
use weir_forward::ledger::Ledger;
use weir_forward::settings::Settings;

/// The control thread's own. It alone changes the plan.
pub(super) struct Tee<'a> {
    origin: &'a Origin,
    carrier: Carrier,
    state: Arc<State>,
}

impl Room for Tee<'_> {
    type News = Infallible;
    type State = State;
    const ENDING: &'static str = "sending what was received";

    fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    fn status(&self) -> String {
        let Settings { listeners, destinations, workers, .. } = self.carrier.settings();
        let counts = [(listeners.len(), "listener"), (destinations.len(), "destination"), (*workers, "worker")];
        counts.map(|(number, noun)| counted(number, noun)).join(", ")
    }

    fn begin(&mut self) -> Instant {
        self.carrier.begin();
        Instant::now() + LOOKS_APART
    }

    fn look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.carrier.look();
        Some(now + LOOKS_APART)
    }

    fn reload(&mut self) -> Result<Fixed> {
        let Config { mut settings, fixed, warnings, absent, .. } = Config::load(self.origin)?;
        let workers = std::mem::replace(&mut settings.workers, self.carrier.settings().workers);
        self.carrier.reload(settings)?;
        for warning in warnings.into_iter().chain(absent) {
            tracing::warn!("{warning}");
        }
        stays("workers", &self.carrier.settings().workers, &workers);
        Ok(fixed)
    }

    fn end(&mut self) {
        self.carrier.end();
    }

    fn grace(&self) -> Duration {
        self.carrier.settings().drain + GRACE
    }
}

impl<'a> Tee<'a> {
    pub(super) fn new(origin: &'a Origin, carrier: Carrier, state: Arc<State>) -> Self {
        Self { origin, carrier, state }
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.state.ledger()
    }
}

/// From one look at what is lost to the next.
const LOOKS_APART: Duration = Duration::from_secs(1);
