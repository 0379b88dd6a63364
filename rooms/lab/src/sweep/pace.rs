//! `traffic.rate` and `traffic.interval`, which both say how often messages are sent.

use anyhow::{Result, bail};
use toml::{Table, Value};

use super::axes::Axis;
use super::cells::Cell;
use super::keys::{as_written, lookup};
use super::written::Written;
use crate::scenario::Mode;

pub(crate) const RATE: &str = "traffic.rate";
pub(crate) const INTERVAL: &str = "traffic.interval";

/// Of messages the one that is set last takes the place of the other: nobody could take that out of the document.
pub(super) fn replace(document: &mut Table, axes: &mut Vec<Axis>, is_set: &dyn Fn(&str) -> bool) {
    const MODE: &str = "traffic.mode";
    let is_swept = axes.iter().any(|axis| axis.key == MODE);
    if is_swept || lookup(document, MODE).is_some_and(|mode| as_written(mode) != "messages") {
        return;
    }
    for (set, other) in [(RATE, INTERVAL), (INTERVAL, RATE)] {
        if is_set(set) && !is_set(other) {
            axes.retain(|axis| axis.key != other);
            let traffic = document.get_mut("traffic").and_then(Value::as_table_mut);
            traffic.and_then(|traffic| traffic.remove(other.rsplit('.').next().unwrap_or(other)));
        }
    }
}

/// Refuses both, where one of them would mean nothing.
pub(super) fn check(written: &Written, document: &Table, axes: &[Axis], cells: &[Cell]) -> Result<()> {
    let says = |key: &str| lookup(document, key).is_some() || axes.iter().any(|axis| axis.key == key);
    let has_messages = cells.iter().any(|cell| cell.scenario.traffic.mode == Mode::Messages);
    if has_messages && says(RATE) && says(INTERVAL) {
        let place = written.place_of(INTERVAL);
        bail!("{place}: {INTERVAL}: {RATE} says how often messages are sent, too: keep one of them");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::sweep::Sweep;
    use crate::sweep::tests::{DOCUMENT, error};

    #[test]
    fn of_rate_and_interval_one_is_written_and_the_last_one_holds() {
        let both = DOCUMENT.replace("interval = ", "rate = \"1mbit\"\ninterval = ");
        let line = both[..both.find("interval").unwrap()].lines().count() + 1;
        let told = "traffic.interval: traffic.rate says how often messages are sent, too: keep one of them";
        assert_eq!(error(&both, &[]), format!("two.toml:{line}: {told}"));
        let swept = DOCUMENT.replace("[axes]", "[axes]\n\"traffic.rate\" = [\"1mbit\", \"2mbit\"]");
        assert!(error(&swept, &[]).ends_with(told));
        let set = [("traffic.rate", "1mbit"), ("traffic.interval", "5ms")];
        assert_eq!(error(DOCUMENT, &set), format!("two.toml: {told}"));
        // Bulk has no use for an interval.
        let bulk = both.replace("interval = ", "mode = \"bulk\"\ninterval = ");
        assert!(Sweep::new("two.toml", &bulk, &[]).is_ok());

        let written = |document: &str, key: &str, value: &str| {
            let sweep = Sweep::new("two.toml", document, &[(key.to_owned(), value.to_owned())]).unwrap();
            // What ran is read again by whoever goes on with it.
            assert!(Sweep::new("two.toml", &sweep.document.to_string(), &[]).is_ok());
            let traffic = sweep.scenario().traffic.clone();
            (traffic.rate.map(|rate| rate.bits_per_second), traffic.interval.to_string())
        };
        assert_eq!(written(DOCUMENT, "traffic.rate", "2mbit"), (Some(2_000_000), "10ms".into()));
        let paced = DOCUMENT.replace("interval = \"10ms\"", "rate = \"1mbit\"");
        assert_eq!(written(&paced, "traffic.interval", "5ms"), (None, "5ms".into()));
        let own = format!("{paced}[[cells]]\nname = \"own\"\nset = {{ \"traffic.interval\" = \"5ms\" }}\n");
        let own = Sweep::new("two.toml", &own, &[]).unwrap();
        let traffic = &own.cells.last().unwrap().scenario.traffic;
        assert_eq!((traffic.rate, traffic.interval.to_string().as_str()), (None, "5ms"));
    }
}
