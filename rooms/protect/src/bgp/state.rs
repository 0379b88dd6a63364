//! What is known of the speaker.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::marker::Marker;
use super::wire::{Announcement, Attributes, Key};
use crate::model::{Installed, Route};

/// The speaker, as of now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct State {
    /// Whether it answers.
    pub session: Session,
    /// Its neighbours, by address; as last heard while it does not answer.
    pub neighbours: Vec<NeighbourState>,
    /// How many routes of ours its table has, or may have: as last known while it does not answer. `None`: it has never been looked at.
    pub standing: Option<usize>,
    /// How many routes its table has with the number of another Weir, or of this one with a journal that is lost.
    pub orphans: usize,
    /// What its table was last made.
    #[serde(skip)]
    pub(super) held: Option<Arc<[Route]>>,
    #[serde(skip)]
    pub(super) marker: Marker,
    /// Of each wanted route: what is announced, and how that stands.
    #[serde(skip)]
    pub(super) routes: HashMap<Key, (Attributes, Installed)>,
}

/// Whether a speaker answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "session")]
pub enum Session {
    /// It does not.
    Down {
        /// Since when.
        since: SystemTime,
        /// One line.
        why: String,
    },
    /// It does.
    Up {
        /// Since when.
        since: SystemTime,
        /// gobgpd's interface: `v3`, `v4`.
        version: &'static str,
        /// Its AS.
        asn: u32,
        /// Its BGP identifier.
        router_id: String,
    },
}

/// A neighbour of the speaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeighbourState {
    /// Its address.
    pub address: IpAddr,
    /// Its AS.
    pub asn: u32,
    /// As RFC 4271, section 8.2.2 calls it: `idle`, `connect`, `active`, `opensent`, `openconfirm`, `established`; `unknown`.
    pub state: &'static str,
}

impl State {
    pub(super) fn new(marker: Marker) -> Self {
        let session = Session::Down { since: SystemTime::now(), why: "not asked yet".to_owned() };
        Self { session, neighbours: Vec::new(), standing: None, orphans: 0, held: None, marker, routes: HashMap::new() }
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

    /// Whether the speaker answers.
    pub fn is_up(&self) -> bool {
        matches!(self.session, Session::Up { .. })
    }
}
