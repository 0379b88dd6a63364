//! Many sources and several listeners: the order of each source is kept, and each listener's rule leads its own way.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use ipnet::IpNet;

use weir_testbed::random::Source;

use super::Tee;
use super::datagrams::{Sink, Window, send_all, source};
use super::network::network;

#[test]
fn ten_thousand_sources_keep_their_order() {
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let mut netlink = client.netlink();
    let eth0 = netlink.link("eth0").unwrap().index;
    let addresses: Vec<Ipv4Addr> = (0..ADDRESSES).map(|number| Ipv4Addr::new(10, 0, 0, 101 + number)).collect();
    for address in &addresses {
        netlink.add_address(eth0, IpNet::new(IpAddr::V4(*address), 24).unwrap()).unwrap();
    }
    let sinks = [&a, &b].map(|host| Sink::bind(host, host.at(5000)));
    let tee = Tee::configured(
        &host,
        "workers = 4\n[[listener]]\naddress = \"0.0.0.0:5000\"\n[[destination]]\nto = \"10.0.0.3:5000\"\n\
         [[destination]]\nto = \"10.0.0.4:5000\"\n",
    );
    // Sources take turns at random, and each numbers its own datagrams.
    let sources: Vec<SocketAddr> =
        addresses.iter().flat_map(|&address| (0..PORTS).map(move |port| (address, 20_000 + port).into())).collect();
    let mut random = Source::drawn();
    let mut turns: Vec<usize> = (0..sources.len()).flat_map(|source| [source; EACH]).collect();
    for index in (1..turns.len()).rev() {
        turns.swap(index, random.size(0..index + 1));
    }
    client.run(|| {
        let mut sent: HashMap<usize, u32> = HashMap::new();
        let mut window = Window::new(&[&sinks[0], &sinks[1]]);
        for turn in turns {
            let number = sent.entry(turn).or_default();
            let payload = [&u32::try_from(turn).unwrap().to_be_bytes()[..], &number.to_be_bytes()].concat();
            *number += 1;
            window.send(&UdpSocket::bind(sources[turn]).unwrap(), host.at(5000), &payload);
        }
        window.finish();
    });
    let count = sources.len() * EACH;
    for sink in &sinks {
        let mut expected: HashMap<u32, u32> = HashMap::new();
        for payload in sink.payloads(count) {
            let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            let next = expected.entry(word(0)).or_default();
            assert_eq!((word(4), payload.len()), (*next, 8), "source {}", word(0));
            *next += 1;
        }
        assert!(expected.len() == sources.len() && expected.values().all(|&next| next == 3));
    }
    tee.end().is_lossless(count);
}

#[test]
fn each_listener_and_each_network_has_its_way() {
    let Some([client, other, host, a, b]) = network(["client", "other", "tee", "a", "b"]) else { return };
    let [to_a, to_b] = [&a, &b].map(|host| Sink::bind(host, host.at(5000)));
    let tee = Tee::configured(
        &host,
        r#"
        match = "first"
        listener = [{ name = "syslog", address = "10.0.0.3:514" }, { name = "metrics", address = "0.0.0.0:8125" },
                    { name = "six", address = "[::]:8125" }]
        destination = [{ name = "a", to = "10.0.0.4:5000" }, { name = "b", to = "10.0.0.5:5000" }]
        rule = [
            { name = "one host", from = "10.0.0.2/32", listener = "metrics", to = ["b"] },
            { name = "silence", from = "fd00::2/128", to = [] },
            { name = "syslog", listener = "syslog", to = ["a", "b"] },
            { name = "rest", listener = "metrics", to = ["a"] },
        ]
        "#,
    );
    let [one4, two4] = [&client, &other].map(|host| source(host, host.at(0)));
    let [one6, two6] = [&client, &other].map(|host| source(host, host.at6(0)));
    let payloads =
        |text: &str, count: u32| (0..count).map(|number| format!("{text} {number}").into_bytes()).collect::<Vec<_>>();
    send_all(&one4, host.at(514), &payloads("syslog", 10), &[&to_a, &to_b]);
    send_all(&one4, host.at(8125), &payloads("one", 20), &[&to_a]);
    send_all(&two4, host.at(8125), &payloads("two", 30), &[&to_b]);
    send_all(&one6, host.at6(8125), &payloads("unmatched", 40), &[]);
    send_all(&two6, host.at6(8125), &payloads("silenced", 50), &[]);
    let account = tee.end();
    assert_eq!(to_a.payloads(30), [payloads("syslog", 10), payloads("one", 20)].concat());
    assert_eq!(to_b.payloads(40), [payloads("syslog", 10), payloads("two", 30)].concat());
    let rule = |name: &str| {
        let entry = account.entry("rules", name);
        ["discarded", "copies"].map(|key| entry[key].as_u64().unwrap())
    };
    assert_eq!([rule("one host"), rule("silence"), rule("syslog"), rule("rest")], [[0, 30], [50, 0], [0, 20], [0, 20]]);
    let listener = |name: &str| {
        let entry = account.entry("listeners", name);
        ["matched", "unmatched"].map(|key| entry[key].as_u64().unwrap())
    };
    assert_eq!([listener("syslog"), listener("metrics"), listener("six")], [[10, 0], [50, 0], [50, 40]]);
}

const ADDRESSES: u8 = 100;
const PORTS: u16 = 100;
const EACH: usize = 3;
