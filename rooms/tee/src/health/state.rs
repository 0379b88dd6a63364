//! The state behind a verdict: pure, on the caller's clock, in one word of 64 bits.

use super::{Cause, Evidence, HOLD_DOWN, TRIAL};

/// What is known of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// When the hold-down ends, or the trial after it, ms; 0: there is none. Below 2^47, which is 4,400 years.
    until: u64,
    /// Whether it is the end of the trial: after the hold-down something was sent.
    tried: bool,
    /// The gravest reason for the hold-down.
    reason: Reason,
    /// Send errors in a row, at most [`ERRORS`]. The last before a hold-down stay: then a single one more ends the trial
    /// that follows it, as in a circuit breaker that is half open.
    errors: u8,
    /// Probes in a row that failed, at most [`FAILURES`].
    failures: u8,
    /// Times that it was found dead, modulo [`DOWNS`].
    downs: u16,
}

/// Why something is held down, the graver the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Send errors.
    #[default]
    Errors,
    /// A router's ICMP.
    Host,
    /// The host's own ICMP.
    Port,
}

impl State {
    /// The state after `evidence`.
    pub(super) fn note(mut self, evidence: Evidence, now: u64) -> Self {
        let held = self.held(now).is_some();
        let (was_up, downs) = (self.down(now).is_none(), self.downs);
        match evidence {
            Evidence::PortUnreachable => self.hold_down(Reason::Port, now),
            Evidence::HostUnreachable => {
                self.errors = ERRORS;
                self.hold_down(Reason::Host, now);
            }
            Evidence::SendError => {
                self.errors = (self.errors + 1).min(ERRORS);
                if self.errors == ERRORS {
                    self.hold_down(Reason::Errors, now);
                }
            }
            // The hold-down stays: neighbours that never answer have datagrams taken for them between the errors.
            Evidence::Sent => {
                self.errors = 0;
                if self.is_untried() && !held {
                    (self.tried, self.until) = (true, now + TRIAL.as_millis() as u64);
                }
            }
            Evidence::ProbeFailed => self.failures = (self.failures + 1).min(FAILURES),
            Evidence::ProbeAnswered => self = Self::default(),
            // A host that lives need not have the port open that ICMP has spoken of.
            Evidence::HostAnswered if held && self.reason == Reason::Port => self.failures = 0,
            Evidence::HostAnswered if self.reported(now) == Some(Reason::Port) => (self.failures, self.errors) = (0, 0),
            Evidence::HostAnswered => self = Self::default(),
        }
        let found_dead = was_up && self.down(now).is_some();
        self.downs = (downs + u16::from(found_dead)) % DOWNS;
        self
    }

    /// It is dead from now on, for this reason or a graver one that holds already.
    fn hold_down(&mut self, reason: Reason, now: u64) {
        self.reason = self.held(now).map_or(reason, |held| held.max(reason));
        self.tried = false;
        self.until = now + HOLD_DOWN.as_millis() as u64;
    }

    /// Why it is thought to be dead; `None`: it is not. After a hold-down that is so until it was tried.
    pub(super) fn down(self, now: u64) -> Option<Cause> {
        match self.failures {
            FAILURES => Some(Cause::Probe),
            _ => self.reported(now).map(Reason::cause),
        }
    }

    /// Why groups pass over it; `None`: they do not, though it may be thought to be dead: else nobody would try it.
    pub(super) fn shunned(self, now: u64) -> Option<Cause> {
        match self.failures {
            FAILURES => Some(Cause::Probe),
            _ => self.held(now).map(Reason::cause),
        }
    }

    /// Why it is held down.
    fn held(self, now: u64) -> Option<Reason> {
        (self.until > now && !self.tried).then_some(self.reason)
    }

    /// Why it was held down, until it has passed its trial.
    fn reported(self, now: u64) -> Option<Reason> {
        (self.until > now || self.is_untried()).then_some(self.reason)
    }

    /// Whether nothing was sent since a hold-down.
    pub(super) fn is_untried(self) -> bool {
        self.until != 0 && !self.tried
    }

    /// Whether it is up at any time.
    pub(super) fn never_down(self) -> bool {
        self.until == 0 && self.failures < FAILURES
    }

    /// Whether no send error is remembered.
    pub(super) fn without_errors(self) -> bool {
        self.errors == 0
    }

    /// Times that it was found dead, modulo [`DOWNS`].
    pub(super) fn downs(self) -> u16 {
        self.downs
    }

    /// All times that it was found dead: the number next to `about` that ends like this state's.
    pub(super) fn all_downs(self, about: u64) -> u64 {
        let ahead = (u64::from(self.downs) + DOWNS_U64 - about % DOWNS_U64) % DOWNS_U64;
        if ahead < DOWNS_U64 / 2 { about + ahead } else { (about + ahead).saturating_sub(DOWNS_U64) }
    }

    pub(super) fn word(self) -> u64 {
        self.until << 17
            | u64::from(self.tried) << 16
            | u64::from(self.downs) << 6
            | u64::from(self.failures) << 4
            | (self.reason as u64) << 2
            | u64::from(self.errors)
    }

    pub(super) fn from_word(word: u64) -> Self {
        Self {
            until: word >> 17,
            tried: word >> 16 & 1 == 1,
            downs: (word >> 6) as u16 % DOWNS,
            failures: (word >> 4 & 3) as u8,
            reason: match word >> 2 & 3 {
                0 => Reason::Errors,
                1 => Reason::Host,
                _ => Reason::Port,
            },
            errors: (word & 3) as u8,
        }
    }
}

impl Reason {
    fn cause(self) -> Cause {
        match self {
            Self::Errors => Cause::SendErrors,
            Self::Host => Cause::HostUnreachable,
            Self::Port => Cause::PortUnreachable,
        }
    }
}

/// Send errors in a row that make a verdict.
const ERRORS: u8 = 3;

/// Probes in a row whose failure makes a verdict.
const FAILURES: u8 = 2;

/// What a word has room for. Far more than threads that note at once, so that the whole count is known from it.
const DOWNS: u16 = 1 << 10;
const DOWNS_U64: u64 = DOWNS as u64;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const HOLD: u64 = 10_000;

    fn after(evidence: &[(u64, Evidence)]) -> State {
        evidence.iter().fold(State::default(), |state, &(at, evidence)| state.note(evidence, at))
    }

    #[test]
    fn icmp_holds_down_for_a_while() {
        let state = after(&[(1, Evidence::PortUnreachable)]);
        assert_eq!(state.down(HOLD), Some(Cause::PortUnreachable));
        assert_eq!(state.shunned(HOLD), Some(Cause::PortUnreachable));
        assert_eq!(state.shunned(HOLD + 1), None);
        let again = state.note(Evidence::PortUnreachable, HOLD);
        assert_eq!(again.down(2 * HOLD - 1), Some(Cause::PortUnreachable));
        assert_eq!(again.shunned(2 * HOLD), None);
    }

    #[test]
    fn after_a_hold_down_it_is_dead_until_it_was_tried() {
        use Evidence::{PortUnreachable, ProbeAnswered, Sent};
        let trial = TRIAL.as_millis() as u64;
        let state = after(&[(1, PortUnreachable), (2, Sent)]);
        assert_eq!(state.down(1_000_000), Some(Cause::PortUnreachable), "nothing was sent since");
        assert_eq!(state.note(ProbeAnswered, 1_000_000).down(1_000_000), None);
        let tried = state.note(Sent, 1_000_000).note(Sent, 1_000_001);
        assert_eq!(tried.down(1_000_000 + trial - 1), Some(Cause::PortUnreachable));
        assert_eq!(tried.shunned(1_000_000), None);
        assert_eq!(tried.down(1_000_000 + trial), None);
        let failed = tried.note(PortUnreachable, 1_000_002);
        assert_eq!(failed.shunned(1_000_002), Some(Cause::PortUnreachable));
        assert_eq!(failed.downs(), 1, "it has not been up");
    }

    #[test]
    fn three_send_errors_in_a_row_hold_down_and_then_one() {
        use Evidence::{SendError, Sent};
        assert_eq!(after(&[(1, SendError), (1, SendError), (2, Sent), (3, SendError), (3, SendError)]).down(3), None);
        let state = after(&[(1, SendError), (1, SendError), (1, SendError)]);
        assert_eq!(state.down(1), Some(Cause::SendErrors));
        let tried = HOLD + 5;
        assert_eq!(state.shunned(tried), None);
        assert_eq!(state.note(SendError, tried).shunned(tried), Some(Cause::SendErrors), "the trial has failed");
        let succeeded = state.note(Sent, tried);
        assert_eq!(succeeded.note(SendError, tried).shunned(tried), None);
    }

    #[test]
    fn what_a_router_reports_is_told_as_that() {
        use Evidence::{HostUnreachable, PortUnreachable, SendError};
        let state = after(&[(1, HostUnreachable)]);
        assert_eq!(state.down(2), Some(Cause::HostUnreachable));
        assert_eq!(state.note(SendError, 3).down(3), Some(Cause::HostUnreachable), "the graver one stays");
        assert_eq!(state.note(PortUnreachable, 3).note(HostUnreachable, 4).down(4), Some(Cause::PortUnreachable));
    }

    #[test]
    fn two_failed_probes_bring_it_down_until_one_is_answered() {
        use Evidence::{HostAnswered, ProbeAnswered, ProbeFailed};
        assert_eq!(after(&[(1, ProbeFailed), (2, ProbeAnswered), (3, ProbeFailed)]).down(3), None);
        let state = after(&[(1, ProbeFailed), (2, ProbeFailed)]);
        assert_eq!(state.down(1_000_000_000), Some(Cause::Probe));
        for answer in [ProbeAnswered, HostAnswered] {
            assert_eq!(state.note(answer, 3).down(3), None);
        }
    }

    #[test]
    fn an_answer_of_the_service_clears_everything_and_one_of_the_host_not_what_icmp_said() {
        use Evidence::{HostAnswered, PortUnreachable, ProbeAnswered, ProbeFailed, SendError};
        let unreachable = [(1, PortUnreachable), (1, ProbeFailed), (1, ProbeFailed)];
        let cleared = State { downs: 1, ..State::default() };
        assert_eq!(after(&unreachable).note(ProbeAnswered, 2), cleared);
        assert_eq!(after(&unreachable).note(HostAnswered, 2).down(2), Some(Cause::PortUnreachable));
        let answered = after(&unreachable).note(HostAnswered, HOLD + 2);
        assert_eq!((answered.shunned(HOLD + 2), answered.down(HOLD + 2)), (None, Some(Cause::PortUnreachable)));
        assert_eq!(after(&[(1, SendError); 3]).note(HostAnswered, 2), cleared);
    }

    #[test]
    fn a_state_knows_how_often_it_was_down_from_a_number_near_it() {
        let mut state = State::default();
        for downs in 1..=3 * DOWNS_U64 {
            state = state.note(Evidence::PortUnreachable, 1).note(Evidence::PortUnreachable, 1);
            for about in downs.saturating_sub(DOWNS_U64 / 2 - 1)..=downs + DOWNS_U64 / 2 {
                if about.abs_diff(downs) < 3 || about.abs_diff(downs) > DOWNS_U64 / 2 - 3 {
                    assert_eq!(state.all_downs(about), downs, "{about}");
                }
            }
            state = state.note(Evidence::ProbeAnswered, 1);
        }
    }

    /// Why groups pass over it at `now`, told from the whole history by the rules as they are written for users.
    fn told(history: &[(u64, Evidence)], now: u64) -> Option<Cause> {
        use Evidence::*;
        // Probes: the last two failed.
        let probes: Vec<Evidence> = history
            .iter()
            .map(|&(_, evidence)| evidence)
            .filter(|evidence| matches!(evidence, ProbeFailed | ProbeAnswered | HostAnswered))
            .collect();
        if probes.ends_with(&[ProbeFailed, ProbeFailed]) {
            return Some(Cause::Probe);
        }
        // A time of ICMP counts until it is over or the service answers; likewise one of send errors, or the host.
        let (mut icmp, mut router, mut errors) = (None, None, None);
        let mut in_a_row = 0;
        for &(at, evidence) in history {
            let current = |since: Option<u64>| since.is_some_and(|since| at < since + HOLD);
            match evidence {
                PortUnreachable => icmp = Some(at),
                SendError => {
                    in_a_row += 1;
                    if in_a_row >= 3 {
                        errors = Some(at);
                        // The reason stays the graver one.
                        if current(icmp) {
                            icmp = errors;
                        } else if current(router) {
                            router = errors;
                        }
                    }
                }
                HostUnreachable => {
                    (in_a_row, router) = (3, Some(at));
                    if current(icmp) {
                        icmp = router;
                    }
                }
                Sent => in_a_row = 0,
                ProbeFailed => {}
                HostAnswered if current(icmp) => {}
                ProbeAnswered | HostAnswered => (icmp, router, errors, in_a_row) = (None, None, None, 0),
            }
        }
        let lasts = |since: Option<u64>| since.is_some_and(|since| now < since + HOLD);
        let causes = [(icmp, Cause::PortUnreachable), (router, Cause::HostUnreachable), (errors, Cause::SendErrors)];
        causes.into_iter().find_map(|(since, cause)| lasts(since).then_some(cause))
    }

    fn histories() -> impl Strategy<Value = Vec<(u64, Evidence)>> {
        let evidence = prop_oneof![
            Just(Evidence::PortUnreachable),
            Just(Evidence::HostUnreachable),
            Just(Evidence::SendError),
            Just(Evidence::SendError),
            Just(Evidence::Sent),
            Just(Evidence::ProbeFailed),
            Just(Evidence::ProbeAnswered),
            Just(Evidence::HostAnswered),
        ];
        let pause = prop_oneof![0u64..3, 3_000u64..5_000, 9_990u64..10_010];
        vec((pause, evidence), 0..30).prop_map(|steps| {
            let mut now = 1;
            let at = |(pause, evidence)| {
                now += pause;
                (now, evidence)
            };
            steps.into_iter().map(at).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn the_verdict_is_that_of_the_history(history in histories(), later in 0u64..11_000) {
            let now = history.last().map_or(1, |last| last.0) + later;
            let state = after(&history);
            prop_assert_eq!(state.shunned(now), told(&history, now));
            prop_assert!(state.shunned(now).is_none_or(|cause| state.down(now) == Some(cause)));
        }

        #[test]
        fn a_state_is_a_word(history in histories()) {
            let state = after(&history);
            prop_assert_eq!(State::from_word(state.word()), state);
            prop_assert_eq!(state.word() == 0, state == State::default());
            let now = history.last().map_or(1, |last| last.0);
            prop_assert!(!state.never_down() || state.down(now).is_none());
        }
    }
}
