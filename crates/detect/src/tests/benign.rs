//! A day of what is no attack: nothing is found.

use super::*;

/// Poisson bursts of Pareto length (ns-3's form; shape 1.6 makes them self-similar with H 0.7) make a busy site of 200 hosts. On top of
/// it: speed tests, backups, flash crowds, port scans, restarts of a resolver, each at any time of the day. Thresholds are what docs advise
/// where nothing is known: some times the busiest host's mean.
#[test]
fn a_day_of_busy_traffic_has_no_flood() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(thresholds()));
    let mut load = Load::new(&mut random);
    let mut samples = 0u64;
    for second in 0..86_400u64 {
        let rates = load.second(&mut random, second);
        let mut times = Vec::new();
        for (number, rate) in rates.iter().enumerate() {
            let count = random.poisson(rate.packets / SAMPLING) as u64;
            times.extend((0..count).map(|_| (random.number(0..SECOND), number)));
        }
        times.sort_unstable();
        samples += times.len() as u64;
        for (time, number) in times {
            let packet = (rates[number].make)(&mut random);
            show(&mut detector, second * SECOND + time, "10.0.0.1", SAMPLING, packet);
        }
        detector.tick((second + 1) * SECOND, second as usize / 3600);
    }
    let findings = detector.take_findings();
    println!("{samples} samples of {} hosts in a day, {} findings", HOSTS, findings.len());
    assert!(samples > 2_000_000);
    let told: Vec<_> = floods(&findings)
        .iter()
        .map(|one| (one.target.prefix, &one.evidence.rule, one.evidence.packets, &one.evidence.top_sources))
        .collect();
    assert!(told.is_empty(), "{:?}", &told[..told.len().min(3)]);
}

const SAMPLING: f64 = 1000.0;
const HOSTS: u32 = 200;

fn thresholds() -> Vec<Threshold> {
    [
        (Class::IpFlood, 200_000.0, 1),
        (Class::UdpFlood, 60_000.0, 10),
        (Class::TcpFlood, 150_000.0, 10),
        (Class::IcmpFlood, 10_000.0, 5),
        (Class::IpFragmentation, 20_000.0, 5),
        (Class::UdpAmplification, 20_000.0, 5),
        (Class::TcpAmplification, 20_000.0, 10),
    ]
    .map(|(class, packets, min_sources)| Threshold { min_sources, ..Threshold::packets(class, packets) })
    .into()
}

type Make = Box<dyn Fn(&mut Source) -> Packet>;

/// So many packets a second.
struct Rate {
    packets: f64,
    make: Make,
}

/// What goes on for some time.
struct Event {
    from: u64,
    until: u64,
    rate: f64,
    kind: Kind,
    target: IpAddr,
    peer: IpAddr,
}

#[derive(Clone, Copy)]
enum Kind {
    Burst,
    SpeedTest,
    QuicDownload,
    Backup,
    Crowd,
    Scan,
    Resolver,
}

struct Load {
    events: Vec<Event>,
}

impl Load {
    fn new(random: &mut Source) -> Self {
        let mut events = Vec::new();
        let mut plan = |count: u64, seconds: std::ops::Range<u64>, rate: std::ops::Range<u64>, kind: Kind| {
            for _ in 0..count {
                let from = random.number(0..86_400);
                let until = from + random.number(seconds.clone());
                let (target, peer) = (host(random.number(0..u64::from(HOSTS)) as u32), anybody(random));
                events.push(Event { from, until, rate: random.number(rate.clone()) as f64, kind, target, peer });
            }
        };
        // A gigabit of 1,500 bytes is 83 kpps.
        plan(150, 10..30, 40_000..83_000, Kind::SpeedTest);
        plan(40, 10..120, 20_000..80_000, Kind::QuicDownload);
        plan(10, 600..3600, 20_000..60_000, Kind::Backup);
        plan(6, 300..1800, 20_000..90_000, Kind::Crowd);
        plan(40, 10..300, 500..8_000, Kind::Scan);
        plan(20, 5..60, 2_000..10_000, Kind::Resolver);
        Self { events }
    }

    fn second(&mut self, random: &mut Source, second: u64) -> Vec<Rate> {
        // Two bursts a second over the site, of 1 s on average, 3,000 packets/s each.
        for _ in 0..random.poisson(2.0) as u64 {
            let length = 0.375 / (1.0 - random.uniform()).powf(1.0 / 1.6);
            let until = second + length.ceil() as u64;
            let (target, peer) = (host(random.number(0..u64::from(HOSTS)) as u32), anybody(random));
            self.events.push(Event { from: second, until, rate: 3_000.0, kind: Kind::Burst, target, peer });
        }
        self.events.retain(|event| event.until > second);
        let mut rates: Vec<Rate> = self.events.iter().filter(|event| event.from <= second).map(Event::rate).collect();
        rates.push(Rate { packets: 20_000.0, make: Box::new(background) });
        rates
    }
}

fn background(random: &mut Source) -> Packet {
    let target = host(random.number(0..u64::from(HOSTS)) as u32);
    let port = random.number(1024..65_536) as u16;
    match random.number(0..20) {
        0 => udp(anybody(random), target, (53, port), 100 + random.number(0..400) as u32),
        1 => udp(anybody(random), target, (443, port), 1200),
        2 => Packet {
            protocol: 1,
            transport: Some(Transport::Icmp { kind: 8, code: 0 }),
            ..udp(anybody(random), target, (0, 0), 98)
        },
        3 => tcp(anybody(random), target, (443, port), 0x12, 66),
        _ => tcp(anybody(random), target, (port, 443), 0x10, 66 + random.number(0..1400) as u32),
    }
}

impl Event {
    fn rate(&self) -> Rate {
        let (target, peer) = (self.target, self.peer);
        let make: Make = match self.kind {
            Kind::Burst => Box::new(move |_| tcp(peer, target, (443, 50_000), 0x10, 1500)),
            // Four servers.
            Kind::SpeedTest => Box::new(move |random| {
                tcp(host(0x20_0000 + random.number(0..4) as u32), target, (8080, 50_000), 0x10, 1500)
            }),
            Kind::QuicDownload => Box::new(move |_| udp(peer, target, (443, 50_000), 1300)),
            Kind::Backup => Box::new(move |_| tcp(peer, target, (50_000, 873), 0x18, 1500)),
            Kind::Crowd => Box::new(move |random| {
                let port = random.number(1024..65_536) as u16;
                let flags = if random.uniform() < 0.15 { 0x02 } else { 0x10 };
                tcp(anybody(random), target, (port, 443), flags, 80)
            }),
            Kind::Scan => Box::new(move |random| {
                tcp(peer, host(random.number(0..65_536) as u32), (50_000, random.bits() as u16), 0x02, 60)
            }),
            Kind::Resolver => Box::new(move |random| {
                udp(
                    anybody(random),
                    target,
                    (53, random.number(1024..65_536) as u16),
                    120 + random.number(0..1000) as u32,
                )
            }),
        };
        Rate { packets: self.rate, make }
    }
}
