//! From the receiving thread to the writing one: batches of blocks, as many as there are, and not one more.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use weir_service::pulse::Pulse;
use weir_wire::signal::{Block, Channel, Element, Gap, Rate, Values};

use super::head::Head;
use super::lost::Lost;
use super::outages::Outages;
use super::state::State;
use super::writer::Writer;
use super::{Limits, Settings};
use crate::receive::{News, Sink, Stream};

/// Keeps what a receiver hands out: it copies, and never waits. What the disk is too slow for becomes a gap
/// ([`Cause::Server`](weir_wire::signal::Cause)).
#[derive(Debug)]
pub struct Recorder {
    batch: Option<Box<Batch>>,
    empty: Receiver<Box<Batch>>,
    full: Option<SyncSender<Box<Batch>>>,
    lost: Lost,
    /// Channels that are told to the writer with the next batch.
    told: HashMap<(u64, u16), Arc<Head>>,
    /// Sessions that have ended, likewise.
    ended: Vec<u64>,
    outages: Outages,
    state: Arc<State>,
    writer: Option<JoinHandle<()>>,
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
    Block(Kept),
    Ended(u64),
}

/// A block whose values are in its batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) key: (u64, u16),
    first: u64,
    time: i64,
    rate: Rate,
    what: What,
    /// Whether it is a gap for samples that the recorder has counted as lost.
    pub(super) is_settling: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Samples(Element, u32, u32),
    Buckets(Element, u32, u32, u32),
    Gap(Gap),
}

impl Batch {
    /// Copies a block; `false`: there is no room.
    fn push(&mut self, key: (u64, u16), block: &Block<'_>, is_settling: bool) -> bool {
        let values = match block.values {
            Values::Samples(_, values) | Values::Buckets(_, _, values) => values,
            Values::Gap(_) => &[],
        };
        if self.values.len() + values.len() > BATCH_BYTES || self.entries.len() >= BATCH_ENTRIES {
            return false;
        }
        let (begin, end) = (self.values.len() as u32, (self.values.len() + values.len()) as u32);
        self.values.extend_from_slice(values);
        let what = match block.values {
            Values::Samples(element, _) => What::Samples(element, begin, end),
            Values::Buckets(element, bucket, _) => What::Buckets(element, bucket, begin, end),
            Values::Gap(gap) => What::Gap(gap),
        };
        let Block { first, time, rate, .. } = *block;
        self.entries.push(Entry::Block(Kept { key, first, time, rate, what, is_settling }));
        true
    }

    /// A block as it came.
    pub(super) fn block(&self, kept: &Kept) -> Block<'_> {
        let values = |begin: u32, end: u32| &self.values[begin as usize..end as usize];
        let Kept { key: (_, channel), first, time, rate, what, .. } = *kept;
        let values = match what {
            What::Samples(element, begin, end) => Values::Samples(element, values(begin, end)),
            What::Buckets(element, bucket, begin, end) => Values::Buckets(element, bucket, values(begin, end)),
            What::Gap(gap) => Values::Gap(gap),
        };
        Block { channel, first, time, rate, values }
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
        let (lost, told, outages) = (Lost::default(), HashMap::new(), Outages::default());
        Ok(Self { batch: None, empty, full: Some(full), lost, told, ended: Vec::new(), outages, state, writer })
    }

    /// Has everything written that is here, and ends the files; the state has the last word on it.
    pub fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // At the end it may wait.
        while self.batch.is_some() || !self.lost.is_empty() || !self.told.is_empty() || !self.ended.is_empty() {
            if self.batch.is_none() {
                let Ok(batch) = self.empty.recv() else { break };
                self.begin(batch);
            }
            if let (Some(batch), Some(full)) = (self.batch.take(), &self.full) {
                self.state.queued(1);
                let _ = full.send(batch);
            }
        }
        self.full = None;
        self.writer.take().map(JoinHandle::join);
    }

    /// The batch that is being filled; `None`: all are full, the disk does not keep up.
    fn room(&mut self) -> Option<&mut Batch> {
        if self.batch.is_none() {
            match self.empty.try_recv() {
                Ok(batch) => self.begin(batch),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return None,
            }
        }
        self.batch.as_deref_mut()
    }

    /// What waited for a batch goes first.
    fn begin(&mut self, mut batch: Box<Batch>) {
        batch.entries.extend(self.told.drain().map(|(_, head)| Entry::Channel(head)));
        let mut lost = std::mem::take(&mut self.lost);
        for (key, gap) in lost.drain() {
            if !batch.push(key, &gap, true) {
                self.lost.add(key, &gap);
            }
        }
        batch.entries.extend(self.ended.drain(..).map(Entry::Ended));
        self.batch = Some(batch);
    }

    fn keep(&mut self, key: (u64, u16), block: &Block<'_>) {
        self.state.came(block);
        if self.room().is_some_and(|batch| batch.push(key, block, false)) {
            return;
        }
        if self.batch.is_some() {
            self.send();
        }
        if !self.room().is_some_and(|batch| batch.push(key, block, false)) {
            self.state.overran(self.lost.add(key, block));
        }
    }

    fn send(&mut self) {
        if let (Some(batch), Some(full)) = (self.batch.take(), &self.full) {
            self.state.queued(1);
            // There is room for as many as there are.
            if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) = full.try_send(batch) {
                self.state.queued(-1);
                self.batch = Some(batch);
            }
        }
    }
}

impl Sink for Recorder {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        self.outages.follow(stream, channel);
        let head = Arc::new(Head::new(stream, channel));
        if self.batch.as_ref().is_some_and(|batch| batch.entries.len() >= BATCH_ENTRIES) {
            self.send();
        }
        match self.room() {
            Some(batch) => batch.entries.push(Entry::Channel(head)),
            None => {
                self.told.insert((stream.session, channel.id), head);
            }
        }
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let key = (stream.session, block.channel);
        if let Some(gap) = self.outages.before(stream.session, block) {
            self.state.missed_between_sessions(gap.samples());
            self.keep(key, &gap);
        }
        self.keep(key, block);
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        if news != News::Ended {
            return;
        }
        self.outages.end(stream.session);
        if let Some(batch) = self.room() {
            batch.entries.push(Entry::Ended(stream.session));
        } else if self.ended.len() < Limits::SESSIONS {
            self.ended.push(stream.session);
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
        self.end();
    }
}

/// Values of a batch, and its entries: a block has some 1,400 bytes, a gap none.
pub(super) const BATCH_BYTES: usize = 1 << 20;
const BATCH_ENTRIES: usize = 8192;

/// Fewer are no queue.
const LEAST_BATCHES: usize = 4;
