//! The account of a tee at one moment: received = sent + dropped by reason + queued, for every destination.
//!
//! Workers count in atomics of their own, one writer each; a [`Ledger`] is their sum, by value, for people and programs
//! to read. Counts of things that a reload removed stay in the totals under their names.

use std::fmt;
use std::net::SocketAddr;
use std::ops::AddAssign;

use serde::Serialize;
use weir_program::ledger;

use crate::drops::Drops;

ledger! {
    /// All counts since the start.
    pub struct Ledger {
        /// Seconds since the start.
        elapsed_s: f64,
        /// 1: every sum closes, nothing is unexplained; 0: a bug in Weir.
        closed: bool => Gauge "weir_tee_ledger_closed",
        /// By listener.
        listeners: Vec<ListenerCount> => each,
        /// By rule: the source groups.
        rules: Vec<RuleCount> => each,
        /// By destination and address.
        destinations: Vec<DestinationCount> => each,
    }

    /// What a listener took: received = matched + unmatched + truncated + unexplained.
    pub struct ListenerCount by name, address {
        /// Its name.
        name: String,
        /// Its address.
        address: String,
        /// Taken from the socket.
        received: Count => Counter "weir_tee_received" ["datagrams"] ["bytes"] {listener, address},
        /// Taken by at least one rule.
        matched: u64 => Counter "weir_tee_matched" ["datagrams"] {listener, address},
        /// Taken by no rule: they went nowhere.
        unmatched: u64 => Counter "weir_tee_unmatched" ["datagrams"] {listener, address},
        /// Longer than the buffer: they are not forwarded in part.
        truncated: u64 => Counter "weir_tee_truncated" ["datagrams"] {listener, address},
        /// Dropped by the kernel at this socket before Weir saw them; absent: the kernel does not tell.
        kernel_drops: Option<u64> => Counter "weir_tee_kernel_dropped" ["datagrams"] {listener, address},
        /// Receive buffer asked for, of which the kernel accounts twice; absent: its default.
        asked_buffer: Option<usize> => Gauge "weir_tee_receive_buffer_asked" ["bytes"] {listener, address},
        /// Receive buffer in force, as the kernel accounts it.
        receive_buffer: usize => Gauge "weir_tee_receive_buffer" ["bytes"] {listener, address},
        /// What waits in the receive buffer, as the kernel accounts it, of several sockets in the fullest; absent: the kernel does not tell.
        receive_queue: Option<usize> => Gauge "weir_tee_receive_queue" ["bytes"] {listener, address},
        /// Received less matched, unmatched and truncated; not 0: a bug in Weir.
        unexplained: i64 => Gauge "weir_tee_listener_unexplained" ["datagrams"] {listener, address},
    }

    /// What a rule took.
    pub struct RuleCount by name {
        /// Its name.
        name: String,
        /// Taken by the rule.
        matched: Count => Counter "weir_tee_rule_matched" ["datagrams"] ["bytes"] {rule},
        /// Datagrams that the rule led nowhere: it has no destination, or its group no living member.
        discarded: u64 => Counter "weir_tee_rule_discarded" ["datagrams"] {rule},
        /// Copies that the rule asked for, over all destinations.
        copies: u64 => Counter "weir_tee_rule_asked" ["copies"] {rule},
    }

    /// What became of the copies for one address of a destination: copies = sent + every drop + queued + unexplained.
    pub struct DestinationCount by name, address {
        /// The destination's name.
        name: String,
        /// The address; null: its name does not resolve yet.
        address: Place,
        /// 1: the destination is thought to live; 0: not; absent: it is not in use any more.
        healthy: Option<bool> => Gauge "weir_tee_destination_healthy" {destination, address},
        /// Copies that rules asked for; sent + dropped + queued.
        copies: Count => Counter "weir_tee_asked" ["copies"] ["bytes"] {destination, address},
        /// Handed to the kernel.
        sent: Count => Counter "weir_tee_sent" ["datagrams"] ["bytes"] {destination, address},
        /// Of those sent, datagrams that the kernel took while the next hop was not known to answer: they may be lost.
        sent_unresolved: u64 => Counter "weir_tee_sent_unresolved" ["datagrams"] {destination, address},
        /// Datagrams that wait in Weir.
        queued: u64 => Gauge "weir_tee_queued" ["datagrams"] {destination, address},
        /// Memory that datagrams waiting in Weir take.
        queued_bytes: u64 => Gauge "weir_tee_queued" ["bytes"] {destination, address},
        /// Memory that they may take, over all workers; absent: the destination is not in use any more.
        queue_limit: Option<u64> => Gauge "weir_tee_queue_limit" ["bytes"] {destination, address},
        /// Copies that were not sent, by reason.
        drops: Drops => Counter "weir_tee_dropped" ["datagrams"] {destination, address, reason},
        /// System calls that sent; datagrams sent over it is the batching.
        calls: u64 => Counter "weir_tee_send" ["calls"] {destination, address},
        /// Datagrams that left within a joined (GSO) send.
        joined: u64 => Counter "weir_tee_joined" ["datagrams"] {destination, address},
        /// Why sends are not joined; null: they are.
        not_joined: Option<String>,
        /// ICMP errors that came back.
        icmp_errors: u64 => Counter "weir_tee_icmp" ["errors"] {destination, address},
        /// ICMP errors that quote nothing that was sent, as forged ones do: Weir does not act on them.
        icmp_unproven: u64 => Counter "weir_tee_icmp_unproven" ["errors"] {destination, address},
        /// Its answers; null: it has had no session.
        replies: Option<ReplyCount> => each,
        /// Copies less sent, dropped and queued; not 0: a bug in Weir.
        unexplained: i64 => Gauge "weir_tee_destination_unexplained" ["datagrams"] {destination, address},
    }

    /// What became of a destination's answers: received = returned + dropped + unexplained.
    pub struct ReplyCount {
        /// Answers that came from the destination's address and port.
        received: Count => Counter "weir_tee_replies_received" ["datagrams"] ["bytes"] {destination, address},
        /// Answers handed to the kernel for the client that they are for.
        returned: Count => Counter "weir_tee_replies_returned" ["datagrams"] ["bytes"] {destination, address},
        /// Answers that the kernel did not take, or whose listener is gone.
        dropped: u64 => Counter "weir_tee_replies_dropped" ["datagrams"] {destination, address},
        /// Sessions, one a client whose answers go back.
        sessions: u64 => Gauge "weir_tee_sessions" {destination, address},
        /// Sessions that were opened.
        opened: u64 => Counter "weir_tee_opened" ["sessions"] {destination, address},
        /// Sessions closed since they were silent for too long.
        aged: u64 => Counter "weir_tee_aged" ["sessions"] {destination, address},
        /// Sessions closed to make room for others: `sessions` is too low.
        evicted: u64 => Counter "weir_tee_evicted" ["sessions"] {destination, address},
        /// Sessions that could not be opened: no port or descriptor is left.
        failed: u64 => Counter "weir_tee_failed" ["sessions"] {destination, address},
        /// `received` less the sum of its parts.
        unexplained: i64,
    }
}

/// Datagrams and their payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Datagrams.
    pub datagrams: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// An address; none: a name does not resolve yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place(pub Option<SocketAddr>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |address| address.fmt(f))
    }
}

impl Ledger {
    /// Works out what every sum leaves unexplained, and whether all close.
    pub fn close(&mut self) {
        for listener in &mut self.listeners {
            let parts = listener.matched + listener.unmatched + listener.truncated;
            listener.unexplained = listener.received.datagrams.wrapping_sub(parts) as i64;
        }
        for to in &mut self.destinations {
            let parts = to.sent.datagrams + to.drops.total() + to.queued;
            to.unexplained = to.copies.datagrams.wrapping_sub(parts) as i64;
            if let Some(replies) = &mut to.replies {
                let parts = replies.returned.datagrams + replies.dropped;
                replies.unexplained = replies.received.datagrams.wrapping_sub(parts) as i64;
            }
        }
        let replies = self.destinations.iter().flat_map(|to| &to.replies).map(|replies| replies.unexplained);
        let destinations = self.destinations.iter().map(|to| to.unexplained);
        let unexplained = self.listeners.iter().map(|listener| listener.unexplained).chain(destinations).chain(replies);
        self.closed = unexplained.into_iter().all(|unexplained| unexplained == 0);
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
    }
}

impl ListenerCount {
    /// Adds the counts of another one to these.
    pub fn absorb(&mut self, other: &Self) {
        self.received += other.received;
        self.matched += other.matched;
        self.unmatched += other.unmatched;
        self.truncated += other.truncated;
        self.kernel_drops = self.kernel_drops.zip(other.kernel_drops).map(|(mine, theirs)| mine + theirs);
    }
}

impl RuleCount {
    /// Adds the counts of another one to these.
    pub fn absorb(&mut self, other: &Self) {
        self.matched += other.matched;
        self.discarded += other.discarded;
        self.copies += other.copies;
    }
}

impl DestinationCount {
    /// Adds the counts of another one to these.
    pub fn absorb(&mut self, other: &Self) {
        self.copies += other.copies;
        self.sent += other.sent;
        self.sent_unresolved += other.sent_unresolved;
        self.queued += other.queued;
        self.queued_bytes += other.queued_bytes;
        self.drops += other.drops;
        self.calls += other.calls;
        self.joined += other.joined;
        self.icmp_errors += other.icmp_errors;
        self.icmp_unproven += other.icmp_unproven;
        if let Some(other) = &other.replies {
            self.replies.get_or_insert_default().absorb(other);
        }
    }
}

impl ReplyCount {
    fn absorb(&mut self, other: &Self) {
        self.received += other.received;
        self.returned += other.returned;
        self.dropped += other.dropped;
        self.sessions += other.sessions;
        self.opened += other.opened;
        self.aged += other.aged;
        self.evicted += other.evicted;
        self.failed += other.failed;
    }
}
