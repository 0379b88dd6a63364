//! Bulk transfers by TCP connections of the kernel: a thread for each end of a connection, as iperf3 has them.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use nix::libc::MSG_TRUNC;
use nix::poll::{PollFd, PollFlags};
use socket2::{SockRef, Socket};
use weir_kernel::tcp::TcpInfo;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;

use super::{Batches, BulkReport, BulkSettings, Looks, Received, Sample};
use crate::error::merged;
use crate::receiver::listen;
use crate::sender::channel::{Channel, Outcome};
use crate::{ErrorLog, Exchange, SenderSettings, TcpSettings, TrafficError, Transport, congestion};

/// Sockets that are ready to connect.
#[derive(Debug)]
pub(super) struct Sender {
    settings: BulkSettings,
    streams: Vec<Stream>,
    engine: String,
}

#[derive(Debug)]
struct Stream {
    channel: Channel,
    /// Another descriptor of its socket, to look at the connection while it sends.
    socket: TcpStream,
}

/// A socket that listens.
#[derive(Debug)]
pub(super) struct Receiver {
    listener: Socket,
    address: SocketAddr,
}

impl Sender {
    /// Makes all sockets in the calling thread's network namespace.
    pub(super) fn open(settings: &BulkSettings) -> Result<Self, TrafficError> {
        let failed = |source| TrafficError::Socket { transport: Transport::Tcp, address: settings.to, source };
        let one = SenderSettings {
            transport: Transport::Tcp,
            tcp: TcpSettings { congestion: settings.congestion.clone(), nodelay: settings.nodelay },
            ..SenderSettings::new(settings.to)
        };
        let (mut streams, mut control) = (Vec::new(), String::new());
        for _ in 0..settings.streams {
            let channel = Channel::open(&one)?;
            let socket = channel.stream().map_err(failed)?;
            SockRef::from(&socket).set_linger(Some(Duration::ZERO)).map_err(failed)?;
            control = congestion::of(&SockRef::from(&socket)).map_err(failed)?;
            streams.push(Stream { channel, socket });
        }
        let engine = format!("weir {}: tcp, {control}", env!("CARGO_PKG_VERSION"));
        Ok(Self { settings: settings.clone(), streams, engine })
    }

    /// Connects from the time `begin` on and sends until the window is over. The sockets stay with the report.
    pub(super) fn send(self, exchange: &Exchange, begin: Nanos, stop: &Stop) -> (BulkReport, Vec<TcpStream>) {
        let Self { settings, streams, engine } = self;
        let mut report = BulkReport { engine, streams: settings.streams, ..BulkReport::default() };
        while now() < begin && !stop.is_set() {
            clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(begin));
        }
        let (mut streams, mut errors) = connect(streams, &settings, &mut report, stop);
        if report.connected > 0 && !stop.is_set() {
            let looks = Looks::open(&settings, exchange, &mut report);
            transfer(&mut streams, &settings, looks, &mut report, stop);
        }
        exchange.close(0, now());
        errors.extend(streams.iter_mut().flat_map(|stream| stream.channel.take_errors()));
        report.errors = merged(errors);
        (report, streams.into_iter().map(|stream| stream.socket).collect())
    }
}

/// Makes the connections, all at once. Sockets that gave up are closed: they must not go on trying beside the others.
fn connect(
    streams: Vec<Stream>,
    settings: &BulkSettings,
    report: &mut BulkReport,
    stop: &Stop,
) -> (Vec<Stream>, Vec<crate::ErrorCount>) {
    let begin = now();
    let deadline = begin.saturating_add(nanos(settings.connect_timeout));
    let connecting = |mut stream: Stream| {
        let connected = stream.channel.connect(settings.to, deadline, stop).then(now);
        (stream, connected)
    };
    let tried: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = streams.into_iter().map(|stream| scope.spawn(move || connecting(stream))).collect();
        threads.into_iter().map(joined).collect()
    });
    let (mut connected, mut errors) = (Vec::new(), Vec::new());
    for (mut stream, at) in tried {
        match at {
            Some(at) => {
                report.connected += 1;
                report.connect = report.connect.max(Some(Duration::from_nanos(at - begin)));
                connected.push(stream);
            }
            // A stop is not an error.
            None if stop.is_set() => {}
            None => errors.extend(stream.channel.take_errors()),
        }
    }
    (connected, errors)
}

/// Sends through warm-up and window.
fn transfer(streams: &mut [Stream], settings: &BulkSettings, mut looks: Looks, report: &mut BulkReport, stop: &Stop) {
    let (end, sent) = (looks.window.end, AtomicU64::new(0));
    let block = vec![0; settings.block_bytes.max(1)];
    let sockets: Vec<Option<TcpStream>> = streams.iter().map(|stream| stream.socket.try_clone().ok()).collect();
    let look = |looks: &mut Looks| {
        let infos =
            (0..).zip(&sockets).filter_map(|(stream, socket)| Some((stream, TcpInfo::of(socket.as_ref()?).ok()?)));
        looks.note(infos.map(|(stream, info)| sample(&info, stream)));
    };
    let write = |stream: &mut Stream| {
        while now() < end && !stop.is_set() {
            match stream.channel.send(&block, end, stop) {
                Outcome::Sent => sent.fetch_add(block.len() as u64, Ordering::Relaxed),
                Outcome::Late { handed_over } => sent.fetch_add(handed_over, Ordering::Relaxed),
                Outcome::Refused | Outcome::Broken => return,
            };
        }
    };
    thread::scope(|scope| {
        let writers: Vec<_> = streams.iter_mut().map(|stream| scope.spawn(|| write(stream))).collect();
        while !stop.is_set() && now() < end && writers.iter().any(|writer| !writer.is_finished()) {
            look(&mut looks);
            clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(looks.next()));
        }
    });
    report.used = looks.used();
    look(&mut looks);
    report.samples = looks.samples;
    report.sent_bytes = sent.into_inner();
    report.at_end = streams.iter().filter_map(|stream| TcpInfo::of(&stream.socket).ok()).collect();
    report.retransmits = Some(report.at_end.iter().map(|info| u64::from(info.retransmits)).sum());
}

fn sample(info: &TcpInfo, stream: u32) -> Sample {
    Sample {
        at: Duration::ZERO,
        stream,
        congestion_window: info.congestion_window_bytes(),
        rtt: Duration::from_micros(info.rtt_us.into()),
        retransmits: info.retransmits.into(),
        delivery_rate: Some(info.delivery_rate.saturating_mul(8)),
        in_flight: Some(info.in_flight_bytes()),
    }
}

impl Receiver {
    /// Listens in the calling thread's network namespace.
    pub(super) fn bind(settings: &BulkSettings) -> Result<Self, TrafficError> {
        let (listener, address, _) = listen(settings.to, None)?;
        Ok(Self { listener: listener.into(), address })
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts, and discards what comes, until the window is over, the sender has ended, or the stop is set.
    pub(super) fn receive(self, batches: Batches, exchange: &Exchange, stop: &Stop) -> Received<Vec<Socket>> {
        let (batches, mut errors) = (Mutex::new(batches), ErrorLog::default());
        let is_over = || {
            let end = exchange.window().map(|window| window.end);
            stop.is_set() || exchange.ending().is_some() || end.is_some_and(|end| now() >= end)
        };
        let read = |socket: Socket| {
            let result = discard(&socket, &is_over, |bytes| {
                if let Some(window) = exchange.window() {
                    let mut batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
                    batches.count(window, now(), bytes);
                }
            });
            (socket, result.err())
        };
        let sockets = thread::scope(|scope| {
            let mut readers = Vec::new();
            while !is_over() {
                let readable = PollFlags::POLLIN;
                let mut fds =
                    [self.listener.as_fd(), stop.as_fd(), exchange.as_fd()].map(|fd| PollFd::new(fd, readable));
                clock::wait(&mut fds, exchange.window().map(|window| window.end));
                match self.listener.accept() {
                    Ok((socket, _)) => readers.push(scope.spawn(|| read(socket))),
                    Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                    Err(error) => errors.count("accept", &error),
                }
            }
            let read = readers.into_iter().map(joined).map(|(socket, error)| {
                error.iter().for_each(|error| errors.count("receive", error));
                socket
            });
            read.collect()
        });
        let batches = batches.into_inner().unwrap_or_else(PoisonError::into_inner);
        Received { batches, errors: errors.into_counts(), kept: sockets }
    }
}

/// Takes what a connection brings until it is over. With MSG_TRUNC the kernel drops the bytes instead of copying them
/// (tcp(7)): nobody looks at them.
fn discard(socket: &Socket, is_over: &impl Fn() -> bool, count: impl Fn(u64)) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_read_timeout(Some(LOOK))?;
    // Nothing is ever written to it, so that it takes no memory either.
    let mut nowhere = Vec::<u8>::with_capacity(GULP);
    let nowhere: &mut [MaybeUninit<u8>] = nowhere.spare_capacity_mut();
    while !is_over() {
        match socket.recv_with_flags(nowhere, MSG_TRUNC) {
            Ok(0) => return Ok(()),
            Ok(bytes) => count(bytes as u64),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Bytes taken at once, at most.
const GULP: usize = 1 << 20;

/// How often a thread without bytes looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);
