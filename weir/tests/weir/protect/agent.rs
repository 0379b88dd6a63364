//! An agent whose samples and counters agree, in real time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_wire::sflow::encode::{self, Counters, Flow, Header};
use weir_wire::sflow::{DataFormat, DataSource, Interface};

/// One interface that samples one packet of a thousand.
pub(super) struct Agent {
    socket: UdpSocket,
    address: IpAddr,
    sub_agent: u32,
    sequence: u32,
    samples: u32,
    polls: u32,
    /// By its own clock, ms, at the start.
    booted: u32,
    begin: Instant,
    /// Packets and octets so far.
    packets: u64,
    octets: u64,
    random: u64,
}

/// Packets that a sample stands for.
pub(super) const SAMPLING: u32 = 1_000;

/// Packets of a flood are answers of DNS, of 1,000 bytes.
pub(super) const LENGTH: u32 = 1_000;

impl Agent {
    /// That calls itself so, and sends from there.
    pub(super) fn new(address: &str, from: &str) -> Self {
        Self {
            socket: UdpSocket::bind((from, 0)).unwrap(),
            address: address.parse().unwrap(),
            sub_agent: 0,
            sequence: 0,
            samples: 0,
            polls: 0,
            booted: 5_000_000,
            begin: Instant::now(),
            packets: 1_000_000,
            octets: 1_000_000_000,
            random: 0x1234_5678_9abc_def1,
        }
    }

    /// Another one that has the same name, and has run for longer.
    pub(super) fn booted(mut self, before: u32) -> Self {
        (self.booted, self.sequence, self.samples) = (before, before / 7, before / 3);
        self
    }

    /// That is this part of a device.
    pub(super) fn part(self, sub_agent: u32) -> Self {
        Self { sub_agent, ..self }
    }

    /// Sends its counters.
    pub(super) fn tell_counters(&mut self, to: SocketAddr) {
        let datagram = self.counters(self.uptime());
        self.socket.send_to(&datagram, to).unwrap();
    }

    /// Plays so many packets a second to each of these, until it is `done`, which is asked ten times a second. `false`: it never was.
    pub(super) fn play(
        &mut self,
        to: SocketAddr,
        flows: &[(Ipv4Addr, f64)],
        patience: Duration,
        mut done: impl FnMut() -> bool,
    ) -> bool {
        let (begin, mut sent, mut polled, mut asked) = (Instant::now(), 0_u64, Instant::now(), Instant::now());
        let rate: f64 = flows.iter().map(|(_, rate)| rate).sum::<f64>() / f64::from(SAMPLING);
        while begin.elapsed() < patience {
            let due = (begin.elapsed().as_secs_f64() * rate) as u64;
            while sent < due {
                let count = (due - sent).min(7);
                let targets: Vec<Ipv4Addr> = (0..count).map(|_| self.choose(flows)).collect();
                let datagram = self.datagram(&targets, self.uptime());
                self.socket.send_to(&datagram, to).unwrap();
                sent += count;
            }
            if polled.elapsed() > Duration::from_secs(1) {
                polled = Instant::now();
                self.tell_counters(to);
            }
            if asked.elapsed() > Duration::from_millis(100) {
                if done() {
                    return true;
                }
                asked = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Sends so many samples at once.
    pub(super) fn flood(&mut self, to: SocketAddr, flows: &[(Ipv4Addr, f64)], samples: usize) {
        for _ in 0..samples.div_ceil(7) {
            let targets: Vec<Ipv4Addr> = (0..7).map(|_| self.choose(flows)).collect();
            let datagram = self.datagram(&targets, self.uptime());
            self.socket.send_to(&datagram, to).unwrap();
        }
    }

    fn uptime(&self) -> u32 {
        self.booted + self.begin.elapsed().as_millis() as u32
    }

    fn choose(&mut self, flows: &[(Ipv4Addr, f64)]) -> Ipv4Addr {
        let mut point = self.uniform() * flows.iter().map(|(_, rate)| rate).sum::<f64>();
        let found = flows.iter().find(|(_, rate)| {
            point -= rate;
            point < 0.0
        });
        found.unwrap_or(&flows[0]).0
    }

    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Its next datagram: a sample of a packet to each of these.
    pub(super) fn datagram(&mut self, targets: &[Ipv4Addr], uptime: u32) -> Vec<u8> {
        self.sequence += 1;
        let mut out = Vec::new();
        let header = Header { agent: self.address, sub_agent: self.sub_agent, sequence: self.sequence, uptime };
        let frames: Vec<Vec<u8>> = targets.iter().map(|target| self.frame(*target)).collect();
        let mut samples = encode::datagram(&mut out, &header);
        for frame in frames {
            self.samples += 1;
            self.packets += u64::from(SAMPLING);
            self.octets += u64::from(SAMPLING * LENGTH);
            let mut sample = samples.flow(&Flow {
                sequence: self.samples,
                source: DataSource { class: 0, index: 3 },
                sampling_rate: SAMPLING,
                sample_pool: SAMPLING.wrapping_mul(self.samples),
                drops: 0,
                input: Interface::Index(3),
                output: Interface::Index(4),
                expanded: false,
            });
            let words = [1, LENGTH + 4, 4, frame.len() as u32].map(u32::to_be_bytes).concat();
            let mut body = [words, frame].concat();
            body.resize(body.len().next_multiple_of(4), 0);
            sample.raw(DataFormat { enterprise: 0, format: 1 }, &body);
        }
        out
    }

    /// Its next datagram: counters of an interface of 100 Gbit/s.
    pub(super) fn counters(&mut self, uptime: u32) -> Vec<u8> {
        self.sequence += 1;
        self.polls += 1;
        let mut out = Vec::new();
        let header = Header { agent: self.address, sub_agent: self.sub_agent, sequence: self.sequence, uptime };
        let mut samples = encode::datagram(&mut out, &header);
        let source = DataSource { class: 0, index: 3 };
        let mut records = samples.counters(&Counters { sequence: self.polls, source, expanded: false });
        let mut body = [3_u32, 6].map(u32::to_be_bytes).concat();
        body.extend(100_000_000_000_u64.to_be_bytes());
        body.extend([1_u32, 3].map(u32::to_be_bytes).concat());
        body.extend(self.octets.to_be_bytes());
        body.extend([self.packets as u32, 0, 0, 0, 0, 0].map(u32::to_be_bytes).concat());
        body.extend(1_000_u64.to_be_bytes());
        body.extend([10_u32, 0, 0, 0, 0, 0].map(u32::to_be_bytes).concat());
        records.raw(DataFormat { enterprise: 0, format: 1 }, &body);
        out
    }

    /// The first bytes of an answer of DNS from anybody.
    pub(super) fn frame(&mut self, target: Ipv4Addr) -> Vec<u8> {
        let source = Ipv4Addr::from(0xcb00_7100 + (self.uniform() * 200.0) as u32);
        let ip = LENGTH as u16 - 14;
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0]);
        frame.extend(ip.to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, 17, 0, 0]);
        frame.extend(source.octets());
        frame.extend(target.octets());
        frame.extend(53_u16.to_be_bytes());
        frame.extend((1_024 + (self.uniform() * 60_000.0) as u16).to_be_bytes());
        frame.extend((ip - 20).to_be_bytes());
        frame.extend([0; 2]);
        frame.resize(100, 0xaa);
        frame
    }
}
