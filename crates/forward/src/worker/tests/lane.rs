//! A lane at a socket that takes as much as a script says: nothing is lost uncounted, turned round or sent twice.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::num::NonZeroU16;
use std::sync::Arc;

use nix::libc;
use proptest::prelude::*;
use weir_dgram::{Options, Outgoing, SendProgress, Socket};
use weir_kernel::next_hops::Neighbour;
use weir_units::Size;

use super::fixture::{count, settings};
use crate::counters::InUse;
use crate::plan::Plan;
use crate::sockets::EgressSocket;
use crate::worker::batch::{Batch, Look, Part};
use crate::worker::lane::{Arrived, Lane};
use crate::worker::send::Transmit;
use crate::worker::sender::Sender;
use crate::worker::turn::{Scratch, Turn};

/// A socket that answers each call as the script says, and takes everything behind its end.
#[derive(Default)]
pub(in super::super) struct Scripted(RefCell<Script>);

#[derive(Default)]
struct Script {
    /// Datagrams that a call takes, and the error of the next one.
    answers: VecDeque<(usize, i32)>,
    /// The numbers of those that were taken.
    taken: Vec<u32>,
}

impl Transmit for Scripted {
    fn transmit(&self, messages: &[Outgoing<'_>], _: impl Fn(usize) -> Option<u8>) -> SendProgress {
        let mut script = self.0.borrow_mut();
        let (mut room, errno) = script.answers.pop_front().unwrap_or((usize::MAX, 0));
        let mut progress = SendProgress { calls: 1, ..SendProgress::default() };
        for message in messages {
            let bytes = message.pieces.iter().map(|piece| &**piece).collect::<Vec<_>>().concat();
            let each = message.segment.map_or(bytes.len(), |segment| segment.get().into());
            let datagrams: Vec<_> = bytes.chunks(each).collect();
            let taken = room.min(datagrams.len());
            let number = |datagram: &&[u8]| u32::from_be_bytes(*datagram.first_chunk().unwrap());
            script.taken.extend(datagrams[..taken].iter().map(number));
            room -= taken;
            if taken < datagrams.len() {
                progress.segments = taken;
                progress.error = Some(io::Error::from_raw_os_error(errno));
                break;
            }
            progress.messages += 1;
        }
        progress
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Runs of so many datagrams of so many bytes.
    Batch(Vec<(usize, usize)>),
    Answers(Vec<(usize, i32)>),
    /// The socket takes more, or the lane is to look after its next hop.
    Drain,
    Neighbour(Option<Neighbour>),
    LetAsk,
    /// A plan in which so many bytes may wait, and one of so many datagrams passes.
    Plan(u64, u32),
}

fn step() -> impl Strategy<Value = Step> {
    use Neighbour::{Asked, Failed, Known};
    let errno = prop::sample::select(vec![libc::EAGAIN, libc::EAGAIN, libc::EPERM, libc::ENETUNREACH, libc::EMSGSIZE]);
    let neighbours = vec![Some(Known), Some(Known), Some(Asked), Some(Failed), None];
    prop_oneof![
        4 => prop::collection::vec((1_usize..30, 4_usize..300), 1..6).prop_map(Step::Batch),
        3 => prop::collection::vec((0_usize..40, errno), 1..4).prop_map(Step::Answers),
        2 => Just(Step::Drain),
        2 => prop::sample::select(neighbours).prop_map(Step::Neighbour),
        1 => Just(Step::LetAsk),
        1 => (12_u64..18, 1_u32..4).prop_map(|(queue, every)| Step::Plan(1 << queue, every)),
    ]
}

/// Has the lane take runs as a worker does, the datagrams numbered from `number` on.
fn offer(lane: &mut Lane, batch: &mut Batch, runs: &[(usize, usize)], number: &mut u32, turn: &mut Turn<'_>) {
    let options = Options { gro: true, gso: true, ..Options::default() };
    let listener = Socket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let source = Socket::connect(None, listener.local_addr(), &options).unwrap();
    for &(datagrams, size) in runs {
        let mut bytes = Vec::new();
        for _ in 0..datagrams {
            bytes.extend(super::fixture::payload(*number, size));
            *number += 1;
        }
        let segment = NonZeroU16::new(size as u16);
        assert!(source.send(&[Outgoing { pieces: &[IoSlice::new(&bytes)], segment, to: None }]).error.is_none());
    }
    while batch.receive(&listener, Look::Now).is_ok() {
        batch.messages(None, false, None, |message, origin, received| {
            let whole = Part { message, start: 0, end: received.bytes.len(), segment: received.segment };
            let arrived = Arrived { source: origin.source, is_last_hop: false, returns: false };
            lane.offer(whole, None, arrived, turn);
        });
        lane.flush(batch, turn);
    }
}

proptest! {
    #[test]
    fn what_is_offered_is_sent_once_in_order_or_dropped_or_waits(steps in prop::collection::vec(step(), 1..30)) {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = sink.local_addr().unwrap();
        let socket = EgressSocket::Connected(Arc::new(Socket::connect(None, to, &Options::default()).unwrap()));
        let mut settings = settings(&[to]);
        let mut plan = Plan::build(Arc::new(settings.clone()), &BTreeMap::new(), None);
        let (turns, mut scratch, mut batch) = (plan.books.turns(0), Scratch::default(), Batch::new());
        let mut lane = Lane::new(0, &plan.outlets[0], socket.clone(), 1);
        lane.sender = Sender::Scripted(Scripted::default());
        let (mut offered, mut number) = (0, 0);
        // At the end the way opens, and everything leaves.
        let end = [Step::Answers(Vec::new()), Step::Neighbour(Some(Neighbour::Known)), Step::Drain];
        for step in steps.into_iter().chain(end) {
            let is_drained = matches!(step, Step::Drain);
            {
                let mut turn = Turn::begin(&turns, &mut scratch);
                let Sender::Scripted(scripted) = &lane.sender else { unreachable!() };
                match step {
                    Step::Batch(runs) => {
                        offer(&mut lane, &mut batch, &runs, &mut number, &mut turn);
                        offered = number;
                    }
                    Step::Answers(answers) => scripted.0.borrow_mut().answers = answers.into(),
                    Step::Drain => (0..4).for_each(|_| lane.drain(&mut turn)),
                    Step::Neighbour(neighbour) => {
                        plan.outlets[0].health.hop.hear(neighbour);
                    }
                    Step::LetAsk => plan.outlets[0].health.hop.let_ask(),
                    Step::Plan(queue, every) => {
                        (settings.destinations[0].queue, settings.destinations[0].every) = (Size { bytes: queue }, every);
                        plan = Plan::build(Arc::new(settings.clone()), &BTreeMap::new(), Some(&plan));
                        let sender = std::mem::replace(&mut lane.sender, Sender::None);
                        lane.adapt(&plan.outlets[0], socket.clone(), 1, &turn);
                        lane.sender = sender;
                    }
                }
            }
            let in_use = InUse { outlets: vec![&plan.outlets[0].book], ..InUse::default() };
            let ledger = plan.books.ledger(&in_use, |worker, copy| plan.books.turns(worker).read(copy).unwrap());
            let counted = count(&ledger, to);
            let Sender::Scripted(scripted) = &lane.sender else { unreachable!() };
            let script = scripted.0.borrow();
            // copies = sent + drops + queued
            prop_assert!(ledger.closed, "{:?}", counted);
            prop_assert_eq!(counted.copies.datagrams, u64::from(offered));
            prop_assert_eq!(counted.sent.datagrams, script.taken.len() as u64);
            prop_assert!(script.taken.is_sorted_by(|earlier, later| earlier < later), "{:?}", script.taken);
            prop_assert_eq!(counted.queued > 0, lane.has_backlog());
            if is_drained && script.answers.is_empty() && plan.outlets[0].health.hop.gate() == crate::health::Gate::Open {
                prop_assert_eq!((counted.queued, counted.queued_bytes), (0, 0));
            }
        }
    }

    #[test]
    fn a_full_backlog_refuses_the_newest_without_a_call(datagrams in 1_usize..400, takes in 0_usize..10) {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut settings = settings(&[sink.local_addr().unwrap()]);
        settings.destinations[0].queue = Size { bytes: 16 << 10 };
        let plan = Plan::build(Arc::new(settings), &BTreeMap::new(), None);
        let socket = EgressSocket::Connected(Arc::new(
            Socket::connect(None, sink.local_addr().unwrap(), &Options::default()).unwrap(),
        ));
        let mut lane = Lane::new(0, &plan.outlets[0], socket, 1);
        let answers = std::iter::repeat_n((1, 0), takes).chain([(0, libc::EAGAIN)]).collect();
        let script = Script { answers, taken: Vec::new() };
        lane.sender = Sender::Scripted(Scripted(RefCell::new(script)));
        let (turns, mut scratch, mut batch, mut number) = (plan.books.turns(0), Scratch::default(), Batch::new(), 0);
        let mut turn = Turn::begin(&turns, &mut scratch);
        for _ in 0..datagrams {
            offer(&mut lane, &mut batch, &[(1, 200)], &mut number, &mut turn);
        }
        lane.drain(&mut turn);
        let Sender::Scripted(scripted) = &lane.sender else { unreachable!() };
        let count = lane.count();
        let sent = count.sent.get() as u32;
        prop_assert_eq!(&scripted.0.borrow().taken, &(0..sent).collect::<Vec<_>>());
        // One for each that was taken; one that was not, and one for all that waited.
        let calls = datagrams.min(takes) + 2 * usize::from(datagrams > takes);
        prop_assert_eq!(count.calls.get(), calls as u64);
        prop_assert_eq!(count.copies.get(), datagrams as u64);
    }
}
