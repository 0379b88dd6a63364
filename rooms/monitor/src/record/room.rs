//! A recorder as a service's room.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_program::stop::Stop;
use weir_service::losses::{Line, Loss, Losses};
use weir_service::metrics::Samples;
use weir_service::{Fixed, Observable};
use weir_units::format::{self, count, counted};

use super::config::Origin;
use super::{Ledger, Settings};
use crate::archive;
use weir_signal::receive::Open;

/// The control thread's own.
pub(super) struct Room<'a> {
    origin: &'a Origin,
    settings: Settings,
    state: Arc<State>,
    stop: Stop,
    receive: Option<JoinHandle<()>>,
    losses: Losses,
}

/// What other threads may ask.
pub(super) struct State {
    received: Open,
    archive: Arc<archive::State>,
    started: Instant,
    ended: OnceLock<()>,
}

impl State {
    pub(super) fn new(received: Open, archive: Arc<archive::State>) -> Self {
        Self { received, archive, started: Instant::now(), ended: OnceLock::new() }
    }

    /// Once all threads have ended.
    pub(super) fn final_ledger(&self) -> Ledger {
        let _ = self.ended.set(());
        self.ledger()
    }
}

impl Observable for State {
    type Ledger = Ledger;

    fn metrics(&self, samples: &mut Samples<'_>) {
        samples.ledger(&self.ledger());
    }

    fn ledger(&self) -> Ledger {
        let (received, archive) = (self.received.counts(), self.archive.ledger(self.ended.get().is_some()));
        let unexplained = received.unexplained().abs() + archive.unexplained.abs();
        let elapsed_s = self.started.elapsed().as_secs_f64();
        Ledger { elapsed_s, closed: unexplained == 0, unexplained, received, archive }
    }

    fn ready(&self) -> Result<(), String> {
        self.archive.what_is_wrong().map_or(Ok(()), Err)
    }
}

impl<'a> Room<'a> {
    pub(super) fn new(
        origin: &'a Origin,
        settings: Settings,
        state: Arc<State>,
        stop: Stop,
        receive: JoinHandle<()>,
    ) -> Self {
        let losses = Losses::new(LINES_APART, Instant::now());
        Self { origin, settings, state, stop, receive: Some(receive), losses }
    }
}

impl weir_service::Room for Room<'_> {
    type News = std::convert::Infallible;
    type State = State;
    const ENDING: &'static str = "writing what was received";

    fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    fn status(&self) -> String {
        let Settings { receive, archive, .. } = &self.settings;
        let listen: Vec<String> = receive.listen.iter().map(|listen| listen.address.to_string()).collect();
        let sessions = counted(self.state.received.counts().sessions, "session");
        format!("recording {} to {}, {sessions}", listen.join(", "), archive.directory.display())
    }

    fn begin(&mut self) -> Instant {
        Instant::now() + LOOKS_APART
    }

    /// Logs what is missing.
    fn look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let Ledger { received, archive, .. } = self.state.ledger();
        let of = |subject: &str, reason, remedy, total| Loss {
            subject: subject.to_owned(),
            reason,
            remedy,
            unit: "sample",
            total,
        };
        let causes = "docs/monitor.md explains the causes";
        let missing = received.missing.all().iter().map(|&(cause, total)| of("received", cause, causes, total));
        let unkept = [
            of("archive", "overrun", "the disk is too slow, or stands still", archive.overrun.get()),
            of("archive", "unkept", "the disk is full, or refuses writes", archive.unkept.get()),
        ];
        self.losses.lines(now, missing.chain(unkept)).iter().for_each(Line::log);
        Some(now + LOOKS_APART)
    }

    fn reload(&mut self) -> Result<Fixed> {
        let config = self.origin.load()?;
        if config.settings() != self.settings {
            tracing::warn!("a reload does not change what is recorded, or where: restart for it");
        }
        Ok(config.fixed())
    }

    fn end(&mut self) {
        self.stop.set();
        // A panic on that thread is on stderr already.
        self.receive.take().map(JoinHandle::join);
    }
}

/// As `weir monitor record` prints it when it ends.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { received, archive, .. } = self;
        let after = format::duration(self.elapsed_s * 1e6);
        let sessions = counted(received.sessions, "session");
        writeln!(f, "after {after}: {} datagrams of {sessions}", number(received.datagrams))?;
        write!(f, "samples: {} = kept {}", number(archive.came.get()), number(archive.kept.get()))?;
        for (part, count) in [
            ("missing when they came", archive.missing.get()),
            ("overrun", archive.overrun.get()),
            ("not taken by the disk", archive.unkept.get()),
            ("refused", archive.refused.get()),
        ] {
            if count > 0 {
                write!(f, " + {part} {}", number(count))?;
            }
        }
        writeln!(f)?;
        for (cause, samples) in received.missing.all().iter().filter(|(_, samples)| *samples > 0) {
            writeln!(f, "missing by {cause}: {}", number(*samples))?;
        }
        let files = counted(usize::try_from(archive.files.get()).unwrap_or(usize::MAX), "file");
        writeln!(f, "written: {} in {files}", format::bytes(archive.bytes.get() as f64))?;
        match self.unexplained {
            0 => writeln!(f, "the ledger closes: unexplained 0"),
            more => writeln!(f, "the ledger does not close: unexplained {}", count(more)),
        }
    }
}

fn number(samples: u64) -> String {
    count(i64::try_from(samples).unwrap_or(i64::MAX))
}

const LOOKS_APART: Duration = Duration::from_millis(250);
const LINES_APART: Duration = Duration::from_secs(10);
