//! Samples of what was dropped, in a file that others read.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use weir_testbed::{Ended, program};

use super::sockets::refuse;
use super::{Following, Reader, Scene, weir};

/// A packet of a capture: its bytes, and its comment.
struct Packet {
    length: usize,
    bytes: Vec<u8>,
    comment: String,
}

/// The enhanced packet blocks of a file (draft-ietf-opsawg-pcapng, 4.3).
fn packets(file: &[u8]) -> Vec<Packet> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    let (mut at, mut packets) = (0, Vec::new());
    while at < file.len() {
        let end = at + word(at + 4);
        assert_eq!(word(end - 4), end - at, "a block's length, before and behind it");
        if word(at) == 6 {
            let bytes = file[at + 28..at + 28 + word(at + 20)].to_vec();
            let mut option = at + 28 + bytes.len().next_multiple_of(4);
            let mut comment = String::new();
            while option + 4 < end - 4 && half(option) != 0 {
                if half(option) == 1 {
                    comment = String::from_utf8(file[option + 4..option + 4 + half(option + 2)].to_vec()).unwrap();
                }
                option += 4 + half(option + 2).next_multiple_of(4);
            }
            packets.push(Packet { length: word(at + 24), bytes, comment });
        }
        at = end;
    }
    packets
}

#[test]
fn samples_of_two_places_with_their_reasons() {
    let Some(mut scene) = Scene::set() else { return };
    let rule = scene.dropping("ip", "input");
    scene.nft(&scene.receiver, &rule);
    let socket = scene.listen();
    refuse(&socket, scene.lost_size + 1);
    let reader = Reader::start(socket);
    let source = scene.source();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dropped.pcapng");
    let port = scene.port.to_string();
    let flags = ["--port", &port, "--samples", file.to_str().unwrap(), "--samples-each", "3"];
    let following = Following::start(&flags, &[&scene.receiver.ns]);
    scene.send_all(&source, scene.to());
    for _ in 0..2 {
        source.send_to(&vec![9; scene.lost_size + 1], scene.to()).unwrap();
    }
    reader.await_count(scene.kept);
    let account = following.end().traced();
    let lost: u64 = account.of(scene.port).places().iter().map(|(_, lost)| lost).sum();
    assert_eq!(lost, scene.lost + 2);

    let found = packets(&fs::read(&file).unwrap());
    let of = |title: &str| found.iter().filter(|packet| packet.comment.starts_with(title)).collect::<Vec<_>>();
    let (firewall, filter) =
        (of("firewall, receiving: NETFILTER_DROP in "), of("socket's own filter: SOCKET_FILTER in "));
    let comments: Vec<&str> = found.iter().map(|packet| packet.comment.as_str()).collect();
    assert_eq!((firewall.len(), filter.len(), found.len()), (3, 2, 5), "{comments:#?}");
    let from = source.local_addr().unwrap().port();
    for (packets, size, fill) in [(firewall, scene.lost_size, 1), (filter, scene.lost_size + 1, 9)] {
        for packet in packets {
            assert_eq!((packet.length, packet.bytes.len()), (28 + size, (28 + size).min(128)));
            assert_eq!(packet.bytes[0], 0x45, "an IPv4 header");
            assert_eq!(
                (&packet.bytes[20..22], &packet.bytes[22..24]),
                (&from.to_be_bytes()[..], &scene.port.to_be_bytes()[..])
            );
            assert!(packet.bytes[28..].iter().all(|byte| *byte == fill));
            assert!(packet.comment.contains("\nwhat to change: "), "{}", packet.comment);
        }
    }
    // The functions that led there, as far as they are shown to us.
    if !fs::read_to_string("/proc/kallsyms").unwrap().starts_with("0000000000000000 ") {
        let stacks = comments.iter().filter(|comment| comment.contains("\nstack: ") && comment.contains(" < "));
        assert_eq!(stacks.count(), 5, "{comments:#?}");
        assert!(comments.iter().any(|comment| comment.contains("udp_queue_rcv_one_skb")), "{comments:#?}");
    }
    assert!(comments.iter().any(|comment| comment.contains(&format!("\nsocket: {}", scene.to()))), "{comments:#?}");

    if let Some(tcpdump) = program("tcpdump") {
        let output = Command::new(tcpdump).args(["-nn", "-q", "-r"]).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let line = format!("IP 10.0.0.1.{from} > 10.0.0.2.{}: UDP, length ", scene.port);
        assert_eq!(text.lines().filter(|text| text.contains(&line)).count(), 5, "{text}");
    }
}

#[test]
fn samples_that_cannot_be_taken_or_written_are_refused_at_once() {
    let _socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let run = |flags: &[&str]| {
        let ended = Ended::of(weir(&["loss", "account", "--duration", "60s", "--port", "5"]).args(flags));
        (ended.status, ended.stderr)
    };
    let (status, said) = run(&["--samples", "/nowhere/x.pcapng"]);
    assert!(status == Some(2) && said.contains("write /nowhere/x.pcapng"), "{status:?} {said}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let (status, said) = run(&["--trace", "off", "--samples", file.to_str().unwrap()]);
    assert!(status == Some(1) && said.contains("--trace off"), "{status:?} {said}");
    let (status, said) = run(&["--trace", "off", "--by", "source"]);
    assert!(status == Some(1) && said.contains("--trace off"), "{status:?} {said}");
}
