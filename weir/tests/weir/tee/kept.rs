//! The original source, kept in the packet or put before the payload.

use std::process::Stdio;

use weir_kernel::offloads::{Offload, Offloads};

use weir_testbed::random::Source;

use super::datagrams::{Datagram, Sink, assert_same, send_all, source};
use super::network::{Host, network};
use super::{Tee, program};

#[test]
fn sinks_see_the_original_source() {
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    // Else nobody computes or checks a checksum between namespaces.
    for host in [&client, &host] {
        let mut offloads = Offloads::open(&host.ns).unwrap();
        for offload in Offload::ALL {
            offloads.set("eth0", offload, false).unwrap();
        }
    }
    let (sink4, sink6) = (Sink::bind(&a, a.at(5000)), Sink::bind(&b, b.at6(5000)));
    let tee = Tee::configured(
        &host,
        r#"
        listener = [{ name = "4", address = "0.0.0.0:5000" }, { name = "6", address = "[fd00::2]:5000" }]
        destination = [{ name = "a", to = "10.0.0.3:5000", source = "kept" },
                       { name = "b", to = "[fd00::4]:5000", source = "kept" }]
        rule = [{ listener = "4", to = ["a"] }, { listener = "6", to = ["b"] }]
        "#,
    );
    let before = [&a, &b].map(Host::counters);
    let mut random = Source::drawn();
    // With odd ends, one whose checksum is 0 (sent as all ones: RFC 768), and above the MTU: 2 to 45 fragments.
    let mut lengths = vec![0, 1, 2, 3, 1451, 1452, 1453, 1471, 1472, 1473, 2949, 8972, 65_487, 65_507];
    lengths.extend((0..200).map(|_| random.size(0..3000)));
    let mut payloads: Vec<Vec<u8>> = lengths.iter().map(|&length| random.bytes(length)).collect();
    payloads.extend((0..=u16::MAX).step_by(257).map(|word| word.to_be_bytes().to_vec()));
    for (from, sink, to) in [(client.at(4004), &sink4, host.at(5000)), (client.at6(6006), &sink6, host.at6(5000))] {
        send_all(&source(&client, from), to, &payloads, &[sink]);
        let expected = payloads.iter().map(|payload| Datagram { source: from, payload: payload.clone() });
        assert_same(&sink.take(payloads.len()), &expected.collect::<Vec<_>>());
    }
    let account = tee.end();
    for name in ["a", "b"] {
        assert_eq!((account.sent(name), account.drops(name)), (payloads.len() as u64, vec![]));
    }
    for (host, before) in [&a, &b].into_iter().zip(&before) {
        let since = host.counters().since(before);
        for (protocol, name) in [
            ("Udp", "InCsumErrors"),
            ("Udp6", "InCsumErrors"),
            ("Ip", "InHdrErrors"),
            ("Ip", "ReasmFails"),
            ("Ip6", "ReasmFails"),
        ] {
            assert_eq!(since.get(protocol, name), Some(0), "{}: {protocol} {name}", host.name);
        }
    }
    // The large ones were cut, and not by one host only.
    let reassembled = |host: &Host, before, protocol| host.counters().since(before).get(protocol, "ReasmOKs").unwrap();
    assert!(reassembled(&a, &before[0], "Ip") > 50 && reassembled(&b, &before[1], "Ip6") > 50);
}

/// Whatever says that a packet is too long says it to the client.
#[test]
fn what_is_kept_over_ipv6_passes_a_narrower_link() {
    let Some(ip) = program("ip") else { return };
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let narrow = || std::process::Command::new(&ip).args(["link", "set", "dev", "a", "mtu", "1300"]).status().unwrap();
    assert!(host.switch().run(narrow).unwrap().success());
    let sink = Sink::bind(&a, a.at6(5000));
    let tee = Tee::configured(&host, &one_way("[fd00::3]:5000", "kept"));
    let payloads = vec![vec![b'x'; 1400]; 100];
    send_all(&source(&client, client.at6(6006)), host.at6(5000), &payloads, &[&sink]);
    assert_same(&sink.payloads(payloads.len()), &payloads);
    tee.end().is_lossless(payloads.len());
}

#[test]
fn every_zero_checksum_is_sent_as_ones() {
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let mut offloads = Offloads::open(&host.ns).unwrap();
    offloads.set("eth0", Offload::SendChecksum, false).unwrap();
    let sink = Sink::bind(&a, a.at6(5000));
    let tee = Tee::configured(&host, &one_way("[fd00::3]:5000", "kept"));
    // Of all payloads of two bytes exactly one has the checksum 0, which over IPv6 nobody accepts (RFC 8200, 8.1).
    let payloads: Vec<Vec<u8>> = (0..=u16::MAX).map(|word| word.to_be_bytes().to_vec()).collect();
    send_all(&source(&client, client.at6(6006)), host.at6(5000), &payloads, &[&sink]);
    assert_same(&sink.payloads(payloads.len()), &payloads);
    tee.end().is_lossless(payloads.len());
}

#[test]
fn a_source_of_the_other_family_cannot_be_kept() {
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let sink = Sink::bind(&a, a.at(5000));
    let tee = Tee::configured(&host, &one_way("10.0.0.3:5000", "kept"));
    let payloads = vec![b"x".to_vec(); 100];
    send_all(&source(&client, client.at6(0)), host.at6(5000), &payloads, &[]);
    // Over the dual-stack socket IPv4 comes as mapped addresses, and is kept as what it is.
    send_all(&source(&client, client.at(4004)), host.at(5000), &payloads, &[&sink]);
    assert!(sink.take(100).iter().all(|datagram| datagram.source == client.at(4004)));
    let account = tee.end();
    assert_eq!((account.sent("a"), account.drops("a")), (100, vec![("family", 100)]));
}

#[test]
fn an_independent_parser_reads_the_proxy_header() {
    let Some(python) = program("python3") else { return };
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let program = a.program(&python).args(["-c", PARSER]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut parser = program.spawn().unwrap();
    a.await_port(5000, &mut parser);
    let tee = Tee::configured(&host, &one_way("10.0.0.3:5000", "proxy"));
    let payloads = ["", "<13>one", "<13>two\n"].map(|text| text.as_bytes().to_vec());
    send_all(&source(&client, client.at(4004)), host.at(5000), &payloads, &[]);
    send_all(&source(&client, client.at6(6006)), host.at6(5000), &payloads, &[]);
    // The longest payload with its header, and one byte too many.
    send_all(&source(&client, client.at(4004)), host.at(5000), &[vec![b'x'; 65_507 - 28]], &[]);
    send_all(&source(&client, client.at(4004)), host.at(5000), &[vec![b'x'; 65_507 - 27]], &[]);
    let (status, stdout, stderr) = parser.output().unwrap();
    assert_eq!(status, 0, "{}", String::from_utf8_lossy(&stderr));
    // The order of a source is kept, not that among sources.
    let mut parsed: Vec<Vec<String>> = serde_json::from_slice(&stdout).unwrap();
    parsed.sort_by(|a, b| a[0].cmp(&b[0]));
    let mut expected = Vec::new();
    for (from, to) in [("10.0.0.1 4004", "10.0.0.2 5000"), ("fd00::1 6006", "fd00::2 5000")] {
        expected.extend(["", "<13>one", "<13>two\n"].map(|text| vec![from.to_owned(), to.to_owned(), text.to_owned()]));
    }
    expected.insert(3, vec!["10.0.0.1 4004".to_owned(), "10.0.0.2 5000".to_owned(), "x".repeat(65_507 - 28)]);
    assert_same(&parsed, &expected);
    let account = tee.end();
    assert_eq!((account.sent("a"), account.drops("a")), (7, vec![("too_long", 1)]));
}

fn one_way(to: &str, source: &str) -> String {
    format!(
        "listener = [{{ address = \"[::]:5000\" }}]\ndestination = [{{ name = \"a\", to = \"{to}\", source = \"{source}\" }}]"
    )
}

/// Reads seven datagrams by the specification's words (The PROXY protocol, section 2.2).
const PARSER: &str = r#"
import ipaddress, json, socket, struct
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 5000))
server.settimeout(20)
seen = []
while len(seen) < 7:
    data = server.recv(65536)
    assert data[:12] == b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a", data
    assert data[12] == 0x21, data[12]
    size = {0x12: 4, 0x22: 16}[data[13]]
    (length,) = struct.unpack(">H", data[14:16])
    assert length == 2 * size + 4, length
    source, destination = (ipaddress.ip_address(data[at:at + size]) for at in (16, 16 + size))
    ports = struct.unpack(">HH", data[16 + 2 * size:20 + 2 * size])
    seen.append([f"{source} {ports[0]}", f"{destination} {ports[1]}", data[16 + length:].decode()])
print(json.dumps(seen))
"#;
