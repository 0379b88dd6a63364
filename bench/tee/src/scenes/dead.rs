//! What a live destination gets while two others never answer ARP.

use std::time::Duration;

use anyhow::Result;
use bench_measure::{Report, median};
use serde_json::json;

use super::Scale;
use super::delay::{Experience, RATE, SIZE};
use crate::network::{DEAD, LISTENER, Network, SINGLES, sink};
use crate::replicator::{Kind, Place, Programs};

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!(
        "One live destination and two that never answer ARP; {RATE:.0} datagrams/s of {SIZE} bytes, default settings"
    );
    let network = Network::new(SINGLES)?;
    let rounds = scale.rounds as u32;
    let (with_dead, alone) = (scale.dead / rounds, scale.dead / rounds / 4);
    let look = |kind: Kind, dead: bool, time: Duration| -> Result<Experience> {
        // The dead come first, where a sender that waits for them does most harm.
        let live = sink(0);
        let to = if dead { vec![DEAD[0], DEAD[1], live] } else { vec![live] };
        let _replicator = programs.start(kind, &network, &to, Place::Anywhere)?;
        if !dead {
            network.await_flow(1)?;
        }
        Experience::of(&network, LISTENER, live, time)
    };
    if programs.has(Kind::Weir) {
        let mut looks = Vec::new();
        for _ in 0..rounds {
            looks.push((look(Kind::Weir, false, alone)?, look(Kind::Weir, true, with_dead)?));
        }
        print(Kind::Weir, &looks, report);
    }
    for kind in [Kind::PmacctDefaults, Kind::Plain, Kind::OneSocket] {
        if programs.has(kind) {
            let time = (scale.dead / 20).max(UNTIL_FULL);
            print(kind, &[(look(kind, false, time)?, look(kind, true, time)?)], report);
        }
    }
    Ok(())
}

/// Looks without dead destinations and with them.
fn print(kind: Kind, looks: &[(Experience, Experience)], report: &mut Report) {
    let p99 = |of: fn(&(Experience, Experience)) -> &Experience| {
        median(&looks.iter().map(|pair| of(pair).quantile(0.99)).collect::<Vec<_>>())
    };
    let (alone, with_dead) = (p99(|pair| &pair.0), p99(|pair| &pair.1));
    let sum = |of: fn(&Experience) -> u64| looks.iter().map(|(_, with_dead)| of(with_dead)).sum::<u64>();
    let (sent, arrived) = (sum(|e| e.sent), sum(|e| e.arrived));
    let arrived_alone: u64 = looks.iter().map(|(alone, _)| alone.arrived).sum();
    let sent_alone: u64 = looks.iter().map(|(alone, _)| alone.sent).sum();
    report.figure(json!({"scene": "dead", "replicator": kind.name(), "sent": sent, "arrived": arrived,
        "sent_alone": sent_alone, "arrived_alone": arrived_alone, "p99_alone_us": alone, "p99_us": with_dead}));
    let (mut first, mut second) = (String::new(), String::new());
    if kind == Kind::Weir {
        let measured = format!("{arrived} of {sent}");
        first = report.goal("the live one beside dead ones", "100 %", &measured, arrived == sent);
        let bound = (alone * 1.2).max(alone + 50.0);
        let measured = format!("{with_dead:.1} us, {alone:.1} us without dead ones");
        let goal = format!("<= {bound:.1} us");
        second = report.goal("its p99 delay", &goal, &measured, with_dead <= bound);
    }
    println!("  {:22} without: {arrived_alone} of {sent_alone}, p99 {alone:.1} us", kind.name());
    println!("  {:22} with:    {arrived} of {sent} {first}, p99 {with_dead:.1} us {second}", "");
}

/// The queue of an unresolved neighbour has filled by then, and with it a blocking sender's buffer.
const UNTIL_FULL: Duration = Duration::from_secs(3);
