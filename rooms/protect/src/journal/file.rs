//! The file: lines are added, on the disk before anybody is told, and it is put aside when it is full.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use weir_program::escape::write_json;
use weir_program::files::{self, beside, ours, remove, sync_directory};

use super::Entry;

/// A journal that is written. It is opened for each batch of lines: whoever puts the file aside, or deletes it, needs to tell nobody.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    most: u64,
    /// Bytes that it has, as of what was written last.
    size: u64,
}

/// What was in a journal.
#[derive(Debug, Default)]
pub struct Found {
    /// Its lines, the oldest first.
    pub entries: Vec<Entry>,
    /// The first line that nobody can read: its number, from 1, and why.
    pub unreadable: Option<(usize, String)>,
    /// How many those are.
    pub count: usize,
}

impl Journal {
    /// At this path; nothing is opened yet. Past `most` bytes it is put aside, as the same name with `.1`.
    pub fn new(path: PathBuf, most: u64) -> Self {
        Self { path, most, size: 0 }
    }

    /// Whether the next line belongs into a new file: then [`Self::rotate`].
    pub fn is_full(&self) -> bool {
        self.size >= self.most
    }

    /// Whether somebody has put the file aside, or deleted it; told once. The next line goes into what is at the path then, and makes that
    /// where nothing is.
    pub fn is_moved(&mut self) -> bool {
        let is_moved = fs::symlink_metadata(&self.path).map_or(0, |metadata| metadata.len()) < self.size;
        if is_moved {
            self.size = 0;
        }
        is_moved
    }

    /// Adds lines, and waits until they are on the disk.
    ///
    /// # Errors
    /// The file cannot be opened, is none of ours, or the disk does not take it; the next call tries again.
    pub fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut file = open(&self.path)?;
        let size = file.metadata()?.len();
        if size == 0 {
            sync_directory(&self.path)?;
        }
        // What was cut off, by a full disk or a crash, stays a line of its own, that the next reader passes over.
        let mut lines = if is_torn(&file, size)? { vec![b'\n'] } else { Vec::new() };
        for entry in entries {
            write_json(&mut lines, entry).map_err(io::Error::other)?;
            lines.push(b'\n');
        }
        file.write_all(&lines).and_then(|()| file.sync_data())?;
        self.size = size + lines.len() as u64;
        Ok(())
    }

    /// Puts the file aside and begins another with these lines: what must be known after a restart.
    ///
    /// # Errors
    /// As [`Self::append`]; the file of before stays, and grows on.
    pub fn rotate(&mut self, first: &[Entry]) -> io::Result<()> {
        let (new, aside) = (beside(&self.path, ".new"), beside(&self.path, ".1"));
        remove(&new)?;
        let mut begun = Self::new(new.clone(), self.most);
        begun.append(first)?;
        // At any time there is a whole journal at the path: a restart that found none would know of no stop.
        remove(&aside)?;
        fs::hard_link(&self.path, &aside)?;
        fs::rename(&new, &self.path)?;
        self.size = begun.size;
        sync_directory(&self.path)
    }
}

/// Reads a journal; one that is not there is empty.
///
/// # Errors
/// It is a symbolic link, none of ours, no journal in any of its lines, or cannot be read. Other lines that are none are no error.
pub fn read(path: &Path) -> io::Result<Found> {
    let Some(file) = files::open(path)? else { return Ok(Found::default()) };
    let mut is_one = false;
    let (mut read, mut lines, mut line) = (Found::default(), BufReader::new(file), Vec::new());
    for number in 1.. {
        line.clear();
        if lines.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 == LONGEST && line.last() != Some(&b'\n') {
            lines.skip_until(b'\n')?;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(entry) => {
                is_one = true;
                read.entries.push(entry);
            }
            Err(error) => {
                is_one |= begins_as_line(&line);
                read.count += 1;
                read.unreadable.get_or_insert_with(|| (number, error.to_string()));
            }
        }
    }
    // A line may be torn, or of a later version; but one of them has to be one.
    if read.count > 0 && !is_one {
        return Err(io::Error::other(
            "it is no journal (no line of it is one): name another file, or put this one aside",
        ));
    }
    Ok(read)
}

/// Whether bytes may be the beginning of a line.
fn begins_as_line(line: &[u8]) -> bool {
    line.starts_with(BEGINNING) || BEGINNING.starts_with(line.trim_ascii_end())
}

/// What was learnt, in the file beside a journal whose name has `.learnt` after it; `None`: nothing yet.
///
/// # Errors
/// As [`files::read`].
pub fn learnt(path: &Path) -> io::Result<Option<Vec<u8>>> {
    files::read(&beside(path, LEARNT), MOST_LEARNT)
}

/// Writes what was learnt, whole or not at all.
pub(super) fn keep(path: &Path, learnt: &[u8]) -> io::Result<()> {
    files::replace(&beside(path, LEARNT), |file| file.write_all(learnt))
}

/// For this process alone to read: it tells of a network and its people.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).append(true).create(true).custom_flags(flags).mode(0o600).open(path)?;
    ours(&file.metadata()?)?;
    Ok(file)
}

/// Whether the last line is half a one.
fn is_torn(file: &File, size: u64) -> io::Result<bool> {
    let mut last = [b'\n'];
    if size > 0 {
        file.read_exact_at(&mut last, size - 1)?;
    }
    Ok(last != [b'\n'])
}

/// Where what was learnt is, beside the journal.
const LEARNT: &str = ".learnt";

/// How each line begins.
const BEGINNING: &[u8] = b"{\"time\":";

/// Bytes of what was learnt, at most.
const MOST_LEARNT: u64 = 256 << 20;

/// Bytes of a line, at most.
const LONGEST: u64 = 1 << 20;
