//! Tees that send to one another: what goes round is found, told, and stopped where that is asked for. What merely repeats
//! itself is left alone.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::datagrams::{Sink, send_all, source};
use super::network::{Host, await_that, network};
use super::{Tee, program};

/// What nft counts of UDP on `eth0` of a host, in and out, by the other's address.
struct Wire<'a> {
    host: &'a Host,
    nft: std::path::PathBuf,
    /// Bytes of each datagram.
    length: u64,
}

impl<'a> Wire<'a> {
    /// `None`: nft is not here; the test is skipped.
    fn tap(host: &'a Host, from: &str, to: &str, length: u64) -> Option<Wire<'a>> {
        let nft = program("nft")?;
        let rules = format!(
            "table ip t {{ chain in {{ type filter hook input priority 0; ip saddr {from} udp dport 5000 counter; }}; \
             chain out {{ type filter hook output priority 0; ip daddr {to} udp dport 5000 counter; }}; }}"
        );
        host.output(&nft, &[&rules]);
        Some(Wire { host, nft, length })
    }

    /// Datagrams that came in from the one and went out to the other; several may do so as one packet.
    fn count(&self) -> (u64, u64) {
        let listing = self.host.output(&self.nft, &["list ruleset"]);
        let of = |direction: &str| {
            let line = listing.lines().find(|line| line.contains(direction) && line.contains("counter")).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            let of = |name| -> u64 { words[words.iter().position(|word| *word == name).unwrap() + 1].parse().unwrap() };
            // Heads of IP and UDP.
            (of("bytes") - of("packets") * (20 + 8)) / self.length
        };
        (of("saddr"), of("daddr"))
    }
}

/// A tee that listens at port 5000 and sends there. `more`: further keys of its destination.
fn tee(host: &Host, on_loop: &str, to: &Host, more: &str) -> Tee {
    Tee::configured(host, &configuration(on_loop, to, more))
}

fn configuration(on_loop: &str, to: &Host, more: &str) -> String {
    let (name, to) = (to.name, to.at(5000));
    format!(
        "workers = 1\nloop = \"{on_loop}\"\nlistener = [{{ name = \"in\", address = \"0.0.0.0:5000\" }}]\n\
         destination = [{{ name = \"{name}\", to = \"{to}\"{more} }}]"
    )
}

/// The loops that a ledger tells of: destination, where it comes back from, whether it is there.
fn loops(ledger: &Value) -> Vec<(&str, Option<&str>, bool)> {
    let found = ledger["loops"].as_array().unwrap().iter();
    found
        .map(|found| {
            (found["destination"].as_str().unwrap(), found["source"].as_str(), found["present"].as_bool().unwrap())
        })
        .collect()
}

/// The UDP sockets that listen on a host, by their inodes (/proc/net/udp).
fn sockets(host: &Host) -> BTreeSet<String> {
    let table = host.run(|| fs::read_to_string("/proc/thread-self/net/udp")).unwrap();
    let of_listener = |line: &&str| line.split_whitespace().nth(1).unwrap().ends_with(":1388");
    table.lines().skip(1).filter(of_listener).map(|line| line.split_whitespace().nth(9).unwrap().to_owned()).collect()
}

/// Waits until a tee has found a loop.
#[track_caller]
fn await_loop(tee: &mut Tee) -> Value {
    await_ledger(tee, |ledger| !loops(ledger).is_empty())
}

/// Waits until a tee has a ledger that is as wanted.
#[track_caller]
fn await_ledger(tee: &mut Tee, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut ledger = tee.ledger();
    // Who was cleared by chance, or since the machine stood still, is tested again after a minute.
    let deadline = Instant::now() + Duration::from_secs(100);
    while !wanted(&ledger) {
        assert!(Instant::now() < deadline, "nothing of what is awaited: {ledger:#}");
        sleep(Duration::from_millis(20));
        ledger = tee.ledger();
    }
    ledger
}

#[test]
#[ignore = "long: 5 s, of what is to go"]
fn a_loop_of_two_is_told_and_stopped_to_the_datagram() {
    let Some([client, a, b, archive]) = network(["client", "a", "b", "archive"]) else { return };
    let sink = Sink::bind(&archive, archive.at(5000));
    let other = tee(&b, "off", &a, "");
    // It warns, and the datagrams go on.
    let file = |on_loop: &str| {
        format!(
            "workers = 1\nloop = \"{on_loop}\"\nlistener = [{{ name = \"in\", address = \"0.0.0.0:5000\" }}]\n\
             destination = [{{ name = \"b\", to = \"10.0.0.3:5000\" }}, {{ name = \"archive\", to = \"10.0.0.4:5000\", sample = 1000 }}]"
        )
    };
    let Some(wire) = Wire::tap(&a, "10.0.0.3", "10.0.0.3", 100) else { return };
    let mut tee = Tee::configured(&a, &file("warn"));
    let payloads: Vec<Vec<u8>> = (0..8u8).map(|number| vec![number; 100]).collect();
    send_all(&source(&client, client.at(0)), a.at(5000), &payloads, &[]);
    let ledger = await_loop(&mut tee);
    assert_eq!(loops(&ledger), [("b", Some("10.0.0.3"), true)], "{ledger:#}");
    let going = wire.count();
    await_that("more rounds", || wire.count().1 > going.1 + 1_000);

    // Told to, it breaks the loop, with the sockets that it has.
    let before = sockets(&a);
    tee = tee.reload(&file("stop"));
    // Each goes round until it is dropped, once.
    await_ledger(&mut tee, |ledger| ledger["destinations"][0]["drops"]["loop"] == 8);
    let last = wire.count();
    assert_eq!(sockets(&a), before);
    // What comes for the first time still goes everywhere, once; the second round is dropped.
    let more: Vec<Vec<u8>> = (0..20u8).map(|number| vec![100 + number; 100]).collect();
    send_all(&source(&client, client.at(0)), a.at(5000), &more, &[]);
    await_that("each of them to come back once", || wire.count() == (last.0 + 20, last.1 + 20));
    let account = tee.end();
    other.end();
    let (came, went) = wire.count();
    let sent = account.sent("b");
    assert_eq!((account.received(), sent), ((came + 28, 0), went), "{account:?}");
    assert_eq!(account.drops("b"), [("loop", came + 28 - went)]);
    assert!(came + 28 - went >= 28);
    drop(sink);
}

#[test]
#[ignore = "long: 2 s, of what is to go"]
fn a_loop_of_three_that_keep_the_source_is_stopped_by_any_of_them() {
    let Some([client, a, b, c]) = network(["client", "a", "b", "c"]) else { return };
    let Some(wire) = Wire::tap(&a, "10.0.0.1", "10.0.0.3", 700) else { return };
    let others = [tee(&b, "off", &c, KEPT), tee(&c, "off", &a, KEPT)];
    let mut tee = tee(&a, "stop", &b, KEPT);
    let payloads: Vec<Vec<u8>> = (0..5u8).map(|number| vec![number; 700]).collect();
    send_all(&source(&client, client.at(4004)), a.at(5000), &payloads, &[]);
    // It comes back from the client, as far as anybody can tell.
    let ledger = await_loop(&mut tee);
    assert_eq!(loops(&ledger), [("b", Some("10.0.0.1"), true)], "{ledger:#}");
    await_ledger(&mut tee, |ledger| ledger["destinations"][0]["drops"]["loop"] == 5);
    let account = tee.end();
    others.into_iter().for_each(|tee| drop(tee.end()));
    let (came, went) = wire.count();
    assert_eq!((account.received(), account.sent("b")), ((came, 0), went), "{account:?}");
    assert_eq!(account.drops("b"), [("loop", came - went)]);
    assert!(came - went >= 5);
}

/// Each of the two holds its destination for a moment, again and again, which the other one sees.
#[test]
#[ignore = "long: 5 s, of what is to go"]
fn a_loop_of_two_with_several_workers_is_found_by_both_and_ended_by_either() {
    let Some([client, a, b]) = network(["client", "a", "b"]) else { return };
    let Some(wire) = Wire::tap(&a, "10.0.0.3", "10.0.0.3", 900) else { return };
    let text = |on_loop, to| configuration(on_loop, to, "").replace("workers = 1", "workers = 2");
    let [mut first, mut second] = [(&a, &b), (&b, &a)].map(|(host, to)| Tee::configured(host, &text("warn", to)));
    // Each from a port of its own, so that the kernel spreads them over the workers.
    for number in 0..16_u8 {
        send_all(&source(&client, client.at(0)), a.at(5000), &[vec![number; 900]], &[]);
    }
    assert_eq!(loops(&await_loop(&mut first)), [("b", Some("10.0.0.3"), true)]);
    assert_eq!(loops(&await_loop(&mut second)), [("a", Some("10.0.0.2"), true)]);
    first = first.reload(&text("stop", &b));
    // Each goes round until it is dropped, once.
    await_ledger(&mut first, |ledger| ledger["destinations"][0]["drops"]["loop"] == 16);
    let account = first.end();
    let (came, went) = wire.count();
    assert_eq!((account.received(), account.sent("b")), ((came + 16, 0), went), "{account:?}");
    assert_eq!((account.drops("b"), came), (vec![("loop", 16)], went), "{account:?}");
    second.end();
}

#[test]
#[ignore = "long: 2 s, of what is to go"]
fn what_repeats_itself_is_no_loop_and_loses_nothing() {
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let sink = Sink::bind(&a, a.at(5000));
    let mut tee = tee(&host, "stop", &a, "");
    // A client of StatsD that counts the same all the time, another one on the destination's own host that does so, too.
    let clients = [source(&client, client.at(0)), source(&a, a.at(0))];
    let start = Instant::now();
    let mut sent = 0;
    for (tests, clients) in [(1, &clients[..1]), (2, &clients[..])] {
        while tee.ledger()["loop_tests"].as_u64().unwrap() < tests {
            assert!(start.elapsed() < Duration::from_secs(20), "nobody was ever suspected");
            for _ in 0..2_000 {
                for client in clients {
                    client.send_to(b"frontend.request:1|c", host.at(5000)).unwrap();
                }
                sent += clients.len();
                sink.await_count(sent.saturating_sub(2_000));
                sleep(Duration::from_micros(50));
            }
        }
    }
    sink.await_count(sent);
    let account = tee.end();
    assert!(loops(&account.0).is_empty(), "{account:?}");
    account.is_lossless(sent);
}

#[test]
fn with_a_hop_guard_each_datagram_goes_round_as_often_as_it_has_hops() {
    let Some([client, a, b]) = network(["client", "a", "b"]) else { return };
    for source_of in ["own", "kept"] {
        let more = format!(", source = \"{source_of}\", hop_guard = true");
        // It has a guard since a reload, with the sockets that it had.
        let tees = [(&a, &b), (&b, &a)].map(|(host, to)| {
            let tee = tee(host, "off", to, &format!(", source = \"{source_of}\""));
            let before = sockets(host);
            let tee = tee.reload(&configuration("off", to, &more));
            assert_eq!(sockets(host), before);
            tee
        });
        // It arrives with 64 hops and leaves with 63; of 62 that arrive, 61 leave, and so on to the last one.
        let client = source(&client, client.at(0));
        client.set_ttl(64).unwrap();
        let payloads: Vec<Vec<u8>> = (0..8u8).map(|number| vec![number; 200]).collect();
        send_all(&client, a.at(5000), &payloads, &[]);
        let [mut first, mut second] = tees;
        await_that("the last hop", || second.ledger()["destinations"][0]["drops"]["hops"] == 8);
        assert_eq!(first.ledger()["closed"], true);
        // One hop is enough for a way of one tee.
        client.set_ttl(1).unwrap();
        send_all(&client, a.at(5000), &payloads, &[]);
        await_that("no hop at all", || first.ledger()["destinations"][0]["drops"]["hops"] == 8);
        let [first, second] = [first.end(), second.end()];
        assert_eq!((first.sent("b"), first.drops("b")), (8 * 32, vec![("hops", 8)]), "{source_of}: {first:?}");
        assert_eq!((second.sent("a"), second.drops("a")), (8 * 31, vec![("hops", 8)]), "{source_of}: {second:?}");
    }
}

const KEPT: &str = ", source = \"kept\"";
