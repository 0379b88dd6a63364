//! What is known of the neighbour that an address is reached through, in one word: whoever listens to the kernel writes
//! it (`control/neighbours`), workers read it for each batch.
//!
//! While a neighbour is not known to answer, the kernel takes what is sent to it, and loses it without a word. So workers
//! hand it one datagram, which makes it ask, and keep the rest until it is known what became of that one.

use std::time::Duration;

use weir_kernel::next_hops::Neighbour;

/// What is known of a next hop. Pure, on the caller's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hop {
    /// What may be sent.
    pub(crate) gate: Gate,
    /// Times that what the kernel had for it was lost, modulo [`FAILURES`]: whatever it was given before is gone.
    pub(crate) failures: u16,
    /// Whether there is no socket: no route led there when it was to be opened.
    pub(crate) closed: bool,
    /// Since when an answer is waited for, ms; 0: it is not.
    since: u64,
}

/// What may be sent to a next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Everything: it answers, or nobody has to.
    #[default]
    Open,
    /// One datagram, so that the kernel asks for it; the rest waits.
    Asking,
    /// Nothing for the moment: the kernel has asked it in vain so often that it is about to give up.
    Doubted,
    /// One datagram, so that the kernel asks again; the rest is dropped.
    Failed,
}

impl Hop {
    /// After what the kernel said of it just now; `None`: it has no entry any more.
    pub(super) fn hear(mut self, neighbour: Option<Neighbour>, now: u64) -> Self {
        match neighbour {
            Some(Neighbour::Known) => (self.gate, self.since) = (Gate::Open, 0),
            // Time decides: see `doubt`.
            Some(Neighbour::Doubted) if self.gate == Gate::Doubted => {}
            Some(Neighbour::Doubted) => (self.gate, self.since) = (Gate::Open, 0),
            // It is asked again, and has not answered yet.
            Some(Neighbour::Asked) if self.gate == Gate::Failed => {}
            Some(Neighbour::Asked) => {
                self.gate = Gate::Asking;
                self.since = if self.since == 0 { now } else { self.since };
            }
            Some(Neighbour::Failed) => (self.gate, self.since) = (Gate::Failed, 0),
            // Entries that failed are cleared away before long, which is no answer.
            None if self.gate == Gate::Failed => {}
            None => (self.gate, self.since) = (Gate::Asking, 0),
        }
        if matches!(neighbour, Some(Neighbour::Failed) | None) {
            self.failures = (self.failures + 1) % FAILURES;
        }
        self
    }

    /// After a look at the kernel's table, where what it says may be old.
    pub(super) fn see(self, neighbour: Option<Neighbour>, now: u64) -> Self {
        match (neighbour, self.gate) {
            (Some(Neighbour::Failed), Gate::Failed) | (None, Gate::Asking | Gate::Failed) => self,
            _ => self.hear(neighbour, now),
        }
    }

    /// The kernel has asked for long.
    pub(super) fn doubt(self) -> Self {
        if self.gate == Gate::Open { Self { gate: Gate::Doubted, ..self } } else { self }
    }

    /// A datagram was given to the kernel, so that it asks.
    pub(super) fn ask(self, now: u64) -> Self {
        if self.gate == Gate::Asking && self.since == 0 { Self { since: now, ..self } } else { self }
    }

    /// Nobody is asked, or another than was thought.
    pub(super) fn free(self) -> Self {
        Self { gate: Gate::Open, since: 0, ..self }
    }

    /// There is a socket now, or none.
    pub(super) fn set_closed(self, closed: bool) -> Self {
        Self { closed, ..self }
    }

    /// Whether it answers as far as is known.
    pub(super) fn answers(self, now: u64) -> bool {
        match self.gate {
            Gate::Open => true,
            Gate::Asking => self.since == 0 || now < self.since + PATIENCE.as_millis() as u64,
            Gate::Doubted | Gate::Failed => false,
        }
    }

    /// Whether it was asked, and its answer is waited for.
    pub(crate) fn is_awaited(self) -> bool {
        match self.gate {
            Gate::Asking => self.since > 0,
            Gate::Doubted => true,
            Gate::Open | Gate::Failed => false,
        }
    }

    pub(super) fn word(self) -> u64 {
        self.since << 16 | u64::from(self.failures) << 3 | u64::from(self.closed) << 2 | self.gate as u64
    }

    pub(super) fn from_word(word: u64) -> Self {
        Self {
            gate: match word & 3 {
                0 => Gate::Open,
                1 => Gate::Asking,
                2 => Gate::Doubted,
                _ => Gate::Failed,
            },
            closed: word >> 2 & 1 == 1,
            failures: (word >> 3) as u16 % FAILURES,
            since: word >> 16,
        }
    }
}

/// How long a next hop may take to answer before its destination is thought dead. On a network at one place, an answer
/// takes a millisecond.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a word has room for.
const FAILURES: u16 = 1 << 13;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(heard: &[Option<Neighbour>]) -> Hop {
        heard.iter().fold(Hop::default(), |hop, &neighbour| hop.hear(neighbour, 1))
    }

    #[test]
    fn who_is_not_known_is_asked_and_has_half_a_second() {
        let hop = after(&[None]);
        assert_eq!(hop.gate, Gate::Asking);
        assert!(hop.answers(1_000_000), "nobody has asked");
        let hop = hop.ask(1000).ask(1400);
        assert!(hop.answers(1499) && !hop.answers(1500));
        assert!(hop.hear(Some(Neighbour::Known), 1600).answers(1600));
    }

    #[test]
    fn who_failed_stays_failed_until_it_answers() {
        let failed = after(&[Some(Neighbour::Known), Some(Neighbour::Failed)]);
        for heard in [Some(Neighbour::Asked), None, Some(Neighbour::Failed)] {
            assert_eq!(failed.hear(heard, 2).gate, Gate::Failed, "{heard:?}");
        }
        assert_eq!(failed.hear(Some(Neighbour::Known), 2).gate, Gate::Open);
        assert_eq!(failed.hear(Some(Neighbour::Failed), 2).failures, failed.failures + 1, "what asked again is lost");
        assert_eq!(failed.see(Some(Neighbour::Failed), 2), failed, "that was known");
    }

    #[test]
    fn a_doubt_is_left_to_time() {
        let doubted = after(&[Some(Neighbour::Known), Some(Neighbour::Doubted)]);
        assert_eq!(doubted.gate, Gate::Open, "what is sent still leaves");
        let doubted = doubted.doubt();
        assert!(!doubted.answers(1));
        assert_eq!(doubted.hear(Some(Neighbour::Doubted), 1).gate, Gate::Doubted);
        assert_eq!(doubted.hear(Some(Neighbour::Known), 1).gate, Gate::Open);
        assert_eq!(doubted.hear(Some(Neighbour::Failed), 1).gate, Gate::Failed);
    }

    proptest! {
        #[test]
        fn a_hop_is_a_word(gate in 0u64..4, failures in 0..FAILURES, closed: bool, since in 0u64..1 << 48) {
            let hop = Hop { gate: Hop::from_word(gate).gate, failures, closed, since };
            prop_assert_eq!(Hop::from_word(hop.word()), hop);
        }
    }
}
