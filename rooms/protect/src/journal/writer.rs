//! The thread that writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::file::keep;
use super::{Entry, Journal};

/// Writes a journal without being waited for.
#[derive(Debug)]
pub struct Writer {
    tasks: SyncSender<Task>,
    thread: Option<JoinHandle<()>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    unwritten: AtomicU64,
    /// Whether [`Writer::begin`] is to be called.
    is_due: AtomicBool,
    /// Whether lines were lost since.
    is_behind: AtomicBool,
}

#[derive(Debug)]
enum Task {
    /// Lines to be added; whoever waits is told whether they are on the disk.
    Append(Vec<Entry>, Sender<bool>),
    /// What a restart must know.
    Begin(Vec<Entry>),
    /// What was learnt.
    Learnt(Vec<u8>),
    /// It is over.
    End,
}

impl Writer {
    /// Starts the thread, named `journal`. The file is to be rotated past so many bytes.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(path: PathBuf, most: u64) -> std::io::Result<Self> {
        let (tasks, queue) = sync_channel(QUEUE);
        let state = Arc::new(State::default());
        let thread = thread::Builder::new().name("journal".into()).spawn({
            let state = state.clone();
            move || write(&path, most, &queue, &state)
        })?;
        Ok(Self { tasks, thread: Some(thread), state })
    }

    /// As [`Self::append`], and waits for it, a second at most; whether it is on the disk. What is not counts as lost until all of it is.
    pub fn write_now(&self, entries: Vec<Entry>) -> bool {
        let is_kept = self.append(entries).is_some_and(|done| done.recv_timeout(PATIENCE).unwrap_or(false));
        self.state.is_behind.fetch_or(!is_kept, Ordering::Relaxed);
        is_kept
    }

    /// Whether [`Self::begin`] is to be called: the file is full, somebody has put it aside or deleted it, or it lacks lines. It says so
    /// once, and again while that lasts.
    pub fn is_due(&self) -> bool {
        self.state.is_due.swap(false, Ordering::Relaxed)
    }

    /// Whether the file lacks lines that a restart must know.
    pub fn is_behind(&self) -> bool {
        self.state.is_behind.load(Ordering::Relaxed)
    }

    /// Has all that a restart must know written: a full file is put aside for one that begins with it.
    pub fn begin(&self, carried: Vec<Entry>) {
        // Without room it is due again.
        let _ = self.tasks.try_send(Task::Begin(carried));
    }

    /// Has what was learnt written, in place of what was before: see [`super::learnt`].
    pub fn keep(&self, learnt: Vec<u8>) {
        // Without room the next one will do.
        let _ = self.tasks.try_send(Task::Learnt(learnt));
    }

    /// Lines that could not be written since the start.
    pub fn unwritten(&self) -> u64 {
        self.state.unwritten.load(Ordering::Relaxed)
    }

    /// Has lines written; the receiver is told whether it is on the disk. `None`: there is no room for it.
    pub fn append(&self, entries: Vec<Entry>) -> Option<Receiver<bool>> {
        let ((done, told), lines) = (channel(), entries.len());
        if self.tasks.try_send(Task::Append(entries, done)).is_err() {
            self.state.lose(lines);
            return None;
        }
        Some(told)
    }
}

impl State {
    /// So many lines are not on the disk.
    fn lose(&self, lines: usize) {
        self.unwritten.fetch_add(lines as u64, Ordering::Relaxed);
        self.is_behind.store(true, Ordering::Relaxed);
    }
}

/// What was handed over is written.
impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.tasks.send(Task::End);
        if let Some(thread) = self.thread.take() {
            // It ends when all is written.
            let _ = thread.join();
        }
    }
}

fn write(path: &Path, most: u64, queue: &Receiver<Task>, state: &State) {
    let shown = path.display().to_string();
    let mut journal = Journal::new(path.to_owned(), most);
    // What the last try said: it is told once.
    let mut told: Option<String> = None;
    loop {
        let task = queue.recv_timeout(LOOKS_APART).ok();
        if journal.is_moved() {
            tracing::warn!("journal {shown}: somebody has put it aside, or deleted it: it begins anew");
            state.is_behind.store(true, Ordering::Relaxed);
            state.is_due.store(true, Ordering::Relaxed);
        }
        let Some(task) = task else {
            state.is_due.fetch_or(state.is_behind.load(Ordering::Relaxed), Ordering::Relaxed);
            continue;
        };
        let outcome = match task {
            Task::Append(entries, done) => {
                let outcome = journal.append(&entries);
                if outcome.is_err() {
                    state.lose(entries.len());
                }
                // Where the disk takes lines again, those that it lacks come next, however many others do.
                let is_missing = outcome.is_ok() && state.is_behind.load(Ordering::Relaxed);
                state.is_due.fetch_or(journal.is_full() || is_missing, Ordering::Relaxed);
                // Nobody may wait for it.
                let _ = done.send(outcome.is_ok());
                outcome
            }
            Task::Begin(carried) => {
                let outcome = if journal.is_full() { journal.rotate(&carried) } else { journal.append(&carried) };
                state.is_behind.store(outcome.is_err(), Ordering::Relaxed);
                outcome
            }
            Task::Learnt(learnt) => keep(path, &learnt),
            Task::End => return,
        };
        let said = outcome.err().map(|error| error.to_string());
        match &said {
            Some(why) if told.as_ref() != Some(why) => {
                tracing::error!(
                    "journal {shown}: {why} (protection goes on; what is not in it is not known after a restart)"
                );
            }
            None if told.is_some() => tracing::info!("journal {shown}: it is written again"),
            _ => {}
        }
        told = said;
    }
}

/// From one look at whether the file is still there to the next, where nothing is written.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Batches that wait for the disk.
const QUEUE: usize = 1_024;

/// Longest wait for the disk.
const PATIENCE: Duration = Duration::from_secs(1);
