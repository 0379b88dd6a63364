//! The thread that writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::file::keep;
use super::{Entry, Journal};

/// Writes a journal without being waited for.
#[derive(Debug)]
pub struct Writer {
    /// `None`: it ends.
    tasks: Option<SyncSender<Task>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    unwritten: AtomicU64,
    is_full: AtomicBool,
    is_moved: AtomicBool,
}

#[derive(Debug)]
enum Task {
    /// Lines to be added; whoever waits is told whether they are on the disk.
    Append(Vec<Entry>, Sender<bool>),
    /// A new file that begins with these lines.
    Rotate(Vec<Entry>),
    /// Lines that a file begins with which is there in place of one that somebody has put aside.
    Renew(Vec<Entry>),
    /// What was learnt.
    Learnt(Vec<u8>),
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
        Ok(Self { tasks: Some(tasks), thread: Some(thread), state })
    }

    /// Has lines written.
    pub fn write(&self, entries: Vec<Entry>) {
        self.append(entries);
    }

    /// As [`Self::write`], and waits for it, a second at most; whether it is on the disk.
    pub fn write_now(&self, entries: Vec<Entry>) -> bool {
        self.append(entries).is_some_and(|done| done.recv_timeout(PATIENCE).unwrap_or(false))
    }

    /// Whether the file is full: [`Self::rotate`] is to be called. It tells so once.
    pub fn is_full(&self) -> bool {
        self.state.is_full.swap(false, Ordering::Relaxed)
    }

    /// Puts the file aside for one that begins with what has to be known after a restart.
    pub fn rotate(&self, carried: Vec<Entry>) {
        if let Some(tasks) = &self.tasks {
            // Without room the file stays full, and tells so again.
            let _ = tasks.try_send(Task::Rotate(carried));
        }
    }

    /// Whether somebody has put the file aside, or deleted it: [`Self::renew`] is to be called. It tells so once.
    pub fn is_moved(&self) -> bool {
        self.state.is_moved.swap(false, Ordering::Relaxed)
    }

    /// Has what must be known after a restart written into the file that is there now.
    pub fn renew(&self, carried: Vec<Entry>) {
        let sent = self.tasks.as_ref().map(|tasks| tasks.try_send(Task::Renew(carried)));
        if let Some(Err(TrySendError::Full(_))) = sent {
            self.state.is_moved.store(true, Ordering::Relaxed);
        }
    }

    /// Has what was learnt written, in place of what was before: see [`super::learnt`].
    pub fn keep(&self, learnt: Vec<u8>) {
        if let Some(tasks) = &self.tasks {
            // Without room the next one will do.
            let _ = tasks.try_send(Task::Learnt(learnt));
        }
    }

    /// Lines that could not be written since the start.
    pub fn unwritten(&self) -> u64 {
        self.state.unwritten.load(Ordering::Relaxed)
    }

    /// As [`Self::write`]; the receiver is told whether it is on the disk. `None`: there is no room for it.
    pub fn append(&self, entries: Vec<Entry>) -> Option<Receiver<bool>> {
        let (done, told) = channel();
        match self.tasks.as_ref()?.try_send(Task::Append(entries, done)) {
            Ok(()) => Some(told),
            Err(
                TrySendError::Full(Task::Append(entries, _)) | TrySendError::Disconnected(Task::Append(entries, _)),
            ) => {
                self.state.unwritten.fetch_add(entries.len() as u64, Ordering::Relaxed);
                None
            }
            Err(_) => None,
        }
    }
}

/// What was handed over is written.
impl Drop for Writer {
    fn drop(&mut self) {
        self.tasks = None;
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
    // What is in force is not in a new file yet.
    let mut is_owed = false;
    loop {
        let task = match queue.recv_timeout(LOOKS_APART) {
            Ok(task) => Some(task),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if journal.is_moved() {
            tracing::warn!("journal {shown}: somebody has put it aside, or deleted it: it begins anew");
            state.is_moved.store(true, Ordering::Relaxed);
        }
        let Some(task) = task else {
            if std::mem::take(&mut is_owed) {
                state.is_moved.store(true, Ordering::Relaxed);
            }
            continue;
        };
        let outcome = match task {
            Task::Append(entries, done) => {
                let outcome = journal.append(&entries);
                if outcome.is_err() {
                    state.unwritten.fetch_add(entries.len() as u64, Ordering::Relaxed);
                }
                state.is_full.store(journal.is_full(), Ordering::Relaxed);
                // Nobody may wait for it.
                let _ = done.send(outcome.is_ok());
                outcome
            }
            Task::Rotate(carried) => journal.rotate(&carried),
            Task::Renew(carried) => {
                let outcome = journal.append(&carried);
                if outcome.is_err() {
                    state.unwritten.fetch_add(carried.len() as u64, Ordering::Relaxed);
                    is_owed = true;
                }
                outcome
            }
            Task::Learnt(learnt) => keep(path, &learnt),
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
