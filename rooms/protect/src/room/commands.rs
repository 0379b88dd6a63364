//! What people ask, on its way to the thread that decides, and the answer.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::Waker;
use crate::detect::Atlas;
use crate::guard::Denied;
use crate::journal::{Entry, WEIR};
use crate::model::{Board, Command};
use crate::settings::Settings;

/// What is asked of the thread that decides.
pub(crate) enum Asked {
    /// A person's command.
    Command { command: Command, by: String, answer: Sender<Result<String, Denied>> },
    /// To go over to other settings.
    Adopt(Arc<Settings>, Option<Box<dyn Atlas>>),
    /// To end.
    End,
}

/// What people may ask for and see. Clones are of the same room.
#[derive(Clone, Debug)]
pub struct Commands {
    asked: Sender<Asked>,
    waker: Arc<Waker>,
    board: watch::Receiver<Arc<Board>>,
    recent: Arc<Mutex<Recent>>,
}

/// The newest lines of the journal.
#[derive(Debug, Default)]
struct Recent {
    lines: VecDeque<(u64, Entry)>,
    last: u64,
}

impl Commands {
    pub(crate) fn new(waker: Arc<Waker>, board: watch::Receiver<Arc<Board>>) -> (Self, Receiver<Asked>) {
        let (asked, heard) = channel();
        (Self { asked, waker, board, recent: Arc::default() }, heard)
    }

    /// Has a command carried out, and waits for the answer: what was done, in a line.
    ///
    /// # Errors
    /// It is not carried out, or nobody answers.
    pub fn ask(&self, command: Command, by: &str) -> Result<String, Denied> {
        let (answer, told) = channel();
        self.tell(Asked::Command { command, by: by.to_owned(), answer });
        told.recv_timeout(PATIENCE).map_err(|_| Denied::Silent)?
    }

    /// Nobody hears it once the thread has ended, of which that has told.
    pub(super) fn tell(&self, asked: Asked) {
        let _ = self.asked.send(asked);
        self.waker.wake();
    }

    /// How things stand, now and whenever that changes.
    pub fn board(&self) -> watch::Receiver<Arc<Board>> {
        self.board.clone()
    }

    /// The newest lines of the journal that are older than `before`, the newest first, at most so many. Each is an object with `id`,
    /// `time_ms`, `event`, `by` (absent: the room itself), `attack`, `target`, `class`, `text`, and what else its kind has.
    pub fn journal(&self, before: Option<u64>, most: usize) -> Vec<Value> {
        let recent = self.recent();
        let older = recent.lines.iter().rev().filter(|(id, _)| before.is_none_or(|before| *id < before));
        older.take(most).map(|(id, entry)| shown(*id, entry)).collect()
    }

    pub(crate) fn remember(&self, entries: &[Entry]) {
        let mut recent = self.recent();
        for entry in entries {
            recent.last += 1;
            let id = recent.last;
            recent.lines.push_back((id, entry.clone()));
            if recent.lines.len() > RECENT {
                recent.lines.pop_front();
            }
        }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown(id: u64, entry: &Entry) -> Value {
    let mut object = match serde_json::to_value(entry) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    };
    for (key, name) in [("who", "by"), ("what", "event"), ("why", "text")] {
        if let Some(value) = object.remove(key) {
            object.insert(name.to_owned(), value);
        }
    }
    if entry.who == WEIR {
        object.remove("by");
    }
    object.remove("time");
    let time = entry.time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    if let Some(target) = &entry.target {
        object.insert("target".into(), json!(target.prefix.to_string()));
        object.insert("group".into(), json!(target.group));
    }
    object.extend([("id".to_owned(), json!(id)), ("time_ms".to_owned(), json!(time))]);
    Value::Object(object)
}

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lines that people can look at.
const RECENT: usize = 2_000;
