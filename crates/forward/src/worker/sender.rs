//! How the datagrams of an egress leave: by a socket, by finished packets, by a session for each client.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weir_dgram::{RawSender, Socket};

use super::batch::Origin;
use super::join::Run;
use super::packetize::{Packetizer, Preserved};
use super::send::{SendStatistics, send};
use super::sessions::Sessions;
use super::turn::Scratch;
use crate::plan::Outlet;
use crate::settings::{Destination, Replies};
use crate::sockets::EgressSocket;

/// How datagrams leave.
pub(super) enum Sender {
    /// Not at all: there is no socket.
    None,
    /// `most_hops`: as in [`send`].
    Connected {
        socket: Arc<Socket>,
        most_hops: Option<u8>,
    },
    /// By the session of each client.
    Sessions(Box<Sessions>),
    Raw(Arc<RawSender>, Packetizer),
    #[cfg(test)]
    Scripted(super::tests::Scripted),
}

impl Sender {
    /// As the outlet wants it, by these sockets; of sessions, this is one of so many workers that share them.
    pub(super) fn new(outlet: &Outlet, socket: EgressSocket, workers: usize) -> Self {
        match (socket, outlet.address) {
            (EgressSocket::Connected(socket), _) => Self::Connected { socket, most_hops: most_hops(&outlet.settings) },
            (EgressSocket::Raw(sender), Some(to)) => Self::Raw(sender, Packetizer::new(to, &outlet.settings)),
            (EgressSocket::Sessions(options), Some(to)) => {
                let Some(replies) = share(outlet, workers) else { return Self::None };
                Self::Sessions(Box::new(Sessions::new(to, &outlet.settings, options, replies)))
            }
            (EgressSocket::Raw(_) | EgressSocket::Sessions(_), None)
            | (EgressSocket::Unresolved | EgressSocket::Closed(_), _) => Self::None,
        }
    }

    /// What epoll watches while the lane is blocked.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Connected { socket, .. } => Some(socket.as_fd()),
            Self::Raw(sender, _) => Some(sender.as_fd()),
            // They tell of answers; what they do not take at once is dropped.
            Self::Sessions(_) | Self::None => None,
            #[cfg(test)]
            Self::Scripted(_) => None,
        }
    }

    /// The socket, where what comes leaves as it is.
    pub(super) fn plain(&self) -> Option<&Socket> {
        match self {
            Self::Connected { socket, most_hops: None } => Some(socket),
            _ => None,
        }
    }

    /// Sends runs, each with its sender, in order; `None`: there is no socket.
    pub(super) fn send<'a>(
        &mut self,
        runs: impl Iterator<Item = (Run<'a>, Origin)>,
        scratch: &mut Scratch,
    ) -> Option<SendStatistics> {
        scratch.send.outcomes.clear();
        match self {
            Self::None => None,
            #[cfg(test)]
            Self::Scripted(socket) => Some(send(&*socket, None, runs.map(|(run, _)| run), &mut scratch.send)),
            Self::Sessions(sessions) => Some(sessions.send(runs, &mut scratch.send)),
            Self::Connected { socket, most_hops } => {
                Some(send(&**socket, *most_hops, runs.map(|(run, _)| run), &mut scratch.send))
            }
            Self::Raw(sender, packetizer) => {
                let preserved = runs.flat_map(|(run, Origin { source, .. })| {
                    run.singles().map(move |Run { head, body, hops, .. }| Preserved {
                        source,
                        hops,
                        parts: [head, body],
                    })
                });
                // Not the fast way: a list a batch is little beside a packet and its checksum for each datagram.
                let preserved: Vec<_> = preserved.collect();
                Some(packetizer.send(sender, &preserved, &mut scratch.packing, &mut scratch.send.outcomes))
            }
        }
    }
}

/// How many hops a datagram may leave with, if those that it has left count.
pub(super) fn most_hops(destination: &Destination) -> Option<u8> {
    destination.hop_guard.then(|| destination.ttl.unwrap_or(u8::MAX))
}

/// A worker's share of a destination's sessions; `None`: nobody hears its answers.
pub(super) fn share(outlet: &Outlet, workers: usize) -> Option<Replies> {
    let Replies { sessions, timeout } = outlet.settings.answers()?;
    Some(Replies { sessions: (sessions / workers.max(1)).max(1), timeout })
}
