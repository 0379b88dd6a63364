//! A station as a service's room: what its control thread does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use weir_service::losses::{Line, Loss, Losses};
use weir_service::{Fixed, Observable, Room};
use weir_units::format::{counted, duration, printable};

use super::config::{Config, Origin};
use super::ledger::Ledger;
use super::outlets::REMEDIES;
use super::settings::Settings;
use super::state::State;
use super::worker::{News, Order};

/// The control thread's own.
pub(super) struct Station<'a> {
    origin: &'a Origin,
    settings: Settings,
    state: Arc<State>,
    stop: Arc<AtomicBool>,
    orders: SyncSender<Order>,
    worker: Option<JoinHandle<()>>,
    losses: Losses,
    /// Sources that still run.
    running: usize,
}

impl Room for Station<'_> {
    type News = News;
    type State = State;
    const ENDING: &'static str = "sending the last samples";

    fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    fn status(&self) -> String {
        let to: Vec<String> = self.settings.groups.iter().chain(&self.settings.full).map(ToString::to_string).collect();
        let sources = counted(self.settings.sources.len(), "source");
        format!("station {}, {sources}, to {}", printable(&self.settings.name), to.join(" and "))
    }

    fn begin(&mut self) -> Instant {
        Instant::now() + LOOKS_APART
    }

    fn look(&mut self) -> Option<Instant> {
        let ledger = self.state.ledger();
        let of = |(reason, remedy): (&'static str, &'static str)| {
            let outlets = ledger.streams.iter().flat_map(|stream| &stream.outlets);
            outlets.map(move |outlet| Loss {
                subject: format!("to {}", outlet.to),
                reason,
                remedy,
                total: outlet.dropped.get(reason).copied().unwrap_or(0),
            })
        };
        let losses = REMEDIES.into_iter().flat_map(of);
        self.losses.lines(Instant::now(), losses).iter().for_each(Line::log);
        let lives = self.worker.as_ref().is_some_and(|worker| !worker.is_finished());
        (self.running > 0 && lives).then(|| Instant::now() + LOOKS_APART)
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Over(name) => tracing::info!("{}: no more", printable(&name)),
            News::Failed(name, error) => tracing::warn!("{}: {error:#}", printable(&name)),
            News::Stepped(nanos) => {
                let by = duration(nanos.unsigned_abs() as f64 / 1e3);
                let way = if nanos < 0 { "back" } else { "on" };
                tracing::warn!("the clock was stepped {way} by {by}: times follow it, the index goes on as before");
                return;
            }
        }
        self.running -= 1;
    }

    fn reload(&mut self) -> Result<Fixed> {
        let Config { settings, fixed, .. } = self.origin.load()?;
        let changeable = |settings: &Settings| Settings { channels: Vec::new(), display: 0.0, ..settings.clone() };
        if changeable(&settings) != changeable(&self.settings) {
            bail!("a reload changes [[channel]] and `display` only (restart the station for the rest)");
        }
        let order = Order { channels: settings.channels.clone(), display: settings.display };
        if self.orders.try_send(order).is_err() {
            bail!("the reload before is still being carried out (try again)");
        }
        self.settings = settings;
        Ok(fixed)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take()
            && worker.join().is_err()
        {
            tracing::error!("the thread of the station has ended in a panic");
        }
    }
}

impl<'a> Station<'a> {
    pub(super) fn new(
        origin: &'a Origin,
        settings: Settings,
        state: Arc<State>,
        stop: Arc<AtomicBool>,
        orders: SyncSender<Order>,
        worker: JoinHandle<()>,
    ) -> Self {
        let (losses, running) = (Losses::new(LOSSES_APART, Instant::now()), settings.sources.len());
        Self { origin, settings, state, stop, orders, worker: Some(worker), losses, running }
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.state.ledger()
    }
}

/// From one look at what is lost to the next.
const LOOKS_APART: Duration = Duration::from_millis(500);

/// From one line about what is lost to the next.
const LOSSES_APART: Duration = Duration::from_secs(10);
