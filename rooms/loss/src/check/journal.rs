//! The journal of changes: what was, written and synced to disk before it is changed, so that it can be put back whatever
//! happens in between.
//!
//! A file of JSON lines, only ever appended to. `intent` comes before a change, `made` behind it; `closed` says that the
//! change is no more, or no longer ours to take back. A line that was cut off was followed by nothing: it is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::setting::Setting;

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// About to be changed.
    Intent(Intent),
    /// Changed: what the kernel made of it.
    Made {
        /// Of which intent.
        number: u64,
        /// The value read back.
        now: String,
    },
    /// Settled.
    Closed {
        /// Which intent.
        number: u64,
        /// How.
        how: Closed,
    },
}

/// What is about to be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Counts from 1 within the file.
    pub number: u64,
    /// When, RFC 3339.
    pub at: String,
    /// The kernel's boot id: what was set in an earlier boot is gone.
    pub boot: String,
    /// The network namespace; `None`: that of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<Namespace>,
    /// What.
    pub setting: Setting,
    /// The value that was.
    pub old: String,
    /// The value to be written.
    pub new: String,
}

/// A network namespace, to be found again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name, path, or a process in it.
    pub name: String,
    /// Its inode, by which a process of the same number in another namespace is told.
    pub inode: u64,
}

/// How a change was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closed {
    /// It did not help and was taken back at once.
    RolledBack,
    /// It was taken back on demand.
    Undone,
    /// The old value was in force already: the change was never made, or somebody took it back.
    WasOld,
    /// Somebody else has changed it since: left as it is.
    Left,
    /// The socket, interface or namespace is no more.
    Gone,
    /// The machine has booted since.
    Rebooted,
}

/// A change that is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// What was intended.
    pub intent: Intent,
    /// What the kernel made of it; `None`: the program ended before it could tell.
    pub made: Option<String>,
}

/// An open journal, locked against others.
pub struct Journal<F: Storage = Flock<File>> {
    file: F,
    path: PathBuf,
    open: Vec<Open>,
    next: u64,
}

/// Where lines are kept.
pub trait Storage {
    /// Appends a line, and returns when it is on disk.
    ///
    /// # Errors
    /// If that cannot be done.
    fn append(&mut self, line: &str) -> Result<()>;
}

impl Storage for Flock<File> {
    fn append(&mut self, line: &str) -> Result<()> {
        self.write_all(line.as_bytes())?;
        self.sync_data()?;
        Ok(())
    }
}

impl Journal {
    /// Opens the journal, makes it if there is none, and locks it.
    ///
    /// # Errors
    /// If it cannot be opened or another process has it locked.
    pub fn open(path: &Path) -> Result<Journal> {
        let describe = || format!("open the journal {}", path.display());
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::create_dir_all(directory).with_context(describe)?;
        }
        let new = !path.exists();
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).with_context(describe)?;
        if !file.metadata().with_context(describe)?.is_file() {
            bail!("{}: not a file that keeps what is written (--journal FILE)", path.display());
        }
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((_, Errno::EAGAIN)) => {
                bail!("{}: another `weir loss check` is at work with it: wait until it has ended", path.display())
            }
            Err((_, errno)) => return Err(errno).with_context(describe),
        };
        if new {
            // The name must be on disk, too.
            let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new("."))).and_then(|file| file.sync_all()).with_context(describe)?;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(describe)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            // Cut off while it was written: what it was about was never done.
            file.set_len(whole as u64).and_then(|()| file.sync_all()).with_context(describe)?;
        }
        Self::replay(file, path, &String::from_utf8_lossy(&text[..whole]))
    }

    /// Forgets everything, where everything is settled.
    ///
    /// # Errors
    /// If the file cannot be cut.
    pub fn clear_if_settled(&mut self) -> Result<()> {
        if !self.open.is_empty() {
            return Ok(());
        }
        let path = &self.path;
        let describe = || format!("empty the journal {}", path.display());
        self.file.set_len(0).and_then(|()| self.file.sync_all()).with_context(describe)?;
        self.file.seek(SeekFrom::Start(0)).with_context(describe)?;
        Ok(())
    }
}

impl<F: Storage> Journal<F> {
    /// A journal with these lines.
    ///
    /// # Errors
    /// If a line cannot be read: nobody can know then what was changed.
    pub fn replay(file: F, path: &Path, text: &str) -> Result<Journal<F>> {
        let mut journal = Journal { file, path: path.to_owned(), open: Vec::new(), next: 1 };
        for (index, line) in text.lines().enumerate() {
            let record = serde_json::from_str(line).with_context(|| {
                format!(
                    "the journal {} cannot be read, line {}: put back what it names by hand, then remove it",
                    path.display(),
                    index + 1
                )
            })?;
            journal.note(record);
        }
        Ok(journal)
    }

    /// Changes that are not settled, the first first.
    pub fn open_changes(&self) -> &[Open] {
        &self.open
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records what is about to be changed, and returns its number. When this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be written: then nothing may be changed.
    pub fn intend(&mut self, intent: Intent) -> Result<u64> {
        let number = self.next;
        self.append(Record::Intent(Intent { number, ..intent }))?;
        Ok(number)
    }

    /// Records what the kernel made of it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn made(&mut self, number: u64, now: &str) -> Result<()> {
        self.append(Record::Made { number, now: now.to_owned() })
    }

    /// Records that a change is settled.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn close(&mut self, number: u64, how: Closed) -> Result<()> {
        self.append(Record::Closed { number, how })
    }

    fn append(&mut self, record: Record) -> Result<()> {
        let line = serde_json::to_string(&record)? + "\n";
        self.file.append(&line).with_context(|| format!("write the journal {}", self.path.display()))?;
        self.note(record);
        Ok(())
    }

    fn note(&mut self, record: Record) {
        match record {
            Record::Intent(intent) => {
                self.next = self.next.max(intent.number.saturating_add(1));
                self.open.push(Open { intent, made: None });
            }
            Record::Made { number, now } => {
                if let Some(open) = self.open.iter_mut().find(|open| open.intent.number == number) {
                    open.made = Some(now);
                }
            }
            Record::Closed { number, .. } => self.open.retain(|open| open.intent.number != number),
        }
    }
}

/// This boot's id.
pub fn boot() -> String {
    weir_kernel::host::boot_id().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent() -> Intent {
        Intent {
            number: 0,
            at: "2026-01-01T00:00:00Z".into(),
            boot: "b".into(),
            netns: None,
            setting: Setting::sysctl("net/core/rmem_max"),
            old: "1".into(),
            new: "2".into(),
        }
    }

    #[test]
    fn what_is_not_settled_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/journal");
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!((journal.intend(intent()).unwrap(), journal.intend(intent()).unwrap()), (1, 2));
        journal.made(1, "2").unwrap();
        let refused = Journal::open(&path).err().unwrap().to_string();
        assert!(refused.contains("another `weir loss check` is at work"), "{refused}");
        drop(journal);

        let mut journal = Journal::open(&path).unwrap();
        let made: Vec<_> = journal.open_changes().iter().map(|open| (open.intent.number, open.made.clone())).collect();
        assert_eq!(made, [(1, Some("2".into())), (2, None)]);
        journal.close(2, Closed::WasOld).unwrap();
        journal.clear_if_settled().unwrap();
        assert_eq!(journal.intend(intent()).unwrap(), 3);
        journal.close(1, Closed::Undone).unwrap();
        journal.close(3, Closed::Undone).unwrap();
        journal.clear_if_settled().unwrap();
        drop(journal);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_line_cut_off_anywhere_was_never_acted_upon() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::open(&path).unwrap();
        journal.intend(intent()).unwrap();
        let whole = fs::metadata(&path).unwrap().len();
        journal.intend(intent()).unwrap();
        drop(journal);
        let text = fs::read(&path).unwrap();
        for cut in usize::try_from(whole).unwrap()..text.len() {
            fs::write(&path, &text[..cut]).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            assert_eq!(journal.open_changes().len(), 1, "{cut}");
            // And what comes next begins on a line of its own.
            journal.close(1, Closed::Undone).unwrap();
            drop(journal);
            assert!(Journal::open(&path).unwrap().open_changes().is_empty());
        }
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_not_guessed_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        fs::write(&path, "{}\n").unwrap();
        let refused = Journal::open(&path).err().unwrap().to_string();
        assert!(refused.contains("line 1: put back what it names by hand"), "{refused}");
    }
}
