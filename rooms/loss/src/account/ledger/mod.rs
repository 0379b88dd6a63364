//! Closes the ledger of one receiver: a pure function of what was counted. What was `sent`, which `drops` are its own, what
//! was `received`; then the `rest`.

mod counters;
mod drops;
mod received;
pub(super) mod rest;
pub(super) mod sent;
mod sources;

use std::collections::{BTreeMap, BTreeSet};

use weir_trace::Detail;

use self::drops::OwnDrop;
use super::book::{Entry, Ledger, Pending};
use super::evidence::{Evidence, SocketSeen};
use super::level;
use super::receivers::Share;
use super::senders::{SendingSocket, senders};
use super::tally::Tally;
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
    /// Calls that failed and may have meant the port, by error number.
    failed_beside: BTreeMap<i32, u64>,
    /// The namespaces that they are in.
    sender_namespaces: BTreeSet<u32>,
    /// Where the ledger begins: what was sent, else what arrived; `None`: it cannot be closed.
    base: Option<u64>,
    /// What the program read.
    received: Option<u64>,
    drops: Vec<OwnDrop>,
    places: Tally,
    /// Losses before the receiver's namespace, where nobody knows what was sent: beside the ledger.
    upstream: Tally,
    pending: Vec<Pending>,
    unknown: Vec<String>,
    explanation: Vec<String>,
}

impl<'a> LedgerBuilder<'a> {
    fn new(evidence: &'a Evidence, share: &'a Share<'a>) -> Self {
        let (senders, failed_beside) = match evidence.detail {
            Some(Detail::Everything) => senders(&evidence.trace, evidence.port, !evidence.several_ports),
            _ => Default::default(),
        };
        let mut builder = LedgerBuilder {
            evidence,
            share,
            home: None,
            sender_namespaces: senders.iter().map(|sender| sender.namespace).collect(),
            senders,
            failed_beside,
            base: None,
            received: None,
            drops: Vec::new(),
            places: Tally::default(),
            upstream: Tally::default(),
            pending: Vec::new(),
            unknown: Vec::new(),
            explanation: Vec::new(),
        };
        builder.home = share.receivers.first().map(|socket| socket.namespace).or_else(|| builder.guess_home());
        builder.drops = builder.own_drops();
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
        let sent = self.sent();
        self.add_drops(sent.is_some());
        if sent.is_some() {
            self.add_failed_calls();
        }
        self.correct_by_socket();
        let arrived = self.arrived();
        let (received, queue) = self.received();
        let arrived = arrived.map(|arrived| self.at_least_passed(arrived, received, queue));
        let (mut sent, base) = self.choose_base(sent, arrived);
        let departed = (sent.is_some() && !self.senders.is_empty())
            .then(|| self.senders.iter().map(|sender| sender.departed).sum());
        let is_elsewhere = self.share.receivers.is_empty() && self.left_for_elsewhere(departed);
        self.received = received.filter(|_| !is_elsewhere);
        self.base = base.filter(|_| queue.is_some());
        self.pend("receive queue", queue.unwrap_or(0));
        self.take_begun_before();
        self.add_counters(departed.is_some() && arrived.is_some());
        self.add_undecided(sent.is_some());
        self.add_untold();
        self.add_truncated();
        let rest = self.rest().unwrap_or(0);
        if rest.unsigned_abs() <= self.evidence.moving {
            // The totals were not read at one instant.
            self.pend("in flight", missing(rest));
            if let (Some(sent), Some(base)) = (&mut sent, &mut self.base) {
                (*sent, *base) = (*sent + missing(-rest), *base + missing(-rest));
            }
        }
        self.leave_to_kernel();
        self.explain_rest(sent, departed, arrived);
        self.explain_bytes(arrived);
        self.explain();
        let pending = queue.map(|_| self.pending_total());
        let (receiver_trace, advice) = (self.receiver_traces(), self.advice());
        let hangs = advice.as_ref().is_some_and(Advice::is_of_nobody);
        Ledger {
            port: self.evidence.port,
            receiver: self.receiver(),
            sent,
            departed,
            arrived,
            received: self.received,
            pending,
            unexplained: self.rest(),
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

    /// The balance: what began here and is not found yet; `None`: one of them is unknown.
    fn rest(&self) -> Option<i64> {
        let found = signed(self.places.total()) + signed(self.pending_total());
        Some(signed(self.base?) - signed(self.received?) - found)
    }

    /// What is still missing; nothing, where there is more than was expected, or it is not known.
    fn missing(&self) -> u64 {
        missing(self.rest().unwrap_or(0))
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

/// Nothing, where there is more than was expected.
fn missing(rest: i64) -> u64 {
    u64::try_from(rest).unwrap_or(0)
}
