//! `[[group]]` and `[[rule]]`

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use weir_program::config::Step;

use super::listeners::one_of;
use super::{Checker, places, unknown};
use crate::config::document;
use weir_forward::settings::{Destination, Group, Listener, Recipient, Rule};

impl Checker<'_> {
    pub(super) fn groups(&self, written: &[document::Group], destinations: &[Destination]) -> Result<Vec<Group>> {
        let names = || destinations.iter().map(|destination| destination.name.as_str());
        let places = places(names());
        let mut groups: Vec<Group> = Vec::new();
        let mut taken: HashSet<String> =
            if written.is_empty() { HashSet::new() } else { names().map(str::to_owned).collect() };
        for (index, group) in written.iter().enumerate() {
            let name = self.name("group", index, group.name.clone(), &mut taken)?;
            let fail = |number: Option<usize>, what: &str| {
                let mut path = vec![Step::Key("group"), Step::Index(index), Step::Key("members")];
                path.extend(number.map(Step::Index));
                Err(self.error(&path, &format!("group `{name}`: members: {what}")))
            };
            if group.members.is_empty() {
                return fail(None, "there is none (name at least one destination)");
            }
            let (mut members, mut known) = (Vec::new(), HashSet::new());
            for (number, member) in group.members.iter().enumerate() {
                let Some(&found) = places.get(member.as_str()) else {
                    if written.iter().any(|other| other.name == *member) {
                        return fail(Some(number), &format!("`{member}` is a group (members are destinations)"));
                    }
                    return fail(Some(number), &unknown(member, "destination", names()));
                };
                if !known.insert(found) {
                    return fail(Some(number), &format!("`{member}` is there twice (remove one of them)"));
                }
                members.push(found);
            }
            groups.push(Group { name, policy: group.policy, members });
        }
        Ok(groups)
    }

    /// Which listeners a name stands for: one, or all of a range of ports.
    pub(super) fn inlets(written: &[document::Listener], listeners: &[Listener]) -> HashMap<String, Vec<usize>> {
        let places = places(listeners.iter().map(|listener| listener.name.as_str()));
        let mut inlets: HashMap<String, Vec<usize>> = HashMap::new();
        for range in written {
            let (Some(name), Some(last)) = (&range.name, range.last_port) else { continue };
            let all = range.address.0.port()..=last;
            let of = |port| places.get(one_of(name, port).as_str()).copied();
            inlets.insert(name.clone(), all.filter_map(of).collect());
        }
        inlets.extend(places.into_iter().map(|(name, index)| (name.to_owned(), vec![index])));
        inlets
    }

    pub(super) fn rules(
        &self,
        written: &[document::Rule],
        inlets: &HashMap<String, Vec<usize>>,
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
        // No destination is called as a group is.
        let recipients: HashMap<&str, Recipient> = destinations
            .iter()
            .enumerate()
            .map(|(index, destination)| (destination.name.as_str(), Recipient::Destination(index)))
            .chain(groups.iter().enumerate().map(|(index, group)| (group.name.as_str(), Recipient::Group(index))))
            .collect();
        let mut rules: Vec<Rule> = Vec::new();
        let mut taken = HashSet::new();
        for (index, rule) in written.iter().enumerate() {
            let name = rule.name.clone().unwrap_or_else(|| format!("rule {}", index + 1));
            let name = self.name("rule", index, name, &mut taken)?;
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
                let Some(found) = inlets.get(wanted.as_str()) else {
                    let names = listeners.iter().map(|listener| listener.name.as_str());
                    return fail("listener", Some(number), &unknown(wanted, "listener", names));
                };
                from.extend(found);
            }
            let mut to = Vec::new();
            let Some(wanted) = &rule.to else { return fail("to", None, "it is missing (write [] for nowhere)") };
            for (number, wanted) in wanted.iter().enumerate() {
                let Some(&recipient) = recipients.get(wanted.as_str()) else {
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
    let members: HashSet<usize> = groups.iter().flat_map(|group| group.members.iter().copied()).collect();
    let single = (0..destinations.len()).filter(|index| !members.contains(index)).map(Recipient::Destination);
    let to = (0..groups.len()).map(Recipient::Group).chain(single).collect();
    Rule { name: "rule 1".into(), sources: Vec::new(), listeners: Vec::new(), to }
}
