//! `weir sflow decode`: captures made here, a pipe, a socket, and mistakes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use weir_testbed::{Ended, Started};

use crate::weir;

/// A drop of a UDP packet: discarded_packet (0:5), reason 258, with the header of the packet and the queue. Written by
/// hand, as the specification has it.
fn datagram() -> Vec<u8> {
    #[rustfmt::skip]
    let words: [u32; 17] = [
        // Version, agent 192.0.2.1, sub-agent, sequence, uptime, samples.
        5, 1, 0xc000_0201, 0, 7, 5000, 2,
        // Sample 0:5, its length; sequence, source 0:3, drops, interfaces, reason, records.
        5, 32 + 8 + 60 + 12, 9, 0, 3, 1, 3, 0, 258, 2,
    ];
    let mut bytes = words.map(u32::to_be_bytes).concat();
    // sampled_header: Ethernet, 60 bytes of 64, 42 of which are sampled.
    bytes.extend([1, 16 + 44, 1, 64, 4, 42].map(u32::to_be_bytes).concat());
    bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    bytes.extend([0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2]);
    bytes.extend([0x13, 0x88, 0, 53, 0, 26, 0, 0, 0, 0]);
    // extended_egress_queue; then a sample that nobody knows.
    bytes.extend([1036, 4, 6, 8800 << 12 | 3, 4, 0xdead_beef].map(u32::to_be_bytes).concat());
    bytes
}

/// A capture of raw IP packets, each with a datagram to port 6343, a second apart.
fn capture(payloads: &[&[u8]]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65535, 101].map(u32::to_le_bytes).concat();
    for (second, payload) in payloads.iter().enumerate() {
        let length = 28 + payload.len();
        file.extend([1_700_000_000 + second as u32, 5, length as u32, length as u32].map(u32::to_le_bytes).concat());
        file.extend([0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0, 0, 64, 17, 0, 0]);
        file.extend([192, 0, 2, 9, 192, 0, 2, 10]);
        let udp = length - 20;
        file.extend([0xea, 0x60, 0x18, 0xc7, (udp >> 8) as u8, udp as u8, 0, 0]);
        file.extend(*payload);
    }
    file
}

fn decode(arguments: &[&str]) -> Command {
    let mut command = weir(&[&["sflow", "decode"], arguments].concat());
    command.stdin(Stdio::piped());
    command
}

/// Status, standard output and standard error, with a capture on standard input.
fn run(arguments: &[&str], capture: &[u8]) -> (Option<i32>, String, String) {
    let mut started = Started::spawn(decode(arguments));
    started.stdin().write_all(capture).unwrap();
    let Ended { status, stdout, stderr } = started.wait();
    (status, stdout, stderr)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_capture_is_printed_whole() {
    let (status, stdout, stderr) = run(&["-"], &capture(&[&datagram(), b"\0\0\0\x04", &datagram()]));
    assert_eq!((status, &*stderr), (Some(0), "weir: malformed: sFlow version 4, not 5 (1)\n"));
    let samples = lines(&stdout);
    assert_eq!(samples.len(), 4);
    let drop = &samples[0];
    for (key, value) in [
        ("time", Value::from("2023-11-14T22:13:20.000005000Z")),
        ("source", "192.0.2.9:60000".into()),
        ("agent_address", "192.0.2.1".into()),
        ("datagram_sequence_number", 7.into()),
        ("uptime", 5000.into()),
        ("sample", "discarded_packet".into()),
        ("sequence_number", 9.into()),
        ("source_id_index", 3.into()),
        ("drops", 1.into()),
        ("inputifindex", 3.into()),
        ("outputifindex", 0.into()),
        ("reason", 258.into()),
        ("reason_name", "acl".into()),
    ] {
        assert_eq!(drop[key], value, "{key}");
    }
    let [header, queue] = &drop["records"].as_array().unwrap()[..] else { panic!("{drop}") };
    assert_eq!((&header["structure"], &header["frame_length"]), (&"sampled_header".into(), &64.into()));
    let [ethernet, ip, udp] = &header["layers"].as_array().unwrap()[..] else { panic!("{header}") };
    assert_eq!(ethernet["source"], "02:00:00:00:00:02");
    assert_eq!((&ip["layer"], &ip["destination"]), (&"ipv4".into(), &"198.51.100.2".into()));
    assert_eq!((&udp["destination_port"], &udp["length"]), (&53.into(), &26.into()));
    assert_eq!((&queue["structure"], &queue["queue"]), (&"extended_egress_queue".into(), &6.into()));
    let unknown = &samples[1];
    assert_eq!(
        (&unknown["sample"], &unknown["enterprise"], &unknown["format"]),
        (&"unknown".into(), &8800.into(), &3.into())
    );
    assert_eq!((&unknown["length"], &unknown["bytes"]), (&4.into(), &"deadbeef".into()));
    assert_eq!(samples[2]["time"], "2023-11-14T22:13:22.000005000Z");
}

#[test]
fn rows_have_as_many_columns_as_there_are_names() {
    let (status, stdout, _) = run(&["-", "--csv"], &capture(&[&datagram()]));
    assert_eq!(status, Some(0));
    let mut reader = csv::Reader::from_reader(stdout.as_bytes());
    let names = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2);
    let of = |name: &str| rows[0].get(names.iter().position(|other| other == name).unwrap()).unwrap();
    let known =
        [("reason_name", "acl"), ("src_ip", "198.51.100.1"), ("dst_port", "53"), ("dst_mac", "02:00:00:00:00:01")];
    for (name, value) in known {
        assert_eq!(of(name), value, "{name}");
    }
    assert_eq!((of("ifInOctets"), of("sampling_rate"), of("tcp_flags")), ("", "", ""));
}

#[test]
fn kinds_are_chosen_and_counted() {
    let file = capture(&[&datagram()]);
    for (only, expected) in [("drops", 1), ("flows", 0), ("counters", 0)] {
        let (status, stdout, _) = run(&["-", "--only", only], &file);
        assert_eq!((status, stdout.lines().count()), (Some(0), expected), "{only}");
    }
    let (_, stdout, _) = run(&["-", "--count"], &file);
    let count: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(count["datagrams"], 1);
    assert_eq!(count["samples"]["discarded_packet"], 1);
    assert_eq!(count["samples"]["8800:3"], 1);
    assert_eq!(count["flow_records"]["0:1036 extended_egress_queue"], 1);
    assert_eq!(count["agents"]["192.0.2.1 0"], 1);
}

#[test]
fn what_is_missing_is_said() {
    let whole = capture(&[&datagram()]);
    // Cut off by who captured: 60 of its bytes are there.
    let mut cut = whole.clone();
    cut[32..36].copy_from_slice(&60_u32.to_le_bytes());
    cut.truncate(40 + 60);
    let (status, _, stderr) = run(&["-"], &cut);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("weir: 1 packets are cut off: capture them whole (tcpdump -s 0)\n"), "{stderr}");
    // A fragment: more follow.
    let mut fragment = whole.clone();
    fragment[46] = 0x20;
    let (_, _, stderr) = run(&["-"], &[&whole[..], &fragment[24..]].concat());
    assert_eq!(stderr, "weir: 1 fragments of IP packets were left out: they are not put together\n");
    // The file ends early.
    let (status, stdout, stderr) = run(&["-"], &[&whole[..], &whole[24..60]].concat());
    assert_eq!((status, stdout.lines().count()), (Some(0), 2));
    assert_eq!(stderr, "weir: the capture ends in the middle of a packet\n");
}

#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("page.html"), "<!DOCTYPE html>").unwrap();
    fs::write(path("empty.pcap"), capture(&[])).unwrap();
    let said = |input: &Path, expected: &str| {
        let (status, stdout, stderr) = run(&[input.to_str().unwrap()], b"");
        assert!(matches!(status, Some(1 | 2)) && stdout.is_empty());
        assert_eq!(stderr.replace(&format!("{}/", folder.path().display()), ""), format!("weir: {expected}\n"));
    };
    said(&path("page.html"), "page.html: no capture: begins with 3c21444f, neither as pcap nor as pcapng");
    said(&path("empty.pcap"), "empty.pcap: no datagram of sFlow version 5 in it");
    said(
        &path("none.pcap"),
        "open none.pcap: No such file or directory (os error 2) (nor is it an address to listen on, e.g. 0.0.0.0:6343)",
    );
    said(folder.path(), &format!("{}: a directory; name a capture in it", folder.path().display()));
}

#[test]
fn datagrams_are_printed_as_they_come() {
    let mut listening = Started::spawn(decode(&["127.0.0.1:0"]));
    let line = listening.line("listening on ");
    let address = line.strip_prefix("listening on ").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..3 {
        socket.send_to(&datagram(), address).unwrap();
        for sample in ["discarded_packet", "unknown"] {
            let line = listening.json();
            assert_eq!(
                (&line["sample"], &line["source"]),
                (&sample.into(), &socket.local_addr().unwrap().to_string().into())
            );
        }
    }
    listening.signal(Signal::SIGINT);
    assert_eq!(listening.wait().status, Some(0));
}

#[test]
fn a_reader_who_left_has_read_enough() {
    let many = vec![datagram(); 2000];
    let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    let file = capture(&many);
    let mut child = decode(&["-"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        // Whoever reads no more does not take the rest.
        let _ = stdin.write_all(&file);
    });
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*stderr), (Some(0), ""));
    writer.join().unwrap();
}
