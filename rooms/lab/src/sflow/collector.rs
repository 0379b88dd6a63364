//! The receiving end: takes datagrams as they come, and hands them to the analyser.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags};
use weir_dgram::{Inbox, Options, Socket};
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;
use weir_traffic::{Ended, ErrorLog, Exchange, ReceiveReport};

use super::{Analysis, Arrival};

/// A socket that is bound, and the analyser behind it.
pub struct Collector<A> {
    endpoint: Endpoint,
    intake: Intake<A>,
    window: Nanos,
}

enum Endpoint {
    Datagrams { socket: Box<Socket>, inbox: Box<Inbox> },
    Stream { listener: TcpListener, connection: Option<TcpStream>, frames: Frames },
}

/// What a collector has seen.
pub(crate) struct Collected<A> {
    /// Of the datagrams; without a session.
    pub(crate) report: ReceiveReport,
    /// Those that are of the agents, in the order in which they were analysed.
    pub(crate) arrivals: Vec<Arrival>,
    /// Of the last one received.
    pub(crate) peer: Option<SocketAddr>,
    /// What has had the datagrams.
    pub(crate) analysis: A,
}

struct Intake<A> {
    analysis: A,
    arrivals: Vec<Arrival>,
    foreign: u64,
    peer: Option<SocketAddr>,
    errors: ErrorLog,
}

impl<A: Analysis> Collector<A> {
    /// `stream`: over TCP. `window`: how often the analysis looks at what it has.
    pub(crate) fn bind(
        analysis: A,
        stream: bool,
        window: Duration,
        listen: SocketAddr,
        buffer: Option<usize>,
    ) -> Result<Self> {
        let endpoint = if stream {
            let listener = TcpListener::bind(listen).with_context(|| format!("listen on {listen}"))?;
            listener.set_nonblocking(true).with_context(|| format!("listen on {listen}"))?;
            Endpoint::Stream { listener, connection: None, frames: Frames::new() }
        } else {
            let options = Options { receive_buffer: Some(buffer.unwrap_or(BUFFER)), ..Options::default() };
            let (socket, inbox) = (Socket::bind(listen, &options)?, Inbox::new(BATCH, LONGEST));
            Endpoint::Datagrams { socket: Box::new(socket), inbox: Box::new(inbox) }
        };
        let intake = Intake { analysis, arrivals: Vec::new(), foreign: 0, peer: None, errors: ErrorLog::default() };
        Ok(Self { endpoint, intake, window: nanos(window).max(1) })
    }

    /// Receives until everything sent has arrived, or so long after sending has ended.
    pub(crate) fn run(mut self, drain: Duration, exchange: &Exchange, stop: &Stop) -> Collected<A> {
        let started = now();
        let mut estimate_at = started + self.window;
        let mut deadline = None;
        let ended = loop {
            let taken = self.endpoint.take(&mut self.intake);
            exchange.set_delivered(self.intake.arrivals.len() as u64);
            let at = now();
            if at >= estimate_at {
                self.intake.analysis.look(at);
                estimate_at += (at - estimate_at) / self.window * self.window + self.window;
            }
            let (stopped, closed) = (stop.is_set(), exchange.closed());
            if let Some(sent) = closed {
                // What is under way at a stop is taken, so that the account closes.
                let patience = if stopped { drain.min(UNDER_WAY) } else { drain };
                let last = at + nanos(patience);
                let last = *deadline.insert(deadline.map_or(last, |deadline: Nanos| deadline.min(last)));
                let complete = self.intake.arrivals.len() as u64 >= sent;
                match (complete || at >= last, stopped) {
                    (true, true) => break Ended::Stopped,
                    (true, false) => break if complete { Ended::Complete } else { Ended::Deadline },
                    (false, _) => {}
                }
            }
            match taken {
                Taken::More => {}
                Taken::All => {
                    let until = deadline.map_or(estimate_at, |deadline| deadline.min(estimate_at));
                    let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
                    let mut fds: Vec<_> = self.endpoint.fds().map(readable).collect();
                    if !stopped {
                        fds.push(readable(stop.as_fd()));
                    }
                    // A sender that hears a stop closes it.
                    if closed.is_none() {
                        fds.push(readable(exchange.as_fd()));
                    }
                    clock::wait(&mut fds, Some(until));
                }
                Taken::Closed => break Ended::Closed,
                Taken::Failed => break Ended::Failed,
            }
        };
        self.collected(started, ended)
    }

    fn collected(mut self, started: Nanos, ended: Ended) -> Collected<A> {
        let drops = self.drops();
        self.take_the_rest(ended);
        let late_drops = self.drops().zip(drops).map_or(0, |(all, before)| all.wrapping_sub(before).into());
        let Intake { mut analysis, arrivals, foreign, peer, errors, .. } = self.intake;
        analysis.look(now());
        let report = ReceiveReport {
            foreign,
            errors: errors.into_counts(),
            started,
            finished: now(),
            ended,
            ..ReceiveReport::default()
        };
        let report = match self.endpoint {
            Endpoint::Datagrams { socket, .. } => {
                let buffer = socket.granted().receive_buffer;
                ReceiveReport {
                    socket_drops: drops.map(u64::from),
                    late_drops,
                    receive_buffer: Some(buffer.granted),
                    receive_buffer_limit: buffer.limit,
                    ..report
                }
            }
            Endpoint::Stream { frames, connection, .. } => ReceiveReport {
                connections: u64::from(connection.is_some() || peer.is_some()),
                partial_bytes: frames.bytes.len() as u64,
                ..report
            },
        };
        Collected { report, arrivals, peer, analysis }
    }
}

impl<A: Analysis> Collector<A> {
    /// Takes what has come by now, and has the kernel drop, and count, what still comes: whatever waited when the socket
    /// is closed would be in nobody's count.
    fn take_the_rest(&mut self, ended: Ended) {
        let Endpoint::Datagrams { socket, .. } = &self.endpoint else { return };
        let _ = socket.close_intake_for_good();
        while ended != Ended::Failed && matches!(self.endpoint.take(&mut self.intake), Taken::More) {}
    }

    /// Datagrams dropped at the socket so far.
    fn drops(&self) -> Option<u32> {
        let Endpoint::Datagrams { socket, .. } = &self.endpoint else { return None };
        socket.memory().ok().map(|memory| memory.drops)
    }
}

enum Taken {
    /// There may be more.
    More,
    /// There is nothing now.
    All,
    /// There never will be.
    Closed,
    Failed,
}

impl Endpoint {
    fn take(&mut self, intake: &mut Intake<impl Analysis>) -> Taken {
        let result = match self {
            Endpoint::Datagrams { socket, inbox } => intake.datagrams(socket, inbox),
            Endpoint::Stream { listener, connection, frames } => intake.stream(listener, connection, frames),
        };
        result.unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Taken::All,
            io::ErrorKind::Interrupted => Taken::More,
            _ => {
                intake.errors.count("receive", &error);
                Taken::Failed
            }
        })
    }

    fn fds(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        let (socket, listener, connection) = match self {
            Endpoint::Datagrams { socket, .. } => (Some(socket.as_fd()), None, None),
            Endpoint::Stream { listener, connection, .. } => {
                let listener = connection.is_none().then(|| listener.as_fd());
                (None, listener, connection.as_ref().map(AsFd::as_fd))
            }
        };
        socket.into_iter().chain(listener).chain(connection)
    }
}

impl<A: Analysis> Intake<A> {
    fn datagrams(&mut self, socket: &Socket, inbox: &mut Inbox) -> io::Result<Taken> {
        inbox.receive(socket)?;
        for message in inbox.messages() {
            message.segments().for_each(|datagram| self.count(datagram, message.source));
        }
        Ok(Taken::More)
    }

    fn stream(
        &mut self,
        listener: &TcpListener,
        connection: &mut Option<TcpStream>,
        frames: &mut Frames,
    ) -> io::Result<Taken> {
        let stream = match connection {
            Some(stream) => stream,
            None => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(true)?;
                self.peer = Some(peer);
                connection.insert(stream)
            }
        };
        let peer = self.peer.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let closed = frames.read(stream)?;
        frames.cut(|datagram| self.count(datagram, peer));
        Ok(if closed { Taken::Closed } else { Taken::More })
    }

    fn count(&mut self, datagram: &[u8], peer: SocketAddr) {
        self.peer = Some(peer);
        match self.analysis.take(datagram, peer, now()) {
            Some((agent, sequence)) => self.arrivals.push(Arrival { agent, sequence, analysed: now() }),
            None => self.foreign += 1,
        }
    }
}

/// Datagrams out of a stream of bytes: a length of 32 bits, then so many bytes.
struct Frames {
    /// What a read takes.
    part: Vec<u8>,
    /// What has come and is not whole.
    bytes: Vec<u8>,
}

impl Frames {
    fn new() -> Self {
        Self { part: vec![0; LONGEST], bytes: Vec::new() }
    }

    /// Reads what there is, up to a bound. `true`: the peer has closed.
    fn read(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let read = stream.read(&mut self.part)?;
        self.bytes.extend(&self.part[..read]);
        Ok(read == 0)
    }

    /// Hands out whole datagrams.
    fn cut(&mut self, mut datagram: impl FnMut(&[u8])) {
        let mut rest = &self.bytes[..];
        while let Some((length, behind)) = rest.split_first_chunk() {
            let Some((body, next)) = behind.split_at_checked(u32::from_be_bytes(*length) as usize) else { break };
            datagram(body);
            rest = next;
        }
        let cut = self.bytes.len() - rest.len();
        self.bytes.drain(..cut);
    }
}

/// How long what is under way at a stop may take.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Bytes of the longest datagram, and of a read of a stream.
const LONGEST: usize = 65_536;

/// Datagrams of a call.
const BATCH: usize = 64;

/// Receive buffer, bytes: a second or so of all agents.
const BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everything.
    struct All;

    impl Analysis for All {
        fn take(&mut self, _: &[u8], _: SocketAddr, _: Nanos) -> Option<(u32, u32)> {
            Some((0, 1))
        }

        fn look(&mut self, _: Nanos) {}
    }

    #[test]
    fn a_stop_waits_for_what_is_under_way_and_not_for_long() {
        let drain = Duration::from_secs(3600);
        let run = |sent: u64| {
            let (exchange, stop) = (Exchange::new(drain).unwrap(), Stop::new().unwrap());
            let any = "127.0.0.1:0".parse().unwrap();
            let collector = Collector::bind(All, false, drain, any, None).unwrap();
            let Endpoint::Datagrams { socket, .. } = &collector.endpoint else { panic!("not of datagrams") };
            let (to, agent) = (socket.local_addr(), std::net::UdpSocket::bind(any).unwrap());
            std::thread::scope(|scope| {
                let collected = scope.spawn(|| collector.run(drain, &exchange, &stop));
                agent.send_to(b"one", to).unwrap();
                while exchange.delivered() == 0 {
                    std::thread::yield_now();
                }
                stop.set();
                // It would have ended long ago.
                std::thread::sleep(Duration::from_millis(20));
                agent.send_to(b"two", to).unwrap();
                exchange.close(sent, now());
                collected.join().unwrap()
            })
        };
        // All arrives; one never will.
        for sent in [2, 3] {
            let collected = run(sent);
            assert_eq!((collected.arrivals.len(), collected.report.ended), (2, Ended::Stopped), "{sent}");
        }
    }

    #[test]
    fn datagrams_are_cut_wherever_reads_end() {
        let whole: Vec<u8> = [&b"\0\0\0\x03abc"[..], b"\0\0\0\0", b"\0\0\0\x01d", b"\0\0\0\x02e"].concat();
        for step in 1..whole.len() {
            let (mut frames, mut found) = (Frames::new(), Vec::new());
            for part in whole.chunks(step) {
                frames.bytes.extend(part);
                frames.cut(|datagram| found.push(datagram.to_vec()));
            }
            assert_eq!(found, [&b"abc"[..], b"", b"d"], "in parts of {step}");
            assert_eq!(frames.bytes, b"\0\0\0\x02e", "what is not whole stays");
        }
    }
}
