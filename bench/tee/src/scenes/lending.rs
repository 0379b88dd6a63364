//! What it buys that a worker which one source fills lends lanes to others: the same workers, with and without it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, median};
use serde_json::json;
use weir_kernel::links::Netlink;
use weir_tee::config::document::{Destination, Document, Listener};
use weir_tee::config::values::Address;
use weir_tee::config::{Config, Local};
use weir_tee::plan::Plan;
use weir_tee::settings::{Settings, Target};
use weir_tee::sockets::Sockets;
use weir_tee::worker::Workers;

use super::Scale;
use crate::network::{LISTENER, Network, Shape, sink};
use crate::replicator::Programs;
use crate::stream::{Stream, patience, while_sending};

pub(crate) fn run(_: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("Lending of lanes: one source, more than one worker carries, {SIZE} bytes to {DESTINATIONS} destinations");
    println!("  the workers of the tee in this process, sinks drop at ingress; rounds of pairs, with over without");
    for Case { name, shape, rate } in CASES {
        println!("  {name}, {:.0} k/s offered", rate / 1e3);
        let network = Network::new(shape)?;
        for workers in [2, 4] {
            let mut pairs = Vec::new();
            for round in 0..scale.rounds {
                let look = |lending| look(&network, workers, lending, rate, scale.cost * 5);
                // Whichever is first, it is the other's turn the next time.
                pairs.push(if round % 2 == 0 {
                    let without = look(false)?;
                    (without, look(true)?)
                } else {
                    let with = look(true)?;
                    (look(false)?, with)
                });
            }
            let middle = |of: fn(&(Look, Look)) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
            let gain = middle(|(without, with)| with.copied / without.copied);
            let cost = middle(|(without, with)| with.cost / without.cost);
            report.figure(json!({"scene": "lending", "case": name, "workers": workers, "rate_ratio": gain,
                "cost_ratio": cost, "without_kpps": middle(|(without, _)| without.copied / 1e3),
                "with_kpps": middle(|(_, with)| with.copied / 1e3)}));
            println!(
                "    {workers} workers   copied {gain:5.2} x ({:.0} -> {:.0} k/s)   CPU time a datagram {cost:5.2} x   \
                 busy without {:.2}, with {:.2} processors",
                middle(|(without, _)| without.copied / 1e3),
                middle(|(_, with)| with.copied / 1e3),
                middle(|(without, _)| without.busy),
                middle(|(_, with)| with.busy),
            );
        }
    }
    Ok(())
}

struct Case {
    name: &'static str,
    shape: Shape,
    /// Datagrams a second that the source offers: more than one worker carries, and little enough to leave its processor
    /// time for another.
    rate: f64,
}

const CASES: [Case; 3] = [
    Case {
        name: "GRO runs in, segmentation offload off",
        shape: Shape { runs_arrive: true, offload: false, drop: true },
        rate: 500e3,
    },
    Case {
        name: "GRO runs in, segmentation offload on",
        shape: Shape { runs_arrive: true, offload: true, drop: true },
        rate: 2.5e6,
    },
    Case {
        name: "single datagrams in, segmentation offload on",
        shape: Shape { runs_arrive: false, offload: true, drop: true },
        rate: 700e3,
    },
];

/// One look at workers.
struct Look {
    /// Datagrams a second that were copied to all destinations.
    copied: f64,
    /// CPU time a datagram, seconds.
    cost: f64,
    /// CPU time a second.
    busy: f64,
}

fn look(network: &Network, workers: usize, lending: bool, rate: f64, time: Duration) -> Result<Look> {
    let plan = Plan::build(Arc::new(settings(workers, lending)?), &BTreeMap::new(), None);
    let start = || -> Result<Workers> {
        let sockets = Sockets::open(&plan, Vec::new(), None)?;
        Ok(Workers::start(plan, sockets)?)
    };
    let tee = network.tee.run(start)??;
    let mut netlink = Netlink::open(&network.tee)?;
    let before = network.left(&mut netlink, SIZE)?;
    let (look, _) = while_sending(&Stream::paced(SIZE, RUN, rate), &network.source, LISTENER, |progress| {
        let deadline = patience();
        while network.left(&mut netlink, SIZE)? == before || progress.sent.load(Ordering::Relaxed) == 0 {
            ensure!(Instant::now() < deadline, "the workers send nothing");
            sleep(Duration::from_millis(1));
        }
        // Until queues are full, and lanes are where they stay.
        sleep(WARM_UP);
        let mut snapshot = || -> Result<(Instant, f64, f64)> {
            let cpu: Duration = tee.cpu_times().iter().sum();
            Ok((Instant::now(), cpu.as_secs_f64(), network.left(&mut netlink, SIZE)? as f64))
        };
        let (start, cpu_before, left_before) = snapshot()?;
        sleep(time);
        let (end, cpu, left) = snapshot()?;
        let (seconds, cpu) = ((end - start).as_secs_f64(), cpu - cpu_before);
        let copied = (left - left_before) / DESTINATIONS as f64;
        Ok(Look { copied: copied / seconds, cost: cpu / copied, busy: cpu / seconds })
    })?;
    tee.stop(Duration::ZERO);
    ensure!(tee.ledger().closed, "the ledger does not close: {:#?}", tee.ledger());
    Ok(look)
}

/// As flags would have them, with every default.
fn settings(workers: usize, lending: bool) -> Result<Settings> {
    let destination = |index| Destination::to(Target::Address(sink(index).into()));
    let listener = Listener {
        name: None,
        address: Address(LISTENER.into()),
        last_port: None,
        interface: None,
        join: None,
        receive_buffer: None,
    };
    let document = Document {
        workers: Some(workers),
        listeners: vec![listener],
        destinations: (0..DESTINATIONS).map(destination).collect(),
        ..Document::default()
    };
    let Config { settings, .. } = Config::from_flags(&document, &Local::default()).context("settings")?;
    Ok(Settings { lending, ..settings })
}

const SIZE: usize = 1000;
const DESTINATIONS: usize = 8;

/// Datagrams that the source sends at once.
const RUN: usize = 64;

/// Lanes change hands within some windows of 50 ms.
const WARM_UP: Duration = Duration::from_millis(700);
