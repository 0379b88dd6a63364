//! Tees that send to one another: what would go back is not sent, and what goes round has an end.

use std::collections::BTreeSet;
use std::fs;

use super::Tee;
use super::datagrams::{send_all, source};
use super::network::{Host, await_that, network};

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

/// The UDP sockets that listen on a host, by their inodes (/proc/net/udp).
fn sockets(host: &Host) -> BTreeSet<String> {
    let table = host.run(|| fs::read_to_string("/proc/thread-self/net/udp")).unwrap();
    let of_listener = |line: &&str| line.split_whitespace().nth(1).unwrap().ends_with(":1388");
    table.lines().skip(1).filter(of_listener).map(|line| line.split_whitespace().nth(9).unwrap().to_owned()).collect()
}

#[test]
fn a_destination_is_not_sent_what_comes_from_its_own_address() {
    let Some([client, a, b]) = network(["client", "a", "b"]) else { return };
    let other = tee(&b, "off", &a, "");
    let mut tee = tee(&a, "stop", &b, "");
    let payloads: Vec<Vec<u8>> = (0..8u8).map(|number| vec![number; 100]).collect();
    send_all(&source(&client, client.at(0)), a.at(5000), &payloads, &[]);
    await_that("each of them to come back once", || tee.ledger()["destinations"][0]["drops"]["loop"] == 8);
    let account = tee.end();
    assert_eq!((account.received(), account.sent("b"), account.drops("b")), ((16, 0), 8, vec![("loop", 8)]));
    other.end();
}

#[test]
fn a_source_that_is_a_destination_is_told_once() {
    let Some([host, a]) = network(["tee", "a"]) else { return };
    let mut tee = tee(&host, "warn", &a, "");
    let source = source(&a, a.at(0));
    let payloads: Vec<Vec<u8>> = (0..8u8).map(|number| vec![number; 100]).collect();
    send_all(&source, host.at(5000), &payloads, &[]);
    let start = format!("{} sends to listener \"in\" and is destination \"a\"", a.at(0).ip());
    tee.line(&start);
    let account = tee.end();
    assert_eq!(account.received(), (8, 0));
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
