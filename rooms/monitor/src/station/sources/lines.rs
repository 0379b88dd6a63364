//! Lines of standard input, or those that are appended to a file.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::clocked::Clocked;
use super::points::Points;
use super::{Next, Source};
use crate::station::board::Board;
use crate::station::ledger::SourceCount;
use crate::station::readers::{Csv, Unreadable, influx, json};
use crate::station::settings::{Format, Lines, Source as Settings};

/// Lines, from a place that has them by and by.
#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    /// Of a file that is followed; `None`: of standard input.
    path: Option<PathBuf>,
    points: Points,
    reader: Reader,
    /// What was read and is not a whole line yet, from `begin` on.
    text: Vec<u8>,
    begin: usize,
    over: bool,
    /// Of rows that are paced.
    paced: Option<(Settings, Option<Clocked>)>,
    /// Rows that are due.
    due: u64,
}

/// Lines in their format.
#[derive(Debug)]
struct Reader {
    format: Format,
    rows: bool,
    csv: Csv,
    name: String,
}

impl Stream {
    pub(super) fn stdin(number: usize, settings: &Settings, lines: &Lines) -> Result<Self> {
        let file = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        Ok(Self::new(number, settings, lines, file.into(), None))
    }

    pub(super) fn tail(number: usize, settings: &Settings, path: &Path, lines: &Lines) -> Result<Self> {
        let mut file = File::open(path).with_context(|| format!("follow {}", path.display()))?;
        let mut stream = Self::new(number, settings, lines, File::open(path)?, Some(path.to_owned()));
        if lines.format == Format::Csv {
            // The names are in the first line, wherever it is followed from.
            let mut begin = vec![0; LONGEST];
            let length = file.read(&mut begin)?;
            let line = begin[..length].split(|&byte| byte == b'\n').next().unwrap_or_default();
            let _ = stream.reader.csv.line(&String::from_utf8_lossy(line), |_, _, _| {});
        }
        stream.file.seek(SeekFrom::End(0))?;
        Ok(stream)
    }

    fn new(number: usize, settings: &Settings, lines: &Lines, file: File, path: Option<PathBuf>) -> Self {
        let reader = Reader { format: lines.format, rows: lines.rows, csv: Csv::default(), name: String::new() };
        Self {
            file,
            path,
            points: Points::new(number, settings),
            reader,
            text: Vec::new(),
            begin: 0,
            over: false,
            paced: lines.rows.then(|| (settings.clone(), None)),
            due: 0,
        }
    }

    /// The next whole line; `None`: there is none yet. A last line needs no end.
    fn line(&mut self) -> Option<String> {
        let rest = &self.text[self.begin..];
        let length = match rest.iter().position(|&byte| byte == b'\n') {
            Some(end) => end + 1,
            None if self.over && !rest.is_empty() => rest.len(),
            None => return None,
        };
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.begin += length;
        Some(line)
    }

    /// Reads a piece; `false`: there is nothing more now.
    fn fill(&mut self) -> Result<bool> {
        // Standard input is shared with others, who may want to wait for it: the station, with all its sources, does not.
        if self.path.is_none() && !is_readable(&self.file) {
            return Ok(false);
        }
        self.text.drain(..self.begin);
        self.begin = 0;
        if self.text.len() > LONGEST {
            self.points.count.unreadable += 1;
            self.text.clear();
        }
        let before = self.text.len();
        self.text.resize(before + PIECE, 0);
        let read = self.file.read(&mut self.text[before..]);
        self.text.truncate(before + read.as_ref().map_or(0, |&length| length));
        match read {
            Ok(0) if self.path.is_none() => self.over = true,
            Ok(0) => return self.follow(),
            Ok(_) => return Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("read"),
        }
        Ok(false)
    }

    /// At the end of a file: it may have been cut, or another has its name.
    fn follow(&mut self) -> Result<bool> {
        let Some(path) = &self.path else { return Ok(false) };
        let Ok(named) = fs::metadata(path) else { return Ok(false) };
        let open = self.file.metadata()?;
        if named.ino() != open.ino() || named.dev() != open.dev() {
            let Ok(file) = File::open(path) else { return Ok(false) };
            self.file = file;
        } else if open.len() < self.file.stream_position()? {
            self.file.seek(SeekFrom::Start(0))?;
        } else {
            return Ok(false);
        }
        self.text.clear();
        self.begin = 0;
        Ok(true)
    }
}

impl Source for Stream {
    fn take(&mut self, board: &mut Board) -> Result<Next> {
        let now = board.now.elapsed;
        let mut next = None;
        if let Some((settings, clocked)) = &mut self.paced {
            let clocked = clocked.get_or_insert_with(|| Clocked::new(settings.rate, now));
            self.due += clocked.take(now).samples;
            next = Some(Next::At(clocked.due()));
        }
        for _ in 0..PIECES {
            while self.paced.is_none() || self.due > 0 {
                let Some(line) = self.line() else { break };
                self.due = self.due.saturating_sub(1);
                if self.reader.line(&line, &mut self.points, board).is_err() {
                    self.points.count.unreadable += 1;
                }
            }
            if self.paced.is_some() && self.due == 0 {
                return Ok(next.unwrap_or(Next::Readable));
            }
            if self.over {
                return Ok(Next::Over);
            }
            if !self.fill()? && !self.over {
                // Rows that are not there yet are not due later.
                self.due = 0;
                break;
            }
        }
        Ok(match self.path {
            Some(_) => Next::At(now + TAIL_LOOKS_APART),
            None => next.unwrap_or(Next::Readable),
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Of rows that are paced, more is there than is wanted.
        (self.path.is_none() && self.paced.is_none() && !self.over).then(|| self.file.as_fd())
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

impl Reader {
    fn line(&mut self, line: &str, points: &mut Points, board: &mut Board) -> Result<(), Unreadable> {
        let (rows, before) = (self.rows, points.count.points);
        let look = |name: &str, time: Option<i64>, value: f64| {
            if rows { points.append(board, name, value) } else { points.place(board, name, time, value) }
        };
        let read = match self.format {
            Format::Csv => self.csv.line(line, look),
            Format::Influx => influx(line, &mut self.name, look),
            Format::Json | Format::Statsd if line.trim().is_empty() => Ok(()),
            Format::Json | Format::Statsd => json(line, &mut self.name, look),
        };
        if rows && points.count.points > before {
            points.end_row(board);
        }
        read
    }
}

const PIECE: usize = 1 << 16;

/// Then it is the turn of others.
const PIECES: usize = 4;

/// Of a line: what is longer is none.
const LONGEST: usize = 1 << 20;

/// Whoever appends to a file need not be woken for.
const TAIL_LOOKS_APART: u64 = 10_000_000;
