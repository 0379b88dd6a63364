//! The delay that the lab itself adds: messages over the scenario's network without impairments.

use std::time::Duration;

use anyhow::{Context, Result};
use weir_report::record::OwnCost;
use weir_traffic::{Pacing, Transport};
use weir_units::{Size, Span};

use crate::account;
use crate::cell::{Prepared, Testbed};
use crate::machine::Machine;
use crate::scenario::{Arrivals, Engine, Mode, Receive, Scenario, Tracing};
use crate::sweep::Cell;

/// Sends one 1000-byte datagram per millisecond over the unimpaired network for `run.control`.
pub(super) fn measure(testbed: &Testbed, machine: &Machine, scenario: &Scenario) -> Result<OwnCost> {
    let mut scenario = scenario.clone();
    (scenario.load, scenario.receive) = (None, Receive::default());
    scenario.programs.clear();
    let run = &mut scenario.run;
    (run.impaired, run.duration, run.watch, run.trace) = (false, run.control, Span::from_millis(0), Tracing::Off);
    let traffic = &mut scenario.traffic;
    (traffic.mode, traffic.engine, traffic.transport) = (Mode::Messages, Engine::Weir, Transport::Udp);
    (traffic.payload, traffic.interval) = (Size { bytes: 1000 }, Some(Span::from_millis(1)));
    (traffic.pacing, traffic.arrivals) = (Pacing::Schedule, Arrivals::Constant);
    (traffic.rate, traffic.batch, traffic.bursts, traffic.sizes, traffic.replay) = (None, None, None, None, None);
    let (seconds, seed) = (scenario.run.duration.duration().as_secs_f64(), scenario.run.seed);
    let cell = Cell::new("control", scenario);
    let measured = Prepared::new(testbed, &cell, seed, 0, 0).and_then(|cell| cell.run(Duration::ZERO, machine));
    let measured = measured.context("control cell")?;
    let record = account::records(&cell, 1, &measured).into_iter().next().context("a cell has a receiver")?;
    Ok(OwnCost { n: record.delays.n, delay: record.delays, seconds, transport: record.row.transport })
}
