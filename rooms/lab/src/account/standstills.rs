//! Standstills of the machine during a cell, as far as they concern one path.

use std::collections::BTreeMap;

use weir_emulator::ledger::Late;
use weir_program::clock::Nanos;
use weir_report::columns::Statistic;
use weir_report::record::{self, Standstills};
use weir_report::timelines;
use weir_stats::Distribution;
use weir_traffic::{Transport, Window};

use super::book::arrow;
use super::{report, window};
use crate::cell::Measured;
use crate::machine::{Machine, Standstill};
use crate::scenario::{Mode, Scenario};
use crate::topology::Path;
use crate::validity::Conduct;

/// Those of the CPUs, and of the emulator on the path's links, in both directions.
pub(super) struct Stood {
    window: Window,
    all: Vec<Standstill>,
    /// Number of those that are not listed.
    more: u64,
}

impl Stood {
    pub(super) fn new(measured: &Measured<'_>, path: &Path) -> Stood {
        let Measured { machine, topology, .. } = measured;
        let (mut all, mut more) = (machine.standstills.clone(), machine.forgotten);
        for &(index, way) in path.forward.iter().chain(&path.backward) {
            let Some(report) = report(&measured.links[index], way) else { continue };
            let place = format!("{} {}", topology.links[index].name, arrow(way));
            more += report.unlisted_late;
            let late = |late: &Late| Standstill { start: late.due, end: late.left, place: place.clone() };
            all.extend(report.late.iter().map(late).filter(|late| late.end > machine.from));
        }
        Stood { window: window(measured), all, more }
    }

    /// The same for a record.
    pub(super) fn record(&self) -> Standstills {
        let rounded = |value: f64, to: f64| (value * to).round() / to;
        let entry = |s: &Standstill| record::Standstill {
            at_s: rounded((s.start as f64 - self.window.start as f64) / 1e9, 1e4),
            ms: rounded((s.end - s.start) as f64 / 1e6, 1e2),
            place: s.place.clone(),
        };
        let all: Vec<_> = self.all.iter().map(entry).collect();
        let list: Vec<_> = timelines::longest(&all, MAX_LISTED).into_iter().cloned().collect();
        let more = (all.len() - list.len()) as u64 + self.more;
        let resolution_ms = Machine::RESOLUTION.as_secs_f64() * 1e3;
        Standstills { origin_ns: self.window.start, resolution_ms, list, more }
    }

    /// The basis for judging the cell's statistics.
    pub(super) fn conduct(&self, scenario: &Scenario, delays: Option<&Distribution>) -> Conduct {
        // Bulk sends as much as it can, which makes the emulator late: that is the limit, not a standstill.
        let is_bulk = scenario.traffic.mode == Mode::Bulk;
        let counts = |stood: &&Standstill| !is_bulk || !stood.place.ends_with(['>', '-']);
        let mut standstills = BTreeMap::<_, Vec<f64>>::new();
        for Standstill { start, end, place } in self.all.iter().filter(counts) {
            let within = (*end).min(self.window.end).saturating_sub((*start).max(self.window.start));
            if within > 0 {
                standstills.entry(place.clone()).or_default().push(seconds(within));
            }
        }
        let delays_s = delays.and_then(|delays| Some((delays.mean_us()? / 1e6, delays.max_us()? / 1e6)));
        Conduct {
            window_s: seconds(self.window.end - self.window.start),
            standstills,
            delays_s,
            is_tcp: scenario.traffic.transport == Transport::Tcp,
            max_standstill: scenario.run.max_standstill.fraction(),
        }
    }

    /// The statistics that are not valid, and why.
    pub(super) fn doubts(
        &self,
        measured: &Measured<'_>,
        scenario: &Scenario,
        conduct: &Conduct,
    ) -> BTreeMap<Statistic, String> {
        use Statistic::{Max, Mean, P50, P99, P999, Rate};
        let mut doubts = conduct.doubts();
        let mut doubt = |statistics: &[Statistic], why: String| {
            for statistic in statistics {
                doubts.entry(*statistic).or_insert_with(|| why.clone());
            }
        };
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let planned = scenario.run.duration.duration().as_secs_f64();
        if measured.traffic.stopped && conduct.window_s < MIN_USED * planned {
            let why = format!("stopped after {:.1} s of {planned} s: too short to judge", conduct.window_s);
            doubt(&[Rate, Mean, P50, P99, P999, Max], why);
        }
        let (foreign, own) = (measured.foreign, 1.0 - measured.idle - measured.foreign);
        if scenario.traffic.mode == Mode::Bulk || measured.load.is_some() {
            if foreign > scenario.run.max_foreign.fraction() && measured.idle < LEFT_OVER {
                let (foreign, max) = (percent(foreign), scenario.run.max_foreign);
                doubt(
                    &[Rate],
                    format!(
                        "other programs used {foreign} of the CPUs, and none was left over (run.max_foreign is {max})"
                    ),
                );
            }
        } else if own > MAX_OWN {
            // Heartbeats and the emulator are not late then: they run before messages.
            let why = format!("the lab used {} of the CPUs: run fewer cells at once (--jobs)", percent(own));
            doubt(&[Mean, P50, P99, P999, Max], why);
        }
        doubts
    }
}

fn seconds(time: Nanos) -> f64 {
    time as f64 / 1e9
}

/// From this part of its time on a stopped cell counts as a shorter one.
const MIN_USED: f64 = 0.1;

/// From this share of the CPUs on messages wait for the lab.
const MAX_OWN: f64 = 0.9;

/// With this much of the CPUs left over, other programs take nothing from the lab.
const LEFT_OVER: f64 = 0.25;

/// Max standstills in a record: the longest ones.
const MAX_LISTED: usize = 500;
