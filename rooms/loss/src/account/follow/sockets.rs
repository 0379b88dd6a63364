//! The sockets that are followed, from reading to reading.

use std::collections::BTreeSet;

use weir_kernel::counters::{Running, Width};
use weir_kernel::processes;
use weir_kernel::sockets::{self, UdpSocket};
use weir_trace::Trace;

use super::Following;
use crate::account::evidence::SocketSeen;
use crate::subject::Process;

/// A socket, from when it was first seen.
pub(super) struct Known {
    inode: u32,
    drops: Running,
    pub(super) socket: SocketSeen,
}

impl Following {
    pub(super) fn poll_sockets(&mut self, trace: &Trace) {
        self.reading += 1;
        let first = self.reading == 1;
        let mut unknown = false;
        for namespace in &mut self.namespaces {
            let sockets = namespace.sockets();
            let namespace = namespace.inode;
            let sockets = match sockets {
                Ok(sockets) => sockets,
                Err(error) => {
                    self.warnings.insert(format!("namespace {namespace}: {error}"));
                    continue;
                }
            };
            let mut here = BTreeSet::new();
            for socket in sockets {
                let key = (namespace, socket.cookie.unwrap_or(u64::from(socket.inode)));
                here.insert(key);
                let known = self.sockets.entry(key).or_insert_with(|| {
                    unknown = true;
                    Known::new(&socket, key, (!first).then_some(self.reading))
                });
                known.update(&socket);
            }
            let gone = self
                .sockets
                .iter_mut()
                .filter(|(key, known)| key.0 == namespace && !here.contains(key) && known.socket.went.is_none());
            for (_, known) in gone {
                known.socket.went = Some(self.reading);
                known.socket.gone = true;
                known.socket.queued = 0;
            }
        }
        if unknown {
            self.find_owners();
        }
        self.find_those_of_the_command(trace);
    }

    /// Sockets that the command was seen to use, whoever else holds them, or nobody any more.
    fn find_those_of_the_command(&mut self, trace: &Trace) {
        let (Some(process), Some(command)) = (&self.filter.process, &self.command) else { return };
        for known in self.sockets.values_mut().filter(|known| known.socket.has_cookie) {
            let socket = &mut known.socket;
            let is_own = socket.process.as_ref().is_some_and(|(pid, name)| process.is(*pid, name));
            if !is_own && trace.used_by_descendants.contains(&socket.cookie) {
                (socket.process, socket.by_descent) = (Some(command.clone()), true);
            }
        }
    }

    /// Which processes hold the sockets: as far as they may be looked at.
    fn find_owners(&mut self) {
        let Ok(owners) = sockets::owners() else { return };
        if let Some(Process::Command(pids)) = &mut self.filter.process {
            pids.extend(processes::descendants(std::process::id()));
        }
        let own = |pid: u32| matches!(&self.filter.process, Some(Process::Command(pids)) if pids.contains(&pid));
        for known in self.sockets.values_mut() {
            let socket = &mut known.socket;
            // Of the command's own it may only now be seen who holds them.
            let by_descent = socket.by_descent;
            if (socket.process.is_none() || by_descent)
                && let holders = owners.of(known.inode)
                && let any = holders.first().filter(|_| !by_descent)
                && let Some(owner) = holders.iter().find(|owner| own(owner.pid)).or(any)
            {
                (socket.process, socket.by_descent) = (Some((owner.pid, owner.name.clone())), false);
            }
        }
    }
}

impl Known {
    fn new(socket: &UdpSocket, key: (u32, u64), came: Option<u64>) -> Known {
        // One that came later has dropped nothing before.
        let drops = if came.is_some() { Running::from(0) } else { Running::new() };
        let queued_at_start = if came.is_some() { 0 } else { socket.memory.queued };
        Known {
            inode: socket.inode,
            drops,
            socket: SocketSeen {
                has_cookie: socket.cookie.is_some(),
                local: Some(socket.local),
                queued_at_start,
                gone: false,
                came,
                ..SocketSeen::traced(key.1, key.0)
            },
        }
    }

    fn update(&mut self, socket: &UdpSocket) {
        let seen = &mut self.socket;
        seen.drops = self.drops.add(socket.memory.drops.into(), Width::Bits32);
        seen.queued = socket.memory.queued;
        seen.receive_buffer = socket.memory.receive_buffer;
        (seen.local, seen.peer) = (Some(socket.local), socket.peer);
    }
}
