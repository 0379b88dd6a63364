//! A destination behind a neighbour that does not answer: what is not on the wire is not told as sent, but for what asks; groups
//! go on without it, and it is served again as soon as it answers.

use std::time::{Duration, Instant};

use weir_kernel::next_hops::{Neighbour, NextHops};
use weir_kernel::sysctl;

use super::datagrams::{Sink, send_paced, source};
use super::network::{Host, await_that, network};
use super::{Tee, program};

/// What nft counts on its way out of `eth0`, by the address it goes to.
struct Wire<'a> {
    host: &'a Host,
    nft: std::path::PathBuf,
}

impl<'a> Wire<'a> {
    /// `None`: nft is not here; the test is skipped.
    fn tap(host: &'a Host, addresses: &[&str]) -> Option<Wire<'a>> {
        let nft = program("nft")?;
        let rules: Vec<_> =
            addresses.iter().map(|address| format!("add rule netdev t out ip daddr {address} counter;")).collect();
        let script = "add table netdev t; \
                      add chain netdev t out { type filter hook egress device eth0 priority 0; };";
        host.output(&nft, &[&format!("{script} {}", rules.concat())]);
        Some(Wire { host, nft })
    }

    /// Datagrams of 1400 bytes, of which several may leave as one packet.
    fn count(&self, address: &str) -> u64 {
        let listing = self.host.output(&self.nft, &["list ruleset"]);
        let line = listing.lines().find(|line| line.contains(&format!("ip daddr {address} counter"))).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let of = |name| -> u64 { words[words.iter().position(|word| *word == name).unwrap() + 1].parse().unwrap() };
        // Heads of Ethernet, IP and UDP.
        (of("bytes") - of("packets") * (14 + 20 + 8)) / 1400
    }
}

/// Has a host's neighbours fail after so many requests of so many ms each.
fn ask_for(host: &Host, milliseconds: u32) {
    let pause = milliseconds.to_string();
    sysctl::set(&host.ns, &[("ipv4/neigh/eth0/retrans_time_ms", &pause), ("ipv6/neigh/eth0/retrans_time_ms", &pause)])
        .unwrap();
}

#[test]
fn what_a_dead_neighbour_was_meant_to_get_is_unreachable_and_its_group_goes_on() {
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    ask_for(&host, 300);
    let Some(wire) = Wire::tap(&host, &["10.0.0.201", "10.0.0.202", "10.0.0.203", "10.0.0.3"]) else { return };
    let [live, _other] = [5000, 5001].map(|port| Sink::bind(&a, a.at(port)));
    let tee = Tee::configured(
        &host,
        r#"
        listener = [{ address = "0.0.0.0:5000" }]
        destination = [{ name = "dead", to = "10.0.0.201:5000", queue = "16MiB" },
                       { name = "kept", to = "10.0.0.203:5000", source = "kept", queue = "16MiB" },
                       { name = "first", to = "10.0.0.202:5000", queue = "16MiB" },
                       { name = "second", to = "10.0.0.3:5000" },
                       { name = "nowhere", to = "192.0.2.1:5000" },
                       { name = "somewhere", to = "10.0.0.3:5001" }]
        group = [{ name = "group", policy = "failover", members = ["first", "second"] },
                 { name = "unrouted", policy = "round-robin", members = ["nowhere", "somewhere"] }]
        "#,
    );
    // Without rules, everything goes to each group, and to those that are in none. 2000 a second: as many bytes as make the
    // neighbour queue of the kernel drop its oldest before the socket is full. The queues of the tee have room for all,
    // however long the kernel takes to give up.
    let payloads: Vec<Vec<u8>> = (0..5000u32).map(|number| number.to_be_bytes().repeat(350)).collect();
    send_paced(&source(&client, client.at(0)), host.at(5000), &payloads, 2000);
    live.await_payload(&payloads[4999]);
    let account = tee.end();
    for (name, address) in [("dead", "10.0.0.201"), ("kept", "10.0.0.203"), ("first", "10.0.0.202")] {
        let entry = account.entry("destinations", name);
        assert_eq!(wire.count(address), 0, "{account:?}");
        // One a second, for which the kernel asks.
        let unresolved = entry["sent_unresolved"].as_u64().unwrap();
        assert!(account.sent(name) == unresolved && unresolved < 20, "{account:?}");
        assert_eq!(entry["healthy"], false, "{entry}");
        let drops = account.drops(name);
        assert!(matches!(drops[..], [("unreachable", 1..)]), "{entry}");
    }
    // Without a route a member is passed over from the start.
    assert_eq!(account.entry("destinations", "nowhere")["copies"]["datagrams"], 0, "{account:?}");
    assert_eq!(account.entry("destinations", "nowhere")["healthy"], false, "{account:?}");
    assert_eq!(account.sent("somewhere"), 5000, "{account:?}");
    // What the second did not get, the first was thought to live for. From then on it gets a copy a try.
    let first = account.entry("destinations", "first")["copies"]["datagrams"].as_u64().unwrap();
    let second = account.sent("second");
    assert_eq!(wire.count("10.0.0.3"), second + 5000, "{account:?}");
    assert!(first < 5000 && (5000 - first..5000).contains(&second), "{account:?}");
}

#[test]
fn of_a_first_burst_what_the_queue_holds_leaves_when_the_next_hop_answers_and_the_rest_has_its_reason() {
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let Some(wire) = Wire::tap(&host, &["10.0.0.50"]) else { return };
    let mut tee = Tee::configured(
        &host,
        r#"
        workers = 1
        listener = [{ address = "0.0.0.0:5000" }]
        destination = [{ name = "late", to = "10.0.0.50:5000" }]
        "#,
    );
    // Twice what `queue` holds, within the three seconds for which the kernel asks.
    const ALL: u64 = 6_000;
    let (socket, payload) = (source(&client, client.at(0)), vec![7; 1400]);
    for _ in 0..ALL {
        socket.send_to(&payload, host.at(5000)).unwrap();
    }
    let of = |ledger: &serde_json::Value| {
        let late = &ledger["destinations"][0];
        let number = |count: &serde_json::Value| count.as_u64().unwrap();
        (number(&late["sent"]["datagrams"]), number(&late["queued"]), number(&late["drops"]["queue_full"]))
    };
    await_that("the burst to be taken", || {
        let (sent, queued, full) = of(&tee.ledger());
        sent + queued + full == ALL
    });
    // Somebody has the address now, and is asked once more within a second.
    let mut link = a.netlink();
    let index = link.link("lo").unwrap().index;
    link.add_address(index, "10.0.0.50/32".parse().unwrap()).unwrap();
    await_that("what waits to leave", || of(&tee.ledger()).1 == 0);
    let account = tee.end();
    let (sent, _, full) = of(&account.0);
    assert_eq!((account.received(), sent + full, wire.count("10.0.0.50")), ((ALL, 0), ALL, sent), "{account:?}");
    // Of its room, a little goes to each that waits.
    let most = (4 << 20) / 1400;
    let asked = account.entry("destinations", "late")["sent_unresolved"].as_u64().unwrap();
    assert!((most * 9 / 10..=most + asked).contains(&sent), "{account:?}");
}

#[test]
fn a_neighbour_that_dies_is_noticed_and_served_again_when_it_answers() {
    let Some([client, host, b]) = network(["client", "tee", "b"]) else { return };
    ask_for(&host, 300);
    // A neighbour is asked again after a second or two, not after half a minute.
    let soon = [("ipv4/neigh/eth0/base_reachable_time_ms", "1000"), ("ipv4/neigh/eth0/delay_first_probe_time", "1")];
    sysctl::set(&host.ns, &soon).unwrap();
    let Some(wire) = Wire::tap(&host, &["10.0.0.3"]) else { return };
    let sink = Sink::bind(&b, b.at(5000));
    let tee = Tee::start(&host, &["0.0.0.0:5000"], &["10.0.0.3:5000"]);
    let (socket, payload) = (source(&client, client.at(0)), vec![0; 1400]);
    let mut sent = 0;
    let mut send = || {
        socket.send_to(&payload, host.at(5000)).unwrap();
        sent += 1;
    };
    let mut hops = host.run(|| NextHops::open().unwrap());
    let mut is_failed = || {
        let neighbours = hops.neighbours().unwrap();
        neighbours.iter().any(|(hop, state)| hop.address == b.at(0).ip() && *state == Neighbour::Failed)
    };
    await_that("the first to come", || {
        send();
        sink.count() > 0
    });
    let mut link = b.netlink();
    let index = link.link("eth0").unwrap().index;
    link.set_down(index).unwrap();
    await_that("the neighbour to fail", || {
        send();
        is_failed()
    });
    let before = sink.count();
    let start = Instant::now();
    // Into the next try, and beyond it.
    while start.elapsed() < Duration::from_millis(1200) {
        send();
        std::thread::sleep(Duration::from_millis(1));
    }
    let lost = wire.count("10.0.0.3");
    link.set_up(index).unwrap();
    link.wait_until_running("eth0").unwrap();
    await_that("the neighbour to be served again", || {
        send();
        sink.count() > before
    });
    assert!(wire.count("10.0.0.3") > lost);
    let account = tee.end();
    let name = "10.0.0.3:5000";
    assert_eq!(account.received(), (sent, 0));
    let (told, left) = (account.sent(name), wire.count("10.0.0.3"));
    // What asks may be lost, and what is sent until the tee learns that the kernel has given up.
    let unresolved = account.entry("destinations", name)["sent_unresolved"].as_u64().unwrap();
    assert!(left <= told && told <= left + unresolved + 500, "{left} left: {account:?}");
    let [("unreachable", unreachable)] = account.drops(name)[..] else { panic!("{account:?}") };
    assert_eq!(told + unreachable, sent);
}
