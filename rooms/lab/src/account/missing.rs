//! The balance of all messages: what is missing after all counters, and what arrived without being sent.

use weir_traffic::Transport;

use super::PathAccount;
use super::hosts::{counter, not_reassembled};
use super::kernels::{self, KernelDrop};
use crate::arrivals;
use crate::cell::Measured;
use crate::scenario::Mode;
use crate::topology::Flow;

/// Messages that are missing or extra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Balance {
    /// Sent, but neither received nor lost at an end or on a link.
    pub(super) missing: u64,
    /// Copies that no link made; a lower bound.
    pub(super) copies: u64,
    /// Datagrams that our senders did not send.
    pub(super) others: u64,
}

impl Balance {
    /// Compares sent messages and the links' copies with duplicates, unknown datagrams, and all that was received or
    /// lost at a counter (duplicates and unknown ones included).
    fn of(sent: u64, copied: u64, again: u64, foreign: u64, ended: u64) -> Self {
        let copies = again.saturating_sub(copied);
        let begun = sent + copied + copies;
        // Unknown datagrams may be ours, with a header that a link has altered.
        let more = ended.saturating_sub(begun);
        let others = more.min(foreign);
        Self { missing: begun.saturating_sub(ended), copies: copies + more - others, others }
    }
}

impl PathAccount<'_> {
    /// Messages over UDP that neither an end nor a link accounts for. `None`: it cannot be determined.
    pub(super) fn balance(&self) -> Option<Balance> {
        let is_known = self.transport == Transport::Udp && self.why_unknown().is_none();
        let (sent, received) = self.sent.zip(self.received).filter(|_| is_known)?;
        // Datagrams that reached the receiver's host and that no program took.
        let untaken = self.host_drops().or(received.socket_drops.map(|drops| drops + received.late_drops))?;
        let arrived: u64 = received.sessions.iter().map(|s| s.delivered + s.duplicates + s.stale).sum();
        let again = received.sessions.iter().map(|s| s.duplicates).sum();
        let ended = arrived + received.foreign + self.forward.dropped() + untaken;
        Some(Balance::of(sent.sent, self.forward.duplicated, again, received.foreign, ended))
    }

    /// Packets dropped in the kernels of hosts and routers on the way, before any socket: as many as are missing and as
    /// their counters allow.
    pub(super) fn kernel_drops(&self) -> Vec<KernelDrop> {
        let Measured { topology, kernels, links, .. } = self.measured;
        let missing = self.balance().map_or(0, |balance| balance.missing);
        let ipv4 = topology.traffic.destination.is_ipv4();
        kernels::drops(missing, ipv4, topology, &self.path.forward, kernels, links)
    }

    /// Messages that no counter accounts for. `None`: it cannot be determined, see [`Self::why_unknown`].
    pub(super) fn unexplained_messages(&self) -> Option<i64> {
        let dropped: u64 = self.kernel_drops().iter().map(|drop| drop.packets).sum();
        Some(self.balance()?.missing as i64 - dropped as i64)
    }

    /// Why the ledger cannot be closed. `None`: it can.
    pub(super) fn why_unknown(&self) -> Option<&'static str> {
        let Measured { topology, load, .. } = self.measured;
        let (traffic, forward) = (&self.cell.scenario.traffic, &self.forward);
        let headers = if topology.traffic.destination.is_ipv4() { 28 } else { 48 };
        let longest = u64::from(topology.mtu(&self.path.forward));
        let joined = traffic.mode == Mode::Bulk && forward.frames + forward.backlog > 0
            || traffic.batch.is_some() && forward.unread > 0;
        if self.bulk.is_some() {
            Some("iperf3 counts neither its warm-up nor what is still queued when it ends")
        } else if arrivals::longest(&self.cell.scenario, traffic) + headers > longest {
            Some("messages are larger than the path's MTU: fragments are not tracked")
        } else if forward.in_flight > 0 {
            Some("packets were still in flight when the counters were read")
        } else if load.is_some() && forward.duplicated + forward.emulator + forward.unread > 0 {
            Some("copies and drops of the emulator are counted together with those of the load")
        } else if joined {
            Some("the emulator counts what it could not take in frames, which may hold many datagrams")
        } else {
            None
        }
    }

    /// Whether all datagrams to the receiving host are the measured traffic.
    pub(super) fn has_host_for_itself(&self) -> bool {
        let Measured { topology, load, .. } = self.measured;
        let receiver = topology.traffic.receivers[self.receiver];
        let ends_here = |load: &Flow| load.sender == receiver || load.receivers.contains(&receiver);
        let datagrams = self.cell.scenario.load.as_ref().is_some_and(|load| load.transport != Transport::Tcp);
        !(load.is_some() && datagrams && topology.load.as_ref().is_some_and(ends_here))
    }

    /// Hosts and routers on the way that could not reassemble datagrams, one sentence each.
    pub(super) fn what_was_not_put_together(&self) -> Vec<String> {
        let Measured { topology, kernels, .. } = self.measured;
        let ipv4 = topology.traffic.destination.is_ipv4();
        let words = |node: usize| {
            let entry = &topology.nodes[node];
            not_reassembled(ipv4, counter(kernels[node].as_ref()?), &entry.kind.to_string(), &entry.name)
        };
        kernels::nodes(topology, &self.path.forward).into_iter().filter_map(words).collect()
    }

    /// What hosts and routers dropped and copied, one sentence each.
    pub(super) fn what_kernels_did(&self) -> Vec<String> {
        let place = |KernelDrop { node, cause, packets }: &KernelDrop| {
            let node = &self.measured.topology.nodes[*node];
            format!("{packets} datagrams were dropped on {} `{}`: {}", node.kind, node.name, cause.0)
        };
        let mut remarks: Vec<String> = self.kernel_drops().iter().map(place).collect();
        let Balance { copies, others, .. } = self.balance().unwrap_or_default();
        if copies > 0 {
            remarks.push(format!("more arrived than was sent: a host or router made {copies} copies"));
        }
        if others > 0 {
            remarks.push(format!("more arrived than was sent: {others} datagrams came from other senders"));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(missing: u64, copies: u64, others: u64) -> Balance {
        Balance { missing, copies, others }
    }

    #[test]
    fn what_came_too_often_is_a_copy_and_hides_no_loss() {
        // Sent, copied by links, received again, of others, and all that came or was lost.
        assert_eq!(Balance::of(100, 0, 0, 0, 100), balance(0, 0, 0));
        assert_eq!(Balance::of(100, 0, 0, 0, 75), balance(25, 0, 0));
        // A link copies ten; two of them are lost elsewhere.
        assert_eq!(Balance::of(100, 10, 8, 0, 108), balance(2, 0, 0));
        // A host copies each of them; and drops ten before that.
        assert_eq!(Balance::of(100, 0, 100, 0, 200), balance(0, 100, 0));
        assert_eq!(Balance::of(100, 0, 90, 0, 180), balance(10, 90, 0));
        // Copies of which a link loses half, and as many of the others.
        assert_eq!(Balance::of(100, 0, 25, 0, 200), balance(0, 100, 0));
        // Somebody else sends to the port.
        assert_eq!(Balance::of(100, 0, 0, 7, 107), balance(0, 0, 7));
        assert_eq!(Balance::of(100, 0, 5, 7, 115), balance(0, 8, 7));
        // What is of nobody may be ours, altered.
        assert_eq!(Balance::of(100, 0, 0, 7, 100), balance(0, 0, 0));
    }
}
