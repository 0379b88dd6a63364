//! What is written reads the same; what is wrong is said.

use proptest::prelude::*;

use super::*;

fn header() -> Header {
    Header {
        kind: Kind::Data,
        flags: Flags::default(),
        clock: Clock { source: ClockSource::Ntp, error: Some(20) },
        count: 0,
        session: 0x1122_3344_5566_7788,
        sequence: 7,
    }
}

/// One f32 makes a datagram of 64 bytes, as docs/signal.md has it byte by byte.
#[test]
fn the_smallest_datagram_has_64_bytes() {
    let mut packer = Packer::new(64);
    let rate = Rate { per_second: 1000, per_sample: 1 };
    Element::F32
        .write(1.5, packer.block((3, 1_000_000, 1_700_000_000_000_000_000), rate, (Element::F32, Form::Samples), 1));
    let bytes = packer.finish(header());
    let hex: Vec<String> = bytes.chunks(8).map(|row| row.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    assert_eq!(
        hex,
        [
            "5753100002140100",
            "8877665544332211",
            "0700000000000000",
            "0300000001000000",
            "40420f0000000000",
            "00002a36fe9c9717",
            "e803000001000000",
            "010000000000c03f"
        ]
    );
    let Ok(Datagram { header: read, body: Body::Data(blocks) }) = Datagram::parse(bytes) else { panic!("no data") };
    assert_eq!(read, Header { count: 1, ..header() });
    let blocks: Vec<_> = blocks.collect();
    assert_eq!((blocks.len(), blocks[0].end(), blocks[0].each().collect::<Vec<_>>()), (1, 1_000_001, vec![1.5]));
}

#[test]
fn a_packer_fills_what_there_is() {
    for most in [100, 500, MOST_BYTES_V6, MOST_BYTES_V4] {
        let mut packer = Packer::new(most);
        while packer.room(Element::F64, Form::Buckets(10)) > 0 {
            let position = (1, 0, 0);
            let bytes = packer.block(position, Rate::hertz(1), (Element::F64, Form::Buckets(10)), 1);
            (0..4).for_each(|value| Element::F64.write(f64::from(value), bytes));
        }
        let gaps = packer.room(Element::F32, Form::Gap);
        if gaps > 0 {
            packer.gap((1, 10, 0), Rate::hertz(1), Gap { samples: 5, cause: Cause::Socket });
        }
        let bytes = packer.finish(header());
        assert!(bytes.len() <= most && bytes.len() + BLOCK_LEN + 32 > most, "{} of {most}", bytes.len());
        assert!(Datagram::parse(bytes).is_ok());
    }
}

#[test]
fn what_is_wrong_is_said() {
    let mut packer = Packer::new(MOST_BYTES_V4);
    Element::I16.write(-3.0, packer.block((3, 9, 0), Rate::hertz(5), (Element::I16, Form::Samples), 1));
    packer.gap((3, 10, 0), Rate::hertz(5), Gap { samples: 5, cause: Cause::Network });
    let whole = packer.finish(header()).to_vec();
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        Datagram::parse(&bytes).map(drop)
    };
    let block = HEADER_LEN;
    let gap = HEADER_LEN + BLOCK_LEN + 2;
    assert_eq!(
        [
            with(0, b'X'),
            with(2, 0x20),
            with(2, 0x15),
            with(3, 4),
            with(3, 1),
            with(6, 1),
            with(6, 3),
            with(block + 2, 4),
            with(block + 3, 3),
            with(block + 4, 0),
            with(block + 24, 0),
            with(block + 32, 2),
            with(gap + BLOCK_LEN, 0),
            with(gap + BLOCK_LEN + 7, 0xff).and(with(gap + 15, 0xff)),
        ],
        [
            Err(Malformed::Magic),
            Err(Malformed::Version(2)),
            Err(Malformed::Kind(5)),
            Err(Malformed::Flags(4)),
            Err(Malformed::Sealed),
            Err(Malformed::Behind(BLOCK_LEN + GAP_LEN)),
            Err(Malformed::Cut("a block")),
            Err(Malformed::Element(4)),
            Err(Malformed::Form(3)),
            Err(Malformed::Size { count: 0, bucket: 1 }),
            Err(Malformed::Rate),
            Err(Malformed::Size { count: 1, bucket: 2 }),
            Err(Malformed::Size { count: 0, bucket: 1 }),
            Ok(()),
        ]
    );
    for length in 0..whole.len() {
        assert!(Datagram::parse(&whole[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn unknown_fields_and_causes_are_skipped() {
    let mut bytes = Vec::new();
    Metadata { station: "coil".into(), ..Metadata::default() }.write_sender(&mut bytes);
    bytes.extend([9, 2, 0, 0]);
    Channel { id: 1, name: "I".into(), ..Channel::default() }.write(&mut bytes);
    bytes.extend([60, 1, 0]);
    let metadata = Metadata::parse(&bytes).expect("metadata");
    assert_eq!((metadata.station.as_str(), metadata.channels[0].name.as_str()), ("coil", "I"));
    assert_eq!(Metadata::parse(&[17, 1, b'x']), Err(Malformed::Homeless(17)));
    assert_eq!(Metadata::parse(&[16, 1, 0]), Err(Malformed::Field { key: 16, length: 1 }));
    assert_eq!(Cause::from_code(200), Cause::Unknown);
}

#[test]
fn the_longest_channel_fits_a_datagram() {
    let long = "ä".repeat(200);
    let limit = Some(1.0);
    let limits =
        Limits { display_low: limit, display_high: limit, very_low: limit, low: limit, high: limit, very_high: limit };
    let channel = Channel {
        id: 1,
        name: long.clone(),
        unit: long.clone(),
        description: long.clone(),
        origin: long.clone(),
        origin_stream: long.clone(),
        derived: true,
        limits,
        scale: 2.0,
        offset: 3.0,
        priority: 9,
        ..Channel::default()
    };
    let metadata = Metadata {
        station: long.clone(),
        stream: long.clone(),
        software: long,
        channels: vec![channel.clone(), channel],
    };
    let mut longest = Vec::new();
    encode::metadata(header(), &metadata, 1300, &mut Vec::new(), |bytes| longest.push(bytes.len()));
    assert_eq!(longest, [1245, 1245]);
}

#[test]
fn rates_are_exact() {
    let audio = Rate { per_second: 44_100, per_sample: 1 };
    assert_eq!(audio.nanos(44_100 * 86_400 * 365), 86_400 * 365 * 1_000_000_000);
    assert_eq!(audio.samples(1_000_000_000), 44_100);
    let slow = Rate { per_second: 1, per_sample: 60 };
    assert_eq!((slow.nanos(2), slow.samples(119_999_999_999)), (120_000_000_000, 1));
    assert_eq!(slow.samples(-5), 0);
}

fn channel() -> impl Strategy<Value = Channel> {
    let texts = ("\\PC{0,20}", "\\PC{0,5}", "\\PC{0,60}", "\\PC{0,10}");
    let limit = || proptest::option::of(-1e9..1e9);
    let limits = (limit(), limit(), limit(), limit(), limit(), limit());
    (any::<u16>(), texts, limits, (-1e3..1e3, -1e3..1e3), (1..u32::MAX, 1..u32::MAX), 0..4_u8, any::<u32>()).prop_map(
        |(
            id,
            (name, unit, description, origin),
            limits,
            (scale, offset),
            (per_second, per_sample),
            element,
            bucket,
        )| {
            let (display_low, display_high, very_low, low, high, very_high) = limits;
            Channel {
                id,
                name,
                unit,
                description,
                origin_stream: origin.clone(),
                origin,
                derived: bucket % 2 == 1,
                limits: Limits { display_low, display_high, very_low, low, high, very_high },
                scale,
                offset,
                rate: Rate { per_second, per_sample },
                element: Element::from_code(element).expect("an element"),
                bucket,
                priority: (bucket >> 3) as u8,
            }
        },
    )
}

proptest! {
    #[test]
    fn metadata_reads_as_written(channels in proptest::collection::vec(channel(), 0..20), station in "\\PC{0,20}") {
        let metadata = Metadata { station, stream: "display".into(), software: "weir".into(), channels };
        let mut read = Metadata::default();
        encode::metadata(header(), &metadata, MOST_BYTES_V6, &mut Vec::new(), |bytes| {
            assert!(bytes.len() <= MOST_BYTES_V6);
            let Ok(Datagram { body: Body::Metadata(body), .. }) = Datagram::parse(bytes) else { panic!("no metadata") };
            let part = Metadata::parse(body).expect("what was written");
            let channels = std::mem::take(&mut read.channels);
            read = Metadata { channels: channels.into_iter().chain(part.channels).collect(), ..part };
        });
        prop_assert_eq!(read, metadata);
    }

    #[test]
    fn positions_read_as_written(next in proptest::collection::vec(any::<(u16, u64)>(), 0..400)) {
        let positions: Vec<_> = next.iter().map(|&(channel, next)| Position { channel, next }).collect();
        let mut read = Vec::new();
        let header = Header { kind: Kind::End, ..header() };
        encode::positions(header, &positions, MOST_BYTES_V4, &mut Vec::new(), |bytes| {
            let Ok(Datagram { body: Body::End(part), .. }) = Datagram::parse(bytes) else { panic!("no end") };
            read.extend(part);
        });
        prop_assert_eq!(read, positions);
    }

    #[test]
    fn values_read_as_written(values in proptest::collection::vec(-30_000..30_000_i32, 4..64), element in 0..4_u8, bucket in 2..u32::MAX) {
        let element = Element::from_code(element).expect("an element");
        let mut packer = Packer::new(MOST_BYTES_V4);
        let samples = packer.block((1, 5, -1), Rate::hertz(7), (element, Form::Samples), values.len() as u16);
        values.iter().for_each(|&value| element.write(value.into(), samples));
        let whole = values.len() / 4;
        let buckets = packer.block((2, 5, -1), Rate::hertz(7), (element, Form::Buckets(bucket)), whole as u16);
        values[..whole * 4].iter().for_each(|&value| element.write(value.into(), buckets));
        let bytes = packer.finish(header()).to_vec();
        let Ok(Datagram { body: Body::Data(blocks), .. }) = Datagram::parse(&bytes) else { panic!("no data") };
        let blocks: Vec<_> = blocks.collect();
        prop_assert_eq!(blocks[0].each().map(|value| value as i32).collect::<Vec<_>>(), values.clone());
        let flat: Vec<f64> = blocks[1].buckets().flat_map(|(_, b)| [b.least, b.greatest, b.first, b.last]).collect();
        prop_assert_eq!(flat.iter().map(|&value| value as i32).collect::<Vec<_>>(), values[..whole * 4].to_vec());
        prop_assert_eq!(blocks[1].samples(), whole as u64 * u64::from(bucket));
        let mut copied = Packer::new(MOST_BYTES_V4);
        prop_assert!(blocks.iter().all(|block| copied.copy(block)));
        prop_assert_eq!(copied.finish(header()), bytes);
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let mut bytes = bytes;
        for (at, byte) in [b'W', b'S', 0x10, 0].into_iter().enumerate() {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        if let Ok(Datagram { body: Body::Data(blocks), header }) = Datagram::parse(&bytes) {
            prop_assert_eq!(blocks.count(), usize::from(header.count));
        }
        let _ = Metadata::parse(&bytes);
    }
}
