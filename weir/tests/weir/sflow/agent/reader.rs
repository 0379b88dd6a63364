//! A reader of sFlow that shares nothing with the writer: after the specification, as far as these tests need it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// A datagram.
pub(super) struct Datagram {
    pub(super) agent: IpAddr,
    pub(super) sequence: u32,
    pub(super) samples: Vec<Sample>,
}

/// A sample, with its records by their number.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// 1: flow, 2: counters, 5: discarded.
    pub(super) format: u32,
    pub(super) sequence: u32,
    /// Class and index.
    pub(super) source: (u32, u32),
    /// What stands between the source and the records, word by word.
    pub(super) words: Vec<u32>,
    pub(super) records: BTreeMap<u32, Vec<u8>>,
}

struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> u32 {
        let (word, rest) = self.0.split_first_chunk().expect("a word");
        self.0 = rest;
        u32::from_be_bytes(*word)
    }

    fn opaque(&mut self) -> Vec<u8> {
        let length = self.next() as usize;
        let (bytes, rest) = self.0.split_at(length.next_multiple_of(4));
        self.0 = rest;
        assert!(bytes[length..].iter().all(|&byte| byte == 0), "padding");
        bytes[..length].to_vec()
    }
}

impl Datagram {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut words = Words(bytes);
        assert_eq!((words.next(), words.next()), (5, 1), "version 5, an agent with an IPv4 address");
        let agent = Ipv4Addr::from(words.next()).into();
        let (sub_agent, sequence, _uptime, count) = (words.next(), words.next(), words.next(), words.next());
        assert_eq!(sub_agent, 0);
        let samples =
            (0..count).map(|_| (words.next(), words.opaque())).map(|(format, body)| Sample::read(format, &body));
        let samples = samples.collect();
        assert!(words.0.is_empty());
        Self { agent, sequence, samples }
    }
}

impl Sample {
    fn read(format: u32, body: &[u8]) -> Self {
        let mut words = Words(body);
        let sequence = words.next();
        let (source, between) = match format {
            1 => (words.next(), 5),
            2 => (words.next(), 0),
            5 => (words.next() << 24 | words.next(), 4),
            _ => panic!("format {format}"),
        };
        let between = (0..between).map(|_| words.next()).collect();
        let count = words.next();
        let records: BTreeMap<u32, Vec<u8>> = (0..count).map(|_| (words.next(), words.opaque())).collect();
        assert!(words.0.is_empty() && records.len() == count as usize);
        Self { format, sequence, source: (source >> 24, source & 0xff_ffff), words: between, records }
    }

    /// The word at this place of a record.
    #[track_caller]
    pub(super) fn word(&self, record: u32, at: usize) -> u32 {
        u32::from_be_bytes(self.records[&record][4 * at..][..4].try_into().unwrap())
    }

    /// The 64 bits from this word of a record on.
    #[track_caller]
    pub(super) fn long(&self, record: u32, at: usize) -> u64 {
        u64::from(self.word(record, at)) << 32 | u64::from(self.word(record, at + 1))
    }

    /// The text or bytes from this word of a record on.
    #[track_caller]
    pub(super) fn opaque(&self, record: u32, at: usize) -> Vec<u8> {
        Words(&self.records[&record][4 * at..]).opaque()
    }

    /// Whether it has counters of the interface of this name.
    pub(super) fn is_of(&self, name: &str) -> bool {
        self.format == 2 && self.records.contains_key(&1005) && self.opaque(1005, 0) == name.as_bytes()
    }
}
