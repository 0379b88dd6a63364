//! The life of a server: start, reloads, an orderly end.
//!
//! ```text
//! one thread:  groups joined, the HTTP address bound, keys read -> privileges given up
//! then:        thread receive -> HTTP -> the room runs, as every service does (weir_service)
//! ```

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use weir_service::stop::Stop;
use weir_service::{Launch, Service, Setup};

use super::config::{Config, Origin};
use super::keeper::Keeper;
use super::ledger::Ledger;
use super::open::Open;
use super::room::{Parts, Server};
use super::settings::Keys;
use crate::api;
use crate::receive::Receiver;
use crate::seal::{GroupKey, Opener, PublicKey};

/// Runs a server until it is asked to end; returns the final ledger.
///
/// # Errors
/// One line: a group cannot be joined, an address is taken, a key cannot be read, a thread cannot be started.
pub fn run(origin: &Origin, config: Config, verbosity: u8) -> Result<Ledger> {
    let Config { settings, fixed } = config;
    let setup = Setup::new(Launch { fixed, file: origin.base.file().cloned(), verbosity })?;
    let mut receiver = Receiver::open(&settings.receive)?;
    receiver.set_opener(opener(&settings.keys)?);
    let http = api::Server::bind(settings.http)?;
    let service: Service<Server<'_>> = setup.start(&[])?;

    receiver.remarks().iter().for_each(|remark| tracing::warn!("{remark}"));
    let open = Arc::new(Open::new(&settings, receiver.shared()));
    let stop = Stop::new().context("make a stop")?;
    let pulse = service.pulse("receive");
    let (shared, stopped) = (open.clone(), stop.clone());
    let receive = move || {
        let mut keeper = Keeper::new(&shared);
        receiver.run(&mut keeper, &stopped, &pulse);
    };
    let receiving = thread::Builder::new().name("receive".into()).spawn(receive).context("start thread receive")?;
    let serving = http.serve(open.clone(), settings.api.clone())?;
    let parts = Parts { open: open.clone(), stop, receiving: Some(receiving), http: serving.local_addr() };
    let mut room = Server::new(origin, settings, parts);
    let outcome = service.run(&mut room);
    drop(serving);
    outcome.map(|()| open.account())
}

/// Opens what is sealed with these keys.
///
/// # Errors
/// One line: a file of them cannot be read, or is open to others.
pub fn opener(keys: &Keys) -> Result<Opener> {
    let group = keys.group.as_deref().map(GroupKey::read).transpose()?;
    let senders = keys.senders.iter().map(|path| PublicKey::read(path)).collect::<Result<_, _>>()?;
    Ok(Opener::new(group, senders))
}
