//! How much later a datagram arrives for having come through a tee.

use std::time::Duration;

use anyhow::{Result, ensure};
use bench_measure::{Report, median};
use serde_json::json;

use super::Scale;
use crate::network::{DIRECT, LISTENER, Network, SINGLES, sink};
use crate::replicator::{Kind, Place, Programs};
use crate::sinks::{Look, Sinks, Tally};
use crate::stream::{Progress, Stream};

/// What a stream of stamped datagrams experienced.
pub(crate) struct Experience {
    /// How many were sent.
    pub(crate) sent: u64,
    /// How many of them arrived at the first sink.
    pub(crate) arrived: u64,
    /// Their one-way delays, us, ascending.
    delays: Vec<f64>,
}

impl Experience {
    /// Sends single datagrams at [`RATE`] for `time` to `to`, and looks at what arrives at the address `at`.
    pub(crate) fn of(
        network: &Network,
        to: std::net::SocketAddrV4,
        at: std::net::SocketAddrV4,
        time: Duration,
    ) -> Result<Experience> {
        let sinks = Sinks::open(&network.sinks, &[at], SIZE, Look::Time)?;
        let sent = (time.as_secs_f64() * RATE) as u64;
        let stream = Stream::paced(SIZE, 1, RATE);
        let work = || stream.send(&network.source, to, &Progress::default(), sent);
        let ((), mut tallies) = sinks.while_reading(Duration::from_millis(200), work)?;
        let Tally { distinct, repeated, broken, delays, .. } = tallies.swap_remove(0);
        ensure!(repeated == 0 && broken == 0, "{repeated} datagrams arrived twice, {broken} broken");
        let mut delays: Vec<f64> = delays.into_iter().map(|delay| delay as f64 / 1e3).collect();
        delays.sort_by(f64::total_cmp);
        Ok(Experience { sent, arrived: distinct, delays })
    }

    /// A quantile of the delays of those that arrived, us; NaN: none did.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let index = (self.delays.len() as f64 * q) as usize;
        self.delays.get(index).copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    const REPLICATORS: [Kind; 3] = [Kind::Plain, Kind::Weir, Kind::PmacctDefaults];
    println!("Added one-way delay at {RATE:.0} datagrams/s of {SIZE} bytes to 2 destinations, us");
    println!(
        "  from just before the send call to the kernel's stamp at the first sink's interface, less the same quantile"
    );
    println!(
        "  of the same round over a cable from the source to the sink; nobody is bound to a processor but the source"
    );
    let kinds: Vec<Kind> = REPLICATORS.into_iter().filter(|kind| programs.has(*kind)).collect();
    let mut direct: Vec<Experience> = Vec::new();
    let mut through: Vec<Vec<Experience>> = kinds.iter().map(|_| Vec::new()).collect();
    let network = Network::new(SINGLES)?;
    for _ in 0..scale.rounds {
        direct.push(Experience::of(&network, DIRECT, DIRECT, scale.delay)?);
        for (&kind, experiences) in kinds.iter().zip(&mut through) {
            let _replicator = programs.start(kind, &network, &[sink(0), sink(1)], Place::Anywhere)?;
            network.await_flow(1)?;
            experiences.push(Experience::of(&network, LISTENER, sink(0), scale.delay)?);
        }
    }
    let quantile =
        |experiences: &[Experience], q| median(&experiences.iter().map(|e| e.quantile(q)).collect::<Vec<_>>());
    let count = direct[0].sent;
    let [p50, p99] = [0.5, 0.99].map(|q| quantile(&direct, q));
    println!("  {:22} p50 {p50:7.1}  p99 {p99:7.1}   n = {count} a round", "cable");
    for (kind, experiences) in kinds.iter().zip(&through) {
        let added = |q| {
            let rounds =
                direct.iter().zip(experiences).map(|(direct, through)| through.quantile(q) - direct.quantile(q));
            median(&rounds.collect::<Vec<_>>())
        };
        let ([p50, p99], lost) =
            ([added(0.5), added(0.99)], experiences.iter().map(|e| e.sent - e.arrived).sum::<u64>());
        let whole = [0.5, 0.99].map(|q| quantile(experiences, q));
        report.figure(json!({"scene": "delay", "replicator": kind.name(), "added_p50_us": p50, "added_p99_us": p99,
            "p50_us": whole[0], "p99_us": whole[1], "n": count, "lost": lost}));
        let verdict = if *kind == Kind::Weir {
            let half = report.goal("added delay, p50", "<= 50 us", &format!("{p50:.1} us"), p50 <= 50.0);
            half + " " + &report.goal("added delay, p99", "<= 200 us", &format!("{p99:.1} us"), p99 <= 200.0)
        } else {
            String::new()
        };
        println!("  {:22} p50 {p50:+7.1}  p99 {p99:+7.1}   {lost} lost {verdict}", kind.name());
    }
    Ok(())
}

/// Datagrams a second.
pub(crate) const RATE: f64 = 10_000.0;

pub(crate) const SIZE: usize = 1000;
