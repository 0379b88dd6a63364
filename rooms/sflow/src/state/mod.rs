//! What is kept over a restart: definitions that were put at run time.

mod file;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::shard::{Put, Shards};

/// Writes the file from time to time, and at the end.
#[derive(Debug)]
pub(crate) struct Keeper {
    path: PathBuf,
    /// As it was written last.
    written: Option<Put>,
    due: Instant,
    /// Whether the last try failed: that is told once.
    failing: bool,
}

/// The file.
#[derive(Debug, Deserialize)]
struct Document {
    version: u32,
    put: Put,
}

#[derive(Debug, Serialize)]
struct Written<'a> {
    version: u32,
    put: &'a Put,
}

impl Keeper {
    /// Reads the file, if there is one, and defines what is in it. One that is damaged or of another version costs a line in the
    /// log and nothing else; it stays until there is another one to write.
    pub(crate) fn restore(path: PathBuf, shards: &Shards, settings: &Settings) -> Self {
        let mut keeper = Self { path, written: None, due: Instant::now() + APART, failing: false };
        match keeper.read() {
            Ok(None) => tracing::info!("state {}: there is none yet", keeper.path.display()),
            Ok(Some(put)) => {
                for refused in shards.put_again(put, settings) {
                    tracing::warn!("state {}: {refused} (left out)", keeper.path.display());
                }
                keeper.written = Some(shards.put(settings));
            }
            Err(why) => tracing::warn!("state {}: {why} (starting without it)", keeper.path.display()),
        }
        keeper
    }

    fn read(&self) -> Result<Option<Put>, String> {
        let Some(bytes) = file::read(&self.path, LONGEST).map_err(|error| error.to_string())? else { return Ok(None) };
        let document: Document = serde_json::from_slice(&bytes).map_err(|error| format!("damaged: {error}"))?;
        match document.version {
            VERSION => Ok(Some(document.put)),
            other => Err(format!("version {other}, written by another weir: this one reads {VERSION}")),
        }
    }

    /// Writes it if it is due and something has changed.
    pub(crate) fn look(&mut self, now: Instant, shards: &Shards, settings: &Settings) {
        if now >= self.due {
            self.save(shards, settings);
            self.due = now + APART;
        }
    }

    /// Writes it if something has changed.
    pub(crate) fn save(&mut self, shards: &Shards, settings: &Settings) {
        let put = shards.put(settings);
        if self.written.as_ref() == Some(&put) {
            return;
        }
        let written = file::replace(&self.path, |file| {
            Ok(serde_json::to_writer_pretty(file, &Written { version: VERSION, put: &put })?)
        });
        match written {
            Ok(()) => (self.written, self.failing) = (Some(put), false),
            Err(error) if !self.failing => {
                tracing::warn!("state {}: {error} (the file of before stays; tried again)", self.path.display());
                self.failing = true;
            }
            Err(_) => {}
        }
    }
}

const VERSION: u32 = 1;

/// From one try to the next.
const APART: Duration = Duration::from_secs(10);

/// Thousands of definitions are far shorter.
const LONGEST: u64 = 64 << 20;
