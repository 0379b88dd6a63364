//! The life of a tee: start, reloads, names that move, and an orderly end.
//!
//! ```text
//! one thread:  sockets passed -> privileges checked -> plan -> sockets opened -> privileges given up
//! then:        names -> workers -> the room runs, as every service does (weir_service)
//! signals, names --> queue --> the control thread alone changes the plan
//! ```

mod background;
mod liveness;
mod names;
mod privileges;
mod room;
mod state;
mod verdicts;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_kernel::limits;
use weir_service::losses::Losses;
use weir_service::screen::Ended;
use weir_service::{Launch, Service, Setup};

use crate::config::{Config, Origin};
use crate::ledger::Ledger;
use crate::plan::{Addresses, Plan};
use crate::screen;
use crate::settings::Settings;
use crate::sockets::Sockets;
use crate::worker::Workers;
use background::Background;
use liveness::Liveness;
use names::Names;
use room::{LOSSES_APART, Tee};
use state::State;
use verdicts::Verdicts;

/// How whoever started the tee wants to see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Shows the ledger live on the terminal.
    pub watch: bool,
    /// As in [`weir_service::log::start`].
    pub verbosity: u8,
}

/// Runs a tee until it is asked to end; returns the final ledger.
///
/// # Errors
/// One line: a privilege is missing, the kernel refuses a socket, a thread cannot be started. Nothing runs then.
pub fn run(origin: &Origin, config: Config, options: Options) -> Result<Ledger> {
    let Config { settings, fixed, warnings } = config;
    let settings = Arc::new(settings);
    limits::ensure_file_descriptors(descriptors(&settings))?;
    privileges::check(&settings)?;
    let mut setup = Setup::new(Launch { fixed, file: origin.base.file().cloned(), verbosity: options.verbosity })?;
    let plan = Plan::build(settings.clone(), &Addresses::new(), None);
    let mut passed = Vec::new();
    for listener in &settings.listeners {
        passed.extend(setup.passed(&listener.name, listener.address)?);
    }
    let sockets = Sockets::open(&plan, passed, None)?;

    let mut service = setup.start(&privileges::needed(&settings))?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let background = Background::start().context("start the thread for names and probes")?;
    let mut names = Names::new(background.handle.clone(), service.events());
    let (plan, sockets) = with_first_addresses(plan, sockets, &mut names, &mut service)?;
    let liveness = Liveness::new(service.pulse("workers"));
    let workers = Workers::start(plan, sockets)?;
    let state = Arc::new(State::new(workers, settings.workers));
    if options.watch {
        let state = state.clone();
        service.show(move |stop| {
            let shown = screen::run(|| state.workers.ledger(), stop);
            // Datagrams move all the same.
            Ok(shown.inspect_err(|error| tracing::warn!("show the ledger: {error}")).unwrap_or(Ended::Stopped))
        });
    }
    let verdicts = Verdicts::new(background.handle.clone());
    let losses = Losses::new(LOSSES_APART, Instant::now());
    let mut tee = Tee { origin, settings, names, verdicts, state, liveness, losses };
    service.run(&mut tee)?;
    Ok(tee.ledger())
}

/// Waits a moment for what names mean, while the kernel keeps what comes in: else a tee would begin by dropping what a
/// name server answers a millisecond later. A name that does not resolve delays no more than the start.
fn with_first_addresses(
    plan: Plan,
    sockets: Sockets,
    names: &mut Names,
    service: &mut Service<Tee<'_>>,
) -> Result<(Plan, Sockets)> {
    let settings = plan.settings.clone();
    names.follow([&*settings]);
    let mut unknown: BTreeSet<&str> = names::hosts(&settings).collect();
    if unknown.is_empty() {
        return Ok((plan, sockets));
    }
    let until = Instant::now() + FIRST_ANSWERS;
    while !unknown.is_empty()
        && let Some(news) = service.next_news(until)
    {
        unknown.remove(names::name(&news));
        names::tell(&news);
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

/// Longest wait for the first answers of name servers.
const FIRST_ANSWERS: Duration = Duration::from_millis(250);
