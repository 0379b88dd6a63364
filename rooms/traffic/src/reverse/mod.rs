//! Reverse messages: one end asks the other to send, so that a receiver behind NAT or a firewall can be reached, and
//! both directions can run at once.
//!
//! The receiver listens on TCP at its own port number. Both ends speak [lines](lines) of JSON:
//!
//! | end | line | then |
//! |---|---|---|
//! | client | a request | |
//! | server | `granted` with a token, or `refused` with the reason | refused: closed |
//! | client | over UDP the token in a datagram each 100 ms until the first message comes, over TCP in a second connection | the server takes the token from the address of the control connection only |
//! | both | messages | the flow lasts while the control connection is open |
//! | both | `sent` when all is sent, then `account` of what came | closed |
//!
//! A forged source cannot complete the TCP handshake, so nothing is ever sent to an address that did not ask for it.

mod call;
mod client;
mod desk;
mod limits;
pub(crate) mod lines;

use std::sync::atomic::{AtomicU64, Ordering};

use weir_program::clock::Nanos;

pub(crate) use self::call::{LONGEST_LINE, LOOK, end_when_dead};
pub use self::client::{Client, ClientReport};
pub(crate) use self::desk::Desk;
use self::lines::Sent;
use crate::{Account, SendReport};

/// The end of a request for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parted {
    /// All were sent, and both ends have reported what they received.
    Told,
    /// All were sent; the other end has not reported what it received.
    Untold,
    /// No control connection could be made.
    Unreachable,
    /// The request was never answered.
    Unanswered,
    /// The request was refused, for this reason.
    Refused(String),
    /// It was granted, but no message came.
    Nothing,
    /// The other end fell silent.
    Silent,
    /// A stop ended it.
    Stopped,
    /// The socket or the connection failed.
    #[default]
    Failed,
}

/// The result of a receiver for one of its clients.
#[derive(Clone, Debug)]
pub struct Flow {
    /// How it ended.
    pub parted: Parted,
    /// The ledger of the direction from the other end, if it sent and has finished, and of the direction to it.
    pub directions: Vec<Account>,
}

/// The reverse direction of a receiver, for the thread that receives.
#[derive(Debug, Default)]
pub(crate) struct OtherWay {
    sent: AtomicU64,
    open: AtomicU64,
    begun: AtomicU64,
    last: AtomicU64,
}

impl OtherWay {
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn end(&self, at: Nanos) {
        self.touch(at);
        self.open.fetch_sub(1, Ordering::Release);
    }

    /// A flow ended, or a request was refused: its client may ask again for less.
    pub(crate) fn touch(&self, at: Nanos) {
        self.last.fetch_max(at, Ordering::Relaxed);
    }

    pub(crate) fn add_sent(&self, messages: u64) {
        self.sent.fetch_add(messages, Ordering::Relaxed);
    }

    /// The desk of a single flow.
    pub(crate) fn set_sent(&self, messages: u64) {
        self.sent.fetch_max(messages, Ordering::Relaxed);
    }

    /// Messages sent so far, by all flows.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether a flow is active, which keeps the receiver running.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    /// Flows so far.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// When the last flow ended or the last request was refused.
    pub(crate) fn last(&self) -> Option<Nanos> {
        Some(self.last.load(Ordering::Relaxed)).filter(|&last| last > 0)
    }
}

fn sent_of(report: &SendReport) -> Sent {
    let shortfall = report.due.map(|_| report.shortfall());
    Sent { messages: report.sent, shortfall, incarnation: report.incarnation }
}

#[cfg(test)]
mod tests;
