//! Frames as switches see them: who talks to whom, by which protocols, and the first bytes of it.

/// Conversations that pass an agent, of which few are heard of most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversations {
    /// The number of the first, and how many there are.
    first: u32,
    count: u32,
    /// How many pass any agent: numbers go on from 0 behind the last.
    all: u32,
}

/// The first bytes of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The number of its conversation.
    pub(crate) conversation: u32,
    pub(crate) bytes: [u8; HEADER_SIZE],
    /// How many of them there are.
    pub(crate) length: usize,
    /// Bytes of the whole frame, its check sequence included.
    pub(crate) frame_length: u32,
    /// Where the last two bytes of the source's IPv4 address stand; `None`: it has none.
    pub(crate) host: Option<usize>,
}

impl Conversations {
    /// Those of an agent: each passes three of them.
    pub(crate) fn of(agent: u32, agents: u32, all: u32) -> Conversations {
        let first = (u64::from(agent) * u64::from(all) / u64::from(agents)) as u32;
        let count = (u64::from(all) * 3 / u64::from(agents)).clamp(1, all.into()) as u32;
        Conversations { first, count, all }
    }

    /// A frame of one of them: the chance of each falls with its number (Zipf's law).
    pub(crate) fn frame(self, random: &mut fastrand::Rng) -> Frame {
        let rank = (f64::from(self.count + 1).powf(random.f64()) as u32 - 1).min(self.count - 1);
        let number = (self.first + rank) % self.all;
        // What it is follows from its number.
        let mut of = fastrand::Rng::with_seed(u64::from(number) << 8 | 0xf1);
        let kind = of.u32(0..100);
        let small = random.u32(0..100) < 40;
        let frame_length = if small { 68 + random.u32(0..60) } else { 600 + random.u32(0..919) };
        let mut frame = Writer { bytes: [0; 256], length: 0, host: None };
        let tag = (of.u32(0..100) < 30).then(|| of.u16(1..200));
        let (client, server) = (0x0a00_0000 | of.u32(0..1 << 22), 0xc612_0000 | of.u32(0..1 << 14));
        let (port, answers) = (of.u16(32_768..60_999), random.bool());
        let ends = if answers { (server, client) } else { (client, server) };
        let ports = |service: u16| if answers { (service, port) } else { (port, service) };
        let web = [443, 443, 443, 80, 22, 5432, 9000, 8443][of.usize(0..8)];
        let voice = [443, 5004, 123, 4500, 3478, 6343, 514, 1812][of.usize(0..8)];
        let ip = frame_length as u16 - 18;
        match kind {
            0..55 => {
                frame.ethernet(number, tag, 0x0800);
                frame.ipv4(ip, 6, ends);
                frame.tcp(ports(web), random.u32(0..100));
            }
            55..75 => {
                frame.ethernet(number, tag, 0x0800);
                frame.ipv4(ip, 17, ends);
                frame.udp(ports(voice), ip - 20);
            }
            75..81 => {
                frame.ethernet(number, tag, 0x0800);
                frame.ipv4(ip, 17, ends);
                frame.udp(ports(53), ip - 20);
            }
            81..93 => {
                frame.ethernet(number, tag, 0x86dd);
                frame.ipv6(ip, 6, ends);
                frame.tcp(ports(web), random.u32(0..100));
            }
            93..97 => {
                frame.ethernet(number, tag, 0x0800);
                frame.ipv4(ip, 17, (0xc0a8_0000 | client & 0xff, 0xc0a8_0000 | server & 0xff));
                frame.udp((port, 4789), ip - 20);
                frame.put(&[8, 0, 0, 0, 0, 0, (number % 50) as u8, 0]);
                frame.ethernet(number, None, 0x0800);
                frame.ipv4(ip.saturating_sub(50), 6, ends);
                frame.tcp(ports(web), 50);
            }
            97..99 => {
                frame.ethernet(number, tag, 0x0800);
                frame.ipv4(ip, 1, ends);
                frame.put(&[8, 0, 0, 0, 0, 1, 0, 1]);
            }
            _ => {
                frame.ethernet(number, tag, 0x0806);
                frame.put(&[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
                frame.put(&client.to_be_bytes());
                frame.put(&[0; 6]);
                frame.put(&server.to_be_bytes());
            }
        }
        frame.finish(number, frame_length)
    }
}

struct Writer {
    bytes: [u8; 256],
    length: usize,
    host: Option<usize>,
}

impl Writer {
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.length..][..part.len()].copy_from_slice(part);
        self.length += part.len();
    }

    fn ethernet(&mut self, number: u32, tag: Option<u16>, ethertype: u16) {
        let [_, a, b, c] = (number % 4096).to_be_bytes();
        self.put(&[0x02, 0, 0, a, b, c, 0x02, 1, 0, a, c, b]);
        if let Some(tag) = tag {
            self.put(&[0x81, 0]);
            self.put(&tag.to_be_bytes());
        }
        self.put(&ethertype.to_be_bytes());
    }

    fn ipv4(&mut self, length: u16, protocol: u8, (from, to): (u32, u32)) {
        self.put(&[0x45, if from & 7 == 0 { 0xb8 } else { 0 }]);
        self.put(&length.to_be_bytes());
        self.put(&[0, 0, 0x40, 0, 61, protocol, 0, 0]);
        // Of a tunnel the outer one.
        self.host = self.host.or(Some(self.length + 2));
        self.put(&from.to_be_bytes());
        self.put(&to.to_be_bytes());
    }

    fn ipv6(&mut self, length: u16, protocol: u8, (from, to): (u32, u32)) {
        self.put(&[0x60, 0, 0, 0]);
        self.put(&length.saturating_sub(40).to_be_bytes());
        self.put(&[protocol, 61]);
        for address in [from, to] {
            self.put(&[0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0]);
            self.put(&address.to_be_bytes());
        }
    }

    fn tcp(&mut self, (from, to): (u16, u16), percent: u32) {
        self.put(&from.to_be_bytes());
        self.put(&to.to_be_bytes());
        // One in twenty begins a connection.
        self.put(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, if percent < 5 { 0x02 } else { 0x10 }, 0xff, 0xff, 0, 0, 0, 0]);
    }

    fn udp(&mut self, (from, to): (u16, u16), length: u16) {
        self.put(&from.to_be_bytes());
        self.put(&to.to_be_bytes());
        self.put(&length.to_be_bytes());
        self.put(&[0, 0]);
    }

    /// As an agent samples it: at most 128 bytes, without the check sequence.
    fn finish(self, conversation: u32, frame_length: u32) -> Frame {
        let length = HEADER_SIZE.min(frame_length as usize - 4);
        let mut bytes = [0; HEADER_SIZE];
        bytes.copy_from_slice(&self.bytes[..HEADER_SIZE]);
        let host = self.host.filter(|at| at + 2 <= length);
        Frame { conversation, bytes, length, frame_length, host }
    }
}

/// Bytes of a frame that agents send, at most (`header_size`, as most have it).
pub(crate) const HEADER_SIZE: usize = 128;
