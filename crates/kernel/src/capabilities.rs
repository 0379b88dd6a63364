//! Giving privileges up: capabilities (capabilities(7)) and the user.
//!
//! Both belong to threads. [`keep_only`] is therefore for a process that still has one thread; those that it starts later
//! inherit what is left.

use std::fmt;
use std::fs;

use caps::{CapSet, CapsHashSet};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::unistd::{self, Gid, Uid, setegid, seteuid, setgroups, setresgid, setresuid};

pub use caps::Capability;

use crate::Error;
use crate::error::During;

/// Who to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    uid: Uid,
    gid: Gid,
}

impl User {
    /// By its numbers, whether the user database has them or not.
    pub fn of(uid: u32, gid: u32) -> Self {
        Self { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid) }
    }

    /// Whom nothing belongs to: `nobody` of the user database, or the number that it has everywhere.
    pub fn nobody() -> Self {
        Self::find("nobody").unwrap_or_else(|_| Self::of(NOBODY, NOBODY))
    }

    /// Its number.
    pub fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// The number of its group.
    pub fn gid(&self) -> u32 {
        self.gid.as_raw()
    }

    /// A name from the user database, with its main group, or numbers: `nobody`, `65534`, `65534:65534`. A single number
    /// without an entry in the database is its own group's number, too.
    ///
    /// # Errors
    /// If there is no such user.
    pub fn find(name: &str) -> Result<Self, Error> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number != u32::MAX);
        if let Some((uid, gid)) = name.split_once(':').and_then(|(uid, gid)| Some((number(uid)?, number(gid)?))) {
            return Ok(Self { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid) });
        }
        let found = match number(name) {
            // Without a user database (a container from scratch) a number is still a number.
            Some(uid) => unistd::User::from_uid(Uid::from_raw(uid)).unwrap_or_default(),
            None => unistd::User::from_name(name).during(|| format!("look up user {name}"))?,
        };
        match (found, number(name)) {
            (Some(user), _) => Ok(Self { uid: user.uid, gid: user.gid }),
            (None, Some(uid)) => Ok(Self { uid: Uid::from_raw(uid), gid: Gid::from_raw(uid) }),
            (None, None) => Err(Error::answer(
                format!("look up user {name}"),
                "no such user (create it, or give numbers: 65534:65534)",
            )),
        }
    }
}

impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.uid, self.gid)
    }
}

/// Gives up, for good, every capability but `kept`, in all five sets; becomes `user`, without supplementary groups; and
/// rules out that a program executed from here gains privileges (no_new_privs). Returns what is in force: those of `kept`
/// that the process had.
///
/// # Errors
/// If the process has more than one thread, or may not become `user`. Privileges may be given up in part then: end.
pub fn keep_only(kept: &[Capability], user: Option<&User>) -> Result<Vec<Capability>, Error> {
    alone("drop capabilities")?;
    prctl::set_no_new_privs().during(|| "set no_new_privs")?;
    let permitted = read(CapSet::Permitted)?;
    let kept: CapsHashSet = kept.iter().copied().filter(|capability| permitted.contains(capability)).collect();
    // Only CAP_SETPCAP may shrink the bounding set; without it, no_new_privs keeps programs from what is in there.
    if read(CapSet::Effective)?.contains(&Capability::CAP_SETPCAP) {
        for capability in read(CapSet::Bounding)?.difference(&kept) {
            changed(CapSet::Bounding, caps::drop(None, CapSet::Bounding, *capability))?;
        }
    }
    if let Some(user) = user {
        become_user(user)?;
    }
    // The kernel may have no ambient set (before Linux 4.3); without inheritable capabilities it is empty.
    changed(CapSet::Inheritable, caps::clear(None, CapSet::Inheritable))?;
    // Effective ones are a part of the permitted ones at all times.
    changed(CapSet::Effective, caps::set(None, CapSet::Effective, &kept))?;
    changed(CapSet::Permitted, caps::set(None, CapSet::Permitted, &kept))?;
    effective()
}

/// What `f` finds as `user` without any capability in force: to know what such a user may, before it is too late. Afterwards
/// everything is as before. `None`: the process may not become `user`, whom its user namespace perhaps does not have.
///
/// # Errors
/// If the process has more than one thread; if it cannot go back: end.
pub fn as_user<T>(user: &User, f: impl FnOnce() -> T) -> Result<Option<T>, Error> {
    alone("become another user for a moment")?;
    let back = || format!("go back from user {user}");
    let (groups, own) = (unistd::getgroups().during(back)?, unistd::getegid());
    if setgroups(&[]).is_err() {
        return Ok(None);
    }
    // No longer root's, the effective user takes the effective capabilities along, and brings them back.
    let found = setegid(user.gid).and_then(|()| seteuid(user.uid)).map(|()| f());
    seteuid(Uid::from_raw(0)).and_then(|()| setegid(own)).and_then(|()| setgroups(&groups)).during(back)?;
    Ok(found.ok())
}

/// The capabilities in force in the calling thread, in its user namespace, by their numbers.
///
/// # Errors
/// If the kernel does not tell.
pub fn effective() -> Result<Vec<Capability>, Error> {
    let mut all: Vec<Capability> = read(CapSet::Effective)?.into_iter().collect();
    all.sort_unstable_by_key(Capability::index);
    Ok(all)
}

/// Whether the calling thread has this capability in force.
pub fn has(capability: Capability) -> bool {
    effective().is_ok_and(|all| all.contains(&capability))
}

/// Users and capabilities belong to threads.
fn alone(operation: &str) -> Result<(), Error> {
    match fs::read_dir("/proc/self/task").during(|| "count threads in /proc/self/task")?.count() {
        1 => Ok(()),
        threads => {
            let detail = format!("the process has {threads} threads already, which would keep theirs");
            Err(Error::answer(operation, detail))
        }
    }
}

fn become_user(user: &User) -> Result<(), Error> {
    let operation = || format!("become user {user}");
    let refused = |errno| match errno {
        Errno::EPERM => Error::answer(operation(), "operation not permitted (needs CAP_SETUID and CAP_SETGID)"),
        errno => Error::System { operation: operation(), errno },
    };
    let unchanged = unistd::getuid() == user.uid && unistd::getgid() == user.gid;
    if unchanged && unistd::geteuid() == user.uid && unistd::getegid() == user.gid {
        return Ok(());
    }
    // What is permitted now stays so, though no longer effective, when the user changes from root to another.
    prctl::set_keepcaps(true).during(operation)?;
    setgroups(&[]).map_err(refused)?;
    setresgid(user.gid, user.gid, user.gid).map_err(refused)?;
    setresuid(user.uid, user.uid, user.uid).map_err(refused)?;
    prctl::set_keepcaps(false).during(operation)
}

fn read(set: CapSet) -> Result<CapsHashSet, Error> {
    caps::read(None, set).map_err(|error| Error::answer(format!("read the {set:?} capabilities"), error.to_string()))
}

fn changed(set: CapSet, result: Result<(), caps::errors::CapsError>) -> Result<(), Error> {
    result.map_err(|error| Error::answer(format!("drop {set:?} capabilities"), error.to_string()))
}

/// Where there is no user database: `nobody` on every Linux, and the kernel's overflowuid.
const NOBODY: u32 = 65_534;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_or_number() {
        let ids = |name| User::find(name).map(|user| user.to_string()).map_err(|error| error.to_string());
        assert_eq!(ids("root"), Ok("0:0".into()));
        assert_eq!(ids("0"), Ok("0:0".into()));
        assert_eq!(ids("12:34"), Ok("12:34".into()));
        assert_eq!(ids("4000000"), Ok("4000000:4000000".into()));
        let missing = "look up user no-such-user: no such user (create it, or give numbers: 65534:65534)";
        assert_eq!(ids("no-such-user"), Err(missing.into()));
        assert!(ids("4294967295").is_err());
    }

    #[test]
    fn with_several_threads_nothing_is_given_up() {
        let before = effective().unwrap();
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| keep_only(&[], None)).join().unwrap().unwrap_err().to_string();
            assert!(refused.starts_with("drop capabilities: the process has "), "{refused}");
        });
        assert_eq!(effective(), Ok(before));
    }
}
