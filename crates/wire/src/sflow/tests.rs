//! What is written is read again, whatever it is; what is damaged costs nothing else, and nothing at all makes the reader panic.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::encode::{self, Counters, Discarded, Flow, Header, Mismatch, Put};
use super::*;

/// A value with all that is in it.
#[derive(Clone, Debug)]
enum Owned {
    U8(u8),
    U32(u32),
    I32(i32),
    U64(u64),
    F32(f32),
    Mac([u8; 6]),
    Address(Option<IpAddr>),
    Uuid([u8; 16]),
    Text(Vec<u8>),
    Opaque(Vec<u8>),
    Structure(Vec<Owned>),
    List(Vec<Owned>),
    Records(Vec<(u32, Vec<u8>)>),
}

impl Owned {
    /// To be written. Leaks: tests are short.
    fn put(&self) -> Put<'static> {
        let bytes = |bytes: &[u8]| -> &'static [u8] { bytes.to_vec().leak() };
        match self {
            Self::U8(value) => Put::U8(*value),
            Self::U32(value) => Put::U32(*value),
            Self::I32(value) => Put::I32(*value),
            Self::U64(value) => Put::U64(*value),
            Self::F32(value) => Put::F32(*value),
            Self::Mac(octets) => Put::Mac(*octets),
            Self::Address(address) => Put::Address(*address),
            Self::Uuid(octets) => Put::Uuid(*octets),
            Self::Text(text) => Put::Text(bytes(text)),
            Self::Opaque(opaque) => Put::Opaque(bytes(opaque)),
            Self::Structure(values) => Put::Structure(puts(values)),
            Self::List(values) => Put::List(puts(values)),
            Self::Records(records) => {
                let records = records.iter().map(|(format, body)| (DataFormat::from(*format), bytes(body)));
                Put::Records(records.collect::<Vec<_>>().leak())
            }
        }
    }

    fn is(&self, value: &Value<'_>) -> bool {
        match (self, *value) {
            (Self::U8(a), Value::U8(b)) => *a == b,
            (Self::U32(a), Value::U32(b)) => *a == b,
            (Self::I32(a), Value::I32(b)) => *a == b,
            (Self::U64(a), Value::U64(b)) => *a == b,
            (Self::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::Mac(a), Value::Mac(b)) => *a == b,
            (Self::Address(a), Value::Address(b)) => *a == b,
            (Self::Uuid(a), Value::Uuid(b)) => *a == b,
            (Self::Text(a), Value::Text(b)) | (Self::Opaque(a), Value::Opaque(b)) => a == b,
            (Self::Structure(a), Value::Structure(b)) => are(a, b),
            (Self::List(a), Value::List(b)) => {
                b.size_hint().0 == a.len() && b.count() == a.len() && a.iter().zip(b).all(|(a, b)| a.is(&b))
            }
            (Self::Records(a), Value::Records(b)) => {
                let read = b.map(|record| record.map(|record| (u32::from(record.format), record.body.to_vec())));
                read.collect::<Result<Vec<_>, _>>().as_ref() == Ok(a)
            }
            _ => false,
        }
    }
}

fn puts(values: &[Owned]) -> &'static [Put<'static>] {
    values.iter().map(Owned::put).collect::<Vec<_>>().leak()
}

fn are(expected: &[Owned], values: Values<'_>) -> bool {
    let read: Result<Vec<_>, _> = values.map(|value| value.map(|(_, value)| value)).collect();
    read.is_ok_and(|read| read.len() == expected.len() && expected.iter().zip(&read).all(|(a, b)| a.is(b)))
}

/// Any value of a kind.
fn any_of(kind: &'static Kind) -> BoxedStrategy<Owned> {
    match kind {
        Kind::U8 => any::<u8>().prop_map(Owned::U8).boxed(),
        Kind::U32 => any::<u32>().prop_map(Owned::U32).boxed(),
        Kind::I32 => any::<i32>().prop_map(Owned::I32).boxed(),
        Kind::U64 => any::<u64>().prop_map(Owned::U64).boxed(),
        Kind::F32 => any::<f32>().prop_map(Owned::F32).boxed(),
        Kind::Mac => any::<[u8; 6]>().prop_map(Owned::Mac).boxed(),
        Kind::Ipv4 => any::<[u8; 4]>().prop_map(|octets| Owned::Address(Some(octets.into()))).boxed(),
        Kind::Ipv6 => any::<[u8; 16]>().prop_map(|octets| Owned::Address(Some(octets.into()))).boxed(),
        Kind::Address => any::<Option<IpAddr>>().prop_map(Owned::Address).boxed(),
        Kind::Uuid => any::<[u8; 16]>().prop_map(Owned::Uuid).boxed(),
        Kind::Text(max) => {
            let max = if *max == 0 { 40 } else { usize::from(*max) };
            vec(any::<u8>(), 0..=max).prop_map(Owned::Text).boxed()
        }
        Kind::Opaque => vec(any::<u8>(), 0..130).prop_map(Owned::Opaque).boxed(),
        Kind::Structure(fields) => any_fields(fields, fields.len()).prop_map(Owned::Structure).boxed(),
        Kind::List(kind) => vec(any_of(kind), 0..4).prop_map(Owned::List).boxed(),
        Kind::Records => vec((any::<u32>(), vec(any::<u8>(), 0..20)), 0..3).prop_map(Owned::Records).boxed(),
    }
}

fn any_fields(fields: &'static [Field], count: usize) -> BoxedStrategy<Vec<Owned>> {
    fields[..count].iter().map(|field| any_of(&field.kind)).collect::<Vec<_>>().boxed()
}

/// A record of any structure of a space, with all its fields or as few as there may be.
fn any_record(space: Space) -> BoxedStrategy<(&'static Structure, Vec<Owned>)> {
    (prop::sample::select(Structure::all(space)), any::<bool>())
        .prop_flat_map(|(structure, grown)| {
            let count = if grown { structure.fields.len() } else { structure.required };
            (Just(structure), any_fields(structure.fields, count))
        })
        .boxed()
}

fn any_interface() -> BoxedStrategy<Interface> {
    prop_oneof![
        Just(Interface::Unknown),
        Just(Interface::Internal),
        (1..0x3fff_ffff_u32).prop_map(Interface::Index),
        any::<u32>().prop_map(Interface::Discarded),
        any::<u32>().prop_map(Interface::Multiple),
    ]
    .boxed()
}

fn any_source() -> BoxedStrategy<DataSource> {
    prop_oneof![
        (0..4_u32, 0..1_u32 << 24).prop_map(|(class, index)| DataSource { class, index }),
        any::<(u32, u32)>().prop_map(|(class, index)| DataSource { class, index }),
    ]
    .boxed()
}

const HEADER: Header =
    Header { agent: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), sub_agent: 7, sequence: 8, uptime: 9 };
const SOURCE: DataSource = DataSource { class: 0, index: 5 };

fn only<T: std::fmt::Debug>(mut items: impl Iterator<Item = T>) -> T {
    let item = items.next().expect("one");
    assert!(items.next().is_none());
    item
}

/// Everything that can be read of a datagram is; how many errors there were.
fn walk(bytes: &[u8]) -> usize {
    fn look(value: Value<'_>, errors: &mut usize) {
        match value {
            Value::Structure(values) => values.for_each(|value| match value {
                Ok((_, value)) => look(value, errors),
                Err(_) => *errors += 1,
            }),
            Value::List(list) => list.for_each(|value| look(value, errors)),
            Value::Records(records) => *errors += records.filter(Result::is_err).count(),
            _ => {}
        }
    }
    let Ok(datagram) = Datagram::parse(bytes) else { return 1 };
    let mut errors = 0;
    for sample in datagram.samples() {
        let Ok(sample) = sample else {
            errors += 1;
            continue;
        };
        for record in sample.records() {
            let Ok(record) = record else {
                errors += 1;
                continue;
            };
            let before = errors;
            record.values().for_each(|value| match value {
                Ok((_, value)) => look(value, &mut errors),
                Err(_) => errors += 1,
            });
            // Two readers of the same structures.
            match record.view() {
                Ok(View::Other) => {}
                view => assert_eq!(view.is_err(), errors > before, "{record:?}"),
            }
        }
    }
    errors
}

proptest! {
    #[test]
    fn records_are_read_as_they_were_written(
        flow in vec(any_record(Space::Flow), 0..4),
        counters in vec(any_record(Space::Counter), 0..4),
        agent: IpAddr,
        numbers: [u32; 8],
        sources in (any_source(), any_source()),
        interfaces in (any_interface(), any_interface()),
        expanded: (bool, bool),
    ) {
        let [sub_agent, sequence, uptime, sampling_rate, sample_pool, drops, next, reason] = numbers;
        let (input, output) = interfaces;
        let header = Header { agent, sub_agent, sequence, uptime };
        let mut bytes = b"before".to_vec();
        let mut datagram = encode::datagram(&mut bytes, &header);
        let expanded_flow = expanded.0;
        let sample =
            Flow { sequence, source: sources.0, sampling_rate, sample_pool, drops, input, output, expanded: expanded_flow };
        let mut records = datagram.flow(&sample);
        flow.iter().try_for_each(|(structure, values)| records.put(structure, puts(values))).unwrap();
        let polled = Counters { sequence: next, source: sources.1, expanded: expanded.1 };
        let mut records = datagram.counters(&polled);
        counters.iter().try_for_each(|(structure, values)| records.put(structure, puts(values))).unwrap();
        let dropped = Discarded {
            sequence,
            source: sources.0,
            drops,
            input: Interface::Index(3),
            output: Interface::Unknown,
            reason,
        };
        let mut records = datagram.discarded(&dropped);
        flow.iter().try_for_each(|(structure, values)| records.put(structure, puts(values))).unwrap();
        let size = datagram.size();
        prop_assert_eq!(bytes.len(), 6 + size);

        let read = Datagram::parse(&bytes[6..]).unwrap();
        prop_assert_eq!(Header { agent: read.agent, sub_agent: read.sub_agent, sequence: read.sequence, uptime: read.uptime }, header);
        let samples = read.samples().collect::<Result<Vec<_>, _>>().unwrap();
        let [Sample::Flow(a), Sample::Counters(b), Sample::Discarded(c)] = samples[..] else { panic!("{samples:?}") };
        prop_assert_eq!((a.sequence, a.source, a.sampling_rate), (sequence, sources.0, sampling_rate));
        prop_assert_eq!((a.sample_pool, a.drops, a.input, a.output), (sample_pool, drops, input, output));
        prop_assert_eq!((b.sequence, b.source), (next, sources.1));
        prop_assert_eq!((c.sequence, c.source, c.drops, c.input, c.output, c.reason), (
            sequence, sources.0, drops, Interface::Index(3), Interface::Unknown, reason,
        ));
        prop_assert!(a.expanded || !expanded.0);
        for (records, expected) in [(a.records(), &flow), (b.records(), &counters), (c.records(), &flow)] {
            let records = records.collect::<Result<Vec<_>, _>>().unwrap();
            prop_assert_eq!(records.len(), expected.len());
            for (record, (structure, values)) in records.iter().zip(expected) {
                prop_assert_eq!((record.structure, record.format), (Some(*structure), structure.format));
                prop_assert!(are(values, record.values()), "{:?} of {:?}", values, record);
            }
        }
        prop_assert_eq!(walk(&bytes[6..]), 0);
    }

    #[test]
    fn nothing_makes_the_reader_panic(mut bytes in vec(any::<u8>(), 0..300), agent_type in 0..4_u8) {
        walk(&bytes);
        for (place, byte) in [0, 0, 0, 5, 0, 0, 0, agent_type].into_iter().enumerate() {
            if let Some(there) = bytes.get_mut(place) {
                *there = byte;
            }
        }
        walk(&bytes);
    }

    /// An end that is cut off is told; whatever bytes are changed, no structure is read twice differently.
    #[test]
    fn damage_is_told(
        records in vec(any_record(Space::Flow), 1..4),
        damage in vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0), Just(255)]), 0..4),
        end: prop::sample::Index,
    ) {
        let mut bytes = Vec::new();
        let mut datagram = encode::datagram(&mut bytes, &HEADER);
        for _ in 0..2 {
            let mut written = datagram.discarded(&DISCARDED);
            records.iter().try_for_each(|(structure, values)| written.put(structure, puts(values))).unwrap();
        }
        prop_assert_eq!(walk(&bytes), 0);
        prop_assert!(walk(&bytes[..end.index(bytes.len())]) > 0);
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        walk(&bytes);
    }
}

const DISCARDED: Discarded = Discarded {
    sequence: 1,
    source: SOURCE,
    drops: 0,
    input: Interface::Index(5),
    output: Interface::Unknown,
    reason: 258,
};

/// A record that ends early, one that is longer than known, an unknown one, then a whole one: each is what it is.
#[test]
fn a_malformed_record_costs_no_other() {
    let named = |name| Structure::named(Space::Flow, name).unwrap();
    let (queue, transit) = (named("extended_egress_queue"), named("extended_transit"));
    let mut bytes = Vec::new();
    let mut datagram = encode::datagram(&mut bytes, &HEADER);
    let mut records = datagram.discarded(&DISCARDED);
    records.raw(named("extended_switch").format, &[0; 12]);
    records.raw(transit.format, &[0, 0, 0, 4, 9, 9, 9, 9]);
    records.raw(DataFormat { enterprise: 8800, format: 1 }, b"new");
    records.put(queue, &[Put::U32(3)]).unwrap();
    let sample = only(Datagram::parse(&bytes).unwrap().samples()).unwrap();
    let records: Vec<_> = sample.records().map(Result::unwrap).collect();
    let cut = Err(Malformed::Cut(Part::Structure));
    assert_eq!(records[0].view(), cut);
    assert_eq!(records[0].values().filter(Result::is_ok).count(), 3);
    assert_eq!(records[1].view(), Ok(View::TransitDelay(4)));
    assert_eq!((records[2].structure, records[2].body, records[2].view()), (None, &b"new"[..], Ok(View::Other)));
    assert_eq!(records[3].view(), Ok(View::EgressQueue(3)));
}

/// A record that is longer than its sample is the last of its sample; the next sample is read.
#[test]
fn a_lying_record_costs_its_own_sample() {
    let queue = Structure::named(Space::Flow, "extended_egress_queue").unwrap();
    let mut bytes = Vec::new();
    let mut datagram = encode::datagram(&mut bytes, &HEADER);
    let length_at = datagram.size() + 8 + 32 + 4;
    for _ in 0..2 {
        datagram.discarded(&DISCARDED).put(queue, &[Put::U32(3)]).unwrap();
    }
    bytes[length_at..length_at + 4].copy_from_slice(&400_u32.to_be_bytes());
    let samples: Vec<_> = Datagram::parse(&bytes).unwrap().samples().map(Result::unwrap).collect();
    assert_eq!(only(samples[0].records()), Err(Malformed::Length { part: Part::Record, said: 400, left: 4 }));
    assert_eq!(only(samples[1].records()).unwrap().view(), Ok(View::EgressQueue(3)));
    // A sample that is longer than the datagram is its last.
    bytes[32..36].copy_from_slice(&u32::MAX.to_be_bytes());
    let left = bytes.len() as u32 - 36;
    let error = Err(Malformed::Length { part: Part::Sample, said: u32::MAX, left });
    assert_eq!(only(Datagram::parse(&bytes).unwrap().samples()), error);
}

#[test]
fn a_count_that_lies_ends_with_the_bytes() {
    let gateway = Structure::named(Space::Flow, "extended_gateway").unwrap();
    let mut bytes = Vec::new();
    encode::datagram(&mut bytes, &HEADER).discarded(&DISCARDED).raw(gateway.format, &{
        let mut body = vec![0; 16];
        body.extend(u32::MAX.to_be_bytes());
        body
    });
    let sample = only(Datagram::parse(&bytes).unwrap().samples()).unwrap();
    let record = only(sample.records()).unwrap();
    assert_eq!(record.view(), Err(Malformed::Cut(Part::Structure)));
    assert!(record.values().last().unwrap().is_err());
    // As many samples as a word can say, of which there is one.
    let count_at = 24;
    bytes[count_at..count_at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut samples = Datagram::parse(&bytes).unwrap().samples();
    assert!(samples.next().unwrap().is_ok());
    assert_eq!(samples.next(), Some(Err(Malformed::Cut(Part::Sample))));
    assert_eq!(samples.next(), None);
}

#[test]
fn paths_and_communities_are_walked() {
    let gateway = Structure::named(Space::Flow, "extended_gateway").unwrap();
    let segment = |kind, numbers| Put::Structure([Put::U32(kind), Put::List(numbers)].to_vec().leak());
    let path = [segment(2, &[Put::U32(64500), Put::U32(64501)]), segment(1, &[Put::U32(64502)])];
    let communities = [Put::U32(64500 << 16 | 666)];
    let mut bytes = Vec::new();
    let mut datagram = encode::datagram(&mut bytes, &HEADER);
    let fields = [
        Put::Address(None),
        Put::U32(1),
        Put::U32(2),
        Put::U32(3),
        Put::List(&path),
        Put::List(&communities),
        Put::U32(100),
    ];
    datagram.discarded(&DISCARDED).put(gateway, &fields).unwrap();
    let sample = only(Datagram::parse(&bytes).unwrap().samples()).unwrap();
    let View::Gateway(view) = only(sample.records()).unwrap().view().unwrap() else { panic!("{sample:?}") };
    let walked: Vec<_> = view.path.map(|segment| (segment.kind, segment.numbers.collect::<Vec<_>>())).collect();
    assert_eq!(walked, [(2, vec![64500, 64501]), (1, vec![64502])]);
    assert_eq!((view.dst_peer_as(), view.dst_as()), (Some(64500), Some(64502)));
    assert_eq!(view.communities.collect::<Vec<_>>(), [0xfbf4_029a]);
    assert_eq!((view.nexthop, view.as_number, view.src_as, view.src_peer_as, view.localpref), (None, 1, 2, 3, 100));
}

#[test]
fn what_does_not_suit_is_not_written() {
    let acl = Structure::named(Space::Flow, "extended_acl").unwrap();
    let mut bytes = Vec::new();
    let mut datagram = encode::datagram(&mut bytes, &HEADER);
    let mut records = datagram.discarded(&DISCARDED);
    assert_eq!(records.put(acl, &[Put::U32(1)]), Err(Mismatch::Count(1, 3, 3)));
    let wrong = [Put::U32(1), Put::U32(2), Put::U32(3)];
    assert_eq!(records.put(acl, &wrong), Err(Mismatch::Kind("name")));
    let sample = only(Datagram::parse(&bytes).unwrap().samples()).unwrap();
    assert_eq!(sample.records().count(), 0);
}

#[test]
fn a_sample_can_be_taken_back() {
    let mut bytes = Vec::new();
    let mut datagram = encode::datagram(&mut bytes, &HEADER);
    datagram.discarded(&DISCARDED);
    let size = datagram.size();
    datagram.counters(&Counters { sequence: 1, source: SOURCE, expanded: true });
    assert!(datagram.size() > size && datagram.take_back() && !datagram.take_back());
    assert_eq!(datagram.size(), size);
    assert_eq!(Datagram::parse(&bytes).unwrap().samples().count(), 1);
}

#[test]
fn texts_are_cut_between_characters() {
    let descr = Structure::named(Space::Counter, "host_descr").unwrap();
    let name = "\u{e9}".repeat(40);
    let fields = |name| [Put::Text(name), Put::Uuid([0; 16]), Put::U32(3), Put::U32(2), Put::Text(b"6.1")];
    for (text, length) in [(&name[..], 64), (&format!("a{name}"), 63), (&name[..10], 10)] {
        let mut bytes = Vec::new();
        let mut datagram = encode::datagram(&mut bytes, &HEADER);
        let mut records = datagram.counters(&Counters { sequence: 1, source: SOURCE, expanded: false });
        records.put(descr, &fields(text.as_bytes())).unwrap();
        let sample = only(Datagram::parse(&bytes).unwrap().samples()).unwrap();
        let (_, value) = only(sample.records()).unwrap().values().next().unwrap().unwrap();
        assert_eq!(value, Value::Text(&text.as_bytes()[..length]));
    }
}

/// Bytes written by hand, as the specification has them.
#[test]
fn compact_forms_are_those_of_the_specification() {
    let (input, output) = (Interface::Index(2), Interface::Multiple(7));
    let sample = Flow {
        sequence: 1,
        source: SOURCE,
        sampling_rate: 512,
        sample_pool: 1024,
        drops: 0,
        input,
        output,
        expanded: false,
    };
    let mut bytes = Vec::new();
    let mut datagram = encode::datagram(&mut bytes, &HEADER);
    datagram.flow(&sample);
    #[rustfmt::skip]
    let expected: [u32; 17] = [
        5, 1, 0xc000_0201, 7, 8, 9, 1,
        1, 32, 1, 5, 512, 1024, 0, 2, 0x8000_0007, 0,
    ];
    assert_eq!(bytes, expected.map(u32::to_be_bytes).concat());
    let forms = [(0x4000_0102, Interface::Discarded(258)), (0x3fff_ffff, Interface::Internal), (0, Interface::Unknown)];
    for (word, interface) in forms {
        assert_eq!(Interface::compact(word), interface);
    }
    assert_eq!(DataSource::compact(0x0200_0003).to_string(), "entPhysicalEntry.3");
    assert_eq!(DataFormat::from(0x0113_d001).to_string(), "4413:1");
}
