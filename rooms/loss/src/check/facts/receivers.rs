//! Running receivers, and sockets beside them that lose.

use std::collections::{BTreeSet, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::unistd::geteuid;
use weir_kernel::sockets::{Owner, Sockets, UdpSocket, owners};

use super::{Counted, Receiver, Scope};

/// A receiver that is watched.
pub(super) struct Watched {
    cookie: Option<u64>,
    inode: u32,
    drops: u32,
    pub(super) fact: Receiver,
}

pub(super) fn find_receivers(sockets: &mut Sockets, scope: &Scope, unseen: &mut Vec<String>) -> Result<Vec<Watched>> {
    if !scope.is_followed() {
        return Ok(Vec::new());
    }
    let owners = owners()?;
    let holds = |owner: &Owner| scope.process.as_ref().is_none_or(|process| process.is(owner.pid, &owner.name));
    let wanted = |socket: &UdpSocket| {
        let port = scope.ports.is_empty() || scope.ports.contains(&socket.local.port());
        let group = scope.group.is_none_or(|group| socket.local.ip().is_unspecified() || socket.local.ip() == group);
        let process = scope.process.is_none() || owners.of(socket.inode).iter().any(holds);
        port && group && process
    };
    let found: Vec<UdpSocket> = sockets.read()?.into_iter().filter(wanted).collect();
    if found.is_empty() {
        if let Some(process) = scope.process.as_ref().filter(|process| !process.runs()) {
            bail!("process {process}: there is no such process");
        }
        let hidden = owners.hidden();
        let processes = if hidden == 1 { "process" } else { "processes" };
        let hidden = match (hidden, geteuid().is_root()) {
            (0, _) => String::new(),
            (_, true) => format!(" ({hidden} {processes} may not be looked at)"),
            (1, false) => " (1 process of another user is hidden: run as root)".to_owned(),
            (_, false) => format!(" ({hidden} {processes} of other users are hidden: run as root)"),
        };
        bail!("{}: no UDP socket of that kind is open{hidden}", scope.words());
    }
    let receiver = |socket: UdpSocket| {
        let owner = owners.of(socket.inode).iter().find(|owner| holds(owner));
        if owner.is_none() {
            let line = format!("whose socket {} is (run as root)", socket.local);
            // Several sockets of an address: once.
            if !unseen.contains(&line) {
                unseen.push(line);
            }
        }
        let fact = Receiver { level: 0, ..of(&socket, owner, 0) };
        Watched { cookie: socket.cookie, inode: socket.inode, drops: socket.memory.drops, fact }
    };
    Ok(found.into_iter().map(receiver).collect())
}

/// A socket as a receiver, `recent` drops of which are of the time that is watched.
fn of(socket: &UdpSocket, owner: Option<&Owner>, recent: u32) -> Receiver {
    Receiver {
        address: socket.local,
        cookie: socket.cookie.unwrap_or(0),
        pid: owner.map(|owner| owner.pid),
        process: owner.map(|owner| owner.name.clone()),
        buffer: socket.memory.receive_buffer.unwrap_or(0).into(),
        level: socket.memory.rmem_alloc.into(),
        drops: Counted { total: socket.memory.drops.into(), recent: recent.into() },
        hangs: false,
    }
}

/// What sockets that are not followed have dropped so far, by cookie.
pub(super) fn others(sockets: &mut Sockets, receivers: &[Watched]) -> Result<HashMap<u64, u32>> {
    let followed: BTreeSet<Option<u64>> = receivers.iter().map(|watched| watched.cookie).collect();
    let others = sockets.read()?.into_iter().filter(|socket| !followed.contains(&socket.cookie));
    Ok(others.filter_map(|socket| Some((socket.cookie?, socket.memory.drops))).collect())
}

/// Those of them that have dropped something, now or before.
pub(super) fn losing(sockets: &mut Sockets, before: &HashMap<u64, u32>) -> Result<Vec<Receiver>> {
    let is_losing = |socket: &UdpSocket| {
        socket.memory.drops > 0 && socket.cookie.is_some_and(|cookie| before.contains_key(&cookie))
    };
    let found: Vec<UdpSocket> = sockets.read()?.into_iter().filter(is_losing).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let owners = owners()?;
    let receiver = |socket: UdpSocket| {
        let owner = owners.of(socket.inode).first();
        let earlier = socket.cookie.and_then(|cookie| before.get(&cookie).copied()).unwrap_or(socket.memory.drops);
        of(&socket, owner, socket.memory.drops.wrapping_sub(earlier))
    };
    let mut losing: Vec<Receiver> = found.into_iter().map(receiver).collect();
    losing.sort_by_key(|receiver| std::cmp::Reverse((receiver.drops.recent, receiver.drops.total)));
    losing.truncate(MOST_LOSING);
    Ok(losing)
}

/// Sockets that are named though nobody asked for them.
const MOST_LOSING: usize = 20;

/// Looks at receivers until the time is over; returns the levels that were seen.
pub(super) fn watch(sockets: &mut Sockets, receivers: &mut [Watched]) -> Result<BTreeSet<u64>> {
    let begin = Instant::now();
    let mut levels = BTreeSet::new();
    if receivers.is_empty() {
        thread::sleep(WINDOW);
        return Ok(levels);
    }
    let mut over = false;
    // The last look is behind the end: what was dropped until then is in it.
    while !over {
        over = begin.elapsed() >= WINDOW;
        for socket in sockets.read()? {
            let same = |watched: &Watched| watched.cookie == socket.cookie && watched.inode == socket.inode;
            if let Some(at) = receivers.iter().position(same) {
                let watched = &mut receivers[at];
                let level = u64::from(socket.memory.rmem_alloc);
                watched.fact.level = watched.fact.level.max(level);
                watched.fact.drops = Counted {
                    total: socket.memory.drops.into(),
                    recent: socket.memory.drops.wrapping_sub(watched.drops).into(),
                };
                levels.insert(level);
            }
        }
        if !over {
            thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(levels)
}

/// The memory of one datagram, where all are alike: what all levels are multiples of. `None`: too few levels were seen to
/// tell.
pub(super) fn weigh(levels: &BTreeSet<u64>) -> Option<u64> {
    let levels: Vec<u64> = levels.iter().copied().filter(|level| *level > 0).collect();
    let common = levels.iter().copied().fold(0, greatest_common_divisor);
    (levels.len() >= ENOUGH_LEVELS && common >= LEAST_TRUESIZE).then_some(common)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// How long counters are watched.
const WINDOW: Duration = Duration::from_millis(1000);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Fewer may have a larger divisor by chance.
const ENOUGH_LEVELS: usize = 8;

/// No datagram takes less (a struct sk_buff alone is larger).
const LEAST_TRUESIZE: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagrams_memory_is_what_all_levels_share() {
        let levels = |factors: &[u64]| factors.iter().map(|factor| factor * 832).collect::<BTreeSet<u64>>();
        assert_eq!(weigh(&levels(&[0, 7, 3, 12, 31, 8, 9, 10, 11])), Some(832));
        assert_eq!(weigh(&levels(&[2, 4])), None);
        assert_eq!(weigh(&(1..20).collect()), None);
    }
}
