//! Floods that go on: one a target, hosts within a prefix that is flooded being part of that one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::groups::Span;
use super::views::View;
use crate::model::Class;

/// A flood that goes on.
#[derive(Clone, Debug)]
pub(super) struct Flood {
    /// Index of its network, and the level at which it was found.
    pub(super) network: usize,
    pub(super) level: usize,
    /// Which test decided: index among the group's.
    pub(super) watch: usize,
    /// What is under attack; within what was tested.
    pub(super) target: Span,
    pub(super) class: Class,
    pub(super) first_excess: u64,
    pub(super) decided: u64,
    /// When it was last above the threshold.
    pub(super) last: u64,
    /// When the target was last above another threshold, and not above that one.
    pub(super) others: u64,
    /// When it was last told, and with which rate.
    pub(super) told: u64,
    pub(super) told_rate: f64,
    /// Whether it was told at all.
    pub(super) is_told: bool,
    /// Who sees it.
    pub(super) views: Vec<View>,
    /// Whether something speaks against it.
    pub(super) doubted: bool,
    /// Agents that told of it.
    pub(super) agents: Vec<IpAddr>,
    pub(super) log_evidence: f64,
}

/// What was tested, and whether by streams that are believed: what others tell neither hides nor ends what those do.
pub(super) type Place = (Span, bool);

/// Views that are remembered of a flood.
const VIEWS: usize = 8;

impl Flood {
    pub(super) fn seen_by(&mut self, view: View) {
        if self.views.len() < VIEWS && !self.views.contains(&view) {
            self.views.push(view);
        }
    }

    /// Whether what a view sees of an address is part of this: what is doubted hides nothing that others see.
    fn covers(&self, span: Span, view: View) -> bool {
        self.target.contains(span) && (!self.doubted || self.views == [view])
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Floods {
    all: BTreeMap<Place, Flood>,
}

impl Floods {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get_mut(&mut self, place: &Place) -> Option<&mut Flood> {
        self.all.get_mut(place)
    }

    pub(super) fn get(&self, place: &Place) -> Option<&Flood> {
        self.all.get(place)
    }

    pub(super) fn insert(&mut self, place: Place, flood: Flood) {
        self.all.insert(place, flood);
    }

    pub(super) fn remove(&mut self, place: &Place) -> Option<Flood> {
        self.all.remove(place)
    }

    pub(super) fn places(&self) -> Vec<Place> {
        self.all.keys().copied().collect()
    }

    /// Whether a flood of one of the prefixes around it has it.
    pub(super) fn covers(&self, (span, believed): Place, wider: &[u8], view: View) -> bool {
        let around = wider.iter().filter_map(|&length| self.all.get(&(span.cut(length), believed)));
        around.into_iter().any(|flood| flood.covers(span, view))
    }

    /// Floods of what lies within a prefix, itself not.
    pub(super) fn within(&self, (span, believed): Place) -> impl Iterator<Item = (&Place, &Flood)> {
        let last =
            Span { bits: span.bits | !(u128::MAX.checked_shl(u32::from(span.size())).unwrap_or(0)), length: 128 };
        let range = self.all.range((span, false)..=(last, true));
        range.filter(move |(place, _)| place.1 == believed && place.0 != span && span.contains(place.0))
    }
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;

    use super::*;

    fn span(text: &str) -> Span {
        Span::from(text.parse::<IpNet>().unwrap())
    }

    fn flood(target: &str) -> Flood {
        Flood {
            network: 0,
            level: 0,
            watch: 0,
            target: span(target),
            class: Class::IpFlood,
            first_excess: 0,
            decided: 0,
            last: 0,
            others: 0,
            told: 0,
            told_rate: 0.0,
            is_told: true,
            views: vec![1],
            doubted: false,
            agents: Vec::new(),
            log_evidence: 0.0,
        }
    }

    #[test]
    fn prefixes_know_what_is_in_them() {
        let mut floods = Floods::default();
        for target in ["192.0.2.0/32", "192.0.2.7/32", "192.0.2.255/32", "192.0.3.0/32", "192.0.2.0/23", "192.0.2.0/25"]
        {
            floods.insert((span(target), true), flood(target));
        }
        floods.insert((span("192.0.2.9/32"), false), flood("192.0.2.9/32"));
        let within = |net: &str| floods.within((span(net), true)).count();
        assert_eq!(within("192.0.2.0/24"), 4);
        assert_eq!(within("192.0.2.0/23"), 5);
        assert_eq!(within("192.0.2.0/25"), 2);
        assert_eq!(within("192.0.2.7/32"), 0);
        let wide = [span("192.0.2.0/24").length, span("192.0.2.0/23").length];
        assert!(floods.covers((span("192.0.2.200/32"), true), &wide, 3));
        assert!(!floods.covers((span("192.0.2.200/32"), false), &wide, 3), "what strangers tell is apart");
        floods.get_mut(&(span("192.0.2.0/23"), true)).unwrap().doubted = true;
        assert!(!floods.covers((span("192.0.2.200/32"), true), &wide, 3), "another view's doubts hide nothing");
        assert!(floods.covers((span("192.0.2.200/32"), true), &wide, 1));
    }
}
