//! A datagram that was forged or damaged costs itself, not the stream.

use super::*;
use crate::receive::plausible::ENOUGH;
use crate::receive::receiver::{dropped_before, dropped_since};

const STRANGER: &str = "198.51.100.9:4000";

impl Bench {
    fn take_from(&mut self, source: &str, bytes: &[u8]) {
        self.sessions.take(bytes, source.parse().unwrap(), self.moment, &mut self.witness, &mut self.book);
    }

    /// A sender of one channel that is heard, 10 samples each 10 ms.
    fn living() -> (Self, Sender) {
        let (mut bench, mut sender) = (Self::new(), Sender::new(1, 1));
        bench.take(&sender.metadata("s"));
        bench.go_on(&mut sender, 10);
        (bench, sender)
    }

    fn go_on(&mut self, sender: &mut Sender, datagrams: usize) {
        for _ in 0..datagrams {
            self.take(&sender.data(&[(0, 10)]));
            self.pass(MS * 10);
        }
    }

    fn refused(&self, reason: &str) -> u64 {
        let counts = self.sessions.counts(0);
        assert_eq!(counts.unexplained(), 0);
        counts.refused[reason]
    }
}

/// The same sender, so far on.
fn ahead(sender: &Sender, datagrams: u64, samples: u64) -> Sender {
    let next = sender.next.iter().map(|next| next + samples).collect();
    Sender { session: sender.session, sequence: sender.sequence + datagrams, next }
}

#[test]
fn one_far_jump_blinds_no_stream() {
    let (mut bench, mut sender) = Bench::living();
    let far = |sender: &Sender| [ahead(sender, 0, 1 << 40), ahead(sender, 1 << 31, 0)];
    let mut forged = 0;
    for kind in [Kind::Heartbeat, Kind::End] {
        for other in far(&sender) {
            bench.take(&other.positions(kind));
            bench.go_on(&mut sender, 5);
            forged += 1;
        }
    }
    for mut other in far(&sender) {
        bench.take(&other.data(&[(0, 10)]));
        bench.go_on(&mut sender, 5);
        forged += 1;
    }
    // A gap that its sender declares goes as far.
    let mut packer = Packer::new(1472);
    let values = Values::Gap(Gap { samples: 1 << 60, cause: Cause::Source });
    assert!(packer.copy(&Block { channel: 0, first: sender.next[0], time: 0, rate: RATE, values }));
    bench.take(packer.finish(header(Kind::Data, 1, sender.sequence)));
    bench.go_on(&mut sender, 5);
    assert_eq!(bench.refused("implausible"), forged + 1);
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.samples, counts.lost), (sender.next[0], 0));
    assert!(!bench.book.news.iter().any(|(_, news)| *news == News::Ended));
}

#[test]
fn copies_of_a_forged_one_are_no_witnesses() {
    let (mut bench, mut sender) = Bench::living();
    let forged = ahead(&sender, 1 << 31, 1 << 40).data(&[(0, 10)]);
    (0..3 * ENOUGH).for_each(|_| bench.take(&forged));
    bench.go_on(&mut sender, 5);
    assert_eq!(bench.sessions.counts(0).samples, sender.next[0]);
}

#[test]
fn a_sender_that_did_jump_is_believed_when_enough_agree() {
    let (mut bench, sender) = Bench::living();
    let here = sender.next[0];
    let mut jumped = ahead(&sender, 1 << 31, 1 << 31);
    // A stranger's agree with nothing.
    for _ in 0..3 * ENOUGH {
        bench.take_from(STRANGER, &ahead(&jumped, 0, 0).data(&[(0, 10)]));
    }
    // The book keeps each sample that is missing: too many of these.
    let mut counter = Counting;
    for _ in 0..ENOUGH + 4 {
        let (bytes, source) = (jumped.data(&[(0, 10)]), SOURCE.parse().unwrap());
        bench.sessions.take(&bytes, source, bench.moment, &mut bench.witness, &mut counter);
        bench.moment.now += MS * 10;
        bench.sessions.look(bench.moment, &mut bench.witness, &mut counter);
    }
    bench.moment.now += MS * 30;
    bench.sessions.look(bench.moment, &mut bench.witness, &mut counter);
    assert_eq!(bench.refused("implausible"), 4 * u64::from(ENOUGH) - 1);
    assert_eq!(bench.sessions.counts(0).samples, here + 50);
}

struct Counting;

impl Sink for Counting {
    fn channel(&mut self, _: &Arc<Stream>, _: &Arc<Channel>) {}
    fn block(&mut self, _: &Arc<Stream>, _: &Block<'_>) {}
    fn stream(&mut self, _: &Arc<Stream>, _: News) {}
}

#[test]
fn a_long_silence_explains_a_long_gap() {
    let (mut bench, mut sender) = Bench::living();
    bench.pass(MS * 300_000);
    sender = ahead(&sender, 30_000, 300_000);
    bench.go_on(&mut sender, 5);
    bench.pass(MS * 30);
    assert_eq!(bench.refused("implausible"), 0);
    assert_eq!(bench.gaps(1, 0).len(), 300_000);
}

#[test]
fn strangers_speak_for_nobody_and_a_second_network_earns_it() {
    let (mut bench, mut sender) = Bench::living();
    for bytes in [sender.positions(Kind::Heartbeat), sender.positions(Kind::End), sender.metadata("forged")] {
        bench.take_from(STRANGER, &bytes);
    }
    assert_eq!(bench.refused("stranger"), 3);
    assert_eq!(bench.book.news, [("s/display".into(), News::Begun)]);
    // Nor do they keep alive what has stopped.
    for _ in 0..12 {
        bench.take_from(STRANGER, &sender.positions(Kind::Heartbeat));
        bench.pass(MS * 50);
    }
    assert_eq!(bench.book.news[1..], [("s/display".into(), News::Silent)]);
    // The other network of two: copies that fit.
    let bytes = sender.data(&[(0, 10)]);
    bench.take(&bytes);
    bench.take_from(STRANGER, &bytes);
    bench.take_from(STRANGER, &sender.positions(Kind::End));
    assert_eq!(bench.refused("stranger"), 15);
    assert_eq!(bench.book.news.last(), Some(&("s/display".into(), News::Ended)));
}

/// Two ways carry the same: what comes by the second before its first data is no stranger's, and keeps the stream alive.
#[test]
fn a_second_network_is_known_by_what_both_say() {
    let (mut bench, sender) = (Bench::new(), Sender::new(1, 1));
    let heartbeat = sender.positions(Kind::Heartbeat);
    for bytes in [&heartbeat, &sender.metadata("s")] {
        bench.take(bytes);
        bench.take_from(STRANGER, bytes);
    }
    for _ in 0..20 {
        bench.take_from(STRANGER, &heartbeat);
        bench.pass(MS * 50);
    }
    assert_eq!(bench.refused("stranger"), 0);
    let begun = ("s/display".to_owned(), News::Begun);
    assert_eq!(bench.book.news, [begun]);
    // The first one is still heard, and what is said later, or otherwise, is a stranger's.
    bench.take(&heartbeat);
    bench.pass(MS * 300);
    bench.take_from("198.51.100.10:4000", &heartbeat);
    bench.take(&heartbeat);
    bench.take_from("198.51.100.10:4000", &sender.positions(Kind::End));
    assert_eq!((bench.refused("stranger"), bench.book.news.len()), (2, 1));
}

#[test]
fn data_after_an_end_brings_a_stream_back() {
    let (mut bench, mut sender) = Bench::living();
    let forged = sender.positions(Kind::End);
    bench.take(&forged);
    assert_eq!(bench.book.news.last().unwrap().1, News::Ended);
    let known = bench.book.names.len();
    bench.go_on(&mut sender, 2);
    bench.take(&forged);
    bench.go_on(&mut sender, 2);
    let news: Vec<_> = bench.book.news.iter().map(|(_, news)| *news).collect();
    assert_eq!(news, [News::Begun, News::Ended, News::Back]);
    assert_eq!(bench.book.names.len(), known + 1, "those who let go of its channels hear of them again");
    bench.take(&sender.positions(Kind::End));
    assert_eq!(bench.book.news.last().unwrap().1, News::Ended);
    assert_eq!(bench.sessions.counts(0).samples, sender.next[0]);
}

#[test]
fn what_was_sent_before_the_first_that_came_is_late() {
    let mut bench = Bench::new();
    let mut sender = Sender::new(1, 1);
    let all: Vec<_> = (0..8).map(|_| sender.data(&[(0, 1)])).collect();
    bench.take(&sender.metadata("s"));
    bench.take(&all[6]);
    bench.pass(MS * 25);
    for index in [3, 7, 7] {
        bench.take(&all[index]);
    }
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.in_order, counts.late, counts.copies, counts.unexplained()), (2, 1, 1, 0));
}

#[test]
fn a_count_of_drops_that_is_older_than_the_last_look_adds_nothing() {
    let mut last = u32::MAX - 1;
    // 3 more beyond the wrap, then datagrams that were queued before that.
    let counted = [1, u32::MAX, 0, 1, 3, 2, 3];
    let sum: u64 = counted.iter().map(|&counted| dropped_since(&mut last, counted)).sum();
    assert_eq!((sum, last), (5, 3));
}

/// What a station said before it was killed keeps nobody from hearing that it is silent.
#[test]
fn what_is_replayed_is_no_sign_of_life() {
    let (mut bench, mut sender) = Bench::living();
    let old = [sender.data(&[(0, 10)]), sender.positions(Kind::Heartbeat)];
    bench.take(&old[0]);
    bench.go_on(&mut sender, 3);
    let heartbeat = sender.positions(Kind::Heartbeat);
    bench.take(&heartbeat);
    for _ in 0..10 {
        bench.pass(MS * 100);
        old.iter().for_each(|bytes| bench.take(bytes));
        // Sealed, the last of all as well: its counter does not go on.
        let source = (SOURCE.parse().unwrap(), false);
        bench.sessions.take_opened(&heartbeat, source, bench.moment, &mut bench.witness, &mut bench.book);
    }
    assert_eq!(bench.book.news.last().map(|(_, news)| *news), Some(News::Silent));
    bench.go_on(&mut sender, 1);
    assert_eq!(bench.book.news.last().map(|(_, news)| *news), Some(News::Back));
}

/// Sealed, what a station said before it was restarted is authentic: whoever plays it again makes no twin of it, and ends nobody.
#[test]
fn what_is_replayed_of_an_earlier_session_names_nobody() {
    let mut bench = Bench::new();
    let (first, second) = (Sender::new(1, 1), Sender::new(2, 1));
    let old = first.metadata("s");
    bench.take(&old);
    bench.pass(MS * 600);
    let replay = |bench: &mut Bench| {
        let source = (SOURCE.parse().unwrap(), false);
        bench.sessions.take_opened(&old, source, bench.moment, &mut bench.witness, &mut bench.book);
    };
    for _ in 0..20 {
        bench.take(&second.metadata("s"));
        replay(&mut bench);
        bench.pass(MS * 50);
    }
    // Nor when the second one has gone.
    for _ in 0..20 {
        replay(&mut bench);
        bench.pass(MS * 50);
    }
    let news: Vec<_> = bench.book.news.iter().map(|(name, news)| (name.as_str(), *news)).collect();
    let told = [News::Begun, News::Silent, News::Restarted, News::Silent];
    assert_eq!(news, told.map(|news| ("s/display", news)));
}

/// The counter is looked at while datagrams wait that came before the drop: the hole behind them is the socket's all the same.
#[test]
fn what_waited_while_others_were_dropped_came_before_them() {
    let (mut last, mut drops) = (u32::MAX - 1, 5);
    drops += dropped_since(&mut last, 8);
    assert_eq!((drops, dropped_before(drops, last, 8)), (15, 15));
    assert_eq!([u32::MAX - 1, u32::MAX, 0].map(|counted| dropped_before(drops, last, counted)), [5, 6, 7]);
    // Where the kernel says that nothing was dropped, nothing was.
    assert_eq!(dropped_before(3, 3, 0), 0);
}

/// No sender has got as far: what it would make of the count of those that were lost is no number.
#[test]
fn numbers_that_nobody_reaches_begin_no_session() {
    let mut bench = Bench::new();
    let mut sender = Sender { session: 9, sequence: u64::MAX - 1, next: vec![0] };
    bench.take(&sender.data(&[(0, 10)]));
    sender.sequence = 1 << 62;
    bench.take(&sender.data(&[(0, 10)]));
    sender.sequence = 0;
    bench.take(&sender.data(&[(0, 10)]));
    bench.pass(MS * 100);
    assert_eq!((bench.refused("implausible"), bench.sessions.counts(0).lost), (2, 0));
}

/// New names cost their sender nothing: what each of them costs here does not grow with those that came before.
#[test]
fn a_flood_of_new_names_is_no_search_through_all_sessions_each() {
    let mut bench = Bench::new();
    let most = Bounds::default().sessions as u64;
    for session in 1..=3 * most {
        let mut sender = Sender::new(session, 1);
        bench.take(&sender.metadata(&format!("n{session}")));
        bench.take(&sender.data(&[(0, 1)]));
        bench.moment.now += Duration::from_micros(50);
    }
    let counts = bench.sessions.counts(0);
    assert_eq!(counts.unexplained(), 0);
    // All of them live: 0.6 s, and a look each 5 ms at most.
    let searched = bench.sessions.searched;
    assert!(searched <= 130 * most, "{searched}");
    // Then all are silent: one look finds room for all that come.
    bench.pass(MS * 1000);
    let before = bench.sessions.searched;
    for session in 4 * most..5 * most {
        bench.take(&Sender::new(session, 1).metadata(&format!("n{session}")));
    }
    let searched = bench.sessions.searched - before;
    assert!(searched <= 2 * most, "{searched}");
    // Each name is somebody's who is known.
    assert_eq!(bench.sessions.names(), bench.sessions.counts(0).sessions);
}
