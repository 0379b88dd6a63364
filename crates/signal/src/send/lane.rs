//! A channel's part of a stream: thinned, and in pieces that wait for a datagram.

use std::collections::VecDeque;

use weir_program::clock::Nanos;
use weir_wire::signal::{BLOCK_LEN, Block, Bucket, Cause, Channel, Element, Form, Gap, Packer, Rate, Values};

use crate::thin::{Thinned, Thinner};

/// A channel's part of a stream.
#[derive(Debug)]
pub struct Lane {
    /// As it is described.
    pub channel: Channel,
    /// Whether it was described: nothing of it is sent before.
    pub(super) is_described: bool,
    /// How fast samples follow.
    pub rate: Rate,
    pub(super) element: Element,
    /// Time of index 0, ns since 1970 UTC.
    pub origin: i64,
    thinner: Thinner,
    pieces: VecDeque<Piece>,
    /// Values of the pieces, one behind the other.
    values: Vec<u8>,
    /// Of `values`, those that are in datagrams.
    taken: usize,
    /// When the oldest of its pieces was taken.
    pub(super) since: Option<Nanos>,
    /// Index behind all that is sent or told to be missing.
    pub(super) told: u64,
    /// Samples that are sent.
    pub sent: u64,
    /// Samples that were told to be missing, by cause.
    pub gaps: [u64; Cause::ALL.len()],
    /// Samples given up since more waited than is ever sent.
    pub overrun: u64,
    /// Whose fault it is that samples are not sent.
    pub(super) fault: Cause,
}

/// Values of one form, one after another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    first: u64,
    /// Samples that it stands for.
    samples: u64,
    form: Form,
    /// Of a gap.
    cause: Cause,
    element: Element,
    rate: Rate,
    /// Time of index 0.
    origin: i64,
}

/// What is in a datagram of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packed {
    /// Which lane.
    pub(super) channel: u16,
    piece: Piece,
}

impl Packed {
    /// Samples that it stands for.
    pub(super) fn samples(&self) -> u64 {
        self.piece.samples
    }
}

impl Lane {
    /// Of a channel whose first sample has that index; `bucket`: samples a bucket, 1: each sample.
    pub fn new(channel: Channel, first: u64, origin: i64, bucket: u32) -> Self {
        Self {
            is_described: false,
            rate: channel.rate,
            element: channel.element,
            channel,
            origin,
            thinner: Thinner::new(bucket),
            pieces: VecDeque::new(),
            values: Vec::new(),
            taken: 0,
            since: None,
            told: first,
            sent: 0,
            gaps: [0; Cause::ALL.len()],
            overrun: 0,
            fault: Cause::Station,
        }
    }

    /// Samples a bucket, as it is sent now.
    pub(super) fn bucket(&self) -> u32 {
        self.thinner.bucket()
    }

    /// Goes on with buckets of another size.
    pub fn set_bucket(&mut self, bucket: u32) {
        if bucket != self.bucket() {
            self.flush();
            self.thinner = Thinner::new(bucket);
        }
    }

    /// The next samples.
    pub(super) fn push(&mut self, first: u64, samples: &[f64]) {
        if self.bucket() == 1 {
            self.extend(first, samples.len() as u64, Form::Samples, Cause::Unknown);
            samples.iter().for_each(|&value| self.element.write(value, &mut self.values));
        } else {
            self.thin(|thinner, emit| thinner.push(first, samples, emit));
        }
        self.bound();
    }

    /// The next samples as another has sent them; what is thinner already stays as it is.
    pub(super) fn push_block(&mut self, block: &Block<'_>) {
        let (element, values, each) = match block.values {
            Values::Samples(element, values) => (element, values, 1),
            Values::Buckets(element, bucket, values) => (element, values, bucket),
            Values::Gap(gap) => {
                self.flush();
                self.rate = block.rate;
                self.set_time(block);
                return self.miss(block.first, gap.samples, gap.cause);
            }
        };
        let is_thin = each >= self.bucket();
        if is_thin || (self.element, self.rate) != (element, block.rate) {
            self.flush();
        }
        (self.element, self.rate) = (element, block.rate);
        self.set_time(block);
        if is_thin {
            self.extend(block.first, block.samples(), block.values.form(), Cause::Unknown);
            self.values.extend_from_slice(values);
        } else {
            self.thin(|thinner, emit| thinner.push_block(block, emit));
        }
        self.bound();
    }

    /// Times follow those of a block.
    fn set_time(&mut self, block: &Block<'_>) {
        let origin = i128::from(block.time) - block.rate.nanos(block.first);
        self.origin = i64::try_from(origin).unwrap_or(self.origin);
    }

    /// The next samples are not coming.
    pub(super) fn miss(&mut self, first: u64, samples: u64, cause: Cause) {
        if samples > 0 {
            self.flush();
            self.extend(first, samples, Form::Gap, cause);
        }
    }

    /// What is in a bucket that is not full goes out as it is.
    pub fn flush(&mut self) {
        self.thin(|thinner, emit| thinner.flush(emit));
    }

    fn thin(&mut self, with: impl FnOnce(&mut Thinner, &mut dyn FnMut(Thinned))) {
        let mut thinner = std::mem::replace(&mut self.thinner, Thinner::new(1));
        with(&mut thinner, &mut |Thinned { first, samples, bucket }| {
            self.extend(first, samples.into(), Form::Buckets(samples), Cause::Unknown);
            let Bucket { least, greatest, first, last } = bucket;
            [least, greatest, first, last].into_iter().for_each(|value| self.element.write(value, &mut self.values));
        });
        self.thinner = thinner;
    }

    fn extend(&mut self, first: u64, samples: u64, form: Form, cause: Cause) {
        let Self { element, rate, origin, .. } = *self;
        let piece = Piece { first, samples, form, cause, element, rate, origin };
        match self.pieces.back_mut() {
            Some(last) if Piece { first, samples, ..*last } == piece && last.first + last.samples == first => {
                last.samples += samples;
            }
            _ => self.pieces.push_back(piece),
        }
    }

    /// Bytes that its pieces take in datagrams, about.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.values.len() - self.taken + self.pieces.len() * BLOCK_LEN
    }

    /// Notes when what waits was taken, unless older things wait.
    pub(super) fn begin_to_wait(&mut self, now: Nanos) {
        if !self.pieces.is_empty() {
            self.since.get_or_insert(now);
        }
    }

    /// Samples that are in no datagram yet.
    pub fn waiting(&self) -> u64 {
        let open = self.thinner.open().map_or(0, |open| open.samples.into());
        self.pieces.iter().map(|piece| piece.samples).sum::<u64>() + open
    }

    /// What waits, but for a bucket that is not full.
    pub fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let mut rest = &self.values[self.taken..];
        self.pieces.iter().map(move |&Piece { first, samples, form, cause, element, rate, origin }| {
            let (bucket, gap) = (if let Form::Buckets(bucket) = form { bucket } else { 1 }, Gap { samples, cause });
            let length =
                if form == Form::Gap { 0 } else { (samples / u64::from(bucket)) as usize * form.size(element) };
            let bytes = rest.split_off(..length).unwrap_or_default();
            let values = match form {
                Form::Samples => Values::Samples(element, bytes),
                Form::Buckets(bucket) => Values::Buckets(element, bucket, bytes),
                Form::Gap => Values::Gap(gap),
            };
            Block { channel: self.channel.id, first, time: rate.after(origin, first), rate, values }
        })
    }

    /// Bytes that it makes in a second, about.
    pub(super) fn bytes_per_s(&self) -> f64 {
        let value = self.element.size() as f64;
        let each = if self.bucket() > 1 { 4.0 * value / f64::from(self.bucket()) } else { value };
        self.rate.per_s() * each
    }

    /// Writes as much of its first piece as there is room for: `None`: it has none; an error: there is too little room.
    pub(super) fn pack(&mut self, packer: &mut Packer) -> Option<Result<Packed, Full>> {
        let piece = *self.pieces.front()?;
        let values = match piece.form {
            Form::Samples => piece.samples,
            Form::Buckets(bucket) => piece.samples / u64::from(bucket),
            Form::Gap => 1,
        };
        let count = values.min(packer.room(piece.element, piece.form) as u64);
        if count == 0 || count < values.min(FEW) && !packer.is_empty() {
            return Some(Err(Full));
        }
        // Beyond 2262 there is no such time.
        let time = i64::try_from(i128::from(piece.origin) + piece.rate.nanos(piece.first)).unwrap_or(i64::MAX);
        let position = (self.channel.id, piece.first, time);
        let samples = piece.samples / values * count;
        if piece.form == Form::Gap {
            packer.gap(position, piece.rate, Gap { samples, cause: piece.cause });
        } else {
            let end = self.taken + count as usize * piece.form.size(piece.element);
            // No more than a datagram has room for.
            let bytes = packer.block(position, piece.rate, (piece.element, piece.form), count as u16);
            bytes.extend_from_slice(&self.values[self.taken..end]);
            self.taken = end;
        }
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
        Some(Ok(Packed { channel: self.channel.id, piece: Piece { samples, ..piece } }))
    }

    /// It is on its way.
    pub(super) fn settle(&mut self, Packed { piece, .. }: &Packed) {
        match piece.form {
            Form::Gap => self.gaps[piece.cause as usize] += piece.samples,
            _ => self.sent += piece.samples,
        }
        self.told = piece.first + piece.samples;
    }

    /// It was not taken: a gap says so, in front of all that waits. To be called for the last of a datagram first.
    pub(super) fn owe(&mut self, packed: &Packed) {
        let gap = self.gap_of(packed.piece);
        match self.pieces.front_mut() {
            Some(next)
                if next.form == Form::Gap && next.cause == gap.cause && gap.first + gap.samples == next.first =>
            {
                *next = Piece { samples: gap.samples + next.samples, ..gap };
            }
            _ => self.pieces.push_front(gap),
        }
        self.bound();
    }

    /// A gap is whose fault it was.
    fn gap_of(&self, piece: Piece) -> Piece {
        let cause = if piece.form == Form::Gap { piece.cause } else { self.fault };
        Piece { form: Form::Gap, cause, ..piece }
    }

    /// Nothing more is sent: what still waits is missing, and positions say so.
    pub(super) fn give_up(&mut self) {
        for piece in std::mem::take(&mut self.pieces) {
            let piece = self.gap_of(piece);
            self.settle(&Packed { channel: self.channel.id, piece });
        }
        self.values.clear();
        self.taken = 0;
    }

    /// Where more waits than is ever sent, it becomes one gap.
    fn bound(&mut self) {
        if self.values.len() - self.taken <= MOST_BYTES && self.pieces.len() <= MOST_PIECES {
            return;
        }
        let Some(&front) = self.pieces.front() else { return };
        let values = self.pieces.iter().filter(|piece| piece.form != Form::Gap);
        self.overrun += values.map(|piece| piece.samples).sum::<u64>();
        let samples = self.pieces.iter().map(|piece| piece.samples).sum();
        self.pieces.clear();
        self.values.clear();
        self.taken = 0;
        self.pieces.push_back(Piece { samples, form: Form::Gap, cause: self.fault, ..front });
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

    fn lane(hertz: u32, element: Element, bucket: u32) -> Lane {
        let channel = Channel { rate: Rate::hertz(hertz), element, ..Channel::default() };
        Lane::new(channel, 0, 0, bucket)
    }

    /// However much has been sent, what is sent does not count as waiting.
    #[test]
    fn a_channel_that_always_has_a_rest_loses_nothing() {
        let mut lane = lane(200_000, Element::F64, 1);
        let mut packer = Packer::new(1472);
        let mut next = 0;
        while next < 3 * MOST_BYTES as u64 / 8 {
            lane.push(next, &[1.0; 200]);
            next += 200;
            while lane.waiting_bytes() >= 1472
                && let Some(Ok(packed)) = lane.pack(&mut packer)
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
        let mut lane = lane(1_000_000, Element::F64, 1);
        lane.miss(0, 7, Cause::Source);
        let most = MOST_BYTES as u64 / 8;
        (0..most / 1000).for_each(|part| lane.push(7 + part * 1000, &[1.0; 1000]));
        assert_eq!(lane.overrun, 0);
        lane.push(7 + most / 1000 * 1000, &[1.0; 1000]);
        let given_up = most / 1000 * 1000 + 1000;
        assert_eq!((lane.overrun, lane.waiting()), (given_up, 7 + given_up));
        let mut packer = Packer::new(1472);
        while let Some(Ok(packed)) = lane.pack(&mut packer) {
            lane.settle(&packed);
        }
        assert_eq!((lane.sent, lane.gaps[Cause::Station as usize]), (0, 7 + given_up));
    }

    /// At the end nobody waits any more: positions tell what is missing.
    #[test]
    fn what_still_waits_at_the_end_is_missing() {
        let mut lane = lane(1000, Element::F32, 10);
        lane.push(0, &[1.0; 25]);
        lane.miss(25, 5, Cause::Source);
        lane.flush();
        lane.give_up();
        assert_eq!((lane.told, lane.waiting(), lane.waiting_bytes()), (30, 0, 0));
        assert_eq!((lane.gaps[Cause::Station as usize], lane.gaps[Cause::Source as usize]), (25, 5));
    }

    proptest! {
        /// Whatever is pushed, missed, thinned anew, sent and not taken: each index goes out once, in order.
        #[test]
        fn every_index_is_told_once(
            steps in proptest::collection::vec((0..5_u8, 1..500_u64), 1..60),
            room in 100..1472_usize,
        ) {
            let mut lane = lane(1000, Element::F32, 10);
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
                    2 => lane.set_bucket(number as u32 % 12 + 1),
                    _ => {
                        if step == 4 {
                            lane.flush();
                        }
                        // Every third datagram is not taken, until there is little left.
                        let mut sends = 0;
                        loop {
                            let mut packed = Vec::new();
                            while let Some(Ok(one)) = lane.pack(&mut packer) {
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
                prop_assert_eq!((lane.told, lane.told + lane.waiting()), (told, next));
            }
            prop_assert_eq!(told, next);
        }
    }
}
