//! What a definition names besides packets, groups and files, which may come later than it, or never.

use std::collections::BTreeMap;

use weir_program::config::did_you_mean;

use super::definition::Checked;
use super::expression::{Expression, Function};
use super::filter::{Filter, Right, Test};
use crate::names::Networks;

/// What there is.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Sets of groups by name.
    pub groups: &'a BTreeMap<String, Networks>,
    /// Whether there is a file of countries.
    pub country: bool,
    /// Whether there is one of autonomous systems.
    pub asn: bool,
}

impl Checked {
    /// All that it names and that is not there, each once: the attribute that names it, and one line with where it would come from.
    pub fn missing(&self, known: Known<'_>) -> Vec<(&'static str, String)> {
        let mut missing = Missing { known, lines: Vec::new() };
        self.keys.iter().for_each(|key| missing.expression("keys", key));
        for (at, column) in self.columns.iter().enumerate() {
            missing.expression(if at == 0 { "value" } else { "values" }, &column.of);
        }
        self.filter.iter().for_each(|filter| missing.filter(filter));
        missing.lines
    }
}

struct Missing<'a> {
    known: Known<'a>,
    lines: Vec<(&'static str, String)>,
}

impl Missing<'_> {
    fn add(&mut self, attribute: &'static str, missing: impl std::fmt::Display) {
        let line = (attribute, format!("{attribute}: {missing}"));
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    fn expression(&mut self, attribute: &'static str, expression: &Expression) {
        let Known { groups, country, asn } = self.known;
        match &expression.function {
            Function::Group(sets) => {
                for set in sets.iter().filter(|set| !groups.contains_key(*set)) {
                    let near = did_you_mean(set, groups.keys().map(String::as_str));
                    let set = set.escape_debug();
                    let source = format!("[group.{set}] in the configuration, or PUT /group/{set}/json");
                    self.add(attribute, format_args!("there are no groups `{set}`{near} ({source})"));
                }
            }
            Function::Country(_) if !country => self.add(attribute, FILE.replace("FILE", "country")),
            Function::Asn(_) if !asn => self.add(attribute, FILE.replace("FILE", "asn")),
            _ => {}
        }
        expression.keys.iter().for_each(|part| self.expression(attribute, part));
    }

    fn filter(&mut self, filter: &Filter) {
        match filter {
            Filter::All(filters) | Filter::Any(filters) => filters.iter().for_each(|filter| self.filter(filter)),
            Filter::Test(Test { left, right, .. }) => {
                self.expression("filter", left);
                if let (Function::Group(sets), Right::Values(values)) = (&left.function, right) {
                    values.iter().filter(|value| !value.is_null()).for_each(|value| self.group(sets, value.text()));
                }
            }
        }
    }

    /// Whether a group is in one of these sets; of sets that are not there it is said already.
    fn group(&mut self, sets: &[String], group: &str) {
        let Some(known) = sets.iter().map(|set| self.known.groups.get(set)).collect::<Option<Vec<_>>>() else {
            return;
        };
        let names = || known.iter().flat_map(|groups| groups.keys()).map(String::as_str);
        if !names().any(|name| name == group) {
            let (near, group, sets) = (did_you_mean(group, names()), group.escape_debug(), sets.join(", "));
            self.add("filter", format_args!("there is no group `{group}` in {}{near}", sets.escape_debug()));
        }
    }
}

const FILE: &str = "nothing is found without a file ([geoip] FILE in the configuration)";

#[cfg(test)]
mod tests {
    use super::super::Definition;
    use super::*;

    fn missing(keys: &str, filter: &str) -> Vec<String> {
        let sites = Networks::from([("office".to_owned(), Vec::new())]);
        let known = Known { groups: &BTreeMap::from([("sites".to_owned(), sites)]), country: false, asn: true };
        let definition = Definition { keys: keys.into(), filter: filter.into(), ..Definition::default() };
        definition.check().unwrap().missing(known).into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn what_is_not_there_is_told_once_and_with_the_way_to_it() {
        assert!(missing("group:ipsource:sites,asn:ipsource", "group:ipdestination:sites=office,null").is_empty());
        assert_eq!(
            missing("null:[group:ipsource:sits]:other,group:ipdestination:sits", "vlan=5"),
            ["keys: there are no groups `sits`, did you mean `sites`? ([group.sits] in the configuration, or PUT \
              /group/sits/json)"]
        );
        assert_eq!(
            missing("", "vlan=5&(group:ipsource:sites=ofice|country:ipsource=CH)"),
            [
                "filter: there is no group `ofice` in sites, did you mean `office`?",
                "filter: nothing is found without a file ([geoip] country in the configuration)"
            ]
        );
    }
}
