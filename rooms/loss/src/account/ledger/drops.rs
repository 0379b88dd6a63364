//! Which drops are of this ledger.

use std::ptr;

use weir_trace::{Detail, Drop};

use super::LedgerBuilder;
use crate::account::evidence::SocketSeen;
use crate::places::{Place, Stage};

/// A drop of this ledger.
pub(super) struct OwnDrop {
    /// Of those that name no socket and namespace, this receiver's part.
    pub(super) drop: Drop,
    /// Whether what was dropped counts as arrived.
    pub(super) after_arrival: bool,
    /// Whether it was in a socket's queue already.
    pub(super) after_enqueue: bool,
}

impl LedgerBuilder<'_> {
    /// Those of what was traced.
    pub(super) fn own_drops(&self) -> Vec<OwnDrop> {
        let own = |drop: &Drop| {
            let (anonymous, after_enqueue) = (is_anonymous(drop), after_enqueue(drop));
            if anonymous {
                let datagrams = self.share_of(drop);
                let (buffers, namespace) = (drop.buffers.min(datagrams), self.home.unwrap_or(0));
                let drop = Drop { datagrams, buffers, namespace, ..drop.clone() };
                return Some(OwnDrop { drop, after_arrival: true, after_enqueue });
            }
            let after_arrival = self.is_after_arrival(drop);
            self.is_on_the_way(drop).then(|| OwnDrop { drop: drop.clone(), after_arrival, after_enqueue })
        };
        self.evidence.trace.drops.iter().filter(|drop| self.is_of_port(drop)).filter_map(own).collect()
    }

    /// Collects all of them, or those after arrival.
    pub(super) fn add_drops(&mut self, all: bool) {
        for OwnDrop { drop, after_arrival, .. } in &self.drops {
            let tally = if all || *after_arrival { &mut self.places } else { &mut self.upstream };
            tally.add_drop(drop);
        }
    }

    /// Of what counts as arrived, what was dropped.
    pub(super) fn dropped_after_arrival(&self) -> u64 {
        self.drops.iter().filter(|own| own.after_arrival).map(|own| own.drop.datagrams).sum()
    }

    pub(super) fn is_of_port(&self, drop: &Drop) -> bool {
        drop.port == self.evidence.port
    }

    pub(super) fn is_receiver(&self, cookie: u64) -> bool {
        self.share.receivers.iter().any(|socket| socket.cookie == cookie)
    }

    /// The part of a drop without socket and namespace that is this receiver's. What is dropped out of a receive queue
    /// does not tell whose it was: a closed socket's balance, or a socket's own count of drops, does.
    pub(super) fn share_of(&self, drop: &Drop) -> u64 {
        let several = self.share.copies && self.evidence.sockets.len() > 1;
        let closed = Place::of_drop(&drop.reason, &drop.function, false) == Place::ClosedUnread;
        let found = drop.is_found_by_reader();
        let queues = self.evidence.detail >= Some(Detail::Queues);
        let is_listed = |socket: &&SocketSeen| !socket.gone && socket.local.is_some();
        let is_bounded = closed && queues || found && self.share.receivers.iter().all(is_listed);
        if !several && !is_bounded {
            return drop.datagrams;
        }
        let room: u64 = self.share.receivers.iter().map(|socket| self.unnamed_by(socket, closed)).sum();
        let alike =
            |other: &&Drop| is_anonymous(other) && self.is_of_port(other) && other.is_found_by_reader() == found;
        let all = self.evidence.trace.drops.iter().filter(alike);
        // Those before it have taken theirs.
        let before: u64 = all.take_while(|other| !ptr::eq(*other, drop)).map(|other| other.datagrams).sum();
        // Of joined ones a buffer is what a socket knows.
        if drop.buffers < drop.datagrams { drop.datagrams } else { drop.datagrams.min(room.saturating_sub(before)) }
    }

    /// What a socket left unread when it was closed; else what it counts as dropped, beyond what is known to be its own.
    fn unnamed_by(&self, socket: &SocketSeen, closed: bool) -> u64 {
        let known = self.evidence.trace.drops.iter().filter(|drop| drop.cookie == socket.cookie && !drop.outgoing);
        if !closed {
            return socket.drops.saturating_sub(known.map(|drop| drop.buffers).sum());
        }
        let lost: u64 = known.filter(|drop| after_enqueue(drop)).map(|drop| drop.buffers).sum();
        let traced = self.evidence.trace.sockets.iter().find(|traced| traced.cookie == socket.cookie && socket.gone);
        traced.map_or(0, |traced| {
            (traced.enqueued + traced.queued_before.unwrap_or(0)).saturating_sub(traced.reads + lost)
        })
    }

    /// Whether a drop is on the way to this receiver.
    pub(super) fn is_on_the_way(&self, drop: &Drop) -> bool {
        let home = self.home;
        if drop.outgoing {
            // A group's copy for this host leaves the way before the interface's queue.
            let looped = self.share.copies && home == Some(drop.namespace) && drop.interface != LOOPBACK;
            let place = Place::of_drop(&drop.reason, &drop.function, true);
            return !looped || place.stage() == Stage::Sending;
        }
        if drop.cookie != 0 {
            return self.is_receiver(drop.cookie);
        }
        if home == Some(drop.namespace) {
            return true;
        }
        if !self.share.copies {
            return true;
        }
        let others = self.evidence.sockets.iter().any(|socket| socket.namespace == drop.namespace);
        let stage = Place::of_drop(&drop.reason, &drop.function, false).stage();
        let only_passes = !matches!(stage, Stage::Port | Stage::Socket | Stage::Anywhere);
        !self.sender_namespaces.contains(&drop.namespace) && !others && only_passes && !self.share.receivers.is_empty()
    }

    /// Whether a drop happened to a datagram that counts as arrived.
    pub(super) fn is_after_arrival(&self, drop: &Drop) -> bool {
        if self.share.partial.is_some() {
            return !drop.outgoing && drop.cookie != 0;
        }
        !drop.outgoing && self.home == Some(drop.namespace)
    }
}

/// The index of `lo` in every namespace (net/core/net_namespace.c, loopback_net_init).
const LOOPBACK: u32 = 1;

/// Whether a drop happened to what was in a socket's queue already.
fn after_enqueue(drop: &Drop) -> bool {
    match Place::of_drop(&drop.reason, &drop.function, false) {
        Place::ClosedUnread => true,
        Place::UdpChecksum => drop.is_found_by_reader(),
        _ => false,
    }
}

/// Whether neither its socket nor its namespace is known: it was in a receive queue.
pub(super) fn is_anonymous(drop: &Drop) -> bool {
    drop.cookie == 0 && drop.namespace == 0
}
