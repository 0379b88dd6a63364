//! Which processes hold a socket.

use std::collections::HashMap;
use std::fs;
use std::os::fd::RawFd;

use crate::Error;
use crate::processes::{self, numbers};

/// A descriptor of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process.
    pub pid: u32,
    /// Its name (/proc/PID/comm), at most 15 bytes.
    pub name: String,
    /// The descriptor.
    pub fd: RawFd,
}

/// The holders of all sockets that we may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    sockets: HashMap<u32, Vec<Owner>>,
    hidden: usize,
}

impl Owners {
    /// Who holds the socket of an inode number, by process; empty: nobody, or a process that is hidden.
    pub fn of(&self, inode: u32) -> &[Owner] {
        self.sockets.get(&inode).map_or(&[], Vec::as_slice)
    }

    /// All that was found, as (inode number of the socket, holder), in no order. Sockets of all kinds are among them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Owner)> {
        self.sockets.iter().flat_map(|(inode, owners)| owners.iter().map(|owner| (*inode, owner)))
    }

    /// The sockets' inode numbers that a process holds.
    pub fn sockets_of(&self, pid: u32) -> Vec<u32> {
        let mut inodes: Vec<u32> = self.iter().filter(|(_, owner)| owner.pid == pid).map(|(inode, _)| inode).collect();
        inodes.sort_unstable();
        inodes.dedup();
        inodes
    }

    /// Processes whose descriptors we may not see: those of other users, for an ordinary one.
    pub fn hidden(&self) -> usize {
        self.hidden
    }
}

/// Looks through the descriptors of all processes.
///
/// # Errors
/// Without /proc.
pub fn owners() -> Result<Owners, Error> {
    let mut owners = Owners::default();
    for pid in processes::all()? {
        let directory = format!("/proc/{pid}/fd");
        let descriptors = match numbers(&directory) {
            Ok(descriptors) => descriptors,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                owners.hidden += 1;
                continue;
            }
            // It has ended.
            Err(_) => continue,
        };
        let (mut name, mut is_hidden) = (None, false);
        for fd in descriptors {
            let link = fs::read_link(format!("{directory}/{fd}"));
            // With CAP_DAC_READ_SEARCH alone the descriptors are listed, and not what they are.
            is_hidden |= link.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
            let Some(inode) = link.ok().and_then(|link| parse_link(link.to_str()?)) else { continue };
            let name = name.get_or_insert_with(|| processes::name(pid));
            let Ok(fd) = RawFd::try_from(fd) else { continue };
            owners.sockets.entry(inode).or_default().push(Owner { pid, name: name.clone(), fd });
        }
        owners.hidden += usize::from(is_hidden);
    }
    Ok(owners)
}

/// `socket:[12345]` (net/socket.c, sockfs_dname).
pub(crate) fn parse_link(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capabilities belong to threads: this one gives one up.
    #[test]
    fn whose_descriptors_are_listed_and_may_not_be_looked_at_is_hidden() {
        use std::os::unix::process::CommandExt;
        if !nix::unistd::geteuid().is_root() {
            return weir_testbed::skip("only root has programs of another user");
        }
        let held = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let inode = nix::sys::stat::fstat(&held).unwrap().st_ino as u32;
        let held = std::os::fd::OwnedFd::from(held);
        let mut holder = std::process::Command::new("sleep").arg("1000").uid(1234).stdin(held).spawn().unwrap();
        let looked = std::thread::spawn(move || {
            let seen = owners().unwrap();
            caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_PTRACE).unwrap();
            (seen, owners().unwrap())
        });
        let (seen, unseen) = looked.join().unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(seen.of(inode).iter().any(|owner| owner.pid == holder.id()), "{seen:?}");
        assert!(unseen.of(inode).is_empty() && unseen.hidden() > seen.hidden(), "{}", unseen.hidden());
    }

    #[test]
    fn sockets_are_told_from_other_files() {
        assert_eq!(parse_link("socket:[70123]"), Some(70123));
        for other in ["pipe:[70123]", "/tmp/socket:[1]", "socket:[x]", "socket:[1", ""] {
            assert_eq!(parse_link(other), None);
        }
    }
}
