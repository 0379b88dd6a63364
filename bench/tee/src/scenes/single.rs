//! What a datagram costs beside samplicator, which is asked for where each goes on its own: singly, in small bursts, and
//! as fast as it goes; short ones, ones in fragments, the longest.

use std::time::Duration;

use anyhow::Result;
use bench_measure::{Report, median};
use serde_json::json;

use super::Scale;
use super::cpu::{Load, measure};
use crate::network::{Network, Shape};
use crate::replicator::{Kind, Programs};
use crate::stream::Stream;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    let peer = if programs.has(Kind::Samplicate) { Kind::Samplicate } else { Kind::OneSocket };
    println!("CPU us a datagram, {} / weir tee, and how much cheaper weir is; sinks drop at ingress", peer.name());
    for offload in [true, false] {
        let network = Network::new(Shape { runs_arrive: false, drop: true, offload })?;
        for pace in [Pace::Singly, Pace::Bursts, Pace::Saturated] {
            let name = format!("{}, segmentation offload {}", pace.name(), if offload { "on" } else { "off" });
            if scale.only.is_some_and(|words| !name.contains(words)) {
                continue;
            }
            println!("  {name}");
            println!(
                "    {:>6}{}",
                "bytes",
                DESTINATIONS.map(|count| format!("{:>22}", format!("to {count}"))).concat()
            );
            for size in SIZES {
                let mut row = format!("    {size:>6}");
                for destinations in DESTINATIONS {
                    let load = Load { stream: pace.stream(size), destinations, drop: true };
                    let mut costs = [Vec::new(), Vec::new()];
                    for _ in 0..scale.rounds {
                        for (kind, costs) in [peer, Kind::Weir].into_iter().zip(&mut costs) {
                            costs.push(measure(programs, kind, &network, &load, scale)?.cost);
                        }
                    }
                    let [theirs, ours] = costs;
                    let ratios: Vec<f64> = theirs.iter().zip(&ours).map(|(theirs, ours)| theirs / ours).collect();
                    let (ratio, theirs, ours) = (median(&ratios), median(&theirs), median(&ours));
                    let what = format!("{size} bytes to {destinations}, {name}");
                    let goal = if pace == Pace::Bursts && destinations == 2 && size == 1_000 { 2.0 } else { 1.0 };
                    report.goal(&what, &format!(">= {goal}"), &format!("{ratio:.2} x cheaper"), ratio >= goal);
                    report.figure(json!({"scene": "single", "pace": pace.name(), "offload": offload, "bytes": size,
                        "destinations": destinations, "peer": peer.name(), "peer_us": theirs, "us": ours, "gain": ratio}));
                    row += &format!("{:>22}", format!("{theirs:.1}/{ours:.1} {ratio:.2} x"));
                }
                println!("{row}");
            }
        }
    }
    Ok(())
}

/// How datagrams come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Singly,
    Bursts,
    Saturated,
}

impl Pace {
    fn name(self) -> &'static str {
        match self {
            Pace::Singly => "singly paced",
            Pace::Bursts => "bursts of 8",
            Pace::Saturated => "saturated",
        }
    }

    fn stream(self, size: usize) -> Stream {
        // What either can take to 16, by a good margin.
        let rate = match size {
            0..=1_472 => 10_000.0,
            1_473..=9_000 => 1_500.0,
            _ => 200.0,
        };
        match self {
            Pace::Singly => Stream::paced(size, 1, rate),
            Pace::Bursts => Stream::paced(size, 8, rate),
            Pace::Saturated => Stream { size, run: if size > 1_472 { 1 } else { 64 }, interval: Duration::ZERO },
        }
    }
}

const SIZES: [usize; 4] = [200, 1_000, 9_000, 64_000];
const DESTINATIONS: [usize; 5] = [1, 2, 4, 8, 16];
