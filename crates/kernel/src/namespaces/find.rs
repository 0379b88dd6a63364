//! Network namespaces that exist already: by name, process or path.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::fstat;
use nix::sys::statfs::{FsType, fstatfs};

use super::NetNs;
use crate::Error;
use crate::error::During;

/// A network namespace of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its inode number, by which `lsns` and [`crate::trace`] name it.
    pub inode: u32,
    /// Its name in /run/netns; `None`: it has none.
    pub name: Option<String>,
    /// A process inside, the one with the lowest number; `None`: none that we may look at.
    pub pid: Option<u32>,
    path: PathBuf,
}

impl Listed {
    /// Takes hold of it.
    ///
    /// # Errors
    /// If it is gone meanwhile.
    pub fn open(&self) -> Result<NetNs, Error> {
        let operation = || format!("network namespace {}", self.inode);
        let gone = || Error::answer(operation(), "gone");
        let file = File::open(&self.path).map_err(|_| gone())?;
        let ns = NetNs { descriptor: file.into() };
        // The process may have moved, or its number may be another's.
        if ns.inode()? == self.inode { Ok(ns) } else { Err(gone()) }
    }
}

/// Finds a network namespace by its name in /run/netns, a process in it, or a path (`/proc/4711/ns/net`).
///
/// # Errors
/// If there is none such, or we may not look at that process.
pub fn find(text: &str) -> Result<NetNs, Error> {
    if text.contains('/') {
        return open(Path::new(text), || format!("namespace {text}"), "no such file");
    }
    let named = named_directories().map(|directory| Path::new(directory).join(text)).find(|path| path.exists());
    match (named, text.parse::<u32>()) {
        (Some(path), _) => open(&path, || format!("namespace {text}"), "gone"),
        (None, Ok(pid)) => open(&of_process(pid), || format!("process {pid}"), "gone"),
        (None, Err(_)) => {
            Err(Error::answer(format!("namespace {text}"), "no such file in /run/netns (see `ip netns list`)"))
        }
    }
}

/// All network namespaces that have a name or hold a process we may look at, by inode number.
///
/// # Errors
/// Without /proc.
pub fn all() -> Result<Vec<Listed>, Error> {
    let mut found: BTreeMap<u32, Listed> = BTreeMap::new();
    let mut pids: Vec<u32> = numbers("/proc").during(|| "list /proc")?;
    pids.sort_unstable();
    for pid in pids {
        let path = of_process(pid);
        if let Some(inode) = fs::read_link(&path).ok().and_then(|link| parse_link(link.to_str()?)) {
            found.entry(inode).or_insert(Listed { inode, name: None, pid: Some(pid), path });
        }
    }
    for directory in named_directories() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            // What is not mounted yet, or was left behind, is an ordinary file.
            let Some(inode) = File::open(entry.path()).ok().and_then(|file| inode_of(&file).ok()) else { continue };
            let path = entry.path();
            let listed = found.entry(inode).or_insert(Listed { inode, name: None, pid: None, path });
            listed.name.get_or_insert_with(|| entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(found.into_values().collect())
}

/// Where ip-netns(8) keeps names; the second mostly links to the first.
fn named_directories() -> impl Iterator<Item = &'static str> {
    ["/run/netns", "/var/run/netns"].into_iter()
}

fn of_process(pid: u32) -> PathBuf {
    format!("/proc/{pid}/ns/net").into()
}

fn open(path: &Path, object: impl Fn() -> String, missing: &str) -> Result<NetNs, Error> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::answer(object(), missing),
        io::ErrorKind::PermissionDenied => {
            Error::answer(object(), "not permitted (run as root, or as the user of that process)")
        }
        _ => Error::answer(object(), error.to_string()),
    })?;
    inode_of(&file).map_err(|_| Error::answer(object(), "not a network namespace"))?;
    Ok(NetNs { descriptor: file.into() })
}

/// The inode number of a namespace's file.
pub(super) fn inode_of(file: impl AsFd) -> Result<u32, Errno> {
    if fstatfs(&file)?.filesystem_type() != NSFS {
        return Err(Errno::EINVAL);
    }
    u32::try_from(fstat(&file)?.st_ino).map_err(|_| Errno::EOVERFLOW)
}

/// `net:[4026531840]` (fs/nsfs.c).
fn parse_link(link: &str) -> Option<u32> {
    link.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Entries of a directory whose names are numbers.
pub(crate) fn numbers(directory: impl AsRef<Path>) -> io::Result<Vec<u32>> {
    Ok(fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// NSFS_MAGIC of include/uapi/linux/magic.h.
const NSFS: FsType = FsType(0x6e73_6673);
