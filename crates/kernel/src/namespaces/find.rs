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
use crate::processes::{self, numbers};

/// A network namespace of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its inode number, by which `lsns` and [`crate::trace`] name it.
    pub inode: u32,
    /// Its name in /run/netns; `None`: it has none.
    pub name: Option<String>,
    /// A process inside, the one with the lowest number; `None`: none that we may look at, so that only its name or
    /// somebody's descriptor keeps it.
    pub pid: Option<u32>,
    path: PathBuf,
}

impl Listed {
    /// Takes hold of it.
    ///
    /// # Errors
    /// If it is gone meanwhile, or there are no more file descriptors to be had.
    pub fn open(&self) -> Result<NetNs, Error> {
        let operation = || format!("network namespace {}", self.inode);
        let gone = || Error::answer(operation(), "gone");
        let file = File::open(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => gone(),
            _ => Error::answer(operation(), error.to_string()),
        })?;
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
    find_in(&named_directories(), text)
}

fn find_in(directories: &[&Path], text: &str) -> Result<NetNs, Error> {
    let named = directories.iter().map(|directory| directory.join(text)).find(|path| path.exists());
    match (named, text.parse::<u32>()) {
        (Some(path), _) => open(&path, || format!("namespace {text}"), "gone"),
        (None, Ok(pid)) => open(&of_process(pid), || format!("process {pid}"), "gone"),
        (None, Err(_)) => {
            Err(Error::answer(format!("namespace {text}"), "no such file in /run/netns (see `ip netns list`)"))
        }
    }
}

/// All network namespaces that have a name, or in which a process is, or of which one holds a descriptor, as far as we
/// may look at it; by inode number.
///
/// # Errors
/// Without /proc.
pub fn all() -> Result<Vec<Listed>, Error> {
    survey().map(|survey| survey.listed)
}

/// The name of a namespace in /run/netns, by its inode number; `None`: it has none.
pub fn name_of(inode: u32) -> Option<String> {
    let entries = named_directories().into_iter().flat_map(|directory| fs::read_dir(directory).into_iter().flatten());
    let is_it = |path: &Path| File::open(path).ok().and_then(|file| inode_of(&file).ok()) == Some(inode);
    let found = entries.flatten().find(|entry| is_it(&entry.path()))?;
    Some(found.file_name().to_string_lossy().into_owned())
}

/// What was found of network namespaces, and where nobody could look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// As [`all`] has them.
    pub listed: Vec<Listed>,
    /// Processes that we may not look at (without CAP_SYS_PTRACE, those of others): each may be in a namespace of its own.
    pub hidden: usize,
}

/// As [`all`], and how much may be missing.
///
/// # Errors
/// Without /proc.
pub fn survey() -> Result<Survey, Error> {
    survey_in(&named_directories())
}

fn survey_in(directories: &[&Path]) -> Result<Survey, Error> {
    let mut hidden = 0;
    let mut found: BTreeMap<u32, Listed> = BTreeMap::new();
    let pids = processes::all()?;
    let inode_at = |path: &Path| fs::read_link(path).ok().and_then(|link| parse_link(link.to_str()?));
    for &pid in &pids {
        let path = of_process(pid);
        let is_hidden = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        hidden += usize::from(fs::read_link(&path).is_err_and(is_hidden));
        if let Some(inode) = inode_at(&path) {
            found.entry(inode).or_insert(Listed { inode, name: None, pid: Some(pid), path });
        }
    }
    for pid in pids {
        let directory = PathBuf::from(format!("/proc/{pid}/fd"));
        for fd in numbers(&directory).unwrap_or_default() {
            let path = directory.join(fd.to_string());
            if let Some(inode) = inode_at(&path) {
                found.entry(inode).or_insert(Listed { inode, name: None, pid: None, path });
            }
        }
    }
    for directory in directories {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            // What is not mounted yet, or was left behind, is an ordinary file.
            let Some(inode) = File::open(entry.path()).ok().and_then(|file| inode_of(&file).ok()) else { continue };
            let path = entry.path();
            let listed = found.entry(inode).or_insert(Listed { inode, name: None, pid: None, path });
            listed.name.get_or_insert_with(|| entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(Survey { listed: found.into_values().collect(), hidden })
}

/// Where ip-netns(8) keeps names; the second mostly links to the first.
fn named_directories() -> [&'static Path; 2] {
    ["/run/netns", "/var/run/netns"].map(Path::new)
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
pub(crate) fn parse_link(link: &str) -> Option<u32> {
    link.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// NSFS_MAGIC of include/uapi/linux/magic.h.
const NSFS: FsType = FsType(0x6e73_6673);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

    use super::*;

    /// A process in a network of its own, which ends with its input.
    struct Resident {
        ns: NetNs,
        child: std::process::Child,
    }

    impl Resident {
        fn new() -> Resident {
            let ns = NetNs::create().unwrap();
            let child = ns.run(|| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()).unwrap();
            Resident { ns, child }
        }
    }

    impl Drop for Resident {
        fn drop(&mut self) {
            drop(self.child.stdin.take());
            let _ = self.child.wait();
        }
    }

    #[test]
    fn a_network_is_found_by_process_path_and_name() {
        let resident = Resident::new();
        let inode = resident.ns.inode().unwrap();
        let pid = resident.child.id();
        assert_eq!(find(&pid.to_string()).unwrap().inode(), Ok(inode));
        assert_eq!(find(&format!("/proc/{pid}/ns/net")).unwrap().inode(), Ok(inode));

        // As `ip netns add` mounts it.
        let directory = std::env::temp_dir().join(format!("weir-names-{pid}"));
        fs::create_dir(&directory).unwrap();
        symlink(format!("/proc/{pid}/ns/net"), directory.join("blue")).unwrap();
        fs::write(directory.join("left-behind"), "").unwrap();
        let directories = [&*directory];
        let (found, listed) = (find_in(&directories, "blue"), survey_in(&directories).map(|survey| survey.listed));
        let left = find_in(&directories, "left-behind").unwrap_err();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(found.unwrap().inode(), Ok(inode));
        assert_eq!(left.to_string(), "namespace left-behind: not a network namespace");

        let listed = listed.unwrap().into_iter().find(|listed| listed.inode == inode).unwrap();
        assert_eq!((listed.name.as_deref(), listed.pid), (Some("blue"), Some(pid)));
        assert_eq!(listed.open().unwrap().inode(), Ok(inode));
        drop(resident);
        assert_eq!(listed.open().unwrap_err().to_string(), format!("network namespace {inode}: gone"));
    }

    #[test]
    fn what_is_not_there_says_so() {
        let error = |text: &str| find(text).unwrap_err().to_string();
        assert_eq!(error("no-such-name"), "namespace no-such-name: no such file in /run/netns (see `ip netns list`)");
        assert_eq!(error("/no/such/file"), "namespace /no/such/file: no such file");
        assert_eq!(error("/dev/null"), "namespace /dev/null: not a network namespace");
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(error(&child.id().to_string()), format!("process {}: gone", child.id()));
    }

    #[test]
    fn our_own_and_those_we_hold_are_among_all() {
        let own = NetNs::current().unwrap().inode().unwrap();
        let empty = NetNs::create().unwrap();
        let listed = all().unwrap();
        assert!(listed.iter().any(|listed| listed.inode == own && listed.pid.is_some()));
        // Ours alone, and no process is inside.
        let found = listed.iter().find(|listed| Ok(listed.inode) == empty.inode()).unwrap();
        assert_eq!((found.pid, found.open().unwrap().inode()), (None, empty.inode()));
    }

    #[test]
    fn links_are_read() {
        assert_eq!(parse_link("net:[4026531840]"), Some(4_026_531_840));
        assert_eq!(parse_link("mnt:[4026531840]"), None);
    }
}
