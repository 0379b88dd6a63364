//! The thread that writes: files cut by size and time, gaps where the disk did not take what came.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::statvfs::statvfs;
use weir_program::pulse::Pulse;
use weir_units::format;
use weir_wire::signal::{Block, Cause, Gap, Rate, Values};

use super::file::{ArchiveFile, io_error};
use super::head::Head;
use super::recorder::{Batch, Entry};
use super::state::State;
use super::{Limits, Settings};
use crate::needed::may_fill;

pub(super) struct Writer {
    settings: Settings,
    file: Option<Open>,
    lines: HashMap<(u64, u16), Line>,
    /// When it is tried again to write.
    retry: Option<Instant>,
    state: Arc<State>,
    /// The last gaps are being written: they are few, and what is left to others is held back for them too.
    is_ending: bool,
    /// Where files are synchronized with the disk, by another thread.
    syncs: Option<SyncSender<Arc<File>>>,
}

struct Open {
    file: ArchiveFile,
    begun: Instant,
    /// When its chunk ends, full or not.
    due: Instant,
    /// Samples in its chunk, and missing ones.
    samples: u64,
    missing: u64,
}

/// A channel of a session.
struct Line {
    head: Arc<Head>,
    place: Option<Place>,
    has_ended: bool,
}

/// Where a channel stands.
struct Place {
    /// The index that is next in files, and the time of its sample.
    next: (u64, i64),
    /// The same without the chunk that is open: that is lost if the disk does not take it.
    whole: (u64, i64),
    /// The end of what came: up to it all that is in no file becomes a gap.
    reached: u64,
    rate: Rate,
}

impl Place {
    fn new(block: &Block<'_>) -> Self {
        let next = (block.first, block.time);
        Self { next, whole: next, reached: block.first, rate: block.rate }
    }

    /// What is in no file before an index.
    fn gap(&self, channel: u16, upto: u64) -> Option<Block<'static>> {
        let (first, time) = self.next;
        let samples = upto.checked_sub(first).filter(|samples| *samples > 0)?;
        let values = Values::Gap(Gap { samples, cause: Cause::Server });
        Some(Block { channel, first, time, rate: self.rate, values })
    }
}

impl Writer {
    pub(super) fn new(settings: &Settings, state: Arc<State>) -> io::Result<Self> {
        let about = fs::metadata(&settings.directory)?;
        if !about.is_dir() {
            return Err(io::Error::other("not a directory"));
        }
        // A disk that is full may have room later: what is forbidden stays so.
        may_fill(&settings.directory)?;
        let (syncs, files) = sync_channel::<Arc<File>>(1);
        let sync = move || {
            for file in files {
                // What cannot be synchronized cannot be written soon either, and is told then.
                let _ = file.sync_data();
            }
        };
        thread::Builder::new().name("archive-sync".into()).spawn(sync)?;
        let (settings, lines) = (settings.clone(), HashMap::new());
        Ok(Self { settings, file: None, lines, retry: None, state, is_ending: false, syncs: Some(syncs) })
    }

    /// Until nobody sends batches any more.
    pub(super) fn run(mut self, batches: &Receiver<Box<Batch>>, empty: &SyncSender<Box<Batch>>, pulse: &Pulse) {
        loop {
            pulse.wait();
            let left = self.due().saturating_duration_since(Instant::now());
            let batch = batches.recv_timeout(left);
            pulse.work();
            self.state.at_work(true);
            match batch {
                Ok(mut batch) => {
                    self.write(&batch);
                    batch.clear();
                    self.state.queued(-1);
                    // There is room for as many as there are.
                    let _ = empty.send(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look();
            self.state.at_work(false);
        }
        self.end();
        self.state.at_work(false);
    }

    fn due(&self) -> Instant {
        let open = self.file.as_ref().map(|open| open.due);
        [open, self.retry].into_iter().flatten().min().unwrap_or_else(|| Instant::now() + CHUNK_TIME)
    }

    fn write(&mut self, batch: &Batch) {
        for entry in &batch.entries {
            match entry {
                Entry::Channel(head) => self.channel(head),
                Entry::Block(session, block, range) => {
                    self.block((*session, block.channel), &batch.block(block, range));
                    if self.file.as_ref().is_some_and(|open| open.file.filled() >= CHUNK_BYTES) {
                        self.end_chunk();
                    }
                }
                Entry::Dropped(session, gap) => {
                    if let Some(line) = self.lines.get_mut(&(*session, gap.channel)) {
                        line.reach(gap);
                    }
                }
                Entry::Ended(session) => {
                    let ended = self.lines.iter_mut().filter(|((of, _), _)| of == session);
                    ended.for_each(|(_, line)| line.has_ended = true);
                    self.settle();
                }
            }
        }
    }

    fn channel(&mut self, head: &Arc<Head>) {
        let key = (head.session, head.channel.id);
        if self.lines.len() >= Limits::CHANNELS && !self.lines.contains_key(&key) {
            self.state.counts.refused_channels.add(1);
            return;
        }
        let new = || Line { head: head.clone(), place: None, has_ended: false };
        let line = self.lines.entry(key).or_insert_with(new);
        if (&line.head.channel.name, &line.head.channel.origin) != (&head.channel.name, &head.channel.origin) {
            *line = new();
        }
        (line.head, line.has_ended) = (head.clone(), false);
    }

    fn block(&mut self, key: (u64, u16), block: &Block<'_>) {
        let Some(line) = self.lines.get_mut(&key) else {
            self.state.counts.refused.add(block.samples());
            return;
        };
        let gap = line.reach(block).gap(block.channel, block.first);
        if !self.open() || !gap.is_none_or(|gap| self.put(key, &gap)) || !self.put(key, block) {
            self.state.counts.unkept.add(block.samples());
            return;
        }
        let Some(open) = &mut self.file else { return };
        match block.values {
            Values::Gap(gap) => open.missing += gap.samples,
            _ => open.samples += block.samples(),
        }
    }

    /// Writes a block of a channel, if a file is open; what fails ends the file. Nothing reaches the disk before the chunk ends.
    fn put(&mut self, key: (u64, u16), block: &Block<'_>) -> bool {
        let (Some(open), Some(line)) = (&mut self.file, self.lines.get_mut(&key)) else { return false };
        let written = open.file.block(&line.head, block);
        if let (Ok(()), Some(place)) = (&written, &mut line.place) {
            place.next = (block.end(), block.time_of(block.end()));
        }
        written.map_err(|error| self.fail(&io_error(error))).is_ok()
    }

    fn look(&mut self) {
        let now = Instant::now();
        if let Some(open) = &self.file
            && now >= open.due
        {
            let over = now.duration_since(open.begun) >= self.settings.limits.cut_after;
            self.end_chunk();
            if over {
                self.finish();
            }
        }
        if self.retry.is_some_and(|retry| now >= retry) {
            self.retry = None;
            self.open();
            self.settle();
        }
    }

    /// Writes what is missing at the end of channels that have ended, or of all.
    fn settle(&mut self) {
        let gap = |((session, channel), line): (&(u64, u16), &Line)| {
            let place = line.place.as_ref().filter(|_| line.has_ended || self.is_ending)?;
            Some(((*session, *channel), place.gap(*channel, place.reached)?))
        };
        let due: Vec<_> = self.lines.iter().filter_map(gap).collect();
        if !due.is_empty() && self.open() {
            due.iter().all(|(key, gap)| self.put(*key, gap));
        }
    }

    fn end_chunk(&mut self) {
        let Some(open) = &mut self.file else { return };
        if open.file.is_deleted() {
            let path = open.file.path.display();
            tracing::warn!("archive: {path} was deleted: what it had is gone, the next file begins with a gap");
            self.give_up();
            return;
        }
        let before = open.file.written();
        open.due = Instant::now() + CHUNK_TIME;
        if let Err(error) = open.file.end_chunk() {
            self.fail(&io_error(error));
            return;
        }
        let (written, counts) = (open.file.written(), &self.state.counts);
        counts.kept.add(std::mem::take(&mut open.samples));
        counts.missing.add(std::mem::take(&mut open.missing));
        counts.bytes.add(written - before);
        if let Some(syncs) = &self.syncs {
            // Where one is under way, the next chunk comes to it.
            let _ = syncs.try_send(open.file.handle());
        }
        self.lines.retain(|_, Line { place, has_ended, .. }| {
            let Some(place) = place else { return !*has_ended };
            place.whole = place.next;
            !*has_ended || place.next.0 < place.reached
        });
        if written >= self.settings.limits.cut_bytes {
            self.finish();
        } else if let Some(why) = self.is_low() {
            self.finish();
            self.pause(&why, ROOM);
        }
    }

    /// Opens the next file, where none is; whether one is open.
    fn open(&mut self) -> bool {
        if self.file.is_some() || self.retry.is_some() {
            return self.file.is_some();
        }
        if let Some(why) = self.is_low() {
            self.pause(&why, ROOM);
            return false;
        }
        match self.create() {
            Ok(file) => {
                let now = Instant::now();
                tracing::info!("archive: writing {}", file.path.display());
                self.state.counts.files.add(1);
                self.state.counts.bytes.add(file.written());
                self.state.trouble(None);
                self.file = Some(Open { file, begun: now, due: now + CHUNK_TIME, samples: 0, missing: 0 });
            }
            Err(error) => self.pause(&format!("{}: {error}", self.settings.directory.display()), until(&error)),
        }
        self.file.is_some()
    }

    fn create(&self) -> io::Result<ArchiveFile> {
        let time: String = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let time = time.replace(['-', ':'], "");
        for number in 0..MOST_OF_A_SECOND {
            // Names sort as files follow one another.
            let path = self.settings.directory.join(format!("{}-{time}-{number:03}.mcap", self.settings.prefix));
            match ArchiveFile::create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
        Err(io::Error::other("there are too many files of this second"))
    }

    /// Why nothing is written for now, if there is too little room.
    fn is_low(&self) -> Option<String> {
        if self.is_ending {
            return None;
        }
        let directory = &self.settings.directory;
        let (free, least) = (free(directory)?, self.settings.limits.leave);
        (free < least).then(|| {
            let (free, least) = (format::bytes(free as f64), format::bytes(least as f64));
            format!("{}: {free} free, {least} are left to others", directory.display())
        })
    }

    /// The file cannot be written to: it ends after its last whole chunk.
    fn fail(&mut self, error: &io::Error) {
        let Some(file) = self.give_up() else { return };
        let path = file.path.clone();
        if let Err(error) = file.break_off() {
            tracing::warn!("archive: end {}: {error} (it can be read all the same)", path.display());
        }
        self.pause(&format!("{}: {error}", path.display()), until(error));
    }

    /// Lets go of the file: what was in its chunk is lost, and becomes a gap.
    fn give_up(&mut self) -> Option<ArchiveFile> {
        let Open { file, samples, missing, .. } = self.file.take()?;
        self.state.counts.unkept.add(samples + missing);
        self.lines.values_mut().filter_map(|line| line.place.as_mut()).for_each(|place| place.next = place.whole);
        Some(file)
    }

    /// `until`: what it waits for.
    fn pause(&mut self, why: &str, until: &str) {
        self.retry = Some(Instant::now() + RETRIES_APART);
        if self.state.trouble(Some(why.to_owned())) {
            tracing::warn!(
                "archive: {why}: nothing is kept until {until} (then a gap of cause server counts what is missing)"
            );
        }
    }

    fn finish(&mut self) {
        let Some(open) = self.file.take() else { return };
        let (path, before) = (open.file.path.clone(), open.file.written());
        match open.file.finish() {
            Ok(bytes) => self.state.counts.bytes.add(bytes - before),
            Err(error) => {
                tracing::warn!("archive: end {}: {} (it can be read all the same)", path.display(), io_error(error));
            }
        }
    }

    fn end(&mut self) {
        // The chunk that is open may fail and become a gap: a file of its own is tried for that.
        self.is_ending = true;
        for _ in 0..2 {
            self.retry = None;
            self.settle();
            self.end_chunk();
            self.finish();
        }
        self.syncs = None;
        let places = self.lines.values().filter_map(|line| line.place.as_ref());
        let left: u64 = places.map(|place| place.reached.saturating_sub(place.next.0)).sum();
        if left > 0 {
            let directory = self.settings.directory.display();
            tracing::warn!(
                "archive: {directory}: no room for the last gaps: {left} samples are in no file, not even as missing"
            );
        }
    }
}

impl Line {
    /// A block came.
    fn reach(&mut self, block: &Block<'_>) -> &Place {
        let place = self.place.get_or_insert_with(|| Place::new(block));
        place.reached = place.reached.max(block.end());
        place
    }
}

/// Bytes that may still be written in a directory.
fn free(directory: &Path) -> Option<u64> {
    let about = statvfs(directory).ok()?;
    Some(about.blocks_available() as u64 * about.fragment_size() as u64)
}

/// What has to be so before it can be written again.
fn until(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "it is permitted again: see to the owner and the mode of the directory",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ROOM,
        _ => "that is fixed",
    }
}

const ROOM: &str = "there is room again";

/// Chunks: large ones are written fast, and one at most is lost with the machine.
pub(super) const CHUNK_BYTES: usize = 4 << 20;

/// After so long a chunk ends in any case.
const CHUNK_TIME: Duration = Duration::from_secs(1);

/// From one look at a disk that is full to the next.
const RETRIES_APART: Duration = Duration::from_secs(1);

const MOST_OF_A_SECOND: u32 = 1000;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nix::unistd::{Uid, setfsuid};

    use super::*;

    #[test]
    fn room_is_waited_for_where_there_is_none_alone() {
        let of = |errno: nix::errno::Errno| until(&errno.into());
        assert_eq!((of(nix::errno::Errno::ENOSPC), of(nix::errno::Errno::EDQUOT)), (ROOM, ROOM));
        assert!(of(nix::errno::Errno::EACCES).starts_with("it is permitted again"));
        assert_eq!(of(nix::errno::Errno::EIO), "that is fixed");
    }

    #[test]
    fn what_is_forbidden_is_not_begun() {
        let folder = tempfile::TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
        let settings = Settings { directory: folder.path().into(), prefix: "weir".into(), limits: Limits::default() };
        // Root may everything: of files this thread is somebody else.
        let begin = move || {
            setfsuid(Uid::from_raw(65_534));
            let is_judged = may_fill(&settings.directory).is_err();
            is_judged.then(|| Writer::new(&settings, Arc::default()).err().map(|error| error.kind()))
        };
        match thread::spawn(begin).join().unwrap() {
            Some(refused) => assert_eq!(refused, Some(io::ErrorKind::PermissionDenied)),
            None => weir_testbed::skip("somebody who may not do everything"),
        }
    }
}
