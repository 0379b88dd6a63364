//! What was read, and what could not be.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::net::IpAddr;

use serde::{Serialize, Serializer};
use weir_wire::sflow::{DataFormat, Datagram, Malformed, Sample};

use super::name;

/// Counts of everything that was read.
#[derive(Debug, Default, Serialize)]
pub struct Totals {
    /// Datagrams of sFlow version 5.
    pub datagrams: u64,
    /// Samples by kind.
    samples: Counts<Cow<'static, str>>,
    /// Flow records by structure.
    flow_records: Counts<Named>,
    /// Counter records by structure.
    counter_records: Counts<Named>,
    /// What was malformed, by why.
    malformed: Counts<String>,
    /// Datagrams by agent and sub-agent.
    agents: Counts<Sender>,
    /// Packets of a capture that hold no sFlow, or of which too little is there.
    pub packets: Packets,
}

/// A structure: its number and its name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named(DataFormat, &'static str);

impl Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// An agent and its sub-agent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sender(IpAddr, u32);

impl Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
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
        self.agents.count(Sender(datagram.agent, datagram.sub_agent));
    }

    /// A sample with its records.
    pub(super) fn sample(&mut self, sample: &Sample<'_>) {
        self.samples.count(match sample {
            Sample::Unknown { format, .. } => format.to_string().into(),
            known => name(known).into(),
        });
        for record in sample.records() {
            let malformed = match record {
                Ok(record) => {
                    let is_counters = matches!(sample, Sample::Counters(_));
                    let records = if is_counters { &mut self.counter_records } else { &mut self.flow_records };
                    records.count(Named(record.format, record.structure.map_or("unknown", |structure| structure.name)));
                    record.values().last().and_then(Result::err)
                }
                Err(malformed) => Some(malformed),
            };
            if let Some(malformed) = malformed {
                self.malformed(malformed);
            }
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
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self { counts: BTreeMap::new(), others: 0 }
    }
}

impl<K: Display> Serialize for Counts<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let others = (self.others > 0).then(|| ("others".to_owned(), self.others));
        serializer.collect_map(self.counts.iter().map(|(key, count)| (key.to_string(), *count)).chain(others))
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
