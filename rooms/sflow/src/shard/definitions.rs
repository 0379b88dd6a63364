//! What is defined: flows, thresholds, groups, by the configuration and at run time. The control side holds it and puts it
//! into every shard.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Now, Shards};
use crate::api::Groups;
use crate::atlas::Atlas;
use crate::config::Settings;
use crate::flows::{Checked, Definition, Known, Mistake};
use crate::names::{self, Geo, Lookups};
use crate::thresholds::{Refused, Threshold, Thresholds};

/// Files and groups, read and checked: what can fail of a configuration.
#[derive(Debug)]
pub struct Names(Lookups);

/// Everything that is defined.
#[derive(Debug)]
pub(super) struct Held {
    flows: BTreeMap<String, Arc<Checked>>,
    /// Those of the flows that live as long as somebody scrapes them.
    scraped: BTreeSet<String>,
    thresholds: Thresholds,
    groups: BTreeMap<String, Groups>,
    lookups: Arc<Lookups>,
}

/// How long a flow definition lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Until it is deleted, over restarts, too.
    Kept,
    /// While somebody scrapes it.
    Scraped,
}

/// What was defined at run time, as it is kept over a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Put {
    flows: BTreeMap<String, Definition>,
    thresholds: BTreeMap<String, Threshold>,
    groups: BTreeMap<String, Groups>,
}

/// Why a definition is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It says what cannot be.
    #[error(transparent)]
    Mistake(#[from] Mistake),
    /// Of a threshold, or there are too many.
    #[error(transparent)]
    Threshold(#[from] Refused),
    /// There are too many.
    #[error("{0}")]
    Full(String),
}

impl Names {
    /// Reads the files and makes the groups that a configuration names.
    ///
    /// # Errors
    /// One line: a file cannot be read or is damaged; a network is in two groups.
    pub fn read(settings: &Settings) -> Result<Self> {
        let open = |key: &'static str, path: &Option<std::path::PathBuf>| {
            path.as_deref()
                .map(|path| Geo::open(path).map(Arc::new))
                .transpose()
                .with_context(|| format!("geoip.{key}"))
        };
        Ok(Self(Lookups {
            groups: sets(&settings.groups)?,
            country: open("country", &settings.config.geoip.country)?,
            asn: open("asn", &settings.config.geoip.asn)?,
        }))
    }
}

impl Names {
    /// Countries and autonomous systems, for the room that protects.
    pub(crate) fn atlas(&self) -> Option<Box<dyn weir_protect::detect::Atlas>> {
        Atlas::of(&self.0)
    }
}

impl Held {
    pub(super) fn new(names: Names) -> Self {
        Self {
            flows: BTreeMap::new(),
            scraped: BTreeSet::new(),
            thresholds: Thresholds::default(),
            groups: BTreeMap::new(),
            lookups: Arc::new(names.0),
        }
    }

    pub(super) fn lookups(&self) -> Arc<Lookups> {
        self.lookups.clone()
    }
}

impl Shards {
    /// What names are looked up in now.
    pub(crate) fn lookups(&self) -> Arc<Lookups> {
        self.held().lookups()
    }

    /// Goes over to another configuration: what the one before had and this one has not is taken away, what was put at run time
    /// stays.
    pub fn adopt(&self, before: &Settings, settings: &Settings, names: Names) {
        let mut lookups = names.0;
        for (name, groups) in self.group_definitions() {
            // What was put at run time stays; it was good then.
            if !before.groups.contains_key(&name)
                && !settings.groups.contains_key(&name)
                && let Ok(mut set) = sets(&BTreeMap::from([(name, groups)]))
            {
                lookups.groups.append(&mut set);
            }
        }
        let lookups = Arc::new(lookups);
        self.held().lookups = lookups.clone();
        self.each(|shard| shard.set_lookups(lookups.clone())).for_each(drop);
        self.configure(Some(before), settings);
    }

    pub(super) fn configure(&self, before: Option<&Settings>, settings: &Settings) {
        let agents = Arc::new(settings.agents.clone());
        self.each(|shard| shard.adopt(&settings.allow, agents.clone())).for_each(drop);
        if let Some(before) = before {
            for name in before.config.flow.keys().filter(|name| !settings.config.flow.contains_key(*name)) {
                self.remove_flow(name);
            }
            for name in before.config.threshold.keys().filter(|name| !settings.config.threshold.contains_key(*name)) {
                self.remove_threshold(name);
            }
        }
        // The configuration has been checked; only what was put at run time may have filled the tables meanwhile.
        for (name, definition) in &settings.config.flow {
            if let Err(refusal) = self.define_flow(name, definition.clone(), Life::Kept) {
                tracing::error!("flow {name}: {refusal}");
            }
        }
        for (name, threshold) in &settings.config.threshold {
            if let Err(refusal) = self.define_threshold(name, threshold.clone()) {
                tracing::error!("threshold {name}: {refusal}");
            }
        }
        let mut held = self.held();
        if let Some(before) = before {
            held.groups.retain(|name, _| !before.groups.contains_key(name));
        }
        held.groups.extend(settings.groups.clone());
    }

    /// Counts flows by a definition from now on. Tells of numbers that were brought within their bounds.
    ///
    /// # Errors
    /// It makes no sense, or there are too many.
    pub fn define_flow(&self, name: &str, mut definition: Definition, life: Life) -> Result<Vec<String>, Refusal> {
        let most = self.definitions;
        let taken = definition.bounded()?.into_iter().map(|(_, taken)| taken).collect();
        let checked = Arc::new(definition.check()?);
        let mut held = self.held();
        if held.flows.len() >= most && !held.flows.contains_key(name) {
            return Err(Refusal::Full(format!(
                "there are {most} flow definitions already (limits.definitions): delete one first"
            )));
        }
        let now = Now::read();
        self.each(|shard| shard.define(now, |flows, now| flows.define(name, checked.clone(), now))).for_each(drop);
        held.flows.insert(name.to_owned(), checked);
        match life {
            Life::Kept => held.scraped.remove(name),
            Life::Scraped => held.scraped.insert(name.to_owned()),
        };
        Ok(taken)
    }

    /// Ends a definition; whether there was one.
    pub fn remove_flow(&self, name: &str) -> bool {
        let mut held = self.held();
        let now = Now::read();
        self.each(|shard| shard.define(now, |flows, _| flows.remove(name))).for_each(drop);
        held.scraped.remove(name);
        held.flows.remove(name).is_some()
    }

    /// The flow definitions.
    pub fn flow_definitions(&self) -> BTreeMap<String, Arc<Checked>> {
        self.held().flows.clone()
    }

    /// One of them.
    pub fn flow_definition(&self, name: &str) -> Option<Arc<Checked>> {
        self.held().flows.get(name).cloned()
    }

    /// What a definition names and what is not there, yet or any more: one line each.
    pub fn missing_of_flow(&self, checked: &Checked) -> Vec<String> {
        let held = self.held();
        let known =
            Known { groups: &held.groups, country: held.lookups.country.is_some(), asn: held.lookups.asn.is_some() };
        checked.missing(known).into_iter().map(|(_, line)| line).collect()
    }

    /// Likewise of a threshold.
    pub fn missing_of_threshold(&self, threshold: &Threshold) -> Option<String> {
        threshold.missing(self.held().flows.keys().map(String::as_str))
    }

    /// Watches a threshold from now on.
    ///
    /// # Errors
    /// It makes no sense, or there are too many.
    pub fn define_threshold(&self, name: &str, threshold: Threshold) -> Result<(), Refusal> {
        let mut held = self.held();
        held.thresholds.put(name, threshold)?;
        let rules = held.thresholds.rules();
        self.each(|shard| shard.watch(rules.clone())).for_each(drop);
        Ok(())
    }

    /// Ends one; whether there was one.
    pub fn remove_threshold(&self, name: &str) -> bool {
        let mut held = self.held();
        let was_there = held.thresholds.remove(name);
        let rules = held.thresholds.rules();
        self.each(|shard| shard.watch(rules.clone())).for_each(drop);
        was_there
    }

    /// The thresholds.
    pub fn threshold_definitions(&self) -> BTreeMap<String, Threshold> {
        self.held().thresholds.iter().map(|(name, threshold)| (name.to_owned(), threshold.clone())).collect()
    }

    /// The groups.
    pub fn group_definitions(&self) -> BTreeMap<String, Groups> {
        self.held().groups.clone()
    }

    /// Sets the groups of a name; none take it away.
    ///
    /// # Errors
    /// A network is in two of them.
    pub fn define_groups(&self, name: &str, groups: Groups) -> Result<()> {
        let mut held = self.held();
        let mut all = held.groups.clone();
        match groups.is_empty() {
            true => drop(all.remove(name)),
            false => drop(all.insert(name.to_owned(), groups)),
        }
        let Lookups { country, asn, .. } = &*held.lookups;
        let lookups = Arc::new(Lookups { groups: sets(&all)?, country: country.clone(), asn: asn.clone() });
        self.each(|shard| shard.set_lookups(lookups.clone())).for_each(drop);
        (held.lookups, held.groups) = (lookups, all);
        Ok(())
    }

    /// How many flow definitions and thresholds are in force, without those that a scrape began.
    pub(crate) fn in_force(&self) -> (usize, usize) {
        let held = self.held();
        let flows = held.flows.keys().filter(|name| !held.scraped.contains(*name)).count();
        (flows, held.thresholds.iter().count())
    }

    /// What was put at run time: all that is defined and neither in the configuration nor begun by a scrape.
    pub(crate) fn put(&self, settings: &Settings) -> Put {
        let held = self.held();
        let kept = held.flows.iter().filter(|(name, _)| !held.scraped.contains(*name));
        let flows = kept.map(|(name, checked)| (name.clone(), checked.definition().clone()));
        let thresholds = held.thresholds.iter().map(|(name, threshold)| (name.to_owned(), threshold.clone()));
        Put {
            flows: flows.filter(|(name, _)| !settings.config.flow.contains_key(name)).collect(),
            thresholds: thresholds.filter(|(name, _)| !settings.config.threshold.contains_key(name)).collect(),
            groups: held
                .groups
                .iter()
                .filter(|(name, _)| !settings.groups.contains_key(*name))
                .map(|(name, groups)| (name.clone(), groups.clone()))
                .collect(),
        }
    }

    /// Defines what was put before a restart; what the configuration has by now goes before it. Returns what is refused by now.
    pub(crate) fn put_again(&self, put: Put, settings: &Settings) -> Vec<String> {
        let mut refused = Vec::new();
        for (name, groups) in put.groups.into_iter().filter(|(name, _)| !settings.groups.contains_key(name)) {
            refused.extend(self.define_groups(&name, groups).err().map(|why| format!("group {name}: {why}")));
        }
        for (name, definition) in put.flows.into_iter().filter(|(name, _)| !settings.config.flow.contains_key(name)) {
            let outcome = self.define_flow(&name, definition, Life::Kept);
            refused.extend(outcome.err().map(|why| format!("flow {name}: {why}")));
        }
        for (name, threshold) in
            put.thresholds.into_iter().filter(|(name, _)| !settings.config.threshold.contains_key(name))
        {
            refused.extend(self.define_threshold(&name, threshold).err().map(|why| format!("threshold {name}: {why}")));
        }
        refused
    }

    /// Each of its changes is whole when it is let go.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sets(groups: &BTreeMap<String, Groups>) -> Result<BTreeMap<String, names::Groups>> {
    groups.iter().map(|(name, groups)| Ok((name.clone(), names::Groups::new(groups)?))).collect()
}
