//! What a service keeps once its sockets are open: capabilities, who it is, and the folders that it writes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat, getegid, geteuid};
use weir_kernel::capabilities::{Capability, User, as_user, keep_only};
use weir_kernel::confinement::{Enforced, confine};
use weir_kernel::sysctl;

/// What a room needs as long as it runs, a reload included. Its configuration need not be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Those of them that the process has.
    pub capabilities: Vec<Capability>,
    /// Files that are opened again to be read.
    pub reads: Vec<PathBuf>,
    /// Folders in which files are written.
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

/// The folder of a file.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// What is to be said of it, by the log, which starts only then.
#[derive(Debug)]
pub(crate) struct Reduced {
    warning: Option<String>,
    details: [Option<String>; 2],
}

impl Reduced {
    pub(crate) fn log(&self) {
        self.warning.iter().for_each(|line| tracing::warn!("{line}"));
        self.details.iter().flatten().for_each(|line| tracing::debug!("{line}"));
    }
}

/// Gives up what is not needed, for good: capabilities; root, for `user` or, where none was chosen, for the owner of the folder
/// that is written, else `nobody`; writing elsewhere. The process has one thread.
///
/// # Errors
/// There is no such user, or the kernel refuses.
pub(crate) fn reduce(user: Option<&str>, needs: &Needs, configuration: Option<&Path>) -> Result<Reduced> {
    let user = chosen(user, needs)?;
    keep_only(&needs.capabilities, user.as_ref()).context("give up privileges")?;
    let whom = match user {
        Some(user) => Some(format!("runs as user {user}")),
        None if geteuid().is_root() => {
            Some("stays root: it owns the folder that is written, or there is nobody else here".into())
        }
        None => None,
    };
    let confined = if needs.is_unconfined { Ok(Enforced::Whole) } else { confine(&needs.folders) };
    let confined = match confined {
        Ok(Enforced::Whole) => None,
        Ok(Enforced::Part) => Some("files are not confined whole: this kernel knows less of Landlock".into()),
        Ok(Enforced::Nothing) => Some("files are not confined: this kernel has no Landlock (5.13)".into()),
        Err(error) => Some(error.to_string()),
    };
    Ok(Reduced { warning: hindrance(needs, configuration), details: [whom, confined] })
}

/// Whom the process becomes; `None`: it stays who it is.
fn chosen(user: Option<&str>, needs: &Needs) -> Result<Option<User>> {
    if let Some(name) = user {
        return Ok(Some(User::find(name)?));
    }
    if !geteuid().is_root() {
        return Ok(None);
    }
    let user = Some(owner(&needs.folders).unwrap_or_else(User::nobody)).filter(|user| user.uid() != 0);
    // Root of a user namespace that has no other user is an ordinary user outside.
    match user {
        Some(user) => Ok(as_user(&user, || ())?.map(|()| user)),
        None => Ok(None),
    }
}

/// What the user that the process would become may not open, in one line: known before it is one. The process has one thread.
///
/// # Errors
/// There is no such user, or the kernel does not let the process go back.
pub fn hindered(user: Option<&str>, needs: &Needs, configuration: Option<&Path>) -> Result<Option<String>> {
    match chosen(user, needs)? {
        Some(user) if geteuid().is_root() => Ok(as_user(&user, || hindrance(needs, configuration))?.flatten()),
        _ => Ok(hindrance(needs, configuration)),
    }
}

/// Whom the first of these folders belongs to; `None`: there is none.
fn owner(folders: &[PathBuf]) -> Option<User> {
    let about = fs::metadata(folders.first()?).ok()?;
    Some(User::of(about.uid(), about.gid()))
}

/// What this user may not do of what is needed later, in one line.
fn hindrance(needs: &Needs, configuration: Option<&Path>) -> Option<String> {
    let refused = |path: &Path, wanted| {
        let asked = faccessat(AT_FDCWD, path, wanted, AtFlags::AT_EACCESS);
        matches!(asked, Err(Errno::EACCES | Errno::EPERM))
    };
    // A pipe is read at the start alone.
    let is_pipe = |path: &&Path| fs::metadata(path).is_ok_and(|about| !about.is_file());
    let read = configuration.into_iter().chain(needs.reads.iter().map(PathBuf::as_path));
    let read = read.filter(|path| !is_pipe(path) && refused(path, AccessFlags::R_OK));
    let written = needs.folders.iter().map(PathBuf::as_path);
    let written = written.filter(|path| refused(path, AccessFlags::W_OK | AccessFlags::X_OK));
    let paths: Vec<String> = read.chain(written).map(|path| path.display().to_string()).collect();
    let user = User::of(geteuid().as_raw(), getegid().as_raw());
    let line = || {
        format!(
            "user {user} may not open {}, which is needed while it runs (chown it, or name a user who may: user, --user)",
            paths.join(", ")
        )
    };
    (!paths.is_empty()).then(line)
}

/// The first port that anybody may bind (ip_unprivileged_port_start, ip-sysctl.rst); as the kernel has it by default,
/// where it does not say.
fn first_free_port() -> u16 {
    sysctl::seen("net/ipv4/ip_unprivileged_port_start").and_then(|port| port.parse().ok()).unwrap_or(1024)
}
