//! Files that a service keeps: they belong to it, only it reads them, and a crash leaves none half written.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc;
use nix::unistd::{AccessFlags, faccessat, geteuid};
use weir_kernel::capabilities::{Capability, has};

/// Refuses files that must not be read as our own, or overwritten: symbolic links, pipes, devices, directories, files
/// of other users.
///
/// # Errors
/// The kind of file.
pub fn ours(metadata: &Metadata) -> io::Result<()> {
    plain(metadata)?;
    match metadata.uid() {
        uid if uid == geteuid().as_raw() => Ok(()),
        uid => Err(io::Error::other(format!("it belongs to another user (uid {uid})"))),
    }
}

/// The same, for the future user: root, while it may become anybody, may become the owner of the file
/// (`weir_service::privileges`).
///
/// # Errors
/// As [`ours`].
pub fn to_be_ours(metadata: &Metadata) -> io::Result<()> {
    if geteuid().is_root() && has(Capability::CAP_SETUID) { plain(metadata) } else { ours(metadata) }
}

fn plain(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_symlink() {
        return Err(io::Error::other("it is a symbolic link. Name the file itself."));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(())
}

/// Opens a file to read. `None`: it does not exist.
///
/// # Errors
/// It is a symbolic link (ELOOP), neither [`ours`] nor [`to_be_ours`], or cannot be read.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let Some(file) = if_there(file)? else { return Ok(None) };
    to_be_ours(&file.metadata()?)?;
    Ok(Some(file))
}

/// Reads a file of at most `most` bytes. `None`: it does not exist.
///
/// # Errors
/// As [`open`], or it is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(Some(bytes))
}

/// Writes a file with `write`: to a temporary file next to it, to the disk, then in its place. Readers find the old
/// file or the complete new one.
///
/// # Errors
/// The existing file is not [`ours`], the directory cannot be written to, the disk is full, or an error of `write`; the
/// old file stays.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if let Ok(metadata) = fs::symlink_metadata(path) {
        ours(&metadata)?;
    }
    let temporary = beside(path, ".new");
    // Left over from a crash.
    remove(&temporary)?;
    let file =
        OpenOptions::new().write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).mode(0o600).open(&temporary);
    let written = file.and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&temporary, path)
    });
    // Neither changes the file at the path: an error of the first was reported, and without the second a crash of the
    // machine may restore the old file, which is complete as well.
    let _ = if written.is_err() { remove(&temporary) } else { sync_directory(path) };
    written
}

/// Whether a file may be written here, if that can be known without writing.
///
/// # Errors
/// The directory does not exist or cannot be written to, or an existing file is not ours.
pub fn writable(path: &Path) -> io::Result<()> {
    if let Ok(metadata) = fs::symlink_metadata(path) {
        to_be_ours(&metadata)?;
    }
    let directory = directory(path).ok_or_else(|| io::Error::other("it is not the name of a file"))?;
    faccessat(AT_FDCWD, directory, AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS).map_err(|errno| {
        let error = io::Error::from(errno);
        io::Error::new(error.kind(), format!("directory {}: {error}", directory.display()))
    })
}

/// Removes a file, if there is one.
///
/// # Errors
/// It exists and cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    if_there(fs::remove_file(path)).map(drop)
}

/// Writes the names in a file's directory to the disk.
///
/// # Errors
/// The disk does not accept them.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    directory(path).map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// The file in the same directory with this suffix.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn directory(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

fn if_there<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |file| file.write_all(text.as_bytes()))
    }

    fn get(path: &Path) -> String {
        String::from_utf8(read(path, 100).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert!(read(&path, 100).unwrap().is_none());
        put(&path, "first").unwrap();
        let failed = replace(&path, |file| {
            file.write_all(b"half of it")?;
            Err(io::Error::other("on purpose"))
        });
        assert_eq!((failed.unwrap_err().to_string(), get(&path)), ("on purpose".into(), "first".into()));
        // What a crash left behind is no hindrance.
        fs::write(dir.path().join("state.new"), "left behind").unwrap();
        put(&path, "second").unwrap();
        assert_eq!(get(&path), "second");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(read(&path, 5).is_err(), "longer than it may be");
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &str| writable(&dir.path().join(path)).map_err(|error| error.to_string());
        assert_eq!(said("state"), Ok(()));
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "looking leaves nothing behind");
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(said("file"), Ok(()));
        let nowhere = format!("directory {}: No such file or directory (os error 2)", dir.path().join("no").display());
        assert_eq!(said("no/state"), Err(nowhere));
        fs::create_dir(dir.path().join("directory")).unwrap();
        assert_eq!(said("directory"), Err("it is not a regular file".into()));
        assert!(writable(Path::new("/")).is_err());
    }

    #[test]
    fn root_reads_what_the_user_that_it_becomes_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        put(&path, "line").unwrap();
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            return; // Not root: there is no other user to become.
        }
        assert_eq!((get(&path), writable(&path).is_ok()), ("line".into(), true));
    }

    #[test]
    fn links_of_others_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("state"), dir.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &path).unwrap();
        symlink(&precious, dir.path().join("state.new")).unwrap();
        assert_eq!(read(&path, 100).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        // Neither followed nor replaced, and known before.
        let why = "it is a symbolic link. Name the file itself.";
        assert_eq!(put(&path, "state").unwrap_err().to_string(), why);
        assert_eq!(writable(&path).unwrap_err().to_string(), why);
        assert!(path.is_symlink());
        fs::remove_file(&path).unwrap();
        put(&path, "state").unwrap();
        assert_eq!((get(&path), get(&precious)), ("state".into(), "precious".into()));
    }
}
