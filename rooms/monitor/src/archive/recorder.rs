//! From the receiving thread to the writing one: batches of blocks, as many as there are, and not one more.

use std::collections::BTreeMap;
use std::io;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use weir_program::pulse::Pulse;
use weir_wire::signal::{Block, Cause, Channel, Gap, Values};

use super::head::Head;
use super::state::State;
use super::writer::Writer;
use super::{Limits, Settings};
use weir_signal::receive::{News, Sink, Stream};

/// Keeps what a receiver hands out: it copies, and never waits. Blocks for which there is no batch are dropped, and become a gap
/// ([`Cause::Server`](weir_wire::signal::Cause)).
#[derive(Debug)]
pub struct Recorder {
    batch: Option<Box<Batch>>,
    empty: Receiver<Box<Batch>>,
    full: Option<SyncSender<Box<Batch>>>,
    /// What waits for a batch, by session.
    waiting: BTreeMap<(u64, Waits), Entry>,
    state: Arc<State>,
    writer: Option<JoinHandle<()>>,
}

/// What waits of a session, in the order in which it goes on.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    Channel(u16),
    Dropped(u16),
    Ended,
}

/// Blocks on their way, in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) entries: Vec<Entry>,
    values: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum Entry {
    Channel(Arc<Head>),
    /// A block of a session, and where in the batch its values are.
    Block(u64, Block<'static>, Range<usize>),
    /// Blocks of a session that were dropped, as a gap.
    Dropped(u64, Block<'static>),
    Ended(u64),
}

impl Batch {
    /// Copies a block; `false`: there is no room.
    fn push(&mut self, session: u64, block: &Block<'_>) -> bool {
        let bytes = block.values.bytes();
        let range = self.values.len()..self.values.len() + bytes.len();
        if range.end > BATCH_BYTES {
            return false;
        }
        self.values.extend_from_slice(bytes);
        self.entries.push(Entry::Block(session, block.head(), range));
        true
    }

    /// A block as it came.
    pub(super) fn block(&self, block: &Block<'static>, range: &Range<usize>) -> Block<'_> {
        Block { values: block.values.with(&self.values[range.clone()]), ..*block }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.values.clear();
    }
}

impl Recorder {
    /// Starts the writing thread, which makes files as soon as there is something to keep.
    ///
    /// # Errors
    /// The directory cannot be written to; the thread cannot be started.
    pub fn start(settings: &Settings, state: Arc<State>, pulse: Pulse) -> io::Result<Self> {
        let batches = (settings.limits.queue / BATCH_BYTES).max(LEAST_BATCHES);
        let (full, to_write) = sync_channel(batches);
        let (written, empty) = sync_channel(batches);
        for _ in 0..batches {
            let _ = written.send(Box::default());
        }
        let writer = Writer::new(settings, state.clone())?;
        let write = move || writer.run(&to_write, &written, &pulse);
        let writer = Some(thread::Builder::new().name("archive".into()).spawn(write)?);
        state.set_batches(batches);
        Ok(Self { batch: None, empty, full: Some(full), waiting: BTreeMap::new(), state, writer })
    }

    /// Has everything written that is here, and ends the files; the state has the last word on it.
    pub fn finish(self) {
        drop(self);
    }

    /// The batch that is being filled; `None`: all are full, the disk does not keep up.
    fn room(&mut self) -> Option<&mut Batch> {
        if self.batch.as_ref().is_some_and(|batch| batch.entries.len() >= BATCH_ENTRIES) {
            self.send();
        }
        if self.batch.is_none() {
            let batch = self.empty.try_recv().ok()?;
            self.begin(batch);
        }
        self.batch.as_deref_mut()
    }

    /// What waited for a batch goes first.
    fn begin(&mut self, mut batch: Box<Batch>) {
        batch.entries.extend(take(&mut self.waiting).into_values());
        self.batch = Some(batch);
    }

    fn send(&mut self) {
        if let (Some(batch), Some(full)) = (self.batch.take(), &self.full) {
            self.state.queued(1);
            // There is room for as many as there are; the writing thread may have panicked, which `/healthz` reports.
            let _ = full.try_send(batch);
        }
    }

    fn note(&mut self, session: u64, waits: Waits, entry: Entry) {
        if let Some(batch) = self.room() {
            batch.entries.push(entry);
        } else if self.waiting.len() < MOST_WAITING {
            self.waiting.insert((session, waits), entry);
        }
    }
}

impl Sink for Recorder {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        let head = Arc::new(Head::new(stream, channel));
        self.note(stream.session, Waits::Channel(channel.id), Entry::Channel(head));
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let session = stream.session;
        self.state.counts.came.add(block.samples());
        if self.room().is_some_and(|batch| batch.push(session, block)) {
            return;
        }
        self.send();
        if self.room().is_some_and(|batch| batch.push(session, block)) {
            return;
        }
        self.state.counts.overrun.add(block.samples());
        let Block { channel, mut first, mut time, rate, .. } = *block;
        if let Some(Entry::Dropped(_, before)) = self.waiting.get(&(session, Waits::Dropped(channel))) {
            (first, time) = (before.first, before.time);
        }
        let values = Values::Gap(Gap { samples: block.end().saturating_sub(first), cause: Cause::Server });
        let dropped = Block { channel, first, time, rate, values };
        self.note(session, Waits::Dropped(channel), Entry::Dropped(session, dropped));
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        if news == News::Ended {
            self.note(stream.session, Waits::Ended, Entry::Ended(stream.session));
        }
    }

    /// While the disk keeps up, what is here goes to it at once; else it waits until a batch is full, so that those there are last.
    fn flush(&mut self) {
        if self.batch.as_ref().is_some_and(|batch| !batch.entries.is_empty()) && self.state.has_time() {
            self.send();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // At the end it may wait.
        if self.batch.is_none()
            && !self.waiting.is_empty()
            && let Ok(batch) = self.empty.recv()
        {
            self.begin(batch);
        }
        self.send();
        self.full = None;
        self.writer.take().map(JoinHandle::join);
    }
}

/// Values of a batch, and its entries: a block has some 1,400 bytes, a gap none.
pub(super) const BATCH_BYTES: usize = 1 << 20;
const BATCH_ENTRIES: usize = 8192;

/// Channels, gaps and ends that wait for a batch while the disk stands still: as many as a file can name, each a few hundred bytes.
const MOST_WAITING: usize = Limits::CHANNELS;

/// Fewer are not a queue.
const LEAST_BATCHES: usize = 4;
