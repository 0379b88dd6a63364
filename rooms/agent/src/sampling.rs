//! Packets that stand for others: from the kernel's ring to flow samples.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use weir_kernel::links::Index;
use weir_trace::packets::{Fate, HEADER, Means, Packet, Packets, Sampled};
use weir_wire::frame::{Frame, Protocol};
use weir_wire::sflow::encode::{Flow, Put, Records};
use weir_wire::sflow::{DataSource, Interface, Space};

use crate::collectors::Collectors;
use crate::counters::put;
use crate::ledger::SamplingCount;
use crate::length::Head;
use crate::outbox::Outbox;
use crate::shedding::{Rate, kept};

/// Interfaces that are sampled, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    sources: BTreeMap<Index, Source>,
    /// What was counted of interfaces that are gone.
    gone: Sampled,
    /// Samples written.
    sent: u64,
    /// Packets of this look, in order.
    held: Vec<Held>,
}

/// A sampled interface: a data source.
#[derive(Debug)]
struct Source {
    rate: u32,
    /// The share of its samples that is kept.
    kept: f64,
    /// Whether its frames begin with an Ethernet header.
    ethernet: bool,
    /// Samples so far: their sequence number.
    sequence: u32,
    /// As last read.
    counts: Sampled,
    /// Samples chosen until the last look, and how many they are a second.
    chosen: u64,
    rising: Rate,
    /// Samples in the ring at this look.
    waiting: u64,
}

/// A packet out of the ring.
#[derive(Clone, Debug)]
struct Held {
    interface: Index,
    times: u32,
    vlan: Option<(u16, u16)>,
    outgoing: bool,
    head: Head,
}

impl Sampler {
    /// Samples one of `rate` packets of an interface from now on; `None`: none. `false`: so many are sampled already.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn follow(
        &mut self,
        packets: &mut Packets,
        interface: Index,
        rate: Option<u32>,
        ethernet: bool,
    ) -> Result<bool> {
        let Some(rate) = rate else {
            self.leave(packets, interface)?;
            return Ok(true);
        };
        if let Some(source) = self.sources.get_mut(&interface) {
            if source.rate != rate {
                packets.sample(interface, rate, source.kept)?;
                source.rate = rate;
            }
            return Ok(true);
        }
        if !packets.sample(interface, rate, 1.0)? {
            return Ok(false);
        }
        let source = Source {
            rate,
            kept: 1.0,
            ethernet,
            sequence: 0,
            counts: Sampled::default(),
            chosen: 0,
            rising: Rate::default(),
            waiting: 0,
        };
        self.sources.insert(interface, source);
        Ok(true)
    }

    /// Samples an interface no more: it is gone, or not wanted.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn leave(&mut self, packets: &mut Packets, interface: Index) -> Result<()> {
        if self.sources.remove(&interface).is_some() {
            let counts = packets.leave(interface)?;
            self.gone = sum(self.gone, counts);
        }
        Ok(())
    }

    /// Takes a packet out of the ring.
    pub(crate) fn hold(&mut self, packet: &Packet<'_>) {
        let Fate::Sampled { interface, times } = packet.fate else { return };
        let source = self.sources.get_mut(&interface);
        let head = Head::new(packet, source.as_ref().is_none_or(|source| source.ethernet));
        self.held.push(Held { interface, times, vlan: packet.vlan, outgoing: packet.outgoing, head });
        if let Some(source) = source {
            source.waiting += u64::from(times);
        }
    }

    /// Writes what was taken. Each sample has the pool as it was about when the packet passed: between two readings it
    /// grows evenly.
    ///
    /// # Errors
    /// If the kernel does not tell what it counted.
    pub(crate) fn write(&mut self, packets: &Packets, collectors: &Collectors, outbox: &mut Outbox) -> Result<()> {
        let mut before = BTreeMap::new();
        for (&interface, source) in self.sources.iter_mut().filter(|(_, source)| source.waiting > 0) {
            let counts = packets.sampled(interface)?;
            before.insert(interface, (source.counts.pool, source.waiting));
            source.counts = counts;
        }
        for held in std::mem::take(&mut self.held) {
            let Some(source) = self.sources.get_mut(&held.interface) else {
                // It has gone since.
                self.gone.lost += u64::from(held.times);
                continue;
            };
            self.sent += u64::from(held.times);
            let urgent = !(held.outgoing && is_own(held.head.frame(), collectors));
            for _ in 0..held.times {
                let (pool_before, waiting) = before.get(&held.interface).copied().unwrap_or((source.counts.pool, 1));
                let growth = u128::from(source.counts.pool.saturating_sub(pool_before));
                let written = waiting - source.waiting + 1;
                let pool = pool_before + (growth * u128::from(written) / u128::from(waiting)) as u64;
                source.waiting -= 1;
                source.sequence = source.sequence.wrapping_add(1);
                let sample = Flow {
                    sequence: source.sequence,
                    source: DataSource { class: DataSource::IF_INDEX, index: held.interface },
                    sampling_rate: source.rate,
                    sample_pool: pool as u32,
                    drops: (source.counts.shed + source.counts.lost) as u32,
                    input: if held.outgoing { Interface::Unknown } else { Interface::Index(held.interface) },
                    output: if held.outgoing { Interface::Index(held.interface) } else { Interface::Unknown },
                    expanded: false,
                };
                outbox.add(urgent, |samples| held.write(&mut samples.flow(&sample)));
            }
        }
        Ok(())
    }

    /// Keeps no more of the samples than `most` a second. `elapsed`: since the last call.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn shed(&mut self, packets: &mut Packets, most: u32, elapsed: Duration) -> Result<()> {
        let mut chosen = Vec::with_capacity(self.sources.len());
        for (&interface, source) in &mut self.sources {
            if source.kept < 1.0 {
                source.counts = packets.sampled(interface)?;
            }
            let fresh = source.counts.chosen - std::mem::replace(&mut source.chosen, source.counts.chosen);
            chosen.push(source.rising.take(fresh, elapsed));
        }
        for ((&interface, source), kept) in self.sources.iter_mut().zip(kept(&chosen, most.into())) {
            // Chance alone moves it by less.
            if kept != source.kept && (kept == 1.0 || (kept - source.kept).abs() > source.kept / 8.0) {
                packets.sample(interface, source.rate, kept)?;
                source.kept = kept;
            }
        }
        Ok(())
    }

    /// What became of all samples.
    ///
    /// # Errors
    /// If the kernel does not tell what it counted.
    pub(crate) fn count(&self, packets: &Packets, means: Means, ended: bool) -> Result<SamplingCount> {
        let mut all = self.gone;
        for &interface in self.sources.keys() {
            all = sum(all, packets.sampled(interface)?);
        }
        Ok(SamplingCount::new(means, all, self.sent, ended))
    }

    /// Interfaces that are sampled.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }
}

impl Held {
    fn write(&self, records: &mut Records<'_>) {
        // Without a number for how it begins the packet is counted alone.
        let Some([protocol, length, stripped]) = self.head.described() else { return };
        let (tagged, captured) = self.tagged();
        let tag = if self.vlan.is_some() && self.head.ethernet { TAG as u32 } else { 0 };
        let header = Put::Opaque(&tagged[..captured]);
        let values = [Put::U32(protocol), Put::U32(length + tag), Put::U32(stripped), header];
        put(records, Space::Flow, "sampled_header", &values);
    }

    /// The first bytes with the tag where it was on the wire, and how many they are.
    fn tagged(&self) -> ([u8; HEADER], usize) {
        let Head { ethernet, bytes, captured, .. } = self.head;
        match self.vlan.filter(|_| ethernet && captured >= ADDRESSES) {
            None => (bytes, captured),
            Some((protocol, tag)) => {
                let mut bytes = bytes;
                bytes.copy_within(ADDRESSES..HEADER - TAG, ADDRESSES + TAG);
                bytes[ADDRESSES..ADDRESSES + 2].copy_from_slice(&protocol.to_be_bytes());
                bytes[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tag.to_be_bytes());
                (bytes, (captured + TAG).min(HEADER))
            }
        }
    }
}

/// Whether a frame is a datagram of the agent's own: it does not call for more of them.
pub(crate) fn is_own(frame: Frame<'_>, collectors: &Collectors) -> bool {
    let to = frame.ipv4(0).map(|ip| ip.destination().into()).or_else(|| Some(frame.ipv6(0)?.destination().into()));
    let (Some(to), Some(ports)) = (to, frame.ports(Protocol::Udp, 0)) else { return false };
    collectors.is_own(ports.source, SocketAddr::new(to, ports.destination))
}

fn sum(a: Sampled, b: Sampled) -> Sampled {
    Sampled { pool: a.pool + b.pool, chosen: a.chosen + b.chosen, shed: a.shed + b.shed, lost: a.lost + b.lost }
}

/// Bytes of two Ethernet addresses, and of a tag behind them (IEEE 802.1Q).
const ADDRESSES: usize = 12;
const TAG: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn held(vlan: Option<(u16, u16)>, ethernet: bool, captured: usize) -> Held {
        let mut bytes = [0; HEADER];
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        bytes[23] = 6;
        let fate = Fate::Sampled { interface: 2, times: 1 };
        let (length, segments, protocol) = (1514, 1, 0);
        let bytes = &bytes[..captured];
        let head = Head::new(&Packet { fate, length, segments, vlan, protocol, outgoing: true, bytes }, ethernet);
        Held { interface: 2, times: 1, vlan, outgoing: true, head }
    }

    #[test]
    fn a_tag_is_put_where_it_was() {
        let tag = Some((0x8100, 7));
        let (bytes, length) = held(tag, true, HEADER).tagged();
        assert_eq!((&bytes[12..19], length), (&[0x81, 0, 0, 7, 8, 0, 0x45][..], HEADER));
        let (bytes, length) = held(tag, true, 60).tagged();
        assert_eq!((bytes[14 + 4 + 9], length), (6, 64));
        assert_eq!(held(tag, false, HEADER).tagged(), held(None, true, HEADER).tagged());
    }
}
