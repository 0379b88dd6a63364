//! The room with its people: whoever starts it needs nothing else.

use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use serde::Serialize;
use weir_service::metrics::Samples;

use super::run::Listener;
use super::{Commands, Outlet, Room};
use crate::config::document::Document;
use crate::detect::Atlas;
use crate::journal::Entry;
use crate::metrics::Figures;
use crate::model::{Attack, Board, Counts};
use crate::people::hooks::{self, Event, Hooks};
use crate::people::{self, People, Tokens};
use crate::settings::Settings;

/// A running room, and those who ask it and are told.
pub struct Protection {
    room: Room,
    people: Option<Arc<People>>,
    hooks: Arc<Hooks>,
    settings: Arc<Settings>,
}

/// What an account says of the room.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// What was counted since the start.
    #[serde(flatten)]
    pub counts: Counts,
    /// Routes that are wanted.
    routes: usize,
}

impl Protection {
    /// Starts the room; `ground`: whose pages may ask. The outlets are the shards', one for each.
    ///
    /// # Errors
    /// One line: a file of tokens or the journal cannot be read, no thread is to be had.
    pub fn start(settings: Arc<Settings>, shards: usize, atlas: Option<Box<dyn Atlas>>) -> Result<(Self, Vec<Outlet>)> {
        let tokens = settings.access.as_ref().map(|access| Tokens::read(&access.tokens)).transpose()?;
        let hooks = Arc::new(Hooks::start(&settings.hooks).context("start the hooks")?);
        let (room, outlets) = Room::start(&settings, shards, atlas, Some(listener(hooks.clone())))?;
        let people = tokens.map(|tokens| Arc::new(People::new(room.commands().clone(), tokens)));
        Ok((Self { room, people, hooks, settings }, outlets))
    }

    /// The paths below `/protect`; `None`: nobody has access.
    pub fn router(&self) -> Option<Router> {
        self.people.as_ref().map(people::router)
    }

    /// Goes over to other settings. What only a start can change stays, and a line tells of it.
    ///
    /// # Errors
    /// The file of tokens cannot be read: nothing has changed.
    pub fn adopt(&mut self, settings: &Arc<Settings>, atlas: Option<Box<dyn Atlas>>) -> Result<()> {
        if let (Some(people), Some(access)) = (&self.people, &settings.access) {
            people.adopt(Tokens::read(&access.tokens)?);
        }
        let before = &self.settings;
        for (key, stays) in [
            ("journal", before.journal != settings.journal),
            ("speaker", before.speaker != settings.speaker),
            ("access", before.access.is_some() != settings.access.is_some()),
            ("hooks", before.hooks != settings.hooks),
        ] {
            if stays {
                tracing::warn!("protect.{key} stays: a reload does not change it (restart for the other)");
            }
        }
        let (journal, speaker, hooks) = (before.journal.clone(), before.speaker.clone(), before.hooks.clone());
        let document = Document { journal, speaker, hooks, ..settings.document.clone() };
        self.settings = Arc::new(Settings { document, ..Settings::clone(settings) });
        self.room.adopt(self.settings.clone(), atlas);
        Ok(())
    }

    /// What people may ask for and see.
    pub fn commands(&self) -> &Commands {
        self.room.commands()
    }

    /// Adds every family of [`crate::metrics::families`].
    pub fn metrics(&self, samples: &mut Samples<'_>) {
        let board = self.board();
        let unknown = self.people.as_ref().map_or(0, |people| people.unknown());
        samples.ledger(&Figures::new(&board, unknown, self.hooks.counts()));
    }

    /// What an account says of it.
    pub fn summary(&self) -> Summary {
        let board = self.board();
        Summary { counts: board.counts.clone(), routes: board.caps.routes }
    }

    fn board(&self) -> Arc<Board> {
        self.commands().board().borrow().clone()
    }
}

impl std::fmt::Debug for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protection").field("room", &self.room).finish_non_exhaustive()
    }
}

/// Tells hooks of each line of the journal that is about something new.
fn listener(hooks: Arc<Hooks>) -> Listener {
    Box::new(move |entry: &Entry, attack: Option<&Attack>| {
        if hooks::is_told(entry.what) {
            hooks.tell(Event::new(entry, attack));
        }
    })
}
