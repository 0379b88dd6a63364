//! What is done about attacks: a state machine that is told the time, what was found, what people ask, and what the speaker
//! has; it does no I/O.
//!
//! ```text
//! Finding --> Life: seen, pending, active, fading, over     (life)
//!                |  a step of action, the narrowest rule     (plan)   <- networks, allowed ones, next hops
//!                |  that caps and harm permit                (caps)   <- an estimate of other traffic
//!                v
//!            routes wanted, entries for the journal, the board
//! ```
//!
//! Whatever comes in whatever order: caps hold, nothing is announced in observe mode, no route is without its attack, and all
//! that is announced is withdrawn one day (`tests::properties`).

mod by_hand;
mod caps;
mod denied;
mod life;
mod machine;
mod passing;
mod people;
mod plan;
mod restore;
mod show;
#[cfg(test)]
mod tests;
mod wanted;
mod words;

use std::time::SystemTime;

use ipnet::IpNet;

use crate::model::{Harm, Installed, Route, Rule, Speaking};

pub use denied::Denied;
pub use machine::Guard;

/// A moment: for intervals, and for people and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// By a clock that only goes forward, ns: as in [`crate::model::Sighting::time`].
    pub nanos: u64,
    /// By the clock that people set.
    pub wall: SystemTime,
}

/// Who knows what traffic there was before an attack.
pub trait Traffic {
    /// What of a target's other traffic a rule would hit.
    fn harm(&self, target: &IpNet, rule: &Rule) -> Harm;
}

/// What announces.
pub trait Announcer: Send {
    /// All routes that are wanted from now on; cheap when they are the same.
    fn want(&mut self, routes: &[Route]);

    /// What it says of a route that is wanted.
    fn installed(&self, route: &Route) -> Installed;

    /// The session with it, and its neighbours.
    fn speaking(&self) -> Speaking;

    /// Whether any of this has changed since it was asked last, or others are wanted.
    fn has_changed(&mut self) -> bool;
}

/// A second.
pub(crate) const SECOND: u64 = 1_000_000_000;
