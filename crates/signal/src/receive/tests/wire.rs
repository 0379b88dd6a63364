//! Whatever happens between senders and a viewer: each sample is shown once and in order, or is in a gap of exactly so many.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use weir_testbed::random;
use weir_wire::signal::{Block, Cause, Channel, Element, Form, Header, Kind, Packer, Position, Rate, Values, encode};

use crate::receive::{Bounds, Follow, Moment, News, Sessions, Sink, Stream, Witness};
use crate::seal::Sealer;
use crate::send::{self, Lane, Outlet};

/// A sender of one channel, whose sample i is i; 10 of them a datagram, each 10 ms.
struct Sender {
    sender: send::Sender<Sent>,
    session: u64,
    next: u64,
    /// Time of the sample 0, ns.
    origin_ns: i64,
    began: u64,
}

/// What a sender sends.
#[derive(Default)]
struct Sent(Vec<Vec<u8>>);

impl Outlet for Sent {
    fn send(&mut self, datagram: &[u8]) -> bool {
        self.0.push(datagram.to_vec());
        true
    }
}

/// What becomes of datagrams on a way.
#[derive(Clone, Copy, Default)]
struct Way {
    /// Of a hundred, and how many after one another at most.
    loss: u32,
    burst: u32,
    /// Copies, of a hundred, and how late any of them comes at most, ms.
    copies: u32,
    late: u64,
    left: u32,
}

/// Everything between the sockets and the history, on a clock of its own.
struct World {
    random: Rng,
    now: u64,
    sessions: Sessions,
    sink: Follow<Book>,
    arrivals: BTreeMap<(u64, u64), (SocketAddr, Vec<u8>)>,
    count: u64,
}

/// What is shown.
#[derive(Default)]
struct Book {
    /// By session: the index of the first sample, the one after the last, and how many are missing.
    shown: HashMap<u64, (u64, u64, u64)>,
    names: HashMap<u64, String>,
    news: Vec<(String, News)>,
    /// A datagram may be made up: indices may go back.
    is_forged: bool,
}

struct Idle;

impl Witness for Idle {
    fn host_dropped(&mut self, _: Duration) -> bool {
        false
    }
}

impl Sink for Book {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        assert!(channel.name == "c" || self.is_forged);
        self.names.insert(stream.session, stream.to_string());
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        assert!(self.names.contains_key(&stream.session), "described before its first block");
        let (_, end, missing) = self.shown.entry(stream.session).or_insert((block.first, block.first, 0));
        assert!(*end == block.first || self.is_forged && block.first < *end, "{} after {end}", block.first);
        *end = block.end();
        match block.values {
            Values::Gap(gap) => *missing = missing.saturating_add(gap.samples),
            _ => (block.first..).zip(block.each()).for_each(|(index, value)| assert_eq!(value as i32, index as i32)),
        }
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        self.news.push((stream.to_string(), news));
    }
}

impl Sender {
    fn new(station: &str, session: u64, began: u64) -> Self {
        let channel = Channel { name: "c".into(), ..Channel::default() };
        Self::of(station, "display", channel, session, (0, began as i64 * MS, began))
    }

    /// Counts from the beginning of the world, as all servers of a feed do.
    fn server(station: &str, (origin, priority): (&str, u8), session: u64, began: u64) -> Self {
        let (origin, origin_stream) = (origin.into(), "display".into());
        let channel = Channel { name: "c".into(), origin, origin_stream, priority, ..Channel::default() };
        Self::of(station, "view", channel, session, (began, 0, began))
    }

    fn of(
        station: &str,
        name: &str,
        channel: Channel,
        session: u64,
        (next, origin_ns, began): (u64, i64, u64),
    ) -> Self {
        let (sealer, most_bytes, fault) = (Sealer::default(), 1472, Cause::Station);
        let stream = send::Stream { station: station.into(), name: name.into(), sealer, most_bytes, fault };
        let mut sender = send::Sender::new(stream, Sent::default());
        sender.header.session = session;
        sender.add(Lane::new(Channel { rate: RATE, element: Element::I32, ..channel }, next, origin_ns, 1));
        Self { sender, session, next, origin_ns, began }
    }

    /// What it sends at a moment, ms.
    fn send(&mut self, now: u64) -> Vec<Vec<u8>> {
        let (age, at) = (now - self.began, (now - self.began) * MS as u64);
        if age % 10 == 5 {
            self.sender.lanes.get_mut(&0).unwrap().origin = self.origin_ns;
            let samples: Vec<f64> = (self.next..self.next + EACH).map(|index| index as f64).collect();
            self.sender.push(0, self.next, &samples, at);
            self.next += EACH;
        }
        self.sender.step(at, 0);
        std::mem::take(&mut self.sender.outlet.0)
    }

    /// A datagram as if it came from it.
    fn forge(&self, kind: Kind, session: u64, sequence: u64, first: u64) -> Vec<u8> {
        let header = Header { kind, session, sequence, ..self.sender.header };
        let mut packer = Packer::new(1472);
        if kind == Kind::Data {
            let time = self.origin_ns.wrapping_add((first as i64).wrapping_mul(MS));
            let bytes = packer.block((0, first, time), RATE, (Element::I32, Form::Samples), EACH as u16);
            (first..first + EACH).for_each(|index| bytes.extend((index as i32).to_le_bytes()));
            return packer.finish(header).to_vec();
        }
        let (mut sent, at) = (Vec::new(), [Position { channel: 0, next: first }]);
        encode::positions(header, &at, 1472, &mut Vec::new(), |bytes| sent = bytes.to_vec());
        sent
    }
}

impl Way {
    fn takes(&mut self, random: &mut Rng) -> bool {
        if self.left == 0 && random.u32(0..100) < self.loss {
            self.left = 1 + random.u32(0..=self.burst);
        }
        let is_taken = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_taken
    }
}

impl World {
    fn new(random: Rng) -> Self {
        let (sessions, sink) = (Sessions::new(Bounds::default()), Follow::new(Book::default()));
        Self { random, now: 0, sessions, sink, arrivals: BTreeMap::new(), count: 0 }
    }

    /// Sends a datagram over some ways.
    fn send(&mut self, bytes: &[u8], ways: &mut [Way]) {
        for (way, number) in ways.iter_mut().zip(1..) {
            for _ in 0..1 + u32::from(self.random.u32(0..100) < way.copies) {
                if way.takes(&mut self.random) {
                    self.count += 1;
                    let (at, from) = (self.now + self.random.u64(0..=way.late), ([192, 0, 2, number], 5110).into());
                    self.arrivals.insert((at, self.count), (from, bytes.to_vec()));
                }
            }
        }
    }

    /// Lets senders send for so long, ms, over the same ways.
    fn pass(&mut self, millis: u64, senders: &mut [&mut Sender], ways: &mut [Way]) {
        for _ in 0..millis {
            for sender in &mut *senders {
                // One of its descriptions comes: without any its channels would be listed by number.
                let (is_sure, sent) = (self.now == sender.began + 300, sender.send(self.now));
                sent.iter().for_each(|bytes| {
                    if is_sure { self.send(bytes, &mut [Way::default()]) } else { self.send(bytes, ways) }
                });
            }
            let moment = Moment { now: Duration::from_millis(self.now), wall: self.now as i64 * MS, drops: 0 };
            let later = self.arrivals.split_off(&(self.now + 1, 0));
            for (source, bytes) in std::mem::replace(&mut self.arrivals, later).into_values() {
                self.sessions.take(&bytes, source, moment, &mut Idle, &mut self.sink);
            }
            self.sessions.look(moment, &mut Idle, &mut self.sink);
            self.now += 1;
        }
        assert_eq!(self.sessions.counts(0).unexplained(), 0);
    }

    /// Its end, as often as it is sent; the last one comes.
    fn end(&mut self, sender: &mut Sender, ways: &mut [Way]) {
        sender.sender.end((self.now - sender.began) * MS as u64, |_| ());
        let mut sent = std::mem::take(&mut sender.sender.outlet.0);
        let last = sent.pop().unwrap();
        for bytes in sent {
            self.send(&bytes, ways);
            self.pass(10, &mut [], ways);
        }
        self.send(&last, &mut [Way::default()]);
        self.pass(100, &mut [], ways);
    }

    /// What was shown of a session goes to its last sample; returns how many are missing.
    fn whole(&mut self, session: u64, next: u64) -> u64 {
        let (first, end, missing) = self.sink.inner().shown[&session];
        assert_eq!(end, next, "of session {session} from {first} on");
        missing
    }

    fn has(&mut self, name: &str, news: News) -> bool {
        self.sink.inner().news.iter().any(|(of, what)| of == name && *what == news)
    }

    /// The newest session that a stream was shown of.
    fn shown_as(&mut self, name: &str) -> u64 {
        *self.sink.inner().names.iter().filter(|(_, of)| *of == name).map(|(session, _)| session).max().unwrap()
    }
}

fn bad(random: &mut Rng) -> Way {
    let [loss, burst, copies] = [10, 5, 10].map(|most| random.u32(0..=most));
    Way { loss, burst, copies, late: random.u64(0..15), left: 0 }
}

/// Runs a scenario with many seeds.
fn each(scenario: impl Fn(&mut World)) {
    let seed = random::seed();
    (0..SEEDS).for_each(|number| scenario(&mut World::new(Rng::with_seed(seed.wrapping_add(number)))));
}

#[test]
fn loss_bursts_copies_and_datagrams_out_of_order() {
    each(|world| {
        let mut ways = [bad(&mut world.random)];
        let mut sender = Sender::new("coil", 1, 0);
        world.pass(1500, &mut [&mut sender], &mut ways);
        world.end(&mut sender, &mut ways);
        world.whole(1, sender.next);
        assert!(world.has("coil/display", News::Ended));
        let (counts, (first, ..)) = (world.sessions.counts(0), world.sink.inner().shown[&1]);
        assert_eq!(counts.samples + counts.missing.sum() + first, sender.next);
    });
}

#[test]
fn of_two_ways_either_is_enough() {
    each(|world| {
        let dead = Way { loss: 100, ..Way::default() };
        let mut sender = Sender::new("coil", 1, 0);
        let late = Way { late: world.random.u64(0..15), ..Way::default() };
        world.pass(400, &mut [&mut sender], &mut [dead, late]);
        world.pass(400, &mut [&mut sender], &mut [late, dead]);
        let mut ways = [bad(&mut world.random), late];
        world.pass(400, &mut [&mut sender], &mut ways);
        world.end(&mut sender, &mut ways);
        assert_eq!(world.whole(1, sender.next), 0);
    });
}

#[test]
fn restarts_with_and_without_an_end() {
    each(|world| {
        let mut ways = [bad(&mut world.random)];
        let has_end = world.random.bool();
        let mut first = Sender::new("coil", 1, 0);
        world.pass(700, &mut [&mut first], &mut ways);
        if has_end {
            world.end(&mut first, &mut ways);
        }
        let pause = world.random.u64(0..900);
        world.pass(pause, &mut [], &mut ways);
        let mut second = Sender::new("coil", 2, world.now);
        world.pass(1500, &mut [&mut second], &mut ways);
        world.pass(700, &mut [&mut second], &mut [Way::default()]);
        world.whole(2, second.next);
        assert_eq!(world.shown_as("coil/display"), 2);
        let news = format!("{has_end} {pause} {:?}", world.sink.inner().news);
        assert!(world.has("coil/display", News::Restarted) && !world.has("coil#2/display", News::Twin), "{news}");
    });
}

#[test]
fn two_stations_of_one_name() {
    each(|world| {
        let mut ways = [Way { loss: 3, late: 10, ..Way::default() }];
        let mut first = Sender::new("coil", 1, 0);
        let alone = world.random.u64(500..600);
        world.pass(alone, &mut [&mut first], &mut ways);
        let mut second = Sender::new("coil", 2, world.now);
        // A clock that is behind.
        second.origin_ns -= if world.random.bool() { 3_600_000 * MS } else { 0 };
        world.pass(1500, &mut [&mut first, &mut second], &mut ways);
        world.pass(700, &mut [&mut first, &mut second], &mut [Way::default()]);
        world.whole(1, first.next);
        world.whole(2, second.next);
        let twins = world.sink.inner().news.iter().filter(|(_, news)| *news == News::Twin).count();
        assert_eq!((twins, world.has("coil#2/display", News::Twin)), (1, true));
        assert_ne!(world.shown_as("coil/display"), world.shown_as("coil#2/display"));
    });
}

#[test]
fn a_clock_that_is_set_loses_nothing() {
    each(|world| {
        let mut ways = [bad(&mut world.random)];
        let mut sender = Sender::new("coil", 1, 0);
        for step in [3_600_000, -7_200_000] {
            world.pass(500, &mut [&mut sender], &mut ways);
            sender.origin_ns += step * MS;
        }
        world.pass(500, &mut [&mut sender], &mut ways);
        world.end(&mut sender, &mut ways);
        world.whole(1, sender.next);
    });
}

#[test]
fn of_two_servers_the_other_goes_on() {
    each(|world| {
        let mut clean = [Way { late: world.random.u64(0..15), ..Way::default() }];
        let mut best = Sender::server("one", ("coil", 1), 1, 0);
        let mut other = Sender::server("two", ("coil", 2), 2, 0);
        world.pass(2500, &mut [&mut best, &mut other], &mut clean);
        let before = world.sink.changes();
        // The first is killed, comes back as another session, and then both are gone.
        world.pass(1000, &mut [&mut other], &mut clean);
        let feed = world.shown_as("coil/display");
        assert_eq!((world.sink.inner().shown[&feed].2, world.sink.changes()), (0, before + 1));
        let mut back = Sender::server("one", ("coil", 1), 3, world.now);
        world.pass(1500, &mut [&mut back, &mut other], &mut clean);
        assert_eq!((world.sink.inner().shown[&feed].2, world.sink.changes()), (0, before + 2));
        world.pass(1000, &mut [], &mut clean);
        let mut last = Sender::server("two", ("coil", 2), 4, world.now);
        world.pass(1000, &mut [&mut last], &mut clean);
        world.pass(100, &mut [], &mut clean);
        // Until the description of the last one comes it may have sent two datagrams.
        assert!((1000..=1020).contains(&world.whole(feed, last.next)), "what no server had");
    });
}

#[test]
fn datagrams_that_are_made_up_stop_nothing() {
    each(|world| {
        world.sink.inner().is_forged = true;
        let mut ways = [Way::default()];
        let mut sender = Sender::new("coil", 1, 0);
        for _ in 0..60 {
            world.pass(15, &mut [&mut sender], &mut ways);
            let random = &mut world.random;
            let far = |random: &mut Rng| random.u64(..) >> random.u32(2..64);
            let session = sender.session + if random.bool() { far(random) % 5 } else { 0 };
            let ahead = [far(random) % 8, (1 << 13) + far(random)][usize::from(random.bool())];
            let first = [sender.next + far(random) % 100, far(random)][usize::from(random.bool())];
            let kind = [Kind::Heartbeat, Kind::End, Kind::Data, Kind::Data][random.usize(0..4)];
            let mut bytes = sender.forge(kind, session, sender.sender.header.sequence + ahead, first);
            if random.u32(0..4) == 0 {
                bytes.truncate(random.usize(0..bytes.len()));
            }
            world.send(&bytes, &mut ways);
        }
        // 600 ms after the last of them everything follows again.
        world.pass(600, &mut [&mut sender], &mut ways);
        let before = world.sessions.counts(0).samples;
        world.pass(500, &mut [&mut sender], &mut ways);
        world.pass(30, &mut [], &mut ways);
        world.whole(1, sender.next);
        assert_eq!(world.sessions.counts(0).samples - before, 500);
    });
}

/// Samples of a datagram.
const EACH: u64 = 10;
const RATE: Rate = Rate { per_second: 1000, per_sample: 1 };

/// Nanoseconds.
const MS: i64 = 1_000_000;

/// Worlds of a scenario.
const SEEDS: u64 = 256;
