//! What the lab itself adds: messages over the scenario's network with all impairments taken away.

use std::time::Duration;

use anyhow::{Context, Result};
use weir_report::record::OwnCost;
use weir_traffic::{Pacing, Transport};
use weir_units::{Size, Span};

use super::repeats::Load;
use crate::account;
use crate::cell::{Prepared, Testbed};
use crate::machine::Machine;
use crate::scenario::{Arrivals, Engine, Mode, Receive, Scenario, Tracing};
use crate::sweep::Cell;

/// Sends 1000-byte datagrams, one a millisecond, over the unimpaired network for `run.control`. Tells what that took of
/// the processors, too.
pub(super) fn measure(testbed: &Testbed, machine: &Machine, scenario: &Scenario) -> Result<(OwnCost, Load)> {
    let mut scenario = scenario.clone();
    scenario.load = None;
    scenario.run.impaired = false;
    scenario.run.duration = scenario.run.control;
    scenario.traffic.mode = Mode::Messages;
    scenario.traffic.engine = Engine::Weir;
    scenario.traffic.transport = Transport::Udp;
    scenario.traffic.rate = None;
    scenario.traffic.batch = None;
    scenario.receive = Receive::default();
    scenario.run.watch = Span::from_millis(0);
    scenario.run.trace = Tracing::Off;
    scenario.hosts.values_mut().for_each(|host| host.burners = 0);
    scenario.traffic.pacing = Pacing::Schedule;
    scenario.traffic.payload = Size { bytes: 1000 };
    scenario.traffic.interval = INTERVAL;
    scenario.traffic.arrivals = Arrivals::Constant;
    (scenario.traffic.bursts, scenario.traffic.sizes, scenario.traffic.replay) = (None, None, None);
    let seconds = scenario.run.duration.duration().as_secs_f64();
    let seed = scenario.run.seed;
    let cell = Cell { name: "control".into(), axes: Vec::new(), elsewhere: Vec::new(), scenario };
    let prepared = Prepared::new(testbed, &cell, seed, 0, 0).context("control cell")?;
    let sent = seconds / INTERVAL.duration().as_secs_f64();
    let (measured, load) =
        Load::measure(machine, sent, cell.scenario.links.len(), || prepared.run(Duration::ZERO, machine));
    let measured = measured.context("control cell")?;
    let record = account::records(&cell, 1, &measured).into_iter().next().context("a cell has a receiver")?;
    let own_cost = OwnCost { n: record.delays.n, delay: record.delays, seconds, transport: record.row.transport };
    Ok((own_cost, load))
}

/// Between two messages of the control cell.
const INTERVAL: Span = Span::from_millis(1);
