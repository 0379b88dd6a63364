//! The sending end: connects, sends as much as the kernel takes, and looks at the connections.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::libc::{EINPROGRESS, ETIMEDOUT, MSG_NOSIGNAL};
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use weir_kernel::tcp::TcpInfo;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;

use super::WAKE;
use crate::bulk::{BulkReport, BulkSettings, Sample};
use crate::{ErrorLog, Exchange, TrafficError, Transport, Window, congestion};

/// Sockets that are ready to connect.
#[derive(Debug)]
pub(in crate::bulk) struct Sender {
    settings: BulkSettings,
    streams: Vec<Stream>,
    epoll: Epoll,
    engine: String,
}

#[derive(Debug)]
struct Stream {
    socket: socket2::Socket,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Connecting,
    Connected,
    /// It was connected, and broke.
    Broken,
    /// It never was.
    Failed,
}

/// What the sending end has to tell, and the sockets it still holds.
pub(super) struct Sent {
    pub(super) report: BulkReport,
    pub(super) streams: Vec<socket2::Socket>,
}

impl Sender {
    /// Makes all sockets in the calling thread's network namespace.
    pub(in crate::bulk) fn open(settings: &BulkSettings) -> Result<Self, TrafficError> {
        let failed = |source| TrafficError::Socket { transport: Transport::Tcp, address: settings.to, source };
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let mut streams = Vec::with_capacity(settings.streams as usize);
        let mut control = String::new();
        for _ in 0..settings.streams {
            let socket = super::socket(settings.to)?;
            if let Some(name) = &settings.congestion {
                congestion::set(&socket, name)?;
            }
            socket.set_tcp_nodelay(settings.nodelay).map_err(failed)?;
            control = congestion::of(&socket).map_err(failed)?;
            streams.push(Stream { socket, state: State::Fresh });
        }
        let engine = format!("weir {}: tcp, {control}", env!("CARGO_PKG_VERSION"));
        Ok(Self { settings: settings.clone(), streams, epoll, engine })
    }

    /// Connects from the time `begin` on and sends until the window is over.
    pub(super) fn run(self, exchange: &Exchange, begin: Nanos, stop: &Stop) -> Sent {
        let Self { settings, streams, epoll, engine } = self;
        let report = BulkReport { engine, streams: settings.streams, ..BulkReport::default() };
        let block = vec![0; settings.block_bytes.max(1)];
        let mut run = Run { settings, streams, epoll, block, stop, errors: ErrorLog::default(), report };
        // Always readable once set; nobody reads it.
        if let Err(errno) = run.epoll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, WAKE)) {
            run.errors.count("watch", &errno.into());
        }
        while now() < begin && !stop.is_set() {
            clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(begin));
        }
        run.connect();
        if run.report.connected > 0 && !stop.is_set() {
            run.send(exchange);
        }
        exchange.close(0, now());
        let Run { streams, errors, mut report, .. } = run;
        report.errors = errors.into_counts();
        Sent { report, streams: streams.into_iter().map(|stream| stream.socket).collect() }
    }
}

/// A transfer under way.
struct Run<'a> {
    settings: BulkSettings,
    streams: Vec<Stream>,
    epoll: Epoll,
    block: Vec<u8>,
    stop: &'a Stop,
    errors: ErrorLog,
    report: BulkReport,
}

impl Run<'_> {
    /// Makes the connections, all at once; ends when none is under way any more, at the deadline, or at a stop.
    fn connect(&mut self) {
        let begin = now();
        let deadline = begin.saturating_add(nanos(self.settings.connect_timeout));
        let to = self.settings.to.into();
        let mut under_way = 0;
        for index in 0..self.streams.len() {
            match self.streams[index].socket.connect(&to) {
                Ok(()) => self.connected(index, begin),
                Err(error) if error.raw_os_error() == Some(EINPROGRESS) => {
                    self.streams[index].state = State::Connecting;
                    under_way += usize::from(self.watch(index));
                }
                Err(error) => self.fail(index, &error),
            }
        }
        let mut events = [EpollEvent::empty(); EVENTS];
        while under_way > 0 && now() < deadline && !self.stop.is_set() {
            let ready = self.epoll.wait(&mut events, clock::epoll_timeout(Some(deadline))).unwrap_or(0);
            for event in events[..ready].iter().filter(|event| event.data() != WAKE) {
                let index = event.data() as usize;
                under_way -= 1;
                let _ = self.epoll.delete(&self.streams[index].socket);
                match self.streams[index].socket.take_error() {
                    Ok(None) => self.connected(index, begin),
                    Ok(Some(error)) | Err(error) => self.fail(index, &error),
                }
            }
        }
        for index in 0..self.streams.len() {
            if self.streams[index].state == State::Connecting {
                if self.stop.is_set() {
                    self.streams[index].state = State::Failed;
                } else {
                    self.fail(index, &io::Error::from_raw_os_error(ETIMEDOUT));
                }
            }
        }
        // Sockets that gave up must not go on trying beside the others.
        self.streams.retain(|stream| stream.state == State::Connected);
    }

    fn connected(&mut self, index: usize, begin: Nanos) {
        self.streams[index].state = State::Connected;
        self.report.connected += 1;
        self.report.connect = Some(Duration::from_nanos(now() - begin));
    }

    fn fail(&mut self, index: usize, error: &io::Error) {
        self.streams[index].state = State::Failed;
        self.errors.count("connect", error);
    }

    /// Has events of a stream reported while it takes bytes; `false`: the kernel cannot, and the stream is out.
    fn watch(&mut self, index: usize) -> bool {
        let event = EpollEvent::new(EpollFlags::EPOLLOUT, index as u64);
        match self.epoll.add(&self.streams[index].socket, event) {
            Ok(()) => true,
            Err(errno) => {
                self.streams[index].state = State::Broken;
                self.errors.count("watch", &errno.into());
                false
            }
        }
    }

    /// Sends through warm-up and window.
    fn send(&mut self, exchange: &Exchange) {
        let origin = now();
        let start = origin.saturating_add(nanos(self.settings.warmup));
        let window = Window { start, end: start.saturating_add(nanos(self.settings.duration)) };
        exchange.open(window);
        self.report.window = Some(window);
        let mut open = (0..self.streams.len()).filter(|&index| self.watch(index)).count();

        let period = nanos(self.settings.batch).max(SHORTEST_PERIOD);
        let looks = (window.end - origin) / period + 2;
        self.report.samples.reserve(looks.min(MOST_LOOKS) as usize * self.streams.len());
        let mut next_look = origin;
        let mut events = [EpollEvent::empty(); EVENTS];
        while open > 0 && !self.stop.is_set() {
            let at = now();
            if at >= window.end {
                break;
            }
            if at >= next_look {
                self.look(origin);
                next_look += ((at - next_look) / period + 1) * period;
            }
            let timeout = clock::epoll_timeout(Some(next_look.min(window.end)));
            let ready = self.epoll.wait(&mut events, timeout).unwrap_or(0);
            for event in events[..ready].iter().filter(|event| event.data() != WAKE) {
                if let Err(error) = self.fill(event.data() as usize) {
                    self.drop_out(event.data() as usize, &error);
                    open -= 1;
                }
            }
        }
        self.report.used = Duration::from_nanos(now().min(window.end).saturating_sub(window.start));
        self.look(origin);
        let states = self.streams.iter().filter_map(|stream| TcpInfo::of(&stream.socket).ok());
        self.report.at_end = states.collect();
        self.report.retransmits = Some(self.report.at_end.iter().map(|info| u64::from(info.retransmits)).sum());
    }

    /// Hands a stream as much as it takes, up to a few blocks, so that others get their turn.
    fn fill(&mut self, index: usize) -> io::Result<()> {
        let stream = &self.streams[index];
        let mut handed_over = 0;
        while handed_over < TURN {
            match stream.socket.send_with_flags(&self.block, MSG_NOSIGNAL) {
                Ok(bytes) => {
                    handed_over += bytes;
                    self.report.sent_bytes += bytes as u64;
                    if bytes < self.block.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Goes on without a stream that broke.
    fn drop_out(&mut self, index: usize, error: &io::Error) {
        self.errors.count("send", error);
        let stream = &mut self.streams[index];
        stream.state = State::Broken;
        let _ = self.epoll.delete(&stream.socket);
    }

    /// Notes the state of every connection.
    fn look(&mut self, origin: Nanos) {
        for (number, stream) in (0..).zip(&self.streams) {
            if stream.state == State::Connected
                && let Ok(info) = TcpInfo::of(&stream.socket)
            {
                self.report.samples.push(sample(&info, number, Duration::from_nanos(now() - origin)));
            }
        }
    }
}

fn sample(info: &TcpInfo, stream: u32, at: Duration) -> Sample {
    Sample {
        at,
        stream,
        congestion_window: info.congestion_window_bytes(),
        rtt: Duration::from_micros(info.rtt_us.into()),
        retransmits: info.retransmits.into(),
        delivery_rate: Some(info.delivery_rate.saturating_mul(8)),
        in_flight: Some(info.in_flight_bytes()),
    }
}

/// Events taken at once.
const EVENTS: usize = 64;

/// Bytes handed to a stream before the next one has its turn.
const TURN: usize = 1 << 20;

/// Shortest time between two looks, ns: a look takes some microseconds a connection.
const SHORTEST_PERIOD: Nanos = 1_000_000;

/// Looks that room is made for beforehand.
const MOST_LOOKS: u64 = 100_000;
