//! ICMP that a third host sends in the name of a destination takes nobody down; what the destination itself says does.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use weir_dgram::{Options, RawSender};
use weir_wire::ip::{Checksum, ICMP, UDP};

use super::Tee;
use super::datagrams::{Sink, source};
use super::network::{Host, await_that, network};

/// A port unreachable message (RFC 792, type 3, code 3) from `to`, about a datagram of which `quoted` is the payload.
fn unreachable(from: SocketAddr, to: SocketAddr, quoted: &[u8]) -> Vec<u8> {
    let length = 8 + quoted.len() as u16;
    let udp = [&from.port().to_be_bytes()[..], &to.port().to_be_bytes(), &length.to_be_bytes(), &[0; 2]].concat();
    let about = [header(from.ip(), to.ip(), UDP, udp.len() + quoted.len()), udp, quoted.to_vec()].concat();
    let mut icmp = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &about].concat();
    let mut sum = Checksum::new();
    sum.add(&icmp);
    icmp[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    [header(to.ip(), from.ip(), ICMP, icmp.len()), icmp].concat()
}

fn header(from: IpAddr, to: IpAddr, protocol: u8, body: usize) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else { panic!("{from} {to}") };
    let length = (20 + body as u16).to_be_bytes();
    let mut header =
        [&[0x45, 0][..], &length, &[0, 7, 0, 0, 64, protocol, 0, 0], &from.octets(), &to.octets()].concat();
    let mut sum = Checksum::new();
    sum.add(&header);
    header[10..12].copy_from_slice(&sum.finish().to_be_bytes());
    header
}

/// Sinks on `a` and `b`, a tee that sends to the second where it thinks that the first is dead, and a source on `client`.
fn scene([client, host, a, b]: &[Host; 4]) -> ([Sink; 2], Tee, UdpSocket) {
    let sinks = [a, b].map(|host| Sink::bind(host, host.at(5000)));
    let tee = Tee::configured(
        host,
        r#"
        workers = 1
        listener = [{ address = "0.0.0.0:5000" }]
        destination = [{ name = "a", to = "10.0.0.3:5000" }, { name = "b", to = "10.0.0.4:5000" }]
        group = [{ name = "group", policy = "failover", members = ["a", "b"] }]
        "#,
    );
    (sinks, tee, source(client, client.at(0)))
}

#[test]
fn who_does_not_see_what_is_sent_takes_no_destination_down() {
    let Some(hosts) = network(["client", "tee", "a", "b"]) else { return };
    let ([client, host, a, _], (sinks, mut tee, socket)) = (&hosts, scene(&hosts));
    let mut sent = 0;
    let mut send = |to: &Sink| {
        let before = to.count();
        socket.send_to(format!("secret {sent}").as_bytes(), host.at(5000)).unwrap();
        sent += 1;
        to.await_count(before + 1);
    };
    send(&sinks[0]);
    let seen = sinks[0].take(1);
    let from = seen[0].source;
    // The third host has guessed the port. Options of its kernel that check sources are for others to set.
    let forger = client.run(|| RawSender::open(from, &Options::default()).unwrap());
    for quoted in [&b""[..], b"guessed", &[0; 64]] {
        let forge = || {
            let packet = unreachable(from, a.at(5000), quoted);
            assert_eq!(forger.send(&[&[IoSlice::new(&packet)]]).messages, 1);
        };
        (0..100).for_each(|_| forge());
        (0..20).for_each(|_| send(&sinks[0]));
        // For a while reports may have been about what was under way when the first came. Then each is unproven.
        let unproven = |tee: &mut Tee| tee.ledger()["destinations"][0]["icmp_unproven"].as_u64();
        let before = unproven(&mut tee);
        await_that("a report to be unproven", || {
            forge();
            send(&sinks[0]);
            unproven(&mut tee) > before
        });
    }
    assert_eq!(sinks[1].count(), 0);
    // The destination's own word: its port is closed.
    let [first, second] = sinks;
    drop(first);
    await_that("the second member to take over", || {
        socket.send_to(b"secret", host.at(5000)).unwrap();
        second.count() > 0
    });
    let account = tee.end();
    let entry = account.entry("destinations", "a");
    assert!(entry["icmp_unproven"].as_u64().unwrap() > 1, "{entry}");
    assert!(entry["icmp_errors"].as_u64() > entry["icmp_unproven"].as_u64(), "{entry}");
}

/// On virtual links, datagrams of a joined send are refused together, and quoted as one.
#[test]
fn a_closed_port_is_found_though_datagrams_leave_joined() {
    let Some([client, host, _a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let sink = Sink::bind(&b, b.at(5000));
    let tee = Tee::configured(
        &host,
        r#"
        workers = 1
        gather = "20ms"
        listener = [{ address = "0.0.0.0:5000" }]
        destination = [{ name = "a", to = "10.0.0.3:5000" }, { name = "b", to = "10.0.0.4:5000" }]
        group = [{ name = "group", policy = "failover", members = ["a", "b"] }]
        "#,
    );
    let socket = source(&client, client.at(0));
    let mut number = 0_u64;
    await_that("the second member to take over", || {
        for _ in 0..64 {
            number += 1;
            socket.send_to(format!("datagram {number:>16}").as_bytes(), host.at(5000)).unwrap();
        }
        sink.count() > 0
    });
    let account = tee.end();
    assert!(account.entry("destinations", "a")["joined"].as_u64() > Some(0), "{account:?}");
}
