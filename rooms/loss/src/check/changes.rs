//! The changes that are in force: one file, written whole before a change and after it, so that it can be put back whatever
//! happens in between.

use std::fmt;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use weir_program::files;

use super::setting::Setting;

/// A change that was made, or was about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    /// What.
    pub setting: Setting,
    /// The network namespace in which it is written.
    pub netns: Namespace,
    /// The kernel's boot id: what was set in an earlier boot is gone.
    pub boot: String,
    /// The value that was.
    pub old: String,
    /// The value to be written.
    pub new: String,
    /// What the kernel made of it; null: the program ended before it could tell.
    pub read_back: Option<String>,
}

/// A network namespace, to be found again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Namespace {
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

/// Where the text of the file is kept.
pub(super) trait Storage {
    /// Returns when it is on disk, whole; on an error what was there before is there still.
    fn write(&mut self, text: &str) -> Result<()>;
}

/// All of them, the first first.
pub(super) struct Changes<S: Storage = Disk> {
    storage: S,
    path: PathBuf,
    made: Vec<Made>,
}

impl Changes {
    /// Reads the file, if there is one, and locks its folder until this is dropped.
    ///
    /// # Errors
    /// If another process has it locked, others can write it, or it is something else: then it is left as it is.
    pub(super) fn open(path: &Path) -> Result<Changes> {
        let disk = Disk::open(path)?;
        let text = disk.read().with_context(|| format!("read {}", path.display()))?;
        Changes::of(disk, path, text.as_deref())
    }
}

/// The changes in a text.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Vec<Made>> {
    serde_json::from_str(text).with_context(|| {
        let path = path.display();
        format!("{path}: no list of changes of `weir loss check`: it is left as it is (give another: --changes FILE)")
    })
}

impl<S: Storage> Changes<S> {
    /// Those of a text; `None`: there is none.
    pub(super) fn of(storage: S, path: &Path, text: Option<&str>) -> Result<Changes<S>> {
        let made = text.map(|text| parse(path, text)).transpose()?;
        Ok(Changes { storage, path: path.to_owned(), made: made.unwrap_or_default() })
    }

    pub(super) fn made(&self) -> &[Made] {
        &self.made
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a change that is about to be made.
    pub(super) fn add(&mut self, made: Made) -> Result<()> {
        self.edit(|all| all.push(made))
    }

    /// Notes of the last one what the kernel made of it.
    pub(super) fn read_back(&mut self, value: &str) -> Result<()> {
        self.edit(|all| {
            if let Some(last) = all.last_mut() {
                last.read_back = Some(value.to_owned());
            }
        })
    }

    /// Takes one out that is in force no longer, or not ours to put back.
    pub(super) fn remove(&mut self, made: &Made) -> Result<()> {
        self.edit(|all| all.retain(|one| one != made))
    }

    fn edit(&mut self, edit: impl FnOnce(&mut Vec<Made>)) -> Result<()> {
        let mut made = self.made.clone();
        edit(&mut made);
        let text = serde_json::to_string_pretty(&made)? + "\n";
        self.storage.write(&text).with_context(|| format!("write {}", self.path.display()))?;
        self.made = made;
        Ok(())
    }
}

/// A file in a folder that is locked: its name goes to another file each time.
pub(super) struct Disk {
    path: PathBuf,
    _folder: Flock<File>,
}

impl Disk {
    fn open(path: &Path) -> Result<Disk> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let describe = || format!("open {}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(describe)?;
        let open = File::open(folder).with_context(describe)?;
        ensure_ours(folder, &open)?;
        match Flock::lock(open, FlockArg::LockExclusiveNonblock) {
            Ok(folder) => Ok(Disk { path: path.to_owned(), _folder: folder }),
            Err((_, Errno::EAGAIN)) => {
                bail!("{}: another `weir loss check` is at work with it: wait until it has ended", path.display())
            }
            Err((_, errno)) => Err(errno).with_context(describe),
        }
    }

    fn read(&self) -> Result<Option<String>> {
        let Some(file) = files::open(&self.path)? else { return Ok(None) };
        ensure_ours(&self.path, &file)?;
        Ok(Some(io::read_to_string(file)?))
    }
}

impl Storage for Disk {
    fn write(&mut self, text: &str) -> Result<()> {
        Ok(files::replace(&self.path, |file| file.write_all(text.as_bytes()))?)
    }
}

/// What somebody else can write says nothing of what we have changed.
fn ensure_ours(path: &Path, file: &File) -> Result<()> {
    let about = file.metadata()?;
    let is_trusted = about.uid() == 0 || about.uid() == geteuid().as_raw();
    let others_write = about.mode() & 0o002 != 0 || (about.mode() & 0o020 != 0 && about.gid() != 0);
    let path = path.display();
    ensure!(is_trusted && !others_write, "{path}: others may write it: nothing in it can be trusted (--changes FILE)");
    Ok(())
}

/// This boot's id.
pub(super) fn boot() -> String {
    weir_kernel::host::boot_id().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn made(old: &str) -> Made {
        Made {
            setting: Setting::sysctl("net/core/rmem_max"),
            netns: Namespace { name: String::new(), inode: 1, cookie: None },
            boot: "b".into(),
            old: old.into(),
            new: "2".into(),
            read_back: None,
        }
    }

    #[test]
    fn what_is_in_force_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/changes.json");
        let mut changes = Changes::open(&path).unwrap();
        changes.add(made("0")).unwrap();
        changes.add(made("1")).unwrap();
        changes.read_back("2").unwrap();
        let refused = Changes::open(&path).err().unwrap().to_string();
        assert!(refused.contains("another `weir loss check` is at work"), "{refused}");
        drop(changes);

        let mut changes = Changes::open(&path).unwrap();
        assert_eq!(changes.made(), [made("0"), Made { read_back: Some("2".into()), ..made("1") }]);
        changes.remove(&made("0")).unwrap();
        assert_eq!((changes.made().len(), fs::metadata(&path).unwrap().mode() & 0o777), (1, 0o600));
        // Ended while it was written beside.
        fs::write(dir.path().join("state/changes.json.new"), "[{").unwrap();
        changes.remove(&changes.made()[0].clone()).unwrap();
        drop(changes);
        assert!(Changes::open(&path).unwrap().made().is_empty());
    }

    #[test]
    fn what_is_no_list_of_changes_or_not_ours_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let refused = |path: &Path| format!("{:#}", Changes::open(path).err().unwrap());
        for text in ["", "root:x:0:0\n", "[{\"setting\":1}]"] {
            fs::write(&path, text).unwrap();
            assert!(refused(&path).contains("no list of changes"), "{}", refused(&path));
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        symlink(&path, dir.path().join("link")).unwrap();
        assert!(refused(&dir.path().join("link")).contains("symbolic links"));
        fs::set_permissions(&path, Permissions::from_mode(0o602)).unwrap();
        assert!(refused(&path).contains("others may write it"));
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(refused(&path).contains("others may write it"));
    }
}
