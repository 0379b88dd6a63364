//! The journal of changes: what was, written and synced to disk before it is changed, so that it can be put back whatever
//! happens in between.
//!
//! A file of JSON lines, only ever appended to. The first says what it is ([`file`]). `intent` comes before a change, `made` behind it; `closed` says that the
//! change is no more, or no longer ours to take back. A line that was cut off was followed by nothing: it is dropped.

mod file;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::fcntl::Flock;
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
    /// The network namespace in which it is written.
    pub netns: Namespace,
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
    /// Its name, path, or a process in it; empty: it has none.
    pub name: String,
    /// Its inode number, which another may have once it is gone.
    pub inode: u64,
    /// Its cookie, which no other has until the machine boots; `None` before Linux 5.14.
    pub cookie: Option<u64>,
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { write!(f, "{}", self.inode) } else { f.write_str(&self.name) }
    }
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

impl Journal {
    /// Opens the journal, makes it if there is none, and locks it. Nothing is changed in a file that is no journal, or not
    /// understood.
    ///
    /// # Errors
    /// If it cannot be opened, another process has it locked, it is something else or somebody else's, or others can write
    /// where it is.
    pub fn open(path: &Path) -> Result<Journal> {
        let (file, text) = file::open(path)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut journal = Self::replay(file, path, &text[..whole])?;
        if whole < text.len() {
            // Cut off while it was written: what it was about was never done.
            file::cut(&mut journal.file, whole).with_context(|| format!("open the journal {}", path.display()))?;
        }
        Ok(journal)
    }

    /// Forgets everything, where everything is settled.
    ///
    /// # Errors
    /// If the file cannot be cut.
    pub fn clear_if_settled(&mut self) -> Result<()> {
        if !self.open.is_empty() {
            return Ok(());
        }
        file::cut(&mut self.file, 0).with_context(|| format!("empty the journal {}", self.path.display()))
    }
}

impl<F: Storage> Journal<F> {
    /// A journal with these lines, those behind the first of its file.
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
                    index + 2
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
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn intent() -> Intent {
        Intent {
            number: 0,
            at: "2026-01-01T00:00:00Z".into(),
            boot: "b".into(),
            netns: Namespace { name: String::new(), inode: 1, cookie: None },
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
        assert_eq!(fs::read(&path).unwrap(), file::MAGIC.as_bytes());
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
        for cut in 0..=file::MAGIC.len() {
            fs::write(&path, &text[..cut]).unwrap();
            assert!(Journal::open(&path).unwrap().open_changes().is_empty(), "{cut}");
            assert_eq!(fs::read(&path).unwrap(), file::MAGIC.as_bytes());
        }
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
        fs::write(&path, format!("{}{{}}\n", file::MAGIC)).unwrap();
        let refused = Journal::open(&path).err().unwrap().to_string();
        assert!(refused.contains("line 2: put back what it names by hand"), "{refused}");
    }
    /// Whatever it is, it is the same afterwards.
    #[test]
    fn what_is_no_journal_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let refused = |path: &Path| Journal::open(path).err().unwrap().to_string();
        let broken = format!("{}{{}}\n{{\"cut", file::MAGIC);
        for text in [
            "no newline at its end",
            "root:x:0:0\n",
            "\n",
            "{\"journal\":\"weir loss check\",\"version\":1}\n",
            &broken,
        ] {
            fs::write(&path, text).unwrap();
            let words = refused(&path);
            assert!(!words.contains('\n') && words.contains(path.to_str().unwrap()), "{words}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(refused(&path).contains("no journal of `weir loss check`"));

        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        let words = format!("{:#}", Journal::open(&link).err().unwrap());
        assert!(words.contains("a link, which is not followed"), "{words}");
        symlink(dir.path().join("nowhere"), dir.path().join("dangling")).unwrap();
        assert!(Journal::open(&dir.path().join("dangling")).is_err() && !dir.path().join("nowhere").exists());
        assert_eq!(fs::read(&path).unwrap(), b"\xff\xfe");
    }

    #[test]
    fn what_others_can_write_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        drop(Journal::open(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let refused = || Journal::open(&path).err().unwrap().to_string();
        fs::set_permissions(&path, Permissions::from_mode(0o602)).unwrap();
        assert!(refused().contains("others may write it"), "{}", refused());
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        assert!(refused().contains("hard links"), "{}", refused());
        fs::remove_file(dir.path().join("other")).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(refused().contains("others may write in this folder"), "{}", refused());
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(Journal::open(&path).is_ok());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
            assert!(refused().contains("belongs to user 1234"), "{}", refused());
        }
    }
}
