//! What is known of the neighbour through which an address is reached. The thread `neighbours` writes it, workers read it for
//! each batch.
//!
//! While a neighbour is not known to answer, the kernel takes what is sent to it and loses it without a word. So workers
//! hand it one datagram per second, which makes the kernel ask, and keep or drop the rest.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::sys::eventfd::EventFd;
use weir_kernel::next_hops::Neighbour;

/// What is known of a next hop, on the caller's clock (ms, never 0).
#[derive(Debug, Default)]
pub struct Hop {
    gate: AtomicU8,
    /// Whether there is no socket: no route led there when it was to be opened.
    closed: AtomicBool,
    /// Whether one datagram may be sent though the gate is not open.
    may_ask: AtomicBool,
    /// When the first datagram since the gate closed was sent; 0: none was.
    asked: AtomicU64,
    /// Wakes the thread `neighbours`: the kernel does not report that it begins to ask. Unset: nobody listens.
    listener: OnceLock<Arc<EventFd>>,
}

/// What may be sent to a next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// Everything: it answers, or nobody has to.
    #[default]
    Open,
    /// One datagram, so that the kernel asks for it; the rest waits.
    Asking,
    /// One datagram, so that the kernel asks again; the rest is dropped.
    Silent,
}

impl Gate {
    /// After what the kernel reports; `None`: it has no entry. Entries that failed are asked again and cleared away before long,
    /// which is no answer.
    pub(super) fn after(self, neighbour: Option<Neighbour>) -> Self {
        match neighbour {
            Some(Neighbour::Known) => Self::Open,
            Some(Neighbour::Failed) => Self::Silent,
            Some(Neighbour::Asked) | None if self == Self::Silent => Self::Silent,
            Some(Neighbour::Asked) | None => Self::Asking,
        }
    }
}

impl Hop {
    /// What may be sent to it now.
    pub fn gate(&self) -> Gate {
        match self.gate.load(Relaxed) {
            0 => Gate::Open,
            1 => Gate::Asking,
            _ => Gate::Silent,
        }
    }

    /// Returns whether that is new. Only one thread at a time may call this.
    pub fn set_gate(&self, gate: Gate) -> bool {
        let changed = self.gate() != gate;
        if changed {
            self.asked.store(0, Relaxed);
            self.may_ask.store(true, Relaxed);
            self.gate.store(gate as u8, Relaxed);
        }
        changed
    }

    /// After what the kernel reports; returns whether that changes anything.
    pub fn hear(&self, neighbour: Option<Neighbour>) -> bool {
        self.set_gate(self.gate().after(neighbour))
    }

    /// Notes whether there is no socket.
    pub fn set_closed(&self, closed: bool) {
        self.closed.store(closed, Relaxed);
    }

    /// Whether there is no socket.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Has this be written to when a worker asks.
    pub fn wake_when_asked(&self, listener: &Arc<EventFd>) {
        self.listener.get_or_init(|| Arc::clone(listener));
    }

    /// Allows one more datagram.
    pub fn let_ask(&self) {
        self.may_ask.store(true, Relaxed);
    }

    /// Takes the one datagram that is allowed. One that the kernel refuses is given back by [`Self::let_ask`].
    pub fn take_ask(&self) -> bool {
        self.may_ask.swap(false, Relaxed)
    }

    /// The kernel has taken the datagram.
    pub(super) fn asked(&self, now: u64) {
        if self.asked.compare_exchange(0, now, Relaxed, Relaxed).is_ok()
            && let Some(listener) = self.listener.get()
        {
            // The counter of an eventfd is full only when there are 2^64 - 2 wake-ups to see.
            let _ = listener.write(1);
        }
    }

    /// Whether it was asked, and its answer is awaited.
    pub fn is_awaited(&self) -> bool {
        self.gate() == Gate::Asking && self.asked.load(Relaxed) > 0
    }

    /// Whether what is sent goes elsewhere (a translated address, IPsec), where the kernel has no entry.
    pub(super) fn is_elsewhere(&self, now: u64) -> bool {
        self.is_awaited() && now >= self.asked.load(Relaxed) + ENTRY_MADE.as_millis() as u64
    }

    /// Whether it answers as far as is known.
    pub(super) fn answers(&self, now: u64) -> bool {
        match (self.gate(), self.asked.load(Relaxed)) {
            (Gate::Open, _) | (Gate::Asking, 0) => true,
            (Gate::Asking, asked) => now < asked + PATIENCE.as_millis() as u64,
            (Gate::Silent, _) => false,
        }
    }
}

/// How long a next hop may take to answer before its destination counts as down. On a local network, an answer takes a
/// millisecond.
const PATIENCE: Duration = Duration::from_millis(500);

/// The kernel makes an entry within the call that sends (`ip_finish_output2`), so any time is enough; this one leaves the worker
/// time to return from the call.
pub const ENTRY_MADE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_follow_the_kernel() {
        use Gate::{Asking, Open, Silent};
        use Neighbour::{Asked, Failed, Known};
        for (before, heard, after) in [
            (Open, Some(Known), Open),
            (Open, Some(Asked), Asking),
            (Open, Some(Failed), Silent),
            (Open, None, Asking),
            (Asking, Some(Known), Open),
            (Asking, Some(Asked), Asking),
            (Asking, Some(Failed), Silent),
            (Asking, None, Asking),
            (Silent, Some(Known), Open),
            (Silent, Some(Asked), Silent),
            (Silent, Some(Failed), Silent),
            (Silent, None, Silent),
        ] {
            assert_eq!(before.after(heard), after, "{before:?} {heard:?}");
        }
    }

    #[test]
    fn a_next_hop_that_was_asked_has_half_a_second_to_answer() {
        let hop = Hop::default();
        assert!(hop.hear(None) && !hop.hear(None));
        assert!(hop.answers(1_000_000) && !hop.is_awaited(), "nobody has asked");
        assert!(hop.take_ask() && !hop.take_ask());
        hop.asked(1000);
        hop.asked(1400);
        assert!(hop.answers(1499) && !hop.answers(1500));
        assert!(!hop.is_elsewhere(1049) && hop.is_elsewhere(1050));
        assert!(hop.hear(Some(Neighbour::Known)) && hop.answers(1600) && !hop.is_elsewhere(1600));
    }

    #[test]
    fn a_silent_next_hop_is_asked_one_datagram_at_a_time() {
        let hop = Hop::default();
        assert!(hop.hear(Some(Neighbour::Failed)));
        assert!(hop.take_ask() && !hop.take_ask());
        hop.asked(1);
        assert!(!hop.is_elsewhere(1000), "it was asked before, so it is the way");
        hop.let_ask();
        assert!(hop.take_ask() && !hop.answers(2));
    }
}
