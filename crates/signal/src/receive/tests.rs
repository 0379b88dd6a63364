//! Whatever a network does, each sample comes out once and in order, or is a gap: of exactly so many.

mod forged;
mod wire;

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

    /// A sender says who it is, and that it begins.
    fn begin(&mut self, sender: &Sender, station: &str) {
        self.take(&sender.metadata(station));
        self.take(&sender.positions(Kind::Heartbeat));
    }

    fn news(&self) -> Vec<(&str, News)> {
        self.book.news.iter().map(|(name, news)| (name.as_str(), *news)).collect()
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
    bench.begin(&sender, "s");
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
    bench.begin(&sender, "s");
    let all: Vec<_> = (0..4).map(|_| sender.data(&[(0, 1)])).collect();
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
fn channels_begin_with_their_description_or_after_a_second_with_their_number() {
    let mut bench = Bench::new();
    let mut sender = Sender::new(1, 2);
    bench.take(&sender.positions(Kind::Heartbeat));
    bench.take(&sender.data(&[(0, 2), (1, 2)]));
    assert!(bench.book.samples.is_empty());
    bench.take(&sender.metadata("s"));
    assert_eq!(bench.book.names, [("s/display", "c0"), ("s/display", "c1")].map(|(a, b)| (a.into(), b.into())));
    bench.take(&sender.data(&[(0, 1), (1, 3)]));
    assert_eq!((bench.book.samples[&(1, 0)].0, bench.book.samples[&(1, 1)].1.len()), (2, 3));
    assert_eq!(bench.sessions.counts(0).undescribed, 4);

    let mut silent = Sender::new(0xab, 1);
    bench.take(&silent.positions(Kind::Heartbeat));
    for _ in 0..10 {
        bench.take(&silent.data(&[(0, 2)]));
        bench.pass(MS * 100);
    }
    assert!(!bench.book.samples.contains_key(&(0xab, 0)));
    bench.take(&silent.data(&[(0, 2)]));
    assert_eq!(bench.book.samples[&(0xab, 0)], (20, vec![Ok(20), Ok(21)]));
    assert_eq!(bench.book.names[2], ("00000000000000ab/".into(), "0".into()));
    bench.take(&silent.metadata("late"));
    assert_eq!(bench.book.names[3], ("late/display".into(), "c0".into()));
}

/// Sample i of any sender is of the same time: both have begun together.
#[test]
fn of_two_with_a_name_the_later_one_has_it() {
    let mut bench = Bench::new();
    let (mut first, mut second) = (Sender::new(1, 1), Sender::new(2, 1));
    let send = |bench: &mut Bench, sender: &mut Sender| {
        bench.begin(sender, "s");
        bench.take(&sender.data(&[(0, 10)]));
        bench.pass(MS * 10);
    };
    send(&mut bench, &mut first);
    // The first is killed; the second goes on from there.
    second.next[0] = 10;
    (0..20).for_each(|_| send(&mut bench, &mut second));
    let restarted = [("s/display", News::Begun), ("s/display", News::Restarted)];
    assert_eq!(bench.news(), restarted);
    // It was only standing still.
    (0..20).for_each(|_| [&mut first, &mut second].into_iter().for_each(|sender| send(&mut bench, sender)));
    assert_eq!(bench.news()[2..], [("s#2/display", News::Twin)]);
    // One that has earlier times is a twin at once.
    let mut third = Sender::new(3, 1);
    send(&mut bench, &mut third);
    assert_eq!(bench.news()[3..], [("s#3/display", News::Twin)]);
    // A number lasts until the one that has the name has ended.
    bench.take(&second.positions(Kind::End));
    send(&mut bench, &mut first);
    assert_eq!(bench.news()[4..], [("s/display", News::Ended), ("s/display", News::Restarted)]);
}

/// Whether it is a restart or a twin is known with the first samples that come.
#[test]
fn what_is_lost_before_a_name_is_decided_is_a_gap() {
    let mut bench = Bench::new();
    let (mut first, mut second) = (Sender::new(1, 1), Sender::new(2, 1));
    bench.begin(&first, "s");
    bench.take(&first.data(&[(0, 10)]));
    second.next[0] = 10;
    bench.begin(&second, "s");
    drop(second.data(&[(0, 7)]));
    bench.take(&second.data(&[(0, 3)]));
    bench.pass(MS * 25);
    assert_eq!(bench.news(), [("s/display", News::Begun), ("s/display", News::Restarted)]);
    assert_eq!((bench.book.samples[&(2, 0)].0, bench.gaps(2, 0)), (10, vec![Cause::Network; 7]));
    // The former holder lives: what it sends before that is known is in a gap, and counted there alone.
    bench.take(&first.data(&[(0, 5)]));
    bench.pass(MS * 120);
    bench.take(&first.data(&[(0, 1)]));
    bench.take(&second.data(&[(0, 1)]));
    assert_eq!(bench.news()[2..], [("s#2/display", News::Twin)]);
    assert_eq!(bench.gaps(1, 0), [Cause::Unknown; 5]);
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.undescribed, counts.samples, counts.missing.sum()), (0, 15, 12));
}

#[test]
fn newcomers_do_not_push_out_the_living() {
    let mut bench = Bench::with(Bounds { sessions: 4, ..Bounds::default() });
    let living = Sender::new(1, 1);
    bench.begin(&living, "s");
    for session in 2..100 {
        bench.take(&Sender::new(session, 1).positions(Kind::Heartbeat));
        bench.take(&living.positions(Kind::Heartbeat));
    }
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.sessions, counts.refused["sessions"], counts.evicted), (4, 95, 0));
    // Where little room is left, those that are silent go.
    for _ in 0..10 {
        bench.pass(MS * 60);
        bench.take(&living.positions(Kind::Heartbeat));
    }
    bench.take(&Sender::new(200, 1).positions(Kind::Heartbeat));
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.sessions, counts.refused["sessions"], counts.evicted), (2, 95, 3));
    assert_eq!((bench.news(), counts.unexplained()), (vec![("s/display", News::Begun)], 0));
}

#[test]
fn buckets_and_gaps_count_what_they_stand_for() {
    let mut bench = Bench::new();
    let sender = Sender::new(1, 1);
    bench.begin(&sender, "s");
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
    let channel =
        |id: u16, name: &str, derived| Channel { id, name: name.into(), derived, rate: RATE, ..Channel::default() };
    let channels = vec![channel(0, "I", false), channel(1, "P", true)];
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
    bench.take(&Sender::new(1, 0).positions(Kind::Heartbeat));
    send(&mut bench, 0, Values::Samples(Element::I32, &sample));
    send(&mut bench, 1, Values::Gap(Gap { samples: 5, cause: Cause::Network }));
    // The next does not come: of both something was lost on this way.
    send(&mut Bench::new(), 6, Values::Samples(Element::I32, &sample));
    send(&mut bench, 7, Values::Samples(Element::I32, &sample));
    bench.pass(MS * 30);
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.samples, counts.missing["network"], counts.lost), (4, 5 + 2, 1));
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
        let mut arrivals = vec![(metadata_late, sender.metadata("s")), (0, sender.positions(Kind::Heartbeat))];
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
        let mut due = 0;
        for (channel, &sent) in (0..).zip(&sender.next) {
            let Some((first, samples)) = bench.book.samples.get(&(7, channel)) else {
                prop_assert!(sent == 0 || metadata_late > 0);
                continue;
            };
            prop_assert_eq!(*first + samples.len() as u64, sent);
            prop_assert!(*first == 0 || metadata_late > 0, "nothing is unknown of what was described");
            due += samples.len() as u64;
            for (index, sample) in (*first as i32..).zip(samples) {
                prop_assert!(sample.is_err() || *sample == Ok(index));
            }
        }
        let counts = bench.sessions.counts(0);
        prop_assert_eq!(counts.unexplained(), 0);
        prop_assert!(counts.in_order >= fast as u64, "what is not late for long is not lost");
        prop_assert_eq!(counts.samples + counts.missing.sum(), due);
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

fn stream(session: u64) -> Arc<Stream> {
    let (station, name) = (format!("server{session}"), "view".into());
    Arc::new(Stream { session, station, name, source: SOURCE.parse().unwrap(), clock: Clock::default() })
}

impl Relay {
    fn new(session: u64, ahead: u64, priority: u8, follow: &mut Follow<Book>) -> Self {
        let stream = stream(session);
        let channel =
            Channel { id: 9, name: "c".into(), origin: "s".into(), rate: RATE, priority, ..Channel::default() };
        let relay = Self { stream, ahead };
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

impl Follow<Book> {
    /// The feed's samples, and what was said of it.
    fn shown(&mut self) -> (Samples, Vec<News>) {
        let news = self.inner().news.iter().filter(|(name, _)| name == "s/view").map(|(_, news)| *news).collect();
        (self.inner().samples.values().next().map(|(_, samples)| samples.clone()).unwrap_or_default(), news)
    }
}

#[test]
fn another_server_takes_over_where_one_is_silent_or_ends() {
    let counted = Arc::new(Changes::default());
    let mut follow = Follow::new(Book::default()).counting(counted.clone());
    let first = Relay::new(1, 0, 1, &mut follow);
    let second = Relay::new(2, 700, 2, &mut follow);
    for from in (0..1000).step_by(10) {
        first.send(from..from + 10, &mut follow);
        second.send(from..from + 10, &mut follow);
    }
    // The first is killed, and half a second later silent; both had lost what is between 1000 and 1005.
    (1005..1500).step_by(5).for_each(|from| second.send(from..from + 5, &mut follow));
    assert_eq!(follow.shown().0.len(), 1000);
    follow.stream(&first.stream, News::Silent);
    assert_eq!((follow.shown().0.len(), follow.changes()), (1500, 1));
    // It comes back, and is followed again once it has been heard for a second.
    follow.stream(&first.stream, News::Back);
    for from in (1500..3000).step_by(10) {
        second.send(from..from + 10, &mut follow);
        first.send(from..from + 10, &mut follow);
    }
    assert_eq!(follow.changes(), 2);
    follow.stream(&first.stream, News::Ended);
    second.send(3000..4000, &mut follow);
    let (samples, news) = follow.shown();
    assert_eq!((samples.len(), news), (4000, vec![News::Begun]));
    for (index, sample) in (0..).zip(samples) {
        let expected = if (1000..1005).contains(&index) { Err(Cause::Server) } else { Ok(index) };
        assert_eq!(sample, expected, "{index}");
    }
    assert_eq!(counted.missing.load(std::sync::atomic::Ordering::Relaxed), 5);
}

#[test]
fn a_feed_that_no_server_sends_on_is_silent_and_the_next_tells_what_is_missing() {
    let mut follow = Follow::new(Book::default());
    let relays = [1, 2].map(|session| Relay::new(session, 0, session as u8, &mut follow));
    relays.iter().for_each(|relay| relay.send(0..100, &mut follow));
    follow.stream(&relays[0].stream, News::Silent);
    assert_eq!(follow.shown().1, [News::Begun]);
    // It begins anew before it is silent: of the session that it had nothing is said any more.
    let anew = Stream { session: 3, ..(*relays[1].stream).clone() };
    follow.stream(&Arc::new(anew), News::Restarted);
    assert_eq!(follow.shown().1, [News::Begun, News::Silent]);
    Relay::new(3, 0, 1, &mut follow).send(500..1000, &mut follow);
    let (samples, news) = follow.shown();
    assert_eq!(news, [News::Begun, News::Silent, News::Back]);
    assert_eq!((samples.len(), samples.iter().filter(|sample| sample.is_ok()).count()), (1000, 600));
}

#[test]
fn a_feed_is_not_shown_while_its_station_is_heard() {
    let mut follow = Follow::new(Book::default());
    let station = Stream { session: 9, station: "s".into(), name: "view".into(), ..(*stream(1)).clone() };
    let station = Arc::new(station);
    follow.stream(&station, News::Begun);
    let relay = Relay::new(1, 0, 1, &mut follow);
    relay.send(0..100, &mut follow);
    assert_eq!((follow.shown(), follow.inner().names.len()), ((vec![], vec![News::Begun]), 0));
    follow.stream(&station, News::Silent);
    relay.send(100..200, &mut follow);
    assert_eq!((follow.shown().0.len(), follow.inner().names.len()), (100, 1));
}

#[test]
fn servers_and_feeds_are_bounded_and_those_that_are_gone_make_room() {
    let counted = Arc::new(Changes::default());
    let mut follow = Follow::new(Book::default()).counting(counted.clone());
    let refused = || counted.refused.load(std::sync::atomic::Ordering::Relaxed);
    let relays: Vec<_> = (1..=5).map(|session| Relay::new(session, 0, 1, &mut follow)).collect();
    assert_eq!(refused(), 1);
    follow.stream(&relays[0].stream, News::Silent);
    let relay = Relay::new(6, 0, 1, &mut follow);
    assert_eq!(refused(), 1);
    let announce = |origin: u32, follow: &mut Follow<Book>| {
        let channel = Channel { id: 9, name: "c".into(), origin: origin.to_string(), ..Channel::default() };
        follow.channel(&relay.stream, &Arc::new(channel));
    };
    (1..4097).for_each(|origin| announce(origin, &mut follow));
    assert_eq!(refused(), 2);
    (1..=6).for_each(|session| follow.stream(&stream(session), News::Silent));
    announce(4097, &mut follow);
    assert_eq!(refused(), 2);
}
