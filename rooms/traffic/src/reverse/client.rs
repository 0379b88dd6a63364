//! The asking end: makes the socket, and talks and receives, and perhaps sends, to the end.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread::{self, Scope};
use std::time::Duration;

use weir_program::clock::{nanos, now};
use weir_program::stop::Stop;
use weir_wire::control::{Account, Control, Says, Terms};

use super::caller::{Caller, Own, Phase, random};
use super::{Parted, stream_client};
use crate::receiver::datagrams;
use crate::receiver::ending::Ending;
use crate::receiver::sessions::Sessions;
use crate::sender::channel::Channel;
use crate::{
    Delivery, Exchange, Interval, Pacing, ReceiveReport, ReceiverSettings, SendReport, Sender, SenderSettings,
    TrafficError, Transport, Until,
};

/// One that asks a [`Receiver`](crate::Receiver) which allows it to send messages.
#[derive(Debug)]
pub struct Client {
    settings: SenderSettings,
    both: bool,
    channel: Channel,
    intervals: Option<(Duration, mpsc::Sender<Interval>)>,
    deliveries: Option<mpsc::SyncSender<Vec<Delivery>>>,
}

/// What came of it.
#[derive(Debug)]
pub struct ClientReport {
    /// What was received: at most one session.
    pub received: ReceiveReport,
    /// What was sent; `None`: nothing was to be.
    pub sent: Option<SendReport>,
    /// What the other end received of it, and did not send itself. `None`: it never told.
    pub told: Option<Account>,
    /// How it ended.
    pub parted: Parted,
    /// Its own address, as the kernel chose it.
    pub local: Option<SocketAddr>,
    /// What went wrong with the connection, in words.
    pub failure: Option<String>,
}

/// What an asking end needs on its way.
pub(super) struct Talking<'a> {
    pub(super) settings: SenderSettings,
    pub(super) terms: Terms,
    pub(super) control: Control,
    pub(super) sessions: Sessions<'a>,
    pub(super) ending: Ending<'a>,
    pub(super) stop: &'a Stop,
}

impl Client {
    /// Makes the socket in the calling thread's network namespace. What is asked for are messages as these settings have them;
    /// `both`: as many are sent, too.
    pub fn open(settings: &SenderSettings, both: bool) -> Result<Self, TrafficError> {
        settings.validate()?;
        if !matches!(settings.transport, Transport::Udp | Transport::Tcp) {
            return Err(TrafficError::NoReverse(settings.transport));
        }
        let channel = Channel::open(settings)?;
        Ok(Self { settings: settings.clone(), both, channel, intervals: None, deliveries: None })
    }

    /// Tells, while it runs, what came (and was sent) in each interval of this length.
    pub fn tell(self, every: Duration, to: mpsc::Sender<Interval>) -> Self {
        Self { intervals: Some((every, to)), ..self }
    }

    /// Hands over every message that it receives, as [`Receiver::deliver`](crate::Receiver::deliver) does.
    pub fn deliver(self, to: mpsc::SyncSender<Vec<Delivery>>) -> Self {
        Self { deliveries: Some(to), ..self }
    }

    /// Talks to the end, or to the stop.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn run(mut self, stop: &Stop) -> io::Result<ClientReport> {
        let (exchange, until) = (Exchange::new(Duration::ZERO)?, Until::default());
        let started = now();
        let receiving =
            ReceiverSettings { transport: self.settings.transport, ..ReceiverSettings::new(self.settings.to) };
        let mut sessions = Sessions::new(&receiving, &exchange);
        if let Some((every, to)) = self.intervals.take() {
            sessions.tell(every, started, to);
        }
        if let Some(to) = self.deliveries.take() {
            sessions.deliver(to);
        }
        let settings = self.settings.clone();
        let count = settings.count.map_or(0, NonZeroU64::get);
        let terms = Terms {
            payload: settings.payload_bytes as u64,
            interval: nanos(settings.interval),
            duration: nanos(settings.duration),
            count,
            scheduled: settings.pacing == Pacing::Schedule,
            both: self.both,
        };
        let control =
            Control { session: settings.session, request: random(settings.to), cookie: None, says: Says::Ask(terms) };
        let ending = Ending::new(&until, &exchange, stop, started);
        let talking = Talking { settings, terms, control, sessions, ending, stop };
        let report = thread::scope(|scope| match self.settings.transport {
            Transport::Udp => self.over_datagrams(talking, scope),
            _ => stream_client::run(self.channel, self.both, talking, scope),
        })?;
        Ok(ClientReport { received: ReceiveReport { started, finished: now(), ..report.received }, ..report })
    }

    fn over_datagrams<'scope>(
        self,
        talking: Talking<'scope>,
        scope: &'scope Scope<'scope, '_>,
    ) -> io::Result<ClientReport> {
        let Talking { settings, terms, control, sessions, ending, stop } = talking;
        let Some(socket) = self.channel.datagrams() else { return Err(io::Error::other("no datagrams")) };
        let local = Some(socket.local_addr());
        let own = if self.both { Some(own(Sender::over(self.channel, &settings), stop, scope)?) } else { None };
        let at = now();
        let mut caller = Caller {
            socket: Arc::clone(&socket),
            terms,
            control,
            own,
            phase: Phase::Asking,
            deadline: at.saturating_add(nanos(settings.connect_timeout)),
            next: at,
            heard: at,
            gone: false,
            told: None,
        };
        let received =
            datagrams::receive(&socket, &AtomicU64::new(0), LONGEST, None, sessions, ending, Some(&mut caller));
        let parted = match caller.phase {
            Phase::Over(parted) => parted,
            Phase::Asking if stop.is_set() => Parted::Stopped,
            _ => Parted::Failed,
        };
        let (told, sent) = (caller.told, caller.own.and_then(|own| own.report));
        Ok(ClientReport { received, sent, told, parted, local, failure: None })
    }
}

/// A sender on a thread that waits for the word to begin.
pub(super) fn own<'scope>(
    sender: Sender,
    stop: &'scope Stop,
    scope: &'scope Scope<'scope, '_>,
) -> io::Result<Own<'scope>> {
    let exchange = Arc::new(Exchange::new(Duration::ZERO)?);
    let (go, word) = mpsc::channel();
    let told = Arc::clone(&exchange);
    let thread = scope.spawn(move || word.recv().ok().map(|()| sender.run(&told, stop)));
    Ok(Own { go: Some(go), exchange, thread: Some(thread), report: None })
}

/// Bytes of the longest datagram.
const LONGEST: usize = 65_536;
