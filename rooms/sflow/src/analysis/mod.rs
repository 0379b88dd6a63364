//! The analysis as the API asks for it.

mod agents;
mod flows;
mod interfaces;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use weir_wire::sflow::DataSource;

use crate::api::{
    ActiveFlow, ActiveFlows, Agent, Agents, Analysis, CompletedFlow, FlowKey, FlowValue, Groups, Interface, Measure,
    NOTES, Problem,
};
use crate::events::{EVENTS, Event, Log};
use crate::flows::{Checked, Record};
use crate::shard::{Life, Now, Shards};
use crate::thresholds::{Refused, Threshold};

/// What answers questions: the shards, and what has been told of flows.
#[derive(Debug)]
pub(crate) struct Answers {
    shards: Arc<Shards>,
    completed: Log<CompletedFlow>,
}

impl Answers {
    /// For these shards.
    pub(crate) fn new(shards: Arc<Shards>) -> Self {
        Self { shards, completed: Log::new(EVENTS) }
    }

    /// Tells of flows that are over.
    pub(crate) fn tell(&self, records: Vec<(IpAddr, Record)>) {
        // By the clock as people have set it by now.
        let now = Now::read();
        let running = now.nanos.saturating_sub(self.shards.start().nanos) / 1_000_000;
        let unix = |seconds: f64| (now.unix_ms + (seconds * 1000.0) as u64).saturating_sub(running);
        for (agent, record) in records {
            let Record { name, source, key, first, last, value, .. } = record;
            let (start, end) = (unix(first), unix(last));
            self.completed.push(|id| CompletedFlow { id, name, agent, source, keys: key, value, start, end });
        }
    }
}

impl Analysis for Answers {
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn analyzer(&self) -> Map<String, Value> {
        let mut figures = self.shards.statistics().figures();
        figures.insert("workers".into(), self.shards.len().into());
        figures
    }

    fn agents(&self) -> Vec<IpAddr> {
        agents::addresses(&self.shards)
    }

    fn agent(&self, address: IpAddr) -> Option<Agent> {
        agents::agent(&self.shards, address)
    }

    fn agent_named(&self, name: &str) -> Option<IpAddr> {
        agents::named(&self.shards, name)
    }

    fn metrics(&self) -> Vec<(String, Duration)> {
        agents::metrics(&self.shards)
    }

    fn measures(&self, agent: IpAddr, metric: &str, visit: &mut dyn FnMut(Measure<'_>)) {
        agents::measures(&self.shards, agent, metric, visit);
    }

    fn interfaces(&self, agent: IpAddr, visit: &mut dyn FnMut(Interface<'_>)) {
        interfaces::each(&self.shards, agent, visit);
    }

    fn flow_keys(&self) -> Vec<FlowKey> {
        let now = Now::read();
        let ages: Vec<_> = self.shards.each(|shard| shard.key_ages(now)).collect();
        let age = |index: usize| ages.iter().filter_map(|ages| *ages.get(index)?).min_by(f64::total_cmp);
        let key = |(index, (name, about)): (usize, (&str, &str))| FlowKey {
            name: name.to_owned(),
            about: about.to_owned(),
            age: age(index).map(Duration::from_secs_f64),
        };
        let mut keys: Vec<_> = crate::flows::keys().enumerate().map(key).collect();
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        keys
    }

    fn flows(&self) -> BTreeMap<String, Value> {
        let definitions = self.shards.flow_definitions().into_iter();
        let written = |checked: &Checked| {
            // Every key of a definition has a form in JSON.
            let mut written = serde_json::to_value(checked.definition()).unwrap_or_default();
            let missing = self.shards.missing_of_flow(checked);
            if let Some(written) = written.as_object_mut().filter(|_| !missing.is_empty()) {
                written.insert(NOTES.into(), missing.into());
            }
            written
        };
        definitions.map(|(name, checked)| (name, written(&checked))).collect()
    }

    fn put_flow(&self, name: &str, definition: &str, life: Life) -> Result<Vec<String>, Problem> {
        let definition = serde_json::from_str(definition).map_err(|error| Problem::request(error.to_string()))?;
        let mut notes = self.shards.define_flow(name, definition, life)?;
        if let Some(checked) = self.shards.flow_definition(name) {
            notes.extend(self.shards.missing_of_flow(&checked));
        }
        Ok(notes)
    }

    fn delete_flow(&self, name: &str) -> bool {
        self.shards.remove_flow(name)
    }

    fn active_flows(&self, name: &str, agents: &Agents, query: &ActiveFlows) -> Option<Vec<ActiveFlow>> {
        flows::active(&self.shards, name, agents, query)
    }

    fn flow_values(&self, name: &str, agents: &Agents, source: Option<DataSource>) -> Option<Vec<FlowValue>> {
        flows::values(&self.shards, name, agents, source)
    }

    fn completed_flows(&self) -> &Log<CompletedFlow> {
        &self.completed
    }

    fn events(&self) -> &Log<Event> {
        self.shards.events()
    }

    fn thresholds(&self) -> BTreeMap<String, Threshold> {
        self.shards.threshold_definitions()
    }

    fn put_threshold(&self, name: &str, threshold: Threshold) -> Result<(), Refused> {
        self.shards.define_threshold(name, threshold)
    }

    fn missing(&self, threshold: &Threshold) -> Option<String> {
        self.shards.missing_of_threshold(threshold)
    }

    fn delete_threshold(&self, name: &str) -> bool {
        self.shards.remove_threshold(name)
    }

    fn groups(&self) -> BTreeMap<String, Groups> {
        self.shards.group_definitions()
    }

    fn put_groups(&self, name: &str, groups: Groups) -> Result<(), Problem> {
        if self.shards.group_definitions().len() >= SETS && !groups.is_empty() {
            let message = format!("there are {SETS} sets of groups already: take one away first");
            return Err(Problem::request(message));
        }
        self.shards.define_groups(name, groups).map_err(|error| Problem::request(error.to_string()))
    }
}

/// Nanoseconds since then.
fn age(now: Now, then: u64) -> Duration {
    Duration::from_nanos(now.nanos.saturating_sub(then))
}

/// Sets of groups at once.
const SETS: usize = 256;
