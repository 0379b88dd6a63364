//! What is wrong in what a scenario asks of the report of its runs, found before anything runs: charts that cannot be drawn,
//! statements and assertions that nothing decides.

use std::collections::BTreeMap;

use crate::columns::{self, Kind, QUANTITIES};
use crate::record::{Assert, Chart, ChartKind, Claim, Published, Value};

/// What a scenario asks of the report of its runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Charts.
    pub charts: &'a [Chart],
    /// Published values.
    pub published: Option<&'a Published>,
    /// Published statements.
    pub claims: &'a [Claim],
    /// Assertions.
    pub asserts: &'a [Assert],
    /// The keys of the sweep.
    pub axes: &'a [&'a str],
}

/// A mistake, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where in the scenario.
    pub path: Vec<Place>,
    /// Of which entry, and what.
    pub said: String,
}

/// A step from a table or list of the scenario down to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Of a table.
    Key(String),
    /// Of a list, from 0.
    Index(usize),
}

/// Keys that are wrong in a table, and what is wrong about them.
type Wrong = (Vec<String>, String);

impl Asked<'_> {
    /// Refuses assertions that could never hold or fail, claims that nothing decides, charts that cannot be drawn, and whatever
    /// is over columns that there are not.
    ///
    /// # Errors
    /// The first mistake, of an unknown name with the nearest one.
    pub fn check(&self) -> Result<(), Mistake> {
        for (index, assert) in self.asserts.iter().enumerate() {
            let name = assert.name.as_ref().map_or_else(|| format!("{}", index + 1), |name| format!("`{name}`"));
            let checked = self.check_assert(index, assert);
            checked
                .map_err(|wrong| mistake(&[key("assert"), Place::Index(index)], &format!("assert {name}"), wrong))?;
        }
        for (index, chart) in self.charts.iter().enumerate() {
            let checked = self.check_chart(index, chart);
            let name = format!("chart {}", chart.name);
            checked.map_err(|wrong| mistake(&[key("charts"), Place::Index(index)], &name, wrong))?;
        }
        for (index, claim) in self.claims.iter().enumerate() {
            let checked = self.check_claim(claim);
            let name = format!("claim \"{}\"", claim.text);
            checked.map_err(|wrong| mistake(&[key("claims"), Place::Index(index)], &name, wrong))?;
        }
        for (index, point) in self.published.iter().flat_map(|published| &published.points).enumerate() {
            let checked = point.iter().try_for_each(|(column, value)| self.check_selected(column, value));
            let path = [key("published"), key("points"), Place::Index(index)];
            checked.map_err(|wrong| mistake(&path, &format!("published.points[{index}]"), wrong))?;
        }
        Ok(())
    }

    fn check_assert(&self, index: usize, assert: &Assert) -> Result<(), Wrong> {
        check_column(&assert.column)?;
        self.check_selections(&assert.selection, assert.relative_to.as_ref())?;
        check_bounds(&assert.column, assert.at_least, assert.at_most, assert.relative_to.is_some())?;
        check_terms(assert.confidence, assert.min_duration_s)?;
        if assert.name.is_some() && self.asserts[..index].iter().any(|other| other.name == assert.name) {
            let wrong = "name: an assertion before it has the same, and who reads results by name sees one of them: \
                         give it another";
            return Err(about("name", wrong.into()));
        }
        Ok(())
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), Wrong> {
        check_column(&claim.column)?;
        self.check_selections(&claim.selection, claim.relative_to.as_ref())?;
        check_bounds(&claim.column, claim.at_least, claim.at_most, claim.relative_to.is_some())?;
        check_terms(claim.confidence, claim.min_duration_s)
    }

    fn check_chart(&self, index: usize, chart: &Chart) -> Result<(), Wrong> {
        if let Some(problem) = chart.problem() {
            return Err((Vec::new(), problem));
        }
        let columns = [("x", &chart.x), ("y", &chart.y), ("series", &chart.series), ("value", &chart.value)];
        let columns = columns.into_iter().chain(chart.beside.keys().map(|column| ("beside", column)));
        for (key, column) in columns.filter(|(_, column)| !column.is_empty()) {
            self.check_name(column).map_err(|wrong| about(key, format!("{key}: {wrong}")))?;
            let is_drawn = matches!((key, chart.kind), ("y", ChartKind::Lines) | ("beside" | "value", _));
            if is_drawn && columns::is_text(column) {
                return Err(about(
                    key,
                    format!("{key}: `{column}` is text, which has no height: name a column of numbers"),
                ));
            }
        }
        self.check_selections(&chart.selection, None)?;
        if let Some(unknown) = chart.quantities.iter().find(|name| QUANTITIES.iter().all(|known| known.name != **name))
        {
            let known: Vec<&str> = QUANTITIES.iter().map(|quantity| quantity.name).collect();
            let wrong =
                format!("quantities: nothing of the name `{unknown}` is sampled: there are {}", known.join(", "));
            return Err(about("quantities", wrong));
        }
        if self.charts[..index].iter().any(|other| other.name == chart.name) {
            return Err(about(
                "name",
                "name: a chart before it has the same, and would lose its file: give it another".into(),
            ));
        }
        Ok(())
    }

    fn check_selections(
        &self,
        selection: &BTreeMap<String, Value>,
        relative_to: Option<&BTreeMap<String, Value>>,
    ) -> Result<(), Wrong> {
        if relative_to == Some(selection) {
            return Err(about(
                "relative_to",
                "relative_to: the same cells as in `where`, to which the ratio is 1".into(),
            ));
        }
        for (table, selection) in [("where", Some(selection)), ("relative_to", relative_to)] {
            for (name, value) in selection.into_iter().flatten() {
                self.check_selected(name, value)
                    .map_err(|(keys, wrong)| ([vec![table.to_owned()], keys].concat(), format!("{table}: {wrong}")))?;
            }
        }
        Ok(())
    }

    /// A name and a value that it can have.
    fn check_selected(&self, name: &str, value: &Value) -> Result<(), Wrong> {
        self.check_name(name).map_err(|wrong| about(name, wrong))?;
        let is_number =
            columns::column(name).is_some_and(|column| column.kind != Kind::Flag) && !columns::is_text(name);
        match value {
            Value::Text(text) if is_number && text.parse::<f64>().is_err() => {
                let unit = columns::unit(name);
                let unit = if unit.is_empty() { String::new() } else { format!(", in {unit}") };
                Err(about(name, format!("{name} = {text:?}: write it as a number, without quotes and unit{unit}")))
            }
            _ => Ok(()),
        }
    }

    /// A column or an axis. A scenario key that is an axis elsewhere, or was one before `--set`, selects nothing here.
    fn check_name(&self, name: &str) -> Result<(), String> {
        if name.contains('.') { Ok(()) } else { columns::check(name, self.axes) }
    }
}

fn key(name: &str) -> Place {
    Place::Key(name.to_owned())
}

fn mistake(entry: &[Place], name: &str, (keys, wrong): Wrong) -> Mistake {
    let path = entry.iter().cloned().chain(keys.into_iter().map(Place::Key)).collect();
    Mistake { path, said: format!("{name}: {wrong}") }
}

fn about(key: &str, wrong: String) -> Wrong {
    (vec![key.to_owned()], wrong)
}

/// What bounds are for.
fn check_column(column: &str) -> Result<(), Wrong> {
    columns::check(column, &[]).map_err(|wrong| about("column", wrong))?;
    if columns::is_text(column) {
        let wrong = format!(
            "column: `{column}` is text, which has no bounds: select by it in `where`, and name a column of numbers"
        );
        return Err(about("column", wrong));
    }
    Ok(())
}

fn check_bounds(column: &str, low: Option<f64>, high: Option<f64>, is_ratio: bool) -> Result<(), Wrong> {
    let is_share = !is_ratio && matches!(columns::kind(column), Some(Kind::Share(_)));
    for (key, bound) in [("at_least", low), ("at_most", high)] {
        // Whatever is measured lies neither below nor above what is no number.
        if let Some(odd) = bound.filter(|bound| !bound.is_finite()) {
            return Err(about(key, format!("bound {odd}: a number")));
        }
        if let Some(bound) = bound.filter(|bound| is_share && bound.abs() > 1.0) {
            let wrong = format!("{key} = {bound}: `{column}` is a share, of 1: {} for {bound} %", bound / 100.0);
            return Err(about(key, wrong));
        }
    }
    match (low, high) {
        (None, None) => Err((Vec::new(), "needs a bound: `at_least`, `at_most` or both".into())),
        (Some(low), Some(high)) if low > high => {
            Err(about("at_least", format!("nothing is at least {low} and at most {high}: exchange them")))
        }
        _ => Ok(()),
    }
}

fn check_terms(confidence: f64, min_duration_s: Option<f64>) -> Result<(), Wrong> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(about("confidence", format!("confidence {confidence}: a number between 0 and 1, e.g. 0.95")));
    }
    match min_duration_s.filter(|seconds| !(seconds.is_finite() && *seconds >= 0.0)) {
        Some(odd) => Err(about("min_duration_s", format!("min_duration_s {odd}: a number of seconds, from 0"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::Manifest;

    const AXES: [&str; 2] = ["path.loss", "size"];

    fn assert_of(keys: &str) -> Assert {
        toml::from_str(keys).unwrap()
    }

    fn mistake(assert: &str) -> String {
        Asked { asserts: &[assert_of(assert)], axes: &AXES, ..Asked::default() }.check().unwrap_err().said
    }

    fn shown(charts: &[Chart], claims: &[Claim], published: Option<&Published>) -> Result<(), Mistake> {
        let axes = ["path.loss", "traffic.transport"];
        Asked { charts, claims, published, axes: &axes, ..Asked::default() }.check()
    }

    /// The place as a person writes it, and what is said.
    fn told(checked: Result<(), Mistake>) -> (String, String) {
        let Mistake { path, said } = checked.unwrap_err();
        let step = |step: &Place| match step {
            Place::Key(key) => key.clone(),
            Place::Index(index) => index.to_string(),
        };
        (path.iter().map(step).collect::<Vec<_>>().join("."), said)
    }

    #[test]
    fn assertions_that_nothing_decides_are_refused_in_one_line() {
        let good =
            "column = \"connect_ms\"\nat_most = 1\nwhere = { size = 1, \"path.loss\" = \"1%\", valid = \"true\" }";
        Asked { asserts: &[assert_of(good)], axes: &AXES, ..Asked::default() }.check().unwrap();
        for (keys, said) in [
            (
                "column = \"mbit_per_sec\"\nat_most = 1",
                "assert 1: no column `mbit_per_sec`, did you mean `mbit_per_s`?",
            ),
            (
                "column = \"transport\"\nat_most = 1",
                "assert 1: column: `transport` is text, which has no bounds: select by it in `where`, and name a column of numbers",
            ),
            ("column = \"sent\"\nname = \"fast\"", "assert `fast`: needs a bound: `at_least`, `at_most` or both"),
            (
                "column = \"sent\"\nat_least = 2\nat_most = 1",
                "assert 1: nothing is at least 2 and at most 1: exchange them",
            ),
            (
                "column = \"sent\"\nat_least = 1\nwhere = { transprot = 1 }",
                "assert 1: where: no column `transprot`, did you mean `transport`?",
            ),
            (
                "column = \"sent\"\nat_least = 1\nwhere = { loss_pct = \"5%\" }",
                "assert 1: where: loss_pct = \"5%\": write it as a number, without quotes and unit, in %",
            ),
            ("column = \"sent\"\nat_most = nan", "assert 1: bound NaN: a number"),
            (
                "column = \"sent\"\nat_most = 1\nconfidence = 95",
                "assert 1: confidence 95: a number between 0 and 1, e.g. 0.95",
            ),
            (
                "column = \"sent\"\nat_most = 1\nmin_duration_s = -1",
                "assert 1: min_duration_s -1: a number of seconds, from 0",
            ),
            (
                "column = \"lost_share\"\nat_most = 5",
                "assert 1: at_most = 5: `lost_share` is a share, of 1: 0.05 for 5 %",
            ),
            (
                "column = \"sent\"\nat_most = 1\nwhere = { size = 1 }\nrelative_to = { size = 1 }",
                "assert 1: relative_to: the same cells as in `where`, to which the ratio is 1",
            ),
        ] {
            assert_eq!(mistake(keys), said);
        }
        let twice = [1, 2].map(|bound| assert_of(&format!("name = \"n\"\ncolumn = \"sent\"\nat_most = {bound}")));
        let (place, said) = told(Asked { asserts: &twice, axes: &AXES, ..Asked::default() }.check());
        assert!(place == "assert.1.name" && said.starts_with("assert `n`: name: an assertion before it has the same"));
        // And where.
        let other = format!("{good}\nrelative_to = {{ loss = 1 }}");
        let asserts = [assert_of(good), assert_of(&other)];
        let (place, _) = told(Asked { asserts: &asserts, axes: &AXES, ..Asked::default() }.check());
        assert_eq!(place, "assert.1.relative_to.loss");
    }

    #[test]
    fn charts_that_cannot_be_drawn_are_refused() {
        let Manifest { charts, claims, published, .. } = fixture::manifest();
        shown(&charts, &claims, published.as_ref()).unwrap();
        let refused = |chart: Chart| told(shown(&[chart], &[], None));
        let first = charts[0].clone();
        let name = &first.name;
        assert_eq!(
            refused(Chart { y: "delay_meen_us".into(), ..first.clone() }),
            ("charts.0.y".into(), format!("chart {name}: y: no column `delay_meen_us`, did you mean `delay_mean_us`?"))
        );
        let (place, said) = refused(Chart { y: "transport".into(), ..first.clone() });
        assert!(
            place == "charts.0.y"
                && said.ends_with("`transport` is text, which has no height: name a column of numbers")
        );
        let twice = told(shown(&[first.clone(), first.clone()], &[], None));
        let said =
            format!("chart {name}: name: a chart before it has the same, and would lose its file: give it another");
        assert_eq!(twice, ("charts.1.name".into(), said));
        let time: Chart =
            toml::from_str("name = \"t\"\ntitle = \"T\"\nkind = \"time\"\nquantities = [\"rtt_us\", \"cwnd\"]")
                .unwrap();
        let (place, said) = refused(time.clone());
        assert!(
            place == "charts.0.quantities" && said.contains("`cwnd` is sampled: there are received_mbit, "),
            "{said}"
        );
        shown(&[Chart { quantities: vec!["rtt_us".into()], ..time }], &[], None).unwrap();
    }

    #[test]
    fn claims_are_held_to_what_assertions_are() {
        let claim = fixture::manifest().claims[0].clone();
        let refused = |claim: Claim| shown(&[], &[claim], None).unwrap_err().said;
        let said = refused(Claim { column: "msgs_pers".into(), ..claim.clone() });
        assert!(said.ends_with("no column `msgs_pers`, did you mean `msgs_per_s`?"), "{said}");
        let said = refused(Claim { at_least: Some(f64::NAN), ..claim.clone() });
        assert!(said.ends_with("bound NaN: a number"), "{said}");
        let said = refused(Claim { at_least: None, at_most: None, ..claim.clone() });
        assert!(said.ends_with("needs a bound: `at_least`, `at_most` or both"), "{said}");
        let said = refused(Claim { at_least: Some(3.0), at_most: Some(2.0), ..claim.clone() });
        assert!(said.ends_with("nothing is at least 3 and at most 2: exchange them"), "{said}");
        let said = refused(Claim { confidence: 1.5, ..claim });
        assert!(said.ends_with("confidence 1.5: a number between 0 and 1, e.g. 0.95"), "{said}");
    }

    #[test]
    fn published_points_are_over_columns() {
        let of = |point: &str| {
            let published: Published =
                toml::from_str(&format!("source = \"s\"\npoints = [{{ sent = 1 }}, {{ {point} }}]")).unwrap();
            shown(&[], &[], Some(&published))
        };
        of("transport = \"udp\", loss_pct = 3, \"path.loss\" = \"3%\"").unwrap();
        let said = "published.points[1]: no column `losspct`, did you mean `loss_pct`?";
        assert_eq!(told(of("losspct = 3")), ("published.points.1.losspct".into(), said.into()));
        let (place, said) = told(of("latency_ms = \"10ms\""));
        let expected = "latency_ms = \"10ms\": write it as a number, without quotes and unit, in ms";
        assert!(place == "published.points.1.latency_ms" && said.ends_with(expected), "{said}");
    }
}
