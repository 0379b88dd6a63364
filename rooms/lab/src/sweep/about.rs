//! What published values and claims are about, where somebody else made a further axis.

use anyhow::{Context, Result, bail};
use toml::{Table, Value};
use weir_program::config::Step;
use weir_report::columns::NOTHING;

use super::axes::Axis;
use super::cells::{combined, firsts, scenario};
use super::document::unquoted;
use super::keys::{as_written, lookup, set};
use super::overrides::check_links;
use super::written::Written;
use crate::scenario::Scenario;

/// Published values and claims are about what the scenario had before somebody else made a further axis: the document
/// says so of every such axis, so that it means the same wherever it is read.
pub(super) fn say_about(written: &Written, document: &mut Table, axes: &[Axis], (before, known): &(Table, Vec<Axis>)) {
    let further: Vec<&Axis> = axes.iter().filter(|axis| known.iter().all(|known| known.key != axis.key)).collect();
    if further.is_empty() {
        return;
    }
    // What cannot be laid out is told of when the whole is.
    let Ok(plain) = combined(written, before, known, vec![0; known.len()]) else { return };
    let Ok(plain) = Table::try_from(&plain.scenario) else { return };
    let about = document.entry("about").or_insert_with(|| Value::Table(Table::new()));
    let Some(about) = about.as_table_mut() else { return };
    for axis in further {
        if let Some(value) = lookup(&plain, &axis.key)
            && !about.contains_key(&axis.key)
        {
            about.insert(axis.key.clone(), value.clone());
        }
    }
}

/// Refuses an entry of `[about]` that is no key of a scenario, or no value of it.
pub(super) fn check_about(written: &Written, document: &Table, axes: &[Axis]) -> Result<()> {
    for (key, value) in document.get("about").and_then(Value::as_table).into_iter().flatten() {
        let place = || written.place(&[Step::Key("about"), Step::Key(key)]);
        let is_axis = axes.iter().any(|axis| axis.key == *key);
        if let Some(advice) = unquoted(key, value).filter(|_| !is_axis) {
            bail!("{}: about: {advice}", place());
        }
        let mut document = firsts(document, axes)?;
        check_links(&|_| format!("{}: about", place()), &document, &[key])?;
        set(&mut document, key, value.clone()).with_context(|| format!("{}: about: `{key}`", place()))?;
        scenario(&|_| place(), "about", document)?;
    }
    Ok(())
}

/// The axes on which a scenario has another value than it says that published values are about.
pub(super) fn elsewhere(scenario: &Scenario, axes: &[(String, String)]) -> Result<Vec<String>> {
    if scenario.about.is_empty() {
        return Ok(Vec::new());
    }
    let own = Table::try_from(scenario).context("write the scenario")?;
    let differs = |(key, value): &&(String, String)| {
        let about = scenario.about.get(key);
        value != NOTHING
            && about.is_some_and(|about| lookup(&own, key).is_none_or(|own| as_written(own) != as_written(about)))
    };
    Ok(axes.iter().filter(differs).map(|(key, _)| key.clone()).collect())
}

#[cfg(test)]
mod tests {
    use crate::sweep::Sweep;
    use crate::sweep::tests::{DOCUMENT, error};

    #[test]
    fn what_is_no_key_of_a_scenario_is_refused() {
        let about = |entry: &str| error(&format!("{DOCUMENT}[about]\n\"tcp.nodelay\" = true\n{entry}\n"), &[]);
        let line = DOCUMENT.lines().count() + 3;
        for (entry, told) in [
            ("\"path.lsos\" = \"3%\"", "about: path.lsos: unknown key `lsos`, did you mean `loss`?"),
            ("losses = \"3%\"", "about: losses: unknown key `losses`"),
            ("\"path.loss\" = \"3\"", "about: path.loss: `3`: a share needs a unit, e.g. \"3%\""),
            ("path.loss = \"3%\"", "about: `path` is a table: a key of it is written in quotes, \"path.loss\" = ..."),
            ("\"links.k.loss\" = \"3%\"", "about: links.k.loss: there is no link `k` (there are l)"),
        ] {
            let error = about(entry);
            assert!(error.starts_with(&format!("two.toml:{line}: {told}")), "{error}");
        }
    }

    #[test]
    fn published_values_are_about_what_the_scenario_had() {
        let set = [("tcp.congestion", "cubic,bbr"), ("traffic.interval", "10ms,20ms")];
        let overrides = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let sweep = Sweep::new("two.toml", DOCUMENT, &overrides).unwrap();
        let elsewhere = |sweep: &Sweep| -> Vec<(String, String)> {
            let cells = sweep.cells.iter().filter(|cell| cell.name.starts_with("0%"));
            cells.map(|cell| (cell.name.clone(), cell.elsewhere.join(" "))).collect()
        };
        let expected = [
            ("0%/udp/-/10ms", ""),
            ("0%/udp/-/20ms", "traffic.interval"),
            ("0%/tcp/cubic/10ms", ""),
            ("0%/tcp/cubic/20ms", "traffic.interval"),
            ("0%/tcp/bbr/10ms", "tcp.congestion"),
            ("0%/tcp/bbr/20ms", "tcp.congestion traffic.interval"),
        ];
        assert_eq!(elsewhere(&sweep), expected.map(|(name, axes)| (name.to_owned(), axes.to_owned())));
        // What the manifest has says the same.
        let again = Sweep::new("two.toml", &sweep.document.to_string(), &[]).unwrap();
        assert_eq!(elsewhere(&again), elsewhere(&sweep));
    }
}
