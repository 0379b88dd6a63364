//! Files that a service keeps: nobody else has put them there.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::unistd::geteuid;
use weir_kernel::capabilities::{Capability, has};

/// Refuses what is not to be read as our own, nor written over: symbolic links, pipes, devices, directories, files of other
/// users.
///
/// # Errors
/// Which of these it is.
pub fn ours(metadata: &Metadata) -> io::Result<()> {
    plain(metadata)?;
    match metadata.uid() {
        uid if uid == geteuid().as_raw() => Ok(()),
        uid => Err(io::Error::other(format!("it belongs to another user (uid {uid})"))),
    }
}

/// The same, of who we are to be: root, as long as it may become anybody, may become whom the file belongs to
/// (`weir_service::privileges`).
///
/// # Errors
/// As [`ours`].
pub fn to_be_ours(metadata: &Metadata) -> io::Result<()> {
    if geteuid().is_root() && has(Capability::CAP_SETUID) { plain(metadata) } else { ours(metadata) }
}

fn plain(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_symlink() {
        return Err(io::Error::other("it is a symbolic link, which is never followed: name the file itself"));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(())
}
