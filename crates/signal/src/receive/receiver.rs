//! The sockets: groups joined, datagrams taken in batches, put into [`Sessions`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_dgram::{Inbox, Membership, Options, Socket};
use weir_program::pulse::Pulse;
use weir_program::stop::Stop;
use weir_units::Size;
use weir_wire::signal::{MOST_BYTES_V4, PORT};

use super::counts::{Counts, Refused};
use super::host::Host;
use super::{Bounds, Moment, Sessions, Sink};
use crate::seal::{Opened, Opener};

/// What a receiver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Groups and addresses; each once, at least one.
    pub listen: Vec<Listen>,
    /// Receive buffer of each socket, bytes, as far as the kernel permits.
    pub receive_buffer: usize,
    /// How long it waits, and for how many.
    pub bounds: Bounds,
}

/// Where signals come in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    /// A group, which is joined, or an address of this machine.
    pub address: SocketAddr,
    /// Of a group: the interface to join it on; `None`: where a route leads.
    pub interface: Option<String>,
    /// Of a group: the one source to hear; `None`: any.
    pub source: Option<IpAddr>,
}

/// Receives signals.
pub struct Receiver {
    sockets: Vec<Listening>,
    inbox: Inbox,
    sessions: Sessions,
    host: Host,
    opener: Opener,
    /// What has been opened.
    scratch: Vec<u8>,
    began: Instant,
    told: Duration,
    open: Open,
}

/// What other threads may ask of a receiver.
#[derive(Clone, Debug, Default)]
pub struct Open(Arc<Mutex<Counts>>);

struct Listening {
    socket: Socket,
    /// What the kernel had counted last, modulo 2^32, and since the start.
    last: u32,
    drops: u64,
}

impl Listen {
    /// A group or an address, on no certain interface.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, interface: None, source: None }
    }

    /// Whether somebody can send from an address: a group never does.
    pub fn can_send(source: IpAddr) -> bool {
        !source.is_multicast() && !source.is_unspecified()
    }
}

/// The group of stations, port [`PORT`].
impl Default for Settings {
    fn default() -> Self {
        let group = SocketAddr::new(Ipv4Addr::new(239, 192, 77, 1).into(), PORT);
        Self { listen: vec![Listen::new(group)], receive_buffer: RECEIVE_BUFFER, bounds: Bounds::default() }
    }
}

impl Receiver {
    /// Opens and joins all it listens to.
    ///
    /// # Errors
    /// One line: an address is taken or not of this machine, a group cannot be joined.
    pub fn open(settings: &Settings) -> Result<Self, weir_dgram::Error> {
        let sockets = settings.listen.iter().map(|listen| Listening::open(listen, settings.receive_buffer));
        Ok(Self {
            sockets: sockets.collect::<Result<_, _>>()?,
            inbox: Inbox::new(MESSAGES, MESSAGE_BYTES),
            sessions: Sessions::new(settings.bounds),
            host: Host::open(),
            opener: Opener::default(),
            scratch: Vec::new(),
            began: Instant::now(),
            told: Duration::ZERO,
            open: Open::default(),
        })
    }

    /// Opens what is sealed from now on, and refuses what is not sealed as its keys demand. Without one only plain ones are taken.
    pub fn set_keys(&mut self, opener: Opener) {
        self.opener = opener;
    }

    /// What is to be said of receive buffers that are smaller than what was asked for, a line each.
    pub fn remarks(&self) -> Vec<String> {
        let remark = |listening: &Listening| {
            let buffer = listening.socket.granted().receive_buffer;
            let (asked, limit) = (buffer.asked?, buffer.limit?);
            Some(format!(
                "{}: the receive buffer has {} of {} ({limit}; sysctl -w {limit}={asked}, or grant CAP_NET_ADMIN)",
                listening.socket.local_addr(),
                Size { bytes: buffer.granted as u64 / 2 },
                Size { bytes: asked as u64 },
            ))
        };
        self.sockets.iter().filter_map(remark).collect()
    }

    /// Where it listens, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|listening| listening.socket.local_addr()).collect()
    }

    /// What other threads may ask of it.
    pub fn shared(&self) -> Open {
        self.open.clone()
    }

    /// Receives until the stop is set, and what has come by then.
    pub fn run<S: Sink + ?Sized>(&mut self, sink: &mut S, stop: &Stop, pulse: &Pulse) {
        loop {
            let stopped = stop.is_set();
            pulse.wait();
            self.wait(Some(stop.as_fd()), LONGEST_WAIT);
            pulse.work();
            self.hand_out(sink);
            if stopped {
                break;
            }
        }
        self.publish();
    }

    /// Waits for datagrams, at most so long, and hands out what there is.
    pub fn take<S: Sink + ?Sized>(&mut self, timeout: Duration, sink: &mut S) {
        self.wait(None, timeout);
        self.hand_out(sink);
    }

    fn wait(&self, stop: Option<BorrowedFd<'_>>, timeout: Duration) {
        let timeout = if self.sessions.is_pending() { timeout.min(PENDING_WAIT) } else { timeout };
        let fds = self.sockets.iter().map(|listening| listening.socket.as_fd()).chain(stop);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Whatever wakes it, what there is is taken.
        let _ = poll(&mut fds, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX));
    }

    fn hand_out<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        let mut more = true;
        let mut turns = 0;
        while more && turns < TURNS {
            more = false;
            turns += 1;
            // One time for all of them: where this machine stands still between two, what the other has is not given up.
            let now = self.began.elapsed();
            for index in 0..self.sockets.len() {
                more |= self.receive(index, now, sink);
            }
        }
        let moment = self.moment();
        self.sessions.look(moment, &mut self.host, sink);
        sink.flush();
        if moment.now >= self.told + TELLS_APART {
            self.told = moment.now;
            self.host.refresh(moment.now);
            self.publish();
        }
    }

    /// A batch of one socket; returns whether there may be more.
    fn receive<S: Sink + ?Sized>(&mut self, index: usize, now: Duration, sink: &mut S) -> bool {
        let others: u64 = self.sockets.iter().map(|listening| listening.drops).sum();
        let Listening { socket, last, drops } = &mut self.sockets[index];
        let others = others - *drops;
        // WouldBlock: nothing is there. What fails otherwise fails again, and nothing else can be done.
        let Ok(count) = self.inbox.receive(socket) else { return false };
        let mut moment = Moment { now, wall: wall(), drops: 0 };
        for message in self.inbox.messages() {
            // The kernel tells none where none was dropped before it.
            let counted = message.socket_drops.unwrap_or(0);
            *drops += dropped_since(last, counted);
            moment.drops = others + dropped_before(*drops, *last, counted);
            for datagram in message.segments() {
                if datagram.len() > MOST_BYTES_V4 || message.truncated {
                    self.sessions.refuse(Refused::Long, datagram.len());
                    continue;
                }
                match self.opener.open(datagram, &mut self.scratch) {
                    Ok(Opened { bytes, is_fresh }) => {
                        let from = (message.source, is_fresh);
                        self.sessions.take_opened(bytes, from, moment, &mut self.host, sink);
                    }
                    Err(refused) => self.sessions.refuse(Refused::Seal(refused), datagram.len()),
                }
            }
        }
        count == MESSAGES
    }

    fn moment(&self) -> Moment {
        let drops = self.sockets.iter().map(|listening| listening.drops).sum();
        Moment { now: self.began.elapsed(), wall: wall(), drops }
    }

    fn publish(&mut self) {
        for listening in &mut self.sockets {
            // A drop that no datagram has followed yet: the next hole is the socket's all the same.
            if let Ok(memory) = listening.socket.memory() {
                listening.drops += dropped_since(&mut listening.last, memory.drops);
            }
        }
        let drops = self.sockets.iter().map(|listening| listening.drops).sum();
        *self.open.0.lock().unwrap_or_else(PoisonError::into_inner) = self.sessions.counts(drops);
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

impl Open {
    /// What it had counted some milliseconds ago; when it has ended, everything.
    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Listening {
    fn open(listen: &Listen, receive_buffer: usize) -> Result<Self, weir_dgram::Error> {
        let is_group = listen.address.ip().is_multicast();
        let options = Options {
            // Several receivers of a machine each get a copy.
            reuse_address: is_group,
            only_v6: true,
            receive_buffer: Some(receive_buffer),
            gro: true,
            count_drops: true,
            ..Options::default()
        };
        let socket = Socket::bind(listen.address, &options)?;
        if is_group {
            let Listen { address, interface, source } = listen.clone();
            socket.join(&Membership { group: address.ip(), source, interface })?;
        }
        Ok(Self { socket, last: 0, drops: 0 })
    }
}

/// What a counter of the kernel's, modulo 2^32, has gone on since the last look. Datagrams that were queued before that look carry what
/// was counted then: nothing new.
pub fn dropped_since(last: &mut u32, counted: u32) -> u64 {
    let more = counted.wrapping_sub(*last);
    if more.cast_signed() <= 0 {
        return 0;
    }
    *last = counted;
    u64::from(more)
}

/// What had been dropped before a datagram that carries such a count: a look at the counter may have come in between, while it waited.
pub(super) fn dropped_before(drops: u64, last: u32, counted: u32) -> u64 {
    drops.saturating_sub(u64::from(last.wrapping_sub(counted)))
}

fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Asked for each socket; what the kernel grants is said when it is less.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Messages of a batch, each a datagram or a run of them joined by the kernel.
const MESSAGES: usize = 64;
const MESSAGE_BYTES: usize = 65_535;

/// Batches of each socket in a turn: what comes meanwhile is shown, too.
const TURNS: usize = 16;

const LONGEST_WAIT: Duration = Duration::from_millis(20);
const PENDING_WAIT: Duration = Duration::from_millis(2);

/// From one look at counters to the next.
const TELLS_APART: Duration = Duration::from_millis(50);
