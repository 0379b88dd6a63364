//! Points, lines, and what arrives.

use std::net::UdpSocket;
use std::time::Duration;

use weir_wire::signal::{Block, Cause, Channel, Element, Gap, Rate, Values};

use super::points::{Point, What};
use super::*;
use weir_signal::history::{Bounds, History};

fn block(first: u64, values: Values<'_>) -> Block<'_> {
    Block { channel: 0, first, time: 1_000_000_000 + first as i64 * 1_000_000, rate: Rate::hertz(1000), values }
}

fn bytes(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn points_keep_peaks_and_tell_of_gaps() {
    let mut thinner = BlockThinner::new(10);
    let mut points = Vec::new();
    let mut add = |block: Block<'_>| points.extend(Point::of(&block, (2.0, 0.0)));
    // Ten samples a point: a peak in the second of them, a gap in the third.
    let mut values = vec![1.0; 25];
    values[13] = 9.0;
    thinner.push(&block(0, Values::Samples(Element::F32, &bytes(values))), &mut add);
    thinner.push(&block(25, Values::Gap(Gap { samples: 5, cause: Cause::Socket })), &mut add);
    let at = |index: i64| 1_000_000_000 + index * 1_000_000;
    assert_eq!(
        points,
        [
            Point { time: at(9), what: What::Envelope(2.0, 2.0, 2.0) },
            Point { time: at(19), what: What::Envelope(2.0, 2.0, 18.0) },
            Point { time: at(24), what: What::Envelope(2.0, 2.0, 2.0) },
            Point { time: at(25), what: What::Missing(5, Cause::Socket) },
        ]
    );
    // Slow ones are told at once, each; what is no number is not told.
    let values = bytes([1.0, f32::NAN]);
    let slow = block(0, Values::Samples(Element::F32, &values));
    assert_eq!(Point::of(&slow, (1.0, 0.5)).collect::<Vec<_>>(), [Point { time: at(0), what: What::Value(1.5) }]);
}

fn listed(name: &str) -> Listed {
    let channel = Channel { name: name.into(), unit: "T".into(), ..Channel::default() };
    let limits = channel.limits;
    Listed { key: 0, generation: 0, station: "mag,1".into(), stream: "full".into(), channel, limits }
}

#[test]
fn names_of_others_stay_names() {
    let point = Point { time: -1, what: What::Value(0.5) };
    let (mut line, mut json) = (String::new(), String::new());
    influx::write(&listed("a b=c\\\n"), &point, &mut line);
    assert_eq!(line, "signal,channel=a\\ b\\=c/_,station=mag\\,1,stream=full,unit=T value=0.5 -1");
    plotjuggler::write(&listed("a\"\n"), &point, &mut json);
    assert_eq!(json, "{\"timestamp\":-0.000000001,\"mag,1\":{\"full\":{\"a\\\"\\n\":{\"value\":0.5}}}}");
    let gap = Point { time: 1_500_000_000, what: What::Missing(9, Cause::Network) };
    line.clear();
    influx::write(&listed("a"), &gap, &mut line);
    assert_eq!(line, "signal_gap,channel=a,station=mag\\,1,stream=full,unit=T missing=9i,cause=\"network\" 1500000000");
}

#[test]
fn what_comes_is_sent_in_datagrams_that_fit_a_frame() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let history = History::new(Bounds::default());
    let to = server.local_addr().unwrap();
    let output = Output { to, format: Format::PlotJuggler, channels: Vec::new(), most: 1e4 };
    let outputs = Outputs::default();
    outputs.change(&[output], &history);
    let channel = Channel { name: "coil".into(), ..Channel::default() };
    let mut writing = history.write();
    let key = writing.channel("mag", "full", &channel).unwrap();
    writing.append(key, &block(0, Values::Samples(Element::F32, &bytes((0..500_u16).map(f32::from)))));
    writing.append(key, &block(500, Values::Gap(Gap { samples: 7, cause: Cause::Network })));
    drop(writing);
    outputs.look(&history, false);
    let (mut values, mut missing, mut datagram) = (0, 0, vec![0; 65_535]);
    while values < 500 || missing < 7 {
        let length = server.recv(&mut datagram).unwrap();
        assert!(length <= 1452, "{length}");
        let objects: Vec<serde_json::Value> = serde_json::from_slice(&datagram[..length]).unwrap();
        for object in objects {
            let of = &object["mag"]["full"]["coil"];
            if let Some(value) = of["value"].as_f64() {
                assert_eq!(
                    (value, object["timestamp"].as_f64()),
                    (f64::from(values), Some((1e3 + f64::from(values)) / 1e3))
                );
                values += 1;
            }
            missing += of["missing"].as_u64().unwrap_or(0);
        }
    }
    assert_eq!((values, missing, outputs.counts()[0].points), (500, 7, 501));
}

/// A reload: what is the same goes on with its counts, what is new begins, what is gone has sent all that it had.
#[test]
fn a_reload_changes_what_is_another_and_nothing_else() {
    let servers = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    servers.iter().for_each(|server| server.set_read_timeout(Some(Duration::from_secs(20))).unwrap());
    let to = |at: usize| Output {
        to: servers[at].local_addr().unwrap(),
        format: Format::Influx,
        channels: Vec::new(),
        most: 1e4,
    };
    let (history, outputs) = (History::new(Bounds::default()), Outputs::default());
    outputs.change(&[to(0), to(1)], &history);
    let channel = Channel { name: "coil".into(), ..Channel::default() };
    let append = |first: u64| {
        let mut writing = history.write();
        let key = writing.channel("mag", "full", &channel).unwrap();
        writing.append(key, &block(first, Values::Samples(Element::F32, &bytes([1.0; 5]))));
    };
    let heard = |at: usize| {
        let mut datagram = vec![0; 2000];
        let length = servers[at].recv(&mut datagram).unwrap();
        datagram[..length].split(|byte| *byte == b'\n').count()
    };
    append(0);
    outputs.look(&history, false);
    assert_eq!((heard(0), heard(1)), (5, 5));
    append(5);
    outputs.change(&[to(2), to(1)], &history);
    assert_eq!(heard(0), 5, "what it had when it ended");
    append(10);
    outputs.look(&history, false);
    assert_eq!(heard(2), 5, "what comes from now on");
    let mut more = 0;
    while more < 10 {
        more += heard(1);
    }
    assert_eq!(more, 10, "nothing twice, nothing left out");
    let addresses: Vec<_> = outputs.counts().iter().map(|count| count.to.clone()).collect();
    assert_eq!(addresses, [1, 2].map(|at| to(at).to.to_string()));
}

#[test]
fn the_key_of_a_channel_that_was_forgotten_is_another_ones() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let history = History::new(Bounds { channels: 1, quiet: Duration::ZERO, ..Bounds::default() });
    let channel = |name: &str| Channel { name: name.into(), ..Channel::default() };
    let first = history.write().channel("mag", "full", &channel("a")).unwrap();
    let to = server.local_addr().unwrap();
    let output = Output { to, format: Format::Influx, channels: vec!["b".into()], most: 1e4 };
    let outputs = Outputs::default();
    outputs.change(&[output], &history);
    let mut writing = history.write();
    let key = writing.channel("mag", "full", &channel("b")).unwrap();
    assert_eq!((key.key, key.generation), (first.key, 1));
    writing.append(key, &block(0, Values::Samples(Element::F32, &bytes([1.0; 5]))));
    drop(writing);
    outputs.look(&history, false);
    let mut datagram = vec![0; 2000];
    let length = server.recv(&mut datagram).unwrap();
    assert_eq!(datagram[..length].split(|byte| *byte == b'\n').count(), 5);
}

/// What is open of it goes out as what it was, and nothing else of that does.
#[test]
fn what_is_measured_otherwise_begins_anew() {
    let history = History::new(Bounds::default());
    let channel = |unit: &str, scale| Channel {
        name: "a".into(),
        unit: unit.into(),
        scale,
        rate: Rate::hertz(1000),
        ..Channel::default()
    };
    let output = Output { to: "127.0.0.1:9".parse().unwrap(), format: Format::Influx, channels: vec![], most: 100.0 };
    let mut running = Running::new(output, &history);
    let write = |unit: &str, scale, first| {
        let mut writing = history.write();
        let key = writing.channel("mag", "full", &channel(unit, scale)).unwrap();
        writing.append(key, &block(first, Values::Samples(Element::F32, &bytes([1.0; 5]))));
    };
    write("T", 1.0, 0);
    running.look(&history, false);
    write("mT", 1e3, 5);
    running.read(&history, i64::MIN, true);
    let made: Vec<_> = running.points.iter().map(|(listed, point)| (&*listed.channel.unit, point.what)).collect();
    assert_eq!(made, [("T", What::Envelope(1.0, 1.0, 1.0)), ("mT", What::Envelope(1e3, 1e3, 1e3))]);
}
