//! Whatever a network does, each sample comes out once and in order, or is a gap: of exactly so many.

mod forged;

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_wire::signal::{Cause, Element, Form, Gap, Header, Kind, Metadata, Packer, Position, Rate, Values, encode};

use super::*;

const RATE: Rate = Rate { per_second: 1000, per_sample: 1 };
const SOURCE: &str = "192.0.2.1:5110";
const MS: Duration = Duration::from_millis(1);

type Samples = Vec<Result<i32, Cause>>;

/// Writes down what it is told.
#[derive(Debug, Default)]
struct Book {
    /// By session and channel: the first index, then each sample or what is missing.
    samples: BTreeMap<(u64, u16), (u64, Samples)>,
    news: Vec<(String, News)>,
    names: Vec<(String, String)>,
}

impl Sink for Book {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        self.names.push((stream.to_string(), channel.name.clone()));
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let key = (stream.session, block.channel);
        let (first, samples) = self.samples.entry(key).or_insert((block.first, Vec::new()));
        assert_eq!(block.first, *first + samples.len() as u64, "each begins where the last one ended");
        // Of a gap in front of the first block the time is a guess.
        assert!(matches!(block.values, Values::Gap(_)) || block.time == block.first as i64 * 1_000_000);
        match block.values {
            Values::Gap(gap) => samples.extend((0..gap.samples).map(|_| Err(gap.cause))),
            Values::Buckets(..) => samples.extend((0..block.samples()).map(|_| Ok(0))),
            Values::Samples(..) => samples.extend(block.each().map(|value| Ok(value as i32))),
        }
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        self.news.push((stream.to_string(), news));
    }
}

struct Idle(bool);

impl Witness for Idle {
    fn host_dropped(&mut self, _: Duration) -> bool {
        self.0
    }
}

fn header(kind: Kind, session: u64, sequence: u64) -> Header {
    Header { kind, flags: Default::default(), clock: Clock::default(), count: 0, session, sequence }
}

/// A sender of channels 0..n, whose sample i is i.
struct Sender {
    session: u64,
    sequence: u64,
    next: Vec<u64>,
}

impl Sender {
    fn new(session: u64, channels: usize) -> Self {
        Self { session, sequence: 0, next: vec![0; channels] }
    }

    fn data(&mut self, blocks: &[(u16, u16)]) -> Vec<u8> {
        let mut packer = Packer::new(1472);
        for &(channel, count) in blocks {
            let next = &mut self.next[usize::from(channel)];
            let form = (Element::I32, Form::Samples);
            let bytes = packer.block((channel, *next, *next as i64 * 1_000_000), RATE, form, count);
            for index in *next..*next + u64::from(count) {
                bytes.extend((index as i32).to_le_bytes());
            }
            *next += u64::from(count);
        }
        let bytes = packer.finish(header(Kind::Data, self.session, self.sequence)).to_vec();
        self.sequence += 1;
        bytes
    }

    fn positions(&self, kind: Kind) -> Vec<u8> {
        let positions: Vec<_> = self.next.iter().zip(0..).map(|(&next, channel)| Position { channel, next }).collect();
        let mut sent = Vec::new();
        let header = header(kind, self.session, self.sequence);
        encode::positions(header, &positions, 1472, &mut Vec::new(), |bytes| sent = bytes.to_vec());
        sent
    }

    fn metadata(&self, station: &str) -> Vec<u8> {
        let channel = |id: usize| Channel { id: id as u16, name: format!("c{id}"), rate: RATE, ..Channel::default() };
        let channels = (0..self.next.len()).map(channel).collect();
        let metadata = Metadata { station: station.into(), stream: "display".into(), channels, ..Metadata::default() };
        let mut sent = Vec::new();
        let header = header(Kind::Metadata, self.session, self.sequence);
        encode::metadata(header, &metadata, 1472, &mut Vec::new(), |bytes| sent = bytes.to_vec());
        sent
    }
}

/// A receiver with its clock.
struct Bench {
    sessions: Sessions,
    book: Book,
    witness: Idle,
    moment: Moment,
}

impl Bench {
    fn new() -> Self {
        Self::with(Bounds::default())
    }

    fn with(bounds: Bounds) -> Self {
        let sessions = Sessions::new(bounds);
        Self { sessions, book: Book::default(), witness: Idle(false), moment: Moment::default() }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.sessions.take(bytes, SOURCE.parse().unwrap(), self.moment, &mut self.witness, &mut self.book);
    }

    fn pass(&mut self, time: Duration) {
        self.moment.now += time;
        self.sessions.look(self.moment, &mut self.witness, &mut self.book);
    }

    fn gaps(&self, session: u64, channel: u16) -> Vec<Cause> {
        self.book.samples[&(session, channel)].1.iter().filter_map(|sample| sample.err()).collect()
    }
}

#[test]
fn what_is_missing_is_a_gap_of_its_cause() {
    let mut bench = Bench::new();
    let mut sender = Sender::new(1, 1);
    bench.take(&sender.metadata("s"));
    bench.take(&sender.data(&[(0, 10)]));
    drop(sender.data(&[(0, 7)]));
    bench.take(&sender.data(&[(0, 3)]));
    assert_eq!(bench.gaps(1, 0), []);
    bench.pass(MS * 19);
    assert_eq!(bench.gaps(1, 0), []);
    bench.pass(MS * 2);
    assert_eq!(bench.gaps(1, 0), [Cause::Network; 7]);
    drop(sender.data(&[(0, 1)]));
    bench.moment.drops += 1;
    bench.take(&sender.data(&[(0, 1)]));
    bench.pass(MS * 30);
    bench.witness.0 = true;
    drop(sender.data(&[(0, 1)]));
    // The last is lost: the next heartbeat tells.
    bench.take(&sender.positions(Kind::Heartbeat));
    bench.pass(MS * 20);
    assert_eq!(bench.gaps(1, 0)[7..], [Cause::Socket, Cause::Host]);
    // Left out by the sender itself.
    sender.next[0] += 2;
    bench.take(&sender.data(&[(0, 1)]));
    assert_eq!(bench.gaps(1, 0)[9..], [Cause::Station; 2]);
    let counts = bench.sessions.counts(1);
    assert_eq!((counts.lost, counts.samples, counts.unexplained()), (3, 15, 0));
    assert_eq!(counts.missing["network"], 7);
}

#[test]
fn late_ones_and_copies_are_told_apart() {
    let mut bench = Bench::new();
    let mut sender = Sender::new(1, 1);
    let all: Vec<_> = (0..4).map(|_| sender.data(&[(0, 1)])).collect();
    bench.take(&sender.metadata("s"));
    for index in [0, 0, 3] {
        bench.take(&all[index]);
    }
    bench.pass(MS * 25);
    for index in [2, 2, 1, 3] {
        bench.take(&all[index]);
    }
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.in_order, counts.copies, counts.late, counts.lost), (2, 3, 2, 2));
    assert_eq!(counts.unexplained(), 0);
}

#[test]
fn who_joins_first_begins_with_the_first_of_those_that_come_together() {
    let mut bench = Bench::new();
    let mut sender = Sender::new(1, 1);
    let all: Vec<_> = (0..10).map(|_| sender.data(&[(0, 1)])).collect();
    bench.take(&sender.metadata("s"));
    for index in [6, 5, 7] {
        bench.take(&all[index]);
    }
    bench.pass(MS * 20);
    assert_eq!(bench.book.samples[&(1, 0)], (5, vec![Ok(5), Ok(6), Ok(7)]));
}

#[test]
fn blocks_wait_for_metadata_and_then_for_no_longer_than_a_second() {
    let mut bench = Bench::new();
    let mut sender = Sender::new(1, 2);
    bench.take(&sender.data(&[(0, 2), (1, 2)]));
    let mut asked = Vec::new();
    bench.sessions.requests(bench.moment, |to, bytes| asked.push((to, bytes.to_vec())));
    assert_eq!((asked.len(), asked[0].0), (1, SOURCE.parse().unwrap()));
    assert!(bench.book.samples.is_empty());
    bench.take(&sender.metadata("s"));
    assert_eq!(bench.book.names, [("s/display", "c0"), ("s/display", "c1")].map(|(a, b)| (a.into(), b.into())));
    assert_eq!(bench.book.samples.len(), 2);

    let mut silent = Sender::new(0xab, 1);
    bench.take(&silent.data(&[(0, 2)]));
    bench.pass(MS * 990);
    assert_eq!(bench.book.samples.len(), 2);
    bench.pass(MS * 30);
    assert_eq!(bench.book.samples[&(0xab, 0)].1.len(), 2);
    assert_eq!(bench.book.names[2], ("00000000000000ab/".into(), "0".into()));
    bench.take(&silent.metadata("late"));
    bench.pass(MS * 300);
    assert_eq!(bench.book.names[3], ("late/display".into(), "c0".into()));
}

#[test]
fn a_restart_is_no_twin() {
    let mut bench = Bench::new();
    let (first, second) = (Sender::new(1, 1), Sender::new(2, 1));
    let beat = |bench: &mut Bench, sender: &Sender| {
        bench.take(&sender.metadata("s"));
        bench.take(&sender.positions(Kind::Heartbeat));
    };
    beat(&mut bench, &first);
    bench.pass(MS * 50);
    // The first was killed.
    for _ in 0..6 {
        beat(&mut bench, &second);
        bench.pass(MS * 50);
    }
    let begun = ("s/display".to_owned(), News::Begun);
    assert_eq!(bench.book.news, [begun.clone(), ("s/display".into(), News::Restarted)]);
    // It was only standing still.
    for _ in 0..6 {
        beat(&mut bench, &first);
        beat(&mut bench, &second);
        bench.pass(MS * 50);
    }
    assert_eq!(bench.book.news[2..], [("s#2/display".into(), News::Twin)]);
    bench.pass(MS * 600);
    assert_eq!(bench.book.news.len(), 5);
    beat(&mut bench, &second);
    assert_eq!(bench.book.news[5..], [("s/display".into(), News::Back)]);
    bench.take(&second.positions(Kind::End));
    assert_eq!(bench.book.news[6..], [("s/display".into(), News::Ended)]);
    let third = Sender::new(3, 1);
    beat(&mut bench, &third);
    assert_eq!(bench.book.news[7..], [("s/display".into(), News::Restarted)]);
}

#[test]
fn newcomers_do_not_push_out_the_living() {
    let mut bench = Bench::with(Bounds { sessions: 3, ..Bounds::default() });
    let living = Sender::new(1, 1);
    bench.take(&living.metadata("s"));
    for session in 2..100 {
        bench.take(&Sender::new(session, 1).positions(Kind::Heartbeat));
        bench.take(&living.positions(Kind::Heartbeat));
    }
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.sessions, counts.refused["sessions"], counts.evicted), (3, 96, 0));
    bench.pass(MS * 210);
    bench.take(&living.positions(Kind::Heartbeat));
    bench.take(&Sender::new(200, 1).positions(Kind::Heartbeat));
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.sessions, counts.evicted), (3, 1));
    // Who sends data finds a place among those who only say their names, and none of those among who sends.
    let mut senders: Vec<_> = (300..303).map(|session| Sender::new(session, 1)).collect();
    senders.iter_mut().for_each(|sender| bench.take(&sender.data(&[(0, 10)])));
    bench.take(&Sender::new(400, 1).metadata("t"));
    bench.take(&Sender::new(401, 1).data(&[(0, 10)]));
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.sessions, counts.evicted, counts.in_order, counts.refused["sessions"]), (3, 4, 3, 98));
    // Of the one that had a name it is said that it is over.
    assert_eq!(bench.book.news, [News::Begun, News::Ended].map(|news| ("s/display".to_owned(), news)));
    assert_eq!(counts.unexplained(), 0);
}

#[test]
fn buckets_and_gaps_count_what_they_stand_for() {
    let mut bench = Bench::new();
    let sender = Sender::new(1, 1);
    bench.take(&sender.metadata("s"));
    let mut sequence = 0;
    let mut send = |bench: &mut Bench, first: u64, values: Values<'_>| {
        let mut packer = Packer::new(1472);
        let block = Block { channel: 0, first, time: first as i64 * 1_000_000, rate: RATE, values };
        assert!(packer.copy(&block));
        bench.take(packer.finish(header(Kind::Data, 1, sequence)));
        sequence += 1;
    };
    let buckets = [0; 4 * 4 * 3];
    send(&mut bench, 0, Values::Buckets(Element::F32, 10, &buckets));
    send(&mut bench, 30, Values::Gap(Gap { samples: 5, cause: Cause::Source }));
    // A sender that repeats 25 samples: of its second bucket a half is known.
    send(&mut bench, 20, Values::Buckets(Element::F32, 10, &buckets));
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.samples, counts.missing["source"], counts.missing["station"]), (40, 5, 5));
}

/// A viewer of what a server sends on: what that one says it lacks was lost elsewhere, and is told there.
#[test]
fn gaps_of_what_is_derived_are_no_loss_of_this_way() {
    let mut bench = Bench::new();
    let channel = |id: u16, origin: &str, name: &str| {
        let (origin, name) = (origin.into(), name.into());
        Channel { id, name, origin, rate: RATE, ..Channel::default() }
    };
    let channels = vec![channel(0, "coil", "I"), channel(1, "derived", "derived/P")];
    let metadata = Metadata { station: "server".into(), stream: "view".into(), channels, ..Metadata::default() };
    encode::metadata(header(Kind::Metadata, 1, 0), &metadata, 1472, &mut Vec::new(), |bytes| bench.take(bytes));
    let mut sequence = 0;
    let mut send = |bench: &mut Bench, first: u64, values: Values<'_>| {
        let mut packer = Packer::new(1472);
        for channel in [0, 1] {
            assert!(packer.copy(&Block { channel, first, time: first as i64 * 1_000_000, rate: RATE, values }));
        }
        bench.take(packer.finish(header(Kind::Data, 1, sequence)));
        sequence += 1;
    };
    let sample = 0_i32.to_le_bytes();
    send(&mut bench, 0, Values::Samples(Element::I32, &sample));
    send(&mut bench, 1, Values::Gap(Gap { samples: 5, cause: Cause::Network }));
    // The next does not come: of both something was lost on this way.
    send(&mut Bench::new(), 6, Values::Samples(Element::I32, &sample));
    send(&mut bench, 7, Values::Samples(Element::I32, &sample));
    bench.pass(MS * 30);
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.samples, counts.inherited, counts.missing["network"], counts.lost), (4, 5, 5 + 2, 1));
    // Of the other channel, too, five were lost before the server.
    assert_eq!(counts.missing_told, 5);
}

#[derive(Clone, Debug)]
struct Fate {
    /// How many copies arrive, and how late each, ms.
    copies: Vec<u8>,
    blocks: Vec<(u16, u16)>,
    beat: bool,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let blocks = proptest::collection::vec((0..4_u16, 1..20_u16), 1..4);
    let copies = prop_oneof![
        6 => Just(vec![0]), 2 => Just(vec![]), 2 => (0..15_u8).prop_map(|late| vec![late]),
        1 => proptest::collection::vec(0..60_u8, 1..4)
    ];
    let fate = (copies, blocks, any::<bool>()).prop_map(|(copies, blocks, beat)| Fate { copies, blocks, beat });
    proptest::collection::vec(fate, 1..80)
}

proptest! {
    #[test]
    fn samples_and_gaps_are_what_was_sent(fates in fates(), metadata_late in 0..100_u64) {
        let mut bench = Bench::new();
        let mut sender = Sender::new(7, 4);
        let mut arrivals: Vec<(u64, Vec<u8>)> = vec![(0, sender.positions(Kind::Heartbeat)), (metadata_late, sender.metadata("s"))];
        let mut fast = 0;
        for (time, fate) in (1..).zip(&fates) {
            let datagram = sender.data(&fate.blocks);
            fast += usize::from(!fate.copies.is_empty() && fate.copies.iter().all(|&late| late < 15));
            arrivals.extend(fate.copies.iter().map(|&late| (time + u64::from(late), datagram.clone())));
            if fate.beat {
                arrivals.push((time, sender.positions(Kind::Heartbeat)));
            }
        }
        let after = fates.len() as u64 + 100;
        arrivals.push((after, sender.positions(Kind::End)));
        arrivals.sort_by_key(|(time, _)| *time);
        let mut at = 0;
        for (time, datagram) in &arrivals {
            while at < *time {
                at += 1;
                bench.pass(MS);
            }
            bench.take(datagram);
        }
        (0..30).for_each(|_| bench.pass(MS));
        for (channel, &sent) in (0..).zip(&sender.next) {
            if sent == 0 {
                prop_assert!(!bench.book.samples.contains_key(&(7, channel)));
                continue;
            }
            let (first, samples) = &bench.book.samples[&(7, channel)];
            prop_assert_eq!(*first + samples.len() as u64, sent);
            prop_assert_eq!(*first, 0);
            for (index, sample) in (0..).zip(samples) {
                prop_assert!(sample.is_err() || *sample == Ok(index));
            }
        }
        let counts = bench.sessions.counts(0);
        prop_assert_eq!(counts.unexplained(), 0);
        prop_assert!(counts.in_order >= fast as u64, "what is not late for long is not lost");
        prop_assert_eq!(counts.samples + counts.missing.sum(), sender.next.iter().sum::<u64>());
        prop_assert!(bench.book.news.contains(&("s/display".into(), News::Ended)));
    }

    #[test]
    fn any_bytes_are_taken(datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..50)) {
        let mut bench = Bench::new();
        for mut datagram in datagrams {
            bench.take(&datagram);
            datagram.splice(0..0, header(Kind::Data, 1, 0).to_bytes()[..3].to_vec());
            bench.take(&datagram);
            bench.pass(MS);
        }
        prop_assert_eq!(bench.sessions.counts(0).unexplained(), 0);
    }
}

/// A block of one sample each, i at i ms, of a channel that a server sends on.
struct Relay {
    stream: Arc<Stream>,
    /// Its indices are the samples' plus this.
    ahead: u64,
}

impl Relay {
    fn new(session: u64, ahead: u64, priority: u8, follow: &mut Follow<Book>) -> Self {
        let (station, name) = (format!("server{session}"), "view".into());
        let stream = Stream { session, station, name, source: SOURCE.parse().unwrap(), clock: Clock::default() };
        let channel =
            Channel { id: 9, name: "c".into(), origin: "s".into(), rate: RATE, priority, ..Channel::default() };
        let relay = Self { stream: Arc::new(stream), ahead };
        follow.channel(&relay.stream, &Arc::new(channel));
        relay
    }

    fn send(&self, samples: std::ops::Range<u64>, follow: &mut Follow<Book>) {
        for chunk in samples.clone().step_by(10) {
            let indices = chunk..samples.end.min(chunk + 10);
            let bytes: Vec<u8> = indices.flat_map(|index| (index as i32).to_le_bytes()).collect();
            let values = Values::Samples(Element::I32, &bytes);
            let (first, time) = (chunk + self.ahead, chunk as i64 * 1_000_000);
            follow.block(&self.stream, &Block { channel: 9, first, time, rate: RATE, values });
        }
    }
}

#[test]
fn another_server_takes_over_where_one_stops() {
    let mut follow = Follow::new(Book::default());
    let first = Relay::new(1, 0, 1, &mut follow);
    let second = Relay::new(2, 700, 2, &mut follow);
    for from in (0..1000).step_by(10) {
        first.send(from..from + 10, &mut follow);
        second.send(from..from + 10, &mut follow);
    }
    assert_eq!(follow.changes(), 0);
    // The first is killed; both had lost what is between 1000 and 1005.
    for from in (1005..2000).step_by(5) {
        second.send(from..from + 5, &mut follow);
    }
    assert_eq!(follow.changes(), 1);
    // It comes back, and is followed again once it has been steady.
    for from in (2000..4000).step_by(10) {
        second.send(from..from + 10, &mut follow);
        first.send(from..from + 10, &mut follow);
    }
    assert_eq!(follow.changes(), 2);
    let book = follow.inner();
    assert_eq!(book.news, [("s/view".into(), News::Begun)]);
    let (_, samples) = book.samples.values().next().unwrap();
    assert_eq!(samples.len(), 4000);
    for (index, sample) in (0..).zip(samples) {
        let expected = if (1000..1005).contains(&index) { Err(Cause::Server) } else { Ok(index) };
        assert_eq!(*sample, expected, "{index}");
    }
}

#[test]
fn what_no_server_had_is_counted_as_it_is_shown() {
    let counted = Arc::new(Changes::default());
    let mut follow = Follow::new(Book::default()).counting(counted.clone());
    let first = Relay::new(1, 0, 1, &mut follow);
    first.send(0..1000, &mut follow);
    let count = || counted.missing.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(count(), 0);
    // It is killed, and started again two seconds later.
    follow.stream(&first.stream, News::Silent);
    Relay::new(2, 0, 1, &mut follow).send(3000..4000, &mut follow);
    let (_, samples) = follow.inner().samples.values().next().unwrap();
    let missing = samples.iter().filter(|sample| **sample == Err(Cause::Server)).count();
    assert_eq!((samples.len(), missing, count()), (4000, 2000, 2000));
}

#[test]
fn what_no_server_sends_on_any_more_has_ended() {
    let mut follow = Follow::new(Book::default());
    let relays = [1, 2].map(|session| Relay::new(session, 0, session as u8, &mut follow));
    relays.iter().for_each(|relay| relay.send(0..100, &mut follow));
    let of_feed = |follow: &mut Follow<Book>| -> Vec<News> {
        follow.inner().news.iter().filter(|(name, _)| name == "s/view").map(|(_, news)| *news).collect()
    };
    follow.stream(&relays[0].stream, News::Ended);
    assert_eq!(of_feed(&mut follow), [News::Begun]);
    follow.stream(&relays[1].stream, News::Ended);
    assert_eq!(of_feed(&mut follow), [News::Begun, News::Unserved]);
    let names = follow.inner().names.len();
    Relay::new(3, 0, 1, &mut follow).send(500..1000, &mut follow);
    assert_eq!(of_feed(&mut follow), [News::Begun, News::Unserved, News::Back]);
    assert_eq!(follow.inner().names.len(), names + 1);
    let (_, samples) = follow.inner().samples.values().next().unwrap();
    assert_eq!((samples.len(), samples.iter().filter(|sample| sample.is_ok()).count()), (1000, 600));
}

/// Servers that are killed never say that they end.
#[test]
fn what_no_server_is_heard_to_send_on_is_silent() {
    let mut follow = Follow::new(Book::default());
    let relays = [1, 2].map(|session| Relay::new(session, 0, session as u8, &mut follow));
    relays.iter().for_each(|relay| relay.send(0..100, &mut follow));
    let of_feed = |follow: &mut Follow<Book>| -> Vec<News> {
        follow.flush();
        follow.inner().news.iter().filter(|(name, _)| name == "s/view").map(|(_, news)| *news).collect()
    };
    follow.stream(&relays[0].stream, News::Silent);
    assert_eq!(of_feed(&mut follow), [News::Begun]);
    follow.stream(&relays[1].stream, News::Silent);
    follow.stream(&relays[1].stream, News::Silent);
    assert_eq!(of_feed(&mut follow), [News::Begun, News::Silent]);
    follow.stream(&relays[1].stream, News::Back);
    assert_eq!(of_feed(&mut follow), [News::Begun, News::Silent, News::Back]);
    // It begins anew before it is silent: of the session that it had nothing is said any more.
    let anew = Stream { session: 3, ..(*relays[1].stream).clone() };
    follow.stream(&Arc::new(anew), News::Restarted);
    assert_eq!(of_feed(&mut follow)[3..], [News::Silent]);
    Relay::new(3, 0, 1, &mut follow).send(500..600, &mut follow);
    assert_eq!(of_feed(&mut follow)[4..], [News::Back]);
}

#[test]
fn servers_that_were_killed_make_room_for_the_next() {
    let mut follow = Follow::new(Book::default());
    for (session, from) in (1..=30).zip((0..).step_by(2000)) {
        Relay::new(session, 0, 1, &mut follow).send(from..from + 2000, &mut follow);
    }
    assert_eq!(follow.changes(), 29);
    let (_, samples) = follow.inner().samples.values().next().unwrap();
    assert_eq!(samples.len(), 60_000);
}

#[test]
fn servers_that_only_say_they_are_push_out_none_that_sends() {
    let mut follow = Follow::new(Book::default());
    let real: Vec<_> = (1..=8).map(|session| Relay::new(session, 0, 1, &mut follow)).collect();
    for from in (0..3000).step_by(10) {
        real.iter().for_each(|relay| relay.send(from..from + 10, &mut follow));
    }
    // One that has not begun yet, and a few forged ones.
    let late = Relay::new(20, 0, 1, &mut follow);
    (100..107).for_each(|session| drop(Relay::new(session, 0, 0, &mut follow)));
    // While all of them send there is no place for it.
    late.send(2990..3000, &mut follow);
    late.send(3000..3500, &mut follow);
    assert_eq!(follow.changes(), 0);
    // They are killed: it is the next.
    real.iter().for_each(|relay| follow.stream(&relay.stream, News::Silent));
    late.send(3000..5000, &mut follow);
    assert_eq!(follow.changes(), 1);
    (200..300).for_each(|session| drop(Relay::new(session, 0, 0, &mut follow)));
    late.send(5000..6000, &mut follow);
    real[7].send(5900..6000, &mut follow);
    assert_eq!(follow.changes(), 1);
    let (_, samples) = follow.inner().samples.values().next().unwrap();
    assert_eq!(samples.iter().filter(|sample| sample.is_ok()).count(), 6000);
}

#[test]
fn feeds_that_nobody_is_heard_of_make_room_for_others() {
    let mut follow = Follow::new(Book::default());
    let counted = Arc::new(Changes::default());
    follow = follow.counting(counted.clone());
    let real = Relay::new(1, 0, 1, &mut follow);
    real.send(0..100, &mut follow);
    let announce = |session: u64, follow: &mut Follow<Book>| {
        let relay = Relay { stream: Arc::new(Stream { session, ..(*real.stream).clone() }), ahead: 0 };
        let origin = format!("origin{session}");
        let channel = Channel { id: 9, name: "c".into(), origin, rate: RATE, priority: 1, ..Channel::default() };
        follow.channel(&relay.stream, &Arc::new(channel));
        relay
    };
    let all: Vec<_> = (2..6000).map(|session| announce(session, &mut follow)).collect();
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&counted.evicted), count(&counted.refused)), (5999 - 4096, 0));
    // The newest of them sends, and so does the first of all, still.
    all.last().unwrap().send(0..10, &mut follow);
    real.send(100..200, &mut follow);
    let lengths: Vec<_> = follow.inner().samples.values().map(|(_, samples)| samples.len()).collect();
    assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (2, 210));
    // Where all are heard, the next has to wait.
    (6000..12_000).for_each(|session| announce(session, &mut follow).send(0..10, &mut follow));
    assert!(count(&counted.refused) > 0);
    real.send(200..300, &mut follow);
    assert!(follow.inner().samples.values().any(|(_, samples)| samples.len() == 300));
}

#[test]
fn channels_that_no_server_has_any_more_make_room_for_others() {
    let mut follow = Follow::new(Book::default());
    let counted = Arc::new(Changes::default());
    follow = follow.counting(counted.clone());
    let relay = Relay::new(1, 0, 1, &mut follow);
    let tell = |id: u16, name: String, follow: &mut Follow<Book>| {
        let channel = Channel { id, name, origin: "s".into(), rate: RATE, priority: 1, ..Channel::default() };
        follow.channel(&relay.stream, &Arc::new(channel));
    };
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    // One number after another is another channel's; 9 keeps its own.
    (0..6000).for_each(|number| tell(10, format!("c{number}"), &mut follow));
    relay.send(0..100, &mut follow);
    assert_eq!((count(&counted.evicted), count(&counted.refused)), (6001 - 4096, 0));
    assert_eq!(
        follow.inner().samples.iter().map(|((_, id), (_, samples))| (*id, samples.len())).collect::<Vec<_>>(),
        [(0, 100)]
    );
    // Where a server has all of them, the next has no place, and is not taken for what its number was before.
    (11..11 + 4094).for_each(|id| tell(id, format!("d{id}"), &mut follow));
    assert_eq!(count(&counted.refused), 0);
    tell(5000, "e".into(), &mut follow);
    assert_eq!(count(&counted.refused), 1);
}
