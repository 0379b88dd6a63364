//! Closes the ledger of one receiver: a pure function of what was counted. What was `sent`, which `drops` are its own, what
//! was `received`; then the `rest`.

mod drops;
mod received;
pub(super) mod rest;
pub(super) mod sent;
mod sources;

use std::collections::BTreeSet;

use weir_trace::Detail;

use super::book::{Entry, Ledger, Pending};
use super::evidence::{Evidence, SocketSeen};
use super::receivers::Share;
use super::senders::{SendingSocket, sending_sockets};
use super::tally::Tally;
use super::{level, untraced};
use crate::advice::{Advice, HANGS};
use crate::places::Place;

/// Closes one ledger.
pub(super) fn ledger(evidence: &Evidence, everybody: &[SocketSeen], share: &Share<'_>) -> Ledger {
    LedgerBuilder::new(evidence, share).build(everybody)
}

struct LedgerBuilder<'a> {
    evidence: &'a Evidence,
    share: &'a Share<'a>,
    /// The receiver's namespace; `None`: nothing came anywhere.
    home: Option<u32>,
    senders: Vec<SendingSocket>,
    /// The namespaces that they are in.
    sender_namespaces: BTreeSet<u32>,
    places: Tally,
    /// Losses before the receiver's namespace, where nobody knows what was sent: beside the ledger.
    upstream: Tally,
    pending: Vec<Pending>,
    unknown: Vec<String>,
    explanation: Vec<String>,
}

impl<'a> LedgerBuilder<'a> {
    fn new(evidence: &'a Evidence, share: &'a Share<'a>) -> Self {
        let senders = if evidence.detail == Some(Detail::Everything) {
            sending_sockets(&evidence.trace, evidence.port, !evidence.several_ports)
        } else {
            Vec::new()
        };
        let mut builder = LedgerBuilder {
            evidence,
            share,
            home: None,
            sender_namespaces: senders.iter().map(|sender| sender.namespace).collect(),
            senders,
            places: Tally::default(),
            upstream: Tally::default(),
            pending: Vec::new(),
            unknown: Vec::new(),
            explanation: Vec::new(),
        };
        builder.home = share.receivers.first().map(|socket| socket.namespace).or_else(|| builder.guess_home());
        builder
    }

    /// Where datagrams ended that nobody received: where most of them were dropped, or came.
    fn guess_home(&self) -> Option<u32> {
        let trace = &self.evidence.trace;
        let of = |namespace: u32| {
            let dropped = trace.drops.iter().filter(|drop| drop.namespace == namespace && self.is_of_port(drop));
            let dropped: u64 = dropped.filter(|drop| !drop.outgoing).map(|drop| drop.datagrams).sum();
            (dropped, self.arrivals(namespace))
        };
        let namespaces = self.evidence.namespaces.iter().map(|ns| ns.inode);
        namespaces.max_by_key(|inode| of(*inode)).filter(|inode| of(*inode) != (0, 0))
    }

    fn build(mut self, everybody: &[SocketSeen]) -> Ledger {
        let traced = self.evidence.detail.is_some();
        let sent = self.sent();
        self.add_drops(sent.is_some());
        if sent.is_some() {
            self.add_failed_calls();
        }
        self.correct_by_socket();
        let arrived = self.arrived();
        let (received, queue) = self.received();
        if !traced {
            untraced::places(self.evidence, &self.share.receivers, sent, received, &mut self.places, &mut self.unknown);
        }
        let arrived = arrived.map(|arrived| self.at_least_passed(arrived, received, queue));
        let (sent, base) = self.choose_base(sent, arrived);
        let departed = (sent.is_some() && !self.senders.is_empty())
            .then(|| self.senders.iter().map(|sender| sender.departed).sum());

        let mut received =
            if self.share.receivers.is_empty() && self.left_for_elsewhere(departed) { None } else { received };
        let mut pending_known = true;
        match queue {
            Some(queue) => self.pend("receive queue", queue),
            None => pending_known = false,
        }
        let mut unexplained = None;
        let mut sent = sent;
        if let (Some(base), Some(read), true) = (base, received, pending_known) {
            let mut rest = signed(base) - signed(read) - signed(self.places.total()) - signed(self.pending_total());
            rest += self.take_begun_before(rest);
            rest -= self.add_hardware(rest, departed, arrived);
            rest -= self.add_undecided(rest, sent.is_some());
            rest -= self.add_untold(rest);
            rest -= self.add_truncated(rest);
            if rest != 0 && rest.unsigned_abs() <= self.evidence.moving {
                // The totals were not read at one instant.
                if rest > 0 {
                    self.pend("in flight", rest.unsigned_abs());
                    rest = 0;
                } else if let Some(sent) = &mut sent {
                    *sent += rest.unsigned_abs();
                    rest = 0;
                }
            }
            if rest > 0 && self.is_taken_by_kernel() {
                self.explanation.push(format!(
                    "{rest} were taken by the kernel itself (a tunnel: VXLAN, Geneve, WireGuard): no program holds a socket of \
                     this port"
                ));
                (received, rest) = (Some(read + missing(rest)), 0);
            }
            unexplained = Some(rest);
            self.explain_rest(rest, sent, departed, arrived);
        }
        self.explain_bytes(arrived, received);
        self.explain();
        let pending = pending_known.then(|| self.pending_total());
        let (receiver_trace, advice) = (self.receiver_traces(), self.advice());
        let hangs = advice.as_ref().is_some_and(Advice::is_of_nobody);
        Ledger {
            port: self.evidence.port,
            receiver: self.receiver(),
            sent,
            departed,
            arrived,
            received,
            pending,
            unexplained,
            level: level::of(&receiver_trace),
            advice,
            by_source: self.by_source(sent.is_some()),
            senders: self.tell_senders(everybody),
            places: remedied(self.places.into_entries(&self.evidence.namespaces), hangs),
            pending_where: self.pending,
            unknown: self.unknown,
            explanation: self.explanation,
        }
    }
}

/// Where the reader hangs, no buffer helps.
fn remedied(mut places: Vec<Entry>, hangs: bool) -> Vec<Entry> {
    for entry in places.iter_mut().filter(|entry| hangs && entry.place == Place::ReceiveBuffer) {
        HANGS.clone_into(&mut entry.remedy);
    }
    places
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What is still missing; nothing, where there is more than was expected.
fn missing(rest: i64) -> u64 {
    u64::try_from(rest).unwrap_or(0)
}
