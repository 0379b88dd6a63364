//! What became of every message: what is missing behind all that was counted, and what came although nobody sent it.

use weir_traffic::{ReceiveReport, SendReport, Transport, longest_datagram};

use super::hosts::{counter, not_reassembled, udp_lost};
use super::kernels::{self, KernelDrop};
use super::{PathAccount, PathTotals};
use crate::arrivals;
use crate::cell::Measured;
use crate::scenario::Mode;
use crate::topology::{Flow, Kind};

/// Messages that are missing, or are too many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Balance {
    /// Sent, and neither received nor lost at an end or a link.
    pub(super) missing: u64,
    /// Copies that no link made: at least so many.
    pub(super) copies: u64,
    /// Datagrams of others, which nobody of ours sent.
    pub(super) others: u64,
}

impl Balance {
    /// Of what was sent and copied by links, what came a second time, what was of nobody we know, and all that came or was
    /// lost where it is counted, these two included.
    fn of(sent: u64, copied: u64, again: u64, foreign: u64, ended: u64) -> Self {
        let copies = again.saturating_sub(copied);
        let begun = sent + copied + copies;
        // What is of nobody we know may be ours all the same, with a header that a link has altered.
        let more = ended.saturating_sub(begun);
        let others = more.min(foreign);
        Self { missing: begun.saturating_sub(ended), copies: copies + more - others, others }
    }
}

impl PathAccount<'_> {
    /// Packets that ended in the kernels of hosts and routers on the way, before any socket: as many as are missing and their
    /// counters allow for. Of what is sent again when it is lost as many as they are sure of.
    pub(super) fn kernel_drops(&self) -> Vec<KernelDrop> {
        let Measured { topology, kernels, links, .. } = self.measured;
        let (missing, of_streams) = match self.cell.scenario.traffic.transport {
            Transport::Udp => (self.balance().map_or(0, |balance| balance.missing), false),
            Transport::QuicDatagram => (self.lost_elsewhere(), false),
            Transport::Tcp | Transport::Quic => (self.sent_in_vain(), true),
        };
        let ipv4 = topology.traffic.destination.is_ipv4();
        kernels::drops(missing, of_streams, ipv4, topology, &self.path.forward, kernels, links)
    }

    /// Messages that no counter accounts for. `None` where that cannot be told, see [`Self::unknown`].
    pub(super) fn unexplained_messages(&self) -> Option<i64> {
        let dropped: u64 = self.kernel_drops().iter().map(|drop| drop.packets).sum();
        if self.cell.scenario.traffic.transport == Transport::Udp {
            return Some(self.balance()?.missing as i64 - dropped as i64);
        }
        let (lost, places) = self.lost_in_packets()?;
        Some(lost.saturating_sub((places + dropped).saturating_mul(self.messages_a_packet())) as i64)
    }

    /// UDP: what neither an end nor a link accounts for. `None` where that cannot be told, see [`Self::unknown`].
    pub(super) fn balance(&self) -> Option<Balance> {
        let (sent, received, forward) = self.ends_and_links()?;
        if self.cell.scenario.traffic.transport != Transport::Udp {
            return None;
        }
        let arrived: u64 = received.sessions.iter().map(|s| s.delivered + s.duplicates + s.stale).sum();
        let again = received.sessions.iter().map(|s| s.duplicates).sum();
        let ended = arrived + received.foreign + dropped_on_links(&forward) + self.dropped_at_receiver(received)?;
        Some(Balance::of(sent.sent, forward.duplicated, again, received.foreign, ended))
    }

    /// QUIC datagrams: the messages that were lost on the way, and packets that were lost where it is counted. `None` where
    /// that cannot be told.
    fn lost_in_packets(&self) -> Option<(u64, u64)> {
        let (sent, received, forward) = self.ends_and_links()?;
        let lost = sent.sent.saturating_sub(self.session().map_or(0, |session| session.delivered));
        Some((lost, dropped_on_links(&forward) + self.dropped_at_receiver(received)?))
    }

    /// QUIC datagrams: messages that are missing beyond a packet each that is known to be lost.
    fn lost_elsewhere(&self) -> u64 {
        self.lost_in_packets().map_or(0, |(lost, places)| lost.saturating_sub(places))
    }

    /// How many messages a packet of QUIC holds at most.
    pub(super) fn messages_a_packet(&self) -> u64 {
        let Measured { topology, .. } = self.measured;
        let to = (topology.traffic.destination, self.cell.scenario.traffic.port).into();
        // The longest one leaves 9 bytes to the type and length of its frame; a short one needs 2 of them.
        let room = longest_datagram(to) as u64 + 9;
        (room / (self.cell.scenario.traffic.payload.bytes + 2)).max(1)
    }

    /// TCP, QUIC streams: packets that were sent again or never arrived, at most. Of a connection that did not come up nobody
    /// knows.
    fn sent_in_vain(&self) -> u64 {
        let again = match (self.messages(), self.bulk()) {
            (Some((sent, _)), _) => {
                let delivered = self.session().map_or(0, |session| session.delivered);
                let connected = sent.connect.is_some().then(|| sent.sent_again()).flatten();
                connected.map(|again| again.saturating_add(sent.sent.saturating_sub(delivered)))
            }
            (None, Some(report)) => report.retransmits.filter(|_| report.connected == report.streams),
            (None, None) => Some(0),
        };
        again.unwrap_or(u64::MAX)
    }

    /// Both ends, and the way between them; `None`: not of messages, or not all can be told.
    fn ends_and_links(&self) -> Option<(&SendReport, &ReceiveReport, PathTotals)> {
        let (sent, received) = self.messages()?;
        let forward = self.totals(&self.path.forward);
        self.unknown(&forward).is_none().then_some((sent, &received[self.receiver], forward))
    }

    /// Datagrams that came to the receiver's host and that nobody took.
    fn dropped_at_receiver(&self, received: &ReceiveReport) -> Option<u64> {
        self.host_drops().or(received.socket_drops.map(|drops| drops + received.late_drops))
    }

    /// Why nobody can tell what became of every message; `None`: the account can be closed.
    pub(super) fn unknown(&self, forward: &PathTotals) -> Option<&'static str> {
        let Measured { topology, .. } = self.measured;
        let headers = if topology.traffic.destination.is_ipv4() { 28 } else { 48 };
        let longest = u64::from(topology.mtu(&self.path.forward));
        let traffic = &self.cell.scenario.traffic;
        let quic = traffic.transport == Transport::QuicDatagram;
        let frames = forward.frames + forward.backlog;
        let joined = traffic.mode == Mode::Bulk && frames > 0
            || traffic.batch.is_some() && forward.unread > 0
            || quic && frames + forward.unread > 0;
        if arrivals::longest(&self.cell.scenario, traffic) + headers > longest {
            Some("messages are larger than the path's MTU: fragments are not followed")
        } else if forward.in_flight > 0 {
            Some("packets were still under way when the counters were read")
        } else if quic && self.messages().is_some_and(|(sent, _)| sent.left_behind > 0) {
            Some("QUIC had not sent all messages when the drain was over, and threw away what waited at either end")
        } else if self.own.is_some() && forward.duplicated + forward.emulator + forward.unread > 0 {
            Some("copies and drops of the emulator are counted together with those of the load")
        } else if joined {
            Some("what the emulator could not take is counted in frames, and a frame may hold many datagrams")
        } else {
            None
        }
    }

    /// Datagrams that reached the receiving host and no program; `None` where another's are among them.
    pub(super) fn host_drops(&self) -> Option<u64> {
        let Measured { topology, receiver_hosts, load, .. } = self.measured;
        let receiver = topology.traffic.receivers[self.receiver];
        let ends_here = |load: &Flow| load.sender == receiver || load.receivers.contains(&receiver);
        let datagrams = self.cell.scenario.load.as_ref().is_some_and(|load| load.transport != Transport::Tcp);
        let shared = load.is_some() && datagrams && topology.load.as_ref().is_some_and(ends_here);
        (!shared).then(|| udp_lost(&receiver_hosts[self.receiver]))
    }

    /// Which hosts and routers on the way could not put datagrams together, a sentence each.
    pub(super) fn what_was_not_put_together(&self) -> Vec<String> {
        let Measured { topology, kernels, .. } = self.measured;
        let ipv4 = topology.traffic.destination.is_ipv4();
        let words = |node: usize| {
            let entry = &topology.nodes[node];
            not_reassembled(ipv4, counter(kernels[node].as_ref()?), &entry.kind.to_string(), &entry.name)
        };
        kernels::nodes(topology, &self.path.forward).into_iter().filter_map(words).collect()
    }

    /// What hosts and routers dropped and copied, a sentence each.
    pub(super) fn what_kernels_did(&self) -> Vec<String> {
        let transport = self.cell.scenario.traffic.transport;
        let drops = self.kernel_drops();
        let place = |KernelDrop { node, cause, packets }: &KernelDrop| {
            let node = &self.measured.topology.nodes[*node];
            let what = unit(transport);
            format!("{packets} {what} ended on {} `{}`: {}", node.kind, node.name, cause.words().0)
        };
        let mut told: Vec<String> = drops.iter().map(place).collect();
        if let Some((lost, _)) = self.lost_in_packets().filter(|_| !drops.is_empty())
            && transport == Transport::QuicDatagram
        {
            let most = self.messages_a_packet();
            told.push(format!(
                "{lost} messages were lost in all, with packets that were lost: each holds up to {most} of them, or none"
            ));
        }
        let Balance { copies, others, .. } = self.balance().unwrap_or_default();
        if copies > 0 {
            told.push(format!(
                "more arrived than was sent: {copies} copies that no link made were made on the way (a host or router that \
                 duplicates)"
            ));
        }
        if others > 0 {
            told.push(format!("more arrived than was sent: {others} datagrams are of others"));
        }
        let Measured { topology, links, kernels, .. } = self.measured;
        let copied = |(node, missing): &(usize, i64)| {
            *missing < 0 && topology.nodes[*node].kind == Kind::Router && kernels[*node].is_some()
        };
        // Of datagrams it is known how many came again.
        if transport != Transport::Udp {
            told.extend(super::missing_at_nodes(topology, links, kernels).filter(copied).map(|(node, missing)| {
                format!(
                    "router `{}` handed out {} packets more than it took in: copies (a rule that duplicates?), which hide as many \
                     that it drops",
                    topology.nodes[node].name, -missing
                )
            }));
        }
        told
    }
}

/// What is counted of a transport in the kernels on the way.
pub(super) fn unit(transport: Transport) -> &'static str {
    if transport == Transport::Udp { "datagrams" } else { "packets" }
}

/// Packets, as far as frames are packets.
fn dropped_on_links(forward: &PathTotals) -> u64 {
    forward.planned + forward.queue + forward.emulator + forward.unread + forward.backlog
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
