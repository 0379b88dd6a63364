//! The life of a tee: start, reloads, names that move, and an orderly end.
//!
//! ```text
//! one thread:  sockets passed -> privileges checked -> plan -> sockets opened -> privileges given up
//! then:        signals -> log -> names -> workers -> admin, watchdog -> ready -> events, until one says stop
//! signals, names --> queue --> the control thread alone changes the plan
//! ```

mod events;
mod names;
mod passed;
mod privileges;
mod running;
mod state;
mod threads;
mod verdicts;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_kernel::{activation, limits};
use weir_service::activation::Passed;
use weir_service::admin::Admin;
use weir_service::log;
use weir_service::notify::{self, Watchdog};
use weir_service::pulse::Pulses;

use crate::config::{Config, Origin};
use crate::ledger::Ledger;
use crate::plan::{Addresses, Plan};
use crate::settings::Settings;
use crate::sockets::Sockets;
use crate::worker::Workers;
use events::Event;
use names::Names;
use running::Control;
use state::State;
use threads::{Beside, Screen, Vigil};
use verdicts::Verdicts;

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
    let passed = passed::take(passed, &settings, admin)?;
    let sockets = Sockets::open(&plan, passed.listeners, None)?;
    let admin_server = match passed.admin {
        None => admin.map(Admin::bind).transpose()?,
        passed => passed,
    };
    privileges::give_up(&settings, user.as_deref())?;

    let (events, queue) = sync_channel(QUEUE);
    events::hear_signals(events.clone(), origin.file().is_some()).context("watch for signals")?;
    let log = log::start(manner.verbosity).context("start the log")?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let beside = Beside::start().context("start the thread for names and probes")?;
    let mut names = Names::new(beside.handle.clone(), events.clone());
    let (plan, sockets) = with_first_addresses(plan, sockets, &mut names, &events, &queue)?;
    let pulses = Pulses::new();
    let (pulse, workers_pulse) = (pulses.pulse("control"), pulses.pulse("workers"));
    let workers = Workers::start(plan, sockets)?;
    let state = Arc::new(State::new(workers, pulses.clone(), settings.workers));
    let serving = admin_server.map(|server| server.serve(state.clone())).transpose()?;
    let watchdog = Watchdog::start(pulses).context("start the watchdog")?;
    let screen = manner.watch.then(|| Screen::start(state.clone(), events)).transpose().context("start the screen")?;

    let verdicts = Verdicts::new(beside.handle.clone());
    let workers = Vigil::new(workers_pulse);
    let mut control = Control { origin, settings, admin, user, names, verdicts, state, pulse, workers };
    control.tell_listeners(None);
    control.verdicts.follow(&control.state.workers.plan());
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

/// Waits a moment for what names mean, while the kernel keeps what comes in: else a tee would begin by dropping what a
/// name server answers a millisecond later. A name that does not resolve delays no more than the start.
fn with_first_addresses(
    plan: Plan,
    sockets: Sockets,
    names: &mut Names,
    events: &SyncSender<Event>,
    queue: &Receiver<Event>,
) -> Result<(Plan, Sockets)> {
    let settings = plan.settings.clone();
    names.follow([&*settings]);
    let mut unknown: BTreeSet<&str> = names::hosts(&settings).collect();
    if unknown.is_empty() {
        return Ok((plan, sockets));
    }
    let until = Instant::now() + FIRST_ANSWERS;
    while !unknown.is_empty() {
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Event::Name(event)) => {
                unknown.remove(names::name(&event));
                names::tell(&event);
            }
            Ok(other) => {
                // There is room: it has just been taken out.
                let _ = events.try_send(other);
                break;
            }
            Err(_) => break,
        }
    }
    let plan = Plan::build(settings.clone(), &names.addresses(&settings), Some(&plan));
    let sockets = Sockets::open(&plan, Vec::new(), Some(&sockets))?;
    Ok((plan, sockets))
}

/// How many may be open at once: sockets of both generations during a reload, and what else there is.
fn descriptors(settings: &Settings) -> u64 {
    let sockets = settings.workers * (settings.listeners.len() + settings.destinations.len());
    2 * sockets as u64 + 64
}

/// Signals and names that may wait for the control thread.
const QUEUE: usize = 64;

/// Longest wait for the first answers of name servers.
const FIRST_ANSWERS: Duration = Duration::from_millis(250);
