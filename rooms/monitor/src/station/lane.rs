//! A channel's part of a stream: thinned, and in pieces that wait for a datagram.

use std::collections::VecDeque;

use weir_program::clock::Nanos;
use weir_wire::signal::{Bucket, Cause, Element, Form, Gap, Packer, Rate};

use crate::thin::{Thinned, Thinner};

/// A channel's part of a stream.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) channel: u16,
    pub(super) rate: Rate,
    pub(super) element: Element,
    /// Time of index 0, ns since 1970 UTC.
    pub(super) origin: i64,
    /// Samples a bucket, as configured.
    pub(super) configured: u32,
    thinner: Thinner,
    /// Samples a bucket, as it is sent now; 1: each sample, 0: none.
    bucket: u32,
    pieces: VecDeque<Piece>,
    /// Values of the pieces, one behind the other.
    values: Vec<u8>,
    /// Of `values`, those that are in datagrams.
    taken: usize,
    /// When the oldest of its pieces was taken; of what is of no hurry `None`.
    pub(super) since: Option<Nanos>,
    /// Samples that are sent.
    pub(super) sent: u64,
    /// Samples that were told to be missing, by cause.
    pub(super) gaps: [u64; Cause::ALL.len()],
    /// Samples given up since more waited than is ever sent.
    pub(super) overrun: u64,
}

/// Values of one form, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    first: u64,
    /// Samples that it stands for.
    samples: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Samples,
    Buckets(u32),
    Gap(Cause),
}

/// What is in a datagram of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// Which lane.
    pub(super) lane: usize,
    first: u64,
    samples: u64,
    /// `None`: it is there.
    cause: Option<Cause>,
}

impl Packed {
    /// Samples that it stands for.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }
}

impl Lane {
    pub(super) fn new(channel: u16, rate: Rate, element: Element, origin: i64, bucket: u32) -> Self {
        Self {
            channel,
            rate,
            element,
            origin,
            configured: bucket,
            thinner: Thinner::new(bucket),
            bucket,
            pieces: VecDeque::new(),
            values: Vec::new(),
            taken: 0,
            since: None,
            sent: 0,
            gaps: [0; Cause::ALL.len()],
            overrun: 0,
        }
    }

    /// Samples a bucket, as it is sent now.
    pub(super) fn bucket(&self) -> u32 {
        self.bucket
    }

    /// Goes on with buckets of another size.
    pub(super) fn set_bucket(&mut self, bucket: u32) {
        self.flush();
        self.bucket = bucket;
        self.thinner = Thinner::new(bucket);
    }

    /// The next samples.
    pub(super) fn push(&mut self, first: u64, samples: &[f64]) {
        match self.bucket {
            0 => self.miss(first, samples.len() as u64, Cause::Unselected),
            1 => {
                self.extend(first, samples.len() as u64, What::Samples);
                samples.iter().for_each(|&value| self.element.write(value, &mut self.values));
            }
            _ => {
                let mut thinner = std::mem::replace(&mut self.thinner, Thinner::new(0));
                thinner.push(first, samples, |thinned| self.add(&thinned));
                self.thinner = thinner;
            }
        }
        self.bound();
    }

    /// The next samples are not coming.
    pub(super) fn miss(&mut self, first: u64, samples: u64, cause: Cause) {
        if samples > 0 {
            self.flush();
            self.extend(first, samples, What::Gap(cause));
        }
    }

    /// What is in a bucket that is not full goes out as it is.
    pub(super) fn flush(&mut self) {
        let mut thinner = std::mem::replace(&mut self.thinner, Thinner::new(0));
        thinner.flush(|thinned| self.add(&thinned));
        self.thinner = thinner;
    }

    fn add(&mut self, thinned: &Thinned) {
        self.extend(thinned.first, thinned.samples.into(), What::Buckets(thinned.samples));
        let Bucket { least, greatest, first, last } = thinned.bucket;
        [least, greatest, first, last].into_iter().for_each(|value| self.element.write(value, &mut self.values));
    }

    fn extend(&mut self, first: u64, samples: u64, what: What) {
        match self.pieces.back_mut() {
            Some(last) if last.what == what && last.first + last.samples == first => last.samples += samples,
            _ => self.pieces.push_back(Piece { first, samples, what }),
        }
    }

    /// Bytes that its pieces take in datagrams, about.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.values.len() - self.taken + self.pieces.len() * weir_wire::signal::BLOCK_LEN
    }

    /// Notes when what waits was taken, unless older things wait. What was not selected is of no hurry.
    pub(super) fn begin_to_wait(&mut self, now: Nanos) {
        if self.since.is_none() && self.pieces.iter().any(|piece| piece.what != What::Gap(Cause::Unselected)) {
            self.since = Some(now);
        }
    }

    /// Samples that are in no datagram yet.
    pub(super) fn waiting(&self) -> u64 {
        let open = self.thinner.open().map_or(0, |open| open.samples.into());
        self.pieces.iter().map(|piece| piece.samples).sum::<u64>() + open
    }

    /// Index behind all that is sent or told to be missing.
    pub(super) fn told(&self) -> u64 {
        self.sent + self.gaps.iter().sum::<u64>()
    }

    /// Time of an index.
    pub(super) fn time(&self, index: u64) -> i64 {
        // Beyond 2262 there is no such time.
        i64::try_from(i128::from(self.origin) + self.rate.nanos(index)).unwrap_or(i64::MAX)
    }

    /// Writes as much of its first piece as there is room for: `None`: it has none; an error: there is too little room.
    pub(super) fn pack(&mut self, lane: usize, packer: &mut Packer) -> Option<Result<Packed, Full>> {
        let piece = *self.pieces.front()?;
        let (form, values) = match piece.what {
            What::Samples => (Form::Samples, piece.samples),
            What::Buckets(bucket) => (Form::Buckets(bucket), piece.samples / u64::from(bucket)),
            What::Gap(_) => (Form::Gap, 1),
        };
        let count = values.min(packer.room(self.element, form) as u64);
        if count == 0 || count < values.min(FEW) && !packer.is_empty() {
            return Some(Err(Full));
        }
        let position = (self.channel, piece.first, self.time(piece.first));
        let (samples, cause) = match piece.what {
            What::Gap(cause) => {
                packer.gap(position, self.rate, Gap { samples: piece.samples, cause });
                (piece.samples, Some(cause))
            }
            What::Samples | What::Buckets(_) => {
                let end = self.taken + count as usize * form.size(self.element);
                // No more than a datagram has room for.
                let bytes = packer.block(position, self.rate, (self.element, form), count as u16);
                bytes.extend_from_slice(&self.values[self.taken..end]);
                self.taken = end;
                (piece.samples / values * count, None)
            }
        };
        if samples == piece.samples {
            self.pieces.pop_front();
        } else if let Some(piece) = self.pieces.front_mut() {
            piece.first += samples;
            piece.samples -= samples;
        }
        // A fast channel always has a rest that waits: what is in front of it goes as well.
        if self.taken == self.values.len() || self.taken >= MOST_TAKEN {
            self.values.drain(..self.taken);
            self.taken = 0;
        }
        Some(Ok(Packed { lane, first: piece.first, samples, cause }))
    }

    /// It is on its way.
    pub(super) fn settle(&mut self, packed: &Packed) {
        match packed.cause {
            None => self.sent += packed.samples,
            Some(cause) => self.gaps[cause as usize] += packed.samples,
        }
    }

    /// It was not taken: a gap says so, in front of all that waits. To be called for the last of a datagram first.
    pub(super) fn owe(&mut self, packed: &Packed) {
        let Packed { first, samples, .. } = *packed;
        let what = What::Gap(packed.cause.unwrap_or(Cause::Station));
        match self.pieces.front_mut() {
            Some(next) if next.what == what && first + samples == next.first => {
                next.first = first;
                next.samples += samples;
            }
            _ => self.pieces.push_front(Piece { first, samples, what }),
        }
        self.bound();
    }

    /// Nothing more is sent: what still waits is missing, and positions say so.
    pub(super) fn give_up(&mut self) {
        for Piece { samples, what, .. } in self.pieces.drain(..) {
            let cause = if let What::Gap(cause) = what { cause } else { Cause::Station };
            self.gaps[cause as usize] += samples;
        }
        self.values.clear();
        self.taken = 0;
    }

    /// Where more waits than is ever sent, it becomes one gap.
    fn bound(&mut self) {
        if self.values.len() - self.taken <= MOST_BYTES && self.pieces.len() <= MOST_PIECES {
            return;
        }
        let Some(front) = self.pieces.front() else { return };
        let (first, samples) = (front.first, self.pieces.iter().map(|piece| piece.samples).sum());
        let values = self.pieces.iter().filter(|piece| !matches!(piece.what, What::Gap(_)));
        self.overrun += values.map(|piece| piece.samples).sum::<u64>();
        self.pieces.clear();
        self.values.clear();
        self.taken = 0;
        self.pieces.push_back(Piece { first, samples, what: What::Gap(Cause::Station) });
    }
}

/// There is too little room in the datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full;

/// Fewer values than these are not worth a block of their own in the rest of a datagram.
const FEW: u64 = 8;

/// A second of a channel at a million samples a second.
const MOST_BYTES: usize = 8 << 20;

/// Values that are in datagrams, and still take room: a rest that waits is moved so seldom that it costs nothing.
const MOST_TAKEN: usize = 64 << 10;

/// Pieces that alternate, of a source with holes and a network that is down, say.
const MOST_PIECES: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// However much has been sent, what is sent does not count as waiting.
    #[test]
    fn a_channel_that_always_has_a_rest_loses_nothing() {
        let mut lane = Lane::new(1, Rate::hertz(200_000), Element::F64, 0, 1);
        let mut packer = Packer::new(1472);
        let mut next = 0;
        while next < 3 * MOST_BYTES as u64 / 8 {
            lane.push(next, &[1.0; 200]);
            next += 200;
            while lane.waiting_bytes() >= 1472
                && let Some(Ok(packed)) = lane.pack(0, &mut packer)
            {
                lane.settle(&packed);
                packer.clear();
            }
            assert!(lane.waiting() > 0 && lane.values.len() < 2 * MOST_TAKEN, "at {next}");
        }
        assert_eq!((lane.sent + lane.waiting(), lane.gaps), (next, [0; Cause::ALL.len()]));
    }

    /// What comes faster than it is sent becomes one gap, and is counted by that reason.
    #[test]
    fn what_is_never_sent_is_given_up_and_counted() {
        let mut lane = Lane::new(1, Rate::hertz(1_000_000), Element::F64, 0, 1);
        lane.miss(0, 7, Cause::Source);
        let most = MOST_BYTES as u64 / 8;
        (0..most / 1000).for_each(|part| lane.push(7 + part * 1000, &[1.0; 1000]));
        assert_eq!(lane.overrun, 0);
        lane.push(7 + most / 1000 * 1000, &[1.0; 1000]);
        let given_up = most / 1000 * 1000 + 1000;
        assert_eq!((lane.overrun, lane.waiting()), (given_up, 7 + given_up));
        let mut packer = Packer::new(1472);
        while let Some(Ok(packed)) = lane.pack(0, &mut packer) {
            lane.settle(&packed);
        }
        assert_eq!((lane.sent, lane.gaps[Cause::Station as usize]), (0, 7 + given_up));
    }

    /// At the end nobody waits any more: positions tell what is missing.
    #[test]
    fn what_still_waits_at_the_end_is_missing() {
        let mut lane = Lane::new(1, Rate::hertz(1000), Element::F32, 0, 10);
        lane.push(0, &[1.0; 25]);
        lane.miss(25, 5, Cause::Source);
        lane.flush();
        lane.give_up();
        assert_eq!((lane.told(), lane.waiting(), lane.waiting_bytes()), (30, 0, 0));
        assert_eq!((lane.gaps[Cause::Station as usize], lane.gaps[Cause::Source as usize]), (25, 5));
    }

    proptest! {
        /// Whatever is pushed, missed, thinned anew, sent and not taken: each index goes out once, in order.
        #[test]
        fn every_index_is_told_once(
            steps in proptest::collection::vec((0..5_u8, 1..500_u64), 1..60),
            room in 100..1472_usize,
        ) {
            let mut lane = Lane::new(1, Rate::hertz(1000), Element::F32, 0, 10);
            let (mut packer, mut next, mut told) = (Packer::new(room), 0, 0);
            let header = weir_wire::signal::Header {
                kind: Default::default(), flags: Default::default(), clock: Default::default(), count: 0, session: 0, sequence: 0,
            };
            let steps = steps.into_iter().chain([(4, 1)]);
            for (step, number) in steps {
                match step {
                    0 => {
                        lane.push(next, &vec![1.0; number as usize]);
                        next += number;
                    }
                    1 => {
                        lane.miss(next, number, Cause::Source);
                        next += number;
                    }
                    2 => lane.set_bucket(number as u32 % 12),
                    _ => {
                        if step == 4 {
                            lane.flush();
                        }
                        // Every third datagram is not taken, until there is little left.
                        let mut sends = 0;
                        loop {
                            let mut packed = Vec::new();
                            while let Some(Ok(one)) = lane.pack(0, &mut packer) {
                                packed.push(one);
                            }
                            if packed.is_empty() {
                                break;
                            }
                            sends += 1;
                            if sends % 3 == 2 {
                                packed.iter().rev().for_each(|one| lane.owe(one));
                            } else {
                                let bytes = packer.finish(header);
                                prop_assert!(bytes.len() <= room.max(92));
                                let Ok(datagram) = weir_wire::signal::Datagram::parse(bytes) else { panic!("no datagram") };
                                let weir_wire::signal::Body::Data(blocks) = datagram.body else { panic!("no data") };
                                for block in blocks {
                                    prop_assert_eq!(block.first, told);
                                    told = block.end();
                                }
                                packed.iter().for_each(|one| lane.settle(one));
                            }
                            packer.clear();
                        }
                    }
                }
                prop_assert_eq!((lane.told(), lane.told() + lane.waiting()), (told, next));
            }
            prop_assert_eq!(told, next);
        }
    }
}
