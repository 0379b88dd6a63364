//! From a scenario document to its cells.
//!
//! `[axes]` names scenario keys and lists their values; every combination is a cell, the first axis varying slowest.
//! `[[cells]]` adds cells of their own. `--set KEY=VALUE` replaces a key of the document before, be it an axis or not.

mod about;
mod axes;
mod cells;
mod document;
mod doubts;
mod keys;
mod overrides;
pub(crate) mod pace;
mod written;

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, bail};
use toml::{Table, Value};
use weir_program::config::{Step, explain};
use weir_report::columns;
pub use weir_report::columns::NOTHING;
use weir_report::mistakes::{Asked, Place};

use self::about::{check_about, say_about};
pub use self::axes::Axis;
use self::axes::{combinations, take_axes};
pub use self::cells::Cell;
use self::cells::{combined, extra_cell};
pub(crate) use self::keys::{as_written, lookup};
use self::overrides::{apply, check_links};
use self::written::Written;
use crate::cell;
use crate::scenario::Scenario;
use crate::topology::Topology;
use crate::traces;

/// A scenario laid out.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The document as it runs, overrides applied, axes included.
    pub document: Table,
    /// Scenario key and its values, in the order of the document.
    pub axes: Vec<Axis>,
    /// Every combination, then the cells of their own.
    pub cells: Vec<Cell>,
    written: Written,
}

impl Sweep {
    /// Lays `text` out, with `overrides` (key and value, both as given on a command line) applied. `origin` names the
    /// document in errors.
    pub fn new(origin: &str, text: &str, overrides: &[(String, String)]) -> Result<Sweep> {
        let mut document: Table = text.parse().map_err(|error| explain(origin, text, &error))?;
        document::check(origin, text, &document)?;
        let overridden = overrides.iter().map(|(key, _)| key.clone()).collect();
        let mut written = Written { origin: origin.to_owned(), text: text.to_owned(), axes: Vec::new(), overridden };
        let mut axes = take_axes(&written, &mut document)?;
        written.axes.extend(axes.iter().map(|axis| axis.key.clone()));
        let written = written;
        let before = (document.clone(), axes.clone());
        for (key, value) in overrides {
            apply(&mut document, &mut axes, key, value).with_context(|| format!("--set {key}={value}"))?;
        }
        pace::replace(&mut document, &mut axes, &|key| overrides.iter().any(|(set, _)| set == key));
        let set: Vec<&str> =
            overrides.iter().map(|(key, _)| key).chain(axes.iter().map(|axis| &axis.key)).map(String::as_str).collect();
        check_links(&|key| written.place_of(key), &document, &set)?;
        say_about(&written, &mut document, &axes, &before);
        let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
        if count.is_none_or(|count| count > MOST_CELLS) {
            let place = written.place(&[Step::Key("axes")]);
            bail!("{place}: axes: they make more than {MOST_CELLS} cells: give them fewer values");
        }
        let mut cells = combined_cells(&written, &document, &axes)?;
        pace::check(&written, &document, &axes, &cells)?;
        check_about(&written, &document, &axes)?;
        let swept = cells.len();
        for (index, extra) in cells[0].scenario.cells.clone().into_iter().enumerate() {
            if cells.iter().any(|cell| cell.name == extra.name) {
                let place = written.place(&[Step::Key("cells"), Step::Index(index)]);
                bail!("{place}: cells: there is a cell `{}` already", extra.name);
            }
            cells.push(extra_cell(&written, index, &document, &axes, extra)?);
        }
        let extra = cells[0].scenario.cells.clone();
        let place = |index: usize, key: &str| match index.checked_sub(swept) {
            Some(index) => written.place_in_cell_of(index, &extra[index].set, key),
            None => written.place_of(key),
        };
        traces::read(origin, &place, &mut document, cells.iter_mut().map(|cell| &mut cell.scenario))?;
        cells.iter_mut().for_each(|cell| cell.scenario.bound_queues());
        if !axes.is_empty() {
            let table = axes.iter().map(|axis| (axis.key.clone(), Value::Array(axis.values.clone()))).collect();
            document.insert("axes".into(), Value::Table(table));
        }
        check_asked(&written, &cells[0].scenario, &axes)?;
        Ok(Sweep { document, axes, cells, written })
    }

    /// Refuses a sweep of which a cell cannot run.
    ///
    /// # Errors
    /// What is wrong with the first of them, with file and line where the file says it.
    pub fn check(&self) -> Result<()> {
        self.cells.iter().try_for_each(|cell| cell::check(cell).map(drop).map_err(|error| self.placed(cell, &error)))
    }

    /// The network of the first cell, checked.
    ///
    /// # Errors
    /// As [`Sweep::check`].
    pub fn topology(&self) -> Result<Topology> {
        self.cells[0].topology().map_err(|error| self.placed(&self.cells[0], &error))
    }

    /// Says where the file has what is wrong: the keys in front of the message tell.
    fn placed(&self, cell: &Cell, error: &anyhow::Error) -> anyhow::Error {
        let said = format!("{error:#}");
        let context = format!("{}, cell {}: ", cell.scenario.name, cell.name);
        let about = said.strip_prefix(&context).unwrap_or(&said);
        let place = match self.scenario().cells.iter().enumerate().find(|(_, extra)| extra.name == cell.name) {
            // What the combinations can run with is right.
            Some((index, extra)) => self.written.place_in_cell_of(index, &extra.set, about),
            None => self.written.place_of_message(about),
        };
        anyhow!("{place}: {said}")
    }

    /// The scenario of the first cell: all that no axis changes.
    pub fn scenario(&self) -> &Scenario {
        // No axis is empty, so that there is a combination.
        &self.cells[0].scenario
    }
}

/// A cell for each combination.
fn combined_cells(written: &Written, document: &Table, axes: &[Axis]) -> Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut spared = BTreeSet::new();
    for values in combinations(axes) {
        let cell = combined(written, document, axes, values)?;
        // Of cells that differ only in what they have no use for the first one runs.
        if !cell.axes.iter().any(|(_, value)| value == NOTHING) || spared.insert(cell.name.clone()) {
            cells.push(cell);
        }
    }
    // Records, and what a resumed run lacks, are told apart by it.
    let mut names = BTreeSet::new();
    if let Some(twice) = cells.iter().find(|cell| !names.insert(&cell.name)) {
        let place = match axes.iter().find(|axis| axis.has_twice()) {
            Some(axis) => written.place_of(&axis.key),
            None => written.place(&[Step::Key("axes")]),
        };
        bail!("{place}: axes: there are two cells `{}`: give each value once", twice.name);
    }
    Ok(cells)
}

/// Refuses what the report of a run could not do.
fn check_asked(written: &Written, scenario: &Scenario, axes: &[Axis]) -> Result<()> {
    let axes: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).chain([columns::RECEIVER]).collect();
    let Scenario { charts, published, claims, asserts, .. } = scenario;
    let asked = Asked { charts, published: published.as_ref(), claims, asserts, columns: &scenario.own_columns(), axes: &axes };
    asked.check().map_err(|mistake| {
        let step = |place| match place {
            &Place::Index(index) => Step::Index(index),
            Place::Key(key) => Step::Key(key.as_str()),
        };
        let path: Vec<Step<'_>> = mistake.path.iter().map(step).collect();
        anyhow!("{}: {}", written.place(&path), mistake.said)
    })
}

/// Nobody runs more, and laying them out takes gigabytes.
const MOST_CELLS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const DOCUMENT: &str = r#"
name = "two"
title = "Two hosts"

[axes]
"path.loss" = { from = "0%", to = "1%", step = "0.5%" }
"traffic.transport" = ["udp", "tcp"]

[hosts.a]
addresses = ["10.0.0.1/24"]
[hosts.b]
addresses = ["10.0.0.2/24"]
[links.l]
ends = ["a", "b"]

[traffic]
from = "a"
to = "b"
port = 9
transport = "udp"
payload = "100B"
interval = "10ms"
"#;

    impl Sweep {
        /// As [`Sweep::new`], of what a test has written down.
        pub(crate) fn of_test(origin: &str, text: &str, overrides: &[(&str, &str)]) -> Result<Sweep> {
            let overrides: Vec<_> = overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
            Sweep::new(origin, text, &overrides)
        }
    }

    pub(super) fn names(overrides: &[(&str, &str)]) -> Vec<String> {
        let sweep = Sweep::of_test("two.toml", DOCUMENT, overrides).unwrap();
        sweep.cells.into_iter().map(|cell| cell.name).collect()
    }

    pub(super) fn error(document: &str, overrides: &[(&str, &str)]) -> String {
        format!("{:#}", Sweep::of_test("two.toml", document, overrides).unwrap_err())
    }

    #[test]
    fn every_combination_is_a_cell_the_first_axis_slowest() {
        assert_eq!(names(&[]), ["0%/udp", "0%/tcp", "0.5%/udp", "0.5%/tcp", "1%/udp", "1%/tcp"]);
    }

    #[test]
    fn what_cannot_run_is_said_with_its_line() {
        let wrong = |from: &str, to: &str, set: &[(&str, &str)]| {
            let sweep = Sweep::of_test("two.toml", &DOCUMENT.replace(from, to), set).unwrap();
            format!("{:#}", sweep.check().unwrap_err())
        };
        let line = |text: &str| DOCUMENT[..DOCUMENT.find(text).unwrap()].lines().count() + 1;
        let mistake = wrong("to = \"b\"", "to = \"c\"", &[]);
        let place = format!("two.toml:{}: two, cell 0%/udp: traffic.to: there is no host", line("to = \"b\""));
        assert!(mistake.starts_with(&place), "{mistake}");
        let mistake = wrong("ends = [\"a\", \"b\"]", "ends = [\"a\", \"a\"]", &[]);
        let place = format!("two.toml:{}: two, cell 0%/udp: links.l: both ends are `a`", line("[links.l]"));
        assert!(mistake.starts_with(&place), "{mistake}");
        let mistake = wrong("port", "port", &[("traffic.to", "c")]);
        assert!(mistake.starts_with("two.toml: two, cell 0%/udp: traffic.to: there is no host"), "{mistake}");
    }

    #[test]
    fn what_cannot_run_has_the_line_of_its_way_and_of_its_cell() {
        let ends = "ends = [\"a\", \"b\"]\n";
        let said = |link: &str, cells: &str| {
            let document = DOCUMENT.replace(ends, &format!("{ends}{link}")) + cells;
            let sweep = Sweep::new("two.toml", &document, &[]);
            format!("{:#}", sweep.and_then(|sweep| sweep.check()).unwrap_err())
        };
        // Line 15 is the first one of the link's own, line 23 what comes behind the whole.
        let steps = "[links.l.backward]\ndelay = \"1ms\"\nsteps = [\n{ at = \"5s\" },\n{ at = \"3s\" },\n]\n";
        for (link, line, told) in [
            ("[links.l.forward]\ndelay = \"1ms\"\nqueue = 3\n", 17, "links.l.forward: `queue` needs a `rate`"),
            (
                "[links.l.forward]\ndelay = \"1ms\"\n[links.l.backward]\nburst = \"3kB\"\n",
                18,
                "links.l.backward: `burst` needs",
            ),
            ("delay = \"1ms\"\nqueue = 3\n", 16, "links.l.forward: `queue` needs a `rate`"),
            ("[links.l.backward]\ndelay = \"1ms\"\nrate = \"0bit\"\n", 17, "links.l.backward: rate of 0 bit/s"),
            (
                "[links.l.backward]\nvariation = { order = \"keep\" }\n",
                16,
                "links.l.backward: variation: give exactly one",
            ),
            (steps, 19, "links.l.backward: steps[1] at 3s: must come after 5s"),
        ] {
            let said = said(link, "");
            assert!(said.starts_with(&format!("two.toml:{line}: two, cell 0%/udp: {told}")), "{line} {said}");
        }
        let cell = |set: &str| format!("[[cells]]\nname = \"own\"\n\n[cells.set]\n\"tcp.nodelay\" = true\n{set}\n");
        for (set, line, told) in [
            ("\"path.loss\" = \"3\"", 28, "cell own: path.loss: `3`: a share needs a unit"),
            ("\"path.lsos\" = \"3%\"", 28, "cell own: path.lsos: unknown key `lsos`"),
            ("\"links.k.loss\" = \"3%\"", 28, "cell own: links.k.loss: there is no link `k`"),
            ("\"traffic.to\" = \"c\"", 28, "two, cell own: traffic.to: there is no host"),
            ("\"links.l.delay\" = \"1ms\"\n\"links.l.queue\" = 3", 29, "two, cell own: links.l.forward: `queue` needs"),
            ("\"links.l.forward.trace\" = \"none.trace\"", 28, "links.l.forward.trace: read trace"),
        ] {
            let said = said("", &cell(set));
            assert!(said.starts_with(&format!("two.toml:{line}: {told}")), "{line} {said}");
        }
        let whole = said("", "[[cells]]\nname = \"own\"\nset = { traffic.transport = \"tcp\" }\n");
        let told = "cell own: traffic: missing field `from` (`traffic` is a table: a key of it is written in quotes, \"traffic.transport\" = ...)";
        assert_eq!(whole, format!("two.toml:25: {told}"));
    }

    #[test]
    fn a_cell_is_not_run_again_for_what_it_has_no_use_for() {
        let loss = ("path.loss", "0%,5%");
        assert_eq!(
            names(&[loss, ("tcp.congestion", "cubic,bbr")]),
            ["0%/udp/-", "0%/tcp/cubic", "0%/tcp/bbr", "5%/udp/-", "5%/tcp/cubic", "5%/tcp/bbr"]
        );
        assert_eq!(names(&[loss, ("traffic.transport", "quic"), ("quic.congestion", "cubic,bbr")]).len(), 4);
        assert_eq!(names(&[loss, ("traffic.transport", "udp"), ("tcp.nodelay", "true,false")]), ["0%/-", "5%/-"]);
    }

    #[test]
    fn a_sweep_that_nobody_can_run_is_not_laid_out() {
        let step = r#"{ from = "0%", to = "1%", step = "0.0002%" }"#;
        let overrides = [("links.l.delay", "1ms,2ms,3ms,4ms,5ms,6ms,7ms,8ms,9ms,10ms")];
        assert_eq!(
            error(&DOCUMENT.replace(r#"{ from = "0%", to = "1%", step = "0.5%" }"#, step), &overrides),
            "two.toml:5: axes: they make more than 100000 cells: give them fewer values"
        );
    }

    #[test]
    fn what_is_wrong_with_axes_and_what_is_shown_is_said_with_its_line() {
        let shown = r#"
[[charts]]
name = "sent"
title = "Sent"
x = "loss_pct"
y = "sent"
series = "transport"
[[claims]]
text = "All"
column = "sent"
at_least = 1
[claims.where]
transport = "udp"
[[assert]]
column = "sent"
at_least = 1
"#;
        let document = format!("{DOCUMENT}{shown}");
        assert!(Sweep::new("two.toml", &document, &[]).is_ok());
        // What stands in the line of the mistake.
        for (from, to, at, message) in [
            ("\"1%\", step", "\"1ms\", step", "\"path.loss\" = {", "`from`, `to` and `step` need the same unit"),
            ("[\"udp\", \"tcp\"]", "[]", "\"traffic.transport\" =", "is empty"),
            ("[\"udp\", \"tcp\"]", "3", "\"traffic.transport\" =", "expected a list of values"),
            ("[\"udp\", \"tcp\"]", "[\"udp\", \"udp\"]", "\"traffic.transport\" =", "there are two cells `0%/udp`"),
            ("[\"udp\", \"tcp\"]", "[\"udp\", \"tpc\"]", "\"traffic.transport\" =", "cell 0%/tpc: traffic.transport: "),
            ("\"path.loss\" =", "\"links.k.loss\" =", "\"links.k.loss\" =", "links.k.loss: there is no link `k`"),
            ("y = \"sent\"", "y = \"snt\"", "y = \"snt\"", "chart sent: y: no column `snt`, did you mean `sent`?"),
            ("series = \"transport\"", "", "[[charts]]", "chart sent: kind \"lines\" needs `series`"),
            (
                "transport = \"udp\"\n[[",
                "trnsport = \"udp\"\n[[",
                "trnsport =",
                "claim \"All\": where: no column `trnsport`",
            ),
            (
                "[claims.where]",
                "[claims.relative_to]\nsnt = 1\n[claims.where]",
                "snt = 1",
                "relative_to: no column `snt`",
            ),
            (
                "[[assert]]\ncolumn = \"sent\"",
                "[[assert]]\ncolumn = \"snt\"",
                "column = \"snt\"",
                "assert 1: no column `snt`",
            ),
            ("[[assert]]\ncolumn = \"sent\"", "[[assert]]", "[[assert]]", "missing field `column`"),
            (
                "\"path.loss\" =",
                "path.loss =",
                "path.loss =",
                "axes: `path` is a table: a key of it is written in quotes",
            ),
            (
                "text = \"All\"",
                "text = \"All\"\nconfidence = 1.5",
                "confidence =",
                "claim \"All\": confidence 1.5: a number",
            ),
            (
                "[[charts]]",
                "[[cells]]\nname = \" \"\n[[charts]]",
                "name = \" \"",
                "cells: name: \" \": it names the cell",
            ),
            (
                "[[charts]]",
                "[published]\nsource = \"s\"\npoints = [\n{ losspct = 3 },\n]\n[[charts]]",
                "{ losspct",
                "published.points[0]: no column `losspct`, did you mean `loss_pct`?",
            ),
            (
                "[[charts]]",
                "[about]\n\"path.lsos\" = \"3%\"\n[[charts]]",
                "\"path.lsos\"",
                "about: path.lsos: unknown key `lsos`, did you mean `loss`?",
            ),
        ] {
            let wrong = document.replacen(from, to, 1);
            assert_ne!(wrong, document, "{from}");
            let line = wrong.lines().position(|line| line.starts_with(at)).unwrap() + 1;
            let error = error(&wrong, &[]);
            assert!(error.starts_with(&format!("two.toml:{line}: ")) && error.contains(message), "{line} {error}");
        }
        // The file does not say it.
        let set = [("traffic.transport", "udp,tpc")];
        assert!(error(&document, &set).starts_with("two.toml: cell 0%/tpc: "), "{}", error(&document, &set));
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        let cases = [
            error(&DOCUMENT.replace("payload =", "paylod ="), &[]),
            error(&DOCUMENT.replace("ends = ", "los = \"5%\"\nends = "), &[]),
            error(&DOCUMENT.replace("\"100B\"", "\"100\""), &[]),
            error(DOCUMENT, &[("path.loss", "120%")]),
            error(DOCUMENT, &[("links.l.delya", "5ms")]),
            error(DOCUMENT, &[("traffic.port.number", "5")]),
            error(&DOCUMENT.replace("[\"udp\", \"tcp\"]", "[]"), &[]),
            error(&DOCUMENT.replace("to = \"1%\"", "to = \"1ms\""), &[]),
            error(&DOCUMENT.replace("[axes]", "[axes"), &[]),
            error(DOCUMENT, &[("path.loss", "1%,5%,1%")]),
        ];
        insta::assert_snapshot!(cases.join("\n"));
        assert!(cases.iter().all(|case| !case.contains('\n')));
    }
}
