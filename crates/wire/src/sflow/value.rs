//! Values of fields, read as the table of structures says.

use std::net::IpAddr;

use super::datagram::address;
use super::record::Records;
use super::structure::{Field, Kind, Space};
use super::xdr::Reader;
use super::{Malformed, Part};

/// A value as it stands in a record. Texts are bytes as they came: nobody knows that they are UTF-8, or fit for a
/// terminal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Of one byte.
    U8(u8),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Signed, 32 bits.
    I32(i32),
    /// Unsigned, 64 bits.
    U64(u64),
    /// IEEE 754, 32 bits.
    F32(f32),
    /// MAC address.
    Mac([u8; 6]),
    /// IP address; `None`: unknown.
    Address(Option<IpAddr>),
    /// UUID.
    Uuid([u8; 16]),
    /// Text.
    Text(&'a [u8]),
    /// Bytes.
    Opaque(&'a [u8]),
    /// Fields of a structure within the structure.
    Structure(Values<'a>),
    /// Several of one kind.
    List(List<'a>),
    /// Flow records within the record.
    Records(Records<'a>),
}

/// Fields with their values, in the order of the structure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values<'a> {
    fields: &'static [Field],
    /// How many of the first fields must be there.
    required: usize,
    reader: Reader<'a>,
}

impl<'a> Values<'a> {
    pub(super) fn new(fields: &'static [Field], required: usize, reader: Reader<'a>) -> Self {
        Self { fields, required, reader }
    }

    /// Behind the last field.
    fn end(mut self) -> Result<Reader<'a>, Malformed> {
        for value in &mut self {
            value?;
        }
        Ok(self.reader)
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<(&'static Field, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (field, rest) = self.fields.split_first()?;
        self.fields = rest;
        if self.required == 0 && self.reader.rest().is_empty() {
            self.fields = &[];
            return None;
        }
        self.required = self.required.saturating_sub(1);
        let value = read(&mut self.reader, &field.kind);
        if value.is_err() {
            // Nobody knows where the next one begins.
            self.fields = &[];
        }
        Some(value.map(|value| (field, value)))
    }
}

/// Values of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct List<'a> {
    kind: &'static Kind,
    left: u32,
    reader: Reader<'a>,
}

impl<'a> List<'a> {
    /// Reads how many they are, and leaves `reader` behind the last of them.
    fn read(reader: &mut Reader<'a>, kind: &'static Kind) -> Result<Self, Malformed> {
        let said = reader.u32().ok_or(CUT)?;
        let too_many = Malformed::Length { part: Part::Structure, said, left: reader.rest().len() as u32 };
        let list = Self { kind, left: said, reader: *reader };
        match kind.size() {
            Some(size) => {
                let bytes = (said as usize).checked_mul(size).ok_or(too_many)?;
                reader.take(bytes).ok_or(too_many)?;
            }
            // Each takes a byte at least: a count that lies ends with the bytes.
            None => {
                for _ in 0..said {
                    read(reader, kind)?;
                }
            }
        }
        Ok(list)
    }
}

impl<'a> Iterator for List<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        // All have been read once, when the list was.
        read(&mut self.reader, self.kind).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

const CUT: Malformed = Malformed::Cut(Part::Structure);

/// The value at the front of `reader`, which is left behind it.
fn read<'a>(reader: &mut Reader<'a>, kind: &'static Kind) -> Result<Value<'a>, Malformed> {
    let value = match kind {
        Kind::U8 => reader.array().map(|&[byte]| Value::U8(byte)),
        Kind::U32 => reader.u32().map(Value::U32),
        Kind::I32 => reader.u32().map(|word| Value::I32(word as i32)),
        Kind::U64 => reader.u64().map(Value::U64),
        Kind::F32 => reader.u32().map(|word| Value::F32(f32::from_bits(word))),
        Kind::Mac => reader.mac().map(Value::Mac),
        Kind::Ipv4 => reader.ipv4().map(|address| Value::Address(Some(address))),
        Kind::Ipv6 => reader.ipv6().map(|address| Value::Address(Some(address))),
        Kind::Address => Some(Value::Address(address(reader, Part::Structure)?)),
        Kind::Uuid => reader.array().copied().map(Value::Uuid),
        Kind::Text(_) => reader.opaque().map(Value::Text),
        Kind::Opaque => reader.opaque().map(Value::Opaque),
        Kind::Structure(fields) => {
            let values = Values::new(fields, fields.len(), *reader);
            *reader = values.end()?;
            Some(Value::Structure(values))
        }
        Kind::List(kind) => Some(Value::List(List::read(reader, kind)?)),
        Kind::Records => {
            let count = reader.u32().ok_or(CUT)?;
            let records = Records::new(*reader, count, Space::Flow);
            *reader = records.end()?;
            Some(Value::Records(records))
        }
    };
    value.ok_or(CUT)
}
