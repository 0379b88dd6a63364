//! Room in the kernel's maps: what user space keeps instead, so that keys which others choose (ports, sockets that come and
//! go) cannot fill them for good.

use std::collections::HashMap;

use aya::maps::{Array, HashMap as KernelMap, MapError, PerCpuHashMap};

use super::programs::{Programs, refusal};
use super::sys::{self, Counts, DropKey, SocketValue};
use super::totals::sum;
use crate::Error;

/// The maps of drops by port.
pub(super) const DROPS: [&str; 3] = ["drops", "drops_at_sockets", "drops_by_port"];

/// More keys than this in the hash part of one of these crowd it: a quarter.
const CROWDED: [(&str, usize); 3] = [("drops", 4096), ("drops_at_sockets", 2048), ("drops_by_port", 1024)];

/// Drops kept by port, at most; of more the smaller half is kept by place.
const MOST_PORTS: usize = 1024;

/// Drops kept by place, at most; of more those of namespaces lose their namespace.
const MOST_PLACES: usize = 4096;

/// What was taken out of the kernel's maps.
#[derive(Default)]
pub(super) struct Room {
    /// What crowded each map when it was looked at last.
    before: HashMap<&'static str, HashMap<DropKey, Counts>>,
    by_port: HashMap<DropKey, Counts>,
    by_place: HashMap<DropKey, Removed>,
    /// Sockets removed from the hash map.
    removed_sockets: u64,
    /// Drops that were taken out of their map in two steps.
    in_two_steps: u64,
}

/// Datagrams, and how many of these were told by port before.
#[derive(Clone, Copy, Default)]
pub(super) struct Removed {
    pub(super) datagrams: u64,
    pub(super) moved: u64,
}

impl Room {
    pub(super) fn by_port(&self) -> impl Iterator<Item = (DropKey, Counts)> {
        self.by_port.iter().map(|(key, counts)| (*key, *counts))
    }

    pub(super) fn by_place(&self) -> HashMap<DropKey, Removed> {
        self.by_place.clone()
    }

    pub(super) fn removed_sockets(&self) -> u64 {
        self.removed_sockets
    }

    /// Drops of which one more may have come than is told: the kernel could not take them out of their map at once.
    pub(super) fn in_two_steps(&self) -> u64 {
        self.in_two_steps
    }

    /// Which of these drops are to leave their map: none where there is room, else those that have not changed since the
    /// call before.
    pub(super) fn crowding(&mut self, map: &'static str, drops: Vec<(DropKey, Counts)>) -> Vec<DropKey> {
        let before = self.before.remove(map).unwrap_or_default();
        let most = CROWDED.iter().find(|(name, _)| *name == map).map_or(0, |(_, most)| *most);
        if drops.len() <= most {
            return Vec::new();
        }
        let (still, moving): (Vec<_>, Vec<_>) =
            drops.into_iter().partition(|(key, counts)| before.get(key) == Some(counts));
        self.before.insert(map, moving.into_iter().collect());
        still.into_iter().map(|(key, _)| key).collect()
    }

    /// Takes all that was counted of a drop out of its map; `None`: it is not there. What comes while the maps are looked
    /// at is in it, or is counted under the same key anew.
    pub(super) fn take(&mut self, programs: &mut Programs, map: &str, key: &DropKey) -> Result<Option<Counts>, Error> {
        match sys::take(programs.map(map)?, key) {
            Ok(values) => return Ok(Some(sum(&values))),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            Err(error) if error.raw_os_error() == Some(ENOTSUPP) => {}
            Err(error) => return Err(refusal(MAKE_ROOM, &error)),
        }
        // What comes between the two steps is lost, and nobody knows whether anything did.
        let mut drops = PerCpuHashMap::<_, DropKey, Counts>::try_from(programs.map_mut(map)?).map_err(unchangeable)?;
        let Ok(values) = drops.get(key, 0) else { return Ok(None) };
        let counts = sum(&values);
        self.in_two_steps += u64::from(was_there(drops.remove(key))?);
        Ok(Some(counts))
    }

    /// Keeps drops that have left.
    pub(super) fn keep(&mut self, key: DropKey, counts: Counts) {
        let known = self.by_port.entry(DropKey { from_port: 0, interface: 0, ..key }).or_insert(NONE);
        *known = Counts { first: known.first + counts.first, second: known.second + counts.second };
    }

    /// Keeps by place what is too much by port: first what no open socket lost, and of that the least.
    pub(super) fn settle(&mut self, open: &dyn Fn(u64) -> bool) {
        if self.by_port.len() <= MOST_PORTS {
            return;
        }
        let mut all: Vec<(DropKey, Counts)> = self.by_port.drain().collect();
        let worth = |(key, counts): &(DropKey, Counts)| (key.cookie != 0 && open(key.cookie), counts.first);
        all.sort_unstable_by_key(|drop| std::cmp::Reverse(worth(drop)));
        let moved = all.split_off(MOST_PORTS / 2);
        self.by_port = all.into_iter().collect();
        for (key, counts) in moved {
            let mut key = DropKey { cookie: 0, interface: 0, port: 0, from_port: 0, ..key };
            if self.by_place.len() >= MOST_PLACES && !self.by_place.contains_key(&key) {
                key.namespace = 0;
            }
            let known = self.by_place.entry(key).or_default();
            known.datagrams += counts.first;
            known.moved += counts.first;
        }
    }

    /// Removes the states of sockets.
    pub(super) fn remove_sockets(
        &mut self,
        programs: &mut Programs,
        cookies: impl IntoIterator<Item = u64>,
    ) -> Result<(), Error> {
        for cookie in cookies {
            if remove_slot(programs, cookie)? {
                continue;
            }
            let mut sockets =
                KernelMap::<_, u64, SocketValue>::try_from(programs.map_mut("sockets")?).map_err(unchangeable)?;
            if was_there(sockets.remove(&cookie))? {
                self.removed_sockets += 1;
            }
        }
        Ok(())
    }
}

/// Frees the slot of a socket; `false`: it has none.
fn remove_slot(programs: &mut Programs, cookie: u64) -> Result<bool, Error> {
    let mut slots = Array::<_, SocketValue>::try_from(programs.map_mut("socket_slots")?).map_err(unchangeable)?;
    let slot = (cookie % u64::from(slots.len().max(1))) as u32;
    if slots.get(&slot, 0).map_err(unchangeable)?.cookie != cookie {
        return Ok(false);
    }
    slots.set(slot, SocketValue::NONE, 0).map_err(unchangeable)?;
    // Only now can another socket take it.
    let mut claims = Array::<_, u64>::try_from(programs.map_mut("socket_claims")?).map_err(unchangeable)?;
    claims.set(slot, 0, 0).map_err(unchangeable)?;
    Ok(true)
}

fn was_there(removed: Result<(), MapError>) -> Result<bool, Error> {
    match removed {
        Ok(()) => Ok(true),
        Err(MapError::KeyNotFound) => Ok(false),
        Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(unchangeable(error)),
    }
}

fn unchangeable(error: impl Into<MapError>) -> Error {
    refusal(MAKE_ROOM, &error.into())
}

const MAKE_ROOM: &str = "make room for what is traced";

/// The kernel's own number (include/linux/errno.h), of a map whose keys cannot be taken before 5.14.
const ENOTSUPP: i32 = 524;

const NONE: Counts = Counts { first: 0, second: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    fn drop_to(port: u16, cookie: u64) -> DropKey {
        DropKey {
            location: 1,
            cookie,
            namespace: 7,
            interface: 1,
            reason: 2,
            port,
            from_port: 6,
            outgoing: 0,
            unused: 0,
        }
    }

    fn counts(first: u64) -> Counts {
        Counts { first, second: first }
    }

    #[test]
    fn what_stands_still_leaves_a_crowded_map_and_nothing_else() {
        let mut room = Room::default();
        let few = vec![(drop_to(1, 0), counts(1))];
        assert!(room.crowding("drops", few.clone()).is_empty() && room.crowding("drops", few).is_empty());
        let mut many: Vec<_> = (0..5000).map(|port| (drop_to(port, 0), counts(1))).collect();
        assert!(room.crowding("drops", many.clone()).is_empty());
        many[0].1 = counts(2);
        assert_eq!(room.crowding("drops", many).len(), 4999);
    }

    #[test]
    fn open_sockets_and_the_largest_are_kept_by_port_and_nothing_is_lost() {
        let mut room = Room::default();
        for port in 0..3000 {
            room.keep(drop_to(port, 0), counts(1));
        }
        room.keep(drop_to(5000, 9), counts(1));
        room.keep(drop_to(5001, 0), counts(100));
        room.settle(&|cookie| cookie == 9);
        let by_port: HashMap<u16, u64> = room.by_port().map(|(key, counts)| (key.port, counts.first)).collect();
        assert_eq!((by_port.get(&5000), by_port.get(&5001)), (Some(&1), Some(&100)));
        let by_place: Vec<Removed> = room.by_place().into_values().collect();
        assert_eq!((by_place.len(), by_place[0].datagrams), (1, by_place[0].moved));
        assert_eq!(by_port.values().sum::<u64>() + by_place[0].datagrams, 3101);
    }
}
