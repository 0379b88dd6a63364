//! What a scenario says that means nothing, and yet runs: a person is told before it does.

use std::collections::{BTreeMap, BTreeSet};

use weir_program::config::Step;
use weir_report::columns::{self, RECEIVER};
use weir_report::record::{Record, Row, Value};

use super::{Cell, Sweep};
use crate::scenario::{Mode, Receivers};
use crate::topology::Topology;

impl Sweep {
    /// A line for each thing that the scenario says and that has no effect, with file, line and key. None of one that `--set`
    /// has changed: a part of it is left out on purpose then.
    pub fn doubts(&self) -> Vec<String> {
        if !self.written.overridden.is_empty() || self.cells.len() > MOST_CELLS {
            return Vec::new();
        }
        let topologies: Vec<Topology> = self.cells.iter().filter_map(|cell| cell.topology().ok()).collect();
        [self.without_use(), self.too_late(&topologies), self.without_cells(&topologies)].concat()
    }

    fn doubt(&self, path: &[Step<'_>], said: &str) -> String {
        format!("{}: {said}", self.written.place(path))
    }

    /// Tables and keys of another kind of traffic than that of any cell.
    fn without_use(&self) -> Vec<String> {
        let has = |mode: Mode| self.cells.iter().any(|cell| cell.scenario.traffic.mode == mode);
        let scenario = self.scenario();
        let mut doubts = Vec::new();
        let traffic = &scenario.traffic;
        let of_bulk = [("streams", traffic.streams > 1), ("warmup", !traffic.warmup.duration().is_zero())];
        for (key, is_there) in of_bulk {
            if is_there && !has(Mode::Bulk) {
                let said = format!("traffic.{key}: means nothing without traffic.mode = \"bulk\"");
                doubts.push(self.doubt(&[Step::Key("traffic"), Step::Key(key)], &said));
            }
        }
        doubts
    }

    /// Steps of links that come when nothing is sent any more.
    fn too_late(&self, topologies: &[Topology]) -> Vec<String> {
        let window = topologies.iter().map(|topology| topology.window).max().unwrap_or_default();
        let mut doubts = BTreeSet::new();
        for link in topologies.iter().flat_map(|topology| &topology.links) {
            for (way, plan) in ["forward", "backward"].into_iter().zip(&link.impairments) {
                if let Some(index) = plan.steps.iter().position(|step| step.after >= window) {
                    let path = ["links", &link.name, way, "steps"].map(Step::Key);
                    let said = format!(
                        "links.{}.{way}.steps[{index}]: at {:?}, which never comes: run.duration is {window:?}",
                        link.name, plan.steps[index].after
                    );
                    doubts.insert(self.doubt(&[&path[..], &[Step::Index(index)]].concat(), &said));
                }
            }
        }
        doubts.into_iter().collect()
    }

    /// Charts, claims and assertions that select what no cell is.
    fn without_cells(&self, topologies: &[Topology]) -> Vec<String> {
        let records: Vec<Record> = self.cells.iter().zip(topologies).flat_map(|(cell, of)| records(cell, of)).collect();
        if topologies.len() < self.cells.len() {
            return Vec::new();
        }
        let scenario = self.scenario();
        let asserts = scenario.asserts.iter().enumerate().flat_map(|(index, assert)| {
            let name = Some(&assert.text)
                .filter(|text| !text.is_empty())
                .map_or_else(|| (index + 1).to_string(), |name| format!("`{name}`"));
            let of = Selecting { list: "assert", index, name: format!("assert {name}"), end: "it will fail" };
            [(of.clone(), "where", Some(&assert.selection)), (of, "relative_to", assert.relative_to.as_ref())]
        });
        let claims = scenario.claims.iter().enumerate().flat_map(|(index, claim)| {
            let name = format!("claim \"{}\"", claim.text);
            let of = Selecting { list: "claims", index, name, end: "it will stay undecided" };
            [(of.clone(), "where", Some(&claim.selection)), (of, "relative_to", claim.relative_to.as_ref())]
        });
        let charts = scenario.charts.iter().enumerate().map(|(index, chart)| {
            let name = format!("chart {}", chart.name);
            (Selecting { list: "charts", index, name, end: "it will be empty" }, "where", Some(&chart.selection))
        });
        let mut doubts = Vec::new();
        for (of, table, selection) in asserts.chain(claims).chain(charts) {
            let Some((key, why)) = selection.and_then(|selection| selects_nothing(selection, &records)) else {
                continue;
            };
            let path = [Step::Key(of.list), Step::Index(of.index), Step::Key(table)];
            let path: Vec<Step<'_>> = path.into_iter().chain(key.map(Step::Key)).collect();
            doubts.push(self.doubt(&path, &format!("{}: {table}: {why}: {}", of.name, of.end)));
        }
        doubts
    }
}

/// Whoever selects cells.
#[derive(Clone)]
struct Selecting {
    list: &'static str,
    index: usize,
    name: String,
    /// What becomes of it without any.
    end: &'static str,
}

/// Why a selection selects nothing, and the key that is at fault, if it is one alone; `None`: it selects something, or what
/// only a run can tell.
fn selects_nothing<'a>(
    selection: &'a BTreeMap<String, Value>,
    records: &[Record],
) -> Option<(Option<&'a str>, String)> {
    let known: Vec<(&String, &Value)> = selection.iter().filter(|(key, _)| is_known(key)).collect();
    let matches = |record: &Record, (key, value): &(&String, &Value)| columns::matches(record, key, value);
    if records.iter().any(|record| known.iter().all(|pair| matches(record, pair))) {
        return None;
    }
    let in_words = |(key, value): &(&String, &Value)| match value {
        Value::Number(number) => format!("{key} = {number}"),
        Value::Text(text) => format!("{key} = {text:?}"),
    };
    let Some(alone) = known.iter().find(|pair| !records.iter().any(|record| matches(record, pair))) else {
        let all: Vec<String> = known.iter().map(in_words).collect();
        return Some((None, format!("no cell has all of {}", all.join(", "))));
    };
    let key = alone.0.as_str();
    let mut values: Vec<String> = Vec::new();
    for value in records.iter().filter_map(|record| columns::text(record, key)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let there = match values.len() {
        0 => "none has one".to_owned(),
        few if few <= MOST_TOLD => format!("there are {}", values.join(", ")),
        many => format!("there are {}, ... ({many} in all)", values[..MOST_TOLD].join(", ")),
    };
    Some((Some(key), format!("no cell has {} ({there})", in_words(alone))))
}

/// Whether the scenario alone decides it.
fn is_known(key: &str) -> bool {
    let columns = ["scenario", "cell", "transport", "loss_pct", "latency_ms", "rate_mbit", "payload_bytes", RECEIVER];
    key.contains('.') || columns.contains(&key)
}

/// What is known of a cell's records before it runs.
fn records(cell: &Cell, topology: &Topology) -> Vec<Record> {
    let traffic = &cell.scenario.traffic;
    let rounded = |value: f64| (value * 1e9).round() / 1e9;
    let of = |(path, &node): (&crate::topology::Path, &usize)| {
        let mut record = Record { axes: cell.axes.clone(), ..Record::default() };
        record.row = Row {
            scenario: cell.scenario.name.clone(),
            cell: cell.name.clone(),
            transport: traffic.transport.to_string(),
            loss_pct: rounded(topology.loss(&path.forward) * 100.0),
            latency_ms: rounded(topology.latency_ms(&path.forward)),
            rate_mbit: topology.rate_mbit(&path.forward),
            payload_bytes: traffic.payload.bytes,
            ..Row::default()
        };
        if matches!(traffic.to, Receivers::Several(_)) {
            let name = &topology.nodes[node].name;
            record.row.cell = format!("{}@{name}", cell.name);
            record.axes.push((RECEIVER.to_owned(), name.clone()));
        }
        record
    };
    topology.traffic.paths.iter().zip(&topology.traffic.receivers).map(of).collect()
}

/// So many values are told at most.
const MOST_TOLD: usize = 8;

/// Of more cells the topologies are not made once more.
const MOST_CELLS: usize = 5_000;

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use crate::sweep::Sweep;
    use crate::sweep::tests::DOCUMENT;

    fn doubts(from: &str, to: &str) -> Vec<String> {
        let document = DOCUMENT.replace(from, to);
        Sweep::new("two.toml", &document, &[]).unwrap().doubts()
    }

    fn behind(keys: &str) -> Vec<String> {
        doubts("interval = \"10ms\"\n", &format!("interval = \"10ms\"\n{keys}"))
    }

    #[test]
    fn what_ships_leaves_none() {
        for (name, text) in Scenario::shipped() {
            assert_eq!(Sweep::new(name, text, &[]).unwrap().doubts(), [""; 0], "{name}");
        }
    }

    #[test]
    fn what_selects_no_cell_is_told_with_what_there_is() {
        let last = DOCUMENT.lines().count();
        let assert = |keys: &str| behind(&format!("[[assert]]\ncolumn = \"sent\"\nat_least = 1\n{keys}\n"));
        let at = |keys: &str, why: &str| {
            assert_eq!(assert(keys), [format!("two.toml:{}: assert 1: {why}: it will fail", last + 4)]);
        };
        at("where = { loss_pct = 7 }", "where: no cell has loss_pct = 7 (there are 0, 0.5, 1)");
        at("where = { transport = \"quic\" }", "where: no cell has transport = \"quic\" (there are udp, tcp)");
        at("where = { \"tcp.nodelay\" = \"true\" }", "where: no cell has tcp.nodelay = \"true\" (none has one)");
        at(
            "relative_to = { \"path.loss\" = \"7%\" }",
            "relative_to: no cell has path.loss = \"7%\" (there are 0%, 0.5%, 1%)",
        );
        assert!(assert("where = { loss_pct = 1, transport = \"tcp\" }").is_empty());
        assert!(assert("where = { valid = \"true\", sent = 5 }").is_empty(), "a run tells");
        let claim = "[[cells]]\nname = \"own\"\nset = { \"links.l.delay\" = \"5ms\", \"path.loss\" = \"1%\" }\n\
                     [[claims]]\ntext = \"A\"\ncolumn = \"sent\"\nat_least = 1\nwhere = { latency_ms = 5, loss_pct = 0 }\n";
        let told = "claim \"A\": where: no cell has all of latency_ms = 5, loss_pct = 0: it will stay undecided";
        assert_eq!(behind(claim), [format!("two.toml:{}: {told}", last + 8)]);
    }

    #[test]
    fn what_means_nothing_is_told() {
        let last = DOCUMENT.lines().count();
        assert_eq!(
            behind("streams = 4\n"),
            [format!("two.toml:{}: traffic.streams: means nothing without traffic.mode = \"bulk\"", last + 1)]
        );
        let steps = "steps = [\n  { at = \"5s\", duplicate = \"1%\" },\n  { at = \"60s\", duplicate = \"2%\" },\n]";
        let late = doubts("ends = [\"a\", \"b\"]", &format!("ends = [\"a\", \"b\"]\nbackward.{steps}"));
        let told = "links.l.backward.steps[1]: at 60s, which never comes: run.duration is 60s";
        assert_eq!(late, [format!("two.toml:17: {told}")]);
    }

    #[test]
    fn a_part_that_was_left_out_on_purpose_leaves_none() {
        let document = format!("{DOCUMENT}[[assert]]\ncolumn = \"sent\"\nat_least = 1\nwhere = {{ loss_pct = 1 }}\n");
        let set = [("path.loss".to_owned(), "0%".to_owned())];
        assert_eq!(Sweep::new("two.toml", &document, &set).unwrap().doubts(), [""; 0]);
    }
}
