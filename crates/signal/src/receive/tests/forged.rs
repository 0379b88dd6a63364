//! A datagram that was forged or damaged costs itself, not the stream.

use super::*;
use crate::receive::receiver::{dropped_before, dropped_since};

impl Bench {
    /// A sender of one channel that is heard, 10 samples each 10 ms.
    fn living() -> (Self, Sender) {
        let (mut bench, mut sender) = (Self::new(), Sender::new(1, 1));
        bench.begin(&sender, "s");
        bench.go_on(&mut sender, 10);
        (bench, sender)
    }

    fn go_on(&mut self, sender: &mut Sender, datagrams: usize) {
        for _ in 0..datagrams {
            self.take(&sender.data(&[(0, 10)]));
            self.pass(MS * 10);
        }
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
    for kind in [Kind::Heartbeat, Kind::End] {
        // A statement that a channel is far on says nothing of it.
        let [samples, datagrams] = far(&sender);
        for other in [samples, datagrams].into_iter().skip(usize::from(kind == Kind::End)) {
            bench.take(&other.positions(kind));
            bench.go_on(&mut sender, 5);
        }
    }
    let mut jump = ahead(&sender, 1 << 31, 0).data(&[(0, 10)]);
    for _ in 0..3 {
        // Copies of it are no successors.
        (0..2).for_each(|_| bench.take(&jump));
        bench.go_on(&mut sender, 5);
        jump = ahead(&sender, 1 << 32, 0).data(&[(0, 10)]);
    }
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.samples, counts.lost, counts.jumps, counts.unexplained()), (sender.next[0], 0, 3, 0));
    assert_eq!((counts.copies, bench.news()), (3, vec![("s/display", News::Begun)]));
}

#[test]
fn a_sender_that_did_jump_is_believed_with_its_second_datagram() {
    let (mut bench, sender) = Bench::living();
    for far in [1 << 31, 1 << 20] {
        let mut jumped = ahead(&sender, far, 0);
        jumped.next[0] += bench.sessions.counts(0).samples - sender.next[0];
        bench.take(&jumped.data(&[(0, 10)]));
        assert_eq!(bench.sessions.counts(0).waiting, 1);
        bench.go_on(&mut jumped, 5);
    }
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.samples, counts.jumps, counts.unexplained()), (sender.next[0] + 120, 0, 0));
    assert_eq!(counts.lost, 1 << 31, "of a jump back none are known to be lost");
    assert_eq!(bench.gaps(1, 0), []);
}

/// Beyond an hour a block is believed when the next one goes on from it: ahead with a gap, and back again.
#[test]
fn an_index_far_away_is_believed_with_the_next_block() {
    let (mut bench, mut sender) = Bench::living();
    let mut far = ahead(&sender, 0, 5_000_000);
    bench.take(&far.data(&[(0, 10)]));
    sender.sequence = far.sequence;
    bench.go_on(&mut sender, 2);
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.samples, counts.repeated, counts.missing.sum()), (120, 10, 0));
    let mut counting = Counting::default();
    let moment = bench.moment;
    far = ahead(&sender, 0, 5_000_000);
    for _ in 0..2 {
        bench.sessions.take(&far.data(&[(0, 10)]), SOURCE.parse().unwrap(), moment, &mut bench.witness, &mut counting);
    }
    sender.sequence = far.sequence;
    for _ in 0..2 {
        let data = sender.data(&[(0, 10)]);
        bench.sessions.take(&data, SOURCE.parse().unwrap(), moment, &mut bench.witness, &mut counting);
    }
    assert_eq!(counting.0, [(120, 5_000_000), (5_000_120, 10), (5_000_130, 10), (120, 10), (130, 10)]);
}

/// The first index and the samples of each block.
#[derive(Default)]
struct Counting(Vec<(u64, u64)>);

impl Sink for Counting {
    fn channel(&mut self, _: &Arc<Stream>, _: &Arc<Channel>) {}
    fn block(&mut self, _: &Arc<Stream>, block: &Block<'_>) {
        self.0.push((block.first, block.samples()));
    }
    fn stream(&mut self, _: &Arc<Stream>, _: News) {}
}

#[test]
fn what_waits_is_handed_out_when_the_sender_is_far_ahead() {
    let (mut bench, mut sender) = Bench::living();
    drop(sender.data(&[(0, 10)]));
    for _ in 0..5000 {
        bench.take(&sender.data(&[(0, 1)]));
    }
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.lost, counts.waiting, counts.in_order), (1, 0, 10 + 5000));
    sender.sequence += 45_000;
    (0..2).for_each(|_| bench.take(&sender.data(&[(0, 1)])));
    let counts = bench.sessions.counts(0);
    assert_eq!((counts.lost, counts.waiting, counts.unexplained()), (1 + 45_000, 0, 0));
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
