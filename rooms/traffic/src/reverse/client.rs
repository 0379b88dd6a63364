//! The asking end: asks, receives, and perhaps sends, to the end.

use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use weir_dgram::{Outgoing, Socket};
use weir_program::clock::{nanos, now};
use weir_program::stop::Stop;

use super::call::Call;
use super::lines::{First, Line, Request, Sent, VERSION, Want};
use super::{OtherWay, Parted, sent_of};
use crate::receiver::ending::{Ending, GRACE};
use crate::receiver::sessions::Sessions;
use crate::receiver::{datagrams, streams};
use crate::sender::channel::Channel;
use crate::{
    Account, Delivery, Exchange, Interval, ReceiveReport, ReceiverSettings, SendReport, Sender, SenderSettings,
    TrafficError, Transport, Until, in_words,
};

/// One that asks a [`Receiver`](crate::Receiver) which allows it to send messages.
#[derive(Debug)]
pub struct Client {
    settings: SenderSettings,
    both: bool,
    /// Of the control connection.
    control: Channel,
    /// Of messages.
    channel: Channel,
    intervals: Option<(Duration, mpsc::Sender<Interval>)>,
    deliveries: Option<mpsc::SyncSender<Vec<Delivery>>>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct ClientReport {
    /// What was received: at most one session.
    pub received: ReceiveReport,
    /// What was sent; `None`: nothing was to be.
    pub sent: Option<SendReport>,
    /// What the other end received of it; `None`: nothing, or it never said.
    pub told: Option<Account>,
    /// What the other end was to send and did not; `None`: unknown.
    pub shortfall: Option<u64>,
    /// How it ended.
    pub parted: Parted,
    /// What went wrong with the control connection, in words.
    pub failure: Option<String>,
}

impl Client {
    /// Makes the sockets in the calling thread's network namespace. It asks for messages as these settings have them;
    /// `both`: as many are sent, too.
    pub fn open(settings: &SenderSettings, both: bool) -> Result<Self, TrafficError> {
        settings.validate()?;
        if !matches!(settings.transport, Transport::Udp | Transport::Tcp) {
            return Err(TrafficError::NoReverse(settings.transport));
        }
        let channel = Channel::open(settings)?;
        let from = settings.from.map(|from| SocketAddr::new(from.ip(), 0));
        let control = Channel::open(&SenderSettings { transport: Transport::Tcp, from, ..settings.clone() })?;
        Ok(Self { settings: settings.clone(), both, control, channel, intervals: None, deliveries: None })
    }

    /// Reports, while it runs, what came (and was sent) in each interval of this length.
    pub fn tell(self, every: Duration, to: mpsc::Sender<Interval>) -> Self {
        Self { intervals: Some((every, to)), ..self }
    }

    /// Hands over every message that it receives, as [`Receiver::deliver`](crate::Receiver::deliver) does.
    pub fn deliver(self, to: mpsc::SyncSender<Vec<Delivery>>) -> Self {
        Self { deliveries: Some(to), ..self }
    }

    /// Runs to the end, or to the stop.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn run(mut self, stop: &Stop) -> io::Result<ClientReport> {
        let started = now();
        let (mut call, token) = match self.ask(stop) {
            Ok(granted) => granted,
            Err((parted, failure)) => {
                let received = ReceiveReport { started, finished: now(), ..ReceiveReport::default() };
                return Ok(ClientReport { received, parted, failure, ..ClientReport::default() });
            }
        };
        let report = self.converse(&mut call, token, started, stop)?;
        Ok(ClientReport { received: ReceiveReport { started, finished: now(), ..report.received }, ..report })
    }

    /// Makes the control connection and asks; returns the token, or why there is none.
    fn ask(&mut self, stop: &Stop) -> Result<(Call, String), (Parted, Option<String>)> {
        let settings = &self.settings;
        let deadline = now().saturating_add(nanos(settings.connect_timeout));
        if !self.control.connect(settings.to, deadline, stop) {
            let parted = if stop.is_set() { Parted::Stopped } else { Parted::Unreachable };
            return Err((parted, Some(in_words(&self.control.take_errors()))));
        }
        let failed = |error: io::Error| (Parted::Unanswered, Some(error.to_string()));
        let mut call = Call::new(self.control.stream().map_err(failed)?).map_err(failed)?;
        let request = Request {
            version: VERSION,
            want: if self.both { Want::Bidir } else { Want::Reverse },
            transport: settings.transport,
            session: settings.session,
            payload: settings.payload_bytes,
            interval_ns: nanos(settings.interval),
            duration_ns: nanos(settings.duration),
            count: settings.count,
            pacing: settings.pacing,
        };
        call.say(&request).map_err(failed)?;
        loop {
            match call.hear().map_err(failed)? {
                Some(Line::Granted { token }) => return Ok((call, token)),
                Some(Line::Refused(why)) => return Err((Parted::Refused(why), None)),
                _ if stop.is_set() => return Err((Parted::Stopped, None)),
                _ if now() >= deadline => return Err((Parted::Unanswered, None)),
                _ => {}
            }
        }
    }

    /// Receives, and sends if both do, from the grant to the accounts.
    fn converse(mut self, call: &mut Call, token: String, started: u64, stop: &Stop) -> io::Result<ClientReport> {
        let settings = self.settings.clone();
        let (token, over) = (serde_json::to_vec(&First::Token { token })?, Stop::new()?);
        let deadline = now().saturating_add(nanos(settings.connect_timeout));
        if settings.transport == Transport::Tcp {
            let mut failed = !self.channel.connect(settings.to, deadline, stop);
            failed = failed || self.channel.stream()?.write_all(&[&token[..], b"\n"].concat()).is_err();
            if failed {
                let errors = self.channel.take_errors();
                let received = ReceiveReport { errors, ..ReceiveReport::default() };
                return Ok(ClientReport { received, ..ClientReport::default() });
            }
        }
        let (way, channel) = match self.channel.datagrams() {
            Some(socket) => (Receiving::Datagrams(socket), self.channel),
            None => (Receiving::Stream(self.channel.stream()?), Channel::of_stream(self.channel.stream()?)),
        };
        let (exchange, own) = (Exchange::new(Duration::from_nanos(GRACE))?, Exchange::new(Duration::ZERO)?);
        let (until, other) = (Until::default(), Arc::<OtherWay>::default());
        let receiving = ReceiverSettings { session: Some(settings.session), ..ReceiverSettings::new(settings.to) };
        let mut sessions = Sessions::new(&receiving, &exchange).beside(Arc::clone(&other));
        if let Some((every, to)) = self.intervals.take() {
            sessions.tell(every, started, to);
        }
        if let Some(to) = self.deliveries.take() {
            sessions.deliver(to);
        }
        let ending = Ending::new(&until, &exchange, &over, started);
        let (mut theirs, mut told, mut parted, mut failure) = (None, None, None, None);
        let (mut received, sent) = thread::scope(|scope| {
            if self.both {
                other.begin();
            }
            let (datagrams, from) = (way.datagrams(), settings.to);
            let receiving = scope.spawn(move || way.receive(from, sessions, ending));
            let (own, over, other, settings) = (&own, &over, &other, &settings);
            let sending = self.both.then(|| {
                let sender = Sender::over(channel, settings);
                scope.spawn(move || {
                    let report = sender.run(own, over);
                    other.set_sent(report.sent);
                    other.end(now());
                    report
                })
            });
            let mut next = 0;
            while !receiving.is_finished() {
                let at = now();
                if let Some(socket) = datagrams.as_ref().filter(|_| exchange.delivered() == 0 && at >= next) {
                    // What is not taken is as good as lost on the way.
                    socket.send(&[Outgoing { pieces: &[IoSlice::new(&token)], segment: None, to: None }]);
                    next = at + AGAIN;
                }
                other.set_sent(own.sent());
                if stop.is_set() {
                    parted = Some(Parted::Stopped);
                    break;
                }
                match call.hear() {
                    Ok(Some(Line::Sent(sent))) => {
                        theirs = Some(sent);
                        exchange.close(sent.messages, now());
                    }
                    Ok(_) => {}
                    Err(error) => {
                        (parted, failure) = (Some(Parted::Silent), Some(error.to_string()));
                        break;
                    }
                }
            }
            if parted.is_some() {
                over.set();
            }
            let received = receiving.join().unwrap_or_default();
            (received, sending.map(|sending| sending.join().unwrap_or_default()))
        });
        let theirs: Option<Sent> = theirs;
        if let (Some(session), Some(theirs)) = (received.sessions.first_mut(), theirs) {
            // All announcements may have been lost.
            session.announced.get_or_insert(theirs.messages);
        }
        let account = received.sessions.first().map(Account::new).map(Box::new);
        let own = sent.as_ref().map(|sent| call.say(&Line::Sent(sent_of(sent)))).transpose();
        let said = own.and_then(|_| call.say(&Line::Account(account)));
        let parted = match (parted, said) {
            (Some(parted), _) => parted,
            (None, Err(error)) => {
                failure = Some(error.to_string());
                Parted::Untold
            }
            (None, Ok(())) => {
                let deadline = now() + ANSWER;
                loop {
                    match call.hear() {
                        Ok(Some(Line::Account(account))) => {
                            told = account.map(|account| *account);
                            break Parted::Told;
                        }
                        Ok(_) if now() < deadline => {}
                        Ok(_) => break Parted::Untold,
                        Err(error) => {
                            failure = Some(error.to_string());
                            break Parted::Untold;
                        }
                    }
                }
            }
        };
        let shortfall = theirs.and_then(|theirs| theirs.shortfall);
        Ok(ClientReport { received, sent, told, shortfall, parted, failure })
    }
}

/// What messages come over.
enum Receiving {
    Datagrams(Arc<Socket>),
    Stream(TcpStream),
}

impl Receiving {
    fn datagrams(&self) -> Option<Arc<Socket>> {
        if let Self::Datagrams(socket) = self { Some(Arc::clone(socket)) } else { None }
    }

    fn receive(self, from: SocketAddr, sessions: Sessions<'_>, ending: Ending<'_>) -> ReceiveReport {
        match self {
            Self::Datagrams(socket) => {
                datagrams::receive(&socket, &AtomicU64::new(0), LONGEST, None, sessions, ending, None)
            }
            Self::Stream(socket) => streams::receive(None, Some((socket, from)), sessions, ending, None),
        }
    }
}

/// From one token to the next.
const AGAIN: u64 = 100_000_000;

/// How long the last answer may take.
const ANSWER: u64 = 10_000_000_000;

/// Bytes of the longest datagram.
const LONGEST: usize = 65_536;
