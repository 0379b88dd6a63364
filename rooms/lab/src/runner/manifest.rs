//! What the manifest of a run says before anything has been measured.

use std::time::SystemTime;

use anyhow::Result;
use weir_report::columns::RECEIVER;
use weir_report::record::{Claim, Manifest};

use super::Plan;
use super::earlier::receivers;
use crate::charts;
use crate::scenario::Receivers;
use crate::sweep::Sweep;
use crate::topology::Topology;

/// The manifest of a run on a machine of which these facts are known.
pub(super) fn of(plan: &Plan, environment: Vec<(String, String)>) -> Result<Manifest> {
    let scenario = plan.sweep.scenario();
    let records: usize = plan.sweep.cells.iter().map(receivers).sum();
    let topology = Topology::new(scenario)?;
    let asserts = scenario.asserts.iter().map(|assert| Claim { required: true, ..assert.clone() });
    Ok(Manifest {
        format: 1,
        weir_version: env!("CARGO_PKG_VERSION").into(),
        scenario: scenario.name.clone(),
        title: scenario.title.clone(),
        description: scenario.description.clone(),
        command: plan.command.clone(),
        source: plan.sweep.to_toml()?,
        seed: scenario.run.seed,
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        elapsed_s: 0.0,
        planned_cells: records * scenario.run.repeat.get() as usize,
        interrupted: true,
        axes: axes(&plan.sweep),
        environment,
        network: topology.describe().into_iter().chain(topology.describe_paths()).collect(),
        charts: charts::of(&plan.sweep),
        published: scenario.published.clone(),
        claims: scenario.claims.iter().cloned().chain(asserts).collect(),
        columns: scenario.own_columns(),
        own_cost: None,
    })
}

/// The axes of the records: those of the sweep, and the receivers where there is a list of them, in any cell.
fn axes(sweep: &Sweep) -> Vec<(String, Vec<String>)> {
    let mut axes: Vec<_> = sweep.axes.iter().map(|axis| (axis.key.clone(), axis.as_written())).collect();
    let mut receivers: Vec<String> = Vec::new();
    for cell in &sweep.cells {
        if let Receivers::Several(names) = &cell.scenario.traffic.to {
            let new: Vec<&String> = names.iter().filter(|name| !receivers.contains(name)).collect();
            receivers.extend(new.into_iter().cloned());
        }
    }
    if !receivers.is_empty() {
        axes.push((RECEIVER.to_owned(), receivers));
    }
    axes
}
