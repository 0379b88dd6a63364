//! The file of a journal: made, found and locked so that it is ours and nobody else's, and that no other file is touched.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;

use super::Storage;

/// The first line of every journal.
pub(super) const MAGIC: &str = "{\"journal\":\"weir loss check\",\"version\":2}\n";

/// More than any journal has.
const MOST_BYTES: u64 = 16 << 20;

/// A locked journal, and its text behind the first line.
pub(super) fn open(path: &Path) -> Result<(Flock<File>, String)> {
    let describe = || format!("open the journal {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(describe)?;
    check_folder(folder)?;
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
        .map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ELOOP) => io::Error::other("a link, which is not followed (give the file itself)"),
            _ => error,
        })
        .with_context(describe)?;
    check_file(path, &file.metadata().with_context(describe)?)?;
    let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => file,
        Err((_, Errno::EAGAIN)) => {
            bail!("{}: another `weir loss check` is at work with it: wait until it has ended", path.display())
        }
        Err((_, errno)) => return Err(errno).with_context(describe),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(describe)?;
    if MAGIC.as_bytes().starts_with(&bytes) {
        // New, or ended by force while the first line was written.
        file.set_len(0).with_context(describe)?;
        file.write_all(MAGIC.as_bytes()).and_then(|()| file.sync_all()).with_context(describe)?;
        // The name must be on disk, too.
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(describe)?;
        return Ok((file, String::new()));
    }
    let text = bytes.strip_prefix(MAGIC.as_bytes()).and_then(|text| String::from_utf8(text.to_vec()).ok());
    let Some(text) = text else {
        bail!(
            "{}: no journal of `weir loss check`: it is left as it is (give another: --journal FILE)",
            path.display()
        );
    };
    Ok((file, text))
}

/// Cuts off what follows so many bytes of text: the start of a line that was never acted upon.
pub(super) fn cut(file: &mut Flock<File>, text: usize) -> io::Result<()> {
    file.set_len((MAGIC.len() + text) as u64)?;
    file.seek(SeekFrom::End(0))?;
    file.sync_all()
}

/// Root's or ours, an ordinary file of one name, in which nobody else can write.
fn check_file(path: &Path, about: &Metadata) -> Result<()> {
    let path = path.display();
    ensure!(about.is_file(), "{path}: not a file that keeps what is written (--journal FILE)");
    ensure!(is_trusted(about), "{path}: it belongs to user {}: nothing in it can be trusted", about.uid());
    ensure!(about.nlink() == 1, "{path}: it has other names, too (hard links): give a file of its own");
    ensure!(!others_write(about), "{path}: others may write it: nothing in it can be trusted (chmod go-w {path})");
    ensure!(about.len() <= MOST_BYTES, "{path}: too large for a journal ({} bytes)", about.len());
    Ok(())
}

/// Nobody else can put another file in the place of the journal.
fn check_folder(folder: &Path) -> Result<()> {
    let describe = || format!("look at the folder of the journal, {}", folder.display());
    let folder = fs::canonicalize(folder).with_context(describe)?;
    for (above, place) in folder.ancestors().enumerate() {
        let about = fs::symlink_metadata(place).with_context(describe)?;
        // What is in a folder with the sticky bit (/tmp) only its owner can move.
        let can_be_moved = others_write(&about) && (above == 0 || about.mode() & STICKY == 0);
        let place = place.display();
        ensure!(
            is_trusted(&about) && !can_be_moved,
            "{place}: others may write in this folder: a journal in it can't be trusted (--journal FILE)"
        );
    }
    Ok(())
}

fn is_trusted(about: &Metadata) -> bool {
    about.uid() == 0 || about.uid() == geteuid().as_raw()
}

/// The group of root aside.
fn others_write(about: &Metadata) -> bool {
    about.mode() & 0o002 != 0 || (about.mode() & 0o020 != 0 && about.gid() != 0)
}

const STICKY: u32 = 0o1000;

impl Storage for Flock<File> {
    /// What could not be written whole is cut off again: the next line must begin on a line of its own.
    fn append(&mut self, line: &str) -> Result<()> {
        let before = self.metadata()?.len();
        let written = self.write_all(line.as_bytes()).and_then(|()| self.sync_data());
        if written.is_err() {
            self.set_len(before)?;
        }
        Ok(written?)
    }
}
