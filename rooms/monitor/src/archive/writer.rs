//! The thread that writes: files cut by size and time, gaps where the disk did not take what came.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mcap::McapResult;
use nix::sys::statvfs::statvfs;
use weir_service::pulse::Pulse;
use weir_units::format;
use weir_wire::signal::Block;

use super::file::{ArchiveFile, io_error};
use super::head::Head;
use super::lost::Lost;
use super::recorder::{Batch, Entry};
use super::state::{State, Tally};
use super::{Limits, Settings};
use crate::needed::may_fill;

pub(super) struct Writer {
    directory: PathBuf,
    prefix: String,
    limits: Limits,
    file: Option<Open>,
    channels: HashMap<(u64, u16), Arc<Head>>,
    lost: Lost,
    /// Sessions of which there may be gaps to be written, and nothing else.
    ended: Vec<u64>,
    /// When it is tried again to write.
    retry: Option<Instant>,
    state: Arc<State>,
    /// The last gaps are being written: they are few, and what is left to others is held back for them too.
    is_ending: bool,
    /// Where files are synchronized with the disk, beside.
    syncs: Option<SyncSender<Arc<File>>>,
}

struct Open {
    file: ArchiveFile,
    begun: Instant,
    /// When its chunk ends, full or not.
    due: Instant,
    /// What is in the chunk: gone if the disk does not take it.
    chunk: Lost,
    tally: Tally,
}

impl Writer {
    pub(super) fn new(settings: &Settings, state: Arc<State>) -> io::Result<Self> {
        let about = fs::metadata(&settings.directory)?;
        if !about.is_dir() {
            return Err(io::Error::other("no directory"));
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
        Ok(Self {
            directory: settings.directory.clone(),
            prefix: settings.prefix.clone(),
            limits: settings.limits,
            file: None,
            channels: HashMap::new(),
            lost: Lost::default(),
            ended: Vec::new(),
            retry: None,
            state,
            is_ending: false,
            syncs: Some(syncs),
        })
    }

    /// Until nobody sends batches any more.
    pub(super) fn run(mut self, batches: &Receiver<Box<Batch>>, empty: &SyncSender<Box<Batch>>, pulse: &Pulse) {
        loop {
            pulse.wait();
            let left = self.due().saturating_duration_since(Instant::now());
            let batch = batches.recv_timeout(left);
            pulse.work();
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
        }
        self.end();
    }

    fn due(&self) -> Instant {
        let open = self.file.as_ref().map(|open| open.due);
        [open, self.retry].into_iter().flatten().min().unwrap_or_else(|| Instant::now() + CHUNK_TIME)
    }

    fn write(&mut self, batch: &Batch) {
        for entry in &batch.entries {
            match entry {
                Entry::Channel(head) => self.channel(head),
                Entry::Block(kept) => {
                    let block = batch.block(kept);
                    self.block(kept.key, &block, kept.is_settling);
                    if self.file.as_ref().is_some_and(|open| open.file.filled() >= CHUNK_BYTES) {
                        self.end_chunk();
                    }
                }
                Entry::Ended(session) => {
                    self.ended.push(*session);
                    self.settle_all();
                }
            }
        }
    }

    fn channel(&mut self, head: &Arc<Head>) {
        if self.channels.len() >= Limits::CHANNELS && !self.channels.contains_key(&(head.session, head.channel.id)) {
            self.state.refuse_channel();
            return;
        }
        self.channels.insert((head.session, head.channel.id), head.clone());
        self.attempt(|open| open.file.channel(head).map(drop));
    }

    /// `is_settling`: it is a gap for what has been counted as lost.
    fn block(&mut self, key: (u64, u16), block: &Block<'_>, is_settling: bool) {
        let Some(head) = self.channels.get(&key).cloned() else {
            if !is_settling {
                self.state.refuse_block(block);
            }
            return;
        };
        self.open();
        self.settle(key);
        let scaling = (head.channel.scale, head.channel.offset);
        let written = self.attempt(|open| {
            if !open.file.knows(key) {
                open.file.channel(&head)?;
            }
            open.file.block(key, block, scaling)
        });
        match &mut self.file {
            Some(open) if written => {
                open.chunk.add(key, block);
                if !is_settling {
                    open.tally.add(block);
                }
            }
            _ => {
                let samples = self.lost.add(key, block);
                self.state.missed(if is_settling { 0 } else { samples });
            }
        }
    }

    /// Writes the gap that is due of a channel, if any can be.
    fn settle(&mut self, key: (u64, u16)) {
        if self.file.is_none() {
            return;
        }
        let (Some(gap), Some(head)) = (self.lost.take(key), self.channels.get(&key).cloned()) else { return };
        let written = self.attempt(|open| {
            if !open.file.knows(key) {
                open.file.channel(&head)?;
            }
            open.file.block(key, &gap, (1.0, 0.0))
        });
        match &mut self.file {
            // It has been counted where it was lost.
            Some(open) if written => {
                open.chunk.add(key, &gap);
            }
            _ => {
                self.lost.add(key, &gap);
            }
        }
    }

    /// Does something with the file, if one is open; what fails ends the file. Nothing reaches the disk before the chunk ends.
    fn attempt(&mut self, act: impl FnOnce(&mut Open) -> McapResult<()>) -> bool {
        let Some(open) = &mut self.file else { return false };
        match act(open) {
            Ok(()) => true,
            Err(error) => {
                self.fail(&io_error(error));
                false
            }
        }
    }

    fn look(&mut self) {
        let now = Instant::now();
        if let Some(open) = &self.file
            && now >= open.due
        {
            let over = now.duration_since(open.begun) >= self.limits.cut_after;
            self.end_chunk();
            if over {
                self.finish();
            }
        }
        if self.retry.is_some_and(|retry| now >= retry) {
            self.retry = None;
            self.open();
            self.settle_all();
        }
    }

    fn settle_all(&mut self) {
        if self.file.is_none() && !self.lost.is_empty() {
            return;
        }
        let due: Vec<_> = self.lost.keys().collect();
        due.into_iter().for_each(|key| self.settle(key));
        if self.lost.is_empty() {
            let ended = std::mem::take(&mut self.ended);
            self.channels.retain(|(session, _), _| !ended.contains(session));
        }
    }

    fn end_chunk(&mut self) {
        let Some(open) = &mut self.file else { return };
        let before = open.file.written();
        open.due = Instant::now() + CHUNK_TIME;
        if let Err(error) = open.file.end_chunk() {
            self.fail(&io_error(error));
            return;
        }
        let written = open.file.written();
        open.chunk = Lost::default();
        self.state.kept(std::mem::take(&mut open.tally), written - before);
        if let Some(syncs) = &self.syncs {
            // One that is at work has the next to do likewise.
            let _ = syncs.try_send(open.file.handle());
        }
        if written >= self.limits.cut_bytes {
            self.finish();
        } else if let Some(told) = self.is_low() {
            self.finish();
            self.pause(&told, ROOM);
        }
    }

    /// Opens the next file, where none is.
    fn open(&mut self) {
        if self.file.is_some() || self.retry.is_some() {
            return;
        }
        if let Some(told) = self.is_low() {
            self.pause(&told, ROOM);
            return;
        }
        match self.create() {
            Ok(file) => {
                let now = Instant::now();
                tracing::info!("archive: writing {}", file.path.display());
                self.state.opened();
                self.state.kept(Tally::default(), file.written());
                self.state.trouble(None);
                let (chunk, tally) = (Lost::default(), Tally::default());
                self.file = Some(Open { file, begun: now, due: now + CHUNK_TIME, chunk, tally });
            }
            Err(error) => self.pause(&format!("{}: {error}", self.directory.display()), until(&error)),
        }
    }

    fn create(&self) -> io::Result<ArchiveFile> {
        let time: String = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let time = time.replace(['-', ':'], "");
        for number in 0..MOST_OF_A_SECOND {
            // Names sort as files follow one another.
            let path = self.directory.join(format!("{}-{time}-{number:03}.mcap", self.prefix));
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
        let free = free(&self.directory)?;
        let least = self.limits.leave;
        (free < least).then(|| {
            let (free, least) = (format::bytes(free as f64), format::bytes(least as f64));
            format!("{}: {free} free, {least} are left to others", self.directory.display())
        })
    }

    /// The file cannot be written to: it ends behind its last whole chunk. What was in the chunk is lost, and becomes a gap.
    fn fail(&mut self, error: &io::Error) {
        let Some(open) = self.file.take() else { return };
        let path = open.file.path.clone();
        let Open { file, mut chunk, tally, .. } = open;
        for (key, gap) in chunk.drain() {
            self.lost.add(key, &gap);
        }
        self.state.missed(tally.samples + tally.missing);
        if let Err(error) = file.break_off() {
            tracing::warn!("archive: end {}: {error} (it can be read all the same)", path.display());
        }
        self.pause(&format!("{}: {error}", path.display()), until(error));
    }

    /// `until`: what it waits for.
    fn pause(&mut self, why: &str, until: &str) {
        self.retry = Some(Instant::now() + RETRIES_APART);
        if self.state.trouble(Some(why.to_owned())) {
            tracing::warn!("archive: {why}: nothing is kept until {until} (gaps of cause server tell what is missing)");
        }
    }

    fn finish(&mut self) {
        let Some(open) = self.file.take() else { return };
        let (path, before) = (open.file.path.clone(), open.file.written());
        match open.file.finish() {
            Ok(bytes) => self.state.kept(Tally::default(), bytes - before),
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
            if !self.lost.is_empty() {
                self.open();
                self.settle_all();
            }
            self.end_chunk();
            self.finish();
        }
        self.syncs = None;
        let untold = self.lost.samples();
        self.state.left_untold(untold);
        if untold > 0 {
            tracing::warn!(
                "archive: {}: no room for the last gaps: {untold} samples are in no file, not even as missing",
                self.directory.display()
            );
        }
    }
}

/// Bytes that we may still write in a directory.
fn free(directory: &Path) -> Option<u64> {
    let about = statvfs(directory).ok()?;
    Some(about.blocks_available() as u64 * about.fragment_size() as u64)
}

/// What has to be so before it can be written again.
fn until(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "it is permitted again: see to the owner and the mode of the directory",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ROOM,
        _ => "that is mended",
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
        assert_eq!(of(nix::errno::Errno::EIO), "that is mended");
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
