//! Routes for speakers that Weir does not talk to: the same ones, as their configurations have them.
//!
//! A route that has no words there is a comment, which says why.

mod bird;
mod exabgp;
mod frr;

pub use bird::bird;
pub use exabgp::exabgp;
pub use frr::frr;

use std::fmt::Display;

use super::wire::{Announcement, Attributes};
use crate::model::{Ports, Route, Rule};

/// A route with its attributes, as they would be announced; or why it can't be, one line.
fn checked(route: &Route, marker: (u16, u16)) -> Result<Attributes, String> {
    match Announcement::new(route, marker) {
        Ok(announcement) => Ok(announcement.attributes),
        Err(why) => Err(format!("{}: {why}", route.rule.destination)),
    }
}

/// Its communities, each as two numbers with something between.
fn communities(attributes: &Attributes, between: &str) -> Vec<String> {
    let halves = |community: &u32| format!("{}{between}{}", community >> 16, community & 0xffff);
    attributes.communities.iter().map(halves).collect()
}

/// Ports, each range as a format has it.
fn ranges(list: &[Ports], one: impl Fn(u16) -> String, many: impl Fn(u16, u16) -> String) -> Vec<String> {
    list.iter().map(|&Ports(first, last)| if first == last { one(first) } else { many(first, last) }).collect()
}

/// The lengths of a rule as one range.
fn lengths(rule: &Rule) -> Vec<Ports> {
    rule.lengths.iter().map(|&(first, last)| Ports(first, last)).collect()
}

fn joined<T: Display>(list: impl IntoIterator<Item = T>, between: &str) -> String {
    list.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests;
