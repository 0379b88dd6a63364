//! Which drops are of this ledger.

use weir_kernel::trace::Drop;

use super::LedgerBuilder;
use crate::account::evidence::SocketSeen;
use crate::places::{Place, Stage};

impl LedgerBuilder<'_> {
    /// Collects what was traced: all of it, or what happened after arrival.
    pub(super) fn add_drops(&mut self, all: bool) {
        for drop in &self.evidence.trace.drops {
            if !self.is_of_port(drop) {
                continue;
            }
            if is_anonymous(drop) {
                let own = Drop { datagrams: self.share_of(drop), namespace: self.home.unwrap_or(0), ..drop.clone() };
                self.places.add_drop(&own);
            } else if !self.is_on_the_way(drop) {
                continue;
            } else if all || self.is_after_arrival(drop) {
                self.places.add_drop(drop);
            } else {
                self.upstream.add_drop(drop);
            }
        }
    }

    pub(super) fn is_of_port(&self, drop: &Drop) -> bool {
        // A fragment whose first piece was never seen has no port.
        drop.port == self.endpoints.port
            || drop.port == 0 && drop.from_port == 0 && !drop.outgoing && !self.evidence.several_ports
    }

    pub(super) fn is_receiver(&self, cookie: u64) -> bool {
        self.endpoints.receivers.iter().any(|socket| socket.cookie == cookie)
    }

    /// The part of a drop without socket and namespace that is this receiver's. What is dropped out of a receive queue
    /// does not tell whose it was: a closed socket's balance, or a socket's own count of drops, does.
    pub(super) fn share_of(&self, drop: &Drop) -> u64 {
        if !self.endpoints.copies || self.endpoints.all.len() < 2 {
            return drop.datagrams;
        }
        let closed = Place::of_drop(&drop.reason, &drop.function, false) == Place::ClosedUnread;
        let room = |socket: &&SocketSeen| {
            let traced = self.evidence.trace.sockets.iter().find(|traced| traced.cookie == socket.cookie);
            if closed {
                let left = traced.map_or(0, |traced| traced.enqueued.saturating_sub(traced.reads));
                return if socket.gone { left } else { 0 };
            }
            let known = self.evidence.trace.drops.iter().filter(|drop| drop.cookie == socket.cookie && !drop.outgoing);
            socket.drops.saturating_sub(known.map(|drop| drop.buffers).sum())
        };
        let room: u64 = self.endpoints.receivers.iter().map(room).sum();
        drop.datagrams.min(room)
    }

    /// Whether a drop is on the way to this receiver.
    pub(super) fn is_on_the_way(&self, drop: &Drop) -> bool {
        if is_anonymous(drop) {
            return false;
        }
        let home = self.home;
        let from = |namespace: u32| self.senders.iter().any(|sender| sender.namespace == namespace);
        if drop.outgoing {
            // A group's copy for this host leaves the way before the interface's queue.
            let looped = self.endpoints.copies && home == Some(drop.namespace) && drop.interface != LOOPBACK;
            let place = Place::of_drop(&drop.reason, &drop.function, true);
            return !looped || place.stage() == Stage::Sending;
        }
        if drop.cookie != 0 {
            return self.is_receiver(drop.cookie);
        }
        if home == Some(drop.namespace) {
            return true;
        }
        if !self.endpoints.copies {
            return true;
        }
        let others = self.endpoints.all.iter().any(|socket| socket.namespace == drop.namespace);
        let stage = Place::of_drop(&drop.reason, &drop.function, false).stage();
        let only_passes = !matches!(stage, Stage::Port | Stage::Socket | Stage::Anywhere);
        !from(drop.namespace) && !others && only_passes && !self.endpoints.receivers.is_empty()
    }

    /// Whether a drop happened to a datagram that counts as arrived.
    pub(super) fn is_after_arrival(&self, drop: &Drop) -> bool {
        if self.evidence.partial.is_some() {
            return !drop.outgoing && drop.cookie != 0;
        }
        !drop.outgoing && self.home == Some(drop.namespace)
    }
}

/// The index of `lo` in every namespace (net/core/net_namespace.c, loopback_net_init).
const LOOPBACK: u32 = 1;

/// Whether a drop happened to what was in a socket's queue already.
pub(super) fn after_enqueue(drop: &Drop) -> bool {
    let function = drop.function.split('.').next().unwrap_or_default();
    match Place::of_drop(&drop.reason, &drop.function, false) {
        Place::ClosedUnread => true,
        // Found when it is read, or when poll looks at the first one (net/ipv4/udp.c, net/ipv6/udp.c).
        Place::UdpChecksum => matches!(
            function,
            "udp_recvmsg" | "udpv6_recvmsg" | "__first_packet_length" | "first_packet_length" | "udp_read_skb"
        ),
        _ => false,
    }
}

/// Whether neither its socket nor its namespace is known: it was in a receive queue.
pub(super) fn is_anonymous(drop: &Drop) -> bool {
    drop.cookie == 0 && drop.namespace == 0
}
