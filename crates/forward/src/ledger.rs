//! The account of a tee at one moment: received = sent + dropped by reason + queued, for every destination.
//!
//! Workers count in atomics of their own, one writer each; a [`Ledger`] is their sum, by value, for people and programs
//! to read. Counts of things that a reload removed stay in the totals under their names.

use std::net::SocketAddr;
use std::ops::AddAssign;

use serde::Serialize;

use crate::drops::Drops;

/// All counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Whether the sums of every listener, rule and destination close: nothing unexplained anywhere.
    pub closed: bool,
    /// By listener.
    pub listeners: Vec<ListenerCount>,
    /// By rule: the source groups.
    pub rules: Vec<RuleCount>,
    /// By destination and address.
    pub destinations: Vec<DestinationCount>,
}

/// Datagrams and their payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Datagrams.
    pub datagrams: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// What a listener took: received = matched + unmatched + truncated + unexplained.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ListenerCount {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Taken from the socket.
    pub received: Count,
    /// Taken by at least one rule.
    pub matched: u64,
    /// Taken by no rule.
    pub unmatched: u64,
    /// Longer than the buffer: never forwarded in part.
    pub truncated: u64,
    /// Dropped by the kernel at this socket before we saw them; null: the kernel does not tell.
    pub kernel_drops: Option<u64>,
    /// Receive buffer that was asked for, bytes; null: the kernel's default.
    pub asked_buffer: Option<usize>,
    /// Receive buffer in force, as the kernel accounts it, bytes.
    pub receive_buffer: usize,
    /// What waits in the receive buffer now, as the kernel accounts it, bytes: of several workers' sockets the fullest;
    /// null: the kernel does not tell.
    pub receive_queue: Option<usize>,
    /// `received` less the sum of its parts.
    pub unexplained: i64,
}

/// What a rule took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RuleCount {
    /// Its name.
    pub name: String,
    /// Datagrams that it matched.
    pub matched: Count,
    /// Of them, those that it led nowhere: no destination, or no living member of a group.
    pub discarded: u64,
    /// Copies that it asked for, over all destinations.
    pub copies: u64,
}

/// What became of the copies for one address of a destination: copies = sent + every drop + queued + unexplained.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DestinationCount {
    /// The destination's name.
    pub name: String,
    /// The address; null: its name does not resolve yet.
    pub address: Option<SocketAddr>,
    /// Whether it is thought to live; null: it is not in use any more.
    pub healthy: Option<bool>,
    /// Copies asked for by rules.
    pub copies: Count,
    /// Handed to the kernel.
    pub sent: Count,
    /// Of them, those that were sent to make the kernel ask the next hop, which was not known to answer: they may be lost.
    pub sent_unresolved: u64,
    /// Waiting here.
    pub queued: u64,
    /// Bytes of memory that those who wait take.
    pub queued_bytes: u64,
    /// Bytes of memory that they may take, over all workers; null: the destination is not in use any more.
    pub queue_limit: Option<u64>,
    /// Not sent, by reason.
    pub drops: Drops,
    /// System calls that sent; `sent` over it is the batching.
    pub calls: u64,
    /// Datagrams that left within a joined (GSO) send.
    pub joined: u64,
    /// Why sends are not joined; null: they are.
    pub not_joined: Option<String>,
    /// ICMP errors that came back.
    pub icmp_errors: u64,
    /// Of them, those that quote nothing that was sent: nobody believes them.
    pub icmp_unproven: u64,
    /// Its answers, where they go back.
    pub replies: ReplyCount,
    /// `copies` less the sum of its parts.
    pub unexplained: i64,
}

/// What became of a destination's answers: received = returned + dropped + unexplained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplyCount {
    /// Answers that came from its address and port.
    pub received: Count,
    /// Handed to the kernel for the client that they are for.
    pub returned: Count,
    /// Not taken by the kernel, or their listener is gone.
    pub dropped: u64,
    /// Sessions, one a client, that there are now.
    pub sessions: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Of them, those that were closed since they were silent for too long.
    pub aged: u64,
    /// Of them, those that were closed to make room for others: `sessions` is too low.
    pub evicted: u64,
    /// Sessions that could not be opened: no port or descriptor is left.
    pub failed: u64,
    /// `received` less the sum of its parts.
    pub unexplained: i64,
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
            let parts = to.replies.returned.datagrams + to.replies.dropped;
            to.replies.unexplained = to.replies.received.datagrams.wrapping_sub(parts) as i64;
        }
        self.closed = self.listeners.iter().all(|listener| listener.unexplained == 0)
            && self.destinations.iter().all(|to| to.unexplained == 0 && to.replies.unexplained == 0);
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
        self.replies.received += other.replies.received;
        self.replies.returned += other.replies.returned;
        self.replies.dropped += other.replies.dropped;
        self.replies.sessions += other.replies.sessions;
        self.replies.opened += other.replies.opened;
        self.replies.aged += other.replies.aged;
        self.replies.evicted += other.replies.evicted;
        self.replies.failed += other.replies.failed;
    }
}
