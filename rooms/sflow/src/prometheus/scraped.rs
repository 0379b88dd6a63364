//! Flow definitions that live as long as somebody scrapes them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::api::{Analysis, Problem};
use crate::shard::Life;

/// Time without a scrape after which a definition ends.
pub const IDLE: Duration = Duration::from_secs(300);

/// Definitions that scrapers have at once.
pub const DEFINITIONS: usize = 64;

/// What they are called, with a number behind.
const NAME: &str = "prometheus_";

/// The definitions that scrapers made.
#[derive(Debug, Default)]
pub(crate) struct Scraped(Mutex<Table>);

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
    /// The name of a definition, which begins if nobody has scraped it yet, or somebody has deleted it.
    pub(crate) fn name(&self, analysis: &dyn Analysis, definition: &str, now: Instant) -> Result<String, Problem> {
        self.end_idle(analysis, now);
        let mut table = self.lock();
        let known = analysis.flows();
        if let Some(entry) = table.entries.get_mut(definition).filter(|entry| known.contains_key(&entry.name)) {
            entry.scraped = now;
            return Ok(entry.name.clone());
        }
        table.entries.remove(definition);
        if table.entries.len() >= DEFINITIONS {
            let message = format!(
                "{DEFINITIONS} flow definitions were scraped within {} s already: make fewer queries, or put a definition and read \
                 /activeflows",
                IDLE.as_secs()
            );
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        // A client may have taken the name.
        let mut name = format!("{NAME}{}", table.next);
        while known.contains_key(&name) {
            table.next += 1;
            name = format!("{NAME}{}", table.next);
        }
        table.next += 1;
        let missing = analysis.put_flow(&name, definition, Life::Scraped)?;
        // Of what is not there, nobody would be told: a scrape that fails is seen.
        if let Some(missing) = missing.into_iter().next() {
            analysis.delete_flow(&name);
            return Err(Problem::request(missing));
        }
        table.entries.insert(definition.to_owned(), Entry { name: name.clone(), scraped: now });
        Ok(name)
    }

    /// Ends what was not scraped for [`IDLE`].
    pub(crate) fn end_idle(&self, analysis: &dyn Analysis, now: Instant) {
        self.lock().entries.retain(|_, entry| {
            let lives = now.saturating_duration_since(entry.scraped) < IDLE;
            if !lives {
                analysis.delete_flow(&entry.name);
            }
            lives
        });
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
