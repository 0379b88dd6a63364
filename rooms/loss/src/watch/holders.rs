//! Which process has a socket open: looked up once a socket, for it takes a walk through all of /proc.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_kernel::sockets::owners;

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// By inode number of the socket.
    known: HashMap<u32, Vec<Holder>>,
    /// When it was looked last, and how long that took.
    looked: Option<(Instant, Duration)>,
    /// Some processes may not be looked at.
    pub(super) some_hidden: bool,
}

/// A process that has a socket open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) name: String,
}

impl Holders {
    /// Looks who holds these, unless that is known or was looked for just before.
    pub(super) fn learn(&mut self, inodes: impl Iterator<Item = u32>) {
        let inodes: Vec<u32> = inodes.collect();
        let is_due = self.looked.is_none_or(|(when, took)| when.elapsed() >= took * REST);
        if !is_due || inodes.iter().all(|inode| *inode == 0 || self.known.contains_key(inode)) {
            return;
        }
        let start = Instant::now();
        // Without /proc nobody is known.
        let owners = owners().unwrap_or_default();
        let holders = |inode: u32| -> Vec<Holder> {
            let mut holders: Vec<Holder> =
                owners.of(inode).iter().map(|owner| Holder { pid: owner.pid, name: owner.name.clone() }).collect();
            holders.dedup();
            holders
        };
        self.some_hidden = owners.hidden() > 0;
        self.known = inodes.into_iter().map(|inode| (inode, holders(inode))).collect();
        self.looked = Some((Instant::now(), start.elapsed()));
    }

    /// Who holds a socket; empty: not known.
    pub(super) fn of(&self, inode: u32) -> &[Holder] {
        self.known.get(&inode).map_or(&[], Vec::as_slice)
    }
}

/// A look that took so long is followed by so many times as long without one: at most 5 % of a processor.
const REST: u32 = 20;
