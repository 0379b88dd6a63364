//! The one datagram that the kernel is handed for a next hop which is not known to answer, and what became of it.

use std::time::{Duration, Instant};

use crate::health::{Gate, Health, Hop};

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
    pub(super) fn fate(
        &mut self,
        health: &Health,
        now: Instant,
        send_queue: impl FnOnce() -> Option<u32>,
    ) -> Option<Fate> {
        let told = self.told(health.hop());
        if told.is_some() {
            return told;
        }
        if now.saturating_duration_since(self.looked) < BETWEEN_LOOKS {
            return None;
        }
        self.looked = now;
        let was_idle = std::mem::replace(&mut self.idle, send_queue() == Some(0));
        // That nobody failed is known where all has been heard, of which some was heard just now.
        if self.idle && was_idle && health.has_heard_all() {
            return self.told(health.hop()).or(Some(Fate::Elsewhere));
        }
        None
    }

    /// What the next hop tells of it.
    fn told(&self, hop: Hop) -> Option<Fate> {
        if hop.failures != self.failures {
            return Some(Fate::Lost);
        }
        (hop.gate == Gate::Open).then_some(Fate::Sent)
    }
}

/// Between two looks at the socket's queue. A next hop that fails empties it, too, and the kernel tells of that within this time,
/// whenever it is heard.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use weir_kernel::next_hops::Neighbour;

    use super::*;
    use crate::health::News;

    /// One whose next hop is not known, and a trial of it.
    fn asking() -> (Health, Trial) {
        let health = Health::default();
        health.see(None);
        let trial = Trial::new(9, health.hop());
        (health, trial)
    }

    /// What became of it at the next look, where so much has not left.
    fn look(trial: &mut Trial, health: &Health, queue: u32) -> Option<Fate> {
        trial.fate(health, trial.looked + BETWEEN_LOOKS, || Some(queue))
    }

    #[test]
    fn it_has_left_when_the_next_hop_answers_and_is_lost_when_that_fails() {
        use Neighbour::{Failed, Known};
        for (told, fate) in [
            (&[][..], None),
            (&[Known], Some(Fate::Sent)),
            (&[Failed], Some(Fate::Lost)),
            // It was before it answered again.
            (&[Failed, Known], Some(Fate::Lost)),
        ] {
            let (health, mut trial) = asking();
            for &neighbour in told {
                health.hear(Some(neighbour));
            }
            assert_eq!(look(&mut trial, &health, 768), fate, "{told:?}");
        }
    }

    #[test]
    fn it_went_elsewhere_where_the_socket_is_empty_and_nobody_failed() {
        let (health, mut trial) = asking();
        let fates = [0, 768, 0, 0].map(|queue| look(&mut trial, &health, queue));
        assert_eq!(fates, [None, None, None, Some(Fate::Elsewhere)]);
    }

    #[test]
    fn it_is_not_known_to_have_gone_elsewhere_while_the_kernel_waits_to_be_heard() {
        let (health, mut trial) = asking();
        let (mut kernel, events) = UnixStream::pair().unwrap();
        health.follow(&Arc::new(News::new(events.into())));
        kernel.write_all(b"It failed.").unwrap();
        for _ in 0..5 {
            assert_eq!(look(&mut trial, &health, 0), None);
        }
        health.hear(Some(Neighbour::Failed));
        assert_eq!(look(&mut trial, &health, 0), Some(Fate::Lost));
    }
}
