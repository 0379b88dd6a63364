//! The sending end: a thread per connection, as in iperf3.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use quinn_proto::PathStats;
use socket2::SockRef;
use weir_kernel::tcp::TcpInfo;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;

use super::{BulkReport, BulkSettings, Sample, joined};
use crate::sender::channel::{Channel, Outcome};
use crate::{ErrorLog, Exchange, SenderSettings, TrafficError, Transport, Window, congestion, quic};

/// The sending end, before it runs.
#[derive(Debug)]
pub struct Sender {
    settings: BulkSettings,
    channels: Vec<Channel>,
    engine: String,
}

/// A reading of a connection while another thread sends.
enum Look {
    Tcp(TcpStream),
    Quic(Arc<Mutex<PathStats>>),
}

impl Sender {
    /// Creates the sockets in the calling thread's network namespace. They connect later, in [`run`](super::run).
    ///
    /// # Errors
    /// The settings are invalid, there is no such congestion control (the error names the choices), or no socket.
    pub fn open(settings: &BulkSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        let BulkSettings { transport, to, .. } = *settings;
        let mut name = format!("quic by quinn, {}", settings.congestion.as_deref().unwrap_or(quic::CONGESTION[0]));
        let one = SenderSettings {
            transport,
            congestion: settings.congestion.clone(),
            nodelay: settings.nodelay,
            // As much as flow control allows in flight: the buffer must not limit the path either.
            send_buffer: (transport == Transport::Quic).then_some(quic::RECEIVE_WINDOW as usize),
            ..SenderSettings::new(to)
        };
        let channels = (0..settings.streams).map(|_| Channel::open(&one)).collect::<Result<Vec<_>, _>>()?;
        for socket in channels.iter().filter_map(|channel| channel.stream().ok()) {
            let failed = |source| TrafficError::Socket { transport, address: to, source };
            let socket = SockRef::from(&socket);
            socket.set_linger(Some(Duration::ZERO)).map_err(failed)?;
            name = format!("tcp, {}", congestion::of(&socket).map_err(failed)?);
        }
        let engine = format!("weir {}: {name}", env!("CARGO_PKG_VERSION"));
        Ok(Self { settings: settings.clone(), channels, engine })
    }

    /// Connects from the time `begin` on and sends until the window is over. The connections stay with the report.
    pub(super) fn send(self, exchange: &Exchange, begin: Nanos, stop: &Stop) -> (BulkReport, Vec<Channel>) {
        let Self { settings, channels, engine } = self;
        let mut report = BulkReport { engine, streams: settings.streams, ..BulkReport::default() };
        while now() < begin && !stop.is_set() {
            clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(begin));
        }
        let (mut channels, mut errors) = connect(channels, &settings, &mut report, stop);
        if report.connected > 0 && !stop.is_set() {
            transfer(&mut channels, &settings, exchange, &mut report, stop);
        }
        exchange.close(0, now());
        errors.extend(channels.iter_mut().flat_map(Channel::take_errors));
        report.errors = errors.into_counts();
        (report, channels)
    }
}

/// Connects all at once. Sockets that gave up are closed: they must not keep trying during the transfer.
fn connect(
    channels: Vec<Channel>,
    settings: &BulkSettings,
    report: &mut BulkReport,
    stop: &Stop,
) -> (Vec<Channel>, ErrorLog) {
    let begin = now();
    let deadline = begin.saturating_add(nanos(settings.connect_timeout));
    let connecting = |mut channel: Channel| {
        let connected = channel.connect(settings.to, deadline, stop).then(now);
        (channel, connected)
    };
    let tried: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = channels.into_iter().map(|channel| scope.spawn(move || connecting(channel))).collect();
        threads.into_iter().map(joined).collect()
    });
    let (mut connected, mut errors) = (Vec::new(), ErrorLog::default());
    for (mut channel, at) in tried {
        match at {
            Some(at) => {
                report.connected += 1;
                report.connect = report.connect.max(Some(Duration::from_nanos(at - begin)));
                connected.push(channel);
            }
            // A stop is not an error.
            None if stop.is_set() => {}
            None => errors.extend(channel.take_errors()),
        }
    }
    (connected, errors)
}

/// Sends through warm-up and window.
fn transfer(
    channels: &mut [Channel],
    settings: &BulkSettings,
    exchange: &Exchange,
    report: &mut BulkReport,
    stop: &Stop,
) {
    let (block, sent) = (vec![0; settings.block_bytes.max(1)], AtomicU64::new(0));
    let looks: Vec<Option<Look>> = channels.iter().map(Look::at).collect();
    let origin = now();
    let start = origin.saturating_add(nanos(settings.warmup));
    let window = Window { start, end: start.saturating_add(nanos(settings.duration)) };
    exchange.open(window);
    report.window = Some(window);
    let mut look = || {
        let at = Duration::from_nanos(now() - origin);
        let samples = (0..).zip(&looks).filter_map(|(stream, look)| look.as_ref()?.sample(stream, at));
        report.samples.extend(samples);
    };
    let write = |channel: &mut Channel| {
        clock::precise_timers();
        while now() < window.end && !stop.is_set() {
            match channel.send(&block, window.end, stop) {
                Outcome::Sent => sent.fetch_add(block.len() as u64, Ordering::Relaxed),
                Outcome::Late { handed_over } => sent.fetch_add(handed_over, Ordering::Relaxed),
                Outcome::Refused | Outcome::Broken => return,
            };
        }
    };
    let period = nanos(settings.batch).max(SHORTEST_PERIOD);
    thread::scope(|scope| {
        let writers: Vec<_> = channels.iter_mut().map(|channel| scope.spawn(|| write(channel))).collect();
        while !stop.is_set() && now() < window.end && writers.iter().any(|writer| !writer.is_finished()) {
            look();
            let next = origin + ((now() - origin) / period + 1) * period;
            clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(next.min(window.end)));
        }
    });
    look();
    report.used = Duration::from_nanos(now().min(window.end).saturating_sub(window.start));
    report.sent_bytes = sent.into_inner();
    report.at_end = looks.iter().flatten().filter_map(Look::tcp_info).collect();
    report.retransmits = Some(looks.iter().flatten().map(Look::retransmits).sum());
}

impl Look {
    fn at(channel: &Channel) -> Option<Self> {
        channel.stream().ok().map(Self::Tcp).or_else(|| channel.path().map(Self::Quic))
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        if let Self::Tcp(socket) = self { TcpInfo::of(socket).ok() } else { None }
    }

    /// Retransmitted segments, or packets declared lost.
    fn retransmits(&self) -> u64 {
        match self {
            Self::Tcp(_) => self.tcp_info().map_or(0, |info| info.retransmits.into()),
            Self::Quic(path) => seen(path).lost_packets,
        }
    }

    fn sample(&self, stream: u32, at: Duration) -> Option<Sample> {
        Some(match self {
            Self::Tcp(socket) => {
                let info = TcpInfo::of(socket).ok()?;
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
            Self::Quic(path) => {
                let path = seen(path);
                let (congestion_window, rtt, retransmits) = (path.cwnd, path.rtt, path.lost_packets);
                Sample { at, stream, congestion_window, rtt, retransmits, ..Sample::default() }
            }
        })
    }
}

fn seen(path: &Mutex<PathStats>) -> PathStats {
    *path.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Min time between two readings, ns: a reading takes some microseconds per connection.
const SHORTEST_PERIOD: Nanos = 1_000_000;
