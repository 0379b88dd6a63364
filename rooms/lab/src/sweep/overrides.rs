//! `--set KEY=VALUE`: keys of the document that are replaced before it is laid out.

use anyhow::{Result, bail};
use toml::{Table, Value};
use weir_program::config::did_you_mean;

use super::axes::{Axis, steps};
use super::keys::set;

/// Refuses keys of a link that there is not: set, they would make one without ends. `place` says where each is set.
pub(super) fn check_links(place: &dyn Fn(&str) -> String, document: &Table, keys: &[&str]) -> Result<()> {
    let links = document.get("links").and_then(Value::as_table);
    let known =
        || links.into_iter().flatten().filter(|(_, link)| link.get("ends").is_some()).map(|(name, _)| name.as_str());
    for key in keys {
        let Some((name, _)) = key.strip_prefix("links.").and_then(|rest| rest.split_once('.')) else { continue };
        let making = [format!("links.{name}"), format!("links.{name}.ends")];
        if known().all(|known| known != name) && keys.iter().all(|key| making.iter().all(|making| making != key)) {
            let all = known().collect::<Vec<_>>().join(", ");
            let (place, near) = (place(key), did_you_mean(name, known()));
            bail!("{place}: {key}: there is no link `{name}` (there are {all}){near}");
        }
    }
    Ok(())
}

/// What an override that looks like something else is to be written as; `None`: nothing is known against it.
fn misread(key: &str, text: &str) -> Option<String> {
    let last = key.rsplit('.').next().unwrap_or(key);
    let is_list = ["steps", "sizes"].contains(&last) && text.starts_with('[') && !text.starts_with("[[");
    if is_list && matches!(parse(text), Value::Array(tables) if tables.iter().any(Value::is_table)) {
        return Some(format!("a list of values makes an axis: one list has two brackets, {key}=[{text}]"));
    }
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    if let Some((from, to)) = text.split_once("..").filter(|(from, to)| is_number(from) && is_number(to)) {
        return Some(format!("a range is written {{ from = \"{from}\", to = \"{to}\", step = ... }}"));
    }
    messages_a_second(key, text)
}

/// What a rate of traffic that is given in messages a second is to be written as; `None`: it is none.
pub(super) fn messages_a_second(key: &str, text: &str) -> Option<String> {
    let table = key.strip_suffix(".rate").filter(|table| ["traffic", "load"].contains(table))?;
    let number = text.trim().strip_suffix("/s")?;
    let (digits, times) = match number.strip_suffix('k') {
        Some(digits) => (digits, 1e3),
        None => number.strip_suffix('M').map_or((number, 1.0), |digits| (digits, 1e6)),
    };
    let nanos = (1e9 / (digits.trim().parse::<f64>().ok()? * times)).round();
    let interval = if nanos % 1e3 == 0.0 { format!("{}us", nanos / 1e3) } else { format!("{nanos}ns") };
    (1.0..1e18)
        .contains(&nanos)
        .then(|| format!("a rate is in bits a second; so many messages are {table}.interval = \"{interval}\""))
}

/// Applies one override. A list (`a,b,c` or `["a","b"]`) makes the key an axis; a single value makes it none.
pub(super) fn apply(document: &mut Table, axes: &mut Vec<Axis>, key: &str, text: &str) -> Result<()> {
    if let Some(advice) = misread(key, text) {
        bail!(advice);
    }
    let values = match parse(text) {
        Value::Table(range) if ["from", "to", "step"].iter().all(|end| range.contains_key(*end)) => steps(&range)?,
        // No cell of its own, no chart ...
        Value::Array(none) if none.is_empty() && axes.iter().all(|axis| axis.key != key) => {
            return set(document, key, Value::Array(none));
        }
        Value::Array(values) => values,
        Value::String(list) if list.contains(',') => list.split(',').map(|value| parse(value.trim())).collect(),
        value => vec![value],
    };
    if let Some(advice) = values.iter().find_map(|value| messages_a_second(key, value.as_str()?)) {
        bail!(advice);
    }
    match (values.as_slice(), axes.iter_mut().find(|axis| axis.key == key)) {
        ([], _) => bail!("needs a value"),
        ([value], _) => {
            axes.retain(|axis| axis.key != key);
            set(document, key, value.clone())?;
        }
        (_, Some(axis)) => axis.values = values,
        (_, None) => axes.push(Axis { key: key.to_owned(), values }),
    }
    Ok(())
}

/// A command-line value: TOML where it is TOML (numbers, booleans, tables, lists), else a string.
fn parse(text: &str) -> Value {
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::sweep::Sweep;
    use crate::sweep::tests::{DOCUMENT, error, names};

    #[test]
    fn what_is_set_amiss_is_told_how_to_write() {
        let said = |key: &str, value: &str| {
            let set = [(key.to_owned(), value.to_owned())];
            format!("{:#}", Sweep::new("two.toml", DOCUMENT, &set).unwrap_err())
        };
        for (key, value, message) in [
            ("links.k.loss", "5%", "links.k.loss: there is no link `k` (there are l)"),
            ("links.k.loss", "5%,6%", "there is no link `k`"),
            ("path.loss", "0%..5%", "a range is written { from = \"0%\", to = \"5%\", step = ... }"),
            ("links.l.steps", "[{ at = \"1s\" }]", "one list has two brackets, links.l.steps=[[{ at = \"1s\" }]]"),
            ("traffic.rate", "20k/s", "so many messages are traffic.interval = \"50us\""),
            ("traffic.rate", "1mbit, 20k/s", "so many messages are traffic.interval = \"50us\""),
        ] {
            let said = said(key, value);
            assert!(said.contains(message) && said.lines().count() == 1, "{said}");
        }
        let range = names(&[("path.loss", "{ from = \"2%\", to = \"4%\", step = \"2%\" }")]);
        assert_eq!(range, ["2%/udp", "2%/tcp", "4%/udp", "4%/tcp"]);
    }

    #[test]
    fn messages_a_second_are_told_how_to_write_wherever_they_stand() {
        let advice = "a rate is in bits a second; so many messages are traffic.interval = \"10000us\"";
        let file = DOCUMENT.replace("interval = ", "rate = \"100/s\"\ninterval = ");
        let axis = DOCUMENT.replace("[axes]", "[axes]\n\"traffic.rate\" = [\"1mbit\", \"100/s\"]");
        let cell = format!("{DOCUMENT}[[cells]]\nname = \"own\"\nset = {{ \"traffic.rate\" = \"100/s\" }}\n");
        for (document, line) in [(file, "rate = \"100/s\""), (axis, "\"traffic.rate\" ="), (cell, "set = ")] {
            let at = document.lines().position(|written| written.starts_with(line)).unwrap() + 1;
            let said = error(&document, &[]);
            assert!(said.starts_with(&format!("two.toml:{at}: ")) && said.ends_with(advice), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    #[test]
    fn set_replaces_values_and_makes_and_ends_axes() {
        assert_eq!(names(&[("path.loss", "5%")]), ["udp", "tcp"]);
        assert_eq!(names(&[("path.loss", "5%"), ("traffic.transport", "tcp")]), ["single"]);
        assert_eq!(
            names(&[("path.loss", "5%"), ("traffic.transport", "tcp"), ("tcp.congestion", "cubic, reno")]),
            ["cubic", "reno"]
        );
        assert_eq!(names(&[("path.loss", r#"["1%"]"#), ("traffic.transport", "udp")]), ["single"]);
    }
}
