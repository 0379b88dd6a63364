//! The answering end over UDP: the desk's decisions, carried out on the receiver's own socket, so that what is sent comes from
//! where it was asked for. A thread a flow.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use weir_dgram::Socket;
use weir_program::clock::{Nanos, now};
use weir_program::stop::Stop;
use weir_wire::control::{Account, Control, Says};

use super::desk::{Desk, Phase, Reply};
use super::{LOOK, Limits, Parted, ReverseReport, account_of, end_of};
use crate::receiver::sessions::Sessions;
use crate::receiver::talk::{Due, Origin, Talk};
use crate::sender::channel::{Channel, Way};
use crate::{Exchange, ReceiveReport, SendReport, Sender, SenderSettings};

/// The desk, its socket and its threads.
pub(crate) struct Front {
    socket: Arc<Socket>,
    desk: Desk,
    sending: HashMap<u64, Sending>,
    done: Vec<ReverseReport>,
    /// Messages of flows that have ended.
    sent: u64,
    next: Nanos,
}

/// A flow's sender.
struct Sending {
    stop: Stop,
    exchange: Arc<Exchange>,
    /// `None`: it has ended.
    thread: Option<JoinHandle<SendReport>>,
    report: SendReport,
    local: Option<IpAddr>,
}

impl Front {
    /// `None`: the kernel has no random numbers.
    pub(crate) fn new(socket: Arc<Socket>, limits: Limits) -> Option<Self> {
        let desk = Desk::new(limits)?;
        Some(Self { socket, desk, sending: HashMap::new(), done: Vec::new(), sent: 0, next: 0 })
    }

    fn say(&self, control: &Control, to: SocketAddr, from: Option<IpAddr>) {
        // What is not taken is as good as lost on the way: the other end asks again.
        let _ = self.socket.send_from(&control.bytes(), to, from);
    }

    fn start(&mut self, id: u64, settings: &SenderSettings, from: Origin) -> bool {
        let started = || -> std::io::Result<Sending> {
            let (stop, exchange) = (Stop::new()?, Arc::new(Exchange::new(std::time::Duration::ZERO)?));
            let way = Way { to: from.peer, from: from.local };
            let channel = Channel::of_datagrams(Arc::clone(&self.socket), Some(way));
            let sender = Sender::over(channel, settings);
            let (told, ends) = (Arc::clone(&exchange), stop.clone());
            let thread = thread::Builder::new().name("reverse".into()).spawn(move || sender.run(&told, &ends))?;
            Ok(Sending { stop, exchange, thread: Some(thread), report: SendReport::default(), local: from.local })
        };
        match started() {
            Ok(sending) => self.sending.insert(id, sending).is_none(),
            Err(_) => {
                self.desk.sent(id, now());
                false
            }
        }
    }

    /// Takes what threads that have ended bring back.
    fn collect(&mut self, at: Nanos) {
        for (&id, sending) in &mut self.sending {
            if matches!(self.desk.flow(id).map(|flow| flow.phase), Some(Phase::Ending(_)) | None) {
                sending.stop.set();
            }
            if sending.thread.as_ref().is_some_and(JoinHandle::is_finished)
                && let Some(thread) = sending.thread.take()
            {
                sending.report = thread.join().unwrap_or_default();
                self.sent += sending.report.sent;
                self.desk.sent(id, at);
            }
        }
        let over = |phase| if let Phase::Over(parted) = phase { Some(parted) } else { None };
        let over = self.desk.flows().iter().filter_map(|flow| Some((flow.id, over(flow.phase)?)));
        let over: Vec<(u64, Parted)> = over.filter(|(id, _)| self.sending.contains_key(id)).collect();
        over.into_iter().for_each(|(id, parted)| self.close(id, parted));
        // Of those that the desk has forgotten meanwhile nothing is known any more.
        let (before, desk) = (self.sending.len(), &self.desk);
        self.sending.retain(|&id, sending| sending.thread.is_some() || desk.flow(id).is_some());
        self.desk.requests.unlisted += (before - self.sending.len()) as u64;
    }

    fn close(&mut self, id: u64, parted: Parted) {
        let (Some(sending), Some(flow)) = (self.sending.remove(&id), self.desk.flow(id)) else { return };
        if self.done.len() == MOST {
            self.desk.requests.unlisted += 1;
            return;
        }
        let (peer, session, both, account) = (flow.peer, flow.session, flow.terms.both, flow.account);
        self.done.push(ReverseReport { peer, session, both, sent: sending.report, account, parted });
    }

    /// What was received of the other end's own messages, once that is known.
    fn account(&self, id: u64, sessions: &Sessions<'_>, at: Nanos) -> Option<Says> {
        let (flow, sending) = (self.desk.flow(id)?, self.sending.get(&id)?);
        if sending.thread.is_some() {
            return None;
        }
        let shortfall = sending.report.due.map(|_| sending.report.shortfall());
        let incarnation = sending.report.incarnation.into();
        if !flow.terms.both {
            return Some(Says::Account(Some(Account { shortfall, incarnation, ..Account::default() })));
        }
        let session = sessions.settled(Some(flow.peer), flow.session, at)?;
        Some(Says::Account(Some(Account { shortfall, ..account_of(session) })))
    }
}

impl Talk for Front {
    fn hear(&mut self, control: &Control, from: Origin, sessions: &mut Sessions<'_>, at: Nanos) {
        if sessions.are_foreign(control.session) {
            sessions.count_foreign();
            return;
        }
        match self.desk.hear(control, from.peer, at) {
            Reply::None => {}
            Reply::Say(answer) => {
                if let Says::Refused(_) = answer.says {
                    sessions.refuse_reverse(at);
                }
                self.say(&answer, from.peer, from.local);
            }
            Reply::Start(id, settings, answer) => {
                self.say(&answer, from.peer, from.local);
                if self.start(id, &settings, from) {
                    self.next = 0;
                    sessions.expect_reverse();
                }
            }
            Reply::SayEnd(id, answer) => {
                self.say(&answer, from.peer, from.local);
                if let Some(sending) = self.sending.get(&id) {
                    let end = end_of(control.session, &sending.report);
                    let _ = self.socket.send_from(&end, from.peer, sending.local);
                }
            }
            Reply::Account(id, answer) => {
                if let Some(says) = self.account(id, sessions, at) {
                    self.say(&Control { says, ..answer }, from.peer, from.local);
                }
            }
        }
    }

    /// A socket that is not connected hears of none.
    fn refused(&mut self, _: Nanos) {}

    fn tick(&mut self, sessions: &mut Sessions<'_>, at: Nanos) -> Due {
        if self.sending.is_empty() {
            return Due::Free;
        }
        if at >= self.next {
            self.next = at + LOOK;
            self.desk.tick(at);
            self.collect(at);
            let open: u64 = self.sending.values().filter(|of| of.thread.is_some()).map(|of| of.exchange.sent()).sum();
            sessions.set_sent(self.sent + open);
            if self.sending.is_empty() {
                sessions.reverse_ended(at);
                return Due::Free;
            }
        }
        Due::At(self.next)
    }

    fn finish(&mut self, report: &mut ReceiveReport) {
        self.sending.values().for_each(|sending| sending.stop.set());
        let ids: Vec<u64> = self.sending.keys().copied().collect();
        for id in ids {
            if let Some(sending) = self.sending.get_mut(&id)
                && let Some(thread) = sending.thread.take()
            {
                sending.report = thread.join().unwrap_or_default();
            }
            let parted = match self.desk.flow(id).map(|flow| flow.phase) {
                Some(Phase::Told(_)) => Parted::Told,
                Some(Phase::Sent(_)) => Parted::Untold,
                _ => Parted::Stopped,
            };
            self.close(id, parted);
        }
        report.reverse = std::mem::take(&mut self.done);
        report.requests = self.desk.requests;
    }
}

/// Flows listed in a report; further ones are counted.
const MOST: usize = 10_000;
