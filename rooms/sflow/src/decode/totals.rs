//! What was read, and what could not be.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Serialize, Serializer};
use weir_wire::sflow::{DataFormat, Datagram, Malformed, Record, Sample, Space, Structure};

use super::name;

/// Counts of everything that was read.
#[derive(Debug, Default, Serialize)]
pub struct Totals {
    /// Datagrams of sFlow version 5.
    pub datagrams: u64,
    /// Samples by kind.
    samples: Counts<String>,
    /// Flow records by structure.
    flow_records: Counts<String>,
    /// Counter records by structure.
    counter_records: Counts<String>,
    /// What was malformed, by why.
    malformed: Counts<String>,
    /// Datagrams by agent and sub-agent.
    agents: Counts<String>,
    /// Packets of a capture that hold no sFlow, or of which too little is there.
    pub packets: Packets,
    #[serde(skip)]
    by_format: [Counts<DataFormat>; 2],
    #[serde(skip)]
    by_agent: Counts<(IpAddr, u32)>,
}

/// Packets of a capture that were not read.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Packets {
    /// Of other protocols.
    pub other: u64,
    /// Of link types that are not read.
    pub unknown_link: u64,
    /// Cut off by who captured (snap length).
    pub cut_off: u64,
    /// Fragments of IP packets, which are not put together.
    pub fragments: u64,
    /// Whether the capture ends in the middle of a packet.
    pub ends_early: bool,
}

/// Counts by key, of which no more than [`MOST`] are told apart.
#[derive(Debug)]
struct Counts<K> {
    counts: BTreeMap<K, u64>,
    others: u64,
}

/// Keys that are counted each by itself; a forger makes more.
const MOST: usize = 65_536;

impl Totals {
    /// A datagram; its samples are counted each.
    pub(super) fn datagram(&mut self, datagram: &Datagram<'_>) {
        self.datagrams += 1;
        self.by_agent.count((datagram.agent, datagram.sub_agent));
    }

    /// A sample with its records.
    pub(super) fn sample(&mut self, sample: &Sample<'_>) {
        match sample {
            Sample::Unknown { format, .. } => self.samples.count(format.to_string()),
            known => self.samples.count_named(name(known)),
        }
        let space = if matches!(sample, Sample::Counters(_)) { Space::Counter } else { Space::Flow };
        for record in sample.records() {
            match record {
                Ok(record) => self.record(space, &record),
                Err(malformed) => self.malformed(malformed),
            }
        }
    }

    fn record(&mut self, space: Space, record: &Record<'_>) {
        self.by_format[space as usize].count(record.format);
        if let Some(Err(malformed)) = record.values().last() {
            self.malformed(malformed);
        }
    }

    /// Something that could not be read.
    pub(super) fn malformed(&mut self, malformed: Malformed) {
        // By what is wrong, not by which number is there.
        self.malformed.count(match malformed {
            Malformed::Length { part, .. } => format!("{part} longer than what is around it"),
            Malformed::AddressType(_) => "address of an unknown type".to_owned(),
            other => other.to_string(),
        });
    }

    /// Why, the most frequent reason first.
    pub fn faults(&self) -> Vec<(&str, u64)> {
        let mut faults: Vec<_> = self.malformed.counts.iter().map(|(fault, count)| (&fault[..], *count)).collect();
        faults.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        faults
    }

    /// With names for what was counted by number.
    pub fn named(mut self) -> Self {
        let named = |space, counts: &Counts<DataFormat>| {
            counts.keyed(|format| match Structure::find(space, *format) {
                Some(structure) => format!("{format} {}", structure.name),
                None => format!("{format} unknown"),
            })
        };
        self.flow_records = named(Space::Flow, &self.by_format[Space::Flow as usize]);
        self.counter_records = named(Space::Counter, &self.by_format[Space::Counter as usize]);
        self.agents = self.by_agent.keyed(|(agent, sub_agent)| format!("{agent} {sub_agent}"));
        self
    }
}

impl<K: Ord> Counts<K> {
    fn count(&mut self, key: K) {
        let full = self.counts.len() >= MOST;
        match self.counts.get_mut(&key) {
            Some(count) => *count += 1,
            None if full => self.others += 1,
            None => {
                self.counts.insert(key, 1);
            }
        }
    }

    fn keyed(&self, text: impl Fn(&K) -> String) -> Counts<String> {
        let counts = self.counts.iter().map(|(key, count)| (text(key), *count)).collect();
        Counts { counts, others: self.others }
    }
}

impl Counts<String> {
    /// Without asking for memory, but for the first.
    fn count_named(&mut self, name: &str) {
        match self.counts.get_mut(name) {
            Some(count) => *count += 1,
            None => self.count(name.to_owned()),
        }
    }
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self { counts: BTreeMap::new(), others: 0 }
    }
}

impl<K: Serialize + Ord> Serialize for Counts<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        for (key, count) in &self.counts {
            map.serialize_entry(key, count)?;
        }
        if self.others > 0 {
            map.serialize_entry("others", &self.others)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_forgers_make_up_takes_no_memory() {
        let mut counts = Counts::default();
        for key in 0..MOST + 10 {
            counts.count(key);
        }
        counts.count(0);
        assert_eq!((counts.counts.len(), counts.others, counts.counts[&0]), (MOST, 10, 2));
    }
}
