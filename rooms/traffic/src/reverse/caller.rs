//! The asking end over UDP: asks until it is answered, shows that it is still there, and at the end tells what came.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::ScopedJoinHandle;

use std::io::IoSlice;
use weir_dgram::{Outgoing, Socket};
use weir_program::clock::{Nanos, now};
use weir_wire::control::{Account, Control, Says, Terms};

use super::{AGAIN, ALIVE, LOOK, Parted, SILENCE, account_of, end_of};
use crate::receiver::sessions::Sessions;
use crate::receiver::talk::{Due, Origin, Talk};
use crate::{Ended, Exchange, ReceiveReport, SendReport};

/// What it sends itself, on a thread that waits for the word to begin.
pub(super) struct Own<'scope> {
    pub(super) go: Option<mpsc::Sender<()>>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) thread: Option<ScopedJoinHandle<'scope, Option<SendReport>>>,
    pub(super) report: Option<SendReport>,
}

/// Its part of the conversation.
pub(super) struct Caller<'scope> {
    pub(super) socket: Arc<Socket>,
    pub(super) terms: Terms,
    /// Session, request and the newest cookie.
    pub(super) control: Control,
    pub(super) own: Option<Own<'scope>>,
    pub(super) phase: Phase,
    /// When to give up asking.
    pub(super) deadline: Nanos,
    /// When something is to be said next.
    pub(super) next: Nanos,
    /// When a control message came last.
    pub(super) heard: Nanos,
    /// Whether the network has said since that nobody listens there.
    pub(super) gone: bool,
    pub(super) told: Option<Account>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Asking,
    Flowing,
    /// Until then.
    Telling(Nanos),
    Over(Parted),
}

impl Own<'_> {
    /// Whether it has ended, or was never there.
    pub(super) fn collect(own: &mut Option<Self>) -> bool {
        let Some(own) = own else { return true };
        if own.thread.as_ref().is_some_and(ScopedJoinHandle::is_finished) {
            own.join();
        }
        own.thread.is_none()
    }

    pub(super) fn join(&mut self) {
        self.go = None;
        if let Some(thread) = self.thread.take() {
            self.report = thread.join().unwrap_or_default();
        }
    }

    pub(super) fn begin(own: &mut Option<Self>) {
        if let Some(go) = own.as_mut().and_then(|own| own.go.take()) {
            // It waits, or has ended with a stop.
            let _ = go.send(());
        }
    }
}

/// What this end has to tell at the end: what came, and what of its own it did not send.
pub(super) fn tell(sessions: &Sessions<'_>, own: Option<&Own<'_>>) -> Account {
    let report = own.and_then(|own| own.report.as_ref());
    let shortfall = report.and_then(|report| report.due.map(|_| report.shortfall()));
    Account { shortfall, ..sessions.first().map(account_of).unwrap_or_default() }
}

impl Caller<'_> {
    fn say(&mut self, says: Says, at: Nanos) {
        let bytes = Control { says, ..self.control }.bytes();
        self.send(&bytes, at);
    }

    fn send(&mut self, bytes: &[u8], at: Nanos) {
        let taken = self.socket.send(&[Outgoing { pieces: &[IoSlice::new(bytes)], segment: None, to: None }]);
        if taken.icmp > 0 {
            self.refused(at);
        }
    }

    fn begin(&mut self, at: Nanos) {
        if self.phase == Phase::Asking {
            (self.phase, self.next) = (Phase::Flowing, at);
            Own::begin(&mut self.own);
        }
    }

    fn last(&self, sessions: &Sessions<'_>) -> Nanos {
        self.heard.max(sessions.last_arrival().unwrap_or(0))
    }

    /// Says what is due.
    fn speak(&mut self, sessions: &Sessions<'_>, at: Nanos) {
        match self.phase {
            Phase::Asking => {
                self.say(Says::Ask(self.terms), at);
                self.next = at + ALIVE;
            }
            Phase::Flowing => {
                self.say(Says::Alive, at);
                self.next = at + ALIVE;
            }
            Phase::Telling(_) => {
                if let Some(report) = self.own.as_ref().and_then(|own| own.report.as_ref()) {
                    let end = end_of(self.control.session, report);
                    self.send(&end, at);
                }
                self.say(Says::Account(Some(tell(sessions, self.own.as_ref()))), at);
                self.next = at + AGAIN;
            }
            Phase::Over(_) => {}
        }
    }
}

impl Talk for Caller<'_> {
    fn hear(&mut self, control: &Control, _: Origin, _: &mut Sessions<'_>, at: Nanos) {
        if (control.session, control.request) != (self.control.session, self.control.request) {
            return;
        }
        self.control.cookie = control.cookie.or(self.control.cookie);
        (self.heard, self.gone) = (at, false);
        match control.says {
            // Shown at once.
            Says::Challenge if self.phase == Phase::Asking => self.next = at,
            Says::Granted => self.begin(at),
            Says::Refused(refusal) if self.phase == Phase::Asking => self.phase = Phase::Over(Parted::Refused(refusal)),
            Says::Account(account) if matches!(self.phase, Phase::Telling(_)) => {
                self.told = account;
                self.phase = Phase::Over(Parted::Told);
            }
            _ => {}
        }
    }

    fn refused(&mut self, _: Nanos) {
        match self.phase {
            Phase::Asking => self.phase = Phase::Over(Parted::Unreachable),
            Phase::Telling(_) => self.phase = Phase::Over(Parted::Untold),
            // Perhaps of long ago: it counts when nothing comes any more.
            Phase::Flowing => self.gone = true,
            Phase::Over(_) => {}
        }
    }

    fn tick(&mut self, sessions: &mut Sessions<'_>, at: Nanos) -> Due {
        let own_ended = Own::collect(&mut self.own);
        if let Some(own) = &self.own {
            sessions.set_sent(own.exchange.sent());
        }
        match self.phase {
            Phase::Asking if sessions.first().is_some() => self.begin(at),
            Phase::Asking if at >= self.deadline => self.phase = Phase::Over(Parted::Unanswered),
            Phase::Flowing => {
                let patience = if self.gone { GONE } else { SILENCE };
                if own_ended && sessions.settled(None, self.control.session, at).is_some() {
                    (self.phase, self.next) = (Phase::Telling(at + SILENCE), at);
                } else if at.saturating_sub(self.last(sessions)) > patience {
                    self.phase = Phase::Over(Parted::Silent);
                }
            }
            Phase::Telling(until) if at >= until => self.phase = Phase::Over(Parted::Untold),
            _ => {}
        }
        if at >= self.next {
            self.speak(sessions, at);
        }
        match self.phase {
            Phase::Over(_) => {
                if self.own.is_some() {
                    // What was sent behind the last message that came is told of, too.
                    sessions.reverse_ended(at);
                }
                Due::Over(Ended::Complete)
            }
            // Its own sender and the grace of what was lost are looked after meanwhile.
            Phase::Flowing => Due::At(self.next.min(at + LOOK)),
            _ => Due::At(self.next),
        }
    }

    fn finish(&mut self, report: &mut ReceiveReport) {
        if matches!(self.phase, Phase::Flowing | Phase::Telling(_)) {
            // Stopped: nothing is read any more, and the other end need not go on. It hears of it, or of nothing any more.
            let account = report.sessions.first().map(account_of).unwrap_or_default();
            for _ in 0..LAST_WORDS {
                self.say(Says::Account(Some(account)), now());
            }
            self.phase = Phase::Over(Parted::Stopped);
        }
        // It announces its end for a while, and what came meanwhile would be in nobody's account.
        if let Some(own) = &mut self.own {
            own.join();
        }
    }
}

/// A random number for a request.
pub(super) fn random(to: SocketAddr) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one((now(), to))
}

/// How long somebody is waited for whom the network says to be gone.
const GONE: Nanos = 1_000_000_000;

/// How often the end is told to one that will not be listened to any more.
const LAST_WORDS: usize = 3;
