//! Datagrams in fragments, where they are counted otherwise than whole ones: those that wait, those that came without a
//! fragment that was lost on the way, and those that were begun before the trace.

use std::collections::{HashMap, HashSet};

use aya::maps::HashMap as KernelMap;

use super::programs::Programs;
use super::sys::{FragmentKey, Fragmented, Waiting};
use super::totals::{MOST_KEYS, now, unreadable};
use super::{Detail, Drop, FragmentCount};
use crate::Error;

/// What was found so far: the kernel's maps forget.
#[derive(Default)]
pub(super) struct Fragments {
    came_in_part: Counted,
    begun_before: Counted,
    /// Datagrams that were given up at the last look for those that were begun before.
    given_up: u64,
}

/// Datagrams that are counted once, however often they are found.
#[derive(Default)]
struct Counted {
    /// Those that were found; an identification comes again, at another time. A look at a map that others write to may pass
    /// one by, or come to it twice.
    found: HashSet<(FragmentKey, u64)>,
    /// By namespace and port.
    counts: HashMap<(u32, u16), u64>,
}

impl Fragments {
    /// Datagrams that wait and of which no piece is known to be lost: the others are among the `drops` already.
    pub(super) fn read<'a>(
        &mut self,
        programs: &Programs,
        drops: impl Iterator<Item = &'a Drop>,
    ) -> Result<u64, Error> {
        let waiting = KernelMap::<_, FragmentKey, Waiting>::try_from(programs.map("waiting")?).map_err(unreadable)?;
        let known =
            KernelMap::<_, FragmentKey, Fragmented>::try_from(programs.map("fragmented")?).map_err(unreadable)?;
        let now = now();
        let mut count = 0;
        let mut in_part = Vec::new();
        for entry in &waiting {
            let (key, value) = entry.map_err(unreadable)?;
            let of = |namespace| known.get(&FragmentKey { namespace, ..key }, 0).ok();
            let of_all = of(0);
            let lost = [of_all, of(key.namespace)].iter().flatten().any(|known| known.lost != 0);
            let port = if value.port != 0 { value.port } else { of_all.map_or(0, |known| known.port) };
            let followed = port == 0 || programs.follows_port(port);
            if !lost && followed && now.saturating_sub(value.since) < REASSEMBLY_NS {
                count += 1;
            }
            let is_settled = now.saturating_sub(value.since) > SETTLED_NS;
            if followed && is_settled && of_all.is_some_and(|known| came_in_part(&value, &known)) {
                in_part.push(((key, value.since), port));
            }
        }
        self.came_in_part.add(in_part);
        let given_up: u64 = drops.filter(|drop| is_given_up(drop)).map(|drop| drop.datagrams).sum();
        // Only what passes tells; and all of the map is read, which takes a while.
        if programs.detail == Detail::Everything && given_up != self.given_up {
            self.given_up = given_up;
            let mut before = Vec::new();
            for entry in known.iter().take(MOST_KEYS) {
                let (key, value) = entry.map_err(unreadable)?;
                let of_all = (key.namespace != 0).then(|| known.get(&FragmentKey { namespace: 0, ..key }, 0).ok());
                let has_passed = passed(&value) || of_all.flatten().is_some_and(|known| passed(&known));
                if value.lost != 0 && !has_passed && (value.port == 0 || programs.follows_port(value.port)) {
                    before.push(((key, value.lost), value.port));
                }
            }
            self.begun_before.add(before);
        }
        Ok(count)
    }

    pub(super) fn came_in_part(&self) -> Vec<FragmentCount> {
        self.came_in_part.counts()
    }

    pub(super) fn begun_before(&self) -> Vec<FragmentCount> {
        self.begun_before.counts()
    }
}

impl Counted {
    fn add(&mut self, found: Vec<((FragmentKey, u64), u16)>) {
        for &(datagram, port) in &found {
            if !self.found.insert(datagram) {
                continue;
            }
            let key = (datagram.0.namespace, port);
            if self.counts.len() < MOST_PORTS || self.counts.contains_key(&key) {
                *self.counts.entry(key).or_default() += 1;
            }
        }
        if self.found.len() > MOST_FOUND {
            self.found = found.into_iter().map(|(datagram, _)| datagram).collect();
        }
    }

    fn counts(&self) -> Vec<FragmentCount> {
        let count = |(&(namespace, port), &datagrams)| FragmentCount { namespace, port, datagrams };
        self.counts.iter().map(count).collect()
    }
}

/// Whether the first fragment came, and another was lost before it could. What is lost behind its arrival has all its
/// fragments there; or it is given up, later.
fn came_in_part(waiting: &Waiting, known: &Fragmented) -> bool {
    waiting.port != 0 && known.lost != 0 && known.lost < waiting.since + SHORTEST_REASSEMBLY_NS / 2
}

/// Whether any fragment was seen to pass an interface.
fn passed(known: &Fragmented) -> bool {
    known.point != 0 || known.namespace != 0
}

/// Whether it was lost while it waited for its other fragments.
fn is_given_up(drop: &Drop) -> bool {
    let by_function = drop.function.contains("frag") || drop.function.contains("ip_expire");
    !drop.outgoing && (by_function || drop.reason.contains("FRAG"))
}

/// The kernel gives up fragments after this time (net.ipv4.ipfrag_time), nanoseconds.
const REASSEMBLY_NS: u64 = 30_000_000_000;

/// Fragments follow one another: what has not come by then does not come. An account that settles takes longer.
const SETTLED_NS: u64 = 200_000_000;

/// The least that can be set: a second.
const SHORTEST_REASSEMBLY_NS: u64 = 1_000_000_000;

/// From here on those that are not there any more are forgotten: several times what the kernel's maps hold.
const MOST_FOUND: usize = 65_536;

/// Namespaces and ports, at most: ports are others' choice.
const MOST_PORTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_counts_once_until_its_identification_comes_again() {
        let datagram = |id: u32, at: u64| ((FragmentKey { from: [1; 4], to: [2; 4], id, namespace: 7 }, at), 5000);
        let mut counted = Counted::default();
        counted.add(vec![datagram(1, 10), datagram(2, 10)]);
        counted.add(vec![datagram(1, 10), datagram(2, 10), datagram(3, 20)]);
        counted.add(vec![datagram(1, 90)]);
        assert_eq!(counted.counts(), [FragmentCount { namespace: 7, port: 5000, datagrams: 4 }]);
        // A look that began again came to one twice, and the one before passed the other by.
        counted.add(vec![datagram(4, 95), datagram(3, 20), datagram(4, 95)]);
        assert_eq!(counted.counts(), [FragmentCount { namespace: 7, port: 5000, datagrams: 5 }]);
    }

    #[test]
    fn what_is_given_up_was_not_lost_on_the_way() {
        let waiting = |port| Waiting { since: 5_000_000_000, bytes: 8, total: 0, port, multicast: 0, unused: [0; 5] };
        let lost = |lost| Fragmented {
            lost,
            point: 1,
            port: 5000,
            from_port: 6,
            seen: 1,
            first_lost: 0,
            unused: 0,
            namespace: 7,
            unused_too: 0,
        };
        let told = [4_900_000_000, 5_100_000_000, 6_000_000_000, 0].map(|at| came_in_part(&waiting(5000), &lost(at)));
        assert_eq!(told, [true, true, false, false]);
        // Its first fragment did not come.
        assert!(!came_in_part(&waiting(0), &lost(4_900_000_000)));
    }
}
