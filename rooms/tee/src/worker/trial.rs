//! The one datagram that the kernel is handed for a next hop which is not known to answer, and what became of it.

use std::time::{Duration, Instant};

use crate::health::{Gate, Hop};

/// A datagram that the kernel has, and asks the next hop for the sake of.
pub(super) struct Trial {
    /// Its payload.
    pub(super) bytes: u64,
    /// How often the next hop had failed before.
    failures: u16,
    /// When it was last looked at.
    looked: Instant,
    /// Whether the socket's queue was empty then.
    idle: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The next hop has answered: it has left.
    Sent,
    /// It has left, and the next hop was not asked: the kernel sends what goes there to another (a firewall's new address,
    /// IPsec).
    Elsewhere,
    /// The next hop did not answer.
    Lost,
}

impl Trial {
    /// One of so many bytes, of which the kernel was told after the next hop was as it is here.
    pub(super) fn new(bytes: u64, hop: Hop) -> Self {
        Self { bytes, failures: hop.failures, looked: Instant::now(), idle: false }
    }

    /// What became of it; `None`: it is not known yet. `send_queue`: bytes that the socket has sent and that have not left,
    /// among which it is as long as an answer is waited for; `None`: the kernel does not tell.
    pub(super) fn fate(&mut self, hop: Hop, now: Instant, send_queue: impl FnOnce() -> Option<u32>) -> Option<Fate> {
        if hop.failures != self.failures {
            return Some(Fate::Lost);
        }
        if hop.gate == Gate::Open {
            return Some(Fate::Sent);
        }
        if now.saturating_duration_since(self.looked) < BETWEEN_LOOKS {
            return None;
        }
        self.looked = now;
        let was_idle = std::mem::replace(&mut self.idle, send_queue() == Some(0));
        (self.idle && was_idle).then_some(Fate::Elsewhere)
    }
}

/// Between two looks at the socket's queue. A next hop that fails empties it, too, and is told of within that time.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const ASKING: Hop = Hop::new(Gate::Asking, 0);
    const OPEN: Hop = Hop::new(Gate::Open, 0);

    #[test]
    fn it_has_left_when_the_next_hop_answers_and_is_lost_when_that_fails() {
        let now = Instant::now();
        assert_eq!(Trial::new(9, ASKING).fate(ASKING, now, || None), None);
        assert_eq!(Trial::new(9, ASKING).fate(OPEN, now, || None), Some(Fate::Sent));
        let failed = Hop::new(Gate::Failed, 1);
        assert_eq!(Trial::new(9, ASKING).fate(failed, now, || None), Some(Fate::Lost));
        let recovered = Hop::new(Gate::Open, 1);
        assert_eq!(Trial::new(9, ASKING).fate(recovered, now, || None), Some(Fate::Lost), "it was before that");
    }

    #[test]
    fn it_went_elsewhere_where_the_socket_is_empty_and_nobody_failed() {
        let start = Instant::now();
        let after = |looks: u32| start + (looks * 2 + 1) * BETWEEN_LOOKS;
        let mut trial = Trial::new(9, ASKING);
        let fates = [Some(0), Some(768), Some(0), Some(0)]
            .into_iter()
            .zip(0..)
            .map(|(queue, look)| trial.fate(ASKING, after(look), || queue));
        assert_eq!(fates.collect::<Vec<_>>(), [None, None, None, Some(Fate::Elsewhere)]);
    }
}
