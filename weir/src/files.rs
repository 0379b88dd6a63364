//! Output files that the user names.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use nix::errno::Errno;
use nix::fcntl::OFlag;

/// The name of a CSV file; a name for Parquet is refused.
pub(crate) fn csv() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let is_parquet = path.extension().is_some_and(|extension| extension == "parquet");
        if is_parquet { Err("Parquet is not supported. Write CSV: name the file .csv.") } else { Ok(path) }
    })
}

/// Creates or replaces a file. A symbolic link of that name is refused: anyone who may write to the directory could
/// redirect root elsewhere.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    // Below /dev (/dev/stderr) only root creates links.
    let flags = if path.starts_with("/dev") { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags.bits()).open(path);
    file.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => io::Error::other("a symbolic link. Name the file itself."),
        _ => error,
    })
}
