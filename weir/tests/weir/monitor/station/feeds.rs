//! What others write: standard input, files, datagrams.

use std::fs::{self, File};
use std::io::Write;

use weir_testbed::skip;

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
        let points = |source: usize| ledger["sources"][source]["points"].as_u64().unwrap_or(0);
        points(0) == 6 && points(1) == 2 && points(2) == 1
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
    assert_eq!(values(&channels["statsd.hits"]), [8.0]);
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

/// A device driver's own program, say: what it writes is taken as it comes.
#[test]
fn raw_frames_of_a_pipe_are_samples() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let flags = ["monitor", "station", "--json", "--name", "test", "--interface", "eth0", "--display", "0"];
    let source = ["--source", "stdin,name=adc,format=raw,element=i16,names=plus+minus,rate=10k/s"];
    let mut command = weir(&[&flags[..], &source].concat());
    command.stdin(Stdio::piped());
    let mut station = one.run(|| Started::ready(command));
    let mut input = station.stdin();
    let bytes: Vec<u8> = (0..5000_i16).flat_map(|at| [at, -at]).flat_map(i16::to_le_bytes).collect();
    // Not in whole frames.
    bytes.chunks(4999).for_each(|part| input.write_all(part).unwrap());
    drop(input);
    let ledger = station.wait().json();
    assert_eq!((&ledger["closed"], &ledger["unexplained"]), (&true.into(), &0.into()), "{ledger:#}");
    let channels = by_name(&mut member);
    for (name, sign) in [("adc.plus", 1.0), ("adc.minus", -1.0)] {
        let expected: Vec<f64> = (0..5000).map(|at| sign * f64::from(at)).collect();
        assert_eq!(values(&channels[name]), expected, "{name}");
    }
}

/// As somebody uses them who has installed them; a machine without them skips this.
#[test]
fn clients_of_statsd_are_heard_on_a_group() {
    let (Some(python), Some(ip)) = (program("python3"), program("ip")) else { return };
    let client = |code: &str| {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers/python");
        Command::new(&python).args(["-c", code]).env("PYTHONPATH", place).output().unwrap()
    };
    if !client("import statsd, datadog").status.success() {
        return skip("needs statsd and datadog from PyPI");
    }
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    // A group is joined where a route leads.
    let status = one.run(|| Command::new(ip).args(["route", "add", "239.0.0.0/8", "dev", "eth0"]).status().unwrap());
    assert!(status.success());
    let mut station = start(&one, &["--source", "udp,listen=239.1.1.1:8125,format=statsd,rate=10/s,tags=a"]);
    let clients = one.run(|| client(CLIENTS));
    assert!(clients.status.success(), "{}", String::from_utf8_lossy(&clients.stderr));
    station.await_ledger(|ledger| ledger["sources"][0]["points"].as_u64() >= Some(5));
    let ledger = stop(station);
    assert_eq!(ledger["sources"][0]["unreadable"], 0, "{ledger:#}");
    let channels = by_name(&mut member);
    for (name, last) in [("hits", 10.0), ("temp", 9.0), ("way", 320.0), ("load{a:1}", 0.5), ("both", 3.0)] {
        assert_eq!(values(&channels[name]).last(), Some(&last), "{name}");
    }
}

const CLIENTS: &str = "
import statsd
from datadog.dogstatsd import DogStatsd
with statsd.StatsClient('239.1.1.1', 8125).pipeline() as client:
    for _ in range(10): client.incr('hits')
    client.gauge('temp', 4); client.gauge('temp', 5, delta=True); client.timing('way', 320)
dog = DogStatsd(host='239.1.1.1', port=8125, disable_buffering=True, disable_telemetry=True)
dog.gauge('load', 0.5, tags=['b:2', 'a:1'])
dog.increment('both', 3)
";
