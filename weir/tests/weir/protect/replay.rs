//! `weir protect replay`: what would have been done about a capture.

use std::net::Ipv4Addr;

use serde_json::Value;
use weir_testbed::Ended;
use weir_wire::pcapng;

use super::agent::Agent;
use super::{HOST, configuration};
use crate::sflow::serve::File;
use crate::weir;

/// When captures begin.
const BEGIN: u64 = 1_795_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

fn capture(packets: impl IntoIterator<Item = (u64, Vec<u8>, u32)>) -> Vec<u8> {
    let mut out = Vec::new();
    pcapng::section_header(&mut out, "test");
    let interface =
        pcapng::Interface { name: "eth0", description: "", snap_length: 0, link_type: pcapng::LinkType::Ethernet };
    pcapng::interface(&mut out, &interface);
    for (stamp, bytes, length) in packets {
        let packet = pcapng::Packet {
            interface: 0,
            stamp,
            direction: None,
            original_length: length,
            comment: "",
            bytes: &bytes,
        };
        pcapng::packet(&mut out, &packet);
    }
    out
}

/// Ethernet, IPv4, UDP from port 40000 of 127.0.0.11 to 6343.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let udp = payload.len() as u16 + 8;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((udp + 20).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 127, 0, 0, 11, 127, 0, 0, 1]);
    frame.extend([40_000, 6_343, udp, 0].map(u16::to_be_bytes).concat());
    frame.extend(payload);
    frame
}

fn replay(file: &File, arguments: &[&str]) -> (i32, Vec<Value>, String) {
    let path = file.dir.path().join("capture.pcapng").to_str().unwrap().to_owned();
    let config = file.path();
    let ended = Ended::of(&mut weir(&[&["protect", "replay", &path, "-c", &config, "--json"], arguments].concat()));
    let lines = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    (ended.status.unwrap(), lines.collect(), ended.stderr)
}

/// Ten quiet seconds, five of a flood, thirty quiet ones: as sFlow, of which samples stand for 1,000.
#[test]
fn a_capture_of_sflow_is_played_in_its_own_time() {
    let file = File::new("");
    configuration(&file, "automatic", "\"192.0.2.0/24\"", "");
    let mut agent = Agent::new("127.0.0.11", "127.0.0.11");
    let mut packets = Vec::new();
    for millis in 0..45_000_u64 {
        let is_flood = (10_000..15_000).contains(&millis);
        let stamp = BEGIN + millis * 1_000_000;
        let uptime = 5_000_000 + millis as u32;
        if millis % 1_000 == 0 {
            let bytes = datagram(&agent.counters(uptime));
            packets.push((stamp, bytes.clone(), bytes.len() as u32));
        }
        if is_flood && millis % 2 == 0 || millis % 200 == 0 {
            let bytes = datagram(&agent.datagram(&[HOST], uptime));
            packets.push((stamp, bytes.clone(), bytes.len() as u32));
        }
    }
    std::fs::write(file.dir.path().join("capture.pcapng"), capture(packets)).unwrap();
    let (status, lines, said) = replay(&file, &[]);
    assert_eq!(status, 0, "{said}");
    let whats: Vec<_> = lines.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(&whats[..2], ["detected", "announced"], "{lines:#?}");
    let at = humantime::parse_rfc3339(lines[1]["time"].as_str().unwrap()).unwrap();
    let since = at.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 - BEGIN;
    assert!((10 * SECOND..10 * SECOND + SECOND / 2).contains(&since), "{since}");
    assert!(said.contains("attacks: 1 (1 at the end); routes announced: 1"), "{said}");
    // The journal of the configuration is not touched.
    assert!(!file.dir.path().join("journal").exists());
    // As packets they are none of a flood, and it says what they are.
    for sampling in ["1", "100000000"] {
        let (status, _, said) = replay(&file, &["--sampling", sampling]);
        let expected = "2745 of its 2745 packets are sFlow datagrams, of which --sampling looks at the packets alone (leave it out";
        assert!(status == 1 && said.contains(expected), "{said}");
    }
}

/// A hundred thousand packets a second for two seconds, after one of a thousand.
#[test]
fn a_capture_of_packets_is_looked_at_as_an_agent_would() {
    let file = File::new("");
    configuration(&file, "automatic", "\"192.0.2.0/24\"", "");
    let mut agent = Agent::new("127.0.0.11", "127.0.0.11");
    let quiet = (0..3_000_u64).map(|number| (BEGIN + number * SECOND / 1_000, 0));
    let flood = (0..200_000_u64).map(|number| (BEGIN + 3 * SECOND + number * SECOND / 100_000, 1));
    let packets = quiet.chain(flood).map(|(stamp, kind)| {
        let target = if kind == 0 { Ipv4Addr::new(192, 0, 2, 9) } else { HOST };
        (stamp, agent.frame(target), 1_000)
    });
    std::fs::write(file.dir.path().join("capture.pcapng"), capture(packets)).unwrap();
    let (status, lines, said) = replay(&file, &["--sampling", "100"]);
    assert_eq!(status, 0, "{said}");
    let announced: Vec<_> = lines.iter().filter(|line| line["what"] == "announced").collect();
    assert_eq!(announced.len(), 1, "{lines:#?}");
    assert_eq!(announced[0]["target"]["prefix"], "192.0.2.7/32");
    // Without --sampling there is nothing to read in it, and it says so.
    let (status, _, said) = replay(&file, &[]);
    assert!(status == 1 && said.contains("say how they are sampled: --sampling 1000"), "{said}");
    // Nor does it where none of them was sampled.
    let (status, _, said) = replay(&file, &["--sampling", "4294967295"]);
    assert!(status == 1 && said.contains("no IP packet in it was sampled"), "{said}");
}
