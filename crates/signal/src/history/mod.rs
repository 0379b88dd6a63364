//! The last minutes of every channel, in a bounded ring: written by the receiving thread, one lock a batch; read by pages, screens,
//! publishers, as blocks from any index on.
//!
//! Each channel has an index of its own here, which goes on over restarts of its station: what was due meanwhile is a gap
//! ([`Cause::Restart`](weir_wire::signal::Cause)). A reader is a [`Cursor`] and what it makes of blocks: one that reads too late finds
//! that the ring has moved on, and gets a gap for it.
//!
//! A channel is listed with its first block. Where its scale, offset or unit change, or its place is another channel's, its generation is
//! the next: readers of the one before get nothing more.

mod ring;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashTable;
use weir_wire::signal::{Block, Channel, Limits, OwnedBlock};

use ring::Ring;

/// The last minutes of every channel.
#[derive(Debug)]
pub struct History {
    kept: Mutex<Kept>,
    /// What is done after each batch.
    after: OnceLock<After>,
    bounds: Bounds,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At most so long a time of each channel.
    pub span: Duration,
    /// At most so many bytes of all channels together: an equal part each.
    pub bytes: usize,
    /// At most so many channels.
    pub channels: usize,
    /// A channel that has had nothing for so long, or has ended, gives way to another where there are too many.
    pub quiet: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        let (minutes, seconds) = (Duration::from_secs(600), Duration::from_secs(10));
        Self { span: minutes, bytes: 512 << 20, channels: 4096, quiet: seconds }
    }
}

/// A channel by which it is read, as long as its numbers mean the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChannelId {
    /// Its place.
    pub key: u32,
    /// How often the place was another channel's, or measured otherwise.
    pub generation: u32,
}

/// Where a reader stands in a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The channel.
    pub id: ChannelId,
    /// Index of the sample that it reads next.
    pub at: u64,
}

/// What a reader of all channels keeps of each, in the order of the catalog.
#[derive(Debug)]
pub struct Readers<T>(pub Vec<(Arc<Listed>, T)>);

/// A channel that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its place. Where there are too many, it is used again for another once nothing has come for it for a while: indices go on.
    pub key: u32,
    /// See [`ChannelId::generation`].
    pub generation: u32,
    /// Its station.
    pub station: String,
    /// Its stream.
    pub stream: String,
    /// What it is.
    pub channel: Channel,
    /// The limits that are in force: those of the channel, unless [`Writing::set_limits`] has set others.
    pub limits: Limits,
}

impl Listed {
    /// By which it is read.
    pub fn id(&self) -> ChannelId {
        ChannelId { key: self.key, generation: self.generation }
    }

    fn is_measured_as(&self, other: &Channel) -> bool {
        let same = |one: f64, other: f64| one.to_bits() == other.to_bits();
        let Channel { scale, offset, unit, .. } = &self.channel;
        same(*scale, other.scale) && same(*offset, other.offset) && *unit == other.unit
    }

    /// By what it is called.
    pub fn is_called(&self, station: &str, stream: &str, name: &str) -> bool {
        self.channel.name == name && self.stream == stream && self.station == station
    }
}

/// All channels, in the order in which they came.
pub type Catalog = Arc<Vec<Arc<Listed>>>;

/// Which indices of a channel there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Of the oldest sample that is kept.
    pub begin: u64,
    /// Behind the newest.
    pub end: u64,
    /// Time of the oldest, ns since 1970 UTC.
    pub begin_time: i64,
    /// Time behind the newest.
    pub end_time: i64,
    /// Its sender has ended in order: nothing more is expected.
    pub has_ended: bool,
}

#[derive(Debug, Default)]
struct Kept {
    catalog: Catalog,
    rings: Vec<Ring>,
    /// When each was written last.
    written: Vec<Instant>,
    /// When a channel that gives way was looked for in vain.
    searched: Option<Instant>,
    /// Places by what the channels are called: of thousands each is found at once.
    names: HashTable<u32>,
    hash: foldhash::fast::RandomState,
}

/// Wakes readers.
struct After(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("After")
    }
}

/// The history, while the receiving thread writes a batch.
#[derive(Debug)]
pub struct Writing<'a> {
    kept: MutexGuard<'a, Kept>,
    history: &'a History,
    now: Instant,
}

impl History {
    /// Of nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        Self { kept: Mutex::default(), after: OnceLock::new(), bounds }
    }

    /// How long a time of each channel is kept at most.
    pub fn span(&self) -> Duration {
        self.bounds.span
    }

    /// Begins a batch; readers wait until it is dropped.
    pub fn write(&self) -> Writing<'_> {
        Writing { kept: self.lock(), history: self, now: Instant::now() }
    }

    /// All channels as they are now.
    pub fn catalog(&self) -> Catalog {
        self.lock().catalog.clone()
    }

    /// What there is of a channel; `None`: there is no such channel.
    pub fn extent(&self, key: u32) -> Option<Extent> {
        self.lock().rings.get(key as usize).map(Ring::extent)
    }

    /// A cursor at the first sample at or after a time, or at the end.
    pub fn cursor(&self, id: ChannelId, time: i64) -> Cursor {
        Cursor { id, at: self.lock().ring(id).map_or(0, |ring| ring.index_at(time)) }
    }

    /// Shows the next blocks, copied, and moves the cursor behind them; `false`: there are none now. What is no longer there is a gap
    /// ([`Cause::Viewer`](weir_wire::signal::Cause)). Of another generation nothing is shown.
    pub fn read(&self, cursor: &mut Cursor, look: impl FnMut(Block<'_>)) -> bool {
        let mut copied = Vec::new();
        // The receiving thread waits while they are copied, and not while they are looked at.
        if let Some(ring) = self.lock().ring(cursor.id) {
            cursor.at = ring.read(cursor.at, MOST_READ, |block| copied.push(OwnedBlock::new(&block)));
        }
        copied.iter().map(OwnedBlock::block).for_each(look);
        !copied.is_empty()
    }

    /// Has this done after each batch, on the thread that writes; the first who asks has it.
    pub fn after_each_batch(&self, after: impl Fn() + Send + Sync + 'static) {
        // Another one would wake nobody whom the first does not.
        let _ = self.after.set(After(Box::new(after)));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Every change of a ring is complete once its call returns.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Readers<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Readers<T> {
    /// Follows the catalog. `begin` makes what is kept of a channel that is new, or measured otherwise, or has another's place: of what was
    /// kept of the one before.
    pub fn follow(
        &mut self,
        history: &History,
        mut begin: impl FnMut(&Arc<Listed>, Option<(Arc<Listed>, T)>) -> T,
    ) -> &mut [(Arc<Listed>, T)] {
        for (at, listed) in history.catalog().iter().enumerate() {
            match self.0.get_mut(at) {
                Some((known, _)) if known.id() == listed.id() => known.clone_from(listed),
                before => {
                    let before = before.is_some().then(|| self.0.swap_remove(at));
                    self.0.push((listed.clone(), begin(listed, before)));
                    let last = self.0.len() - 1;
                    self.0.swap(at, last);
                }
            }
        }
        &mut self.0
    }
}

impl Writing<'_> {
    /// Keeps a channel from now on, or changes what is known of it: found by its station, stream and name. `None`: there are too many.
    /// One that is measured otherwise than before begins anew: nothing that came before is shown as what it never was.
    pub fn channel(&mut self, station: &str, stream: &str, channel: &Channel) -> Option<ChannelId> {
        let Bounds { channels, quiet, .. } = self.history.bounds;
        let (kept, now) = (&mut *self.kept, self.now);
        let hash = kept.hash.hash_one((station, stream, channel.name.as_str()));
        let Kept { names, catalog, .. } = kept;
        let known = names.find(hash, |&key| catalog[key as usize].is_called(station, stream, &channel.name)).copied();
        let key = match known {
            Some(key) => key,
            None if kept.catalog.len() < channels => kept.catalog.len() as u32,
            None => kept.give_way(quiet, now)?,
        };
        let at = key as usize;
        let before = kept.catalog.get(at).cloned();
        if let Some(listed) = before.as_ref().filter(|listed| known.is_some() && listed.channel == *channel) {
            return Some(listed.id());
        }
        let mut generation = before.as_ref().map_or(0, |listed| listed.generation);
        if before.is_some_and(|listed| known.is_none() || !listed.is_measured_as(channel)) {
            generation = generation.wrapping_add(1);
            kept.rings[at].renew(known.is_some());
        }
        let (station, stream, channel) = (station.to_owned(), stream.to_owned(), channel.clone());
        let limits = channel.limits;
        let listed = Arc::new(Listed { key, generation, station, stream, channel, limits });
        let id = listed.id();
        // Readers have the catalog as it was.
        let catalog = Arc::make_mut(&mut kept.catalog);
        match catalog.get_mut(at) {
            Some(place) => *place = listed,
            None => {
                catalog.push(listed);
                kept.rings.push(Ring::default());
                kept.written.push(now);
            }
        }
        if known.is_none() {
            kept.written[at] = now;
            let Kept { names, hash: state, catalog, .. } = kept;
            names.insert_unique(hash, key, |&key| catalog[key as usize].hash(state));
        }
        Some(id)
    }

    /// A channel has other limits from now on.
    pub fn set_limits(&mut self, key: u32, limits: Limits) {
        let catalog = &mut self.kept.catalog;
        if let Some(listed) = catalog.get(key as usize).filter(|listed| listed.limits != limits) {
            let listed = Listed { limits, ..(**listed).clone() };
            Arc::make_mut(catalog)[key as usize] = Arc::new(listed);
        }
    }

    /// The sender of a channel has ended in order: nothing more is expected, until something comes.
    pub fn end(&mut self, id: ChannelId) {
        if self.kept.ring(id).is_some() {
            self.kept.rings[id.key as usize].has_ended = true;
        }
    }

    /// What there is of a channel; `None`: its place is another's, or it is measured otherwise.
    pub fn extent(&self, id: ChannelId) -> Option<Extent> {
        self.kept.ring(id).map(Ring::extent)
    }

    /// Appends a block; its index is where the channel ends, whatever it says itself. `false`: its place is another's.
    pub fn append(&mut self, id: ChannelId, block: &Block<'_>) -> bool {
        let Bounds { span, bytes, .. } = self.history.bounds;
        let share = bytes / self.kept.rings.len().max(1);
        let is_it = self.kept.ring(id).is_some();
        if is_it {
            let at = id.key as usize;
            self.kept.rings[at].append(block);
            self.kept.rings[at].trim(span, share);
            self.kept.written[at] = self.now;
        }
        is_it
    }
}

impl Listed {
    fn hash(&self, state: &foldhash::fast::RandomState) -> u64 {
        state.hash_one((self.station.as_str(), self.stream.as_str(), self.channel.name.as_str()))
    }
}

impl Kept {
    fn ring(&self, id: ChannelId) -> Option<&Ring> {
        let listed = self.catalog.get(id.key as usize).filter(|listed| listed.id() == id)?;
        self.rings.get(listed.key as usize)
    }

    /// The place of a channel that has ended, or else of the one that has had nothing for the longest time, if that is so long at least;
    /// looked for once a second.
    fn give_way(&mut self, quiet: Duration, now: Instant) -> Option<u32> {
        if self.searched.is_some_and(|then| now < then + SEARCHES_APART) {
            return None;
        }
        let has_ended = |at: usize| self.rings[at].has_ended;
        let places = self.written.iter().enumerate();
        let (at, written) = places.min_by_key(|&(at, written)| (!has_ended(at), *written))?;
        if now.saturating_duration_since(*written) < quiet && !has_ended(at) {
            self.searched = Some(now);
            return None;
        }
        let hash = self.catalog[at].hash(&self.hash);
        if let Ok(named) = self.names.find_entry(hash, |&named| named as usize == at) {
            named.remove();
        }
        Some(at as u32)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if let Some(After(after)) = self.history.after.get() {
            after();
        }
    }
}

/// Bytes of values that are copied at once, about.
pub const MOST_READ: usize = 64 << 10;

/// From one look for a channel that gives way to the next, where there was none.
const SEARCHES_APART: Duration = Duration::from_secs(1);
