//! Signals at a full rate: datagrams as long as they may be, made as cheaply as possible, handed to the kernel in runs.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use weir_dgram::{Address, Options, Outgoing, Socket};
use weir_wire::signal::{
    Channel, Clock, Element, Flags, Form, Header, Kind, MOST_BYTES_V4, Metadata, Packer, Position, Rate, encode,
};

/// A sender of some channels to a group, in the network that it was opened in.
pub(crate) struct Feed {
    socket: Socket,
    to: Address,
    header: Header,
    metadata: Metadata,
    rate: Rate,
    origin: i64,
    scratch: Vec<u8>,
    packers: Vec<Packer>,
    /// Samples of four bytes of a datagram.
    wave: Vec<u8>,
    /// Datagrams that the kernel took.
    sent: u64,
}

impl Feed {
    /// `bytes_per_s`: of samples.
    pub(crate) fn open(to: SocketAddr, bytes_per_s: f64) -> Result<Self> {
        let options = Options {
            multicast_interface: Some("eth0".into()),
            send_buffer: Some(4 << 20),
            gso: true,
            ..Options::default()
        };
        let socket = Socket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0).into(), &options)?;
        let rate = Rate::hertz((bytes_per_s / 4.0 / f64::from(CHANNELS)) as u32);
        let channel = |id| Channel { id, name: format!("coil{id}"), rate, ..Channel::default() };
        let metadata = Metadata {
            station: "bench".into(),
            stream: "full".into(),
            channels: (0..CHANNELS).map(channel).collect(),
            ..Metadata::default()
        };
        let origin = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64;
        let header = Header {
            kind: Kind::Data,
            flags: Flags::default(),
            clock: Clock::default(),
            count: 0,
            session: fastrand::u64(..),
            sequence: 0,
        };
        let packers = vec![Packer::new(MOST_BYTES_V4); RUN];
        let each = packers[0].room(Element::F32, Form::Samples);
        let wave = (0..each).flat_map(|at| (at as f32 * 0.017).sin().to_le_bytes()).collect();
        Ok(Self { socket, to: to.into(), header, metadata, rate, origin, scratch: Vec::new(), packers, wave, sent: 0 })
    }

    /// Samples that the kernel took.
    pub(crate) fn samples(&self) -> u64 {
        self.sent * self.each()
    }

    /// Says what comes, and from which index on.
    pub(crate) fn tell(&mut self) {
        let Self { socket, to, header, metadata, scratch, .. } = self;
        let header = Header { kind: Kind::Metadata, ..*header };
        encode::metadata(header, metadata, MOST_BYTES_V4, scratch, |bytes| say(socket, to, bytes));
        self.tell_positions(Kind::Heartbeat);
    }

    /// Says that it ends here.
    pub(crate) fn end(&mut self) {
        for _ in 0..3 {
            self.tell_positions(Kind::End);
        }
    }

    /// Sends evenly until so many bytes of samples are with the kernel.
    ///
    /// # Errors
    /// The kernel takes none for a second.
    pub(crate) fn send(&mut self, bytes: u64) -> Result<()> {
        let datagram = self.wave.len() as f64;
        let per_s = self.rate.per_s() * 4.0 * f64::from(CHANNELS) / datagram;
        let end = self.sent + bytes / self.wave.len() as u64;
        let (begun, first) = (Instant::now(), self.sent);
        let (mut taken, mut told) = (begun, begun);
        while self.sent < end {
            let due = first + (begun.elapsed().as_secs_f64() * per_s) as u64;
            if due.min(end) < self.sent + RUN as u64 && due < end {
                thread::sleep(SHORT);
                continue;
            }
            let before = self.sent;
            self.send_run();
            let now = Instant::now();
            if self.sent > before {
                taken = now;
            } else {
                thread::yield_now();
            }
            ensure!(now - taken < Duration::from_secs(1), "the kernel takes nothing");
            if now - told > Duration::from_millis(500) {
                told = now;
                self.tell();
            }
        }
        Ok(())
    }

    /// A message of as many datagrams as the kernel cuts at once.
    fn send_run(&mut self) {
        let (each, rate, origin, sent) = (self.each(), self.rate, self.origin, self.sent);
        let Self { packers, wave, header, .. } = self;
        let pieces: Vec<IoSlice<'_>> = packers
            .iter_mut()
            .zip(sent..)
            .map(|(packer, number)| {
                packer.clear();
                let channels = u64::from(CHANNELS);
                let (channel, first) = ((number % channels) as u16, number / channels * each);
                let position = (channel, first, origin + rate.nanos(first) as i64);
                let bytes = packer.block(position, rate, (Element::F32, Form::Samples), each as u16);
                bytes.extend_from_slice(wave);
                IoSlice::new(packer.finish(Header { sequence: number, ..*header }))
            })
            .collect();
        let segment = pieces.first().and_then(|piece| u16::try_from(piece.len()).ok()?.try_into().ok());
        let progress = self.socket.send(&[Outgoing { pieces: &pieces, segment, to: Some(&self.to) }]);
        self.sent += if progress.messages > 0 { RUN as u64 } else { progress.segments as u64 };
        self.header.sequence = self.sent;
    }

    fn tell_positions(&mut self, kind: Kind) {
        let (channels, each) = (u64::from(CHANNELS), self.each());
        let next = |channel: u16| (self.sent + channels - 1 - u64::from(channel)) / channels * each;
        let positions: Vec<_> = (0..CHANNELS).map(|channel| Position { channel, next: next(channel) }).collect();
        let Self { socket, to, header, scratch, .. } = self;
        let header = Header { kind, ..*header };
        encode::positions(header, &positions, MOST_BYTES_V4, scratch, |bytes| say(socket, to, bytes));
    }

    fn each(&self) -> u64 {
        self.wave.len() as u64 / 4
    }
}

/// What is not taken is said again.
fn say(socket: &Socket, to: &Address, bytes: &[u8]) {
    socket.send(&[Outgoing { pieces: &[IoSlice::new(bytes)], segment: None, to: Some(to) }]);
}

const CHANNELS: u16 = 16;

/// Datagrams of a message: as many of the longest as one has room for.
const RUN: usize = 44;

const SHORT: Duration = Duration::from_micros(50);
