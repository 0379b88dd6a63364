//! The life of an analyser: start, reloads, and an orderly end.
//!
//! ```text
//! one thread:  sockets passed -> sockets and the HTTP address opened, files read -> privileges given up
//! then:        shards -> workers, each with its tap -> HTTP -> the room runs, as every service does (weir_service)
//! ```

mod room;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Error, Result, anyhow};
use weir_forward::worker::Tap;
use weir_protect::room::Protection;
use weir_service::privileges::{Needs, folder, hindered};
use weir_service::{Launch, Service, Setup};
use weir_tee::control::Prepared;

use crate::api::server;
use crate::atlas::Atlas;
use crate::collector::{Cells, Collector};
use crate::config::{Origin, Settings};
use crate::ledger::Ledger;
use crate::shard::{Names, Shards};
use crate::state::{Keeper, writable};
use room::Analyser;
use state::State;

/// What an analyser leaves behind.
#[derive(Debug)]
pub struct Outcome {
    /// The final ledger.
    pub ledger: Ledger,
    /// Why the state could not be written at the end, in one line; `None`: it was, or none is kept.
    pub unsaved: Option<Error>,
}

/// Runs an analyser until it is asked to end.
///
/// # Errors
/// One line: the kernel refuses a socket, an address is taken, a file of names cannot be read, a thread cannot be started.
/// Nothing runs then.
pub fn run(origin: &Origin, settings: Settings, verbosity: u8) -> Result<Outcome> {
    let file = origin.file().map(Into::into);
    let mut setup = Setup::new(Launch { fixed: settings.fixed(), file, verbosity })?;
    let prepared = Prepared::open(settings.carrier.clone(), &mut setup)?;
    let http = server::bind(settings.config.http.0)?;
    let shards = Arc::new(Shards::new(&settings, Names::read(&settings)?));
    let service: Service<Analyser<'_>> =
        setup.start(Needs { capabilities: prepared.privileges(), ..needs(&settings) })?;

    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    // Only now it is known as whom it is written.
    settings.config.state.as_deref().map_or(Ok(()), writable).map_err(|why| anyhow!("state {why}"))?;
    let keeper = settings.config.state.clone().and_then(|path| Keeper::restore(path, &shards, &settings));
    let cells: Arc<[Arc<Cells>]> = (0..settings.carrier.workers).map(|_| Arc::default()).collect();
    let tap = |(worker, cells): (usize, &Arc<Cells>)| -> Box<dyn Tap> {
        Box::new(Collector::new(worker, shards.clone(), cells.clone()))
    };
    let carrier = prepared.start(&service, cells.iter().enumerate().map(tap).collect())?;
    let protection = settings.protect.as_ref().map(|protect| {
        let atlas = Atlas::of(&shards.lookups());
        let (protection, outlets) = Protection::start(protect.clone(), shards.len(), atlas)?;
        shards.protect(outlets);
        anyhow::Ok(Mutex::new(protection))
    });
    let protection = protection.transpose()?;
    let router = protection.as_ref().and_then(|protection| held(protection).router());
    let serving = server::serve(http, shards.clone(), shards.clone(), settings.api(), router)?;
    let state = Arc::new(State { workers: carrier.workers().clone(), cells, shards, protection });
    let mut room = Analyser::new(origin, settings, carrier, state, serving.local_addr(), keeper);
    let outcome = service.run(&mut room);
    drop(serving);
    outcome.map(|()| room.outcome())
}

/// What the user that the analyser becomes may not open of its files, in one line.
///
/// # Errors
/// There is no such user.
pub fn hindrance(origin: &Origin, settings: &Settings) -> Result<Option<String>> {
    hindered(settings.fixed().user.as_deref(), &needs(settings), origin.file())
}

/// Files of names and secrets are read by a reload, state and journal read at the start and written.
fn needs(settings: &Settings) -> Needs {
    let (config, protect) = (&settings.config, settings.protect.as_deref());
    let secrets = protect.into_iter().flat_map(weir_protect::settings::Settings::secrets);
    let written = [config.state.as_ref(), protect.and_then(|protect| protect.journal.as_ref())];
    let written: Vec<_> = written.into_iter().flatten().cloned().collect();
    let folders = written.iter().map(|path| folder(path).to_owned()).collect();
    let names = config.geoip.country.iter().chain(&config.geoip.asn).cloned();
    Needs {
        capabilities: Vec::new(),
        reads: names.chain(secrets).chain(written).collect(),
        folders,
        is_unconfined: protect.is_some_and(|protect| !protect.hooks.command.is_empty()),
    }
}

/// The room that protects. Only a reload changes it.
fn held(protection: &Mutex<Protection>) -> MutexGuard<'_, Protection> {
    protection.lock().unwrap_or_else(PoisonError::into_inner)
}
