//! What a datagram of 1000 bytes costs the replicator, its processor time over the datagrams that came in.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_measure::{Report, median};
use serde_json::json;
use weir_kernel::links::Netlink;

use super::Scale;
use crate::network::{LISTENER, Network, Shape, sink};
use crate::replicator::{Kind, Place, Programs};
use crate::sinks::{Look, Sinks};
use crate::stream::{Stream, patience, while_sending};

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("CPU time a datagram of {SIZE} bytes; the replicator on one processor, source and sinks on the other");
    for case in cases().into_iter().filter(|case| scale.only.is_none_or(|words| case.name().contains(words))) {
        let mut samples: Vec<(Kind, Vec<Sample>)> = Vec::new();
        for &kind in case.contestants {
            if programs.has(kind) {
                samples.push((kind, Vec::new()));
            }
        }
        let network = Network::new(case.shape)?;
        for _ in 0..scale.rounds {
            for (kind, samples) in &mut samples {
                let load = Load { stream: case.input.stream(), destinations: case.destinations, drop: case.shape.drop };
                samples.push(measure(programs, *kind, &network, &load, scale)?);
            }
        }
        print(&case, &samples, report);
    }
    Ok(())
}

const SIZE: usize = 1000;

/// One comparison.
struct Case {
    input: Input,
    shape: Shape,
    destinations: usize,
    contestants: &'static [Kind],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Single datagrams, more than anyone can take.
    Saturated,
    /// Single datagrams, some at once, then none for a while.
    Bursts,
    /// Runs, as GRO makes them, more than anyone can take.
    Runs,
}

impl Input {
    fn stream(self) -> Stream {
        match self {
            Input::Saturated | Input::Runs => Stream { size: SIZE, run: 64, interval: Duration::ZERO },
            Input::Bursts => Stream { size: SIZE, run: 32, interval: Duration::from_millis(2) },
        }
    }
}

fn cases() -> Vec<Case> {
    const ALL: &[Kind] = &[Kind::Plain, Kind::Batch, Kind::Gso, Kind::Weir, Kind::Pmacct];
    const FEW: &[Kind] = &[Kind::Plain, Kind::Gso, Kind::Weir];
    const GRO: &[Kind] = &[Kind::Plain, Kind::GroGso, Kind::Weir];
    const ONE: &[Kind] = &[Kind::Plain, Kind::Gso, Kind::Weir, Kind::Socat];
    let shape = |drop, offload| Shape { runs_arrive: false, drop, offload };
    let mut cases = vec![Case { input: Input::Saturated, shape: shape(true, true), destinations: 1, contestants: ONE }];
    for drop in [true, false] {
        for offload in [true, false] {
            for destinations in [2, 8] {
                let contestants = if drop && offload { ALL } else { FEW };
                cases.push(Case { input: Input::Saturated, shape: shape(drop, offload), destinations, contestants });
            }
        }
    }
    for drop in [true, false] {
        for offload in [true, false] {
            for destinations in [2, 8] {
                cases.push(Case { input: Input::Bursts, shape: shape(drop, offload), destinations, contestants: FEW });
            }
        }
    }
    for drop in [true, false] {
        for offload in [true, false] {
            for destinations in [2, 8] {
                let shape = Shape { runs_arrive: true, ..shape(drop, offload) };
                cases.push(Case { input: Input::Runs, shape, destinations, contestants: GRO });
            }
        }
    }
    cases
}

impl Case {
    fn name(&self) -> String {
        let input = match self.input {
            Input::Saturated => "saturated",
            Input::Bursts => "bursts of 32 every 2 ms",
            Input::Runs => "saturated, GRO runs in",
        };
        let sinks = if self.shape.drop { "dropping at ingress" } else { "real sockets" };
        let offload = if self.shape.offload { "on" } else { "off" };
        format!("{input}, to {} {sinks}, segmentation offload {offload}", self.destinations)
    }

    /// The goal: how much cheaper than the plain loop, as words and a number. `c_gain`: how much the best C loop is.
    fn goal(&self, c_gain: Option<f64>) -> Option<(String, f64)> {
        match (self.input, self.destinations, c_gain) {
            (Input::Saturated, 2, _) => Some((">= 2".into(), 2.0)),
            (Input::Saturated, 8, _) => Some((">= 4.5".into(), 4.5)),
            (Input::Runs, _, _) => Some((">= 6".into(), 6.0)),
            (Input::Bursts, _, Some(gain)) => Some((format!(">= {:.2}, 90 % of C GSO's", gain * 0.9), gain * 0.9)),
            _ => None,
        }
    }
}

/// What a replicator has to do.
pub(super) struct Load {
    pub(super) stream: Stream,
    pub(super) destinations: usize,
    /// Whether sinks drop at ingress what comes.
    pub(super) drop: bool,
}

/// One look at one replicator.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// CPU time a datagram, us.
    pub(super) cost: f64,
    /// Datagrams a second, thousands: offered, and copied to all.
    offered: f64,
    copied: f64,
    /// The replicator's share of its processor.
    busy: f64,
    /// Of what left for the sinks, the share that their sockets had room for; 1 for those that drop.
    received: f64,
}

pub(super) fn measure(programs: &Programs, kind: Kind, network: &Network, load: &Load, scale: Scale) -> Result<Sample> {
    let Load { stream, destinations, drop } = load;
    let size = stream.size;
    let to: Vec<_> = (0..*destinations).map(sink).collect();
    let replicator = programs.start(kind, network, &to, Place::Pinned)?;
    let mut netlink = Netlink::open(&network.tee)?;
    let before = network.left(&mut netlink, size)?;
    let mut look = || {
        while_sending(stream, &network.source, LISTENER, |progress| {
            let deadline = patience();
            while network.left(&mut netlink, size)? == before {
                ensure!(Instant::now() < deadline, "{} sends nothing", kind.name());
                sleep(Duration::from_millis(1));
            }
            // Until queues have their usual length.
            sleep(WARM_UP);
            let snapshot = |netlink: &mut Netlink| -> Result<[f64; 4]> {
                let cpu = replicator.cpu_time()?.as_secs_f64();
                let left = network.left(netlink, size)? as f64 / *destinations as f64;
                let sent = progress.sent.load(Ordering::Relaxed) as f64;
                Ok([clock()?, cpu, left, sent])
            };
            let first = snapshot(&mut netlink)?;
            sleep(scale.cost);
            let mut last = snapshot(&mut netlink)?;
            // On a machine with much else to do it may not have had its turn.
            while last[2] - first[2] < LEAST_COPIED {
                ensure!(Instant::now() < deadline, "{} copied next to nothing in 10 s", kind.name());
                sleep(scale.cost);
                last = snapshot(&mut netlink)?;
            }
            Ok([0, 1, 2, 3].map(|index| last[index] - first[index]))
        })
    };
    let ([time, cpu, copied, sent], received) = if *drop {
        (look()?.0, 1.0)
    } else {
        let sinks = Sinks::open(&network.sinks, &to, size, Look::Count)?;
        let ((figures, _), tallies) = sinks.while_reading(Duration::from_millis(20), look)?;
        let taken: u64 = tallies.iter().map(|tally| tally.distinct + tally.repeated).sum();
        (figures, taken as f64 / (network.left(&mut netlink, size)? - before) as f64)
    };
    Ok(Sample {
        cost: cpu / copied * 1e6,
        offered: sent / time / 1e3,
        copied: copied / time / 1e3,
        busy: cpu / time,
        received,
    })
}

fn clock() -> Result<f64> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
    Ok(Duration::from(now).as_secs_f64())
}

fn print(case: &Case, samples: &[(Kind, Vec<Sample>)], report: &mut Report) {
    println!("  {}", case.name());
    let column = |samples: &[Sample], of: fn(&Sample) -> f64| median(&samples.iter().map(of).collect::<Vec<_>>());
    let plain: &[Sample] = samples.iter().find(|(kind, _)| *kind == Kind::Plain).map_or(&[], |(_, samples)| samples);
    // Of the looks of one round, then over the rounds.
    let gain = |samples: &[Sample]| {
        median(&plain.iter().zip(samples).map(|(plain, other)| plain.cost / other.cost).collect::<Vec<_>>())
    };
    // The loop that does in C what weir does.
    let best = [Kind::Gso, Kind::GroGso];
    let best = samples.iter().find(|(kind, _)| best.contains(kind)).map(|(kind, samples)| (*kind, gain(samples)));
    for (kind, samples) in samples {
        let (cost, ratio) = (column(samples, |s| s.cost), gain(samples));
        let [offered, copied] = [column(samples, |s| s.offered), column(samples, |s| s.copied)];
        let (busy, received) = (column(samples, |s| s.busy), column(samples, |s| s.received));
        let verdict = match case.goal(best.map(|(_, gain)| gain)) {
            Some((goal, bound)) if *kind == Kind::Weir => {
                let beside = best.map_or(String::new(), |(kind, best)| {
                    // Of the time a datagram that the loop saves.
                    let saved = (1.0 - 1.0 / ratio) / (1.0 - 1.0 / best) * 100.0;
                    format!("; {} {best:.2} x, of whose saving it has {saved:.0} %", kind.name())
                });
                report.goal(&case.name(), &goal, &format!("{ratio:.2} x cheaper{beside}"), ratio >= bound)
            }
            _ => String::new(),
        };
        report.figure(json!({"scene": "cpu", "case": case.name(), "replicator": kind.name(), "us": cost,
            "gain": ratio, "offered_kpps": offered, "copied_kpps": copied, "busy": busy, "received_share": received}));
        let room = if received < 0.99 { format!(", sinks took {:.0} %", received * 100.0) } else { String::new() };
        println!(
            "    {:12} {cost:6.2} us {ratio:6.2} x {verdict:34} {copied:5.0} of {offered:4.0} k/s, busy {:3.0} %{room}",
            kind.name(),
            busy * 100.0
        );
    }
}

/// Until queues are as full as they stay.
const WARM_UP: Duration = Duration::from_millis(100);

/// Datagrams below which a look says nothing.
const LEAST_COPIED: f64 = 200.0;
