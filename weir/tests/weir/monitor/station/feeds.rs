//! What others write: standard input, files, datagrams, shared memory.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;

use super::*;

/// Channels by name, once the station has ended.
#[track_caller]
fn by_name(member: &mut Member) -> BTreeMap<String, Channel> {
    let mut channels = member.channels();
    let names = names(&member.datagrams);
    names.into_iter().filter_map(|(id, name)| Some((name, channels.remove(&id)?))).collect()
}

fn values(channel: &Channel) -> Vec<f64> {
    channel.each().map(|(_, value)| value).collect()
}

#[test]
fn datagrams_of_three_kinds_become_channels() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let sources = [
        "udp,listen=127.0.0.1:8094,format=influx,rate=10/s",
        "udp,name=json,listen=127.0.0.1:8095,format=json,rate=10/s",
        "udp,name=statsd,listen=127.0.0.1:8125,format=statsd,rate=10/s",
    ];
    let mut station = start(&one, &sources.iter().flat_map(|source| ["--source", source]).collect::<Vec<_>>());
    let socket = one.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let send = |text: &str, port: u16| socket.send_to(text.as_bytes(), ("127.0.0.1", port)).map(drop).unwrap();
    // 2023, ten a second: the fourth and fifth are missing, the last is from before.
    for (tenth, value) in [(0, 1.0), (1, 2.0), (2, 3.0), (5, 6.0), (3, 9.0)] {
        let time = 1_700_000_000_000_000_000_u64 + tenth * 100_000_000;
        send(&format!("coil,number=1 current={value} {time}\nnonsense\n"), 8094);
    }
    send("far current=1 4000000000000000000", 8094);
    // The last of each port is what is waited for.
    send("{", 8095);
    send(r#"[{"timestamp": 1700000000.0, "a": {"b": 1.5}}, {"timestamp": 1700000000.1, "a": {"b": 2.5}}]"#, 8095);
    send("hits:2|c\nhits:3|c|@0.5", 8125);
    let ledger = station.await_ledger(|ledger| {
        let points = |source: usize| ledger["sources"][source]["points"].as_u64().unwrap();
        points(0) == 6 && points(1) == 2 && points(2) == 2
    });
    let counts = |source: usize| {
        let count = |what: &str| ledger["sources"][source][what].as_u64().unwrap();
        [count("late"), count("crowded"), count("misplaced"), count("unreadable")]
    };
    assert_eq!([counts(0), counts(1)], [[1, 0, 1, 5], [0, 0, 0, 1]], "{ledger:#}");
    stop(station);
    let channels = by_name(&mut member);
    let coil = &channels["coil.current{number=1}"];
    assert_eq!((values(coil), coil.gaps()), (vec![1.0, 2.0, 3.0, 6.0], BTreeMap::from([(1, 2)])));
    assert_eq!(coil.blocks[0].time, 1_700_000_000_000_000_000);
    assert_eq!(values(&channels["json.a.b"]), [1.5, 2.5]);
    assert_eq!(values(&channels["statsd.hits"])[0], 2.0);
}

#[test]
fn rows_of_standard_input_are_samples_and_its_end_is_the_end() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let flags = ["monitor", "station", "--json", "--name", "test", "--interface", "eth0"];
    let source = ["--source", "stdin,name=in,format=csv,time=rows,rate=1k/s", "--display", "0"];
    let mut command = weir(&[&flags[..], &source].concat());
    command.stdin(Stdio::piped());
    let mut station = one.run(|| Started::ready(command));
    let mut input = station.stdin();
    let rows: String = (0..500)
        .map(|row| format!("{row},{}\n", if row == 7 { String::new() } else { (2 * row).to_string() }))
        .collect();
    input.write_all(format!("a,b\n{rows}").as_bytes()).unwrap();
    drop(input);
    let ledger = station.wait().json();
    assert_eq!((&ledger["closed"], &ledger["unexplained"]), (&true.into(), &0.into()), "{ledger:#}");
    let channels = by_name(&mut member);
    assert_eq!(values(&channels["in.a"]), (0..500).map(f64::from).collect::<Vec<_>>());
    let b = values(&channels["in.b"]);
    assert!(b.len() == 500 && b[7].is_nan() && b[499] == 998.0, "{b:?}");
    // Paced, not as fast as it was written.
    assert!(ledger["elapsed_s"].as_f64().unwrap() > 0.49, "{ledger:#}");
}

#[test]
fn what_is_appended_to_a_file_is_followed_over_its_rotation() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("values.csv");
    fs::write(&path, "time,a\n1700000000,99\n").unwrap();
    let source = format!("tail,path={},rate=1/s", path.display());
    let mut station = start(&one, &["--source", &source]);
    let points = |count: u64| move |ledger: &Value| ledger["sources"][0]["points"].as_u64() == Some(count);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"1700000010,1\n17000").unwrap();
    station.await_ledger(points(1));
    file.write_all(b"00011,2\n").unwrap();
    station.await_ledger(points(2));
    fs::rename(&path, folder.path().join("values.csv.1")).unwrap();
    fs::write(&path, "1700000012,3\n").unwrap();
    station.await_ledger(points(3));
    stop(station);
    assert_eq!(values(&by_name(&mut member)["a"]), [1.0, 2.0, 3.0]);
}

#[test]
fn a_ring_in_shared_memory_is_read_and_what_was_overwritten_is_a_gap() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("ring");
    let (capacity, channels) = (1000_u64, 2);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    let mut head = b"WEIRRING".to_vec();
    [1, 2, channels, capacity as u32, 1000, 1].into_iter().for_each(|word: u32| head.extend(word.to_le_bytes()));
    head.extend(1_700_000_000_000_000_000_i64.to_le_bytes());
    head.resize(64, 0);
    file.write_all_at(&head, 0).unwrap();
    let mut written = 0_u64;
    let mut write = |frames: u64| {
        for frame in written..written + frames {
            let values = [(frame % 30_000) as i16, -((frame % 30_000) as i16)];
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            file.write_all_at(&bytes, 64 + frame % capacity * 4).unwrap();
        }
        written += frames;
        file.write_all_at(&written.to_le_bytes(), 40).unwrap();
        written
    };
    write(200);
    let source = format!("ring,name=adc,path={},names=plus+minus", path.display());
    let mut station = start(&one, &["--source", &source, "--display", "0"]);
    let due = |frames: u64| move |ledger: &Value| ledger["streams"][0]["samples"]["due"].as_u64() == Some(2 * frames);
    let sent = |ledger: &Value| ledger["streams"][0]["samples"]["sent"].as_u64().unwrap();
    station.await_ledger(|ledger| due(200)(ledger) && sent(ledger) == 400);
    let all = write(300);
    station.await_ledger(|ledger| due(all)(ledger) && sent(ledger) == 1000);
    // More than three quarters of the ring at a time.
    let all = write(5000);
    station.await_ledger(due(all));
    stop(station);
    let channels = by_name(&mut member);
    for (name, sign) in [("adc.plus", 1.0), ("adc.minus", -1.0)] {
        let channel = &channels[name];
        assert_eq!((channel.next, channel.gaps()), (5500, BTreeMap::from([(1, 4250)])), "{name}");
        assert!(channel.each().all(|(index, value)| value == sign * index as f64));
        assert_eq!(channel.blocks[0].time, 1_700_000_000_000_000_000);
    }
}
