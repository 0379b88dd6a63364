//! What is to be changed so that a table is as it is wanted.

use std::collections::{HashMap, HashSet};

use super::gobgp::Local;
use super::marker::Marker;
use super::wire::{Announcement, Key};
use crate::model::Route;

/// What is wanted, by what tells one path from another. Of routes for the same packets the first counts; those that BGP has no way to
/// say are left out: who asks for the state of one is told why.
pub(super) fn desired(routes: &[Route], marker: Marker) -> HashMap<Key, Announcement> {
    let mut desired = HashMap::with_capacity(routes.len());
    for announcement in routes.iter().filter_map(|route| Announcement::new(route, marker).ok()) {
        desired.entry(announcement.key.clone()).or_insert(announcement);
    }
    desired
}

/// The local paths of gobgpd's table, as of the last look.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Those with our id.
    own: HashMap<Key, Local>,
    /// Of the places that were asked for, those where somebody else has put one. gobgpd keeps one local path a prefix: ours would
    /// replace it.
    others: HashSet<Key>,
}

/// What a look has found. Of what others have, however much, no more is kept than is asked for.
#[derive(Debug)]
pub(super) struct Found<'a> {
    own: [u8; 12],
    asked: Option<&'a HashSet<Key>>,
    kept: Vec<Local>,
}

impl<'a> Found<'a> {
    /// `own`: by what ours are known; `asked`: places that are asked for.
    pub(super) fn new(own: [u8; 12], asked: Option<&'a HashSet<Key>>) -> Self {
        Self { own, asked, kept: Vec::new() }
    }

    /// Takes all paths of a place.
    pub(super) fn take(&mut self, place: Vec<Local>) {
        let is_asked = |local: &Local| self.asked.is_some_and(|asked| asked.contains(&local.key));
        let is_kept = |local: &Local| is_own(local, &self.own) || is_asked(local);
        if place.iter().any(is_kept) {
            self.kept.extend(place);
        }
    }
}

fn is_own(local: &Local, own: &[u8; 12]) -> bool {
    local.attributes.large.contains(own)
}

impl Table {
    /// Enters what a look found, of all keys or of some: what of these it did not find is gone.
    pub(super) fn enter(&mut self, looked_at: impl Fn(&Key) -> bool, found: Found<'_>) {
        self.own.retain(|key, _| !looked_at(key));
        self.others.retain(|key| !looked_at(key));
        for local in found.kept {
            if is_own(&local, &found.own) {
                self.own.insert(local.key.clone(), local);
            } else {
                self.others.insert(local.key);
            }
        }
        // They cannot be told apart by what withdraws them.
        self.own.retain(|key, _| !self.others.contains(key));
    }

    /// What must go: ours, and not wanted.
    pub(super) fn surplus(&self, desired: &HashMap<Key, Announcement>) -> Vec<Local> {
        self.own.values().filter(|local| desired.get(&local.key).is_none()).cloned().collect()
    }

    /// Keys of what is wanted, and is not there as it is wanted.
    pub(super) fn missing(&self, desired: &HashMap<Key, Announcement>) -> Vec<Key> {
        desired
            .values()
            .filter(|route| self.own(&route.key).is_none_or(|local| local.attributes != route.attributes))
            .map(|route| route.key.clone())
            .collect()
    }

    /// Ours at this place.
    pub(super) fn own(&self, key: &Key) -> Option<&Local> {
        self.own.get(key)
    }

    /// Whether somebody else's is at this place.
    pub(super) fn is_others(&self, key: &Key) -> bool {
        self.others.contains(key)
    }

    /// How many are ours.
    pub(super) fn len(&self) -> usize {
        self.own.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::super::wire::Attributes;
    use super::*;
    use crate::config::values::Community;
    use crate::model::{Action, Rule};

    const MARKER: Marker = Marker { community: Some(Community::Standard(65001, 666)), id: 7 };

    /// A blackhole route for one of 16 hosts, with one of four communities.
    fn route((host, community): (u8, u16)) -> Route {
        let rule = Rule::to(format!("192.0.2.{}/32", host % 16).parse().unwrap());
        let next_hop = Some("192.0.2.1".parse().unwrap());
        Route { rule, action: Action::Blackhole, next_hop, communities: vec![Community::Standard(1, community % 4)] }
    }

    fn local(route: &Route, is_ours: bool) -> Local {
        let Announcement { key, mut attributes } = Announcement::new(route, MARKER).unwrap();
        if !is_ours {
            // Others may have the same community, and be another Weir's.
            attributes.large = [Marker { id: 8, ..MARKER }.own()].into();
        }
        Local { key, attributes, since: SystemTime::UNIX_EPOCH }
    }

    fn found<'a>(own: [u8; 12], asked: Option<&'a HashSet<Key>>, places: Vec<Vec<Local>>) -> Found<'a> {
        let mut found = Found::new(own, asked);
        places.into_iter().for_each(|place| found.take(place));
        found
    }

    /// A table of a million routes of others is none of ours.
    #[test]
    fn what_others_have_takes_no_room() {
        let own = MARKER.own();
        let (ours, theirs) = (local(&route((1, 0)), true), local(&route((2, 0)), false));
        let places = std::iter::repeat_n(vec![theirs.clone()], 100_000).chain([vec![ours.clone()]]).collect();
        let all = found(own, None, places);
        assert_eq!(all.kept.len(), 1);
        let mut table = Table::default();
        table.enter(|_| true, all);
        assert_eq!((table.len(), table.others.len()), (1, 0));
        // Where a route is to come it counts.
        let asked = [theirs.key.clone()].into();
        let some = found(own, Some(&asked), vec![vec![theirs.clone()]]);
        table.enter(|key| *key == theirs.key, some);
        assert!(table.is_others(&theirs.key) && table.len() == 1);
        // Theirs and ours at one place, in whichever order: it is theirs.
        let both = local(&route((1, 3)), false);
        for place in [vec![ours.clone(), both.clone()], vec![both, ours.clone()]] {
            table.enter(|_| true, found(own, None, vec![place]));
            assert_eq!((table.len(), table.is_others(&ours.key)), (0, true));
        }
    }

    proptest! {
        /// Whatever was there: all that is wanted is, where nobody else's is; nothing else of ours; all of the others'.
        #[test]
        fn one_change_makes_it_what_is_wanted(
            there in proptest::collection::vec((any::<(u8, u16)>(), any::<bool>()), 0..20),
            wanted in proptest::collection::vec(any::<(u8, u16)>(), 0..20),
        ) {
            // As gobgpd has it: one local path a prefix.
            let there = there.into_iter().map(|(at, is_ours)| local(&route(at), is_ours));
            let mut gobgpd: BTreeMap<Key, Attributes> = there.map(|local| (local.key, local.attributes)).collect();
            let before = gobgpd.clone();
            let is_ours = |attributes: &Attributes| attributes.large.contains(&MARKER.own());
            let routes: Vec<Route> = wanted.into_iter().map(route).collect();
            let desired = desired(&routes, MARKER);
            let look = |gobgpd: &BTreeMap<Key, Attributes>| {
                let mut table = Table::default();
                let local = |(key, attributes): (&Key, &Attributes)| Local {
                    key: key.clone(),
                    attributes: attributes.clone(),
                    since: SystemTime::UNIX_EPOCH,
                };
                let asked = desired.keys().cloned().collect();
                let own = MARKER.own();
                let mut found = Found::new(own, Some(&asked));
                gobgpd.iter().map(local).for_each(|local| found.take(vec![local]));
                table.enter(|_| true, found);
                table
            };
            let table = look(&gobgpd);
            for gone in table.surplus(&desired) {
                gobgpd.remove(&gone.key);
            }
            for key in table.missing(&desired).into_iter().filter(|key| !table.is_others(key)) {
                gobgpd.insert(key.clone(), desired.get(&key).unwrap().attributes.clone());
            }
            for (key, attributes) in &before {
                if !is_ours(attributes) {
                    prop_assert_eq!(gobgpd.get(key), Some(attributes));
                }
            }
            for (key, attributes) in &gobgpd {
                let meant = desired.get(key).map(|announcement| &announcement.attributes);
                prop_assert!(!is_ours(attributes) || meant == Some(attributes));
            }
            prop_assert!(desired.keys().all(|key| gobgpd.contains_key(key)));
            // Then there is nothing left to do.
            let table = look(&gobgpd);
            prop_assert!(table.surplus(&desired).is_empty());
            prop_assert!(table.missing(&desired).iter().all(|key| table.is_others(key)));
        }
    }
}
