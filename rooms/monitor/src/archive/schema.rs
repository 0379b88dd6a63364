//! What a message of an archive is: `weir.Block`, in Protocol Buffers, whose schema stands in every file.
//!
//! ```text
//! message Block {
//!   double value = 1;               // the last sample, scaled; in a gap not a number
//!   double least = 2;               // the least of all samples, scaled
//!   double greatest = 3;            // the greatest
//!   fixed64 first = 4;              // index of the first sample that it stands for
//!   sfixed64 time = 5;              // of that sample, ns since 1970 UTC
//!   fixed32 ticks_per_second = 6;   // of the sampling clock
//!   fixed32 ticks_per_sample = 7;
//!   fixed32 bucket = 8;             // samples that a bucket stands for; 1: each sample is there
//!   fixed64 missing = 9;            // of a gap: how many samples are not there
//!   string cause = 10;              // of a gap: where they were lost
//!   repeated float f32 = 11;        // samples as they came, unscaled, or least, greatest, first, last of each bucket
//!   repeated double f64 = 12;
//!   repeated sfixed32 i32 = 13;
//!   bytes i16 = 14;                 // two bytes each, little-endian: Protocol Buffers have no shorter number
//!   bool buckets = 15;              // whether values are buckets, four each
//! }
//! ```
//!
//! Packed numbers of fixed width are encoded like bytes, and are on the wire as they are here: writing and reading them is a copy. The
//! first three fields are for tools that plot a message as a point: they draw the envelope of a signal without knowing anything of blocks.

use prost::Message as _;
use prost::encoding::{bytes, int32, string};
use weir_wire::signal::{Block, Cause, Element, Gap, Rate, Values};

use weir_signal::thin::of_wire;

/// Its name in a file.
pub const NAME: &str = "weir.Block";

/// What a damaged or foreign message lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a weir.Block: {0}")]
pub struct Foreign(String);

/// A message, and so a block with values of its own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Message {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(double, tag = "2")]
    least: f64,
    #[prost(double, tag = "3")]
    greatest: f64,
    #[prost(fixed64, tag = "4")]
    first: u64,
    #[prost(sfixed64, tag = "5")]
    time: i64,
    #[prost(fixed32, tag = "6")]
    ticks_per_second: u32,
    #[prost(fixed32, tag = "7")]
    ticks_per_sample: u32,
    #[prost(fixed32, tag = "8")]
    bucket: u32,
    #[prost(fixed64, tag = "9")]
    missing: u64,
    #[prost(string, tag = "10")]
    cause: String,
    #[prost(bytes = "vec", tag = "11")]
    f32: Vec<u8>,
    #[prost(bytes = "vec", tag = "12")]
    f64: Vec<u8>,
    #[prost(bytes = "vec", tag = "13")]
    i32: Vec<u8>,
    #[prost(bytes = "vec", tag = "14")]
    i16: Vec<u8>,
    #[prost(bool, tag = "15")]
    buckets: bool,
}

impl Message {
    /// A block as a message. `scale` and `offset`: of its channel.
    pub fn new(block: &Block<'_>, (scale, offset): (f64, f64)) -> Self {
        let [least, greatest, value] = summary(block).map(|value| value * scale + offset);
        let (least, greatest) = if scale < 0.0 { (greatest, least) } else { (least, greatest) };
        let mut message = Self {
            value,
            least,
            greatest,
            first: block.first,
            time: block.time,
            ticks_per_second: block.rate.per_second,
            ticks_per_sample: block.rate.per_sample,
            bucket: 1,
            ..Self::default()
        };
        let (element, values) = match block.values {
            Values::Samples(element, values) => (element, values),
            Values::Buckets(element, bucket, values) => {
                (message.bucket, message.buckets) = (bucket, true);
                (element, values)
            }
            Values::Gap(gap) => {
                (message.missing, message.cause) = (gap.samples, gap.cause.name().into());
                return message;
            }
        };
        match element {
            Element::F32 => message.f32 = values.into(),
            Element::F64 => message.f64 = values.into(),
            Element::I32 => message.i32 = values.into(),
            Element::I16 => message.i16 = values.into(),
        }
        message
    }

    /// Appends it as a file has it.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        self.encode_raw(bytes);
    }

    /// Reads a message that is a block.
    ///
    /// # Errors
    /// It is cut off, or lacks what a block has.
    pub fn read(bytes: &[u8]) -> Result<Self, Foreign> {
        let message = Self::decode(bytes).map_err(|error| Foreign(error.to_string()))?;
        message.block(0).map(drop)?;
        Ok(message)
    }

    /// The block that it is, of a channel.
    ///
    /// # Errors
    /// It lacks what a block has.
    pub fn block(&self, channel: u16) -> Result<Block<'_>, Foreign> {
        let foreign = |what: &str| Err(Foreign(what.into()));
        let rate = Rate { per_second: self.ticks_per_second, per_sample: self.ticks_per_sample };
        if rate.per_second == 0 || rate.per_sample == 0 {
            return foreign("it has no rate");
        }
        let values = [
            (Element::F32, &self.f32),
            (Element::F64, &self.f64),
            (Element::I32, &self.i32),
            (Element::I16, &self.i16),
        ];
        let values = match values.into_iter().find(|(_, values)| !values.is_empty()) {
            None if self.missing > 0 => {
                let cause = Cause::ALL.into_iter().find(|cause| cause.name() == self.cause).unwrap_or_default();
                Values::Gap(Gap { samples: self.missing, cause })
            }
            None => return foreign("it has neither values nor a gap"),
            Some((element, values)) if self.buckets => Values::Buckets(element, self.bucket, values),
            Some((element, values)) => Values::Samples(element, values),
        };
        if let Values::Samples(element, bytes) | Values::Buckets(element, _, bytes) = values
            && (self.buckets && self.bucket == 0 || bytes.len() % values.form().size(element) != 0)
        {
            return foreign("its values are not whole");
        }
        if self.first.checked_add(values.samples()).is_none() {
            return foreign("it has samples beyond index 2^64");
        }
        Ok(Block { channel, first: self.first, time: self.time, rate, values })
    }
}

/// Least, greatest and last of all samples of a block. Samples that are not numbers count only where all are not.
fn summary(block: &Block<'_>) -> [f64; 3] {
    if let Values::Samples(element, values) = block.values {
        return of_wire(element, values);
    }
    block.buckets().fold([f64::NAN; 3], |[least, greatest, _], (_, bucket)| {
        [least.min(bucket.least), greatest.max(bucket.greatest), bucket.last]
    })
}

/// The schema as files have it: a `google.protobuf.FileDescriptorSet`.
pub fn descriptor() -> Vec<u8> {
    let (mut message, mut file, mut set) = (Vec::new(), Vec::new(), Vec::new());
    let text = |tag: u32, text: &str, bytes: &mut Vec<u8>| string::encode(tag, &text.to_owned(), bytes);
    text(1, "Block", &mut message);
    for (name, number, kind, label) in FIELDS {
        let mut field = Vec::new();
        text(1, name, &mut field);
        for (tag, value) in [(3, number), (4, label), (5, kind)] {
            int32::encode(tag, &value, &mut field);
        }
        bytes::encode(2, &field, &mut message);
    }
    text(1, "weir.proto", &mut file);
    text(2, "weir", &mut file);
    bytes::encode(4, &message, &mut file);
    text(12, "proto3", &mut file);
    bytes::encode(1, &file, &mut set);
    set
}

/// `google.protobuf.FieldDescriptorProto.Label`.
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 3;

/// Name, number, type and label, as `google.protobuf.FieldDescriptorProto` has them.
const FIELDS: [(&str, i32, i32, i32); 15] = [
    ("value", 1, 1, OPTIONAL),
    ("least", 2, 1, OPTIONAL),
    ("greatest", 3, 1, OPTIONAL),
    ("first", 4, 6, OPTIONAL),
    ("time", 5, 16, OPTIONAL),
    ("ticks_per_second", 6, 7, OPTIONAL),
    ("ticks_per_sample", 7, 7, OPTIONAL),
    ("bucket", 8, 7, OPTIONAL),
    ("missing", 9, 6, OPTIONAL),
    ("cause", 10, 9, OPTIONAL),
    ("f32", 11, 2, REPEATED),
    ("f64", 12, 1, REPEATED),
    ("i32", 13, 15, REPEATED),
    ("i16", 14, 12, OPTIONAL),
    ("buckets", 15, 8, OPTIONAL),
];
