//! The answering end over TCP: a sender on a connection that its receiver goes on reading.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_program::clock::Nanos;
use weir_program::stop::Stop;
use weir_wire::control::{Account, Control, Says, Terms};

use super::{Limits, Parted, ReverseReport, account_of};
use crate::receiver::sessions::Sessions;
use crate::sender::channel::Channel;
use crate::{Exchange, SendReport, Sender, SenderSettings};

/// What goes on, on one connection.
#[derive(Debug)]
pub(crate) struct StreamFlow {
    control: Control,
    terms: Terms,
    peer: SocketAddr,
    stop: Stop,
    exchange: Arc<Exchange>,
    /// `None`: it has ended.
    thread: Option<JoinHandle<SendReport>>,
    report: SendReport,
    ended_at: Nanos,
    /// What the other end has told.
    account: Option<Account>,
    /// Of the answer to that, what has not been written; `None`: it was not known yet.
    answer: Option<Vec<u8>>,
    closed: bool,
}

impl StreamFlow {
    /// Answers a request, and starts to send if it is granted; `None`: it is refused.
    pub(crate) fn answer(
        socket: &TcpStream,
        control: Control,
        terms: Terms,
        peer: SocketAddr,
        limits: &mut Limits,
    ) -> io::Result<Option<Self>> {
        let settings = match limits.take(&terms, control.session, peer) {
            Ok(settings) => settings,
            Err(refusal) => {
                write_all(socket, &Control { says: Says::Refused(refusal), ..control }.bytes())?;
                return Ok(None);
            }
        };
        let started = Self::start(socket, control, terms, &settings);
        if started.is_err() {
            limits.give_back(&terms, peer);
        }
        started.map(Some)
    }

    fn start(socket: &TcpStream, control: Control, terms: Terms, settings: &SenderSettings) -> io::Result<Self> {
        write_all(socket, &Control { says: Says::Granted, ..control }.bytes())?;
        let (stop, exchange) = (Stop::new()?, Arc::new(Exchange::new(Duration::ZERO)?));
        let sender = Sender::over(Channel::of_stream(socket.try_clone()?.into()), settings);
        let (told, ends) = (Arc::clone(&exchange), stop.clone());
        let thread = thread::Builder::new().name("reverse".into()).spawn(move || sender.run(&told, &ends))?;
        Ok(Self {
            control,
            terms,
            peer: settings.to,
            stop,
            exchange,
            thread: Some(thread),
            report: SendReport::default(),
            ended_at: 0,
            account: None,
            answer: None,
            closed: false,
        })
    }

    /// The other end has told what it received: it wants no more.
    pub(crate) fn told(&mut self, account: Option<Account>) {
        self.account = account.or(Some(Account::default()));
        self.stop.set();
    }

    /// The connection is gone.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.stop.set();
    }

    /// Messages sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.exchange.sent()
    }

    /// Does what is due; `Some`: it is over. Without a socket there is nobody to tell.
    pub(crate) fn tick(
        &mut self,
        socket: Option<&TcpStream>,
        sessions: &Sessions<'_>,
        limits: &mut Limits,
        at: Nanos,
    ) -> Option<Parted> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join(limits);
            self.ended_at = at;
        }
        if self.thread.is_some() {
            return None;
        }
        if self.closed {
            // Who hangs up when it has its answer has heard all.
            let told = self.account.is_some();
            return Some(if told { Parted::Told } else { Parted::Silent });
        }
        if self.account.is_some()
            && let Some(socket) = socket
        {
            if self.answer.is_none() {
                self.answer = self.last_word(sessions, at);
            }
            if let Some(rest) = &mut self.answer
                && !rest.is_empty()
            {
                let mut socket = socket;
                // What is not taken now is tried again.
                let written = socket.write(rest).unwrap_or(0);
                rest.drain(..written);
            }
        }
        (at.saturating_sub(self.ended_at) > PATIENCE).then_some(if self.account.is_some() {
            Parted::Told
        } else {
            Parted::Untold
        })
    }

    /// What came here, once that is known, for the other end.
    fn last_word(&self, sessions: &Sessions<'_>, at: Nanos) -> Option<Vec<u8>> {
        let shortfall = self.report.due.map(|_| self.report.shortfall());
        let account = if self.terms.both {
            Account { shortfall, ..account_of(sessions.settled(Some(self.peer), self.control.session, at)?) }
        } else {
            Account { shortfall, incarnation: self.report.incarnation.into(), ..Account::default() }
        };
        Some(Control { says: Says::Account(Some(account)), ..self.control }.bytes().to_vec())
    }

    fn join(&mut self, limits: &mut Limits) {
        if let Some(thread) = self.thread.take() {
            self.report = thread.join().unwrap_or_default();
            limits.give_back(&self.terms, self.peer);
        }
    }

    /// Ends it, and tells what became of it.
    pub(crate) fn into_report(mut self, parted: Parted, limits: &mut Limits) -> ReverseReport {
        self.stop.set();
        self.join(limits);
        let (peer, session, both) = (self.peer, self.control.session, self.terms.both);
        ReverseReport { peer, session, both, sent: self.report, account: self.account, parted }
    }
}

/// The first bytes of a connection always fit.
fn write_all(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    socket.write_all(bytes)
}

/// How long the other end may take to tell what it received, and to hang up.
const PATIENCE: Nanos = Duration::from_secs(10).as_nanos() as Nanos;
