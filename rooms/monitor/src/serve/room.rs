//! A server as a service's room: what its control thread does, ten times a second.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_program::config::{Document, Table};
use weir_program::stop::Stop;
use weir_service::losses::{Line, Losses};
use weir_service::{Fixed, Room};
use weir_units::expression::Expression;
use weir_units::format::counted;

use super::board::LOOKS_APART;
use super::config::{Config, Origin};
use super::derive;
use super::open::Open;
use super::settings::{Derive, Settings, matches};
use crate::api::Severity;

/// The control thread's own.
pub(super) struct Server<'a> {
    origin: &'a Origin,
    config: Config,
    settings: Settings,
    parts: Parts,
    /// The last event that is in the log.
    logged: u64,
    /// What was not taken, for the log.
    refused: Losses,
    /// When that is looked at.
    due: Instant,
    /// When it is said which limits and inputs fit no channel; `None`: it was.
    unfit: Option<Instant>,
}

/// What was started.
pub(super) struct Parts {
    pub(super) open: Arc<Open>,
    pub(super) stop: Stop,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) http: SocketAddr,
}

impl Room for Server<'_> {
    type News = std::convert::Infallible;
    type State = Open;
    const ENDING: &'static str = "closing";

    fn state(&self) -> Arc<Open> {
        self.parts.open.clone()
    }

    fn status(&self) -> String {
        let listen: Vec<String> =
            self.settings.receive.listen.iter().map(|listen| listen.address.to_string()).collect();
        format!("{} ({})", counted(listen.len(), "address"), listen.join(", "))
    }

    fn begin(&mut self) -> Instant {
        tracing::info!("page: http://{}/", self.parts.http);
        Instant::now() + LOOKS_APART
    }

    fn look(&mut self) -> Option<Instant> {
        self.parts.open.look();
        self.log();
        let now = Instant::now();
        if now >= self.due {
            self.due = now + READINGS_APART;
            self.refused.lines(now, self.parts.open.refused()).iter().for_each(Line::log);
        }
        if self.unfit.take_if(|due| now >= *due).is_some() {
            self.unfit();
        }
        Some(now + LOOKS_APART)
    }

    fn reload(&mut self) -> Result<Fixed> {
        let config = self.origin.load()?;
        let settings = config.settings(&Document::default())?;
        // Of admin and user the service says it.
        for key in self.config.stays(&config).into_iter().filter(|key| !matches!(*key, "admin" | "user")) {
            tracing::warn!("{key}: a reload does not change it (restart for it)");
        }
        self.parts.open.rewatch(&settings.watching);
        self.parts.open.set_peers(settings.peers.clone());
        self.parts.open.outputs.change(&settings.outputs, &self.parts.open.history);
        self.settings.outputs = settings.outputs;
        self.settings.watching = settings.watching;
        self.unfit = Some(Instant::now() + FITS_WITHIN);
        self.settings.peers = settings.peers;
        Ok(config.fixed())
    }

    fn end(&mut self) {
        self.parts.stop.set();
        for thread in self.parts.threads.drain(..) {
            // A panic there has been told by its pulse.
            let _ = thread.join();
        }
        // What came last is sent, too.
        self.parts.open.outputs.look(&self.parts.open.history, true);
        self.parts.open.look();
        self.log();
    }
}

impl<'a> Server<'a> {
    pub(super) fn new(origin: &'a Origin, config: Config, settings: Settings, parts: Parts) -> Self {
        let now = Instant::now();
        let refused = Losses::new(REFUSALS_APART, now);
        Self { origin, config, settings, parts, logged: 0, refused, due: now, unfit: Some(now + FITS_WITHIN) }
    }

    /// Says which limits, inputs and outputs fit no channel: their names may be wrong, or their stations late.
    fn unfit(&self) {
        let catalog = self.parts.open.history.catalog();
        let names: Vec<_> =
            catalog.iter().map(|listed| format!("{}/{}", listed.station, listed.channel.name)).collect();
        for rule in &self.settings.watching.rules {
            if !names.iter().any(|name| matches(&rule.channel, name)) {
                tracing::warn!("limit {}: it fits no channel so far", rule.channel);
            }
        }
        for Derive { name, expression, .. } in &self.settings.watching.derive {
            let read = derive::read(expression);
            let inputs = read.as_ref().map(Expression::names).unwrap_or_default();
            for input in inputs.iter().filter(|input| !names.contains(input)) {
                tracing::warn!("derive {name}: there is no channel {input} so far");
            }
        }
    }

    /// What has happened, at most so many lines at once.
    fn log(&mut self) {
        let events = self.parts.open.events.since(self.logged);
        let Some(last) = events.last() else { return };
        self.logged = last.id;
        for event in events.iter().take(MOST_LINES) {
            let subject = if event.channel.is_empty() {
                event.station.clone()
            } else {
                format!("{}/{}", event.station, event.channel)
            };
            let remedy = event.remedy.as_ref().map(|remedy| format!(" ({remedy})")).unwrap_or_default();
            let line = weir_units::format::printable(&format!("{subject}: {}{remedy}", event.text));
            match event.severity {
                Severity::Info => tracing::info!("{line}"),
                Severity::Minor | Severity::Major => tracing::warn!("{line}"),
            }
        }
        if events.len() > MOST_LINES {
            tracing::warn!("{} more events: the page has them", events.len() - MOST_LINES);
        }
    }
}

/// From one look at what was not taken to the next, and from one line about it to the next.
const READINGS_APART: Duration = Duration::from_secs(1);
const REFUSALS_APART: Duration = Duration::from_secs(10);

/// After a start or a reload stations have been heard, if they run.
const FITS_WITHIN: Duration = Duration::from_secs(10);

/// Lines of one look.
const MOST_LINES: usize = 10;
