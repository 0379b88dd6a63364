//! The client: sends a request, receives, and sends with --bidir, to the end.

use std::io::{self, IoSlice, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use weir_dgram::Outgoing;
use weir_program::clock::{Nanos, nanos, now};
use weir_program::stop::Stop;

use super::call::{Call, end_when_dead};
use super::desk::grace;
use super::lines::{First, Line, Request, Sent, VERSION, Want};
use super::{Parted, sent_of};
use crate::sender::channel::Channel;
use crate::{
    Account, Direction, Exchange, Interval, ReceiveReport, Receiver, ReceiverSettings, SendReport, Sender,
    SenderSettings, TrafficError, Transport, in_words,
};

/// A client of a [`Receiver`](crate::Receiver) that may send messages.
#[derive(Debug)]
pub struct Client {
    settings: SenderSettings,
    both: bool,
    /// The channel of the control connection.
    control: Channel,
    /// The channel of messages.
    channel: Channel,
    receiver: Receiver,
}

/// Its result.
#[derive(Debug, Default)]
pub struct ClientReport {
    /// The received messages: at most one session.
    pub received: ReceiveReport,
    /// The sent messages. `None`: it only receives.
    pub sent: Option<SendReport>,
    /// The ledger of the direction from here, if both send, and of the direction to here; empty: it was never granted.
    pub directions: Vec<Account>,
    /// How it ended.
    pub parted: Parted,
    /// The error of the control connection.
    pub failure: Option<String>,
}

impl Client {
    /// Creates the sockets in the calling thread's network namespace. It requests messages with these settings;
    /// `both`: it sends the same.
    pub fn open(settings: &SenderSettings, both: bool) -> Result<Self, TrafficError> {
        settings.validate()?;
        let SenderSettings { transport, to, session, .. } = *settings;
        if !matches!(transport, Transport::Udp | Transport::Tcp) {
            return Err(TrafficError::Refused(format!(
                "reverse or bidirectional over {transport}: only over udp and tcp"
            )));
        }
        let mut channel = Channel::open(settings)?;
        channel.shared = true;
        let from = settings.from.map(|from| SocketAddr::new(from.ip(), 0));
        let control = Channel::open(&SenderSettings { transport: Transport::Tcp, from, ..settings.clone() })?;
        let keep_flights = settings.keep_departures;
        let receiving =
            ReceiverSettings { transport, session: Some(session), keep_flights, ..ReceiverSettings::new(to) };
        let failed = |source| TrafficError::Socket { transport, address: to, source };
        let receiver = Receiver::over(&channel, receiving).map_err(failed)?;
        Ok(Self { settings: settings.clone(), both, control, channel, receiver })
    }

    /// Reports each interval of this length with its received (and sent) messages while it runs.
    pub fn tell(self, every: Duration, to: mpsc::Sender<Interval>) -> Self {
        Self { receiver: self.receiver.tell(every, to), ..self }
    }

    /// Runs to the end, or to the stop.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn run(mut self, stop: &Stop) -> io::Result<ClientReport> {
        match self.ask(stop) {
            Ok((call, token)) => self.converse(call, token, stop),
            Err((parted, failure)) => Ok(ClientReport { parted, failure, ..ClientReport::default() }),
        }
    }

    /// Connects and sends the request; returns the token, or why there is none.
    fn ask(&mut self, stop: &Stop) -> Result<(Call, String), (Parted, Option<String>)> {
        let settings = &self.settings;
        let deadline = now().saturating_add(nanos(settings.connect_timeout));
        let silent = || if stop.is_set() { Parted::Stopped } else { Parted::Unanswered };
        if !self.control.connect(settings.to, deadline, stop) {
            let failed = !stop.is_set() && now() < deadline;
            let why = failed.then(|| in_words(&self.control.take_errors()));
            return Err((if failed { Parted::Unreachable } else { silent() }, why));
        }
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
        let asked = self.control.stream().and_then(Call::new).and_then(|mut call| {
            call.say(&request)?;
            Ok((call.hear_until(deadline, stop)?, call))
        });
        match asked {
            Ok((Some(Line::Granted { token }), call)) => Ok((call, token)),
            Ok((Some(Line::Refused(why)), _)) => Err((Parted::Refused(why), None)),
            Ok(_) => Err((silent(), None)),
            Err(error) => Err((Parted::Unanswered, Some(error.to_string()))),
        }
    }

    /// Receives, and sends if requested, from the grant to the ledgers.
    fn converse(self, mut call: Call, token: String, stop: &Stop) -> io::Result<ClientReport> {
        let Self { settings, both, mut channel, receiver, .. } = self;
        // The first message leaves at once. Two more intervals, since it may be lost.
        let patience = nanos(settings.connect_timeout).saturating_add(nanos(settings.interval).saturating_mul(2));
        let first_by = now().saturating_add(patience);
        let (token, over) = (serde_json::to_vec(&First::Token { token })?, Stop::new()?);
        if settings.transport == Transport::Tcp {
            let deadline = now().saturating_add(nanos(settings.connect_timeout));
            let is_up = channel.connect(settings.to, deadline, stop);
            let stream = channel.stream()?;
            end_when_dead(&stream)?;
            if !is_up || (&stream).write_all(&[&token[..], b"\n"].concat()).is_err() {
                let received = ReceiveReport { errors: channel.take_errors(), ..ReceiveReport::default() };
                return Ok(ClientReport { received, ..ClientReport::default() });
            }
        }
        let (exchange, own) =
            (Exchange::new(Duration::from_nanos(grace(settings.transport)))?, Exchange::new(Duration::ZERO)?);
        let (datagrams, other) = (channel.datagrams(), receiver.other_way());
        let (mut theirs, mut broken, mut next) = (None::<Sent>, None, 0);
        let (mut received, sent) = thread::scope(|scope| {
            let sending = both.then(|| {
                other.begin();
                scope.spawn(|| {
                    let report = Sender::over(channel, &settings).run(&own, &over);
                    other.set_sent(report.sent);
                    other.end(now());
                    report
                })
            });
            let receiving = scope.spawn(|| receiver.run(&exchange, &over));
            while !receiving.is_finished() && broken.is_none() {
                let at = now();
                if let Some(socket) = datagrams.as_ref().filter(|_| exchange.delivered() == 0 && at >= next) {
                    // A token that is not sent counts as lost.
                    socket.send(&[Outgoing { pieces: &[IoSlice::new(&token)], segment: None, to: None }]);
                    next = at + AGAIN;
                }
                other.set_sent(own.sent());
                let nothing = !both && exchange.delivered() == 0;
                match call.hear() {
                    _ if stop.is_set() => broken = Some((Parted::Stopped, None)),
                    Ok(Some(Line::Sent(sent))) => {
                        theirs = Some(sent);
                        exchange.close(sent.messages, now());
                    }
                    Ok(Some(Line::Refused(why))) => broken = Some((Parted::Refused(why), None)),
                    Ok(_) if nothing && now() >= first_by => broken = Some((Parted::Nothing, None)),
                    Ok(_) => {}
                    Err(error) => broken = Some((Parted::Silent, Some(error.to_string()))),
                }
            }
            if broken.is_some() {
                over.set();
            }
            (receiving.join().unwrap_or_default(), sending.map(|sending| sending.join().unwrap_or_default()))
        });
        if let (Some(session), Some(theirs)) = (received.sessions.first_mut(), theirs) {
            // All announcements may have been lost.
            session.announced.get_or_insert(theirs.messages);
        }
        let all = theirs.map(|theirs| theirs.messages);
        let account = received.sessions.first().map(Account::new);
        let account = account.unwrap_or_else(|| Account::nothing(settings.to, settings.session, all));
        let own = sent.as_ref().map_or(Ok(()), |sent| call.say(&Line::Sent(sent_of(sent))));
        let said = own.and_then(|()| call.say(&Line::Account(Some(Box::new(account.clone())))));
        let mut reported = None;
        let (parted, failure) = broken.unwrap_or_else(|| match said.and_then(|()| last_account(&mut call)) {
            Ok(Some(theirs)) => {
                reported = theirs;
                let nothing = !both && account.received == Some(0) && all > Some(0);
                (if nothing { Parted::Nothing } else { Parted::Told }, None)
            }
            Ok(None) => (Parted::Untold, None),
            Err(error) => (Parted::Untold, Some(error.to_string())),
        });
        let shortfall = theirs.and_then(|theirs| theirs.shortfall);
        let reverse = Account { shortfall, ..account }.going(Direction::Reverse);
        let reported =
            |sent| Account::reported(settings.to, settings.session, sent, reported.as_ref()).going(Direction::Forward);
        let directions = sent.iter().map(reported).chain([reverse]).collect();
        Ok(ClientReport { received, sent, directions, parted, failure })
    }
}

/// The other end's report. `None`: it did not arrive in time.
fn last_account(call: &mut Call) -> io::Result<Option<Option<Account>>> {
    let (deadline, never) = (now() + ANSWER, Stop::new()?);
    while let Some(line) = call.hear_until(deadline, &never)? {
        if let Line::Account(account) = line {
            return Ok(Some(account.map(|account| *account)));
        }
    }
    Ok(None)
}

/// Time between two tokens.
const AGAIN: Nanos = 100_000_000;

/// Max time for the last answer.
const ANSWER: Nanos = 10_000_000_000;
