//! Thresholds: values that a metric or a flow is not to exceed, and the pure state machine that tells crossings.
//!
//! [`Thresholds`] holds the definitions on the control side and compiles them to [`Rules`], which workers share. Each worker
//! has a [`Watch`], asked where a value changes; when it tells a crossing, the worker pushes an
//! [`Event`](crate::events::Event).

mod filter;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_program::config::did_you_mean;

use crate::counters::{Form, Metric};
use crate::events::Event;
use crate::flows::lenient;
pub use filter::{Fact, Facts, Filter, Pattern};
pub use watch::{Observation, On, Watch};

/// A threshold as REST and configuration write it; the keys are sFlow-RT's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Threshold {
    /// The metric, `ifinutilization`, or flow definition whose value is watched.
    pub metric: String,
    /// What it crosses when it is greater.
    #[serde(deserialize_with = "lenient")]
    pub value: f64,
    /// Which agents and sources it is about, as metrics of theirs; all, if empty.
    #[serde(default, skip_serializing_if = "Filter::is_empty")]
    pub filter: Filter,
    /// Whether each flow crosses by itself; else only the first of a data source does.
    #[serde(default)]
    pub by_flow: bool,
    /// Seconds that the value has to be at or below before it can cross again.
    #[serde(default = "default_timeout", deserialize_with = "lenient")]
    pub timeout: f64,
}

/// Why a threshold is refused: what is wrong and what to do, in one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The key that is wrong; empty: none of them.
    pub key: &'static str,
    message: String,
}

impl Threshold {
    /// Looks whether the numbers are of use.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), Refused> {
        let refused = |key, why: String| Err(Refused { key, message: format!("{key}: {why}") });
        let form = Metric::find(&self.metric).map(Metric::form);
        let is_text = form.is_some_and(|form| form != Some(Form::Number));
        match self {
            Self { metric, .. } if metric.is_empty() => {
                refused("metric", "name a metric (/metrics/json lists them) or a flow definition (/flow/json)".into())
            }
            Self { metric, .. } if is_text => {
                let instead = "watch a metric that is a number (docs/sflow-metrics.md)";
                refused("metric", format!("{metric} is a text, of which none is greater: {instead}"))
            }
            Self { value, .. } if !value.is_finite() => refused("value", format!("{value} is not a finite number")),
            Self { timeout, .. } if !(1.0..=86_400.0).contains(timeout) => {
                refused("timeout", format!("{timeout} is not 1 to 86400 seconds"))
            }
            Self { filter, .. } => filter.check(&KNOWN).or_else(|why| refused("filter", why)),
        }
    }

    /// One line, if what it watches is neither a metric nor one of these flow definitions. Another may be defined later.
    pub fn missing<'a>(&self, flows: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
        let name = &*self.metric;
        if Metric::find(name).is_some() || flows.clone().any(|flow| flow == name) {
            return None;
        }
        let near = did_you_mean(name, Metric::all().iter().map(|metric| &*metric.name).chain(flows));
        Some(format!("metric: there is no metric or flow definition `{}`{near}", name.escape_debug()))
    }
}

/// A threshold, ready to be looked at for each value.
#[derive(Debug)]
pub struct Rule {
    /// Another one when the definition changes.
    id: u32,
    /// Its name.
    pub name: String,
    threshold: Threshold,
}

impl Rule {
    /// The event of its being crossed, `timestamp` milliseconds after 1970, yet without a number; who made the observation adds the flow
    /// and what was dropped.
    pub fn event(&self, timestamp: u64, observation: &Observation) -> Event {
        Event {
            id: 0,
            timestamp,
            threshold_id: self.name.clone(),
            agent: observation.agent,
            data_source: observation.source,
            metric: self.threshold.metric.clone(),
            value: observation.value,
            threshold: self.threshold.value,
            flow_key: None,
            drop: None,
        }
    }
}

/// All thresholds, by metric.
#[derive(Debug, Default)]
pub struct Rules {
    /// In order of metrics.
    rules: Vec<Arc<Rule>>,
}

impl Rules {
    /// Those on a metric or flow definition; one who looks at each datagram asks once, and again after a change.
    pub fn on(&self, metric: &str) -> On {
        let begin = self.rules.partition_point(|rule| *rule.threshold.metric < *metric);
        let end = self.rules.partition_point(|rule| *rule.threshold.metric <= *metric);
        begin..end
    }
}

/// The definitions by name.
#[derive(Debug, Default)]
pub struct Thresholds {
    named: BTreeMap<String, Arc<Rule>>,
    /// Of the last rule made.
    last: u32,
}

/// What filters know besides metrics.
const KNOWN: [&str; 3] = ["agent", "host_name", "ifname"];

/// Thresholds at once.
pub const THRESHOLDS: usize = 256;

impl Thresholds {
    /// Adds one or takes it in another's place. One that stays as it was keeps what it has seen.
    ///
    /// # Errors
    /// If it makes no sense, or there are [`THRESHOLDS`].
    pub fn put(&mut self, name: &str, threshold: Threshold) -> Result<(), Refused> {
        threshold.check()?;
        match self.named.get(name) {
            Some(same) if same.threshold == threshold => return Ok(()),
            None if self.named.len() == THRESHOLDS => {
                let message = format!("there are {THRESHOLDS} thresholds already: delete one first");
                return Err(Refused { key: "", message });
            }
            _ => {}
        }
        self.last += 1;
        let rule = Rule { id: self.last, name: name.into(), threshold };
        self.named.insert(name.to_owned(), Arc::new(rule));
        Ok(())
    }

    /// Takes one away; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.named.remove(name).is_some()
    }

    /// All, in order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Threshold)> {
        self.named.iter().map(|(name, rule)| (name.as_str(), &rule.threshold))
    }

    /// What workers are to look at from now on ([`Watch::adopt`]).
    pub fn rules(&self) -> Arc<Rules> {
        let mut rules: Vec<Arc<Rule>> = self.named.values().cloned().collect();
        rules.sort_by(|a, b| a.threshold.metric.cmp(&b.threshold.metric));
        Arc::new(Rules { rules })
    }
}

fn default_timeout() -> f64 {
    10.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Result<Threshold, String> {
        let threshold: Threshold = serde_json::from_value(value).map_err(|error| error.to_string())?;
        threshold.check().map_err(|error| error.to_string())?;
        Ok(threshold)
    }

    #[test]
    fn a_definition_is_read_as_scripts_write_it() {
        let threshold = read(json!({"metric": "ddos", "value": "1000", "byFlow": true, "timeout": 2})).unwrap();
        assert_eq!((threshold.value, threshold.by_flow, threshold.timeout), (1000.0, true, 2.0));
        let written = json!({"metric": "ddos", "value": 1000.0, "byFlow": true, "timeout": 2.0});
        assert_eq!(serde_json::to_value(&threshold).unwrap(), written);

        let filtered =
            json!({"metric": "load_one", "value": 1, "filter": {"os_name": ["linux"], "ifspeed": [1e9, "10"]}});
        let threshold = read(filtered).unwrap();
        assert_eq!(threshold.timeout, 10.0);
        let filter = serde_json::to_value(&threshold).unwrap()["filter"].take();
        assert_eq!(filter, json!({"ifspeed": ["1000000000", "10"], "os_name": ["linux"]}));
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        for (given, expected) in [
            (json!({"value": 1}), "missing field `metric`"),
            (json!({"metric": "", "value": 1}), "metric: name a metric (/metrics/json lists them)"),
            (json!({"metric": "ifname", "value": 1}), "metric: ifname is a text, of which none is greater"),
            (
                json!({"metric": "a", "value": 1, "filter": {"ifsped": 1}}),
                "filter: there is no metric `ifsped`, did you mean",
            ),
            (json!({"metric": "a", "value": "many"}), "invalid value: string \"many\", expected a number"),
            (json!({"metric": "a", "value": "inf"}), "value: inf is not a finite number"),
            (json!({"metric": "a", "value": 1, "timeout": 0}), "timeout: 0 is not 1 to 86400 seconds"),
            (json!({"metric": "a", "value": 1, "timeout": "NaN"}), "timeout: NaN is not 1 to 86400 seconds"),
            (json!({"metric": "a", "value": 1, "timeot": 1}), "unknown field `timeot`, expected one of `metric`"),
        ] {
            let error = read(given.clone()).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{given}: {error}");
        }
    }

    #[test]
    fn there_is_a_limit_and_what_stays_keeps_its_rule() {
        let threshold =
            |value| Threshold { metric: "m".into(), value, filter: Filter::default(), by_flow: false, timeout: 1.0 };
        let mut thresholds = Thresholds::default();
        for index in 0..THRESHOLDS {
            thresholds.put(&format!("t{index}"), threshold(1.0)).unwrap();
        }
        assert_eq!(thresholds.put("one more", threshold(1.0)).unwrap_err().key, "");
        let rule = |thresholds: &Thresholds| thresholds.named["t0"].id;
        let before = rule(&thresholds);
        thresholds.put("t0", threshold(1.0)).unwrap();
        assert_eq!(rule(&thresholds), before);
        thresholds.put("t0", threshold(2.0)).unwrap();
        assert_ne!(rule(&thresholds), before);
        assert!(thresholds.remove("t1") && !thresholds.remove("t1"));
        thresholds.put("one more", threshold(1.0)).unwrap();
        assert_eq!(thresholds.named["t0"].threshold.value, 2.0);
        assert_eq!(thresholds.iter().count(), THRESHOLDS);
    }
}
