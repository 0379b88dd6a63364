//! The last minutes of every channel, in a bounded ring: written by the receiving thread, one lock a batch; read by pages, screens,
//! publishers, as blocks from any index on.
//!
//! Each channel has an index of its own here, which goes on over restarts of its station: what was due meanwhile is a gap
//! ([`Cause::Restart`](weir_wire::signal::Cause)). Readers keep the index at which they stand. Whoever reads too late finds that the
//! ring has moved on, and gets a gap for it.

mod ring;
#[cfg(test)]
mod tests;

#[cfg(test)]
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashTable;
use tokio::sync::watch;
use weir_wire::signal::{Block, Channel, Limits};

use ring::Ring;

/// The last minutes of every channel.
#[derive(Debug)]
pub struct History {
    kept: Mutex<Kept>,
    /// Counts batches.
    batches: watch::Sender<u64>,
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
}

impl Default for Bounds {
    fn default() -> Self {
        Self { span: Duration::from_secs(600), bytes: 512 << 20, channels: 4096 }
    }
}

/// A channel that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// By which it is read. Where there are too many, it is used again for another once nothing has come for it for a while: indices go on.
    pub key: u32,
    /// Its station.
    pub station: String,
    /// Its stream.
    pub stream: String,
    /// What it is.
    pub channel: Channel,
}

impl Listed {
    /// Whether it is the same channel, whatever is known of it.
    pub fn is_called_as(&self, other: &Self) -> bool {
        self.channel.name == other.channel.name && self.stream == other.stream && self.station == other.station
    }

    /// Whether its values mean the same: numbers of one are no numbers of the other, else.
    pub fn is_measured_as(&self, other: &Self) -> bool {
        let (one, other) = (&self.channel, &other.channel);
        let same = |one: f64, other: f64| one.to_bits() == other.to_bits();
        same(one.scale, other.scale) && same(one.offset, other.offset) && one.unit == other.unit
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
}

#[derive(Debug, Default)]
struct Kept {
    catalog: Catalog,
    rings: Vec<Ring>,
    /// When each was written last.
    written: Vec<Instant>,
    /// No channel was written before it, as far as is known.
    oldest: Option<Instant>,
    /// Keys by what the channels are called: of thousands each is found at once.
    names: HashTable<u32>,
    hash: foldhash::fast::RandomState,
    /// Channels that nothing was ever written to, in the order in which they came: others that have samples come before them.
    newcomers: BTreeMap<u64, u32>,
    /// Where each stands among those.
    came: Vec<Option<u64>>,
    count: u64,
    /// Of forgotten channels, for the next.
    free: Vec<u32>,
    /// Channels that have begun anew: as they were, and as they are.
    renewed: Vec<Renewed>,
    /// How often two channels were compared.
    #[cfg(test)]
    compared: Cell<u64>,
}

/// A channel whose values mean something else from now on: what it was, and what it is. What it had is gone.
pub type Renewed = (Arc<Listed>, Arc<Listed>);

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
        Self { kept: Mutex::default(), batches: watch::Sender::new(0), bounds }
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

    /// Shows the blocks of a channel from an index on, up to about so many bytes of values, and returns the index to go on at. What is no
    /// longer there is a gap ([`Cause::Viewer`](weir_wire::signal::Cause)). The receiving thread waits meanwhile: look fast, compute later.
    pub fn read(&self, key: u32, from: u64, most_bytes: usize, look: impl FnMut(Block<'_>)) -> u64 {
        self.lock().rings.get(key as usize).map_or(from, |ring| ring.read(from, most_bytes, look))
    }

    /// Like [`Self::read`], as long as the channel is the one that is listed so, and is measured so: else nothing is shown, and the index
    /// stays. Who reads by a catalog of before would take new values for old ones.
    pub fn read_as(&self, listed: &Arc<Listed>, from: u64, most_bytes: usize, look: impl FnMut(Block<'_>)) -> u64 {
        let kept = self.lock();
        let at = listed.key as usize;
        let same = kept
            .catalog
            .get(at)
            .is_some_and(|now| Arc::ptr_eq(now, listed) || (now.is_called_as(listed) && now.is_measured_as(listed)));
        if same { kept.rings[at].read(from, most_bytes, look) } else { from }
    }

    /// The index of the first sample at or after a time, or the end.
    pub fn index_at(&self, key: u32, time: i64) -> u64 {
        self.lock().rings.get(key as usize).map_or(0, |ring| ring.index_at(time))
    }

    /// Waits for batches: changes after each.
    pub fn batches(&self) -> watch::Receiver<u64> {
        self.batches.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Every change of a ring is complete once its call returns.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing<'_> {
    /// Keeps a channel from now on, or changes what is known of it: found by its station, stream and name. `None`: there are too many.
    /// One that is measured otherwise than before begins anew: nothing that came before is shown as what it never was.
    pub fn channel(&mut self, station: &str, stream: &str, channel: &Channel) -> Option<u32> {
        let kept = &mut *self.kept;
        let hash = kept.hash.hash_one((station, stream, channel.name.as_str()));
        let known = kept.find(hash, station, stream, &channel.name);
        if known.is_some_and(|at| kept.catalog[at].channel == *channel) {
            return known.map(|at| at as u32);
        }
        let is_full = kept.catalog.len() >= self.history.bounds.channels;
        let is_new = known.is_none();
        let known = match known {
            None if is_full => Some(kept.free.pop()? as usize),
            known => known,
        };
        let key = known.unwrap_or(kept.catalog.len()) as u32;
        let listed =
            Arc::new(Listed { key, station: station.to_owned(), stream: stream.to_owned(), channel: channel.clone() });
        // Readers have the catalog as it was.
        let catalog = Arc::make_mut(&mut kept.catalog);
        match known {
            Some(at) => {
                let before = std::mem::replace(&mut catalog[at], listed.clone());
                if !is_new && !before.is_measured_as(&listed) && kept.rings[at].renew() {
                    kept.renewed.push((before, listed));
                }
                kept.written[at] = Instant::now();
            }
            None => {
                catalog.push(listed);
                kept.rings.push(Ring::default());
                kept.written.push(Instant::now());
                kept.came.push(None);
            }
        }
        if is_new {
            let Kept { names, hash: state, catalog, .. } = kept;
            names.insert_unique(hash, key, |&key| catalog[key as usize].hash(state));
            kept.count += 1;
            kept.newcomers.insert(kept.count, key);
            kept.came[key as usize] = Some(kept.count);
        }
        Some(key)
    }

    /// A channel has other limits from now on.
    pub fn set_limits(&mut self, key: u32, limits: Limits) {
        let catalog = &mut self.kept.catalog;
        if let Some(listed) = catalog.get(key as usize).filter(|listed| listed.channel.limits != limits) {
            let channel = Channel { limits, ..listed.channel.clone() };
            let listed = Listed { channel, ..(**listed).clone() };
            Arc::make_mut(catalog)[key as usize] = Arc::new(listed);
        }
    }

    /// Channels that had samples, and have begun anew since this was asked last.
    pub fn take_renewed(&mut self) -> Vec<Renewed> {
        std::mem::take(&mut self.kept.renewed)
    }

    /// Channels that nothing was ever written to.
    pub fn newcomers(&self) -> usize {
        self.kept.newcomers.len()
    }

    /// Forgets the oldest channel that nothing was ever written to: one that has samples needs its place.
    pub fn forget_newcomer(&mut self) -> Option<(u32, Arc<Listed>)> {
        let (_, &key) = self.kept.newcomers.first_key_value()?;
        Some(self.clear(key))
    }

    /// Forgets the channel that has had nothing for the longest time, if that is so long at least: its key is free for the next.
    pub fn forget(&mut self, silence: Duration) -> Option<(u32, Arc<Listed>)> {
        let kept = &mut *self.kept;
        // Where all were written lately nobody looks at each of them again and again.
        if kept.oldest.is_some_and(|oldest| oldest.elapsed() < silence) {
            return None;
        }
        let (at, written) = kept.written.iter().enumerate().min_by_key(|&(_, written)| *written)?;
        if written.elapsed() < silence {
            kept.oldest = Some(*written);
            return None;
        }
        Some(self.clear(at as u32))
    }

    fn clear(&mut self, key: u32) -> (u32, Arc<Listed>) {
        let (kept, at) = (&mut *self.kept, key as usize);
        let listed = Listed { key, station: String::new(), stream: String::new(), channel: Channel::default() };
        let before = std::mem::replace(&mut Arc::make_mut(&mut kept.catalog)[at], Arc::new(listed));
        kept.rings[at].clear();
        kept.written[at] = Instant::now();
        kept.begin(key);
        let hash = before.hash(&kept.hash);
        if let Ok(named) = kept.names.find_entry(hash, |&named| named == key) {
            named.remove();
        }
        kept.free.push(key);
        (key, before)
    }

    /// What there is of a channel.
    pub fn extent(&self, key: u32) -> Option<Extent> {
        self.kept.rings.get(key as usize).map(Ring::extent)
    }

    /// Appends a block; its index is where the channel ends, whatever it says itself.
    pub fn append(&mut self, key: u32, block: &Block<'_>) {
        let Bounds { span, bytes, .. } = self.history.bounds;
        let share = bytes / self.kept.rings.len().max(1);
        if let Some(ring) = self.kept.rings.get_mut(key as usize) {
            ring.append(block);
            ring.trim(span, share);
            self.kept.written[key as usize] = self.now;
            self.kept.begin(key);
        }
    }
}

impl Listed {
    fn hash(&self, state: &foldhash::fast::RandomState) -> u64 {
        state.hash_one((self.station.as_str(), self.stream.as_str(), self.channel.name.as_str()))
    }
}

impl Kept {
    /// Where the channel of this name is.
    fn find(&self, hash: u64, station: &str, stream: &str, name: &str) -> Option<usize> {
        let same = |&key: &u32| {
            #[cfg(test)]
            self.compared.set(self.compared.get() + 1);
            let listed = &self.catalog[key as usize];
            listed.channel.name == name && listed.stream == stream && listed.station == station
        };
        self.names.find(hash, same).map(|&key| key as usize)
    }

    /// A channel is no newcomer any more.
    fn begin(&mut self, key: u32) {
        if let Some(came) = self.came[key as usize].take() {
            self.newcomers.remove(&came);
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.history.batches.send_modify(|batches| *batches += 1);
    }
}
