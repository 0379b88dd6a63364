//! Two loads that must pass whole: the published one, and one of small datagrams.

use std::time::Duration;

use anyhow::Result;
use bench_measure::Report;
use serde_json::json;

use super::Scale;
use crate::network::{LISTENER, Network, SINGLES, sink};
use crate::replicator::{Kind, Place, Programs};
use crate::sinks::{Look, Sinks};
use crate::stream::{Progress, Stream};

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("To two sinks that compare every byte; default settings");
    for (size, run, bits_per_s) in [(64_000, 1, 100e6), (1000, 16, 1e9)] {
        let load = format!("{:.0} Mbit/s of {size}-byte datagrams", bits_per_s / 1e6);
        println!("  {load} for {:?}", scale.load);
        let stream = Stream::paced(size, run, bits_per_s / 8.0 / size as f64);
        for kind in [Kind::Weir, Kind::Plain] {
            if !programs.has(kind) {
                continue;
            }
            let time = if kind == Kind::Weir { scale.load } else { scale.load / 3 };
            let (sent, lost, broken, early) = carry(programs, kind, &stream, time)?;
            report.figure(json!({"scene": "load", "load": load, "replicator": kind.name(), "sent": sent,
                "lost": lost, "broken": broken}));
            let early = if early > 0 { format!(" ({early} in a full receive buffer)") } else { String::new() };
            let measured = format!("{} and {} of {sent} lost{early}, {broken} not whole", lost[0], lost[1]);
            let verdict = match kind {
                Kind::Weir => report.goal(&load, "0 lost, all whole", &measured, lost == [0, 0] && broken == 0),
                _ => String::new(),
            };
            println!("    {:12} {measured} {verdict}", kind.name());
        }
    }
    Ok(())
}

/// How many were sent, how many each sink lacks, how many are not as they were sent, and how many found the receive
/// buffer full.
fn carry(programs: &Programs, kind: Kind, stream: &Stream, time: Duration) -> Result<(u64, [u64; 2], u64, u64)> {
    let network = Network::new(SINGLES)?;
    let to = [sink(0), sink(1)];
    let _replicator = programs.start(kind, &network, &to, Place::Anywhere)?;
    let sinks = Sinks::open(&network.sinks, &to, stream.size, Look::Whole)?;
    let sent = (time.as_secs_f64() / stream.interval.as_secs_f64()) as u64 * stream.run as u64;
    let work = || stream.send(&network.source, LISTENER, &Progress::default(), sent);
    let ((), tallies) = sinks.while_reading(Duration::from_millis(300), work)?;
    let broken = tallies.iter().map(|tally| tally.broken + tally.repeated).sum();
    Ok((sent, [tallies[0].lost(sent)?, tallies[1].lost(sent)?], broken, network.listener_drops()?))
}
