//! The start of a station: what needs privileges is opened, then they are given up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, Result};
use weir_program::clock::nanos;
use weir_service::privileges::Needs;
use weir_service::{Launch, Service, Setup};
use weir_wire::signal::Cause;

use super::board::Board;
use super::clock::SampleClock;
use super::config::{Config, Origin};
use super::ledger::Ledger;
use super::room::Station;
use super::settings::{Kind, Source};
use super::sources::{self, Next};
use super::state::State;
use super::worker::{FITS_WITHIN, Orders, Running, Worker};
use weir_signal::seal::Sealer;
use weir_signal::send::{Group, Outlets, Sender, Stream};

/// Runs a station until it is asked to end, or all its sources are over; returns the final ledger.
///
/// # Errors
/// One line: a source, a key or a socket cannot be opened, a privilege cannot be given up, a thread cannot be started.
pub fn run(origin: &Origin, config: &Config, verbosity: u8) -> Result<Ledger> {
    let sources = config.sources()?;
    let file = origin.file().map(Into::into);
    let setup = Setup::new(Launch { fixed: config.fixed(), file, verbosity })?;
    let streams = streams(config)?;
    let mut running = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let name = sources::name(source);
        let (missing, _) = sources::missing(source);
        running.push(Running { name, source: sources::open(number, source)?, next: Some(Next::At(0)), missing });
    }
    let service: Service<Station<'_>> = setup.start(needs(&sources))?;
    let (state, stop) = (Arc::new(State::new(&config.name.0.0)), Arc::new(AtomicBool::new(false)));
    let orders = Orders::default();
    let worker = Worker {
        name: config.name.0.0.clone(),
        clock: SampleClock::start(config.clock.map(Into::into)),
        board: Board::new(config, streams),
        sources: running,
        delay: nanos(config.delay.duration()),
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
    let mut station = Station::new(origin, config.clone(), sources, state, stop, orders, worker);
    service.run(&mut station)?;
    Ok(station.ledger())
}

/// A file that is followed is opened anew when another one takes its place.
fn needs(sources: &[Source]) -> Needs {
    let followed = sources.iter().filter_map(|source| match &source.kind {
        Kind::Tail(path, _) => Some(path.clone()),
        _ => None,
    });
    Needs { reads: followed.collect(), ..Needs::default() }
}

/// Display, and full where there is one.
fn streams(config: &Config) -> Result<Vec<Sender<Outlets>>> {
    let open = |(name, groups): (&str, Vec<Group>)| {
        let stream = Stream {
            station: config.name.0.0.clone(),
            name: name.into(),
            sealer: Sealer::read(config.encrypt.as_deref(), config.sign.as_deref())?,
            most_bytes: Outlets::most_bytes(groups.iter().map(|group| group.address))
                .min(usize::try_from(config.most_bytes.bytes)?),
            fault: Cause::Station,
        };
        Ok(Sender::new(stream, Outlets::open(&groups, config.ttl, config.dscp)?))
    };
    config.streams().map(open).collect()
}
