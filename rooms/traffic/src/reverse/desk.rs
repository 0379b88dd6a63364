//! Who is granted messages over UDP, and for how long: a state machine that is told the time and has no socket.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_program::clock::Nanos;
use weir_wire::control::{Account, Control, Cookie, Says, Terms};

use super::cookie::{EXPIRY, Secret};
use super::{Limits, Parted, Requests, SILENCE};
use crate::SenderSettings;

/// All flows, and what is remembered of those that have ended.
#[derive(Debug)]
pub(super) struct Desk {
    secret: Secret,
    limits: Limits,
    flows: Vec<Flow>,
    last_id: u64,
    answers: Answers,
    /// Askers that were refused, and when they asked last: one asks again and again.
    refused: HashMap<Asker, Nanos>,
    pub(super) requests: Requests,
}

/// What tells one that asks from all others: its address, session and request.
type Asker = (SocketAddr, u16, u64);

/// One that was granted.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) id: u64,
    pub(super) peer: SocketAddr,
    pub(super) session: u16,
    request: u64,
    pub(super) terms: Terms,
    /// Of the newest cookie that the other end has shown: it received then or later.
    proven: Nanos,
    pub(super) phase: Phase,
    /// What the other end received.
    pub(super) account: Option<Account>,
}

/// How far a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Sending,
    /// Sending has to end, since this came to pass.
    Ending(Parted),
    /// All is sent; since when.
    Sent(Nanos),
    /// The other end has told what it received, last at this time, and may ask again.
    Told(Nanos),
    Over(Parted),
}

/// What is to be done about a message.
#[derive(Debug)]
pub(super) enum Reply {
    /// Nothing, not even an answer.
    None,
    /// Answer this.
    Say(Control),
    /// Start the flow of this id and answer.
    Start(u64, Box<SenderSettings>, Control),
    /// Answer this, and say once more that the flow of this id has ended.
    SayEnd(u64, Control),
    /// Answer with the account of what the flow of this id had sent here, once that is known.
    Account(u64, Control),
}

impl Desk {
    /// `None`: the kernel has no random numbers.
    pub(super) fn new(limits: Limits) -> Option<Self> {
        let secret = Secret::new()?;
        let (answers, requests) = (Answers::default(), Requests::default());
        Some(Self { secret, limits, flows: Vec::new(), last_id: 0, answers, refused: HashMap::new(), requests })
    }

    /// Takes a control message that came from `peer` at the time `at`.
    pub(super) fn hear(&mut self, control: &Control, peer: SocketAddr, at: Nanos) -> Reply {
        match control.says {
            Says::Ask(terms) => self.asked(control, terms, peer, at),
            Says::Alive | Says::Account(_) => self.heard(control, peer, at),
            // What only an answering end says.
            Says::Challenge | Says::Granted | Says::Refused(_) => Reply::None,
        }
    }

    fn asked(&mut self, control: &Control, terms: Terms, peer: SocketAddr, at: Nanos) -> Reply {
        let Some(proven) = self.secret.check(control, peer, at) else {
            self.requests.forged += u64::from(control.cookie.is_some());
            if !self.answers.take(at) {
                self.requests.unanswered += 1;
                return Reply::None;
            }
            return Reply::Say(self.say(control, Says::Challenge, peer, at));
        };
        if let Some(flow) = self.find(control, peer) {
            // Asked again, since the answer was lost; one that is over was asked for long ago.
            return match flow.phase {
                Phase::Over(_) => Reply::None,
                _ => Reply::Say(self.say(control, Says::Granted, peer, at)),
            };
        }
        let taken = if self.flows.len() < REMEMBERED {
            self.limits.take(&terms, control.session, peer)
        } else {
            Err(weir_wire::control::Refusal::Flows(REMEMBERED as u64))
        };
        match taken {
            Err(refusal) => {
                self.count_refused((peer, control.session, control.request), at);
                Reply::Say(self.say(control, Says::Refused(refusal), peer, at))
            }
            Ok(settings) => {
                self.last_id += 1;
                self.flows.push(Flow {
                    id: self.last_id,
                    peer,
                    session: control.session,
                    request: control.request,
                    terms,
                    proven,
                    phase: Phase::Sending,
                    account: None,
                });
                Reply::Start(self.last_id, Box::new(settings), self.say(control, Says::Granted, peer, at))
            }
        }
    }

    /// Counts each asker once, however often it asks.
    fn count_refused(&mut self, asker: Asker, at: Nanos) {
        if self.refused.insert(asker, at).is_some() {
            return;
        }
        self.requests.refused += 1;
        if self.refused.len() > REMEMBERED
            && let Some(oldest) = self.refused.iter().min_by_key(|(_, asked)| **asked).map(|(asker, _)| *asker)
        {
            self.refused.remove(&oldest);
            self.requests.forgotten += 1;
        }
    }

    fn heard(&mut self, control: &Control, peer: SocketAddr, at: Nanos) -> Reply {
        let Some(proven) = self.secret.check(control, peer, at) else {
            self.requests.forged += u64::from(control.cookie.is_some());
            return Reply::None;
        };
        let Some(flow) = self.find(control, peer) else { return Reply::None };
        flow.proven = flow.proven.max(proven);
        let (id, phase) = (flow.id, flow.phase);
        if let Phase::Over(_) = phase {
            return Reply::None;
        }
        let Says::Account(account) = control.says else {
            let alive = self.say(control, Says::Alive, peer, at);
            return if let Phase::Sent(_) = phase { Reply::SayEnd(id, alive) } else { Reply::Say(alive) };
        };
        flow.account = account.or(flow.account);
        flow.phase = match phase {
            // It has enough: what it tells is not of all that would have been sent.
            Phase::Sending => Phase::Ending(Parted::Told),
            Phase::Sent(_) | Phase::Told(_) => Phase::Told(at),
            phase => phase,
        };
        Reply::Account(id, self.say(control, Says::Account(None), peer, at))
    }

    /// All that was to be sent of this flow is sent, or as much as was possible.
    pub(super) fn sent(&mut self, id: u64, at: Nanos) {
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.id == id) else { return };
        flow.phase = match flow.phase {
            Phase::Sending => Phase::Sent(at),
            Phase::Ending(Parted::Told) => Phase::Told(at),
            Phase::Ending(parted) => Phase::Over(parted),
            Phase::Sent(_) | Phase::Told(_) | Phase::Over(_) => return,
        };
        self.limits.give_back(&flow.terms, flow.peer);
    }

    /// Lets time go on: who has fallen silent, who has told all. Forgets what no cookie leads to any more.
    pub(super) fn tick(&mut self, at: Nanos) {
        for flow in &mut self.flows {
            let silent = at.saturating_sub(flow.proven) > SILENCE;
            flow.phase = match flow.phase {
                Phase::Sending if silent => Phase::Ending(Parted::Silent),
                Phase::Sent(_) if silent => Phase::Over(Parted::Untold),
                Phase::Told(last) if at.saturating_sub(last) > LINGER => Phase::Over(Parted::Told),
                phase => phase,
            };
        }
        self.flows.retain(|flow| !matches!(flow.phase, Phase::Over(_)) || at.saturating_sub(flow.proven) <= EXPIRY);
    }

    pub(super) fn flows(&self) -> &[Flow] {
        &self.flows
    }

    pub(super) fn flow(&self, id: u64) -> Option<&Flow> {
        self.flows.iter().find(|flow| flow.id == id)
    }

    fn find(&mut self, control: &Control, peer: SocketAddr) -> Option<&mut Flow> {
        let ours =
            |flow: &&mut Flow| (flow.peer, flow.session, flow.request) == (peer, control.session, control.request);
        self.flows.iter_mut().find(ours)
    }

    fn say(&self, to: &Control, says: Says, peer: SocketAddr, at: Nanos) -> Control {
        let cookie: Cookie = self.secret.bake(to, peer, at);
        Control { says, cookie: Some(cookie), ..*to }
    }
}

/// How many requests without a cookie are answered: so many a second, since an answer may go to somebody who asked for
/// nothing.
#[derive(Debug, Default)]
struct Answers {
    second: Nanos,
    given: u32,
}

impl Answers {
    fn take(&mut self, at: Nanos) -> bool {
        if at.saturating_sub(self.second) >= 1_000_000_000 {
            (self.second, self.given) = (at, 0);
        }
        self.given += 1;
        self.given <= ANSWERS
    }
}

/// Answers a second to those that have shown no cookie.
const ANSWERS: u32 = 1000;

/// Flows remembered, those that have ended for as long as a cookie could start them again; askers that were refused, too.
const REMEMBERED: usize = 4096;

/// How long an account is answered once more, for an answer may be lost.
const LINGER: Nanos = 500_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use weir_wire::control::Refusal;

    use super::*;
    use crate::{ReverseSettings, Transport};

    const SECOND: Nanos = 1_000_000_000;
    const GOOD: Terms =
        Terms { payload: 1000, interval: 10_000_000, duration: SECOND, count: 0, scheduled: true, both: false };

    fn desk() -> Desk {
        let allowed = ReverseSettings { rate: 10_000_000, duration: Duration::from_secs(60), flows: 4 };
        Desk::new(Limits::new(allowed, Transport::Udp)).unwrap()
    }

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn control(request: u64, cookie: Option<Cookie>, says: Says) -> Control {
        Control { session: 3, request, cookie, says }
    }

    fn said(reply: &Reply) -> Control {
        match *reply {
            Reply::Say(control)
            | Reply::Start(_, _, control)
            | Reply::SayEnd(_, control)
            | Reply::Account(_, control) => control,
            Reply::None => panic!("no answer"),
        }
    }

    /// Asks, shows the cookie, and returns the flow's id and the newest cookie.
    fn start(desk: &mut Desk, port: u16, request: u64, at: Nanos) -> (u64, Option<Cookie>) {
        let challenge = said(&desk.hear(&control(request, None, Says::Ask(GOOD)), peer(port), at));
        assert_eq!(challenge.says, Says::Challenge);
        match desk.hear(&control(request, challenge.cookie, Says::Ask(GOOD)), peer(port), at) {
            Reply::Start(id, settings, control) => {
                assert_eq!((control.says, settings.to), (Says::Granted, peer(port)));
                (id, control.cookie)
            }
            reply => panic!("{reply:?}"),
        }
    }

    #[test]
    fn nothing_is_sent_to_an_address_that_has_not_shown_its_cookie() {
        let mut desk = desk();
        let challenge = said(&desk.hear(&control(1, None, Says::Ask(GOOD)), peer(1), SECOND));
        // Another port, address or request: a challenge again, and nothing is kept.
        for (port, request) in [(2, 1), (1, 2)] {
            let shown = control(request, challenge.cookie, Says::Ask(GOOD));
            assert_eq!(said(&desk.hear(&shown, peer(port), SECOND)).says, Says::Challenge);
        }
        assert!(desk.flows().is_empty());
        assert_eq!(desk.requests.forged, 2);
        for says in [Says::Alive, Says::Account(None)] {
            assert!(matches!(desk.hear(&control(1, None, says), peer(1), SECOND), Reply::None));
        }
    }

    #[test]
    fn a_request_repeated_starts_one_flow_even_when_that_has_ended() {
        let mut desk = desk();
        let (id, cookie) = start(&mut desk, 1, 7, SECOND);
        let again = control(7, cookie, Says::Ask(GOOD));
        assert_eq!(said(&desk.hear(&again, peer(1), SECOND)).says, Says::Granted);
        desk.sent(id, 2 * SECOND);
        desk.tick(2 * SECOND + SILENCE + 1);
        assert!(matches!(desk.flow(id).unwrap().phase, Phase::Over(Parted::Untold)));
        // As long as the cookie is good.
        for at in [SILENCE + 3 * SECOND, SECOND + EXPIRY] {
            desk.tick(at);
            assert!(matches!(desk.hear(&again, peer(1), at), Reply::None));
        }
        desk.tick(SECOND + EXPIRY + 1);
        assert!(desk.flows().is_empty());
        assert_eq!(said(&desk.hear(&again, peer(1), SECOND + EXPIRY + 1)).says, Says::Challenge);
    }

    #[test]
    fn a_flow_lasts_as_long_as_new_cookies_are_shown() {
        let mut desk = desk();
        let (id, first) = start(&mut desk, 1, 7, SECOND);
        let mut cookie = first;
        for second in 1..30 {
            cookie = said(&desk.hear(&control(7, cookie, Says::Alive), peer(1), second * SECOND)).cookie;
            desk.tick(second * SECOND);
            assert_eq!(desk.flow(id).unwrap().phase, Phase::Sending);
        }
        // Somebody who has seen the first one forges signs of life: they prove nothing of now.
        let (id, first) = start(&mut desk, 2, 8, 30 * SECOND);
        for tenth in 300..370 {
            let at = tenth * SECOND / 10;
            desk.hear(&control(8, first, Says::Alive), peer(2), at);
            desk.tick(at);
        }
        assert_eq!(desk.flow(id).unwrap().phase, Phase::Ending(Parted::Silent));
    }

    #[test]
    fn both_ends_part_when_both_have_told() {
        let mut desk = desk();
        let (id, cookie) = start(&mut desk, 1, 7, SECOND);
        desk.sent(id, 2 * SECOND);
        assert!(matches!(desk.hear(&control(7, cookie, Says::Alive), peer(1), 2 * SECOND), Reply::SayEnd(..)));
        let account = Account { received: 90, ..Account::default() };
        let tell = control(7, cookie, Says::Account(Some(account)));
        assert!(matches!(desk.hear(&tell, peer(1), 2 * SECOND), Reply::Account(..)));
        desk.tick(2 * SECOND + LINGER);
        // Its answer was lost.
        assert!(matches!(desk.hear(&tell, peer(1), 2 * SECOND + LINGER), Reply::Account(..)));
        desk.tick(2 * SECOND + 2 * LINGER + 1);
        assert_eq!(desk.flow(id).unwrap().phase, Phase::Over(Parted::Told));
        assert_eq!(desk.flow(id).unwrap().account, Some(account));
    }

    #[test]
    fn one_that_has_enough_ends_the_flow() {
        let mut desk = desk();
        let (id, cookie) = start(&mut desk, 1, 7, SECOND);
        desk.hear(&control(7, cookie, Says::Account(Some(Account::default()))), peer(1), SECOND);
        assert_eq!(desk.flow(id).unwrap().phase, Phase::Ending(Parted::Told));
        desk.sent(id, SECOND);
        desk.tick(SECOND + LINGER + 1);
        assert_eq!(desk.flow(id).unwrap().phase, Phase::Over(Parted::Told));
    }

    #[test]
    fn limits_are_of_flows_that_send() {
        let mut desk = desk();
        let ids: Vec<u64> = (1..=4).map(|port| start(&mut desk, port, 7, SECOND).0).collect();
        let challenge = said(&desk.hear(&control(7, None, Says::Ask(GOOD)), peer(9), SECOND));
        let fifth = control(7, challenge.cookie, Says::Ask(GOOD));
        for _ in 0..3 {
            assert_eq!(said(&desk.hear(&fifth, peer(9), SECOND)).says, Says::Refused(Refusal::Flows(4)));
        }
        desk.sent(ids[0], SECOND);
        assert_eq!(said(&desk.hear(&fifth, peer(9), SECOND)).says, Says::Granted);
        assert_eq!(desk.requests.refused, 1);
    }

    #[test]
    fn each_that_is_refused_is_counted_once_and_those_forgotten_are_counted() {
        let mut desk = desk();
        let long = Terms { duration: 61 * SECOND, ..GOOD };
        let refuse = |desk: &mut Desk, number: u64, at: Nanos| {
            let cookie = desk.secret.bake(&control(number, None, Says::Ask(long)), peer(number as u16), at);
            let asked = control(number, Some(cookie), Says::Ask(long));
            assert!(matches!(said(&desk.hear(&asked, peer(number as u16), at)).says, Says::Refused(_)));
        };
        let all = REMEMBERED as u64;
        // All of them twice, and one more: the one that asked first is forgotten, and new when it asks again.
        (0..2 * all).for_each(|number| refuse(&mut desk, number % all, SECOND + number));
        assert_eq!((desk.requests.refused, desk.requests.forgotten), (all, 0));
        refuse(&mut desk, all, SECOND + 2 * all);
        assert_eq!((desk.requests.refused, desk.requests.forgotten), (all + 1, 1));
        refuse(&mut desk, 1, SECOND + 2 * all);
        assert_eq!((desk.requests.refused, desk.requests.forgotten), (all + 1, 1));
        refuse(&mut desk, 0, SECOND + 2 * all + 1);
        assert_eq!((desk.requests.refused, desk.requests.forgotten), (all + 2, 2));
        assert_eq!(desk.refused.len(), REMEMBERED);
    }

    #[test]
    fn a_flood_of_requests_is_answered_so_many_times_a_second() {
        let mut desk = desk();
        let answered = (0..5000_u64)
            .filter(|&number| {
                let forged = control(number, None, Says::Ask(GOOD));
                matches!(desk.hear(&forged, peer(number as u16), SECOND + number * 100_000), Reply::Say(_))
            })
            .count();
        assert_eq!((answered as u32, desk.requests.unanswered), (ANSWERS, 5000 - u64::from(ANSWERS)));
        assert!(desk.flows().is_empty());
    }

    proptest! {
        #[test]
        fn whatever_is_said_flows_and_limits_agree(
            said in proptest::collection::vec((0u8..6, 0u16..3, 0u64..3, any::<bool>(), 0u64..3_000_000_000), 1..200),
        ) {
            let mut desk = desk();
            let (mut at, mut cookies) = (SECOND, HashMap::new());
            for (kind, port, request, shows, after) in said {
                at += after;
                let says = match kind {
                    0 | 1 => Says::Ask(GOOD),
                    2 => Says::Alive,
                    3 => Says::Account(Some(Account::default())),
                    4 => Says::Challenge,
                    _ => Says::Granted,
                };
                let cookie = cookies.get(&(port, request)).copied().flatten().filter(|_| shows);
                match desk.hear(&control(request, cookie, says), peer(port), at) {
                    Reply::None => {}
                    Reply::Say(answer) | Reply::Start(_, _, answer) | Reply::SayEnd(_, answer) | Reply::Account(_, answer) => {
                        prop_assert_eq!(answer.bytes().len(), weir_wire::control::CONTROL_LEN);
                        cookies.insert((port, request), answer.cookie);
                    }
                }
                desk.tick(at);
                let ending: Vec<u64> = desk.flows().iter()
                    .filter(|flow| matches!(flow.phase, Phase::Ending(_))).map(|flow| flow.id).collect();
                ending.into_iter().for_each(|id| desk.sent(id, at));
                let sending = desk.flows().iter().filter(|flow| flow.phase == Phase::Sending).count();
                prop_assert!(sending <= 4);
            }
            // In the end all are over, and everything is given back.
            at += 4 * EXPIRY;
            desk.tick(at);
            let ending: Vec<u64> = desk.flows().iter().map(|flow| flow.id).collect();
            ending.into_iter().for_each(|id| desk.sent(id, at));
            desk.tick(at);
            for port in 0..4 {
                start(&mut desk, 100 + port, 1, at);
            }
        }
    }
}
