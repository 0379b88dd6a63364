//! A station as a service's room: what its control thread does.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use weir_program::config::Table;
use weir_service::losses::{Line, Loss, Losses};
use weir_service::{Fixed, Observable, Room};
use weir_units::format::{counted, duration, printable};

use super::config::{Channel, Config, Element, Origin};
use super::ledger::{Ledger, SourceCount};
use super::settings::Source;
use super::sources;
use super::state::State;
use super::worker::{News, Order, Orders};
use weir_signal::send::REASONS;

/// The control thread's own.
pub(super) struct Station<'a> {
    origin: &'a Origin,
    config: Config,
    sources: Vec<Source>,
    state: Arc<State>,
    stop: Arc<AtomicBool>,
    orders: Orders,
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
        let to: Vec<String> = self.config.streams().flat_map(|(_, groups)| groups).map(|to| to.to_string()).collect();
        let sources = counted(self.sources.len(), "source");
        format!("station {}, {sources}, to {}", printable(&self.config.name.0.0), to.join(" and "))
    }

    fn begin(&mut self) -> Instant {
        Instant::now() + LOOKS_APART
    }

    fn look(&mut self) -> Option<Instant> {
        let ledger = self.state.ledger();
        let of = |(_, reason, remedy): (&[i32], &'static str, &'static str)| {
            let outlets = ledger.streams.iter().flat_map(|stream| &stream.outlets);
            outlets.map(move |outlet| Loss {
                subject: format!("to {}", outlet.to),
                reason,
                remedy,
                unit: "datagram",
                total: outlet.dropped.get(reason).copied().unwrap_or(0),
            })
        };
        let of_sources = ledger.sources.iter().flat_map(|source| {
            LOST.map(|(unit, reason, remedy, count)| Loss {
                subject: format!("{unit}s of {}", printable(&source.name)),
                reason,
                remedy,
                unit,
                total: count(source),
            })
        });
        let missed = ledger.sources.iter().zip(&self.sources).map(|(source, settings)| {
            let (reason, remedy) = sources::missing(settings);
            let subject = format!("samples of {}", printable(&source.name));
            Loss { subject, reason, remedy, unit: "sample", total: source.missed }
        });
        let overrun = ledger.streams.iter().map(|stream| Loss {
            subject: format!("samples of stream {}", stream.name),
            reason: "overrun",
            remedy: "more come than are sent: thin more by `display`, or take fewer channels",
            unit: "sample",
            total: stream.samples.overrun,
        });
        let refused = Loss {
            subject: "channels".to_owned(),
            reason: "refused",
            remedy: "another source has their name, it is empty or too long, or there are more than `most_channels`",
            unit: "channel",
            total: ledger.channels_refused,
        };
        let losses = REASONS.into_iter().flat_map(of).chain(of_sources).chain(missed).chain(overrun).chain([refused]);
        let now = Instant::now();
        self.losses.lines(now, losses).iter().for_each(Line::log);
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
            News::Remark(text) => {
                tracing::warn!("{text}");
                return;
            }
            News::Unfit(names) => {
                for name in names {
                    tracing::warn!(
                        "channel {}: no source has it so far (compare `name` of [[channel]])",
                        printable(&name)
                    );
                }
                return;
            }
        }
        self.running -= 1;
    }

    fn reload(&mut self) -> Result<Fixed> {
        let config = self.origin.load()?;
        // Of admin and user the service says it.
        if let Some(key) = self.config.stays(&config).into_iter().find(|key| !matches!(*key, "admin" | "user")) {
            bail!("{key}: a reload changes [[channel]] and `display` only (restart the station for the rest)");
        }
        if kept(&config.channel) != kept(&self.config.channel) {
            tracing::warn!(
                "element and full: a reload does not change them of channels that are there (restart for it)"
            );
        }
        // One that the thread has not carried out yet is one with it.
        self.orders.give(Order { channels: config.channel.clone(), display: config.display });
        self.config = config;
        Ok(self.config.fixed())
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
        config: Config,
        sources: Vec<Source>,
        state: Arc<State>,
        stop: Arc<AtomicBool>,
        orders: Orders,
        worker: JoinHandle<()>,
    ) -> Self {
        let (losses, running) = (Losses::new(LOSSES_APART, Instant::now()), sources.len());
        Self { origin, config, sources, state, stop, orders, worker: Some(worker), losses, running }
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.state.ledger()
    }
}

/// What a channel keeps for good, of those for which it is told.
fn kept(channels: &[Channel]) -> HashMap<&str, (Option<Element>, bool)> {
    let told = channels.iter().map(|channel| (channel.name.0.as_str(), (channel.element, channel.full)));
    told.filter(|(_, kept)| *kept != (None, false)).collect()
}

type Read = fn(&SourceCount) -> u64;

/// What becomes of what is no sample: units of it, why, and what to do.
const LOST: [(&str, &str, &str, Read); 5] = [
    (
        "point",
        "unreadable",
        "lines, or parts of them, are not of `format`: compare one with docs/monitor-station.md",
        |count| count.unreadable,
    ),
    ("point", "crowded", "more come than `rate` says: raise it", |count| count.crowded),
    ("point", "late", "they are older than what came before: sort them", |count| count.late),
    ("point", "misplaced", "they are from the future: set the clock of their sender", |count| count.misplaced),
    ("datagram", "socket", "they come faster than they are read: raise net.core.rmem_max, or send fewer", |count| {
        count.dropped
    }),
];

/// From one look at what is lost to the next.
const LOOKS_APART: Duration = Duration::from_millis(500);

/// From one line about what is lost to the next.
const LOSSES_APART: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_program::config::Flags;

    use super::*;

    /// The thread looks once a second: two may come in between.
    #[test]
    fn of_reloads_that_come_together_the_last_one_is_carried_out() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("station.toml");
        let write = |display: &str| {
            let source = "[[source]]\nkind = \"sine\"\nname = \"coil\"\nrate = \"1k/s\"\n";
            fs::write(&path, format!("name = \"s\"\ndisplay = \"{display}\"\n{source}")).unwrap();
        };
        write("100/s");
        let origin = Origin::new(Some(path.clone()), Flags::default());
        let config = origin.load().unwrap();
        let sources = config.sources().unwrap();
        let (orders, worker) = (Orders::default(), std::thread::spawn(|| ()));
        let state = Arc::new(State::new("s"));
        let mut station = Station::new(&origin, config, sources, state, Arc::default(), orders.clone(), worker);
        for display in ["200/s", "300/s"] {
            write(display);
            station.reload().unwrap();
        }
        assert_eq!(orders.take().map(|order| order.display.to_string()), Some("300/s".into()));
        assert!(orders.take().is_none());
    }
}
