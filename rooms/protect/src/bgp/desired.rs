//! What is wanted, by what tells one path from another.

use std::collections::HashMap;

use super::marker::Marker;
use super::wire::{Announcement, Key};
use crate::model::Route;

/// Announcements, one a key.
#[derive(Debug, Default)]
pub(super) struct Desired {
    announcements: HashMap<Key, Announcement>,
}

impl Desired {
    /// Of routes for the same packets the first counts; those that BGP has no way to say are left out: who asks for the state
    /// of one is told why.
    pub(super) fn new(routes: &[Route], marker: Marker) -> Self {
        let mut announcements = HashMap::with_capacity(routes.len());
        for announcement in routes.iter().filter_map(|route| Announcement::new(route, marker).ok()) {
            announcements.entry(announcement.key.clone()).or_insert(announcement);
        }
        Self { announcements }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Announcement> {
        self.announcements.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Announcement> {
        self.announcements.values()
    }
}
