//! An agent whose rates are known by arithmetic.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use weir_wire::sflow::encode::{self, Counters, Discarded, Flow, Header, Put};
use weir_wire::sflow::{DataSource, Interface, Kind, Meaning, Space, Structure};

/// Octets and frames a second of its one interface, `swp7`.
pub(crate) const IN_OCTETS: u64 = 2_000_000;
/// As above.
pub(crate) const OUT_OCTETS: u64 = 125_000;
/// As above, each way.
pub(crate) const FRAMES: u64 = 2_000;
/// Octets of each frame.
pub(crate) const LENGTH: u64 = 1_000;
/// Of the interface, bit/s.
pub(crate) const SPEED: u64 = 1_000_000_000;
/// Of that many frames one is sampled.
pub(crate) const RATE: u64 = 100;
/// Frames a second that it drops, each told.
pub(crate) const DROPPED: u64 = 20;
/// By how much each counter of the host's grows in a second.
pub(crate) const HOST_GROWTH: u64 = 400;
/// What each value of the host shows that does not grow; where it is a total, 16 of it.
pub(crate) const HOST_LEVEL: u64 = 4;

/// Sends samples and counters to a collector until `silent`, as many as are due by the time that it tells. Its address is 10.1.2.3,
/// its host's name `leaf7`.
pub(crate) fn speak(socket: &UdpSocket, collector: SocketAddr, silent: impl Fn() -> bool) {
    let (begin, mut due) = (Instant::now(), Due::default());
    while !silent() {
        let uptime = UPTIME + begin.elapsed().as_millis() as u64;
        socket.send_to(&due.datagram(uptime), collector).unwrap();
        thread::sleep(Duration::from_millis(100));
    }
}

/// How far it has come.
#[derive(Default)]
struct Due {
    sequence: u32,
    polls: u32,
    samples: u64,
    dropped: u64,
}

impl Due {
    fn datagram(&mut self, uptime: u64) -> Vec<u8> {
        self.sequence += 1;
        let mut bytes = Vec::new();
        let header =
            Header { agent: [10, 1, 2, 3].into(), sub_agent: 0, sequence: self.sequence, uptime: uptime as u32 };
        let mut datagram = encode::datagram(&mut bytes, &header);
        let (total, since) = (|rate: u64| rate * uptime / 1000, |rate: u64| rate * (uptime - UPTIME) / 1000);
        let sampled = Structure::named(Space::Flow, "sampled_header").unwrap();
        let header_of = [Put::U32(1), Put::U32(LENGTH as u32), Put::U32(4), Put::Opaque(&frame())];
        for number in self.samples + 1..=(since(FRAMES) / RATE).min(self.samples + 8) {
            let mut records = datagram.flow(&Flow {
                sequence: number as u32,
                source: PORT,
                sampling_rate: RATE as u32,
                sample_pool: (number * RATE) as u32,
                drops: 0,
                input: Interface::Index(7),
                output: Interface::Index(8),
                expanded: false,
            });
            records.put(sampled, &header_of).unwrap();
            self.samples = number;
        }
        for number in self.dropped + 1..=since(DROPPED).min(self.dropped + 8) {
            let (source, input, output) = (PORT, Interface::Index(7), Interface::Unknown);
            let sample = Discarded { sequence: number as u32, source, drops: 0, input, output, reason: ACL };
            datagram.discarded(&sample).put(sampled, &header_of).unwrap();
            self.dropped = number;
        }
        if self.sequence % 5 == 1 {
            self.polls += 1;
            let structure = |name| Structure::named(Space::Counter, name).unwrap();
            let mut records = datagram.counters(&Counters { sequence: self.polls, source: PORT, expanded: false });
            let (none, frames) = (Put::U32(0), Put::U32(total(FRAMES) as u32));
            let identity = [Put::U32(7), Put::U32(6), Put::U64(SPEED), Put::U32(1), Put::U32(3)];
            let received = [Put::U64(total(IN_OCTETS)), frames, none, none, none, none, none];
            let sent = [Put::U64(total(OUT_OCTETS)), frames, none, none, none, none, none];
            records.put(structure("if_counters"), &[&identity[..], &received, &sent].concat()).unwrap();
            records.put(structure("port_name"), &[Put::Text(b"swp7")]).unwrap();
            let mut records = datagram.counters(&Counters { sequence: self.polls, source: HOST, expanded: false });
            for name in ["host_descr", "host_cpu", "host_memory", "host_disk_io", "host_net_io"] {
                let values: Vec<_> = structure(name)
                    .fields
                    .iter()
                    .map(|field| {
                        let number = match field.meaning {
                            Meaning::Counter => total(HOST_GROWTH),
                            _ if field.name.ends_with("_total") => 16 * HOST_LEVEL,
                            _ => HOST_LEVEL,
                        };
                        match field.kind {
                            Kind::U32 => Put::U32(number as u32),
                            Kind::I32 => Put::I32(number as i32),
                            Kind::U64 => Put::U64(number),
                            Kind::F32 => Put::F32(number as f32),
                            Kind::Uuid => Put::Uuid([7; 16]),
                            Kind::Text(_) => Put::Text(b"leaf7"),
                            ref kind => panic!("{kind:?}"),
                        }
                    })
                    .collect();
                records.put(structure(name), &values).unwrap();
            }
        }
        bytes
    }
}

/// The beginning of a UDP packet from 10.9.0.1 to 10.9.0.2.
fn frame() -> Vec<u8> {
    let ethernet = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &[8, 0]].concat();
    let length = (LENGTH - 4 - 14) as u16;
    let [high, low] = length.to_be_bytes();
    let ip = [0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    let udp = [0x13, 0x88, 0, 53, high, low - 20, 0, 0];
    [&ethernet[..], &ip, &udp].concat()
}

/// How long it has been up at the start, ms.
const UPTIME: u64 = 60_000;

const PORT: DataSource = DataSource { class: 0, index: 7 };

/// A physical entity, as agents of hosts say.
const HOST: DataSource = DataSource { class: 2, index: 1 };

/// `acl` of sFlow's reasons.
const ACL: u32 = 258;
