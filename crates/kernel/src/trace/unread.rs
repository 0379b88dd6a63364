//! Whose were datagrams that were lost out of a receive queue?
//!
//! While a datagram is in a queue the kernel keeps other things in the place of its device, and when the queue is emptied
//! at the end of its socket, or a checksum is found wrong by a reader, it does not name the socket. The ports are known,
//! and how many each socket with that port has not read.

use std::collections::{HashMap, HashSet};

use super::SocketTrace;
use super::sys::{Counts, DropKey};

/// What was found out so far; it stays with the socket that it was given to.
#[derive(Default)]
pub(super) struct Unread {
    given: HashMap<DropKey, HashMap<u64, Given>>,
    /// Buffers given by socket.
    taken: HashMap<u64, u64>,
}

/// What a socket was given, and its namespace.
#[derive(Clone, Copy)]
struct Given {
    namespace: u32,
    counts: Counts,
}

const NONE: Counts = Counts { first: 0, second: 0 };

impl Unread {
    /// Names the sockets of `drops` that have none, where there is no doubt.
    pub(super) fn assign(&mut self, drops: Vec<(DropKey, Counts)>, sockets: &[SocketTrace]) -> Vec<(DropKey, Counts)> {
        let (unnamed, mut all): (Vec<_>, Vec<_>) = drops.into_iter().partition(|(key, _)| key.namespace == 0);
        let mut ports: HashMap<u16, Vec<(DropKey, Counts)>> = HashMap::new();
        // Ports and sockets may both be tens of thousands.
        let mut sockets_of: HashMap<u16, Vec<&SocketTrace>> = HashMap::new();
        sockets.iter().for_each(|socket| sockets_of.entry(socket.port).or_default().push(socket));
        for (key, counts) in unnamed {
            let given = self.given.entry(key).or_default();
            let of_all = given.values().fold(NONE, |sum, one| plus(sum, one.counts));
            let rest = Counts { first: counts.first - of_all.first, second: counts.second - of_all.second };
            ports.entry(key.port).or_default().push((key, rest));
        }
        for (port, mut rests) in ports {
            let buffers = rests.iter().map(|(_, rest)| rest.second).sum();
            if let Some(socket) = self.owner(buffers, sockets_of.get(&port).map_or(&[], Vec::as_slice)) {
                for (key, rest) in &mut rests {
                    let nothing = Given { namespace: socket.namespace, counts: NONE };
                    let given = self.given.entry(*key).or_default().entry(socket.cookie).or_insert(nothing);
                    given.counts = plus(given.counts, *rest);
                    *self.taken.entry(socket.cookie).or_default() += rest.second;
                    *rest = NONE;
                }
            }
            for (key, rest) in rests {
                all.extend(self.of(&key));
                all.push((key, rest));
            }
        }
        all.retain(|(_, counts)| *counts != NONE);
        all
    }

    /// What sockets were given of these drops.
    fn of(&self, key: &DropKey) -> impl Iterator<Item = (DropKey, Counts)> {
        let key = *key;
        let given = self.given.get(&key).into_iter().flatten();
        given.map(move |(&cookie, given)| (DropKey { cookie, namespace: given.namespace, ..key }, given.counts))
    }

    /// Forgets drops that are counted here no more. Returns them with the sockets that they were given to.
    pub(super) fn forget(&mut self, key: DropKey, counts: Counts) -> Vec<(DropKey, Counts)> {
        let mut all: Vec<(DropKey, Counts)> = self.of(&key).collect();
        let of_all = all.iter().fold(NONE, |sum, (_, one)| plus(sum, *one));
        all.push((key, Counts { first: counts.first - of_all.first, second: counts.second - of_all.second }));
        self.given.remove(&key);
        all
    }

    /// Forgets what closed sockets have lost: there is nothing more to give them.
    pub(super) fn close(&mut self, closed: &HashSet<u64>) {
        self.taken.retain(|cookie, _| !closed.contains(cookie));
    }

    /// The only one of a port's sockets that had any unread, or the only one that had just as many.
    fn owner<'a>(&self, buffers: u64, sockets: &[&'a SocketTrace]) -> Option<&'a SocketTrace> {
        let unread = |socket: &SocketTrace| {
            let taken = self.taken.get(&socket.cookie).copied().unwrap_or(0);
            socket.enqueued.saturating_sub(socket.reads + taken)
        };
        let candidates: Vec<&SocketTrace> =
            sockets.iter().copied().filter(|own| unread(own) >= buffers && buffers > 0).collect();
        if let [only] = candidates[..] {
            return Some(only);
        }
        let mut exact = candidates.into_iter().filter(|own| unread(own) == buffers);
        exact.next().filter(|_| exact.next().is_none())
    }
}

fn plus(sum: Counts, one: Counts) -> Counts {
    Counts { first: sum.first + one.first, second: sum.second + one.second }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(cookie: u64, enqueued: u64, reads: u64) -> SocketTrace {
        SocketTrace { cookie, namespace: cookie as u32 * 10, port: 5000, enqueued, reads, ..SocketTrace::default() }
    }

    fn lost(buffers: u64) -> Vec<(DropKey, Counts)> {
        let key = DropKey {
            location: 1,
            cookie: 0,
            namespace: 0,
            interface: 1,
            reason: 2,
            port: 5000,
            from_port: 6,
            outgoing: 0,
            unused: 0,
        };
        vec![(key, Counts { first: buffers, second: buffers })]
    }

    fn owners(drops: &[(DropKey, Counts)]) -> Vec<(u64, u32, u64)> {
        let mut owners: Vec<_> = drops.iter().map(|(key, counts)| (key.cookie, key.namespace, counts.first)).collect();
        owners.sort();
        owners
    }

    #[test]
    fn the_one_who_had_them_unread_lost_them_and_keeps_the_loss() {
        let mut unread = Unread::default();
        let sockets = [socket(1, 10, 10), socket(2, 10, 1)];
        assert_eq!(owners(&unread.assign(lost(9), &sockets)), [(2, 20, 9)]);
        // The next has the same port; the first keeps what it lost.
        let sockets = [socket(1, 10, 10), socket(2, 10, 1), socket(3, 7, 0), socket(4, 8, 0)];
        assert_eq!(owners(&unread.assign(lost(16), &sockets)), [(2, 20, 9), (3, 30, 7)]);
    }

    #[test]
    fn sockets_of_other_ports_are_no_doubt() {
        let sockets = [SocketTrace { port: 5001, ..socket(1, 10, 1) }, socket(2, 10, 1)];
        assert_eq!(owners(&Unread::default().assign(lost(9), &sockets)), [(2, 20, 9)]);
        assert_eq!(owners(&Unread::default().assign(lost(9), &sockets[..1])), [(0, 0, 9)]);
    }

    #[test]
    fn in_doubt_nobody_is_named() {
        let sockets = [socket(1, 10, 0), socket(2, 10, 0)];
        assert_eq!(owners(&Unread::default().assign(lost(9), &sockets)), [(0, 0, 9)]);
        assert_eq!(owners(&Unread::default().assign(lost(10), &sockets)), [(0, 0, 10)]);
        assert_eq!(owners(&Unread::default().assign(lost(11), &sockets)), [(0, 0, 11)]);
    }
}
