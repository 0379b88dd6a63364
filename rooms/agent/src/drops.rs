//! Packets that the kernel drops: from its ring to discarded-packet samples.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use weir_kernel::trace::packets::{self, Fate, HEADER, Packet, Packets};
use weir_wire::frame::Frame;
use weir_wire::sflow::encode::{Discarded, Put};
use weir_wire::sflow::{HeaderProtocol, Interface, Space};

use crate::counters::{HOST, put};
use crate::ledger::{DropsCount, ReasonCount};
use crate::length::{CHECK_SEQUENCE, IPV4, IPV6, frame_length, start};
use crate::outbox::Outbox;
use crate::reasons;
use crate::sampling::{HEADER_IPV4, HEADER_IPV6};

/// What was dropped, and what was told of it.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    /// Samples so far: their sequence number.
    sequence: u32,
    /// Samples by Linux's reason.
    sent: BTreeMap<String, u64>,
    /// Packets of this look, in order.
    held: Vec<Held>,
    /// What may be told beyond whole events, in events.
    allowed: f64,
}

#[derive(Debug)]
struct Held {
    input: Option<u32>,
    output: Option<u32>,
    reason: u32,
    location: u64,
    length: u32,
    segments: u32,
    protocol: u16,
    bytes: [u8; HEADER],
    captured: usize,
}

impl Drops {
    /// Takes a packet out of the ring.
    pub(crate) fn hold(&mut self, packet: &Packet<'_>) {
        let Fate::Discarded { input, output, reason, location } = packet.fate else { return };
        let mut bytes = [0; HEADER];
        bytes[..packet.bytes.len()].copy_from_slice(packet.bytes);
        let Packet { length, segments, protocol, .. } = *packet;
        self.held.push(Held {
            input,
            output,
            reason,
            location,
            length,
            segments,
            protocol,
            bytes,
            captured: packet.bytes.len(),
        });
    }

    /// Writes what was taken. All have the number of packets that no sample tells of as it is now.
    ///
    /// # Errors
    /// If the kernel does not tell what it counted.
    pub(crate) fn write(&mut self, packets: &mut Packets, outbox: &mut Outbox) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        packets.learn_functions(self.held.iter().map(|held| held.location));
        let (counted, missed) = packets.discarded()?;
        let untold = counted.iter().map(|one| one.packets - one.told).sum::<u64>() + missed;
        for held in std::mem::take(&mut self.held) {
            self.sequence = self.sequence.wrapping_add(1);
            let name = packets.reason(held.reason).into_owned();
            let interface = |index: Option<u32>| index.map_or(Interface::Unknown, Interface::Index);
            let sample = Discarded {
                sequence: self.sequence,
                source: HOST,
                drops: untold as u32,
                input: interface(held.input),
                output: interface(held.output),
                reason: reasons::number(&name),
            };
            let function = packets.function(held.location);
            outbox.add(true, |samples| held.write(&mut samples.discarded(&sample), &name, function));
            *self.sent.entry(name).or_default() += 1;
        }
        Ok(())
    }

    /// Has so many drops a second told, over the time since the last call.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn allow(&mut self, packets: &mut Packets, most: u32, elapsed: Duration) -> Result<()> {
        // What was not used does not add up to more than a look's worth, but for rates below one a look.
        let fresh = f64::from(most) * elapsed.as_secs_f64();
        self.allowed = (self.allowed.fract() + fresh).min(f64::from(most).max(1.0));
        Ok(packets.tell_drops(self.allowed as u32)?)
    }

    /// What became of all packets that were dropped.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn count(&self, packets: &Packets, ended: bool) -> Result<DropsCount> {
        let (counted, missed) = packets.discarded()?;
        let told = counted.iter().map(|one| one.told).sum();
        let by_reason = counted.into_iter().map(|packets::Discarded { reason, packets, .. }| {
            let sent = self.sent.get(&reason).copied().unwrap_or(0);
            (reason, ReasonCount { packets, sent })
        });
        Ok(DropsCount::new(by_reason.collect(), told, missed, ended))
    }
}

impl Held {
    fn write(&self, records: &mut weir_wire::sflow::encode::Records<'_>, reason: &str, function: &str) {
        let header = &self.bytes[..self.captured];
        let known = match self.protocol {
            0 => Some((HeaderProtocol::ETHERNET.0, CHECK_SEQUENCE)),
            IPV4 => Some((HEADER_IPV4, 0)),
            IPV6 => Some((HEADER_IPV6, 0)),
            _ => None,
        };
        if let Some((protocol, check)) = known.filter(|_| !header.is_empty()) {
            let frame = Frame::parse(start(self.protocol == 0, self.protocol), header);
            let length = frame_length(&frame, header, self.length, self.segments) + check;
            let values = [Put::U32(protocol), Put::U32(length), Put::U32(check), Put::Opaque(header)];
            put(records, Space::Flow, "sampled_header", &values);
        }
        if !function.is_empty() {
            put(records, Space::Flow, "extended_function", &[Put::Text(function.as_bytes())]);
        }
        if !reason.is_empty() {
            put(records, Space::Flow, "extended_linux_drop_reason", &[Put::Text(reason.as_bytes())]);
        }
    }
}
