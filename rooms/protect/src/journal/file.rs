//! The file: lines are added, on the disk before anybody is told, and it is put aside when it is full.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::AT_FDCWD;
use nix::fcntl::AtFlags;
use nix::libc;
use nix::unistd::{AccessFlags, faccessat};
use weir_program::escape::write_json;
use weir_program::files::{ours, to_be_ours};

use super::Entry;

/// A journal that is written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    most: u64,
    /// `None`: the next try opens it again.
    file: Option<File>,
    size: u64,
    /// Which file was opened last: its device and number.
    opened: Option<(u64, u64)>,
}

/// What was in a journal.
#[derive(Debug, Default)]
pub struct Found {
    /// Its lines, the oldest first.
    pub entries: Vec<Entry>,
    /// Lines that nobody can read: their numbers, from 1, and why; the first few.
    pub unreadable: Vec<(usize, String)>,
    /// How many those are.
    pub count: usize,
}

impl Journal {
    /// At this path; nothing is opened yet. Past `most` bytes it is put aside, as the same name with `.1`.
    pub fn new(path: PathBuf, most: u64) -> Self {
        Self { path, most, file: None, size: 0, opened: None }
    }

    /// Whether the next line belongs into a new file: then [`Self::rotate`].
    pub fn is_full(&self) -> bool {
        self.size >= self.most
    }

    /// Whether somebody has put the file aside, or deleted it; told once. The next line goes into what is at the path then, and makes that
    /// where nothing is.
    pub fn is_moved(&mut self) -> bool {
        let Some(opened) = self.opened else { return false };
        let is_there = fs::symlink_metadata(&self.path).is_ok_and(|metadata| identity(&metadata) == opened);
        if !is_there {
            *self = Self::new(std::mem::take(&mut self.path), self.most);
        }
        !is_there
    }

    /// Adds lines, and waits until they are on the disk.
    ///
    /// # Errors
    /// The file cannot be opened, is none of ours, or the disk does not take it; the next call tries again.
    pub fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut lines = Vec::new();
        for entry in entries {
            write_json(&mut lines, entry).map_err(io::Error::other)?;
            lines.push(b'\n');
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = open(&self.path)?;
                let metadata = file.metadata()?;
                if is_torn(&file, metadata.len())? {
                    // What was cut off, by a full disk or a crash, stays a line of its own, that the next reader passes over.
                    lines.insert(0, b'\n');
                }
                (self.size, self.opened) = (metadata.len(), Some(identity(&metadata)));
                self.file.insert(file)
            }
        };
        let written = file.write_all(&lines).and_then(|()| file.sync_data());
        match written {
            Ok(()) => self.size += lines.len() as u64,
            Err(_) => self.file = None,
        }
        written
    }

    /// Puts the file aside and begins another with these lines: what must be known after a restart.
    ///
    /// # Errors
    /// As [`Self::append`]; the file of before stays, and grows on.
    pub fn rotate(&mut self, first: &[Entry]) -> io::Result<()> {
        let new = beside(&self.path, ".new");
        remove(&new)?;
        let mut begun = Self::new(new.clone(), self.most);
        begun.append(first)?;
        // Between the two there is no journal, and the one aside has all that was in it: see `read`.
        fs::rename(&self.path, beside(&self.path, ".1"))?;
        fs::rename(&new, &self.path)?;
        if let Some(directory) = directory(&self.path) {
            let _ = File::open(directory).and_then(|directory| directory.sync_all());
        }
        *self = Self { path: self.path.clone(), ..begun };
        Ok(())
    }
}

/// Reads a journal; one that is not there is empty.
///
/// # Errors
/// It is a symbolic link, none of ours, no journal in any of its lines, or cannot be read. Other lines that are none are no error.
pub fn read(path: &Path) -> io::Result<Found> {
    let file = look(path)?.map_or_else(|| look(&beside(path, ".1")), |file| Ok(Some(file)))?;
    let Some(file) = file else { return Ok(Found::default()) };
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
                if read.unreadable.len() < TOLD {
                    read.unreadable.push((number, error.to_string()));
                }
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
/// As [`read`].
pub fn learnt(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = look(&beside(path, ".learnt"))? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(MOST_LEARNT).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes what was learnt, whole or not at all.
pub(super) fn keep(path: &Path, learnt: &[u8]) -> io::Result<()> {
    let (kept, new) = (beside(path, ".learnt"), beside(path, ".learnt.new"));
    remove(&new)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(learnt)?;
    file.sync_data()?;
    fs::rename(&new, &kept)
}

/// Whether a journal may be written here, as far as that can be known without writing.
///
/// # Errors
/// The directory is not there or cannot be written to, or what is in the file's place is none of ours.
pub fn writable(path: &Path) -> io::Result<()> {
    if let Ok(metadata) = fs::symlink_metadata(path) {
        to_be_ours(&metadata)?;
    }
    let directory = directory(path).ok_or_else(|| io::Error::other("it names no file"))?;
    faccessat(AT_FDCWD, directory, AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS).map_err(|errno| {
        let error = io::Error::from(errno);
        io::Error::new(error.kind(), format!("directory {}: {error}", directory.display()))
    })
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

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Opens a file of ours; `None`: it is not there.
fn look(path: &Path) -> io::Result<Option<File>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Some(file) = if_there(OpenOptions::new().read(true).custom_flags(flags).open(path))? else { return Ok(None) };
    ours(&file.metadata()?)?;
    Ok(Some(file))
}

fn remove(path: &Path) -> io::Result<()> {
    if_there(fs::remove_file(path)).map(drop)
}

fn if_there<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

fn directory(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// How each line begins.
const BEGINNING: &[u8] = b"{\"time\":";

/// Bytes of what was learnt, at most.
const MOST_LEARNT: u64 = 256 << 20;

/// Bytes of a line, at most.
const LONGEST: u64 = 1 << 20;

/// Unreadable lines that are told one by one.
const TOLD: usize = 5;
