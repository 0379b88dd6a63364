//! Bytes of standard input, or those that are appended to a file.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_program::clock::Nanos;

use super::points::Points;
use super::{Next, Source};
use crate::station::board::Board;
use crate::station::ledger::SourceCount;
use crate::station::readers::Format;
use crate::station::settings::{Feed, Source as Settings, Time};

/// Frames, from a place that has them by and by.
#[derive(Debug)]
pub(super) struct Stream {
    /// Standard input; or the file that is followed, with those before it that had its name a moment ago.
    files: Vec<Part>,
    /// Of a file that is followed; `None`: of standard input.
    path: Option<PathBuf>,
    points: Points,
    /// Rows that are due.
    due: u64,
}

/// A file, and how far it was read.
#[derive(Debug)]
struct Part {
    file: File,
    format: Format,
    /// What was read and is not a whole frame yet, from `begin` on.
    text: Vec<u8>,
    begin: usize,
    /// When there was more in it last.
    grew: Nanos,
    over: bool,
}

impl Stream {
    pub(super) fn stdin(number: usize, settings: &Settings, feed: &Feed) -> Result<Self> {
        let file = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        Ok(Self::new(number, settings, feed, Part::new(file.into(), feed.format.clone(), 0), None))
    }

    pub(super) fn tail(number: usize, settings: &Settings, path: &Path, feed: &Feed) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("follow {}", path.display()))?;
        let mut part = Part::new(file, feed.format.clone(), 0);
        if let Format::Csv(csv) = &part.format
            && !csv.is_named()
        {
            // The names are in the first line that is no comment, wherever it is followed from.
            part.fill()?;
            let mut lines = part.text.split_inclusive(|&byte| byte == b'\n');
            while let Format::Csv(csv) = &part.format
                && !csv.is_named()
                && let Some(line) = lines.next()
            {
                let _ = part.format.read(line, &mut |_, _, _| {});
            }
            part.text.clear();
        }
        part.file.seek(SeekFrom::End(0))?;
        Ok(Self::new(number, settings, feed, part, Some(path.to_owned())))
    }

    fn new(number: usize, settings: &Settings, feed: &Feed, part: Part, path: Option<PathBuf>) -> Self {
        Self { files: vec![part], path, points: Points::new(number, settings, feed), due: 0 }
    }

    /// A file that was cut is read from its begin. Where another has its name, that is read as well, and the one before until it has not
    /// grown for a while: its writer may not have heard of the rotation yet.
    fn follow(&mut self, path: &Path, now: Nanos) -> Result<()> {
        let Some(last) = self.files.last_mut() else { return Ok(()) };
        if let Ok(named) = fs::metadata(path) {
            let open = last.file.metadata()?;
            if (named.dev(), named.ino()) == (open.dev(), open.ino()) {
                if open.len() < last.file.stream_position()? {
                    last.file.seek(SeekFrom::Start(0))?;
                    last.text.clear();
                    last.begin = 0;
                }
            } else if let Ok(file) = File::open(path) {
                let format = last.format.clone();
                self.files.push(Part::new(file, format, now));
            }
        }
        let last = self.files.len() - 1;
        let mut at = 0..;
        self.files.retain(|part| at.next() == Some(last) || now < part.grew + STILL_GROWS);
        Ok(())
    }
}

impl Part {
    fn new(file: File, format: Format, now: Nanos) -> Self {
        Self { file, format, text: Vec::new(), begin: 0, grew: now, over: false }
    }

    /// Reads a piece; returns its length.
    fn fill(&mut self) -> Result<usize> {
        self.text.drain(..self.begin);
        self.begin = 0;
        let before = self.text.len();
        self.text.resize(before + PIECE, 0);
        let read = self.file.read(&mut self.text[before..]);
        self.text.truncate(before + read.as_ref().map_or(0, |&length| length));
        match read {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            Ok(0) => {
                self.over = true;
                Ok(0)
            }
            read => read.context("read"),
        }
    }
}

impl Source for Stream {
    fn take(&mut self, board: &mut Board) -> Result<Next> {
        let now = board.now.elapsed;
        let Self { files, path, points, due } = self;
        let is_stdin = path.is_none();
        let paced = (points.time == Time::Rows).then(|| points.due(now));
        *due = paced.map_or(u64::MAX, |(rows, _)| *due + rows);
        let (mut states, mut is_done) = (None, false);
        for part in files {
            for _ in 0..PIECES {
                is_done = is_stdin && part.over;
                part.begin += points.read(&mut part.format, &part.text[part.begin..], is_done, due, board);
                // Standard input is shared with others, who may want to wait for it: the station, with all its sources, does not.
                if *due == 0 || is_done || is_stdin && !is_readable(&part.file) {
                    break;
                }
                if part.text.len() - part.begin > LONGEST {
                    points.count.unreadable += 1;
                    part.begin = part.text.len();
                }
                match part.fill()? {
                    0 if is_stdin && part.over => {}
                    0 => break,
                    _ => part.grew = now,
                }
            }
            states = points.show_states(&mut part.format, board).or(states);
        }
        if is_done && *due > 0 && states.is_none() {
            return Ok(Next::Over);
        }
        // Rows that are not there yet are not due later.
        *due = 0;
        let mut next = states;
        if let Some(path) = path.clone() {
            self.follow(&path, now)?;
            next = Some(now + TAIL_LOOKS_APART);
        }
        Ok(paced.map(|(_, next)| next).or(next).map_or(Next::Readable, Next::At))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Of rows that are paced, more is there than is wanted.
        let is_wanted = self.path.is_none() && self.points.time != Time::Rows;
        self.files.first().filter(|part| is_wanted && !part.over).map(|part| part.file.as_fd())
    }

    fn count(&self) -> SourceCount {
        self.points.count.clone()
    }
}

/// Whether reading does not wait; at the end of all, too.
fn is_readable(file: &File) -> bool {
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// What a pipe holds.
const PIECE: usize = 1 << 16;

/// Then it is the turn of others.
const PIECES: usize = 4;

/// Of a line: what is longer is none.
const LONGEST: usize = 1 << 20;

/// Whoever appends to a file need not be woken for.
const TAIL_LOOKS_APART: Nanos = 10_000_000;

/// How long a file that has lost its name may stand still, and is read on.
const STILL_GROWS: Nanos = 5_000_000_000;
