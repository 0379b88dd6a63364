//! The circuit breaker of one address: pure, on the caller's clock.
//!
//! ```text
//! up --report, 3 send errors--> down --10 s--> trial --4 s after the first send--> up     (a report or a send error: down)
//! any --2 probes fail--> down --a probe is answered--> up
//! ```

use super::{Cause, Evidence, HOLD_DOWN, TRIAL};

/// What is known of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    held: Option<Held>,
    /// Send errors in a row, at most [`ERRORS`]. The last before a hold-down stay, so that a single one more ends the trial.
    errors: u8,
    /// Probes in a row that failed, at most [`FAILURES`].
    failures: u8,
    /// Times that it was found dead.
    pub(super) downs: u64,
}

/// What a report or send errors have caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    /// The gravest.
    cause: Cause,
    /// When the hold-down ends, ms.
    until: u64,
    /// When the trial ends, which began with the first send after the hold-down.
    trial: Option<u64>,
}

impl State {
    /// Takes note.
    pub(super) fn note(&mut self, evidence: Evidence, now: u64) {
        let was_up = self.down(now).is_none();
        let reported = self.held.filter(|held| held.trial.is_none_or(|end| now < end)).map(|held| held.cause);
        match evidence {
            Evidence::PortUnreachable => self.hold_down(Cause::PortUnreachable, now),
            Evidence::HostUnreachable => self.hold_down(Cause::HostUnreachable, now),
            Evidence::SendError => {
                self.errors = (self.errors + 1).min(ERRORS);
                if self.errors == ERRORS {
                    self.hold_down(Cause::SendErrors, now);
                }
            }
            // The hold-down stays: neighbours that never answer have datagrams taken for them between the errors.
            Evidence::Sent => {
                self.errors = 0;
                if let Some(held) = &mut self.held
                    && now >= held.until
                {
                    held.trial.get_or_insert(now + TRIAL.as_millis() as u64);
                }
                self.held = self.held.filter(|held| held.trial.is_none_or(|end| now < end));
            }
            Evidence::ProbeFailed => self.failures = (self.failures + 1).min(FAILURES),
            // A host that lives need not have the port open of which ICMP spoke.
            Evidence::HostAnswered if reported == Some(Cause::PortUnreachable) => self.failures = 0,
            Evidence::ProbeAnswered | Evidence::HostAnswered => *self = Self { downs: self.downs, ..Self::default() },
        }
        self.downs += u64::from(was_up && self.down(now).is_some());
    }

    /// Why it counts as dead; `None`: it does not. After a hold-down that is so until it was tried.
    pub(super) fn down(&self, now: u64) -> Option<Cause> {
        let held = self.held.filter(|held| held.trial.is_none_or(|end| now < end));
        if self.failures == FAILURES { Some(Cause::Probe) } else { held.map(|held| held.cause) }
    }

    /// Until when groups pass over it, though it may count as dead later: else nobody would try it. 0: they do not.
    pub(super) fn shunned_until(&self) -> u64 {
        match self.held {
            _ if self.failures == FAILURES => u64::MAX,
            Some(Held { until, trial: None, .. }) => until,
            _ => 0,
        }
    }

    /// Whether it matters that something was sent.
    pub(super) fn is_troubled(&self) -> bool {
        self.errors > 0 || self.held.is_some()
    }

    /// It is dead from now on, for this cause or a graver one that holds already.
    fn hold_down(&mut self, cause: Cause, now: u64) {
        let before = self.held.filter(|held| now < held.until).map_or(cause, |held| held.cause);
        self.errors = ERRORS;
        self.held = Some(Held { cause: cause.max(before), until: now + HOLD_DOWN.as_millis() as u64, trial: None });
    }
}

/// Send errors in a row that make a verdict.
const ERRORS: u8 = 3;

/// Probes in a row whose failure makes a verdict.
const FAILURES: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use Cause::{HostUnreachable as Host, PortUnreachable as Port, Probe, SendErrors};
    use Evidence::{HostAnswered, HostUnreachable, PortUnreachable, ProbeAnswered, ProbeFailed, SendError, Sent};

    /// What was noted when; why it counts as dead at the end, whether groups pass over it, and how often it was found dead.
    type Case<'a> = (&'a [(u64, Evidence)], u64, Option<Cause>, bool, u64);

    #[test]
    fn the_breaker_is_a_table() {
        const HELD: u64 = 10_000;
        let cases: &[Case<'_>] = &[
            (&[], 1, None, false, 0),
            // Reports.
            (&[(1, PortUnreachable)], HELD, Some(Port), true, 1),
            (&[(1, PortUnreachable)], HELD + 1, Some(Port), false, 1),
            (&[(1, PortUnreachable), (HELD, PortUnreachable)], 2 * HELD - 1, Some(Port), true, 1),
            (&[(1, HostUnreachable)], 2, Some(Host), true, 1),
            (&[(1, HostUnreachable), (3, SendError)], 3, Some(Host), true, 1),
            (&[(1, PortUnreachable), (3, HostUnreachable)], 4, Some(Port), true, 1),
            (&[(1, HostUnreachable), (3, PortUnreachable)], 4, Some(Port), true, 1),
            // The trial.
            (&[(1, PortUnreachable), (2, Sent)], 1_000_000, Some(Port), false, 1),
            (&[(1, PortUnreachable), (20_000, Sent), (20_001, Sent)], 23_999, Some(Port), false, 1),
            (&[(1, PortUnreachable), (20_000, Sent)], 24_000, None, false, 1),
            (&[(1, PortUnreachable), (20_000, Sent), (20_001, PortUnreachable)], 20_002, Some(Port), true, 1),
            (&[(1, PortUnreachable), (20_000, Sent), (24_000, PortUnreachable)], 24_001, Some(Port), true, 2),
            // Send errors.
            (&[(1, SendError), (1, SendError), (2, Sent), (3, SendError), (3, SendError)], 3, None, false, 0),
            (&[(1, SendError), (1, SendError), (1, SendError)], 1, Some(SendErrors), true, 1),
            (&[(1, SendError), (1, SendError), (1, SendError)], HELD + 5, Some(SendErrors), false, 1),
            (&[(1, SendError), (1, SendError), (1, SendError), (20_000, SendError)], 20_001, Some(SendErrors), true, 1),
            (&[(1, HostUnreachable), (20_000, Sent), (20_001, SendError)], 24_000, None, false, 1),
            // Probes.
            (&[(1, ProbeFailed), (2, ProbeAnswered), (3, ProbeFailed)], 3, None, false, 0),
            (&[(1, ProbeFailed), (2, ProbeFailed)], 1_000_000_000, Some(Probe), true, 1),
            (&[(1, ProbeFailed), (2, ProbeFailed), (3, HostAnswered)], 3, None, false, 1),
            (&[(1, PortUnreachable), (1, ProbeFailed), (1, ProbeFailed)], 1, Some(Probe), true, 1),
            (&[(1, PortUnreachable), (1, ProbeFailed), (1, ProbeFailed), (2, ProbeAnswered)], 2, None, false, 1),
            (&[(1, PortUnreachable), (1, ProbeFailed), (1, ProbeFailed), (2, HostAnswered)], 2, Some(Port), true, 1),
            (&[(1, PortUnreachable), (HELD + 2, HostAnswered)], HELD + 2, Some(Port), false, 1),
            (&[(1, SendError), (1, SendError), (1, SendError), (2, HostAnswered)], 2, None, false, 1),
        ];
        for (history, now, down, shunned, downs) in cases {
            let mut state = State::default();
            history.iter().for_each(|&(at, evidence)| state.note(evidence, at));
            let found = (state.down(*now), *now < state.shunned_until(), state.downs);
            assert_eq!(found, (*down, *shunned, *downs), "{history:?} at {now}");
        }
    }
}
