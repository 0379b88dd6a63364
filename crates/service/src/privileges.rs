//! What a service keeps once its sockets are open: capabilities, who it is, and the files that it may open.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat, geteuid};
use weir_kernel::capabilities::{Capability, User, as_user, has, keep_only};
use weir_kernel::confinement::{Enforced, Files, confine};
use weir_kernel::sysctl;

/// What a room needs as long as it runs, a reload included. Its configuration need not be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Those of them that the process has.
    pub capabilities: Vec<Capability>,
    /// Files that are opened again to be read, as far as they are there.
    pub reads: Vec<PathBuf>,
    /// Files that are written; others are made beside them.
    pub writes: Vec<PathBuf>,
    /// Folders in which files are made.
    pub folders: Vec<PathBuf>,
    /// It starts programs of the user's, or looks into other processes: no rule about files would fit.
    pub is_unconfined: bool,
}

impl From<Vec<Capability>> for Needs {
    fn from(capabilities: Vec<Capability>) -> Self {
        Self { capabilities, ..Self::default() }
    }
}

/// The capability without which these ports cannot be bound once more; `None`: anybody may bind them.
pub fn to_bind(ports: impl IntoIterator<Item = u16>) -> Option<Capability> {
    let first_free = first_free_port();
    ports.into_iter().any(|port| port < first_free).then_some(Capability::CAP_NET_BIND_SERVICE)
}

/// What was given up, for the log, which starts only then.
#[derive(Debug)]
pub(crate) struct Reduced {
    /// Why it is root still, though nobody asked for that.
    warning: Option<String>,
    details: Vec<String>,
}

impl Reduced {
    pub(crate) fn log(&self) {
        self.warning.iter().for_each(|line| tracing::warn!("{line}"));
        self.details.iter().for_each(|line| tracing::debug!("{line}"));
    }
}

/// Gives up what is not needed, for good: capabilities; root, for `user` or, where none was chosen, for whoever may open what
/// is opened again; files. The process has one thread.
///
/// # Errors
/// There is no such user, or the kernel refuses.
pub(crate) fn reduce(user: Option<&str>, needs: &Needs, configuration: Option<&Path>) -> Result<Reduced> {
    let chosen = choose(user, needs, configuration)?;
    let (user, warning) = match chosen {
        Whom::Same => (None, None),
        Whom::Other(user) => (Some(user), None),
        Whom::Root(why) => (None, Some(format!("stays root: {why}"))),
    };
    keep_only(&needs.capabilities, user.as_ref()).context("give up privileges")?;
    let mut details = Vec::new();
    details.extend(user.map(|user| format!("runs as user {user}")));
    if !needs.is_unconfined {
        details.extend(confined(needs, configuration));
    }
    Ok(Reduced { warning, details })
}

/// Who a service is once it has given up what it can.
#[derive(Debug, PartialEq, Eq)]
enum Whom {
    /// Not root, or root of a user namespace that has nobody else, which is an ordinary user outside.
    Same,
    Other(User),
    /// Why.
    Root(String),
}

fn choose(user: Option<&str>, needs: &Needs, configuration: Option<&Path>) -> Result<Whom> {
    if let Some(name) = user {
        return Ok(Whom::Other(User::find(name)?));
    }
    if !geteuid().is_root() {
        return Ok(Whom::Same);
    }
    if !(has(Capability::CAP_SETUID) && has(Capability::CAP_SETGID)) {
        return Ok(Whom::Root("it has no CAP_SETUID and CAP_SETGID (start it as another user)".into()));
    }
    let files = Reopened::of(needs, configuration);
    let mut first = None;
    for user in files.candidates() {
        match as_user(&user, || files.hindrance(&user))? {
            Some(None) => return Ok(Whom::Other(user)),
            Some(why) => first = first.or(why),
            // This namespace does not have that user.
            None => {}
        }
    }
    Ok(first
        .map_or(Whom::Same, |why| Whom::Root(format!("{why} (permit that, or name a user who may: `user`, --user)"))))
}

/// Files that are opened once more after privileges are given up.
#[derive(Debug)]
struct Reopened<'a> {
    configuration: Option<&'a Path>,
    reads: Vec<&'a Path>,
    writes: &'a [PathBuf],
    folders: &'a [PathBuf],
}

impl<'a> Reopened<'a> {
    fn of(needs: &'a Needs, configuration: Option<&'a Path>) -> Self {
        // A pipe is read at the start alone.
        let is_file = |path: &&Path| fs::metadata(path).is_ok_and(|about| about.is_file());
        let reads = configuration.into_iter().chain(needs.reads.iter().map(PathBuf::as_path)).filter(is_file);
        Self { configuration, reads: reads.collect(), writes: &needs.writes, folders: &needs.folders }
    }

    /// `nobody`, and else those whom the folders that are written and the configuration belong to. Who has put a file into a
    /// folder of another's is none.
    fn candidates(&self) -> Vec<User> {
        let written = self.writes.iter().map(|path| folder(path)).chain(self.folders.iter().map(PathBuf::as_path));
        let owners = written
            .chain(self.configuration)
            .filter_map(|path| fs::metadata(path).ok())
            .filter(|about| about.uid() != 0);
        let owners = owners.map(|about| User::of(about.uid(), about.gid()));
        let mut seen = HashSet::new();
        [User::nobody()].into_iter().chain(owners).filter(|user| seen.insert(user.uid())).collect()
    }

    /// What `user`, who is in force, may not; `None`: all of it is permitted.
    fn hindrance(&self, user: &User) -> Option<String> {
        let who = if *user == User::nobody() { "user nobody".to_owned() } else { format!("user {user}") };
        if let Some(path) = self.reads.iter().find(|path| !may(path, AccessFlags::R_OK)) {
            return Some(format!("{who} may not read {}, which is read again", path.display()));
        }
        let write = AccessFlags::W_OK | AccessFlags::X_OK;
        for path in self.writes {
            if !may(folder(path), write) {
                return Some(format!("{who} may not write to {}", folder(path).display()));
            }
            // Such files are read as the own ones, and replaced.
            if fs::symlink_metadata(path).is_ok_and(|about| about.uid() != user.uid()) {
                return Some(format!("{} does not belong to {who}", path.display()));
            }
        }
        let closed = self.folders.iter().find(|path| !may(path, write | AccessFlags::R_OK))?;
        Some(format!("{who} may not write to {}", closed.display()))
    }
}

/// What has no user of its own to be protected by, Landlock protects: other files of root, or of the user. A line for the log.
fn confined(needs: &Needs, configuration: Option<&Path>) -> Option<String> {
    let mut written: Vec<PathBuf> = needs.writes.iter().map(|path| folder(path).to_owned()).collect();
    written.extend(needs.folders.iter().cloned());
    let read = geteuid().is_root().then(|| {
        let named = configuration.into_iter().chain(needs.reads.iter().map(PathBuf::as_path));
        named.chain(REPLACED.map(Path::new)).flat_map(folders).chain(READ.map(PathBuf::from)).collect()
    });
    let closed = match confine(&Files { read, written }) {
        Ok(Enforced::Whole) => return None,
        Ok(Enforced::Part) => "files are not confined whole: this kernel knows less of Landlock".to_owned(),
        Ok(Enforced::Nothing) => "files are not confined: this kernel has no Landlock (5.13)".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(closed)
}

/// The folder of a file as it is named, and as symbolic links lead to it: the file may be replaced.
fn folders(path: &Path) -> impl Iterator<Item = PathBuf> {
    let real = fs::canonicalize(path).ok().map(|real| folder(&real).to_owned());
    [folder(path).to_owned()].into_iter().chain(real)
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// What is not there is for others to complain of.
fn may(path: &Path, access: AccessFlags) -> bool {
    !matches!(faccessat(AT_FDCWD, path, access, AtFlags::AT_EACCESS), Err(Errno::EACCES | Errno::EPERM))
}

/// The first port that anybody may bind (ip_unprivileged_port_start, ip-sysctl.rst); as the kernel has it by default,
/// where it does not say.
fn first_free_port() -> u16 {
    sysctl::seen("net/ipv4/ip_unprivileged_port_start").and_then(|port| port.parse().ok()).unwrap_or(1024)
}

/// What every service reads of the machine while it runs; libraries, since the C library loads those that look up names when it
/// first needs them, and others when nsswitch.conf changes.
const READ: [&str; 8] = ["/etc", "/lib", "/lib64", "/proc", "/sys", "/usr/lib", "/usr/lib64", "/usr/share"];

/// Files of it that are links to other folders on many machines.
const REPLACED: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/localtime"];
