//! Running receivers, and sockets beside them that lose.

use std::collections::HashMap;

use anyhow::{Result, bail};
use nix::unistd::geteuid;
use weir_kernel::sockets::{Owner, UdpSocket, owners};

use super::{Counted, Receiver, Scope};

/// The receivers that were asked for, of all sockets.
pub(super) fn find_receivers(all: &[UdpSocket], scope: &Scope, unseen: &mut Vec<String>) -> Result<Vec<Receiver>> {
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
    let found: Vec<&UdpSocket> = all.iter().filter(|socket| wanted(socket)).collect();
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
    let receiver = |socket: &UdpSocket| {
        let owner = owners.of(socket.inode).iter().find(|owner| holds(owner));
        if owner.is_none() {
            let line = format!("whose socket {} is (run as root)", socket.local);
            // Several sockets of an address: once.
            if !unseen.contains(&line) {
                unseen.push(line);
            }
        }
        of(socket, owner, 0)
    };
    Ok(found.into_iter().map(receiver).collect())
}

/// A socket as a receiver, `recent` drops of which are of the time that is watched.
fn of(socket: &UdpSocket, owner: Option<&Owner>, recent: u32) -> Receiver {
    Receiver {
        address: socket.local,
        cookie: socket.cookie.unwrap_or(0),
        inode: socket.inode,
        pid: owner.map(|owner| owner.pid),
        process: owner.map(|owner| owner.name.clone()),
        buffer: socket.memory.receive_buffer.unwrap_or(0).into(),
        level: socket.memory.rmem_alloc.into(),
        drops: Counted { total: socket.memory.drops.into(), recent: recent.into() },
        hangs: false,
    }
}

/// Enters what the receivers have dropped since `before`; returns other sockets that have dropped something, then or since.
pub(super) fn enter_drops(
    before: &[UdpSocket],
    now: Vec<UdpSocket>,
    receivers: &mut [Receiver],
) -> Result<Vec<Receiver>> {
    let earlier: HashMap<(u64, u32), u32> = before.iter().map(|socket| (key(socket), socket.memory.drops)).collect();
    let recent =
        |socket: &UdpSocket| earlier.get(&key(socket)).map(|earlier| socket.memory.drops.wrapping_sub(*earlier));
    let mut found = Vec::new();
    for socket in now {
        let Some(recent) = recent(&socket) else { continue };
        match receivers.iter_mut().find(|receiver| (receiver.cookie, receiver.inode) == key(&socket)) {
            Some(receiver) => {
                receiver.level = socket.memory.rmem_alloc.into();
                receiver.drops = Counted { total: socket.memory.drops.into(), recent: recent.into() };
            }
            None if socket.memory.drops > 0 => found.push((socket, recent)),
            None => {}
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let owners = owners()?;
    let of = |(socket, recent): (UdpSocket, u32)| of(&socket, owners.of(socket.inode).first(), recent);
    let mut losing: Vec<Receiver> = found.into_iter().map(of).collect();
    losing.sort_by_key(|receiver| std::cmp::Reverse((receiver.drops.recent, receiver.drops.total)));
    losing.truncate(MOST_LOSING);
    Ok(losing)
}

/// Sockets that are named though nobody asked for them.
const MOST_LOSING: usize = 20;

fn key(socket: &UdpSocket) -> (u64, u32) {
    (socket.cookie.unwrap_or(0), socket.inode)
}
