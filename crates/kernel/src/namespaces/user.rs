//! The right to make networks, also as an ordinary user.
//!
//! An ordinary user enters a user namespace in which it is root: over the networks made from there it has every
//! privilege, over the rest of the machine none it did not have before.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::fstat;
use nix::unistd::{getegid, geteuid};

use super::NetNs;
use crate::Error;
use crate::error::During;
use crate::processes::{own_status, status_field};
use crate::sysctl;

/// Where the process's privilege over networks comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It is root, with CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN.
    Root,
    /// It entered a user namespace.
    UserNamespace,
}

/// Makes sure that the process may make network namespaces: as root it may, else it moves into a user namespace of its
/// own, where its user is root. To be called first thing in `main`, while the process has one thread.
///
/// # Errors
/// [`Error::Forbidden`], naming the setting to change, where the machine does not let ordinary users do that.
pub fn obtain_network_privilege() -> Result<Privilege, Error> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() && has_capabilities() {
        return Ok(Privilege::Root);
    }
    unshare(CloneFlags::CLONE_NEWUSER).map_err(forbidden)?;
    let written = fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {user} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {group} 1")));
    written.map_err(|error| forbidden(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))))?;
    // Some kernels let anybody enter a user namespace and take away what it is good for.
    match NetNs::create() {
        Err(error) => Err(error.errno().map_or(error, forbidden)),
        Ok(_) => Ok(Privilege::UserNamespace),
    }
}

/// The process's user namespace, to be handed to a process that wants to [`join`] it.
///
/// # Errors
/// Without /proc, or out of file descriptors.
pub fn current() -> Result<OwnedFd, Error> {
    let file = File::open(USER).during(|| format!("open {USER}"))?;
    Ok(file.into())
}

/// Moves the process into a user namespace that another process of the same user made; nothing to do where it is in it
/// already. To be called while the process has one thread.
///
/// # Errors
/// If the namespace is another user's, or the process has several threads (EINVAL).
pub fn join(namespace: impl AsFd) -> Result<(), Error> {
    let operation = || "join the user namespace of a running lab";
    let here = fstat(current()?).during(operation)?;
    let there = fstat(&namespace).during(operation)?;
    if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) {
        return Ok(());
    }
    setns(namespace, CloneFlags::CLONE_NEWUSER).during(operation)
}

fn has_capabilities() -> bool {
    let status = own_status();
    let effective = status_field(&status, "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    NEEDED_CAPABILITIES.iter().all(|bit| effective & (1 << bit) != 0)
}

fn forbidden(errno: Errno) -> Error {
    let setting = |path: &str| sysctl::seen(path)?.parse::<u64>().ok();
    let status = own_status();
    let clues = Clues {
        unprivileged_clone: setting("kernel/unprivileged_userns_clone"),
        max_user_namespaces: setting("user/max_user_namespaces"),
        max_net_namespaces: setting("user/max_net_namespaces"),
        apparmor_restricts: setting("kernel/apparmor_restrict_unprivileged_userns"),
        seccomp: status_field(&status, "Seccomp") == Some("2"),
    };
    Error::Forbidden(clues.explain(errno))
}

/// What may tell why user namespaces are refused; `None` where the kernel has no such setting.
#[derive(Clone, Copy, Default)]
struct Clues {
    unprivileged_clone: Option<u64>,
    max_user_namespaces: Option<u64>,
    max_net_namespaces: Option<u64>,
    apparmor_restricts: Option<u64>,
    seccomp: bool,
}

impl Clues {
    fn explain(self, errno: Errno) -> String {
        let switch = |name: &str, value: u64| {
            format!("user namespaces are switched off: run `sudo sysctl -w {name}={value}`, or run as root")
        };
        if self.max_user_namespaces == Some(0) {
            return switch("user.max_user_namespaces", 10_000);
        }
        if self.max_net_namespaces == Some(0) {
            return switch("user.max_net_namespaces", 10_000);
        }
        match errno {
            Errno::EPERM | Errno::EACCES if self.unprivileged_clone == Some(0) => {
                switch("kernel.unprivileged_userns_clone", 1)
            }
            Errno::EPERM | Errno::EACCES if self.apparmor_restricts == Some(1) => {
                "AppArmor restricts user namespaces: run \
                 `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or run as root"
                    .into()
            }
            Errno::EPERM | Errno::EACCES if self.seccomp => {
                "a seccomp filter forbids user namespaces (a container?): start the container with \
                 `--cap-add SYS_ADMIN --cap-add NET_ADMIN` or `--security-opt seccomp=unconfined`"
                    .into()
            }
            Errno::EPERM | Errno::EACCES => {
                "user namespaces are forbidden (in a chroot, or by a security module?): run as root".into()
            }
            Errno::ENOSPC | Errno::EUSERS => {
                "too many user namespaces, or too deeply nested (at most 32): raise the sysctls \
                 user.max_user_namespaces and user.max_net_namespaces, or run as root"
                    .into()
            }
            Errno::EINVAL | Errno::ENOSYS => {
                "this kernel has no user namespaces (CONFIG_USER_NS), or the process has several threads: run as root"
                    .into()
            }
            errno => format!("{}: run as root", errno.desc()),
        }
    }
}

const USER: &str = "/proc/self/ns/user";

/// CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN (include/uapi/linux/capability.h).
const NEEDED_CAPABILITIES: [u32; 3] = [12, 13, 21];

/// Whether the process is in the machine's first user namespace, which has all users: only there do some capabilities
/// count. `None`: /proc does not tell.
pub fn is_first() -> Option<bool> {
    let users = fs::read_to_string("/proc/self/uid_map").ok()?;
    Some(users.split_whitespace().eq(["0", "0", "4294967295"]))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_refusal_names_the_setting() {
        let none = Clues::default();
        let cases = [
            (Clues { unprivileged_clone: Some(0), ..none }, Errno::EPERM, "kernel.unprivileged_userns_clone=1"),
            (Clues { max_user_namespaces: Some(0), ..none }, Errno::ENOSPC, "user.max_user_namespaces=10000"),
            (Clues { max_net_namespaces: Some(0), ..none }, Errno::ENOSPC, "user.max_net_namespaces=10000"),
            (Clues { apparmor_restricts: Some(1), ..none }, Errno::EACCES, "apparmor_restrict_unprivileged_userns=0"),
            (Clues { seccomp: true, ..none }, Errno::EPERM, "seccomp=unconfined"),
            (none, Errno::EPERM, "chroot"),
            (Clues { max_user_namespaces: Some(100), ..none }, Errno::ENOSPC, "nested"),
            (none, Errno::EINVAL, "CONFIG_USER_NS"),
        ];
        for (clues, errno, expected) in cases {
            let line = Error::Forbidden(clues.explain(errno)).to_string();
            assert!(line.contains(expected) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn joining_the_own_namespace_is_nothing_and_another_is_refused_to_threads() {
        join(current().unwrap()).unwrap();
        if !weir_testbed::user_namespaces(None) {
            return;
        }
        let mut command = Command::new("unshare");
        let mut resident =
            command.args(["--user", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Once it answers it is in there.
        resident.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        resident.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let there = File::open(format!("/proc/{}/ns/user", resident.id())).unwrap();
        // Only a process of one thread can go there; this one has more.
        let refused = join(&there).unwrap_err();
        assert_eq!(refused.errno(), Some(Errno::EINVAL), "{refused}");
        drop(resident.stdin.take());
        resident.wait().unwrap();
    }

    #[test]
    fn the_first_namespace_has_all_users() {
        let users = fs::read_to_string("/proc/self/uid_map").unwrap();
        let first = users.lines().count() == 1 && users.split_whitespace().nth(2) == Some(&u32::MAX.to_string());
        assert_eq!(is_first(), Some(first));
    }
}
