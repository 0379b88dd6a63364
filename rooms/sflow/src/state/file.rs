//! A file that is written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc;
use weir_program::files::ours;

/// Writes a file by `write`: to a temporary one beside it, to the disk, then in its place. Whoever reads it finds the file
/// of before or all of the new one.
///
/// # Errors
/// What is there is not [`ours`]; the directory cannot be written to, the disk is full, or those of `write`; the file of before
/// stays.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if let Ok(metadata) = fs::symlink_metadata(path) {
        ours(&metadata)?;
    }
    let temporary = beside(path);
    // What a crash left behind.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = create(&temporary).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // It says more about the disk than about the state: whoever cannot be told needs no second error.
        let _ = fs::remove_file(&temporary);
    } else if let Some(directory) = directory(path) {
        // Else a crash of the machine might bring the file of before back, which is whole as well.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
    written
}

/// Reads a file; `None`: there is none.
///
/// # Errors
/// It is a symbolic link (ELOOP), not [`ours`], or cannot be read.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    ours(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// For this process alone to read: it tells of a network.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).mode(0o600).open(path)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

fn directory(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use weir_protect::journal::writable;

    use super::*;

    fn put(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |file| file.write_all(text.as_bytes()))
    }

    fn get(path: &Path) -> String {
        String::from_utf8(read(path).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert!(read(&path).unwrap().is_none());
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
        assert_eq!(said("directory"), Err("it is no regular file".into()));
        assert!(writable(Path::new("/")).is_err());
    }

    #[test]
    fn links_of_others_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("state"), dir.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &path).unwrap();
        symlink(&precious, dir.path().join("state.new")).unwrap();
        assert_eq!(read(&path).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        // Neither followed nor replaced, and known before.
        let why = "it is a symbolic link, which is never followed: name the file itself";
        assert_eq!(put(&path, "state").unwrap_err().to_string(), why);
        assert_eq!(writable(&path).unwrap_err().to_string(), why);
        assert!(path.is_symlink());
        fs::remove_file(&path).unwrap();
        put(&path, "state").unwrap();
        assert_eq!((get(&path), get(&precious)), ("state".into(), "precious".into()));
    }
}
