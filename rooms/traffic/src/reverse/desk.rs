//! The answering end: a thread for each control connection, which runs the sender of its flow.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use ring::rand::{SecureRandom, SystemRandom};
use weir_dgram::Socket;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;
use weir_wire::probe::{EXTENDED_LEN, Extension, Kind, Probe};

use super::call::Call;
use super::limits::Limits;
use super::lines::{First, Line, Request, Sent, Want};
use super::{LOOK, OtherWay, Parted, ReverseReport, sent_of};
use crate::receiver::sessions::Sessions;
use crate::sender::channel::{Channel, Way};
use crate::{Account, Exchange, ReceiveReport, ReceiverSettings, SendReport, Sender, SenderSettings};

/// What a receiver sends to those that ask for it: shared by the thread that receives and one for each control connection.
#[derive(Debug)]
pub(crate) struct Desk {
    limits: Mutex<Limits>,
    other: Arc<OtherWay>,
    /// Granted flows by their tokens.
    expected: Mutex<HashMap<String, Expected>>,
    /// Sessions whose accounts flows wait for.
    wanted: Mutex<Vec<Wanted>>,
    ended: Mutex<Vec<ReverseReport>>,
    refused: AtomicU64,
    calls: Mutex<Vec<JoinHandle<()>>>,
    stop: Stop,
}

/// A flow that was granted.
#[derive(Debug)]
struct Expected {
    from: IpAddr,
    /// Where the flow waits for its way; `None`: it has come.
    flow: Option<mpsc::Sender<(Channel, SocketAddr)>>,
}

/// The account of a session that has ended, which a flow waits for.
#[derive(Debug)]
struct Wanted {
    peer: SocketAddr,
    session: u16,
    sent: Sent,
    /// When it is told whatever is missing.
    until: Nanos,
    to: mpsc::Sender<Option<Account>>,
}

impl Desk {
    /// Fails where the process has no file descriptor left.
    pub(crate) fn new(settings: &ReceiverSettings) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            limits: Mutex::new(Limits::new(settings)),
            other: Arc::default(),
            expected: Mutex::default(),
            wanted: Mutex::default(),
            ended: Mutex::default(),
            refused: AtomicU64::new(0),
            calls: Mutex::default(),
            stop: Stop::new()?,
        }))
    }

    pub(crate) fn other_way(&self) -> Arc<OtherWay> {
        Arc::clone(&self.other)
    }

    /// UDP: takes control connections on a thread of its own.
    pub(crate) fn listen(self: &Arc<Self>, listener: TcpListener) {
        let desk = Arc::clone(self);
        self.start(move || {
            while !desk.stop.is_set() {
                let readable = PollFlags::POLLIN;
                clock::wait(
                    &mut [PollFd::new(listener.as_fd(), readable), PollFd::new(desk.stop.as_fd(), readable)],
                    None,
                );
                let Ok((socket, peer)) = listener.accept() else {
                    // Without a descriptor to be had it would be a busy loop.
                    desk.stop.wait(Instant::now() + LOOK);
                    continue;
                };
                let heard = Arc::clone(&desk);
                desk.start(move || {
                    let Ok(mut call) = Call::new(socket) else { return };
                    let deadline = now() + PATIENCE;
                    while now() < deadline && !heard.stop.is_set() {
                        match call.hear() {
                            Ok(None) => {}
                            Ok(Some(First::Request(request))) => return heard.answer(call, &request, peer),
                            Ok(Some(First::Token { .. })) | Err(_) => return,
                        }
                    }
                });
            }
        });
    }

    /// Answers a request that came over this connection, on a thread of its own.
    pub(crate) fn take(self: &Arc<Self>, socket: TcpStream, request: Request, peer: SocketAddr) {
        let desk = Arc::clone(self);
        self.start(move || {
            if let Ok(call) = Call::new(socket) {
                desk.answer(call, &request, peer);
            }
        });
    }

    /// UDP: takes a token that came in a datagram to this address of the host. `false`: it is none.
    pub(crate) fn token(&self, datagram: &[u8], socket: &Arc<Socket>, way: Way) -> bool {
        match serde_json::from_slice(datagram) {
            Ok(First::Token { token }) => {
                self.arrive(&token, way.to, || Ok(Channel::of_datagrams(Arc::clone(socket), Some(way))))
            }
            _ => false,
        }
    }

    /// A token came from this address, over what the messages are to take. `false`: it is not one, or not from there.
    pub(crate) fn arrive(&self, token: &str, peer: SocketAddr, channel: impl FnOnce() -> io::Result<Channel>) -> bool {
        let mut expected = locked(&self.expected);
        let Some(flow) = expected.get_mut(token).filter(|flow| flow.from == peer.ip().to_canonical()) else {
            return false;
        };
        if let Some(waiting) = flow.flow.take()
            && let Ok(channel) = channel()
        {
            // A flow that has given up needs none.
            let _ = waiting.send((channel, peer));
        }
        true
    }

    /// Tells flows what came of sessions that have ended.
    pub(crate) fn tick(&self, sessions: &mut Sessions<'_>, at: Nanos) {
        if !self.other.is_open() {
            return;
        }
        locked(&self.wanted).retain(|wanted| {
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
            // A flow that is over wants none.
            let _ = wanted.to.send(sessions.find(peer, session, sent.incarnation).map(Account::new));
            false
        });
    }

    /// Ends all flows, and adds to the report what became of them.
    pub(crate) fn close(&self, report: &mut ReceiveReport) {
        self.stop.set();
        // Each of them may have started another.
        while let Some(call) = { locked(&self.calls).pop() } {
            let _ = call.join();
        }
        report.reverse = std::mem::take(&mut *locked(&self.ended));
        report.refused = self.refused.load(Ordering::Relaxed);
    }

    fn start(&self, call: impl FnOnce() + Send + 'static) {
        let mut calls = locked(&self.calls);
        calls.retain(|call| !call.is_finished());
        if calls.len() < MOST_CALLS
            && let Ok(thread) = thread::Builder::new().name("reverse".into()).spawn(call)
        {
            calls.push(thread);
        }
    }

    fn answer(&self, mut call: Call, request: &Request, peer: SocketAddr) {
        let taken = locked(&self.limits).take(request, peer);
        let settings = match taken {
            Ok(settings) => settings,
            Err(why) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                self.other.touch(now());
                // A client that has gone needs no answer.
                let _ = call.say(&Line::Refused(why));
                return;
            }
        };
        self.other.begin();
        let report = self.flow(&mut call, request, &settings, peer).unwrap_or_else(|_| {
            // It has gone before the first message, or its token did not come.
            let parted = if self.stop.is_set() { Parted::Stopped } else { Parted::Silent };
            let (session, both, sent) = (request.session, request.want == Want::Bidir, SendReport::default());
            ReverseReport { peer, session, both, sent, account: None, forward: None, parted }
        });
        let mut ended = locked(&self.ended);
        if ended.len() < MOST_LISTED {
            ended.push(report);
        }
        drop(ended);
        self.other.end(now());
    }

    /// Runs a flow from its grant to its end.
    fn flow(
        &self,
        call: &mut Call,
        request: &Request,
        settings: &SenderSettings,
        from: SocketAddr,
    ) -> io::Result<ReverseReport> {
        let granted = Granted { desk: self, request, from, token: random()? };
        let (channel, peer) = granted.await_way(call)?;
        let (both, session) = (request.want == Want::Bidir, request.session);
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
                    // A client that has gone shows below.
                    let _ = call.say(&Line::Sent(sent_of(&report)));
                    sent = Some(report);
                }
                if sent.is_some() && account.is_some() && (theirs.is_some() || !both) {
                    break Parted::Told;
                }
                if self.stop.is_set() {
                    break Parted::Stopped;
                }
                if now() >= deadline {
                    break Parted::Untold;
                }
                match call.hear() {
                    Ok(Some(Line::Sent(sent))) => theirs = Some(sent),
                    Ok(Some(Line::Account(told))) => {
                        account = Some(told.map(|told| *told));
                        // It has enough.
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
        drop(granted);
        let told = theirs.filter(|_| parted == Parted::Told);
        let forward = told.and_then(|theirs| self.account_of(peer, session, theirs));
        if parted == Parted::Told {
            // A client that has gone has said all that it had to.
            let _ = call.say(&Line::Account(forward.clone().map(Box::new)));
        }
        let shortfall = told.and_then(|theirs| theirs.shortfall);
        let forward = forward.map(|forward| Account { shortfall, ..forward });
        Ok(ReverseReport { peer, session, both, sent, account: account.flatten(), forward, parted })
    }

    /// What came of a session that has ended; `None`: nothing, or the receiver has ended.
    fn account_of(&self, peer: SocketAddr, session: u16, sent: Sent) -> Option<Account> {
        let (to, account) = mpsc::channel();
        locked(&self.wanted).push(Wanted { peer, session, sent, until: now() + GRACE, to });
        while !self.stop.is_set() {
            if let Ok(account) = account.recv_timeout(LOOK) {
                return account;
            }
        }
        None
    }
}

/// A flow's share of the limits, and its token.
struct Granted<'a> {
    desk: &'a Desk,
    request: &'a Request,
    from: SocketAddr,
    token: String,
}

impl Granted<'_> {
    /// Says that it is granted, and waits for the token.
    fn await_way(&self, call: &mut Call) -> io::Result<(Channel, SocketAddr)> {
        let (flow, way) = mpsc::channel();
        let expected = Expected { from: self.from.ip().to_canonical(), flow: Some(flow) };
        locked(&self.desk.expected).insert(self.token.clone(), expected);
        call.say(&Line::Granted { token: self.token.clone() })?;
        let deadline = now() + PATIENCE;
        while now() < deadline && !self.desk.stop.is_set() {
            if let Ok(way) = way.try_recv() {
                return Ok(way);
            }
            call.hear::<Line>()?;
        }
        Err(io::Error::other("the token did not come"))
    }
}

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        locked(&self.desk.expected).remove(&self.token);
        locked(&self.desk.limits).give_back(self.request, self.from);
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the other end may take for its next step.
const PATIENCE: Nanos = 10_000_000_000;

/// How long messages may be under way when all are sent.
const GRACE: Nanos = 1_000_000_000;

/// Control connections at once, those included that have not asked yet: twice as many as `--reverse-flows` may allow.
const MOST_CALLS: usize = 2048;

/// Flows listed in a report.
const MOST_LISTED: usize = 10_000;
