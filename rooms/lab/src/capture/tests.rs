use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Command;

use ipnet::IpNet;
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_testbed::{await_that, or_skip, program};

use super::*;

/// Reads a file by the draft alone; prints one line a block that is of interest.
const READER: &str = r#"
import struct, sys
data, at, out = open(sys.argv[1], "rb").read(), 0, []
def options(body):
    found = {}
    while body:
        code, length = struct.unpack("<HH", body[:4])
        if code == 0: break
        found[code] = body[4:4 + length]
        body = body[4 + (length + 3) // 4 * 4:]
    return found
while at < len(data):
    kind, length = struct.unpack("<II", data[at:at + 8])
    assert data[at + length - 4:at + length] == data[at + 4:at + 8], "lengths differ"
    body = data[at + 8:at + length - 4]
    at += length
    if kind == 0x0a0d0d0a:
        assert body[:4] == b"\x4d\x3c\x2b\x1a"
    elif kind == 1:
        link, _, snap = struct.unpack("<HHI", body[:8])
        found = options(body[8:])
        print("interface", link, snap, found[2].decode(), found[9][0])
    elif kind == 6:
        interface, high, low, kept, original = struct.unpack("<IIIII", body[:20])
        flags = options(body[20 + (kept + 3) // 4 * 4:])[2][0]
        frame = body[20:20 + kept]
        print("packet", interface, high << 32 | low, original, kept, flags, frame[42:46].hex())
    elif kind == 5:
        found = options(body[12:])
        print("counted", *[int.from_bytes(found[code], "little") for code in (4, 5, 8)])
assert at == len(data)
"#;

const PORT: u16 = 5000;

/// Two hosts, `eth0` to `eth0`, that say nothing by themselves.
struct Pair {
    hosts: [NetNs; 2],
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Pair {
    /// `None` without the privilege to: the test is skipped.
    fn new() -> Option<Pair> {
        let hosts = or_skip(NetNs::create().and_then(|a| Ok([a, NetNs::create()?])))?;
        let mac = |number: u8| MacAddress::local(number.into());
        let address = |number: u8| IpAddr::from(Ipv4Addr::new(10, 7, 0, number));
        let [mut a, mut b] = [0, 1].map(|at: usize| Netlink::open(&hosts[at]).unwrap());
        let end =
            |at: usize| VethEnd { ns: &hosts[at], name: "eth0", mac: mac(at as u8), mtu: 1500, queue_length: 1000 };
        a.add_veth(&end(0), &end(1)).unwrap();
        for (number, netlink) in [(0, &mut a), (1, &mut b)] {
            let eth0 = netlink.link("eth0").unwrap().index;
            netlink.set_no_link_local(eth0).unwrap();
            netlink.add_address(eth0, IpNet::new(address(number + 1), 24).unwrap()).unwrap();
            netlink.add_neighbour(eth0, address(2 - number), mac(1 - number)).unwrap();
            netlink.set_up(eth0).unwrap();
        }
        a.wait_until_running("eth0").unwrap();
        b.wait_until_running("eth0").unwrap();
        let bind = |at: usize| hosts[at].run(|| UdpSocket::bind((address(at as u8 + 1), PORT))).unwrap().unwrap();
        let (sender, receiver) = (bind(0), bind(1));
        sender.connect((address(2), PORT)).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Some(Pair { hosts, sender, receiver })
    }

    /// Sends a numbered datagram and waits until it is there.
    fn exchange(&self, number: u32, payload: usize) {
        let mut bytes = vec![0; payload];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        self.sender.send(&bytes).unwrap();
        assert_eq!(self.receiver.recv(&mut [0; 2000]).unwrap(), payload);
    }
}

/// The size of datagram `number`.
fn payload(number: u32) -> usize {
    4 + (number as usize * 37) % 1400
}

fn output(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Both ends of a link: every datagram once, at its length and with its first bytes, in order, in time, counted.
#[test]
fn files_hold_every_frame_once() {
    const COUNT: u32 = 1000;
    let Some(pair) = Pair::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let files = ["a.pcapng", "b.pcapng"].map(|name| directory.path().join(name));
    let began = now();
    let captures =
        [(0, 0), (1, 60)].map(|(at, snap)| Capture::start(&pair.hosts[at], "eth0", &files[at], snap).unwrap());
    for number in 0..COUNT {
        pair.exchange(number, payload(number));
    }
    let reports = captures.map(|capture| capture.stop().unwrap());
    let ended = now();
    // This one came too late.
    pair.exchange(COUNT, 100);
    for (report, file) in reports.iter().zip(&files) {
        let expected = CaptureReport { file: file.clone(), packets: u64::from(COUNT), dropped: 0, error: None };
        assert_eq!(*report, expected);
    }

    if let Some(python) = program("python3") {
        // What leaves is flagged 2, what arrives 1.
        for (file, snap, flags) in [(&files[0], 0, 2), (&files[1], 60, 1)] {
            let read = output(&python, &["-c", READER, file.to_str().unwrap()]);
            let lines: Vec<&str> = read.lines().collect();
            assert_eq!(lines[0], format!("interface 1 {snap} eth0 9"));
            assert_eq!(lines[lines.len() - 1], format!("counted {COUNT} 0 {COUNT}"));
            let packets = &lines[1..lines.len() - 1];
            assert_eq!(packets.len(), COUNT as usize);
            let mut before = began;
            for (number, line) in (0..COUNT).zip(packets) {
                let words: Vec<&str> = line.split(' ').collect();
                let stamp: u64 = words[2].parse().unwrap();
                assert!((before..=ended).contains(&stamp), "{line}");
                before = stamp;
                // Ethernet, IPv4 and UDP headers.
                let length = 14 + 20 + 8 + payload(number);
                let kept = if snap == 0 { length } else { length.min(snap) };
                let expected = format!("packet 0 {stamp} {length} {kept} {flags} {number:08x}");
                assert_eq!(*line, expected);
            }
        }
    }
    if let Some(tcpdump) = program("tcpdump") {
        for file in &files {
            let read = output(&tcpdump, &["-nn", "-tt", "-q", "-r", file.to_str().unwrap()]);
            let lengths: Vec<usize> = read
                .lines()
                .map(|line| {
                    assert!(line.contains("IP 10.7.0.1.5000 > 10.7.0.2.5000: UDP, length "), "{line}");
                    line.rsplit(' ').next().unwrap().parse().unwrap()
                })
                .collect();
            assert_eq!(lengths, (0..COUNT).map(payload).collect::<Vec<_>>());
        }
    }
}

/// What ends a capture early is told; the traffic does not notice.
#[test]
fn a_full_disk_ends_the_capture_alone() {
    let Some(pair) = Pair::new() else { return };
    let capture = Capture::start(&pair.hosts[0], "eth0", Path::new("/dev/full"), 0).unwrap();
    // More than is written at once.
    for number in 0..2 * (PIECE as u32 / 1400) {
        pair.exchange(number, 1400);
    }
    let report = capture.stop().unwrap();
    let error = "capture on eth0 into /dev/full: No space left on device (os error 28)";
    let expected = CaptureReport { file: "/dev/full".into(), packets: 0, dropped: 0, error: Some(error.into()) };
    assert_eq!(report, expected);
}

#[test]
fn what_cannot_be_captured_is_told_at_once() {
    let Some(pair) = Pair::new() else { return };
    let error = |interface, file| match Capture::start(&pair.hosts[0], interface, Path::new(file), 0) {
        Err(error) => format!("{error:#}"),
        Ok(_) => panic!("captures"),
    };
    assert_eq!(error("eth7", "/dev/null"), "capture on eth7: no such device");
    assert_eq!(error("eth0", "/dev/null/x"), "write /dev/null/x: Not a directory (os error 20)");
}

/// The thread ends by itself, and the file is whole.
#[test]
fn a_dropped_capture_ends() {
    let Some(pair) = Pair::new() else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    let capture = Capture::start(&pair.hosts[0], "eth0", file.path(), 0).unwrap();
    pair.exchange(1, 100);
    drop(capture);
    // The statistics come last: their type, then a length that is also at the end.
    let is_whole = |bytes: &[u8]| bytes.len() > 88 && bytes[bytes.len() - 88..][..8] == [5, 0, 0, 0, 88, 0, 0, 0];
    await_that("the end", || is_whole(&std::fs::read(file.path()).unwrap()));
}
