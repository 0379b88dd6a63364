//! A scenario as it runs, every default written out: again a scenario, which runs the same.

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::sweep::pace::INTERVAL;
use crate::sweep::{Sweep, lookup};

/// The document of a sweep as TOML: what its first cell has, defaults and overrides included, then its axes, which every
/// cell sets anew, and its cells of their own. What has no value (`rate` of a link without a shaper) is absent.
///
/// # Errors
/// A value has no form in TOML; nothing that a document can say has none.
pub fn document(sweep: &Sweep) -> Result<String> {
    let mut document = Table::try_from(sweep.scenario()).context("write the scenario")?;
    // Decided by the sweep: the axes as they were laid out, and from where traces are found.
    for key in ["axes", "directory"] {
        match sweep.document.get(key) {
            Some(value) => document.insert(key.to_owned(), value.clone()),
            None => document.remove(key),
        };
    }
    // A default that means nothing beside a rate, and would be taken for a second word about the same.
    let says_interval =
        lookup(&sweep.document, INTERVAL).is_some() || sweep.axes.iter().any(|axis| axis.key == INTERVAL);
    if !says_interval
        && let Some(traffic) = document.get_mut("traffic").and_then(Value::as_table_mut)
        && traffic.contains_key("rate")
    {
        traffic.remove("interval");
    }
    toml::to_string_pretty(&document).context("write the scenario")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::scenario::Scenario;
    use crate::sweep::Cell;

    /// Reads what is printed, and finds the same cells and the same print.
    fn comes_back(origin: &str, text: &str, overrides: &[(String, String)]) -> Result<(), String> {
        let sweep = Sweep::new(origin, text, overrides).map_err(|error| format!("{error:#}"))?;
        let printed = document(&sweep).unwrap();
        let again =
            Sweep::new("elsewhere/effective.toml", &printed, &[]).unwrap_or_else(|e| panic!("{e:#}\n{printed}"));
        assert_eq!((&sweep.axes, sweep.cells.len()), (&again.axes, again.cells.len()));
        for (before, after) in sweep.cells.iter().zip(&again.cells) {
            assert_eq!((&before.name, &before.axes), (&after.name, &after.axes));
            // Compared as the cells that they became. Where traces start is decided when they are read.
            let own = |cell: &Cell| Scenario { cells: Vec::new(), directory: None, ..cell.scenario.clone() };
            let (before, after) = (format!("{:?}", own(before)), format!("{:?}", own(after)));
            assert!(before == after, "{before}\n{after}\n{printed}");
        }
        assert_eq!(document(&again).unwrap(), printed);
        Ok(())
    }

    #[test]
    fn what_ships_comes_back() {
        for (name, text) in Scenario::shipped() {
            comes_back(&format!("{name}.toml"), text, &[]).unwrap();
        }
    }

    #[test]
    fn traces_are_found_from_anywhere() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("traces")).unwrap();
        for (file, text) in [("lte.trace", "1\n2"), ("traces/wifi.trace", "1\n5")] {
            std::fs::write(directory.path().join(file), text).unwrap();
        }
        let origin = directory.path().join("mine.toml").to_string_lossy().into_owned();
        let (_, text) = Scenario::find("bufferbloat").unwrap();
        let set =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<Vec<_>>();
        let link = Sweep::new("", &text, &[]).unwrap().scenario().links.keys().next().unwrap().clone();
        let key = format!("links.{link}.backward.trace");
        comes_back(&origin, &text, &set(&[(&key, "lte.trace")])).unwrap();
        comes_back(&origin, &text, &set(&[(&key, "wifi.trace"), ("directory", "traces")])).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_set_comes_back(
            name in select(Scenario::shipped().map(|(name, _)| name).collect::<Vec<_>>()),
            set in proptest::collection::vec(select(OVERRIDES), 0..5),
        ) {
            let text = Scenario::of_name(name).unwrap();
            let link = Sweep::new(name, text, &[]).unwrap().scenario().links.keys().last().unwrap().clone();
            let set: Vec<_> = set.iter().map(|(key, value)| (key.replace("LINK", &link), value.to_string())).collect();
            // What is refused has no effect to print.
            let _ = comes_back(name, text, &set);
        }
    }

    const OVERRIDES: &[(&str, &str)] = &[
        ("run.jobs", "3"),
        ("run.jobs", "auto"),
        ("run.duration", "1500ms"),
        ("run.max_foreign", "0.05%"),
        ("run.trace", "off,queues"),
        ("run.impaired", "true,false"),
        ("path.delay", "7us"),
        ("path.loss", "0,3.5%"),
        ("receive.buffer", "default,4096B"),
        ("receive.stall", "{ every = \"200ms\", length = \"40ms\" }"),
        ("tcp.buffer", "4MiB"),
        ("traffic.batch", "64"),
        ("traffic.rate", "1mbit"),
        ("traffic.interval", "2ms"),
        ("traffic.address", "\"239.1.1.1\""),
        ("traffic.transport", "quic-datagram"),
        ("links.LINK.direct", "true"),
        ("links.LINK.mtu", "9000"),
        ("links.LINK.rate", "1gbit,9600bit"),
        ("links.LINK.queue", "100"),
        ("links.LINK.forward.queue", "64kB"),
        ("links.LINK.forward.loss", "5%"),
        ("links.LINK.loss", "{ mean = \"5%\", burst = 4 }"),
        ("links.LINK.backward.loss", "{ mean = \"5%\" }"),
        ("links.LINK.backward.loss", "{ to_bad = \"1%\", to_good = \"25%\" }"),
        ("links.LINK.forward.loss", "{ list = [3, 17] }"),
        ("links.LINK.variation", "{ normal = [\"1ms\", \"100us\"], order = \"reorder\" }"),
        ("links.LINK.forward.variation", "{ exponential = \"1ms\" }"),
        ("links.LINK.reorder", "{ probability = \"1%\", by = \"5ms\" }"),
        (
            "links.LINK.forward.steps",
            "[[{ at = \"5s\", loss = \"3%\" }, { at = \"6s\", rate = \"1mbit\", queue = 3 }]]",
        ),
        ("links.LINK.forward.repeat", "10s"),
        ("cells", "[]"),
    ];
}
