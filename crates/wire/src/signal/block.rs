//! Samples of one channel, one after another.

use super::Malformed;

/// Bytes of a block in front of its values.
pub const BLOCK_LEN: usize = 36;

/// Bytes that the value of a gap takes.
pub const GAP_LEN: usize = 12;

/// A block of a datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block<'a> {
    /// Which channel, as the metadata has it.
    pub channel: u16,
    /// Index of the first sample that it stands for.
    pub first: u64,
    /// When that was, ns since 1970 UTC.
    pub time: i64,
    /// How fast samples follow.
    pub rate: Rate,
    /// What it has.
    pub values: Values<'a>,
}

/// How fast samples follow one another: exactly, in ticks of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Ticks of a second, at least 1.
    pub per_second: u32,
    /// Ticks from one sample to the next, at least 1.
    pub per_sample: u32,
}

/// What a value is on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE 754 binary32.
    #[default]
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Two's complement, 16 bits.
    I16,
    /// Two's complement, 32 bits.
    I32,
}

/// What a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Each sample.
    Samples,
    /// Of so many samples each, the least, the greatest, the first and the last.
    Buckets(u32),
    /// None of the samples.
    Gap,
}

/// The values of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// Each sample.
    Samples(Element, &'a [u8]),
    /// Least, greatest, first and last of so many samples each.
    Buckets(Element, u32, &'a [u8]),
    /// None.
    Gap(Gap),
}

/// Samples that are not coming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gap {
    /// How many, at least 1.
    pub samples: u64,
    /// Where they were lost.
    pub cause: Cause,
}

/// Where samples were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Nobody knows.
    #[default]
    Unknown = 0,
    /// Before the station: a source that overran or stood still.
    Source = 1,
    /// Nowhere: they were not wanted.
    Unselected = 2,
    /// In the station, or below it: its kernel did not take them.
    Station = 3,
    /// Between the machines.
    Network = 4,
    /// In the interface or kernel of the receiving machine, in front of the socket.
    Host = 5,
    /// In the receive buffer of the socket.
    Socket = 6,
    /// In the server, which could not keep up, or ended.
    Server = 7,
    /// In the viewer.
    Viewer = 8,
    /// Nowhere: nothing ran that would have taken them. How many would have been due follows from the time.
    Restart = 9,
}

/// What a bucket says of its samples. Samples that are not numbers do not count, where others are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    /// The first.
    pub first: f64,
    /// The last.
    pub last: f64,
}

/// A block with values of its own: it outlives its datagram.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedBlock {
    /// The block without its values.
    head: Block<'static>,
    values: Vec<u8>,
}

/// The blocks of a datagram, checked.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    rest: &'a [u8],
    left: u16,
}

impl Rate {
    /// So many samples a second.
    pub fn hertz(hertz: u32) -> Self {
        Self { per_second: hertz.max(1), per_sample: 1 }
    }

    /// Samples a second.
    pub fn per_s(self) -> f64 {
        f64::from(self.per_second) / f64::from(self.per_sample)
    }

    /// Nanoseconds from the first of so many steps to the last, exact but for the last nanosecond.
    pub fn nanos(self, samples: u64) -> i128 {
        i128::from(samples) * i128::from(self.per_sample) * 1_000_000_000 / i128::from(self.per_second)
    }

    /// The time so many samples after another, ns, as near as it can be written.
    pub fn after(self, time: i64, samples: u64) -> i64 {
        near(i128::from(time) + self.nanos(samples))
    }

    /// The time so many samples before another, ns, as near as it can be written.
    pub fn before(self, time: i64, samples: u64) -> i64 {
        near(i128::from(time) - self.nanos(samples))
    }

    /// Whole samples in so many nanoseconds; of a negative time none.
    pub fn samples(self, nanos: i128) -> u64 {
        let samples = nanos.max(0) * i128::from(self.per_second) / (i128::from(self.per_sample) * 1_000_000_000);
        u64::try_from(samples).unwrap_or(u64::MAX)
    }
}

impl Element {
    /// Bytes of a value.
    pub fn size(self) -> usize {
        match self {
            Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }

    /// By its number on the wire.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::F32, Self::F64, Self::I16, Self::I32].get(usize::from(code)).copied()
    }

    /// The value at an index of `bytes`, which has that many.
    pub fn read(self, bytes: &[u8], index: usize) -> f64 {
        let at = index * self.size();
        match self {
            Self::F32 => f32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])).into(),
            Self::F64 => f64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])),
            Self::I16 => i16::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])).into(),
            Self::I32 => i32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])).into(),
        }
    }

    /// Appends a value; what an integer cannot hold becomes its nearest, what is not a number 0.
    pub fn write(self, value: f64, bytes: &mut Vec<u8>) {
        match self {
            Self::F32 => bytes.extend((value as f32).to_le_bytes()),
            Self::F64 => bytes.extend(value.to_le_bytes()),
            Self::I16 => bytes.extend((value.round() as i16).to_le_bytes()),
            Self::I32 => bytes.extend((value.round() as i32).to_le_bytes()),
        }
    }
}

impl Form {
    /// Bytes of one of its values: a sample, a bucket, a gap.
    pub fn size(self, element: Element) -> usize {
        match self {
            Self::Samples => element.size(),
            Self::Buckets(_) => 4 * element.size(),
            Self::Gap => GAP_LEN,
        }
    }
}

impl Cause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Unknown,
        Self::Source,
        Self::Unselected,
        Self::Station,
        Self::Network,
        Self::Host,
        Self::Socket,
        Self::Server,
        Self::Viewer,
        Self::Restart,
    ];

    /// By its number on the wire; one of a later version is unknown.
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or_default()
    }

    /// By which metrics and pages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Source => "source",
            Self::Unselected => "unselected",
            Self::Station => "station",
            Self::Network => "network",
            Self::Host => "host",
            Self::Socket => "socket",
            Self::Server => "server",
            Self::Viewer => "viewer",
            Self::Restart => "restart",
        }
    }
}

impl<'a> Values<'a> {
    /// How the block has them.
    pub fn form(&self) -> Form {
        match *self {
            Self::Samples(..) => Form::Samples,
            Self::Buckets(_, bucket, _) => Form::Buckets(bucket),
            Self::Gap(_) => Form::Gap,
        }
    }

    /// As on the wire; of a gap none.
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Self::Samples(_, bytes) | Self::Buckets(_, _, bytes) => bytes,
            Self::Gap(_) => &[],
        }
    }

    /// The same with other bytes.
    pub fn with<'b>(&self, bytes: &'b [u8]) -> Values<'b> {
        match *self {
            Self::Samples(element, _) => Values::Samples(element, bytes),
            Self::Buckets(element, bucket, _) => Values::Buckets(element, bucket, bytes),
            Self::Gap(gap) => Values::Gap(gap),
        }
    }

    /// Parted after so many samples, buckets, or samples of a gap.
    fn split_at(&self, count: u64) -> (Self, Self) {
        match *self {
            Self::Samples(element, bytes) | Self::Buckets(element, _, bytes) => {
                let (before, after) = bytes.split_at(count as usize * self.form().size(element));
                (self.with(before), self.with(after))
            }
            Self::Gap(gap) => {
                let part = |samples| Self::Gap(Gap { samples, ..gap });
                (part(count), part(gap.samples - count))
            }
        }
    }

    /// Samples that they stand for: buckets and gaps for those that are not in the datagram, too.
    pub fn samples(&self) -> u64 {
        match *self {
            Self::Samples(element, bytes) => (bytes.len() / element.size()) as u64,
            Self::Buckets(element, bucket, bytes) => (bytes.len() / (4 * element.size())) as u64 * u64::from(bucket),
            Self::Gap(gap) => gap.samples,
        }
    }
}

impl<'a> Block<'a> {
    /// Samples that it stands for.
    pub fn samples(&self) -> u64 {
        self.values.samples()
    }

    /// Index of the sample behind its last.
    pub fn end(&self) -> u64 {
        self.first + self.samples()
    }

    /// Samples that each of its values stands for.
    pub fn step(&self) -> u64 {
        if let Values::Buckets(_, bucket, _) = self.values { bucket.into() } else { 1 }
    }

    /// When the sample of an index from [`Self::first`] on is, ns since 1970 UTC, as near as that can be written.
    pub fn time_of(&self, index: u64) -> i64 {
        self.rate.after(self.time, index - self.first)
    }

    /// All of it but its values.
    pub fn head(&self) -> Block<'static> {
        let Self { channel, first, time, rate, values } = *self;
        Block { channel, first, time, rate, values: values.with(&[]) }
    }

    /// Whether another has the same rate, element and form; or both are gaps of one cause.
    pub fn is_like(&self, other: &Block<'_>) -> bool {
        let same = match (self.values, other.values) {
            (Values::Gap(gap), Values::Gap(other)) => gap.cause == other.cause,
            (values, other) => values.with(&[]) == other.with(&[]),
        };
        same && self.rate == other.rate
    }

    /// Parted in front of the sample of an index, or in front of the bucket that it is in; either part may have no samples.
    pub fn split_at(&self, index: u64) -> (Self, Self) {
        let count = index.saturating_sub(self.first).min(self.samples()) / self.step();
        let (before, after) = self.values.split_at(count);
        let first = self.first + count * self.step();
        (Self { values: before, ..*self }, Self { first, time: self.time_of(first), values: after, ..*self })
    }

    /// Its samples; of buckets and gaps none.
    pub fn each(&self) -> impl ExactSizeIterator<Item = f64> + use<'a> {
        let (element, bytes) = match self.values {
            Values::Samples(element, bytes) => (element, bytes),
            _ => (Element::F64, [].as_slice()),
        };
        (0..bytes.len() / element.size()).map(move |index| element.read(bytes, index))
    }

    /// Its buckets, or its samples as buckets of one, each with the index of its first sample; of a gap none.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = (u64, Bucket)> + ExactSizeIterator + use<'a> {
        let (element, bytes, width) = match self.values {
            Values::Samples(element, bytes) => (element, bytes, 1),
            Values::Buckets(element, _, bytes) => (element, bytes, 4),
            Values::Gap(_) => (Element::F64, [].as_slice(), 1),
        };
        let (first, step) = (self.first, self.step());
        (0..bytes.len() / (width * element.size())).map(move |at| {
            let value = |part: usize| element.read(bytes, width * at + part.min(width - 1));
            (first + at as u64 * step, Bucket { least: value(0), greatest: value(1), first: value(2), last: value(3) })
        })
    }

    /// Its last value; of a gap none.
    pub fn last(&self) -> Option<f64> {
        self.buckets().next_back().map(|(_, bucket)| bucket.last)
    }

    /// Reads the block at the beginning of `bytes`, and returns what is behind it.
    fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let (head, rest) = bytes.split_first_chunk::<BLOCK_LEN>().ok_or(Malformed::Cut("a block"))?;
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let element = Element::from_code(head[2]).ok_or(Malformed::Element(head[2]))?;
        let (count, bucket) = (half(4), word(32));
        let form = match head[3] {
            0 => Form::Samples,
            1 => Form::Buckets(bucket),
            2 => Form::Gap,
            other => return Err(Malformed::Form(other)),
        };
        let rate = Rate { per_second: word(24), per_sample: word(28) };
        if rate.per_second == 0 || rate.per_sample == 0 {
            return Err(Malformed::Rate);
        }
        let fits = match form {
            Form::Samples => bucket == 1,
            Form::Buckets(bucket) => bucket > 0,
            Form::Gap => bucket == 1 && count == 1,
        };
        if !fits || count == 0 {
            return Err(Malformed::Size { count, bucket });
        }
        let length = usize::from(count) * form.size(element);
        let (values, rest) = rest.split_at_checked(length).ok_or(Malformed::Cut("a block's values"))?;
        let values = match form {
            Form::Samples => Values::Samples(element, values),
            Form::Buckets(bucket) => Values::Buckets(element, bucket, values),
            Form::Gap => {
                let samples = u64::from_le_bytes(std::array::from_fn(|byte| values[byte]));
                if samples == 0 {
                    return Err(Malformed::Size { count: 0, bucket });
                }
                Values::Gap(Gap { samples, cause: Cause::from_code(values[8]) })
            }
        };
        let block = Self { channel: half(0), first: long(8), time: long(16).cast_signed(), rate, values };
        if block.first.checked_add(block.samples()).is_none() {
            return Err(Malformed::Index);
        }
        Ok((block, rest))
    }
}

impl Bucket {
    /// What it measures: value x scale + offset, whose sign may turn least and greatest round.
    pub fn scaled(self, scale: f64, offset: f64) -> Self {
        let [one, other, first, last] =
            [self.least, self.greatest, self.first, self.last].map(|value| value * scale + offset);
        Self { least: one.min(other), greatest: one.max(other), first, last }
    }
}

impl OwnedBlock {
    /// A copy.
    pub fn new(block: &Block<'_>) -> Self {
        Self { head: block.head(), values: block.values.bytes().to_vec() }
    }

    /// To be looked at.
    pub fn block(&self) -> Block<'_> {
        Block { values: self.head.values.with(&self.values), ..self.head }
    }

    /// Appends a block that is like it.
    pub fn extend(&mut self, block: &Block<'_>) {
        if let (Values::Gap(gap), Values::Gap(more)) = (&mut self.head.values, block.values) {
            gap.samples = gap.samples.saturating_add(more.samples);
        }
        self.values.extend_from_slice(block.values.bytes());
    }
}

impl<'a> Blocks<'a> {
    pub(super) fn parse(bytes: &'a [u8], count: u16) -> Result<Self, Malformed> {
        let mut rest = bytes;
        for _ in 0..count {
            rest = Block::parse(rest)?.1;
        }
        if !rest.is_empty() {
            return Err(Malformed::Behind(rest.len()));
        }
        Ok(Self { rest: bytes, left: count })
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Checked when the datagram was parsed.
        let (block, rest) = Block::parse(self.rest).ok()?;
        self.rest = rest;
        Some(block)
    }
}

fn near(nanos: i128) -> i64 {
    nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// By name.
impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
