//! The newer format: blocks, in sections with an order of bytes and interfaces of their own.

use super::link::LinkType;
use super::{LONGEST, Malformed, Order, Packet, Step};

/// A section so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    /// `None` before the first section.
    order: Option<Order>,
    interfaces: Vec<Interface>,
}

/// What packets of an interface have in common.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// Bytes kept of each packet; 0: all.
    snap_length: u32,
    resolution: Resolution,
    /// Seconds to add to each stamp.
    offset: i64,
}

/// The unit of stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// 10 to the power of minus this, seconds.
    Ten(u8),
    /// 2 to the power of minus this, seconds.
    Two(u8),
}

/// With what a section, and so a file, begins.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Interfaces of one section that are remembered.
pub(super) const MAX_INTERFACES: usize = 65_536;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const END_OF_OPTIONS: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

impl Section {
    pub(super) fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Malformed> {
        // Type, length, and the order of bytes, should it be a section header.
        let Some(&[a, b, c, d, e, f, g, h, magic @ ..]) = bytes.first_chunk::<12>() else { return Ok(Step::Need(12)) };
        if [a, b, c, d] == MAGIC {
            self.order = Some(match magic {
                [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
                [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
                other => return Err(Malformed::Magic(u32::from_be_bytes(other))),
            });
            self.interfaces.clear();
        }
        let order = self.order.ok_or(Malformed::Magic(u32::from_be_bytes([a, b, c, d])))?;
        let (kind, length) = (order.u32([a, b, c, d]), order.u32([e, f, g, h]));
        if !(12..=LONGEST).contains(&length) || !length.is_multiple_of(4) {
            return Err(Malformed::Length("block", length));
        }
        let used = length as usize;
        let Some(body) = bytes.get(8..used).and_then(|rest| rest.get(..used - 12)) else { return Ok(Step::Need(used)) };
        let short = Malformed::Length("block", length);
        let packet = match kind {
            SECTION_HEADER => None,
            INTERFACE_DESCRIPTION => {
                if self.interfaces.len() == MAX_INTERFACES {
                    return Err(Malformed::Interfaces(MAX_INTERFACES));
                }
                self.interfaces.push(Interface::read(order, body).ok_or(short)?);
                None
            }
            ENHANCED_PACKET => {
                let (fields, rest) = words::<5>(order, body).ok_or(short)?;
                Some(self.packet(fields[0], (fields[1], fields[2]), fields[3], fields[4], rest)?)
            }
            OBSOLETE_PACKET => {
                let (fields, rest) = words::<5>(order, body).ok_or(short)?;
                // The interface is the first two bytes, whatever the order.
                let interface = order.u16([body[0], body[1]]).into();
                Some(self.packet(interface, (fields[1], fields[2]), fields[3], fields[4], rest)?)
            }
            SIMPLE_PACKET => {
                let ([original_length], rest) = words(order, body).ok_or(short)?;
                let interface = self.interfaces.first().ok_or(Malformed::Interface(0))?;
                let kept = if interface.snap_length == 0 { u32::MAX } else { interface.snap_length };
                let bytes = &rest[..rest.len().min(original_length.min(kept) as usize)];
                Some(Packet { link: interface.link, stamp: None, original_length, bytes })
            }
            _ => None,
        };
        Ok(Step::Used(used, packet))
    }

    fn packet<'a>(
        &self,
        interface: u32,
        stamp: (u32, u32),
        captured: u32,
        original_length: u32,
        rest: &'a [u8],
    ) -> Result<Packet<'a>, Malformed> {
        let known = self.interfaces.get(interface as usize).ok_or(Malformed::Interface(interface))?;
        let bytes = rest.get(..captured as usize).ok_or(Malformed::Length("packet", captured))?;
        let stamp = known.stamp(u64::from(stamp.0) << 32 | u64::from(stamp.1));
        Ok(Packet { link: known.link, stamp, original_length, bytes })
    }
}

impl Interface {
    fn read(order: Order, body: &[u8]) -> Option<Self> {
        let (&[a, b, _, _, snap @ ..], mut options) = body.split_first_chunk::<8>()?;
        let (link, snap_length) = (LinkType(order.u16([a, b])), order.u32(snap));
        let mut interface = Self { link, snap_length, resolution: Resolution::Ten(6), offset: 0 };
        while let Some((&[a, b, c, d], rest)) = options.split_first_chunk() {
            let (code, length) = (order.u16([a, b]), usize::from(order.u16([c, d])));
            let Some(value) = rest.get(..length).filter(|_| code != END_OF_OPTIONS) else { break };
            match (code, value) {
                (IF_TSRESOL, &[power]) if power & 0x80 == 0 => interface.resolution = Resolution::Ten(power),
                (IF_TSRESOL, &[power]) => interface.resolution = Resolution::Two(power & 0x7f),
                (IF_TSOFFSET, &[a, b, c, d, e, f, g, h]) => {
                    let (first, second) = (order.u32([a, b, c, d]), order.u32([e, f, g, h]));
                    let (high, low) = if order == Order::Big { (first, second) } else { (second, first) };
                    interface.offset = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                }
                _ => {}
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(interface)
    }

    /// Nanoseconds since 1970-01-01 UTC; `None` for what lies outside of what they can tell.
    fn stamp(&self, ticks: u64) -> Option<u64> {
        const SECOND: i128 = 1_000_000_000;
        let ticks = i128::from(ticks);
        let since = match self.resolution {
            Resolution::Ten(power) if power <= 9 => ticks * 10_i128.pow(9 - u32::from(power)),
            Resolution::Ten(power) => ticks / 10_i128.checked_pow(u32::from(power) - 9)?,
            Resolution::Two(power) => (ticks * SECOND).checked_shr(power.into())?,
        };
        u64::try_from(since + i128::from(self.offset) * SECOND).ok()
    }
}

/// The numbers at the front, and what is behind them.
fn words<const N: usize>(order: Order, bytes: &[u8]) -> Option<([u32; N], &[u8])> {
    let (words, _) = bytes.as_chunks::<4>();
    let words: &[[u8; 4]; N] = words.first_chunk()?;
    Some((words.map(|word| order.u32(word)), bytes.get(N * 4..)?))
}
