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
//! Packed numbers of fixed width are in a message as they are on the wire: writing and reading them is a copy. The first three fields
//! are for tools that plot a message as a point: they draw the envelope of a signal without knowing anything of blocks.

use weir_wire::signal::{Block, Cause, Element, Gap, Rate, Values};

use crate::thin::of_wire;

/// Its name in a file.
pub const NAME: &str = "weir.Block";

/// What a damaged or foreign message lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message that is no weir.Block: {0}")]
pub struct Foreign(&'static str);

/// Appends a block as a message. `scale` and `offset`: of its channel.
pub fn write(block: &Block<'_>, (scale, offset): (f64, f64), bytes: &mut Vec<u8>) {
    let Summary { value, least, greatest } = Summary::of(block);
    let scaled = |value: f64| value * scale + offset;
    let (least, greatest) = if scale < 0.0 { (greatest, least) } else { (least, greatest) };
    for (number, value) in [(VALUE, value), (LEAST, least), (GREATEST, greatest)] {
        bytes.push(tag(number, FIXED64));
        bytes.extend(scaled(value).to_le_bytes());
    }
    for (number, value) in [(FIRST, block.first), (TIME, block.time.cast_unsigned())] {
        bytes.push(tag(number, FIXED64));
        bytes.extend(value.to_le_bytes());
    }
    let (element, bucket, values) = match block.values {
        Values::Samples(element, values) => (element, 1, values),
        Values::Buckets(element, bucket, values) => (element, bucket, values),
        Values::Gap(_) => (Element::F32, 1, [].as_slice()),
    };
    for (number, value) in [(SECOND, block.rate.per_second), (SAMPLE, block.rate.per_sample), (BUCKET, bucket)] {
        bytes.push(tag(number, FIXED32));
        bytes.extend(value.to_le_bytes());
    }
    if let Values::Gap(Gap { samples, cause }) = block.values {
        bytes.push(tag(MISSING, FIXED64));
        bytes.extend(samples.to_le_bytes());
        put(bytes, CAUSE, cause.name().as_bytes());
    } else {
        put(bytes, field_of(element), values);
    }
    if matches!(block.values, Values::Buckets(..)) {
        bytes.extend([tag(BUCKETS, VARINT), 1]);
    }
}

/// Reads a message; its values stay where they are. The channel's number is not in it: it is 0.
///
/// # Errors
/// It is cut off, or lacks what a block has.
pub fn read(mut bytes: &[u8]) -> Result<Block<'_>, Foreign> {
    let (mut first, mut time, mut rate, mut bucket) = (0, 0, Rate { per_second: 0, per_sample: 0 }, 1);
    let (mut missing, mut cause, mut values, mut is_bucket) = (0, Cause::Unknown, None, false);
    while let Some((&tag, rest)) = bytes.split_first() {
        bytes = rest;
        match tag & 7 {
            FIXED64 => {
                let value = u64::from_le_bytes(take(&mut bytes)?);
                match tag >> 3 {
                    FIRST => first = value,
                    TIME => time = value.cast_signed(),
                    MISSING => missing = value,
                    _ => {}
                }
            }
            FIXED32 => {
                let value = u32::from_le_bytes(take(&mut bytes)?);
                match tag >> 3 {
                    SECOND => rate.per_second = value,
                    SAMPLE => rate.per_sample = value,
                    BUCKET => bucket = value,
                    _ => {}
                }
            }
            BYTES => {
                let length = varint(&mut bytes)?;
                let (value, rest) = bytes.split_at_checked(length).ok_or(Foreign("it is cut off"))?;
                bytes = rest;
                match tag >> 3 {
                    CAUSE => {
                        cause =
                            Cause::ALL.into_iter().find(|cause| cause.name().as_bytes() == value).unwrap_or_default();
                    }
                    number => {
                        values = ELEMENTS
                            .into_iter()
                            .find(|&element| field_of(element) == number)
                            .map(|element| (element, value));
                    }
                }
            }
            VARINT => {
                let value = varint(&mut bytes)?;
                is_bucket |= tag >> 3 == BUCKETS && value != 0;
            }
            _ => return Err(Foreign("a field of another type")),
        }
    }
    if rate.per_second == 0 || rate.per_sample == 0 {
        return Err(Foreign("it has no rate"));
    }
    let values = match values {
        None if missing > 0 => Values::Gap(Gap { samples: missing, cause }),
        Some((element, values)) => {
            let each = element.size() * if is_bucket { 4 } else { 1 };
            if values.is_empty() || values.len() % each != 0 || bucket == 0 {
                return Err(Foreign("values that are not whole"));
            }
            if is_bucket { Values::Buckets(element, bucket, values) } else { Values::Samples(element, values) }
        }
        None => return Err(Foreign("it has neither values nor a gap")),
    };
    let block = Block { channel: 0, first, time, rate, values };
    first.checked_add(block.samples()).map(|_| block).ok_or(Foreign("samples beyond index 2^64"))
}

/// The schema as files have it: a `google.protobuf.FileDescriptorSet`.
pub fn descriptor() -> Vec<u8> {
    let mut message = Vec::new();
    put(&mut message, 1, b"Block");
    for (name, number, kind, repeated) in FIELDS {
        let mut field = Vec::new();
        put(&mut field, 1, name.as_bytes());
        field.extend([tag(3, VARINT), number, tag(4, VARINT), if repeated { 3 } else { 1 }, tag(5, VARINT), kind]);
        put(&mut message, 2, &field);
    }
    let mut file = Vec::new();
    put(&mut file, 1, b"weir.proto");
    put(&mut file, 2, b"weir");
    put(&mut file, 4, &message);
    put(&mut file, 12, b"proto3");
    let mut set = Vec::new();
    put(&mut set, 1, &file);
    set
}

/// What a message says as a point: values as they are on the wire.
struct Summary {
    value: f64,
    least: f64,
    greatest: f64,
}

impl Summary {
    /// What is not a number counts only where all are not.
    fn of(block: &Block<'_>) -> Self {
        let none = Self { value: f64::NAN, least: f64::NAN, greatest: f64::NAN };
        match block.values {
            Values::Samples(element, values) => {
                let [least, greatest, value] = of_wire(element, values);
                Self { value, least, greatest }
            }
            Values::Buckets(..) => block.buckets().fold(none, |Self { least, greatest, .. }, bucket| Self {
                value: bucket.last,
                least: least.min(bucket.least),
                greatest: greatest.max(bucket.greatest),
            }),
            Values::Gap(_) => none,
        }
    }
}

fn field_of(element: Element) -> u8 {
    match element {
        Element::F32 => 11,
        Element::F64 => 12,
        Element::I32 => 13,
        Element::I16 => 14,
    }
}

/// Field numbers below 16 take one byte.
const fn tag(number: u8, wire: u8) -> u8 {
    number << 3 | wire
}

fn put(bytes: &mut Vec<u8>, number: u8, value: &[u8]) {
    bytes.push(tag(number, BYTES));
    let mut left = value.len();
    while left > 0x7f {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes.extend_from_slice(value);
}

fn varint(bytes: &mut &[u8]) -> Result<usize, Foreign> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Foreign("it is cut off"))?;
        *bytes = rest;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Foreign("a length of more than 32 bits"))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Foreign> {
    let (value, rest) = bytes.split_first_chunk().ok_or(Foreign("it is cut off"))?;
    *bytes = rest;
    Ok(*value)
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

const VALUE: u8 = 1;
const LEAST: u8 = 2;
const GREATEST: u8 = 3;
const FIRST: u8 = 4;
const TIME: u8 = 5;
const SECOND: u8 = 6;
const SAMPLE: u8 = 7;
const BUCKET: u8 = 8;
const MISSING: u8 = 9;
const CAUSE: u8 = 10;
const BUCKETS: u8 = 15;

const ELEMENTS: [Element; 4] = [Element::F32, Element::F64, Element::I32, Element::I16];

/// Name, number, type (`google.protobuf.FieldDescriptorProto.Type`), whether it is repeated.
const FIELDS: [(&str, u8, u8, bool); 15] = [
    ("value", VALUE, 1, false),
    ("least", LEAST, 1, false),
    ("greatest", GREATEST, 1, false),
    ("first", FIRST, 6, false),
    ("time", TIME, 16, false),
    ("ticks_per_second", SECOND, 7, false),
    ("ticks_per_sample", SAMPLE, 7, false),
    ("bucket", BUCKET, 7, false),
    ("missing", MISSING, 6, false),
    ("cause", CAUSE, 9, false),
    ("f32", 11, 2, true),
    ("f64", 12, 1, true),
    ("i32", 13, 15, true),
    ("i16", 14, 12, false),
    ("buckets", BUCKETS, 8, false),
];
