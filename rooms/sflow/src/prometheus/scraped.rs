//! Flow definitions that live as long as somebody scrapes them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::Value;

use crate::api::{Problem, define};
use crate::shard::{Life, Shards};

/// Time without a scrape after which a definition ends.
pub const IDLE: Duration = Duration::from_secs(300);

/// Definitions that scrapers have at once.
pub const DEFINITIONS: usize = 64;

/// The definitions that scrapers made, or others who ask again and again.
#[derive(Debug)]
pub(crate) struct Scraped {
    /// What they are called, with a number behind. Its slash no client can put, and no state keeps.
    prefix: &'static str,
    /// Time without a question after which one ends.
    idle: Duration,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// By definition, as JSON.
    entries: HashMap<String, Entry>,
    /// The next one's number.
    next: u64,
}

#[derive(Debug)]
struct Entry {
    name: String,
    scraped: Instant,
}

impl Scraped {
    /// None yet. They are called `prefix` with a number behind, and end when nobody has asked for so long.
    pub(crate) fn new(prefix: &'static str, idle: Duration) -> Self {
        Self { prefix, idle, table: Mutex::default() }
    }

    /// The name of a definition, which begins if nobody has scraped it yet, or somebody has deleted it.
    pub(crate) fn name(&self, shards: &Shards, definition: &Value, now: Instant) -> Result<String, Problem> {
        self.end_idle(shards, now);
        let (mut table, text) = (self.lock(), definition.to_string());
        let known = shards.flow_definitions();
        if let Some(entry) = table.entries.get_mut(&text).filter(|entry| known.contains_key(&entry.name)) {
            entry.scraped = now;
            return Ok(entry.name.clone());
        }
        table.entries.remove(&text);
        if table.entries.len() >= DEFINITIONS {
            let message = format!(
                "{DEFINITIONS} flow definitions were asked for within {} s already: make fewer queries, or put a definition and read \
                 /activeflows",
                self.idle.as_secs()
            );
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        // The configuration may have the name.
        let mut name = format!("{}{}", self.prefix, table.next);
        while known.contains_key(&name) {
            table.next += 1;
            name = format!("{}{}", self.prefix, table.next);
        }
        table.next += 1;
        let missing = define(shards, &name, definition.clone(), Life::Scraped)?;
        // Of what is not there, nobody would be told: a scrape that fails is seen.
        if let Some(missing) = missing.into_iter().next() {
            shards.remove_flow(&name);
            return Err(Problem::request(missing));
        }
        table.entries.insert(text, Entry { name: name.clone(), scraped: now });
        Ok(name)
    }

    /// Ends what was not asked for in time.
    pub(crate) fn end_idle(&self, shards: &Shards, now: Instant) {
        self.lock().entries.retain(|_, entry| {
            let lives = now.saturating_duration_since(entry.scraped) < self.idle;
            if !lives {
                shards.remove_flow(&entry.name);
            }
            lives
        });
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
