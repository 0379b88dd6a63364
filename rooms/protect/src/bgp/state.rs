//! What is known of the speaker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::marker::Marker;
use super::wire::{Announcement, Attributes, Key};
use crate::model::{Installed, Route, Speaking};
use crate::settings;

/// The speaker, as of now.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The session and the neighbours.
    pub speaking: Speaking,
    /// What its table was last made.
    pub(super) held: Option<Arc<[Route]>>,
    pub(super) marker: Marker,
    /// Of each wanted route: what is announced, and how that stands.
    pub(super) routes: HashMap<Key, (Attributes, Installed)>,
}

impl State {
    pub(super) fn new(settings: &settings::Speaker) -> Self {
        let (address, why) = (settings.gobgp.0.to_string(), Some("not asked yet".to_owned()));
        let speaking = Speaking { address, since: Some(SystemTime::now()), why, ..Speaking::default() };
        let marker = Marker { community: settings.marker, id: settings.id };
        Self { speaking, held: None, marker, routes: HashMap::new() }
    }

    /// How a route stands that is wanted.
    pub fn installed(&self, route: &Route) -> Installed {
        let announcement = match Announcement::new(route, self.marker) {
            Ok(announcement) => announcement,
            Err(why) => return Installed::No { why },
        };
        match self.routes.get(&announcement.key) {
            Some((attributes, installed)) if *attributes == announcement.attributes => installed.clone(),
            Some(_) => Installed::No { why: "another route for the same packets is wanted before it".to_owned() },
            None => Installed::Waiting,
        }
    }
}
