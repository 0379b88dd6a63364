//! Errors in a scenario's charts, published values, claims and assertions, found before anything runs.

use std::collections::BTreeMap;

use crate::columns::{Columns, Kind};
use crate::record::{Chart, ChartKind, Claim, OwnColumn, Published, Value};

/// What a scenario requests of its report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Charts.
    pub charts: &'a [Chart],
    /// Published values.
    pub published: Option<&'a Published>,
    /// Published statements.
    pub claims: &'a [Claim],
    /// Assertions.
    pub asserts: &'a [Claim],
    /// The columns that the scenario defines.
    pub columns: &'a [OwnColumn],
    /// The keys of the sweep.
    pub axes: &'a [&'a str],
}

/// An error, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where in the scenario: `charts[0].x`.
    pub path: String,
    /// The entry, and the error.
    pub said: String,
}

/// A wrong key of an entry, and its error.
type Wrong = (&'static str, String);

impl Asked<'_> {
    /// Refuses claims and assertions that cannot be decided, charts that cannot be drawn, and unknown columns.
    ///
    /// # Errors
    /// The first error, with the nearest name for an unknown one.
    pub fn check(&self) -> Result<(), Mistake> {
        let placed = |entry: String, name: String| {
            move |(key, said): Wrong| Mistake { path: format!("{entry}.{key}"), said: format!("{name}: {said}") }
        };
        for (table, claims) in [("assert", self.asserts), ("claims", self.claims)] {
            for (index, claim) in claims.iter().enumerate() {
                let same = |other: &Claim| !claim.text.is_empty() && other.text == claim.text;
                let checked = match claims[..index].iter().any(same) {
                    true => Err(("name", "another one has the same text. Choose another.".to_owned())),
                    false => self.check_claim(claim),
                };
                let number = index + 1;
                let name = if claim.text.is_empty() { number.to_string() } else { format!("`{}`", claim.text) };
                checked
                    .map_err(placed(format!("{table}[{index}]"), format!("{} {name}", table.trim_end_matches('s'))))?;
            }
        }
        for (index, chart) in self.charts.iter().enumerate() {
            let checked = match self.charts[..index].iter().any(|other| other.name == chart.name) {
                true => Err(("name", "another chart has this name. Choose another.".to_owned())),
                false => self.check_chart(chart),
            };
            checked.map_err(placed(format!("charts[{index}]"), format!("chart {}", chart.name)))?;
        }
        for (index, point) in self.published.iter().flat_map(|published| &published.points).enumerate() {
            let entry = format!("published.points[{index}]");
            self.check_values("", point).map_err(placed(entry.clone(), entry))?;
        }
        Ok(())
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), Wrong> {
        let Claim { column, at_least, at_most, confidence, min_duration_s, .. } = claim;
        self.check_number("column", column)?;
        self.check_values("where", &claim.selection)?;
        claim.relative_to.iter().try_for_each(|other| self.check_values("relative_to", other))?;
        let is_share = claim.relative_to.is_none() && self.kind(column) == Some(Kind::Share);
        for (key, bound) in [("at_least", at_least), ("at_most", at_most)] {
            match bound {
                Some(bound) if !bound.is_finite() => return Err((key, format!("{key} = {bound}: must be a number"))),
                Some(bound) if is_share && bound.abs() > 1.0 => {
                    let share = bound / 100.0;
                    return Err((
                        key,
                        format!("{key} = {bound}: `{column}` is a fraction of 1. Write {share} for {bound} %."),
                    ));
                }
                _ => {}
            }
        }
        match (at_least, at_most) {
            (None, None) => Err(("", "needs a bound: `at_least`, `at_most` or both".into())),
            (Some(low), Some(high)) if low > high => {
                Err(("at_least", format!("at_least = {low} is more than at_most = {high}. Swap them.")))
            }
            _ if claim.relative_to.as_ref() == Some(&claim.selection) => {
                Err(("relative_to", "relative_to: the same cells as in `where`, so the ratio is always 1".into()))
            }
            _ if !(*confidence > 0.0 && *confidence < 1.0) => {
                Err(("confidence", format!("confidence = {confidence}: must be between 0 and 1, e.g. 0.95")))
            }
            _ if min_duration_s.is_some_and(|seconds| !(seconds.is_finite() && seconds >= 0.0)) => {
                Err(("min_duration_s", "min_duration_s: must be a number of seconds, 0 or more".into()))
            }
            _ => Ok(()),
        }
    }

    fn check_chart(&self, chart: &Chart) -> Result<(), Wrong> {
        if let Some(problem) = chart.problem() {
            return Err(("", problem));
        }
        let is_drawn = chart.kind == ChartKind::Lines;
        let names = [("x", &chart.x, false), ("y", &chart.y, is_drawn), ("series", &chart.series, false)];
        let further = chart.beside.keys().map(|column| ("beside", column, true));
        for (key, column, drawn) in names.into_iter().chain(further).chain([("value", &chart.value, true)]) {
            match (column.is_empty(), drawn) {
                (true, _) => {}
                (false, true) => self.check_number(key, column)?,
                (false, false) => self.check_name(column).map_err(|wrong| (key, format!("{key}: {wrong}")))?,
            }
        }
        self.check_values("where", &chart.selection)
    }

    /// Names, and values that they can have.
    fn check_values(&self, key: &'static str, values: &BTreeMap<String, Value>) -> Result<(), Wrong> {
        let prefix = if key.is_empty() { String::new() } else { format!("{key}: ") };
        for (name, value) in values {
            self.check_name(name).map_err(|wrong| (key, format!("{prefix}{wrong}")))?;
            let is_number = self.kind(name).is_some_and(|kind| !matches!(kind, Kind::Text | Kind::Flag));
            if let Value::Text(text) = value
                && is_number
                && text.parse::<f64>().is_err()
            {
                let unit = Columns(self.columns).unit(name);
                let unit = if unit.is_empty() { String::new() } else { format!(", in {unit}") };
                return Err((key, format!("{prefix}{name} = {text:?}: write a number without quotes and unit{unit}")));
            }
        }
        Ok(())
    }

    fn check_number(&self, key: &'static str, column: &str) -> Result<(), Wrong> {
        self.check_name(column).map_err(|wrong| (key, format!("{key}: {wrong}")))?;
        match self.kind(column) {
            Some(Kind::Text) => Err((key, format!("{key}: `{column}` is text. Choose a numeric column."))),
            _ => Ok(()),
        }
    }

    /// A column or an axis. A scenario key that is an axis elsewhere, or was one before `--set`, does not select
    /// anything here.
    fn check_name(&self, name: &str) -> Result<(), String> {
        if name.contains('.') { Ok(()) } else { Columns(self.columns).check(name, self.axes) }
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        Columns(self.columns).kind(name)
    }
}

#[cfg(test)]
#[path = "tests/mistakes.rs"]
mod tests;
