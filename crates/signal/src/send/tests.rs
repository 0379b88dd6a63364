//! On a clock of the test's own, with an outlet that takes what it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use weir_wire::signal::{Block, Body, Cause, Channel, Datagram, Element, Metadata, Rate, Values};

use super::*;
use crate::seal::Sealer;

/// Refuses some datagrams: those of these numbers, again and again.
#[derive(Debug, Default)]
struct Picky {
    refused: BTreeSet<usize>,
    offered: usize,
    taken: Vec<Vec<u8>>,
}

impl Outlet for Picky {
    fn send(&mut self, datagram: &[u8]) -> bool {
        self.offered += 1;
        let takes = !self.refused.contains(&(self.offered % 64));
        if takes {
            self.taken.push(datagram.to_vec());
        }
        takes
    }
}

fn sender(refused: BTreeSet<usize>) -> Sender<Picky> {
    let stream = Stream {
        station: "s".into(),
        name: "view".into(),
        sealer: Sealer::default(),
        most_bytes: 1452,
        fault: Cause::Server,
    };
    let mut sender = Sender::new(stream, Picky { refused, ..Picky::default() });
    sender.header.session = 7;
    sender
}

fn channel(id: u16) -> Channel {
    Channel { id, name: format!("c{id}"), rate: Rate::hertz(1000), element: Element::F64, ..Channel::default() }
}

/// What a receiver has of it: of each channel where it begins, where it ends, and what is missing by cause.
fn received(sender: &Sender<Picky>) -> BTreeMap<u16, (u64, u64, BTreeMap<Cause, u64>)> {
    let (mut sequence, mut described, mut channels) = (0, BTreeSet::new(), BTreeMap::new());
    for bytes in &sender.outlet.taken {
        let Datagram { header, body } = Datagram::parse(bytes).unwrap();
        assert_eq!((header.session, header.sequence), (7, sequence));
        match body {
            Body::Data(blocks) => {
                sequence += 1;
                for block in blocks {
                    let is_known = described.contains(&block.channel) || !sender.outlet.refused.is_empty();
                    assert!(is_known, "data before its description");
                    let (_, next, gaps) =
                        channels.entry(block.channel).or_insert((block.first, block.first, BTreeMap::new()));
                    assert_eq!(block.first, *next);
                    *next = block.end();
                    if let Values::Gap(gap) = block.values {
                        *gaps.entry(gap.cause).or_default() += gap.samples;
                    }
                }
            }
            Body::Metadata(fields) => described.extend(Metadata::parse(fields).unwrap().channels.iter().map(|c| c.id)),
            _ => {}
        }
    }
    channels
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Whatever the outlet refuses, and whether samples are a station's or another's blocks: each index once, each number once.
    #[test]
    fn what_is_not_taken_is_an_exact_gap_of_whose_fault_it_is(
        refused in proptest::collection::btree_set(0..64_usize, 0..40),
        parts in proptest::collection::vec((0..3_u16, 1..700_u64, 0..4_u8), 1..60),
        bucket in 1..9_u32,
    ) {
        let mut sender = sender(refused);
        let mut next = [1000_u64; 3];
        (0..3).for_each(|id| sender.add(Lane::new(channel(id), 1000, 0, bucket)));
        for (now, (id, count, kind)) in (0..).step_by(3_000_000).zip(parts) {
            let first = next[usize::from(id)];
            next[usize::from(id)] += count;
            let values: Vec<f64> = (0..count).map(|at| at as f64).collect();
            match kind {
                0 => sender.push(id, first, &values, now),
                1 => sender.miss(id, first, count, Cause::Network, now),
                _ => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    let values = Values::Samples(Element::F64, &bytes);
                    sender.push_block(&Block { channel: id, first, time: 5, rate: Rate::hertz(1000), values }, now);
                }
            }
            sender.step(now, 5_000_000);
        }
        sender.end(1_000_000_000, |_| ());
        let channels = received(&sender);
        for (id, next) in (0..3).zip(next) {
            let lane = &sender.lanes[&id];
            prop_assert_eq!((lane.told, lane.waiting()), (next, 0));
            prop_assert_eq!(lane.sent + lane.gaps.iter().sum::<u64>(), next - 1000);
            // Of what was given up at the end nothing was taken any more: positions say so.
            let (begin, end, gaps) = channels.get(&id).cloned().unwrap_or((next, next, BTreeMap::new()));
            prop_assert!(begin == next || begin == 1000 && end <= next);
            prop_assert!(gaps.keys().all(|cause| [Cause::Server, Cause::Network].contains(cause)), "{gaps:?}");
            if sender.outlet.refused.is_empty() {
                prop_assert_eq!((end, gaps.get(&Cause::Server)), (next, None));
            }
        }
    }
}

/// Names are known soon, again and again, and no more often than that.
#[test]
fn descriptions_come_at_first_often_and_then_once_a_second() {
    let mut sender = sender(BTreeSet::new());
    (0..200).for_each(|id| sender.add(Lane::new(channel(id), 0, 0, 1)));
    let mut told: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
    for now in (0..5_000_000_000).step_by(5_000_000) {
        sender.step(now, 5_000_000);
        assert!(sender.due(5_000_000) <= now + 50_000_000);
        for bytes in std::mem::take(&mut sender.outlet.taken) {
            if let Body::Metadata(fields) = Datagram::parse(&bytes).unwrap().body {
                let channels = Metadata::parse(fields).unwrap().channels;
                channels.iter().for_each(|channel| told.entry(channel.id).or_default().push(now));
            }
        }
    }
    assert_eq!(told.len(), 200);
    for times in told.values() {
        assert!(times[0] <= 20_000_000 && (7..=9).contains(&times.len()), "{times:?}");
        assert!(times.windows(2).all(|two| two[1] - two[0] <= 1_100_000_000), "{times:?}");
    }
    sender.describe(Channel { unit: "V".into(), ..channel(7) });
    assert_eq!(sender.due(5_000_000), 0);
    sender.step(5_000_000_000, 5_000_000);
    let is_7 = |bytes: &Vec<u8>| match Datagram::parse(bytes).unwrap().body {
        Body::Metadata(fields) => Metadata::parse(fields).unwrap().channels.iter().any(|channel| channel.unit == "V"),
        _ => false,
    };
    assert!(sender.outlet.taken.iter().any(is_7));
}

/// What a channel was is not told under what it is.
#[test]
fn a_channel_that_is_measured_otherwise_sends_what_it_was_before() {
    let mut sender = sender(BTreeSet::new());
    sender.add(Lane::new(channel(1), 0, 0, 10));
    sender.step(0, 0);
    sender.push(1, 0, &[1.0; 25], 1);
    sender.redefine(Channel { scale: 2.0, ..channel(1) }, 2);
    sender.push(1, 25, &[1.0; 10], 3);
    sender.step(4, 0);
    sender.end(5, |_: Duration| ());
    let mut scales = Vec::new();
    for bytes in &sender.outlet.taken {
        match Datagram::parse(bytes).unwrap().body {
            Body::Data(blocks) => scales.extend(blocks.map(|block| (0.0, block.end()))),
            Body::Metadata(fields) => {
                scales.extend(Metadata::parse(fields).unwrap().channels.iter().map(|channel| (channel.scale, 0)));
            }
            _ => {}
        }
    }
    assert_eq!(scales[..5], [(1.0, 0), (0.0, 20), (0.0, 25), (2.0, 0), (0.0, 30)]);
    assert_eq!(received(&sender)[&1].1, 35);
}
