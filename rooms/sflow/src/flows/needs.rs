//! What a definition needs besides packets: groups and files, which may come later than it, or never.

use std::collections::BTreeMap;

use weir_program::config::did_you_mean;

use super::definition::Checked;
use super::expression::Expression;
use super::filter::{Filter, Right, Test};
use crate::api::Groups;

/// Something that a definition looks values up in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The attribute that says so: `keys`, `value`, `values`, `filter`.
    pub attribute: &'static str,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// A set of groups.
    Set(String),
    /// A group in one of these sets.
    Group(Vec<String>, String),
    Country,
    System,
}

/// What there is.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Sets of groups by name.
    pub groups: &'a BTreeMap<String, Groups>,
    /// Whether there is a file of countries.
    pub country: bool,
    /// Whether there is one of autonomous systems.
    pub asn: bool,
}

impl Checked {
    /// All that it needs, each once.
    pub fn needs(&self) -> Vec<Need> {
        let mut needs = Needs(Vec::new());
        self.keys.iter().for_each(|key| needs.expression("keys", key));
        for (at, column) in self.columns.iter().enumerate() {
            needs.expression(if at == 0 { "value" } else { "values" }, &column.of);
        }
        self.filter.iter().for_each(|filter| needs.filter(filter));
        needs.0
    }
}

impl Need {
    /// One line, if it is not there: what is not, and where it would come from.
    pub fn missing(&self, known: Known<'_>) -> Option<String> {
        let missing = match &self.what {
            What::Set(set) if !known.groups.contains_key(set) => {
                let near = if known.groups.is_empty() {
                    String::new()
                } else {
                    did_you_mean(set, known.groups.keys().map(String::as_str))
                };
                let set = set.escape_debug();
                format!(
                    "there are no groups `{set}`{near} ([group.{set}] in the configuration, or PUT /group/{set}/json)"
                )
            }
            What::Group(sets, group) => {
                let sets_known: Vec<&Groups> = sets.iter().filter_map(|set| known.groups.get(set)).collect();
                let names = || sets_known.iter().flat_map(|groups| groups.keys()).map(String::as_str);
                // Of sets that are not there, another need tells.
                if sets_known.len() < sets.len() || names().any(|name| name == group) {
                    return None;
                }
                let near = if names().next().is_none() { String::new() } else { did_you_mean(group, names()) };
                format!("there is no group `{}` in {}{near}", group.escape_debug(), sets.join(", ").escape_debug())
            }
            What::Country if !known.country => FILE.replace("FILE", "country"),
            What::System if !known.asn => FILE.replace("FILE", "asn"),
            _ => return None,
        };
        Some(format!("{}: {missing}", self.attribute))
    }
}

struct Needs(Vec<Need>);

impl Needs {
    fn add(&mut self, attribute: &'static str, what: What) {
        let need = Need { attribute, what };
        if !self.0.contains(&need) {
            self.0.push(need);
        }
    }

    fn expression(&mut self, attribute: &'static str, expression: &Expression) {
        match expression {
            Expression::Group(_, sets) => {
                sets.iter().for_each(|set| self.add(attribute, What::Set(set.clone())));
            }
            Expression::Country(..) => self.add(attribute, What::Country),
            Expression::Asn(..) => self.add(attribute, What::System),
            _ => {}
        }
        expression.parts().for_each(|part| self.expression(attribute, part));
    }

    fn filter(&mut self, filter: &Filter) {
        match filter {
            Filter::All(filters) | Filter::Any(filters) => filters.iter().for_each(|filter| self.filter(filter)),
            Filter::Test(Test { left, right, .. }) => {
                self.expression("filter", left);
                if let (Expression::Group(_, sets), Right::Values(values)) = (left, right) {
                    for value in values.iter().filter(|value| value.text() != "null") {
                        self.add("filter", What::Group(sets.clone(), value.text().to_owned()));
                    }
                }
            }
        }
    }
}

const FILE: &str = "nothing is found without a file ([geoip] FILE in the configuration)";

#[cfg(test)]
mod tests {
    use super::super::Definition;
    use super::*;

    fn missing(keys: &str, filter: &str) -> Vec<String> {
        let sites = Groups::from([("office".to_owned(), Vec::new())]);
        let known = Known { groups: &BTreeMap::from([("sites".to_owned(), sites)]), country: false, asn: true };
        let definition = Definition { keys: keys.into(), filter: filter.into(), ..Definition::default() };
        definition.check().unwrap().needs().iter().filter_map(|need| need.missing(known)).collect()
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
