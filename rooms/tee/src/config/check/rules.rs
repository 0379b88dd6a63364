//! `[[group]]` and `[[rule]]`

use anyhow::Result;
use weir_service::config::Step;

use super::{Checker, unknown};
use crate::config::document;
use crate::settings::{Destination, Group, Listener, Policy, Recipient, Rule};

impl Checker<'_> {
    pub(super) fn groups(&self, written: &[document::Group], destinations: &[Destination]) -> Result<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        for (index, group) in written.iter().enumerate() {
            let others = destinations.iter().map(|destination| destination.name.as_str());
            let taken: Vec<&str> = others.chain(groups.iter().map(|other| other.name.as_str())).collect();
            let name = self.name("group", index, group.name.clone(), &taken)?;
            let fail = |number: Option<usize>, what: &str| {
                let mut path = vec![Step::Key("group"), Step::Index(index), Step::Key("members")];
                path.extend(number.map(Step::Index));
                Err(self.error(&path, &format!("group `{name}`: members: {what}")))
            };
            if group.members.0.is_empty() {
                return fail(None, "there is none (name at least one destination)");
            }
            let mut members = Vec::new();
            for (number, member) in group.members.0.iter().enumerate() {
                let Some(found) = destinations.iter().position(|destination| destination.name == *member) else {
                    if written.iter().any(|other| other.name == *member) {
                        return fail(Some(number), &format!("`{member}` is a group (members are destinations)"));
                    }
                    let names = destinations.iter().map(|destination| destination.name.as_str());
                    return fail(Some(number), &unknown(member, "destination", names));
                };
                if members.contains(&found) {
                    return fail(Some(number), &format!("`{member}` is there twice (remove one of them)"));
                }
                members.push(found);
            }
            groups.push(Group { name, policy: group.policy.unwrap_or(Policy::Replicate), members });
        }
        Ok(groups)
    }

    pub(super) fn rules(
        &self,
        written: &[document::Rule],
        listeners: &[Listener],
        destinations: &[Destination],
        groups: &[Group],
    ) -> Result<Vec<Rule>> {
        if written.is_empty() {
            return Ok(vec![everything(destinations, groups)]);
        }
        let names = || {
            let destinations = destinations.iter().map(|destination| destination.name.as_str());
            destinations.chain(groups.iter().map(|group| group.name.as_str()))
        };
        let mut rules: Vec<Rule> = Vec::new();
        for (index, rule) in written.iter().enumerate() {
            let taken: Vec<&str> = rules.iter().map(|other| other.name.as_str()).collect();
            let name = rule.name.clone().unwrap_or_else(|| format!("rule {}", index + 1));
            let name = self.name("rule", index, name, &taken)?;
            let fail = |key: &str, number: Option<usize>, what: &str| {
                let mut path = vec![Step::Key("rule"), Step::Index(index), Step::Key(key)];
                path.extend(number.map(Step::Index));
                Err(self.error(&path, &format!("rule `{name}`: {key}: {what}")))
            };
            let sources = match &rule.from {
                None => Vec::new(),
                Some(from) if from.0.is_empty() => {
                    return fail("from", None, "no source at all (leave it out for any)");
                }
                Some(from) => from.0.iter().map(|network| network.0).collect(),
            };
            let wanted = match &rule.listener {
                None => &[][..],
                Some(list) if list.0.is_empty() => {
                    return fail("listener", None, "no listener at all (leave it out for any)");
                }
                Some(list) => &list.0,
            };
            let mut from = Vec::new();
            for (number, wanted) in wanted.iter().enumerate() {
                let Some(found) = listeners.iter().position(|listener| listener.name == *wanted) else {
                    let names = listeners.iter().map(|listener| listener.name.as_str());
                    return fail("listener", Some(number), &unknown(wanted, "listener", names));
                };
                from.push(found);
            }
            let mut to = Vec::new();
            for (number, wanted) in rule.to.0.iter().enumerate() {
                let destination = destinations.iter().position(|destination| destination.name == *wanted);
                let group = || groups.iter().position(|group| group.name == *wanted);
                let Some(recipient) = destination.map(Recipient::Destination).or_else(|| group().map(Recipient::Group))
                else {
                    return fail("to", Some(number), &unknown(wanted, "destination or group", names()));
                };
                to.push(recipient);
            }
            rules.push(Rule { name, sources, listeners: from, to });
        }
        Ok(rules)
    }
}

/// Without rules: from every listener to every group, and to every destination that is in none.
pub(super) fn everything(destinations: &[Destination], groups: &[Group]) -> Rule {
    let is_member = |index: &usize| groups.iter().any(|group| group.members.contains(index));
    let single = (0..destinations.len()).filter(|index| !is_member(index)).map(Recipient::Destination);
    let to = (0..groups.len()).map(Recipient::Group).chain(single).collect();
    Rule { name: "rule 1".into(), sources: Vec::new(), listeners: Vec::new(), to }
}
