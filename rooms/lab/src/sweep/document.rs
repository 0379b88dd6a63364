//! Whether a document is a scenario, as it is written: what is wrong is told with its line and its key.

use anyhow::{Result, bail};
use toml::{Table, Value};
use weir_program::config::{Document, Step};

use super::overrides::messages_a_second;
use crate::scenario::Scenario;

/// Deserializes the document as written, so that an error can point at its line.
pub(super) fn check(origin: &str, text: &str, table: &Table) -> Result<()> {
    let written = Document::parse(origin, text)?;
    for (key, name) in SINGLE {
        if table.get(key).is_some_and(Value::is_array) {
            let said = format!("{key}: write [{key}{name}] in place of [[{key}]]");
            return Err(written.error(&[Step::Key(key), Step::Index(0)], &said));
        }
    }
    for (index, cell) in table.get("cells").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let is_scenarios =
            |key: &&String| key.contains('.') || SINGLE.iter().any(|(single, _)| *single == key.as_str());
        if let Some(key) = cell.as_table().into_iter().flat_map(Table::keys).find(is_scenarios) {
            let path = [Step::Key("cells"), Step::Index(index), Step::Key(key)];
            let advice = "what a cell sets is in its `set`, each key in quotes: set = { \"path.loss\" = \"5%\" }";
            return Err(written.error(&path, &format!("cells: {key}: {advice}")));
        }
    }
    for name in ["traffic", "load"] {
        let rate = table.get(name).and_then(|traffic| traffic.get("rate")).and_then(Value::as_str);
        if let Some(advice) = rate.and_then(|rate| messages_a_second(&format!("{name}.rate"), rate)) {
            return Err(written.error(&[Step::Key(name), Step::Key("rate")], &format!("{name}.rate: {advice}")));
        }
    }
    match toml::from_str::<Scenario>(text) {
        Ok(_) => Ok(()),
        // A key that only an axis gives a value is missing here, and present in every cell.
        Err(error) if error.message().starts_with("missing field") => Ok(()),
        // Of one of several words: whoever reads it knows neither those nor the key.
        Err(error) if error.message().starts_with("wanted string") => {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let (line, last) = (before.matches('\n').count() + 1, before.lines().last().unwrap_or_default());
            let key = last.rsplit(['{', ',']).next().unwrap_or_default().trim_end_matches([' ', '=']).trim_start();
            bail!("{origin}:{line}: {key}: write a word in quotes (docs/lab.md has those of each key)")
        }
        // Once more, for an error that names its key.
        Err(_) => written.read::<Scenario>().map(drop),
    }
}

/// Tables that there is one of, and what is behind the name of those that have entries by name.
const SINGLE: [(&str, &str); 16] = [
    ("about", ""),
    ("axes", ""),
    ("columns", ".NAME"),
    ("hosts", ".NAME"),
    ("links", ".NAME"),
    ("load", ""),
    ("parameters", ""),
    ("path", ""),
    ("published", ""),
    ("quic", ""),
    ("receive", ""),
    ("routers", ".NAME"),
    ("run", ""),
    ("switches", ".NAME"),
    ("tcp", ""),
    ("traffic", ""),
];

/// What an entry of a table of dotted keys is to be written as that was written without quotes; `None`: it has nothing below.
pub(super) fn unquoted(key: &str, value: &Value) -> Option<String> {
    let (below, _) = value.as_table().filter(|_| !key.contains('.'))?.iter().next()?;
    Some(format!("`{key}` is a table: a key of it is written in quotes, \"{key}.{below}\" = ..."))
}

#[cfg(test)]
mod tests {
    use super::SINGLE;
    use crate::sweep::tests::{DOCUMENT, error};

    #[test]
    fn a_list_in_place_of_a_table_is_told_how_to_write() {
        for (key, name) in SINGLE {
            // Without what the document has of it: that would be there twice.
            let is_other = |part: &&str| !part.starts_with(&format!("{key}]")) && !part.starts_with(&format!("{key}."));
            let others: Vec<&str> = DOCUMENT.split("\n[").filter(is_other).collect();
            let document = format!("{}\n[[{key}]]\na = 1\n", others.join("\n["));
            let line = document.lines().count() - 1;
            let told = format!("two.toml:{line}: {key}: write [{key}{name}] in place of [[{key}]]");
            assert_eq!(error(&document, &[]), told);
        }
    }

    #[test]
    fn errors_of_a_type_name_their_key() {
        let wrong = |from: &str, to: &str| error(&DOCUMENT.replace(from, to), &[]);
        let ends = "ends = [\"a\", \"b\"]";
        let with = |keys: &str| wrong(ends, &format!("{ends}\n{keys}"));
        assert_eq!(
            with("variation = \"1ms\""),
            "two.toml:15: links.l.variation: invalid type: string \"1ms\", expected a distribution, e.g. { uniform = \"2ms\" }"
        );
        assert_eq!(
            with("reorder = \"5%\""),
            "two.toml:15: links.l.reorder: invalid type: string \"5%\", expected a table, e.g. { probability = \"1%\", by = \"3ms\" }"
        );
        let stall = wrong("[traffic]", "[receive]\nstall = \"40ms\"\n[traffic]");
        let told = "receive.stall: invalid type: string \"40ms\", expected a table, e.g. { every = \"200ms\", length = \"40ms\" }";
        assert!(stall.ends_with(told), "{stall}");
        let word = wrong("[traffic]", "[run]\nmessages = true\n[traffic]");
        assert_eq!(word, "two.toml:17: messages: write a word in quotes (docs/lab.md has those of each key)");
        let port = wrong("port = 9", "port = 99999");
        let told = "traffic.port: invalid value: integer `99999`, expected a whole number from 0 to 65535";
        assert!(port.ends_with(told), "{port}");
    }

    #[test]
    fn keys_beside_the_set_of_a_cell_are_told_where_they_belong() {
        for key in ["\"path.loss\" = \"5%\"", "path.loss = \"5%\"", "tcp = { congestion = \"bbr\" }"] {
            let document = format!("{DOCUMENT}[[cells]]\nname = \"own\"\n{key}\n");
            let line = document.lines().count();
            let error = error(&document, &[]);
            assert!(error.starts_with(&format!("two.toml:{line}: cells: ")), "{error}");
            assert!(
                error.ends_with("is in its `set`, each key in quotes: set = { \"path.loss\" = \"5%\" }"),
                "{error}"
            );
        }
    }
}
