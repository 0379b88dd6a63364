//! The life of a tee: start, reloads, names that move, and an orderly end.
//!
//! ```text
//! one thread:  sockets passed -> privileges checked -> plan -> sockets opened -> privileges given up
//! then:        names -> workers -> the room runs, as every service does (weir_service)
//! signals --> queue --> the control thread alone changes the plan; every second it looks whether names have moved
//! ```

mod carrier;
mod liveness;
mod names;
mod neighbours;
mod privileges;
mod room;
mod state;
mod verdicts;

use std::sync::Arc;

use anyhow::{Result, anyhow};
use weir_service::screen::Ended;
use weir_service::{Launch, Service, Setup};

use crate::config::{Config, Origin};
use crate::screen;
use room::Tee;
use state::State;
use weir_forward::ledger::Ledger;
use weir_forward::sockets::OpenError;

pub use carrier::{Carrier, Prepared};

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
    let Config { settings, fixed, warnings, .. } = config;
    let threads = settings.workers;
    let mut setup = Setup::new(Launch { fixed, file: origin.file().map(Into::into), verbosity: options.verbosity })?;
    let prepared = Prepared::open(settings, &mut setup).map_err(|error| {
        // What fails was warned of, with the file's line.
        let name = error.downcast_ref::<OpenError>().and_then(OpenError::destination);
        let told = name.and_then(|name| warnings.iter().find(|told| told.contains(&format!("destination `{name}`: "))));
        told.map_or(error, |told| anyhow!(told.clone()))
    })?;
    let mut service: Service<Tee<'_>> = setup.start(prepared.privileges())?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let carrier = prepared.start(&service, Vec::new())?;
    let state = Arc::new(State::new(carrier.workers().clone(), threads));
    if options.watch {
        let state = state.clone();
        service.show(move |stop| {
            let shown = screen::run(|| state.workers.ledger(), stop);
            // Datagrams move all the same.
            Ok(shown.inspect_err(|error| tracing::warn!("show the ledger: {error}")).unwrap_or(Ended::Stopped))
        });
    }
    let mut tee = Tee::new(origin, carrier, state);
    service.run(&mut tee)?;
    Ok(tee.ledger())
}
