//! The start of a station: what needs privileges is opened, then they are given up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, Result};
use ring::rand::{SecureRandom, SystemRandom};
use weir_service::privileges::Needs;
use weir_service::{Launch, Service, Setup};
use weir_wire::signal::Cause;

use super::board::Board;
use super::clock::SampleClock;
use super::config::{Config, Origin};
use super::ledger::Ledger;
use super::room::Station;
use super::settings::{Group, Kind, Settings};
use super::sources::{self, Next};
use super::state::State;
use super::worker::{FITS_WITHIN, Orders, Running, Worker};
use crate::seal::{GroupKey, Sealer, SigningKey};
use crate::send::{Outlets, Sender, Stream};

/// Runs a station until it is asked to end, or all its sources are over; returns the final ledger.
///
/// # Errors
/// One line: a source, a key or a socket cannot be opened, a privilege cannot be given up, a thread cannot be started.
pub fn run(origin: &Origin, config: &Config, verbosity: u8) -> Result<Ledger> {
    let settings = config.settings()?;
    let file = origin.file().map(Into::into);
    let setup = Setup::new(Launch { fixed: config.fixed(), file, verbosity })?;
    let streams = streams(&settings)?;
    let mut running = Vec::new();
    for (number, source) in settings.sources.iter().enumerate() {
        let name = sources::name(source);
        let (missing, _) = sources::missing(source);
        running.push(Running { name, source: sources::open(number, source)?, next: Some(Next::At(0)), missing });
    }
    let service: Service<Station<'_>> = setup.start(needs(&settings))?;
    let (state, stop) = (Arc::new(State::new(&settings.name)), Arc::new(AtomicBool::new(false)));
    let orders = Orders::default();
    let worker = Worker {
        name: settings.name.clone(),
        clock: SampleClock::start(settings.clock),
        board: Board::new(&settings, streams),
        sources: running,
        delay: u64::try_from(settings.delay.as_nanos()).unwrap_or(u64::MAX),
        state: state.clone(),
        stop: stop.clone(),
        orders: orders.clone(),
        news: service.events(),
        pulse: service.pulse("station"),
        steps: 0,
        unfit: Some(FITS_WITHIN),
    };
    let worker = thread::Builder::new()
        .name("station".into())
        .spawn(|| worker.run())
        .context("start the thread of the station")?;
    let mut station = Station::new(origin, settings, state, stop, orders, worker);
    service.run(&mut station)?;
    Ok(station.ledger())
}

/// A file that is followed is opened anew when another one takes its place.
fn needs(settings: &Settings) -> Needs {
    let followed = settings.sources.iter().filter_map(|source| match &source.kind {
        Kind::Tail(path, _) => Some(path.clone()),
        _ => None,
    });
    Needs { reads: followed.collect(), ..Needs::default() }
}

/// Display, and full where there is one.
fn streams(settings: &Settings) -> Result<Vec<Sender<Outlets>>> {
    let open = |(name, groups): (&str, &Vec<Group>)| {
        let stream = Stream {
            station: settings.name.clone(),
            name: name.into(),
            session: session()?,
            sealer: sealer(settings)?,
            most_bytes: Outlets::most_bytes(groups).min(settings.most_bytes),
            fault: Cause::Station,
        };
        Ok(Sender::new(stream, Outlets::open(groups, settings.ttl, settings.dscp)?))
    };
    let streams = [("display", &settings.groups), ("full", &settings.full)];
    streams.into_iter().filter(|(_, groups)| !groups.is_empty()).map(open).collect()
}

fn sealer(settings: &Settings) -> Result<Sealer> {
    let group = settings.encrypt.as_deref().map(GroupKey::read).transpose()?;
    let signing = settings.sign.as_deref().map(SigningKey::read).transpose()?;
    Ok(Sealer::new(group, signing))
}

/// Random; never 0, which stands for none.
fn session() -> Result<u64> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).ok().context("no random numbers from the kernel")?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
