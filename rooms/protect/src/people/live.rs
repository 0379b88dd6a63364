//! How things stand, as one stream of server-sent events.
//!
//! A frame is made when the connection has room for it: who reads slowly gets fewer, not older ones. Whoever is no longer known gets
//! no more.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use weir_service::http::{Answer, Call, Place, Problem, event, events, frames};

use super::access::Person;
use super::{People, told};
use crate::model::Board;

/// A stream to one client.
struct Follower {
    people: Arc<People>,
    person: Person,
    board: watch::Receiver<Arc<Board>>,
    /// The attack of which all is told.
    attack: Option<u64>,
    /// When the next frame may be made.
    next: Instant,
    _place: Place,
}

pub(super) fn follow(people: &Arc<People>, call: &Call) -> Answer {
    let person = call.parts.extensions.get::<Person>().cloned().ok_or_else(Problem::mistake)?;
    let attack = call.whole("attack").and_then(|id| id.try_into().ok());
    let place = people.places.take()?;
    let mut board = people.commands.board();
    board.mark_changed();
    let follower = Follower { people: people.clone(), person, board, attack, next: Instant::now(), _place: place };
    Ok(events(frames(follower, Follower::next)))
}

impl Follower {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        sleep_until(self.next).await;
        // Also where nothing changes: so that it is seen that the stream lives, and how old the board is.
        if let Ok(Err(_)) = timeout(SILENCE, self.board.changed()).await {
            // The guard has ended.
            sleep(SILENCE).await;
        }
        if !self.people.tokens().knows(&self.person) {
            return None;
        }
        self.next = Instant::now() + APART;
        let board = self.board.borrow_and_update().clone();
        let frame = json!({
            "you": *self.person.name,
            "role": self.person.role,
            "state": told::state(&board),
            "attacks": told::rows(&board.attacks, MOST),
            // The one that was asked for, as long as it is known.
            "attack": self.attack.and_then(|id| told::attack(&board, id)).map(|attack| told::whole(attack, board.speaker.as_ref())),
        });
        let bytes = event("event: board\n", &frame);
        Some((bytes, self))
    }
}

/// From one frame to the next at least.
const APART: Duration = Duration::from_millis(250);

/// Time after which a frame is sent though nothing has changed.
const SILENCE: Duration = Duration::from_secs(1);

/// Attacks that a frame tells of; `/protect/attacks` has all.
pub(super) const MOST: usize = 200;
