//! Networks, users and process trees of our own.
//!
//! A [`NetNs`] has no name in the file system: descriptors, sockets and processes hold it, and it is gone with the last
//! of them, however they end. [`user`] obtains the right to make one as an ordinary user; [`process`] runs programs in
//! one. [`find`] and [`all`] are for namespaces that others made.

pub mod attended;
pub(crate) mod find;
mod foreground;
mod init;
pub mod process;
pub mod user;

use std::any::Any;
use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::thread;

pub use find::{Listed, Survey, all, find, name_of, survey};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};

use crate::Error;
use crate::error::During;
use crate::sys;

/// An anonymous network namespace, held by a file descriptor.
#[derive(Debug)]
pub struct NetNs {
    descriptor: OwnedFd,
}

impl NetNs {
    /// Makes an empty network: a loopback interface that is down, and nothing else.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN in the process's user namespace (see [`user::obtain_network_privilege`]), or when a limit
    /// is reached (file descriptors, `user.max_net_namespaces`).
    pub fn create() -> Result<NetNs, Error> {
        // Only the thread that unshares moves. It ends here, the descriptor stays.
        on_own_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .during(|| "create a network namespace")
                .map_err(|error| error.needs(ADMIN))?;
            NetNs::current()
        })?
    }

    /// The calling thread's network namespace.
    ///
    /// # Errors
    /// Without /proc, or out of file descriptors.
    pub fn current() -> Result<NetNs, Error> {
        let file = File::open(THREAD_NETWORK).during(|| format!("open {THREAD_NETWORK}"))?;
        Ok(NetNs { descriptor: file.into() })
    }

    /// Takes a descriptor that refers to a network namespace, as received from another process. It is not checked
    /// before it is used.
    pub fn from_fd(descriptor: OwnedFd) -> NetNs {
        NetNs { descriptor }
    }

    /// Its inode number, by which `lsns`, /proc/PID/ns/net and [`crate::trace`] name it.
    ///
    /// # Errors
    /// If the descriptor refers to something else.
    pub fn inode(&self) -> Result<u32, Error> {
        find::inode_of(&self.descriptor).during(|| "identify a network namespace")
    }

    /// Its cookie, which no other namespace has until the machine boots (SO_NETNS_COOKIE, from Linux 5.14); its inode number
    /// another may have once it is gone. `None`: the kernel does not tell, or it may not be entered.
    pub fn cookie(&self) -> Option<u64> {
        let socket = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
        self.run(|| socket().and_then(|socket| sys::namespace_cookie(socket.as_fd()).ok())).ok()?
    }

    /// A second hold on the same namespace.
    ///
    /// # Errors
    /// Out of file descriptors.
    pub fn try_clone(&self) -> Result<NetNs, Error> {
        let descriptor = self.descriptor.try_clone().during(|| "duplicate a network namespace's descriptor")?;
        Ok(NetNs { descriptor })
    }

    /// Runs `f` on a thread of its own that is inside this namespace: sockets it opens belong to it for ever. A panic
    /// of `f` goes on in the caller.
    ///
    /// # Errors
    /// If the thread cannot start or enter, in which case `f` did not run.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        on_own_thread(|| {
            self.enter()?;
            Ok(f())
        })?
    }

    /// Moves the calling thread, for good.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        match setns(&self.descriptor, CloneFlags::CLONE_NEWNET) {
            // An ordinary user may not enter, but may be inside.
            Err(Errno::EPERM) if NetNs::current()?.inode()? == self.inode()? => Ok(()),
            result => result.during(|| "enter a network namespace").map_err(|error| error.needs(ADMIN)),
        }
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Runs `f` on a short-lived thread, whose namespaces it may change.
fn on_own_thread<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("namespace".into())
            .stack_size(STACK)
            .spawn_scoped(scope, f)
            .during(|| "start a thread")?;
        Ok(thread.join().unwrap_or_else(|panic: Box<dyn Any + Send>| resume_unwind(panic)))
    })
}

/// What namespaces are made and entered with (namespaces(7)).
const ADMIN: &str = "CAP_SYS_ADMIN";

const THREAD_NETWORK: &str = "/proc/thread-self/ns/net";

/// What runs there opens sockets and reads /proc, no more.
const STACK: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    fn identity(ns: &NetNs) -> u64 {
        nix::sys::stat::fstat(&ns.descriptor).unwrap().st_ino
    }

    #[test]
    fn a_new_network_is_empty_and_the_caller_stays_outside() {
        let before = identity(&NetNs::current().unwrap());
        let ns = NetNs::create().unwrap();
        assert_ne!(identity(&ns), before);
        assert_eq!(identity(&NetNs::current().unwrap()), before);

        assert_ne!(ns.cookie(), NetNs::current().unwrap().cookie());
        assert_eq!(ns.cookie(), ns.try_clone().unwrap().cookie());

        let inside = ns.run(|| identity(&NetNs::current().unwrap())).unwrap();
        assert_eq!(inside, identity(&ns));
        assert_eq!(identity(&ns.try_clone().unwrap()), identity(&ns));

        // Nothing is reachable: even the loopback interface is down.
        let sent = ns.run(|| UdpSocket::bind("0.0.0.0:0").and_then(|s| s.send_to(b"x", "127.0.0.1:9"))).unwrap();
        assert_eq!(sent.unwrap_err().raw_os_error(), Some(libc::ENETUNREACH));
    }

    /// Capabilities belong to threads: this one gives them up.
    #[test]
    fn without_privilege_the_capability_is_named() {
        let ns = NetNs::create().unwrap();
        let refused = thread::spawn(move || {
            caps::clear(None, caps::CapSet::Effective).unwrap();
            [ns.run(|| ()).unwrap_err(), NetNs::create().unwrap_err()].map(|error| error.to_string())
        });
        for refused in refused.join().unwrap() {
            assert!(refused.contains("operation not permitted (needs CAP_SYS_ADMIN: "), "{refused}");
        }
    }

    #[test]
    fn something_else_is_no_network() {
        let file = File::open("/dev/null").unwrap();
        assert!(file.as_raw_fd() >= 0);
        let error = NetNs::from_fd(file.into()).run(|| ()).unwrap_err();
        assert_eq!(error.to_string(), "enter a network namespace: invalid argument");
    }

    #[test]
    #[should_panic(expected = "from inside")]
    fn a_panic_inside_comes_out() {
        let ns = NetNs::create().unwrap();
        let _ = ns.run(|| panic!("from inside"));
    }
}
