//! Files that a command writes where its user says.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use nix::errno::Errno;
use nix::fcntl::OFlag;

/// The name of a file of CSV. Who means Parquet is told.
pub(crate) fn csv() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let is_parquet = path.extension().is_some_and(|extension| extension == "parquet");
        if is_parquet { Err("Parquet is not written any more: write CSV (name it .csv)") } else { Ok(path) }
    })
}

/// Makes a file, in place of an earlier one. A link of that name is refused: whoever may write in the folder could lead root
/// elsewhere.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    // Below /dev (/dev/stderr) only root makes links.
    let flags = if path.starts_with("/dev") { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags.bits()).open(path);
    file.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => io::Error::other("a link, which is not followed (give the file itself)"),
        _ => error,
    })
}
