//! `weir monitor record`: a receiver and an archive, nothing between them.
//!
//! ```text
//! receiver's thread: datagrams -> streams, gaps -> Recorder -> batches -> archive's thread -> files
//! ```

pub mod config;
mod room;

use std::io;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use weir_program::ledger;
use weir_program::stop::Stop;
use weir_service::privileges::Needs;
use weir_service::{Launch, Setup};

use crate::archive::{self, Recorder};
use crate::serve::control::opener;
use crate::serve::settings::Keys;
use config::{Config, Origin};
use room::{Room, State};
use weir_signal::receive::{self, Receiver};

/// What a recorder is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What it receives.
    pub receive: receive::Settings,
    /// By what it is opened.
    pub keys: Keys,
    /// Where it keeps it.
    pub archive: archive::Settings,
}

ledger! {
    /// The account: what was received, and what became of it.
    pub struct Ledger {
        /// Seconds since the start.
        elapsed_s: f64,
        /// Whether nothing is unexplained.
        closed: bool,
        /// What is unexplained, of both accounts together.
        unexplained: i64,
        /// Datagrams and samples that came.
        received: receive::Counts => each,
        /// What was kept of them.
        archive: archive::Ledger => each,
    }
}

/// Records until it is asked to end; returns the final ledger.
///
/// # Errors
/// One line: an address or the directory cannot be had, a thread cannot be started.
pub fn run(origin: &Origin, config: &Config, verbosity: u8) -> Result<Ledger> {
    let settings = config.settings();
    let file = origin.file().map(Into::into);
    let setup = Setup::new(Launch { fixed: config.fixed(), file, verbosity })?;
    let mut receiver = Receiver::open(&settings.receive)?;
    receiver.set_keys(opener(&settings.keys)?);
    let folders = vec![settings.archive.directory.clone()];
    let service = setup.start(Needs { folders, ..Needs::default() })?;
    receiver.remarks().iter().for_each(|remark| tracing::warn!("{remark}"));

    let archive = Arc::new(archive::State::default());
    let directory = settings.archive.directory.display();
    let failed = |error: io::Error| {
        anyhow!(
            "write to {directory}: {error} (make it writable for the user who runs this, or choose another: --dir DIR)"
        )
    };
    let mut recorder = Recorder::start(&settings.archive, archive.clone(), service.pulse("archive")).map_err(failed)?;
    let (state, stop) = (Arc::new(State::new(receiver.shared(), archive)), Stop::new()?);
    let pulse = service.pulse("receive");
    let stopped = stop.clone();
    let receive = move || {
        receiver.run(&mut recorder, &stopped, &pulse);
        recorder.finish();
    };
    let receive = thread::Builder::new().name("receive".into()).spawn(receive).context("start the receiving thread")?;
    let mut room = Room::new(origin, settings, state.clone(), stop, receive);
    service.run(&mut room)?;
    Ok(state.final_ledger())
}
