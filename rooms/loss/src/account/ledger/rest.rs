//! What is left over: what interfaces lost, what is not decided yet, and between which points the rest vanished.

use weir_trace::{Cast, Detail, InterfaceCount, SocketTrace};

use super::{LedgerBuilder, missing};
use crate::account::apportion::{Rule, apportion};
use crate::account::book::Pending;
use crate::account::evidence::SocketSeen;
use crate::account::level;
use crate::advice::{self, Advice};
use crate::places::{Place, Stage};

impl LedgerBuilder<'_> {
    pub(super) fn pend(&mut self, place: &str, datagrams: u64) {
        if datagrams > 0 {
            self.pending.push(Pending { place: place.to_owned(), datagrams });
        }
    }

    pub(super) fn pending_total(&self) -> u64 {
        self.pending.iter().map(|pending| pending.datagrams).sum()
    }

    /// What was given up for missing fragments and is missing nowhere was begun before the account: it was neither sent nor did
    /// it arrive in its time.
    pub(super) fn take_begun_before(&mut self) {
        let more = missing(-self.rest().unwrap_or(0));
        self.places.take(Place::Reassembly, more.min(self.places.at(Place::Reassembly)));
    }

    /// What the kernel has not decided yet.
    pub(super) fn add_undecided(&mut self, from_sender: bool) {
        let namespaces = &self.evidence.namespaces;
        let queued: u64 = namespaces.iter().map(|ns| ns.queued).sum();
        let incomplete: u64 = namespaces.iter().map(|ns| ns.incomplete).sum();
        let held = if from_sender && incomplete > 0 { self.held_back() } else { 0 };
        let queued = if from_sender { queued } else { 0 };
        let claims = [held, queued, self.evidence.trace.reassembling];
        let names = ["waiting for a next hop's address", "an interface's queue", "reassembly"];
        for (place, share) in names.into_iter().zip(apportion(self.missing(), &claims, Rule::LargestFirst)) {
            self.pend(place, share);
        }
    }

    /// Datagrams that the kernel took and that neither departed nor were dropped on the way there.
    fn held_back(&self) -> u64 {
        let taken: u64 = self.senders.iter().map(|sender| sender.taken).sum();
        let departed: u64 = self.senders.iter().map(|sender| sender.departed).sum();
        taken.saturating_sub(departed).saturating_sub(self.places.at(Place::Neighbour))
    }

    /// Whether datagrams left for where nobody follows them; then it says so.
    pub(super) fn left_for_elsewhere(&mut self, departed: Option<u64>) -> bool {
        let lost = self.places.within(&[Stage::Departed]);
        let came: u64 = self.evidence.namespaces.iter().map(|ns| self.arrivals(ns.inode)).sum();
        let came = came + self.places.at(Place::Backlog);
        let left = departed.unwrap_or(0).saturating_sub(lost).saturating_sub(came);
        if left > 0 {
            self.unknown.push(format!(
                "{WHAT_BECAME_OF} {left} that left the namespaces followed: follow the receiver's, too (on another host: --join)"
            ));
        }
        left > 0
    }

    /// Between which two points the unexplained ones vanished.
    pub(super) fn explain_rest(&mut self, sent: Option<u64>, departed: Option<u64>, arrived: Option<u64>) {
        let (Some(rest), Some(arrived)) = (self.rest(), arrived) else { return };
        if rest < 0 && sent.is_none() {
            let more = rest.unsigned_abs();
            let why = if self.may_be_copies() {
                "a broadcast, or what goes to a group, comes once, and each socket of its port is given a copy"
            } else {
                "does a DNAT or redirect rule give it those of another? `nft list ruleset`; then follow that one, too (or their \
                 first fragments came before the account began)"
            };
            self.explanation.push(format!("{more} more were read than came to this port: {why}"));
        }
        let rest = missing(rest);
        let on_the_way = sent.zip(departed).map_or((0, 0), |(sent, departed)| {
            let before = self.places.within(&[Stage::Sending, Stage::NextHop]) + departed;
            let lost = self.places.within(&[Stage::Departed, Stage::Wire, Stage::Arriving]);
            (sent.saturating_sub(before), departed.saturating_sub(lost + arrived))
        });
        let stayed = on_the_way.0.min(rest);
        let before = on_the_way.1.min(rest - stayed);
        let behind = rest - stayed - before;
        if stayed > 0 {
            self.explanation.push(format!("{stayed} were sent and did not leave the sender, and no counter tells why"));
        }
        if before > 0 {
            self.explanation.push(format!(
                "{before} left the sender and did not come to the receiver's namespace, and no counter tells why"
            ));
        }
        if behind > 0 {
            self.explanation.push(format!(
                "{behind} came to the receiver's namespace, and neither its program nor a counter has them: does a DNAT rule give \
                 them another port (`nft list ruleset`), or does a program read joined ones (UDP_GRO) into too small a buffer?"
            ));
        }
    }

    /// Whether some of what came may have been given to each of several sockets that have one ledger.
    fn may_be_copies(&self) -> bool {
        let to_several = |count: &InterfaceCount| count.cast != Cast::Unicast && count.datagrams > 0;
        self.share.receivers.len() > 1 && self.came(self.home.unwrap_or(0)).any(to_several)
    }

    /// The kernel itself takes what comes, as for tunnels, where nobody holds the port's sockets and nothing is put into their queues.
    pub(super) fn leave_to_kernel(&mut self) {
        let is_idle = |socket: &SocketSeen| {
            let is_traced = self.evidence.trace.sockets.iter().any(|traced| traced.cookie == socket.cookie);
            !socket.gone && socket.process.is_none() && !is_traced
        };
        let (rest, all) = (self.missing(), &self.evidence.sockets);
        if self.evidence.detail == Some(Detail::Everything) && rest > 0 && !all.is_empty() && all.iter().all(is_idle) {
            self.explanation.push(format!(
                "{rest} were taken by the kernel itself (a tunnel: VXLAN, Geneve, WireGuard): no program holds a socket of this port"
            ));
            self.received = self.received.map(|received| received + rest);
        }
    }

    /// Its receiver and what was traced of it, where there is one and nothing of it was missed.
    fn alone(&self) -> Option<(&SocketSeen, SocketTrace, u64)> {
        let ([receiver], [socket]) = (&self.share.receivers[..], &self.receiver_traces()[..]) else { return None };
        let is_whole = self.share.partial.is_none() && self.is_whole();
        let came = self.came(self.home?).map(|passage| passage.bytes).sum();
        is_whole.then_some((receiver, *socket, came))
    }

    /// Datagrams at the end of joined ones (UDP_GRO) that did not fit the program's buffer: every buffer of the queue was read,
    /// and fewer bytes than came.
    pub(super) fn add_truncated(&mut self) {
        let Some((receiver, socket, came)) = self.alone() else { return };
        let joined = socket.read_datagrams.is_none_or(|datagrams| datagrams > socket.reads);
        let all_read = socket.reads == socket.enqueued && receiver.queued == 0 && receiver.queued_at_start == 0;
        if joined && all_read {
            let cut = self.missing().min(came.saturating_sub(socket.read_bytes));
            self.places.add(Place::Truncated, cut, "bytes read", "", "", self.home);
        }
    }

    /// Of what was read bytes are missing only where the program's buffer was too small; told where one receiver has read all
    /// that came.
    pub(super) fn explain_bytes(&mut self, arrived: Option<u64>) {
        let Some((receiver, socket, came)) = self.alone() else { return };
        let is_all = receiver.queued_at_start == 0 && arrived.is_some() && arrived == self.received;
        let cut = came.saturating_sub(socket.read_bytes);
        if is_all && cut > 0 {
            self.explanation.push(format!("{cut} bytes were cut off: {}", Place::Truncated.row().remedy));
        }
    }

    /// What helps against a full receive buffer.
    pub(super) fn advice(&self) -> Option<Advice> {
        if !self.reads_nothing() {
            return level::advice(&self.receiver_traces(), self.evidence);
        }
        let took = u64::try_from(self.evidence.took.as_nanos()).ok()?;
        advice::of_nobody(self.places.at(Place::ReceiveBuffer), took)
    }

    /// Whether its queue was full all the time: datagrams were in it at first, none came into it, and none was read.
    fn reads_nothing(&self) -> bool {
        let is_followed = self.evidence.detail >= Some(Detail::Queues) && self.evidence.trace.missed.total() == 0;
        let waited = |socket: &&SocketSeen| !socket.gone && socket.queued_at_start > 0;
        let receivers = &self.share.receivers;
        // Whatever comes or is read begins to be followed.
        let moved = !self.receiver_traces().is_empty();
        is_followed && !moved && !receivers.is_empty() && receivers.iter().all(waited)
    }

    pub(super) fn explain(&mut self) {
        if self.evidence.group.is_some() {
            self.unknown.push("which of them went to the group: all that goes to its port is counted".to_owned());
        }
        for entry in std::mem::take(&mut self.upstream).into_entries(&self.evidence.namespaces) {
            let title = entry.place.row().title;
            self.explanation.push(format!("{} more were dropped before they came here: {title}", entry.datagrams));
        }
        let lost = |place: Place| self.places.at(place);
        let (traces, advice) = (self.receiver_traces(), self.advice());
        level::explain(&traces, advice.as_ref(), &lost, self.evidence, &mut self.explanation);
        if let Some(advice) = advice.filter(|_| self.reads_nothing()) {
            let all = u64::try_from(self.evidence.took.as_nanos()).unwrap_or(u64::MAX);
            self.explanation.extend([level::stalled(all, all), advice.to_string()]);
        }
    }
}

/// Answered by the account of the receiver's host.
pub(in crate::account) const WHAT_BECAME_OF: &str = "what became of";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_trace::{Drop, Trace};

    use super::*;
    use crate::account::book::Ledger;
    use crate::account::evidence::{Evidence, NamespaceEvidence};
    use crate::account::receivers::ledgers;

    /// Of 10,000 of 1,000 bytes so many were read, with so many bytes each; the others found the buffer full.
    fn close(reads: u64, bytes: u64) -> Ledger {
        const CAME: u64 = 10_000;
        let (namespace, port, lost) = (2, 5000, CAME - reads);
        let socket = SocketTrace {
            cookie: 20,
            namespace: 2,
            port: 5000,
            enqueued: reads,
            reads,
            read_datagrams: Some(reads),
            read_bytes: reads * bytes,
            queued_before: Some(0),
            age_ns: 10_000_000_000,
            waiting_ns: 1_000_000_000,
            dropped: lost,
            episodes: 1,
            episode_max: lost * 2_304,
            receive_buffer: 212_992,
            ..SocketTrace::default()
        };
        let came = InterfaceCount {
            namespace,
            interface: 2,
            port,
            cookie: 0,
            datagrams: CAME,
            bytes: CAME * 1_000,
            ..InterfaceCount::default()
        };
        let full = Drop {
            reason: "SOCKET_RCVBUFF".into(),
            function: "udp_queue_rcv_one_skb".into(),
            namespace,
            cookie: 20,
            port,
            datagrams: lost,
            buffers: lost,
            ..Drop::default()
        };
        let trace = Trace { arrivals: vec![came], sockets: vec![socket], drops: vec![full], ..Trace::default() };
        let namespaces = vec![NamespaceEvidence { inode: namespace, ..NamespaceEvidence::default() }];
        let (detail, took) = (Some(Detail::Everything), Duration::from_secs(10));
        let local = Some("10.0.0.2:5000".parse().unwrap());
        let sockets = vec![SocketSeen { local, drops: lost, gone: false, ..SocketSeen::traced(20, namespace) }];
        let evidence = Evidence { port, sockets, detail, took, trace, namespaces, ..Evidence::default() };
        ledgers(&evidence, &[]).remove(0)
    }

    #[test]
    fn what_is_cut_off_is_told_where_all_that_came_was_read() {
        let told = |reads, bytes| {
            let ledger = close(reads, bytes);
            assert_eq!((ledger.arrived, ledger.received, ledger.unexplained), (Some(10_000), Some(reads), Some(0)));
            ledger.explanation.into_iter().filter(|words| words.contains("were cut off")).count()
        };
        assert_eq!(told(10_000, 1_000), 0);
        assert_eq!(told(10_000, 999), 1);
        assert_eq!(told(9_995, 900), 0);
    }
}
