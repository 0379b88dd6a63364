//! Writing of datagrams: what an agent sends.
//!
//! ```
//! use weir_wire::sflow::encode::{self, Counters, Header, Put};
//! use weir_wire::sflow::{DataSource, Datagram, Space, Structure};
//!
//! let port_name = Structure::named(Space::Counter, "port_name").expect("a structure of the table");
//! let (agent, source) = ([192, 0, 2, 1].into(), DataSource { class: 0, index: 5 });
//! let mut bytes = Vec::new();
//! let mut datagram = encode::datagram(&mut bytes, &Header { agent, sub_agent: 0, sequence: 1, uptime: 1000 });
//! let mut records = datagram.counters(&Counters { sequence: 1, source, expanded: false });
//! records.put(port_name, &[Put::Text(b"eth0")])?;
//! assert_eq!(Datagram::parse(&bytes).expect("what was written").sample_count(), 1);
//! # Ok::<(), encode::Mismatch>(())
//! ```

use std::net::IpAddr;

use super::datagram::VERSION;
use super::structure::{Field, Kind, Structure};
use super::{DataFormat, DataSource, Interface};

/// With what a datagram begins; the fields are those of [`super::Datagram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Header {
    pub agent: IpAddr,
    pub sub_agent: u32,
    pub sequence: u32,
    pub uptime: u32,
}

/// With what a flow sample begins; the fields are those of [`super::FlowSample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Flow {
    pub sequence: u32,
    pub source: DataSource,
    pub sampling_rate: u32,
    pub sample_pool: u32,
    pub drops: u32,
    pub input: Interface,
    pub output: Interface,
    /// To be written in the expanded form. So it is, too, where a number does not fit into the compact one.
    pub expanded: bool,
}

/// With what a counter sample begins; the fields are those of [`super::CounterSample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counters {
    pub sequence: u32,
    pub source: DataSource,
    /// To be written in the expanded form. So it is, too, where a number does not fit into the compact one.
    pub expanded: bool,
}

/// With what a discarded packet begins; the fields are those of [`super::DiscardedPacket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Discarded {
    pub sequence: u32,
    pub source: DataSource,
    pub drops: u32,
    /// [`Interface::Index`] or [`Interface::Unknown`].
    pub input: Interface,
    /// [`Interface::Index`] or [`Interface::Unknown`].
    pub output: Interface,
    pub reason: u32,
}

/// A value to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Put<'a> {
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
    /// Text. Cut, between two characters, where it is longer than the structure allows.
    Text(&'a [u8]),
    /// Bytes.
    Opaque(&'a [u8]),
    /// Fields of a structure within the structure.
    Structure(&'a [Put<'a>]),
    /// Several of one kind.
    List(&'a [Put<'a>]),
    /// Flow records within the record.
    Records(&'a [(DataFormat, &'a [u8])]),
}

/// Values that are not those of the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another kind of value.
    #[error("field `{0}` takes another kind of value")]
    Kind(&'static str),
    /// Fewer or more values than fields.
    #[error("{0} values, where {1} to {2} are fields")]
    Count(usize, usize, usize),
}

/// A datagram that is being written; it is whole at any time.
#[derive(Debug)]
pub struct Samples<'v> {
    out: &'v mut Vec<u8>,
    start: usize,
    /// Where the count of samples stands.
    count_at: usize,
    /// Where the last sample begins.
    last: Option<usize>,
}

/// Records of a sample that is being written.
#[derive(Debug)]
pub struct Records<'v> {
    out: &'v mut Vec<u8>,
    /// Where the length of the sample stands.
    length_at: usize,
    /// Where the count of its records stands.
    count_at: usize,
}

/// Begins a datagram behind what is in `out`.
pub fn datagram<'v>(out: &'v mut Vec<u8>, header: &Header) -> Samples<'v> {
    let start = out.len();
    word(out, VERSION);
    put_address(out, Some(header.agent));
    words(out, [header.sub_agent, header.sequence, header.uptime, 0]);
    let count_at = out.len() - 4;
    Samples { out, start, count_at, last: None }
}

impl Samples<'_> {
    /// Bytes of the datagram so far.
    pub fn size(&self) -> usize {
        self.out.len() - self.start
    }

    /// Takes the last sample back, once: when it made the datagram too long. Whether there was one.
    pub fn take_back(&mut self) -> bool {
        let Some(last) = self.last.take() else { return false };
        self.out.truncate(last);
        add(self.out, self.count_at, -1);
        true
    }

    /// Begins a flow sample.
    pub fn flow(&mut self, sample: &Flow) -> Records<'_> {
        let compact =
            !sample.expanded && fits(sample.source) && [sample.input, sample.output].into_iter().all(is_short);
        let length_at = self.sample(if compact { 1 } else { 3 });
        word(self.out, sample.sequence);
        put_source(self.out, sample.source, compact);
        words(self.out, [sample.sampling_rate, sample.sample_pool, sample.drops]);
        put_interface(self.out, sample.input, compact);
        put_interface(self.out, sample.output, compact);
        self.records(length_at)
    }

    /// Begins a counter sample.
    pub fn counters(&mut self, sample: &Counters) -> Records<'_> {
        let compact = !sample.expanded && fits(sample.source);
        let length_at = self.sample(if compact { 2 } else { 4 });
        word(self.out, sample.sequence);
        put_source(self.out, sample.source, compact);
        self.records(length_at)
    }

    /// Begins a discarded packet.
    pub fn discarded(&mut self, sample: &Discarded) -> Records<'_> {
        let length_at = self.sample(5);
        word(self.out, sample.sequence);
        put_source(self.out, sample.source, false);
        word(self.out, sample.drops);
        words(self.out, [sample.input, sample.output].map(|interface| interface.parts().1));
        word(self.out, sample.reason);
        self.records(length_at)
    }

    /// Writes a sample of any format, as it is.
    pub fn raw(&mut self, format: DataFormat, body: &[u8]) {
        self.last = Some(self.out.len());
        add(self.out, self.count_at, 1);
        put_tagged(self.out, format, body);
    }

    /// Begins a sample; where its length stands.
    fn sample(&mut self, format: u32) -> usize {
        self.last = Some(self.out.len());
        add(self.out, self.count_at, 1);
        word(self.out, format);
        word(self.out, 0);
        self.out.len() - 4
    }

    fn records(&mut self, length_at: usize) -> Records<'_> {
        word(self.out, 0);
        let mut records = Records { count_at: self.out.len() - 4, length_at, out: self.out };
        records.measure();
        records
    }
}

impl Records<'_> {
    /// Writes a record: a value for each field, of which those that were appended later may be left away.
    ///
    /// # Errors
    /// For values that do not suit the structure; then nothing is written.
    pub fn put(&mut self, structure: &Structure, values: &[Put<'_>]) -> Result<(), Mismatch> {
        let start = self.out.len();
        word(self.out, structure.format.into());
        word(self.out, 0);
        let written = put_fields(self.out, structure.fields, structure.required, values);
        if let Err(mismatch) = written {
            self.out.truncate(start);
            return Err(mismatch);
        }
        let length = self.out.len() - start - 8;
        self.out[start + 4..start + 8].copy_from_slice(&(length as u32).to_be_bytes());
        self.out.resize(self.out.len() + padding(length), 0);
        self.counted();
        Ok(())
    }

    /// Writes a record of any format, as it is.
    pub fn raw(&mut self, format: DataFormat, body: &[u8]) {
        put_tagged(self.out, format, body);
        self.counted();
    }

    fn counted(&mut self) {
        add(self.out, self.count_at, 1);
        self.measure();
    }

    /// The length of the sample, as it is now.
    fn measure(&mut self) {
        let length = (self.out.len() - self.length_at - 4) as u32;
        self.out[self.length_at..self.length_at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

fn put_fields(out: &mut Vec<u8>, fields: &[Field], required: usize, values: &[Put<'_>]) -> Result<(), Mismatch> {
    if !(required..=fields.len()).contains(&values.len()) {
        return Err(Mismatch::Count(values.len(), required, fields.len()));
    }
    fields.iter().zip(values).try_for_each(|(field, value)| put(out, field.name, &field.kind, value))
}

fn put(out: &mut Vec<u8>, name: &'static str, kind: &Kind, value: &Put<'_>) -> Result<(), Mismatch> {
    match (kind, *value) {
        (Kind::U8, Put::U8(byte)) => out.push(byte),
        (Kind::U32, Put::U32(number)) => word(out, number),
        (Kind::I32, Put::I32(number)) => word(out, number as u32),
        (Kind::U64, Put::U64(number)) => out.extend_from_slice(&number.to_be_bytes()),
        (Kind::F32, Put::F32(number)) => word(out, number.to_bits()),
        (Kind::Mac, Put::Mac(octets)) => put_padded(out, &octets),
        (Kind::Ipv4, Put::Address(Some(IpAddr::V4(address)))) => out.extend_from_slice(&address.octets()),
        (Kind::Ipv6, Put::Address(Some(IpAddr::V6(address)))) => out.extend_from_slice(&address.octets()),
        (Kind::Address, Put::Address(address)) => put_address(out, address),
        (Kind::Uuid, Put::Uuid(octets)) => out.extend_from_slice(&octets),
        (&Kind::Text(max), Put::Text(text)) => put_opaque(out, cut(text, max)),
        (Kind::Opaque, Put::Opaque(bytes)) => put_opaque(out, bytes),
        (Kind::Structure(fields), Put::Structure(values)) => return put_fields(out, fields, fields.len(), values),
        (Kind::List(kind), Put::List(values)) => {
            word(out, values.len() as u32);
            return values.iter().try_for_each(|value| put(out, name, kind, value));
        }
        (Kind::Records, Put::Records(records)) => {
            word(out, records.len() as u32);
            records.iter().for_each(|&(format, body)| put_tagged(out, format, body));
        }
        _ => return Err(Mismatch::Kind(name)),
    }
    Ok(())
}

/// As much of a text as may be; 0: all.
fn cut(text: &[u8], max: u16) -> &[u8] {
    let max = usize::from(max);
    if max == 0 || text.len() <= max {
        return text;
    }
    // A byte 10xxxxxx goes on with a character.
    let end = (0..=max).rev().find(|&end| text[end] & 0xc0 != 0x80);
    &text[..end.unwrap_or(max)]
}

/// Whether a source can be written in one word.
fn fits(source: DataSource) -> bool {
    source.class < 1 << 8 && source.index < 1 << 24
}

/// Whether an interface can be written in one word.
fn is_short(interface: Interface) -> bool {
    match interface {
        Interface::Index(index) => index < 0x3fff_ffff,
        interface => interface.parts().1 < 1 << 30,
    }
}

fn put_source(out: &mut Vec<u8>, source: DataSource, compact: bool) {
    if compact {
        word(out, source.class << 24 | source.index);
    } else {
        words(out, [source.class, source.index]);
    }
}

fn put_interface(out: &mut Vec<u8>, interface: Interface, compact: bool) {
    let (format, value) = interface.parts();
    if compact {
        word(out, format << 30 | value);
    } else {
        words(out, [format, value]);
    }
}

fn put_address(out: &mut Vec<u8>, address: Option<IpAddr>) {
    match address {
        None => word(out, 0),
        Some(IpAddr::V4(address)) => {
            word(out, 1);
            out.extend_from_slice(&address.octets());
        }
        Some(IpAddr::V6(address)) => {
            word(out, 2);
            out.extend_from_slice(&address.octets());
        }
    }
}

fn put_tagged(out: &mut Vec<u8>, format: DataFormat, body: &[u8]) {
    word(out, format.into());
    put_opaque(out, body);
}

fn put_opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    word(out, bytes.len() as u32);
    put_padded(out, bytes);
}

fn put_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + padding(bytes.len()), 0);
}

/// Bytes to a multiple of four.
fn padding(length: usize) -> usize {
    length.wrapping_neg() % 4
}

fn words<const N: usize>(out: &mut Vec<u8>, values: [u32; N]) {
    values.iter().for_each(|&value| word(out, value));
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Adds to the word at a place.
fn add(out: &mut [u8], at: usize, difference: i32) {
    if let Some(bytes) = out[at..].first_chunk_mut::<4>() {
        *bytes = u32::from_be_bytes(*bytes).wrapping_add_signed(difference).to_be_bytes();
    }
}
