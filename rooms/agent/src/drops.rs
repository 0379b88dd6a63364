//! Packets that the kernel drops: from its ring to discarded-packet samples.
//!
//! Which of them are told is left to chance, the same for each: whoever takes the first that come tells of the beginning of a burst
//! and of all that is dropped singly, and of what is dropped with them next to nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use weir_trace::packets::{self, Fate, Packet, Packets};
use weir_wire::sflow::encode::{Discarded, Put};
use weir_wire::sflow::{Interface, Space};

use crate::collectors::Collectors;
use crate::counters::{HOST, put};
use crate::ledger::{DropsCount, ReasonCount};
use crate::length::Head;
use crate::outbox::Outbox;
use crate::reasons;
use crate::sampling::is_own;
use crate::shedding::Rate;

/// What was dropped, and what was told of it.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    /// Samples so far: their sequence number.
    sequence: u32,
    /// Samples by Linux's reason.
    sent: BTreeMap<String, u64>,
    /// Packets of this look, in order.
    held: Vec<Held>,
    /// Packets dropped, as last read, and how many they are a second.
    dropped: u64,
    rising: Rate,
    /// Packets of the ring that are not told.
    left_out: u64,
}

#[derive(Debug)]
struct Held {
    input: Option<u32>,
    output: Option<u32>,
    reason: u32,
    location: u64,
    head: Head,
}

impl Drops {
    /// Takes a packet out of the ring.
    pub(crate) fn hold(&mut self, packet: &Packet<'_>) {
        let Fate::Discarded { input, output, reason, location } = packet.fate else { return };
        let head = Head::new(packet, packet.protocol == 0);
        self.held.push(Held { input, output, reason, location, head });
    }

    /// Writes of what was taken as many as `most` a second. All have the number of packets that no sample tells of as it is now.
    /// `elapsed`: since the last call.
    ///
    /// # Errors
    /// If the kernel does not tell what it counted.
    pub(crate) fn write(
        &mut self,
        packets: &mut Packets,
        (most, elapsed): (u32, Duration),
        collectors: &Collectors,
        outbox: &mut Outbox,
    ) -> Result<()> {
        if self.held.is_empty() {
            self.rising.take(0, elapsed);
            return Ok(());
        }
        let (counted, missed) = packets.discarded()?;
        let dropped = counted.iter().map(|one| one.packets).sum::<u64>() + missed;
        let fresh = dropped.saturating_sub(std::mem::replace(&mut self.dropped, dropped));
        let kept = share(most, self.rising.take(fresh, elapsed), fresh, self.held.len());
        let before = self.held.len();
        self.held.retain(|_| kept >= 1.0 || fastrand::f64() < kept);
        self.left_out += (before - self.held.len()) as u64;
        packets.learn_functions(self.held.iter().map(|held| held.location));
        let told = counted.iter().map(|one| one.told).sum::<u64>() - self.left_out;
        let untold = dropped - told;
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
            outbox.add(!is_own(held.head.frame(), collectors), |samples| {
                held.write(&mut samples.discarded(&sample), &name, function);
            });
            *self.sent.entry(name).or_default() += 1;
        }
        Ok(())
    }

    /// What became of all packets that were dropped.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn count(&self, packets: &Packets, ended: bool) -> Result<DropsCount> {
        let (counted, missed) = packets.discarded()?;
        let told = counted.iter().map(|one| one.told).sum::<u64>() - self.left_out;
        let by_reason = counted.into_iter().map(|packets::Discarded { reason, packets, .. }| {
            let sent = self.sent.get(&reason).copied().unwrap_or(0);
            (reason, ReasonCount { packets, sent })
        });
        Ok(DropsCount::new(by_reason.collect(), told, missed, ended))
    }
}

impl Held {
    fn write(&self, records: &mut weir_wire::sflow::encode::Records<'_>, reason: &str, function: &str) {
        let header = &self.head.bytes[..self.head.captured];
        if let Some([protocol, length, stripped]) = self.head.described().filter(|_| !header.is_empty()) {
            let values = [Put::U32(protocol), Put::U32(length), Put::U32(stripped), Put::Opaque(header)];
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

/// The share of the packets in the ring that is told, so that each one dropped has the same chance, whether it found a place in the
/// ring or not: `most` of those that are dropped a second.
fn share(most: u32, dropped_per_s: f64, fresh: u64, held: usize) -> f64 {
    f64::from(most) / dropped_per_s * (fresh as f64 / held.max(1) as f64)
}

/// Dropped packets of which the ring is to have an event, from one look to the next: among them are chosen those that are told.
pub(crate) const EVENTS_OF_A_LOOK: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A drop a hundredth of a second, and 300 at once each second: both are told by the same share.
    #[test]
    fn what_comes_in_bursts_is_told_as_much_as_what_does_not() {
        let (mut rising, mut told) = (Rate::default(), [0.0; 2]);
        for look in 0..6000 {
            let burst = if look % 10 == 0 { 300 } else { 0 };
            let fresh = 10 + burst;
            let kept = share(100, rising.take(fresh, Duration::from_millis(100)), fresh, fresh as usize).min(1.0);
            if look > 600 {
                told[0] += kept * 10.0;
                told[1] += kept * burst as f64;
            }
        }
        let ratio = told[1] / told[0];
        assert!((2.6..3.4).contains(&ratio), "{told:?}: 3 times as many are dropped in bursts");
        let per_s = (told[0] + told[1]) / 540.0;
        assert!((85.0..115.0).contains(&per_s), "{per_s}");
    }

    #[test]
    fn packets_beyond_the_ring_count_for_the_chance_of_those_in_it() {
        assert_eq!(share(100, 10_000.0, 1000, 100), 0.1);
        assert!(share(100, 50.0, 5, 5) > 1.0);
    }
}
