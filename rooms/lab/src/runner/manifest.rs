//! The manifest of a run before anything has been measured.

use std::time::SystemTime;

use anyhow::Result;
use indexmap::IndexSet;
use weir_report::columns::RECEIVER;
use weir_report::record::{Claim, Manifest};

use super::Plan;
use super::earlier::receivers;
use crate::charts;
use crate::scenario::Receivers;
use crate::sweep::Sweep;
use crate::topology::Topology;

/// The manifest of a run, with these facts about the machine; a resumed run keeps those of its manifest.
pub(super) fn of(plan: &Plan, environment: Vec<(String, String)>) -> Result<Manifest> {
    let scenario = plan.sweep.scenario();
    let records: usize = plan.sweep.cells.iter().map(receivers).sum();
    let topology = Topology::new(scenario)?;
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let earlier = plan.earlier.as_ref();
    let asserts = scenario.asserts.iter().map(|assert| Claim { required: true, ..assert.clone() });
    Ok(Manifest {
        format: 1,
        weir_version: earlier.map_or(env!("CARGO_PKG_VERSION").into(), |earlier| earlier.weir_version.clone()),
        scenario: scenario.name.clone(),
        title: scenario.title.clone(),
        description: scenario.description.clone(),
        command: plan.command.clone(),
        source: plan.sweep.to_toml()?,
        seed: scenario.run.seed,
        started: earlier.map_or(now, |earlier| earlier.started.clone()),
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
        own_cost: earlier.and_then(|earlier| earlier.own_cost.clone()),
    })
}

/// The axes of the records: those of the sweep, and the receivers if any cell has a list of them.
fn axes(sweep: &Sweep) -> Vec<(String, Vec<String>)> {
    let axes = sweep.axes.iter().map(|axis| (axis.key.clone(), axis.as_written()));
    let lists =
        sweep.cells.iter().map(|cell| &cell.scenario.traffic.to).filter(|to| matches!(to, Receivers::Several(_)));
    let receivers: IndexSet<String> = lists.flat_map(|to| to.names().to_owned()).collect();
    let receivers = (!receivers.is_empty()).then(|| (RECEIVER.to_owned(), receivers.into_iter().collect()));
    axes.chain(receivers).collect()
}

#[cfg(test)]
mod tests {
    use weir_report::store;

    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn a_run_that_goes_on_is_described_as_its_manifest_was_edited() {
        let directory = tempfile::tempdir().unwrap();
        let set = [("path.loss", "1%"), ("traffic.transport", "udp")];
        let sweep = Sweep::of_test("any.toml", &Scenario::find("telemetry").unwrap().1, &set).unwrap();
        let plan = Plan::of(sweep, directory.path().to_owned(), Vec::new(), None);
        let mut manifest = of(&plan, Vec::new()).unwrap();
        (manifest.source, manifest.started) = (manifest.source.replace("\"1%\"", "\"4%\""), "then".into());
        store::write_manifest(directory.path(), &manifest).unwrap();
        let resumed = of(&Plan::resume(directory.path().to_owned()).unwrap(), Vec::new()).unwrap();
        let path = resumed.network.iter().find(|line| line.contains(" -> ")).unwrap();
        assert!(path.contains(" 4 % and ") && resumed.started == "then", "{path}");
    }
}
