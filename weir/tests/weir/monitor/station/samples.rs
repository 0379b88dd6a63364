//! What is sampled is sent: each index once, peaks kept, times by the rate.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::path::Path;

use super::*;

/// The wave of the flags below.
fn sine(index: u64) -> f64 {
    (TAU * (index as f64 * 7.0 / 10_000.0).rem_euclid(1.0)).sin()
}

#[test]
fn every_sample_is_in_one_bucket_and_no_peak_is_missing() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let mut second = Member::join(&other, OTHER, 5111);
    let sources = ["sine,name=coil,rate=10k/s,frequency=7/s", "counter,name=n,rate=100/s,copies=3"];
    let groups = ["--to", "239.192.77.1", "--to", "239.192.77.9:5111"];
    let mut station = start(&one, &[&groups[..], &["--source", sources[0], "--source", sources[1]]].concat());
    station.await_ledger(|ledger| ledger["streams"][0]["samples"]["sent"].as_u64() > Some(20_000));
    let ledger = stop(station);
    let channels = member.channels();
    second.channels();
    assert_eq!(member.datagrams, second.datagrams, "both groups get the same bytes");

    let samples = &ledger["streams"][0]["samples"];
    let sum: u64 = channels.values().map(|channel| channel.next).sum();
    assert_eq!((samples["due"].as_u64(), samples["sent"].as_u64()), (Some(sum), Some(sum)));
    let names: BTreeMap<String, u16> = names(&member.datagrams).into_iter().map(|(id, name)| (name, id)).collect();
    assert_eq!(names.keys().map(String::as_str).collect::<Vec<_>>(), ["coil", "n0", "n1", "n2"]);

    let coil = &channels[&names["coil"]];
    let (mut begin, mut partial) = (0, 0);
    for block in &coil.blocks {
        // The last part of a bucket may well be a single sample.
        assert!(block.form == 1 && block.ticks == (10_000, 1), "{block:?}");
        assert_eq!(block.time - coil.blocks[0].time, block.first as i64 * 100_000);
        for values in block.values.chunks(4) {
            let indices = begin..begin + u64::from(block.bucket);
            // 10,000 samples a second, 200 buckets a second.
            if block.bucket == 50 {
                assert_eq!(begin % 50, 0);
            } else {
                partial += 1;
            }
            let all: Vec<f64> = indices.clone().map(|index| f64::from(sine(index) as f32)).collect();
            let least = all.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b} at {begin}");
            [least, greatest, all[0], all[all.len() - 1]].into_iter().zip(values).for_each(|(a, &b)| near(a, b));
            begin = indices.end;
        }
    }
    assert!(partial <= 1, "{partial} parts of buckets");
    for name in ["n0", "n1", "n2"] {
        let counter = &channels[&names[name]];
        assert!(counter.next > 190 && counter.each().all(|(index, value)| value == index as f64));
    }
    // No more than 10 ms wait for one another, and none is sent for itself.
    let data = ledger["streams"][0]["data"].as_f64().unwrap();
    let elapsed = ledger["elapsed_s"].as_f64().unwrap();
    assert!(data / elapsed < 300.0, "{data} datagrams in {elapsed} s");
}

#[test]
fn the_full_rate_is_a_stream_of_its_own() {
    let Some([one, other]) = cable(1500) else { return };
    let (mut thin, mut full) = (Member::join(&other, GROUP, 5110), Member::join(&other, OTHER, 5111));
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("station.toml");
    let text = "name = \"test\"\ninterface = [\"eth0\"]\nfull_to = [\"239.192.77.9:5111\"]\nfull_interface = [\"eth0\"]\n\
                [[source]]\nkind = \"counter\"\nname = \"n\"\nrate = \"200k/s\"\nelement = \"i32\"\n\
                [[source]]\nkind = \"counter\"\nname = \"slow\"\nrate = \"10/s\"\n[[channel]]\nname = \"n\"\nfull = true\n";
    std::fs::write(&file, text).unwrap();
    let command = weir(&["monitor", "station", "--json", "-c", file.to_str().unwrap()]);
    let mut station = one.run(|| Started::ready(command));
    station.await_ledger(|ledger| ledger["streams"][1]["samples"]["sent"].as_u64() > Some(200_000));
    let ledger = stop(station);
    let (thin, full) = (thin.channels(), full.channels());
    assert_eq!((thin.len(), full.len()), (2, 1));
    assert_eq!(thin[&0].next, full[&0].next);
    assert!(full[&0].gaps().is_empty(), "{ledger:#}");
    let mut next = 0;
    for (index, value) in full[&0].each() {
        assert_eq!((index, value), (next, next as f64));
        next += 1;
    }
    assert_eq!(next, full[&0].next);
    let sessions = [0, 1].map(|stream: usize| ledger["streams"][stream]["session"].as_str().unwrap().to_owned());
    assert_ne!(sessions[0], sessions[1]);
    // Full datagrams: 36 bytes of a block and 4 a sample.
    let full = &ledger["streams"][1];
    let each = full["samples"]["sent"].as_f64().unwrap() / full["data"].as_f64().unwrap();
    assert!(each > 330.0, "{each} samples a datagram");
}

/// Nothing is sampled for 50 ms and longer: the next index is told all the same.
#[test]
fn a_quiet_station_says_where_it_is() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let mut station = start(&one, &["--source", "counter,name=n,rate=1/s"]);
    station.await_ledger(|ledger| ledger["streams"][0]["heartbeats"].as_u64() > Some(30));
    let ledger = stop(station);
    let channels = member.channels();
    let elapsed = ledger["elapsed_s"].as_f64().unwrap();
    // Each says which index is next, and the end may come sooner after a sample than a heartbeat.
    let (mut beats, mut next) = (0.0, 0);
    for datagram in member.datagrams.iter().map(|bytes| Datagram::read(bytes)) {
        next = datagram.blocks.last().map_or(next, |block| block.first + block.samples);
        if datagram.kind == 1 {
            beats += 1.0;
            assert_eq!(datagram.positions, BTreeMap::from([(0, next)]));
        }
    }
    assert!(next > 0 && next == channels[&0].next, "{next}");
    assert!(beats > elapsed * 5.0 && beats < elapsed * 21.0, "{beats} in {elapsed} s");
    let metadata = ledger["streams"][0]["metadata"].as_f64().unwrap();
    assert!(metadata >= elapsed.floor() && metadata <= elapsed + 5.0, "{metadata} in {elapsed} s");
}

/// docs/examples/signal.py, as somebody runs it who has read docs/signal.md.
#[test]
fn the_example_in_python_reads_all_of_it() {
    let Some(python) = program("python3") else { return };
    let Some([one, other]) = cable(1500) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/signal.py");
    assert!(std::fs::read_to_string(&script).unwrap().lines().count() <= 60);
    let mut command = Command::new(python);
    command.arg(script).args(["239.192.77.1", "5110", "eth0"]).env("PYTHONUNBUFFERED", "1");
    let mut reader = other.run(|| Started::spawn(command));
    let mut lines = std::iter::from_fn(|| reader.next_line());
    // A first station only shows that the reader has joined.
    let first = start(&one, &["--source", "counter,name=first,rate=10/s"]);
    assert!(lines.any(|line| line.contains("channel 0 first")));
    stop(first);
    assert!(lines.any(|line| line.starts_with("end ")));
    // Nothing, too little, and a block, a field and a position that are cut off do not end it; a name does not reach a terminal raw.
    let header = |kind: u8, count: u8| [b"WS", &[0x10 | kind, 0, 0, 0, count, 0][..], &[9; 16]].concat();
    let name = [&header(3, 0)[..], &[16, 2, 0, 0, 17, 5], b"\x1b[31m"].concat();
    let hostile = one.run(|| UdpSocket::bind("10.0.0.1:0").unwrap());
    for bytes in [
        vec![],
        b"WS".to_vec(),
        header(0, 1),
        [&header(0, 1)[..], &[255; 40]].concat(),
        [&header(3, 0)[..], &[17]].concat(),
        [&header(3, 0)[..], &[17, 2, 255, 254]].concat(),
        [&header(1, 1)[..], &[0; 3]].concat(),
        name,
    ] {
        hostile.send_to(&bytes, "239.192.77.1:5110").unwrap();
    }
    assert!(lines.any(|line| line == "channel 0 \\x1b[31m"));
    let sources = ["sine,name=coil,rate=10k/s", "counter,name=n,rate=100/s"];
    let mut station = start(&one, &["--source", sources[0], "--source", sources[1]]);
    station.await_ledger(|ledger| ledger["streams"][0]["samples"]["sent"].as_u64() > Some(10_000));
    let session = station.await_ledger(|_| true)["streams"][0]["session"].as_str().unwrap().to_owned();
    let ledger = stop(station);
    let mut samples = 0;
    for line in lines {
        if line == format!("end {session}") {
            break;
        }
        let words: Vec<&str> = line.split(' ').collect();
        assert!(!line.contains("lost"), "{line}");
        if let [name, index, "samples" | "buckets", count, values @ ..] = words.as_slice() {
            assert!(["coil", "n", "first"].contains(name) && !values.is_empty(), "{line}");
            if *name == "n" {
                assert_eq!(values[0].parse::<f64>().unwrap(), index.parse::<f64>().unwrap());
            }
            samples += if *name == "first" { 0 } else { count.parse::<u64>().unwrap() };
        }
    }
    assert_eq!(Some(samples), ledger["streams"][0]["samples"]["due"].as_u64());
}
