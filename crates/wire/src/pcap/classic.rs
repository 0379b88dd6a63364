//! The older format: a header, then packets.

use super::link::LinkType;
use super::{LONGEST, Malformed, Order, Packet, Step};

/// What its header says of all packets.
#[derive(Clone, Debug)]
pub(super) struct File {
    order: Order,
    /// Nanoseconds of what is counted beside the seconds.
    unit: u64,
    link: LinkType,
}

/// Bytes of the header.
pub(super) const HEADER: usize = 24;

/// Bytes before each packet.
const RECORD: usize = 16;

/// Whether a file of this format begins so, in either order, with stamps of either unit.
pub(super) fn is_magic(magic: [u8; 4]) -> bool {
    order_and_unit(magic).is_some()
}

fn order_and_unit(magic: [u8; 4]) -> Option<(Order, u64)> {
    match magic {
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((Order::Big, 1000)),
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((Order::Little, 1000)),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((Order::Big, 1)),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((Order::Little, 1)),
        _ => None,
    }
}

impl File {
    pub(super) fn read(header: &[u8; HEADER]) -> Result<Self, Malformed> {
        let magic = [header[0], header[1], header[2], header[3]];
        let (order, unit) = order_and_unit(magic).ok_or(Malformed::Magic(u32::from_be_bytes(magic)))?;
        // The upper half says how long the check sequences of frames are.
        let link = order.u32([header[20], header[21], header[22], header[23]]) as u16;
        Ok(Self { order, unit, link: LinkType(link) })
    }

    pub(super) fn step<'a>(&self, bytes: &'a [u8]) -> Result<Step<'a>, Malformed> {
        let Some((header, rest)) = bytes.split_first_chunk::<RECORD>() else { return Ok(Step::Need(RECORD)) };
        let word = |at: usize| self.order.u32([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (seconds, fraction, captured, original_length) = (word(0), word(4), word(8), word(12));
        if captured > LONGEST {
            return Err(Malformed::Length("packet", captured));
        }
        let used = RECORD + captured as usize;
        let Some(bytes) = rest.get(..captured as usize) else { return Ok(Step::Need(used)) };
        let stamp = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit;
        Ok(Step::Used(used, Some(Packet { link: self.link, stamp: Some(stamp), original_length, bytes })))
    }
}
