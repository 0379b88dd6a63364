//! Datagrams joined into messages that the kernel cuts again (UDP_SEGMENT, udp(7)), without a copy.
//!
//! A message is datagrams of one size, of which the last may be shorter; a run that arrived joined (UDP_GRO) is such a
//! message already. Neighbours of equal size are added to it as further pieces of memory, up to the kernel's limits.
//! Order and boundaries are kept; an empty datagram stands alone, for it would vanish in a message.

use std::io::IoSlice;
use std::num::NonZeroU16;
use std::ops::Range;

use weir_dgram::{MAX_RUN_BYTES, MAX_SEGMENTS};

/// Datagrams of one sender, one behind another in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run<'a> {
    /// What precedes each datagram's part of `body`; mostly nothing.
    pub(super) head: &'a [u8],
    /// Their payloads.
    pub(super) body: &'a [u8],
    /// Bytes of `body` in each but the last, which may have less; `None`: it is one datagram.
    pub(super) segment: Option<NonZeroU16>,
    /// Hops with which it may leave; 0: nobody knows.
    pub(super) hops: u8,
}

/// A message: some pieces of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// Which of the pieces.
    pub(super) pieces: Range<usize>,
    /// Bytes of each datagram but the last; `None`: it is one.
    pub(super) segment: Option<NonZeroU16>,
    /// How many datagrams.
    pub(super) datagrams: usize,
    /// As [`Run::hops`] of each.
    pub(super) hops: u8,
}

/// Joins what can be joined. Adds pieces and messages.
pub(super) fn join<'a>(runs: impl Iterator<Item = Run<'a>>, pieces: &mut Vec<IoSlice<'a>>, messages: &mut Vec<Joined>) {
    let mut open = Open::default();
    for run in runs {
        let each = run.each();
        let mut rest = run.body;
        loop {
            let size = run.head.len() + each.min(rest.len());
            let mut fit = open.room(size, run.hops);
            if fit == 0 {
                open.close(pieces, messages);
                fit = open.room(size, run.hops).max(1);
            }
            open.hops = run.hops;
            // As many whole datagrams as fit, in one piece if nothing comes between them.
            let bytes = if each == 0 { 0 } else { fit.saturating_mul(each).min(rest.len()) };
            let (body, others) = rest.split_at(bytes);
            open.add(run.head, body, each, pieces);
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
    }
    open.close(pieces, messages);
}

impl<'a> Run<'a> {
    /// The datagrams, each as a run of its own.
    pub(super) fn singles(self) -> impl Iterator<Item = Self> {
        let each = self.each().max(1);
        let count = self.body.len().div_ceil(each).max(1);
        let end = move |number: usize| self.body.len().min(number * each);
        (0..count).map(move |number| Run { body: &self.body[end(number)..end(number + 1)], segment: None, ..self })
    }

    /// How many datagrams.
    pub(super) fn datagrams(&self) -> usize {
        self.body.len().div_ceil(self.each().max(1)).max(1)
    }

    /// Bytes of `body` in each datagram but the last.
    pub(super) fn each(&self) -> usize {
        self.segment.map_or(self.body.len(), |segment| segment.get().into())
    }
}

/// The message that is being put together.
#[derive(Default)]
struct Open {
    first_piece: usize,
    datagrams: usize,
    bytes: usize,
    /// Of the first datagram.
    size: usize,
    hops: u8,
    /// Nothing may follow.
    complete: bool,
}

impl Open {
    /// How many datagrams of this size, or of this size and a shorter last one, may be added with these hops.
    fn room(&self, size: usize, hops: u8) -> usize {
        if self.datagrams == 0 {
            // The first is taken whatever it is; what the protocol does not allow, the kernel refuses.
            return MAX_RUN_BYTES.checked_div(size).map_or(1, |most| most.clamp(1, MAX_SEGMENTS));
        }
        if self.complete || size == 0 || size > self.size || hops != self.hops {
            return 0;
        }
        let left = MAX_SEGMENTS - self.datagrams;
        let most = if size < self.size { left.min(1) } else { left };
        most.min((MAX_RUN_BYTES.saturating_sub(self.bytes)) / size)
    }

    /// Adds datagrams of `head` and `each` bytes of `body`, for which there is room.
    fn add<'a>(&mut self, head: &'a [u8], body: &'a [u8], each: usize, pieces: &mut Vec<IoSlice<'a>>) {
        if self.datagrams == 0 {
            self.size = head.len() + each.min(body.len());
            self.first_piece = pieces.len();
            self.complete = self.size == 0;
        }
        let datagrams = if each == 0 { 1 } else { body.len().div_ceil(each).max(1) };
        let last = head.len() + body.len() - each * (datagrams - 1);
        if head.is_empty() {
            pieces.push(IoSlice::new(body));
        } else {
            for number in 0..datagrams {
                let start = number * each;
                pieces.push(IoSlice::new(head));
                pieces.push(IoSlice::new(&body[start..body.len().min(start + each)]));
            }
        }
        self.datagrams += datagrams;
        self.bytes += head.len() * datagrams + body.len();
        self.complete |= last < self.size || self.size > MAX_RUN_BYTES;
    }

    fn close(&mut self, pieces: &[IoSlice<'_>], messages: &mut Vec<Joined>) {
        if self.datagrams > 0 {
            let size = u16::try_from(self.size).ok().filter(|_| self.datagrams > 1);
            messages.push(Joined {
                pieces: self.first_piece..pieces.len(),
                segment: size.and_then(NonZeroU16::new),
                datagrams: self.datagrams,
                hops: self.hops,
            });
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel makes of a message.
    fn cut(message: &Joined, pieces: &[IoSlice<'_>]) -> Vec<Vec<u8>> {
        let payload: Vec<u8> = pieces[message.pieces.clone()].iter().flat_map(|piece| piece.to_vec()).collect();
        match message.segment {
            None => vec![payload],
            Some(segment) => payload.chunks(segment.get().into()).map(<[u8]>::to_vec).collect(),
        }
    }

    fn joined(runs: &[Run<'_>]) -> (Vec<Joined>, Vec<Vec<u8>>) {
        let (mut pieces, mut messages) = (Vec::new(), Vec::new());
        join(runs.iter().copied(), &mut pieces, &mut messages);
        let datagrams = messages.iter().flat_map(|message| cut(message, &pieces)).collect();
        (messages, datagrams)
    }

    fn sizes(messages: &[Joined]) -> Vec<usize> {
        messages.iter().map(|message| message.datagrams).collect()
    }

    fn single(body: &[u8]) -> Run<'_> {
        Run { body, ..Run::default() }
    }

    fn run(body: &[u8], segment: u16) -> Run<'_> {
        Run { body, segment: NonZeroU16::new(segment), ..Run::default() }
    }

    #[test]
    fn equal_neighbours_leave_together_and_a_shorter_one_ends_them() {
        let (long, short) = ([1; 1000], [2; 999]);
        let runs = [single(&long), single(&long), single(&short), single(&long), single(&short), single(&short)];
        let (messages, _) = joined(&runs);
        assert_eq!(sizes(&messages), [3, 2, 1]);
        assert_eq!(messages[0].segment, NonZeroU16::new(1000));
        assert_eq!(messages[2].segment, None, "one datagram needs no cutting");
    }

    #[test]
    fn a_shorter_one_is_not_the_65th() {
        let (messages, _) = joined(&[run(&[0; 128], 2), single(&[0])]);
        assert_eq!(sizes(&messages), [64, 1]);
    }

    #[test]
    fn a_longer_one_begins_anew() {
        let (messages, _) = joined(&[single(&[0; 10]), single(&[0; 20]), single(&[0; 20])]);
        assert_eq!(sizes(&messages), [1, 2]);
    }

    #[test]
    fn an_empty_datagram_stands_alone() {
        let (messages, datagrams) = joined(&[single(&[]), single(&[]), single(&[7]), single(&[]), single(&[7])]);
        assert_eq!(sizes(&messages), [1, 1, 1, 1, 1]);
        assert_eq!(datagrams, [vec![], vec![], vec![7], vec![], vec![7]]);
    }

    #[test]
    fn a_run_leaves_as_one_piece() {
        let body = [3; 40_500];
        let (mut pieces, mut messages) = (Vec::new(), Vec::new());
        join([run(&body, 1000)].into_iter(), &mut pieces, &mut messages);
        assert_eq!((pieces.len(), sizes(&messages)), (1, vec![41]));
    }

    #[test]
    fn runs_fill_messages_up_to_the_limits() {
        let body = [3; 40 * 100];
        let (messages, _) = joined(&[run(&body, 100), run(&body, 100), run(&body, 100)]);
        assert_eq!(sizes(&messages), [64, 56]);
        let body = [3; 40 * 1400];
        let (messages, _) = joined(&[run(&body, 1400), run(&body, 1400)]);
        assert_eq!(sizes(&messages), [46, 34], "65,507 bytes hold 46 of 1,400");
    }

    #[test]
    fn what_no_message_holds_is_left_to_the_kernel() {
        let huge = vec![0; 65_527];
        let (messages, _) = joined(&[single(&huge), single(&huge), single(&[1])]);
        assert_eq!(sizes(&messages), [1, 1, 1]);
        assert!(messages.iter().all(|message| message.segment.is_none()));
    }

    #[test]
    fn a_head_precedes_every_datagram() {
        let (messages, datagrams) =
            joined(&[Run { head: b"<>", ..run(b"abcde", 2) }, Run { head: b"[]", ..single(b"xy") }]);
        assert_eq!(datagrams, [&b"<>ab"[..], b"<>cd", b"<>e", b"[]xy"]);
        assert_eq!(sizes(&messages), [3, 1]);
    }

    #[test]
    fn a_run_is_its_datagrams() {
        let bodies = |run: Run<'static>| run.singles().map(|one| one.body.to_vec()).collect::<Vec<_>>();
        assert_eq!(bodies(run(b"abcde", 2)), [&b"ab"[..], b"cd", b"e"]);
        assert_eq!(bodies(single(b"abc")), [b"abc"]);
        assert_eq!(bodies(single(b"")), [b""], "an empty one is one");
        assert!(Run { head: b"<", ..run(b"abcd", 2) }.singles().all(|one| one.head == b"<" && one.segment.is_none()));
    }

    /// A run as bytes of its own.
    #[derive(Clone, Debug)]
    struct Owned {
        head: Vec<u8>,
        body: Vec<u8>,
        segment: Option<NonZeroU16>,
    }

    fn owned() -> impl Strategy<Value = Owned> {
        // Few sizes, so that neighbours are equal often; some beyond what a message holds.
        let size =
            prop_oneof![Just(0_usize), 1..4_usize, Just(100), Just(1472), Just(30_000), Just(65_507), Just(65_527)];
        let one = size.prop_map(|size| (size, None));
        let many = (prop_oneof![1..4_u16, Just(100), Just(1472)], 2..65_usize, 0..1472_usize).prop_map(
            |(each, count, less)| {
                let bytes = (usize::from(each) * count - less % usize::from(each)).min(65_535);
                (bytes, NonZeroU16::new(each))
            },
        );
        let head = prop_oneof![4 => Just(0_usize), 1 => Just(28), 1 => Just(52)];
        (head, prop_oneof![3 => one, 1 => many], any::<u8>()).prop_map(|(head, (bytes, segment), seed)| Owned {
            head: vec![seed ^ 0xff; head],
            body: (0..bytes).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect(),
            segment,
        })
    }

    proptest! {
        #[test]
        fn what_leaves_is_what_came(owned in prop::collection::vec(owned(), 0..40)) {
            let runs: Vec<Run<'_>> =
                owned.iter().map(|run| Run { head: &run.head, body: &run.body, segment: run.segment, hops: 0 }).collect();
            let mut expected = Vec::new();
            for run in &owned {
                let each = run.segment.map_or(run.body.len().max(1), |segment| segment.get().into());
                let bodies: Vec<&[u8]> = if run.body.is_empty() { vec![&[]] } else { run.body.chunks(each).collect() };
                expected.extend(bodies.into_iter().map(|body| [&run.head[..], body].concat()));
            }
            let (mut pieces, mut messages) = (Vec::new(), Vec::new());
            join(runs.iter().copied(), &mut pieces, &mut messages);
            let mut datagrams = Vec::new();
            for message in &messages {
                let cut = cut(message, &pieces);
                prop_assert_eq!(cut.len(), message.datagrams);
                prop_assert!(message.datagrams <= 64);
                prop_assert!(message.pieces.len() <= 128);
                if message.datagrams > 1 {
                    prop_assert!(cut.iter().map(Vec::len).sum::<usize>() <= 65_507);
                    prop_assert!(cut.iter().all(|datagram| !datagram.is_empty()));
                }
                datagrams.extend(cut);
            }
            prop_assert!(datagrams == expected, "payloads differ");
        }
    }
}
