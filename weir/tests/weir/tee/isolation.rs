//! Whatever happens to one destination, no other misses a datagram, and the account tells what happened and how often.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use weir_kernel::links::{MacAddress, Netlink, VethEnd};

use super::datagrams::{Sink, assert_same, send_all, send_paced, source};
use super::network::{Host, await_that, network};
use super::{Tee, program};

#[test]
fn dead_destinations_cost_nothing() {
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let live = Sink::bind(&a, a.at(5000));
    // Nobody has these addresses: what is sent there waits for an answer to ARP that never comes.
    let dead = ["10.0.0.201:5000", "10.0.0.202:5000"];
    let tee = Tee::start(&host, &["0.0.0.0:5000"], &[dead[0], "10.0.0.3:5000", dead[1]]);
    let payloads = numbered(25_000);
    send_paced(&source(&client, client.at(0)), host.at(5000), &payloads, 10_000);
    assert_same(&live.payloads(payloads.len()), &payloads);
    let account = tee.end();
    assert_eq!(account.received(), (25_000, 0));
    assert_eq!((account.sent("10.0.0.3:5000"), account.drops("10.0.0.3:5000")), (25_000, vec![]));
    for name in dead {
        // What the kernel took it gave up after three unanswered requests; what it did not take waited, and no longer.
        let dropped: u64 = account.drops(name).iter().map(|(_, count)| count).sum();
        assert_eq!(account.sent(name) + dropped, 25_000);
    }
}

#[test]
fn what_a_firewall_forbids_is_refused() {
    let Some(nft) = program("nft") else { return };
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    host.output(
        &nft,
        &["add table inet t; add chain inet t out { type filter hook output priority 0; }; \
           add rule inet t out ip daddr 10.0.0.4 counter drop"],
    );
    let sinks = [&a, &b].map(|host| Sink::bind(host, host.at(5000)));
    let tee = Tee::start(&host, &["0.0.0.0:5000"], &["10.0.0.4:5000", "10.0.0.3:5000"]);
    let payloads = numbered(5000);
    send_all(&source(&client, client.at(0)), host.at(5000), &payloads, &[&sinks[0]]);
    assert_same(&sinks[0].payloads(5000), &payloads);
    let account = tee.end();
    assert_eq!((account.sent("10.0.0.3:5000"), account.drops("10.0.0.3:5000")), (5000, vec![]));
    assert_eq!((account.sent("10.0.0.4:5000"), account.drops("10.0.0.4:5000")), (0, vec![("refused", 5000)]));
    assert_eq!(sinks[1].count(), 0);
    // A joined send is one packet to the firewall, and its bytes are payload and one head of 28.
    let listing = host.output(&nft, &["list ruleset"]);
    let words: Vec<&str> = listing.split_whitespace().collect();
    let count =
        |name: &str| -> u64 { words[words.iter().position(|word| *word == name).unwrap() + 1].parse().unwrap() };
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    assert_eq!(count("bytes"), bytes as u64 + 28 * count("packets"), "{listing}");
}

#[test]
fn where_no_route_leads_is_unreachable() {
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let sinks = [Sink::bind(&a, a.at(5000)), Sink::bind(&b, b.at6(5000))];
    let nowhere = ["192.0.2.1:5000", "[2001:db8::1]:5000"];
    let tee = Tee::start(&host, &["[::]:5000"], &[nowhere[0], "10.0.0.3:5000", nowhere[1], "[fd00::4]:5000"]);
    let payloads = numbered(5000);
    send_all(&source(&client, client.at(0)), host.at(5000), &payloads, &[&sinks[0], &sinks[1]]);
    sinks.iter().for_each(|sink| assert_same(&sink.payloads(5000), &payloads));
    let account = tee.end();
    for name in nowhere {
        assert_eq!((account.sent(name), account.drops(name)), (0, vec![("unreachable", 5000)]));
    }
    for name in ["10.0.0.3:5000", "[fd00::4]:5000"] {
        assert_eq!((account.sent(name), account.drops(name)), (5000, vec![]));
    }
}

#[test]
fn a_closed_port_is_reported_and_harms_nobody() {
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let sink = Sink::bind(&a, a.at(5000));
    let mut tee = Tee::start(&host, &["0.0.0.0:5000"], &[b.at(5000), a.at(5000)]);
    let payloads = numbered(5000);
    send_all(&source(&client, client.at(0)), host.at(5000), &payloads, &[&sink]);
    assert_same(&sink.payloads(5000), &payloads);
    // Another worker may serve the closed port, and be behind.
    await_that("all to have gone there", || tee.ledger()["destinations"][0]["sent"]["datagrams"] == 5000);
    // A receiver that begins to listen is served at once.
    let late = Sink::bind(&b, b.at(5000));
    send_all(&source(&client, client.at(0)), host.at(5000), &payloads, &[&sink, &late]);
    assert_same(&late.payloads(5000), &payloads);
    let account = tee.end();
    account.is_lossless(10_000);
    // The kernel of the other host limits how often it answers (net.ipv4.icmp_ratelimit).
    assert!(account.entry("destinations", "10.0.0.4:5000")["icmp_errors"].as_u64() > Some(0), "{account:?}");
}

#[test]
fn a_flapping_link_harms_nobody() {
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let mut link = SecondLink::between(&host, &b);
    let live = Sink::bind(&a, a.at(5000));
    let flapping = Sink::bind(&b, "10.1.0.2:5000".parse().unwrap());
    link.set(true);
    // A single worker serves the one before the other: what the live one has, the link's has had its chance at.
    let tee = Tee::configured(
        &host,
        "workers = 1\n[[listener]]\naddress = \"0.0.0.0:5000\"\n[[destination]]\nto = \"10.1.0.2:5000\"\n\
         [[destination]]\nto = \"10.0.0.3:5000\"\n",
    );
    let (socket, payloads) = (source(&client, client.at(0)), numbered(1000));
    for round in 0..20 {
        let is_up = round % 2 == 0;
        link.set(is_up);
        let sinks = if is_up { &[&live, &flapping][..] } else { &[&live] };
        send_all(&socket, host.at(5000), &payloads, sinks);
        assert_same(&live.payloads(1000), &payloads);
    }
    let account = tee.end();
    assert_eq!((account.sent("10.0.0.3:5000"), account.drops("10.0.0.3:5000")), (20_000, vec![]));
    // Half of the time there was no route. What comes before the tee has heard of that may wait, and leave with the next.
    let name = "10.1.0.2:5000";
    let [("unreachable", unreachable)] = account.drops(name)[..] else { panic!("{account:?}") };
    assert_eq!(
        (account.sent(name) + unreachable, flapping.count() as u64),
        (20_000, account.sent(name)),
        "{account:?}"
    );
    assert!((9_900..=10_000).contains(&unreachable), "{account:?}");
}

#[test]
fn a_link_that_comes_late_is_found() {
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let mut link = SecondLink::between(&host, &b);
    let live = Sink::bind(&a, a.at(5000));
    let late = Sink::bind(&b, "10.1.0.2:5000".parse().unwrap());
    let tee = Tee::start(&host, &["0.0.0.0:5000"], &["10.1.0.2:5000", "10.0.0.3:5000"]);
    let (socket, payloads) = (source(&client, client.at(0)), numbered(1000));
    send_all(&socket, host.at(5000), &payloads, &[&live]);
    link.set(true);
    let mut markers = 0;
    await_that("the link to be used", || {
        send_all(&socket, host.at(5000), &[b"marker".to_vec()], &[&live]);
        markers += 1;
        late.count() > 0
    });
    send_all(&socket, host.at(5000), &payloads, &[&live, &late]);
    late.await_payload(&payloads[999]);
    let received = late.payloads(1001);
    assert_same(&received[received.len() - 1000..], &payloads);
    let account = tee.end();
    assert_eq!((account.sent("10.0.0.3:5000"), account.drops("10.0.0.3:5000")), (2000 + markers, vec![]));
    let name = "10.1.0.2:5000";
    let arrived = received.len() as u64;
    assert_eq!((account.sent(name), account.drops(name)), (arrived, vec![("unreachable", 2000 + markers - arrived)]));
}

#[test]
fn a_slow_link_delays_nobody() {
    let Some(tc) = program("tc") else { return };
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    SecondLink::between(&host, &b).set(true);
    // 1 Mbit/s of 10 offered, with room for far more than the socket's send buffer: the socket is what fills.
    let slow = ["qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "1mbit", "burst", "3000", "limit", "100mb"];
    host.output(&tc, &slow);
    let live = Sink::bind(&a, a.at(5000));
    let sink = Sink::bind(&b, "10.1.0.2:5000".parse().unwrap());
    let tee = Tee::configured(
        &host,
        r#"
        drain = "10s"
        listener = [{ address = "0.0.0.0:5000" }]
        destination = [{ name = "slow", to = "10.1.0.2:5000", queue = "64KiB", send_buffer = "64KiB" },
                       { name = "live", to = "10.0.0.3:5000" }]
        "#,
    );
    let payloads: Vec<Vec<u8>> = (0..2500u32).map(|number| number.to_be_bytes().repeat(125)).collect();
    send_paced(&source(&client, client.at(0)), host.at(5000), &payloads, 2500);
    assert_same(&live.payloads(2500), &payloads);
    // It did not have to wait: the slow one is not through with what was there for both.
    let slow = sink.count() as u64;
    let account = tee.end();
    assert_eq!((account.sent("live"), account.drops("live")), (2500, vec![]));
    let [("queue_full", dropped)] = account.drops("slow")[..] else { panic!("{account:?}") };
    assert_eq!(account.sent("slow") + dropped, 2500);
    assert!(slow < account.sent("slow"), "{slow}: {account:?}");
    // What it was sent came, in order, and no faster than the link.
    let received = sink.take(usize::try_from(account.sent("slow")).unwrap());
    let numbers: Vec<&[u8]> = received.iter().map(|datagram| &datagram.payload[..4]).collect();
    assert!(numbers.is_sorted() && dropped > 1500, "{account:?}");
}

/// A cable from host to host, `eth1`: 10.1.0.1 and 10.1.0.2.
struct SecondLink {
    ends: [Netlink; 2],
}

impl SecondLink {
    fn between(a: &Host, b: &Host) -> SecondLink {
        let mut ends = [a.netlink(), b.netlink()];
        let end =
            |ns, number| VethEnd { ns, name: "eth1", mac: MacAddress::local(number), mtu: 1500, queue_length: 1000 };
        ends[0].add_veth(&end(&a.ns, 2001), &end(&b.ns, 2002)).unwrap();
        for (netlink, number) in ends.iter_mut().zip(1..) {
            let index = netlink.link("eth1").unwrap().index;
            netlink.set_no_link_local(index).unwrap();
            netlink.add_address(index, IpNet::new(IpAddr::V4(Ipv4Addr::new(10, 1, 0, number)), 24).unwrap()).unwrap();
        }
        SecondLink { ends }
    }

    fn set(&mut self, up: bool) {
        for netlink in &mut self.ends {
            let index = netlink.link("eth1").unwrap().index;
            if up { netlink.set_up(index).unwrap() } else { netlink.set_down(index).unwrap() }
        }
        if up {
            self.ends.iter_mut().for_each(|netlink| netlink.wait_until_running("eth1").unwrap());
        }
    }
}

fn numbered(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| number.to_be_bytes().repeat(25)).collect()
}
