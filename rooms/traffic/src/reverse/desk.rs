//! The server: a thread per control connection, which runs the sender of its flow.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use weir_dgram::Socket;
use weir_program::clock::{Nanos, nanos, now};
use weir_program::stop::Stop;
use weir_wire::probe::{EXTENDED_LEN, Extension, Kind, Probe};

use super::call::Call;
use super::limits::Limits;
use super::lines::{First, Line, Request, Sent};
use super::{Flow, LOOK, OtherWay, Parted, sent_of};
use crate::receiver::ending::{Ending, GRACE};
use crate::receiver::sessions::Sessions;
use crate::receiver::streams;
use crate::sender::channel::{Channel, Outlet, Way};
use crate::{
    Account, Direction, Exchange, ReceiveReport, ReceiverSettings, SendReport, Sender, SenderSettings, Transport, Until,
};

/// The reverse flows of a receiver: shared by the receiving thread and one thread per control connection.
#[derive(Debug)]
pub(crate) struct Desk {
    state: Mutex<State>,
    other: Arc<OtherWay>,
    stop: Stop,
}

#[derive(Debug)]
struct State {
    limits: Limits,
    /// Granted flows by token: the expected source of the token, and the transport over which it arrived.
    expected: HashMap<String, (IpAddr, Option<(Channel, SocketAddr)>)>,
    /// Sessions whose ledgers flows wait for.
    wanted: Vec<Wanted>,
    ended: Vec<Flow>,
    refused: u64,
    calls: Vec<JoinHandle<()>>,
}

/// The ledger of an ended session, which a flow waits for.
#[derive(Debug)]
struct Wanted {
    peer: SocketAddr,
    session: u16,
    sent: Sent,
    /// The time to report it, even if messages are missing.
    until: Nanos,
    to: mpsc::Sender<Option<Account>>,
}

impl Desk {
    /// Fails if the process has no file descriptor left.
    pub(crate) fn new(settings: &ReceiverSettings) -> io::Result<Arc<Self>> {
        let state = State {
            limits: Limits::new(settings),
            expected: HashMap::new(),
            wanted: Vec::new(),
            ended: Vec::new(),
            refused: 0,
            calls: Vec::new(),
        };
        Ok(Arc::new(Self { state: Mutex::new(state), other: Arc::default(), stop: Stop::new()? }))
    }

    pub(crate) fn other_way(&self) -> Arc<OtherWay> {
        Arc::clone(&self.other)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// UDP: accepts control connections on a separate thread. Messages over them are not counted.
    pub(crate) fn listen(self: &Arc<Self>, listener: TcpListener, settings: &ReceiverSettings) {
        let (desk, settings) = (Arc::clone(self), settings.clone());
        self.start(move || {
            let Ok(exchange) = Exchange::new(Duration::MAX) else { return };
            let until = Until::default();
            let (sessions, stop) = (Sessions::new(&settings, &exchange), &desk.stop);
            let ending = Ending::new(&until, &exchange, stop, now());
            streams::receive(Some(&listener), None, sessions, ending, Some(&desk));
        });
    }

    /// Answers a request from this connection, on a separate thread.
    pub(crate) fn take(self: &Arc<Self>, socket: TcpStream, request: Request, peer: SocketAddr) {
        let desk = Arc::clone(self);
        self.start(move || {
            if let Ok(call) = Call::new(socket) {
                desk.answer(call, &request, peer);
            }
        });
    }

    /// UDP: accepts a token from a datagram to this address of the host. `false`: it is not a token.
    pub(crate) fn token(&self, datagram: &[u8], socket: &Arc<Socket>, way: Way) -> bool {
        match serde_json::from_slice(datagram) {
            Ok(First::Token { token }) => {
                self.arrive(&token, way.to, || Ok(Outlet::Datagrams(Arc::clone(socket), Some(way))))
            }
            _ => false,
        }
    }

    /// Accepts a token from this address, with the transport for the messages. `false`: it is unknown, or from
    /// elsewhere.
    pub(crate) fn arrive(&self, token: &str, peer: SocketAddr, outlet: impl FnOnce() -> io::Result<Outlet>) -> bool {
        let mut state = self.state();
        let Some((from, way)) = state.expected.get_mut(token) else { return false };
        if *from != peer.ip().to_canonical() {
            return false;
        }
        // The flow uses the first one.
        *way = outlet().ok().map(|outlet| (Channel::shared(outlet), peer));
        true
    }

    /// Gives flows the ledgers of ended sessions.
    pub(crate) fn tick(&self, sessions: &mut Sessions<'_>, at: Nanos) {
        if !self.other.is_open() {
            return;
        }
        self.state().wanted.retain(|wanted| {
            let Wanted { peer, session, sent, .. } = *wanted;
            let found = sessions.find(peer, session, sent.incarnation);
            if at < wanted.until && found.is_none_or(|report| report.delivered < sent.messages) {
                return true;
            }
            if let Some(report) = found.filter(|report| report.announced.is_none()) {
                // All announcements were lost.
                let (length, peer) = (EXTENDED_LEN as u32, report.peer);
                let extension = Extension { intended: at, clock: 0, incarnation: sent.incarnation, length };
                let (sequence, extension) = (sent.messages as u32, Some(extension));
                let end = Probe { kind: Kind::End, session, sequence, sent: at, extension };
                sessions.count(&end, EXTENDED_LEN, peer, at);
            }
            // A flow that is over needs none.
            let _ = wanted.to.send(sessions.find(peer, session, sent.incarnation).map(Account::new));
            false
        });
    }

    /// Ends all flows, and adds their results to the report.
    pub(crate) fn close(&self, report: &mut ReceiveReport) {
        self.stop.set();
        // Each thread may have started another.
        while let Some(call) = { self.state().calls.pop() } {
            let _ = call.join();
        }
        let mut state = self.state();
        (report.reverse, report.refused) = (std::mem::take(&mut state.ended), state.refused);
    }

    fn start(&self, call: impl FnOnce() + Send + 'static) {
        let calls = &mut self.state().calls;
        calls.retain(|call| !call.is_finished());
        if calls.len() < MAX_CALLS
            && let Ok(thread) = thread::Builder::new().name("reverse".into()).spawn(call)
        {
            calls.push(thread);
        }
    }

    /// Refuses a request, or runs its flow to the end.
    fn answer(&self, mut call: Call, request: &Request, peer: SocketAddr) {
        let taken = random().and_then(|token| Ok((self.state().limits.take(request, peer)?, token)));
        let (settings, token) = match taken {
            Ok(taken) => taken,
            Err(why) => {
                self.state().refused += 1;
                self.other.touch(now());
                // A client that has gone needs no answer.
                let _ = call.say(&Line::Refused(why));
                return;
            }
        };
        self.other.begin();
        self.state().expected.insert(token.clone(), (peer.ip().to_canonical(), None));
        let flow = self.flow(&mut call, request, &settings, &token).unwrap_or_else(|_| {
            // It left before the first message, or its token did not arrive.
            let parted = if self.stop.is_set() { Parted::Stopped } else { Parted::Silent };
            let reverse = Account::reported(peer, request.session, &SendReport::default(), None);
            Flow { parted, directions: vec![reverse.going(Direction::Reverse)] }
        });
        let mut state = self.state();
        state.expected.remove(&token);
        state.limits.give_back(request, peer);
        let is_forward = |account: &&Account| account.direction == Some(Direction::Forward);
        let forward = flow.directions.iter().find(is_forward).cloned();
        let reported = flow.parted == Parted::Told;
        if state.ended.len() < MAX_LISTED {
            state.ended.push(flow);
        }
        drop(state);
        if reported {
            // A client that has gone has sent everything.
            let _ = call.say(&Line::Account(forward.map(Box::new)));
        }
        self.other.end(now());
    }

    /// Runs a flow from its grant to its end.
    fn flow(&self, call: &mut Call, request: &Request, settings: &SenderSettings, token: &String) -> io::Result<Flow> {
        call.say(&Line::Granted { token: token.clone() })?;
        let (channel, peer) = self.await_way(call, token)?;
        let session = request.session;
        let (stop, exchange) = (Stop::new()?, Exchange::new(Duration::ZERO)?);
        let deadline = now().saturating_add(nanos(settings.duration)).saturating_add(PATIENCE);
        let (mut theirs, mut account, mut counted) = (None, None, 0);
        let (sent, parted) = thread::scope(|scope| {
            let mut sending = Some(scope.spawn(|| Sender::over(channel, settings).run(&exchange, &stop)));
            let mut sent = None;
            let parted = loop {
                let so_far = exchange.sent();
                self.other.add_sent(so_far - std::mem::replace(&mut counted, so_far));
                if let Some(thread) = sending.take_if(|thread| thread.is_finished()) {
                    let report = thread.join().unwrap_or_default();
                    // A client that has gone is detected below.
                    let _ = call.say(&Line::Sent(sent_of(&report)));
                    sent = Some(report);
                }
                if sent.is_some() && account.is_some() {
                    break Parted::Told;
                }
                match call.hear() {
                    _ if self.stop.is_set() => break Parted::Stopped,
                    _ if now() >= deadline => break Parted::Untold,
                    Ok(Some(Line::Sent(sent))) => theirs = Some(sent),
                    Ok(Some(Line::Account(reported))) => {
                        account = Some(reported.map(|reported| *reported));
                        // It has received enough.
                        stop.set();
                    }
                    Ok(_) => {}
                    Err(_) if account.is_some() => break Parted::Told,
                    Err(_) if sent.is_some() => break Parted::Untold,
                    Err(_) => break Parted::Silent,
                }
            };
            stop.set();
            let sent = sent.or_else(|| sending?.join().ok()).unwrap_or_default();
            self.other.add_sent(exchange.sent() - counted);
            (sent, parted)
        });
        let forward = theirs.filter(|_| parted == Parted::Told).map(|theirs| {
            let account = self.account_of(peer, settings.transport, session, theirs);
            let account = account.unwrap_or_else(|| Account::nothing(peer, session, Some(theirs.messages)));
            Account { shortfall: theirs.shortfall, ..account }.going(Direction::Forward)
        });
        let reverse = Account::reported(peer, session, &sent, account.flatten().as_ref()).going(Direction::Reverse);
        Ok(Flow { parted, directions: forward.into_iter().chain([reverse]).collect() })
    }

    /// Waits for the token, and returns its transport.
    fn await_way(&self, call: &mut Call, token: &String) -> io::Result<(Channel, SocketAddr)> {
        let deadline = now() + PATIENCE;
        while now() < deadline && !self.stop.is_set() {
            if let Some(way) = self.state().expected.get_mut(token).and_then(|(_, way)| way.take()) {
                return Ok(way);
            }
            call.hear::<Line>()?;
        }
        // A client that has gone needs no answer.
        let _ =
            call.say(&Line::Refused("it agreed, but did not receive the token: the way there is blocked".to_owned()));
        Err(io::Error::other("the token did not arrive"))
    }

    /// The ledger of an ended session. `None`: nothing was received, or the receiver has ended.
    fn account_of(&self, peer: SocketAddr, transport: Transport, session: u16, sent: Sent) -> Option<Account> {
        let (to, account) = mpsc::channel();
        self.state().wanted.push(Wanted { peer, session, sent, until: now() + grace(transport), to });
        while !self.stop.is_set() {
            if let Ok(account) = account.recv_timeout(LOOK) {
                return account;
            }
        }
        None
    }
}

fn random() -> Result<String, String> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "it has no random numbers")?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}

/// Max time for messages to arrive after all were sent: over TCP the other end's kernel may hold some, so it is half of
/// the time that the other end waits for their ledger.
pub(super) fn grace(transport: Transport) -> Nanos {
    if transport == Transport::Tcp { PATIENCE / 2 } else { GRACE }
}

/// Max time for the other end's next step.
const PATIENCE: Nanos = 10_000_000_000;

/// Max control connections, including those without a request yet: twice the max of `--reverse-flows`.
const MAX_CALLS: usize = 2048;

/// Max flows in a report.
const MAX_LISTED: usize = 10_000;
