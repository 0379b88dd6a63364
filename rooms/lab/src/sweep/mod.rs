//! From a scenario document to its cells.
//!
//! `[axes]` names scenario keys and lists their values; every combination is a cell, the first axis varying slowest.
//! `[[cells]]` adds cells of their own. `--set KEY=VALUE` replaces a key of the document before, be it an axis or not.

mod about;
mod axes;
mod cells;
mod keys;
mod overrides;
mod written;

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, bail};
use toml::{Table, Value};
pub use weir_report::columns::NOTHING;
use weir_report::{asserts, columns};
use weir_service::config::{Step, explain};

use self::about::say_about;
pub use self::axes::Axis;
use self::axes::{combinations, take_axes};
pub use self::cells::Cell;
use self::cells::{combined, extra_cell};
pub(crate) use self::keys::{as_written, lookup};
use self::overrides::{apply, check_links};
use self::written::{Written, check_keys};
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
        check_keys(origin, text)?;
        let overridden = overrides.iter().map(|(key, _)| key.clone()).collect();
        let mut written = Written { origin: origin.to_owned(), text: text.to_owned(), axes: Vec::new(), overridden };
        let mut axes = take_axes(&written, &mut document)?;
        written.axes.extend(axes.iter().map(|axis| axis.key.clone()));
        let written = written;
        let before = (document.clone(), axes.clone());
        for (key, value) in overrides {
            apply(&mut document, &mut axes, key, value).with_context(|| format!("--set {key}={value}"))?;
        }
        check_links(&written, &document, &axes, overrides)?;
        say_about(&written, &mut document, &axes, &before);
        let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
        if count.is_none_or(|count| count > MOST_CELLS) {
            let place = written.place(&[Step::Key("axes")]);
            bail!("{place}: axes: they make more than {MOST_CELLS} cells: give them fewer values");
        }
        let mut cells: Vec<Cell> = Vec::new();
        let mut spared = BTreeSet::new();
        for values in combinations(&axes) {
            let cell = combined(&written, &document, &axes, values)?;
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
        for (index, extra) in cells[0].scenario.cells.clone().into_iter().enumerate() {
            let place = || written.place(&[Step::Key("cells"), Step::Index(index)]);
            if cells.iter().any(|cell| cell.name == extra.name) {
                bail!("{}: cells: there is a cell `{}` already", place(), extra.name);
            }
            cells.push(extra_cell(&place, &document, &axes, extra)?);
        }
        traces::read(origin, &mut document, cells.iter_mut().map(|cell| &mut cell.scenario))?;
        cells.iter_mut().for_each(|cell| cell.scenario.bound_queues());
        if !axes.is_empty() {
            let table = axes.iter().map(|axis| (axis.key.clone(), Value::Array(axis.values.clone()))).collect();
            document.insert("axes".into(), Value::Table(table));
        }
        let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).chain([columns::RECEIVER]).collect();
        let first = &cells[0].scenario;
        let checked = asserts::validate(&first.asserts, &keys)
            .and_then(|()| asserts::validate_shown(&first.charts, &first.claims, &keys));
        checked.map_err(|mistake| {
            let entry = [Step::Key(mistake.list), Step::Index(mistake.index)];
            let path: Vec<Step<'_>> = entry.into_iter().chain(mistake.keys.iter().map(|key| Step::Key(key))).collect();
            anyhow!("{}: {}", written.place(&path), mistake.said)
        })?;
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
        let is_key = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
        let path: Vec<Step<'_>> =
            about.split(": ").take_while(is_key).flat_map(|keys| keys.split('.')).map(Step::Key).collect();
        anyhow!("{}: {said}", self.written.place(&path))
    }

    /// The scenario of the first cell: all that no axis changes.
    pub fn scenario(&self) -> &Scenario {
        // No axis is empty, so that there is a combination.
        &self.cells[0].scenario
    }
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

    pub(super) fn names(overrides: &[(&str, &str)]) -> Vec<String> {
        let overrides: Vec<_> = overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let sweep = Sweep::new("two.toml", DOCUMENT, &overrides).unwrap();
        sweep.cells.into_iter().map(|cell| cell.name).collect()
    }

    pub(super) fn error(document: &str, overrides: &[(&str, &str)]) -> String {
        let overrides: Vec<_> = overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        format!("{:#}", Sweep::new("two.toml", document, &overrides).unwrap_err())
    }

    #[test]
    fn every_combination_is_a_cell_the_first_axis_slowest() {
        assert_eq!(names(&[]), ["0%/udp", "0%/tcp", "0.5%/udp", "0.5%/tcp", "1%/udp", "1%/tcp"]);
    }

    #[test]
    fn what_cannot_run_is_said_with_its_line() {
        let wrong = |from: &str, to: &str, set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            let sweep = Sweep::new("two.toml", &DOCUMENT.replace(from, to), &set).unwrap();
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
