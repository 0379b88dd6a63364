//! Records: what a sample is made of.

use super::datagram::tagged;
use super::structure::{Space, Structure};
use super::value::Values;
use super::xdr::Reader;
use super::{DataFormat, Malformed, Part};

/// A flow record or a counter record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Which structure.
    pub format: DataFormat,
    /// What is known of it; `None`: nothing.
    pub structure: Option<&'static Structure>,
    /// The bytes. What is behind the known fields a newer version of the structure has appended.
    pub body: &'a [u8],
    /// Whose numbers are meant.
    pub(super) space: Space,
}

impl<'a> Record<'a> {
    /// Its fields in their order; none if the structure is unknown.
    ///
    /// A body that ends early is an error, behind the fields that are whole: it costs no other record anything.
    pub fn values(&self) -> Values<'a> {
        match self.structure {
            Some(structure) => Values::new(structure.fields, structure.required, Reader::new(self.body)),
            None => Values::new(&[], 0, Reader::new(&[])),
        }
    }
}

/// Records of a sample, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    reader: Reader<'a>,
    left: u32,
    space: Space,
}

impl<'a> Records<'a> {
    #[inline]
    pub(super) fn new(reader: Reader<'a>, count: u32, space: Space) -> Self {
        Self { reader, left: count, space }
    }

    pub(super) fn none() -> Self {
        Self::new(Reader::new(&[]), 0, Space::Flow)
    }

    /// How many are still to come, as the sample says.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Behind the last record.
    pub(super) fn end(mut self) -> Result<Reader<'a>, Malformed> {
        while let Some(record) = tagged(&mut self.reader, &mut self.left, Part::Record) {
            record?;
        }
        Ok(self.reader)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let next = tagged(&mut self.reader, &mut self.left, Part::Record)?;
        let space = self.space;
        Some(next.map(|(format, body)| Record { format, structure: Structure::find(space, format), body, space }))
    }
}
