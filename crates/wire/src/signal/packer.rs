//! Datagrams of data, filled one after another.

use super::block::{BLOCK_LEN, Block, Element, Form, GAP_LEN, Gap, Rate, Values};
use super::header::{HEADER_LEN, Header, Kind};

/// Fills one datagram of data after another. Nothing is allocated once the first is full.
#[derive(Clone, Debug)]
pub struct Packer {
    most: usize,
    bytes: Vec<u8>,
    count: u16,
}

impl Packer {
    /// Of datagrams of at most so many bytes, trailers of a signature or of encryption not counted.
    pub fn new(most: usize) -> Self {
        let most = most.max(HEADER_LEN + BLOCK_LEN + 4 * size_of::<f64>());
        Self { most, bytes: vec![0; HEADER_LEN], count: 0 }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Samples, buckets or gaps that a block would still have room for.
    pub fn room(&self, element: Element, form: Form) -> usize {
        let left = self.most.saturating_sub(self.bytes.len() + BLOCK_LEN) / form.size(element);
        if self.count == u16::MAX { 0 } else { left.min(u16::MAX.into()) }
    }

    /// Begins a block, whose values are to be written to what is returned: as many as are said, of that element; at most
    /// [`Self::room`] of them.
    pub fn block(
        &mut self,
        (channel, first, time): (u16, u64, i64),
        rate: Rate,
        (element, form): (Element, Form),
        count: u16,
    ) -> &mut Vec<u8> {
        let (form, bucket) = match form {
            Form::Samples => (0, 1),
            Form::Buckets(bucket) => (1, bucket),
            Form::Gap => (2, 1),
        };
        self.bytes.extend(channel.to_le_bytes());
        self.bytes.extend([element as u8, form]);
        self.bytes.extend(count.to_le_bytes());
        self.bytes.extend([0; 2]);
        self.bytes.extend(first.to_le_bytes());
        self.bytes.extend(time.to_le_bytes());
        self.bytes.extend(rate.per_second.to_le_bytes());
        self.bytes.extend(rate.per_sample.to_le_bytes());
        self.bytes.extend(bucket.to_le_bytes());
        self.count += 1;
        &mut self.bytes
    }

    /// A gap, for which there is [`Self::room`].
    pub fn gap(&mut self, position: (u16, u64, i64), rate: Rate, gap: Gap) {
        let bytes = self.block(position, rate, (Element::F32, Form::Gap), 1);
        write_gap(gap, bytes);
    }

    /// A block of another datagram as it is, if there is room for it.
    pub fn copy(&mut self, block: &Block<'_>) -> bool {
        let (element, form, values) = match block.values {
            Values::Samples(element, values) => (element, Form::Samples, values),
            Values::Buckets(element, bucket, values) => (element, Form::Buckets(bucket), values),
            Values::Gap(gap) => {
                let fits = self.room(Element::F32, Form::Gap) > 0;
                if fits {
                    self.gap((block.channel, block.first, block.time), block.rate, gap);
                }
                return fits;
            }
        };
        let count = values.len() / form.size(element);
        if count > self.room(element, form) {
            return false;
        }
        // A block of a datagram has no more than 65,535.
        let position = (block.channel, block.first, block.time);
        self.block(position, block.rate, (element, form), count as u16).extend_from_slice(values);
        true
    }

    /// The datagram, whose count is set, and an empty packer for the next once it has been sent.
    pub fn finish(&mut self, header: Header) -> &[u8] {
        let header = Header { kind: Kind::Data, count: self.count, ..header };
        self.bytes[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        &self.bytes
    }

    /// Begins the next.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEADER_LEN);
        self.count = 0;
    }
}

fn write_gap(Gap { samples, cause }: Gap, bytes: &mut Vec<u8>) {
    bytes.extend(samples.to_le_bytes());
    bytes.extend([cause as u8]);
    bytes.extend([0; GAP_LEN - 9]);
}
