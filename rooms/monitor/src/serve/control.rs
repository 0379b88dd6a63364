//! The life of a server: start, reloads, an orderly end.
//!
//! ```text
//! one thread:  groups joined, the HTTP address bound, keys read -> privileges given up
//! then:        thread receive -> HTTP -> the room runs, as every service does (weir_service)
//! ```

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use weir_program::config::Document;
use weir_program::stop::Stop;
use weir_service::privileges::Needs;
use weir_service::{Launch, Service, Setup};

use super::config::{Config, Origin};
use super::keeper::Keeper;
use super::ledger::Ledger;
use super::open::Open;
use super::publish::Publisher;
use super::room::{Parts, Server};
use super::settings::Keys;
use crate::api;
use weir_signal::history::History;
use weir_signal::receive::{Follow, Receiver};
use weir_signal::seal::{GroupKey, Opener, PublicKey, Sealer};

/// Runs a server until it is asked to end; returns the final ledger.
///
/// # Errors
/// One line: a group cannot be joined, an address is taken, a key cannot be read, a thread cannot be started.
pub fn run(origin: &Origin, config: Config, verbosity: u8) -> Result<Ledger> {
    let settings = config.settings(&Document::default())?;
    let file = origin.file().map(Into::into);
    let setup = Setup::new(Launch { fixed: config.fixed(), file, verbosity })?;
    let mut receiver = Receiver::open(&settings.receive)?;
    receiver.set_keys(opener(&settings.keys)?);
    let http = api::Server::bind(settings.http)?;
    let publisher = settings.publish.as_ref().map(|publish| {
        Publisher::open(publish, Sealer::read(settings.keys.group.as_deref(), publish.sign.as_deref())?)
    });
    let publisher = publisher.transpose()?;
    let service: Service<Server<'_>> = setup.start(Needs::default())?;

    receiver.addresses().iter().for_each(|address| tracing::info!("listening: {address}"));
    receiver.remarks().iter().for_each(|remark| tracing::warn!("{remark}"));
    let history = Arc::new(History::new(settings.history));
    let open = Open::new(history, &settings.watching, receiver.shared());
    let open = Arc::new(open.telling(publisher.as_ref().map(Publisher::sent)));
    open.outputs.change(&settings.outputs, &open.history);
    open.set_peers(settings.peers.clone());
    let stop = Stop::new().context("make a stop")?;
    let pulse = service.pulse("receive");
    let (shared, stopped) = (open.clone(), stop.clone());
    let receive = move || {
        let mut follow = Follow::new(Keeper::new(&shared)).counting(shared.changes.clone());
        receiver.run(&mut follow, &stopped, &pulse);
    };
    let receiving = thread::Builder::new().name("receive".into()).spawn(receive).context("start thread receive")?;
    let (shared, stopped, pulse) = (open.clone(), stop.clone(), service.pulse("outputs"));
    let outputs = move || shared.outputs.run(&shared.history, &stopped, &pulse);
    let outputs = thread::Builder::new().name("outputs".into()).spawn(outputs).context("start thread outputs")?;
    let mut threads = vec![receiving, outputs];
    if let Some(mut publisher) = publisher {
        let (shared, stopped, pulse) = (open.clone(), stop.clone(), service.pulse("publish"));
        let publish = move || publisher.run(&shared, &stopped, &pulse);
        threads.push(thread::Builder::new().name("publish".into()).spawn(publish).context("start thread publish")?);
    }
    let serving = http.serve(open.clone(), settings.api.clone())?;
    let parts = Parts { open: open.clone(), stop, threads, http: serving.local_addr() };
    let mut room = Server::new(origin, config, settings, parts);
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
