//! SIGHUP: everything or nothing, and no datagram lost on what stays.

use std::fs;
use std::net::UdpSocket;

use nix::sys::signal::Signal;
use weir_testbed::{Started, http};

use super::{File, Load, Sink, entry, listens, start};

/// A listener `in` on a port of the kernel's choice, and destinations by name and address.
fn toml(destinations: &[(&str, &Sink)], more: &str) -> String {
    let destination =
        |(name, sink): &(&str, &Sink)| format!("[[destination]]\nname = \"{name}\"\nto = \"{}\"\n", sink.address);
    let destinations: String = destinations.iter().map(destination).collect();
    format!("workers = 2\n[[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n{destinations}{more}")
}

/// What a scraper gets.
fn metrics(tee: &mut Started) -> String {
    let line = tee.line("admin: http://");
    http::get(line.split_once("http://").unwrap().1.trim_end_matches('/'), "/metrics").body
}

#[test]
fn a_reload_changes_what_the_file_changed() {
    let (a, b) = (Sink::new(), Sink::new());
    let file = {
        let text = toml(&[("a", &a)], "");
        File::new(&text)
    };
    let mut tee = start(&["-c", &file.argument(), "--json"]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = listens(&mut tee, "in");
    sender.send_to(b"one", to).unwrap();
    a.await_count(1);

    file.write(&toml(&[("a", &a), ("b", &b)], ""));
    tee.signal(Signal::SIGHUP);
    tee.await_line("reloaded");
    sender.send_to(b"two", to).unwrap();
    a.await_count(2);
    b.await_count(1);

    file.write(&toml(&[("b", &b)], "[[listener]]\nname = \"second\"\naddress = \"127.0.0.1:0\"\n"));
    tee.signal(Signal::SIGHUP);
    tee.await_line("reloaded");
    sender.send_to(b"three", to).unwrap();
    sender.send_to(b"four", listens(&mut tee, "second")).unwrap();
    b.await_count(3);
    let ledger = tee.stop();
    assert_eq!(ledger["closed"], true, "{ledger:#}");
    // What was removed is summed up.
    assert_eq!(entry(&ledger, "destinations", "(removed)")["sent"]["datagrams"], 2);
    assert_eq!(entry(&ledger, "destinations", "b")["sent"]["datagrams"], 3);
    assert_eq!(entry(&ledger, "listeners", "in")["received"]["datagrams"], 3);
    assert_eq!(entry(&ledger, "listeners", "second")["received"]["datagrams"], 1);
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let (a, b) = (Sink::new(), Sink::new());
    let good = toml(&[("a", &a)], "");
    let file = File::new(&good);
    let mut tee = start(&["-c", &file.argument(), "--json", "--admin", "127.0.0.1:0"]);
    let to = listens(&mut tee, "in");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let more = |text: &str| toml(&[("b", &b)], text);
    let listener = |address: &str| format!("[[listener]]\naddress = \"{address}\"\n");
    let cases = [
        (more("[[listener"), "unclosed array table"),
        (more("[[rul]]\n"), "unknown key `rul`, did you mean `rule`?"),
        (more("[[rule]]\nto = \"c\"\n"), "there is no destination or group `c`"),
        (more(&[listener("127.0.0.1:9"), listener("127.0.0.1:9")].concat()), "listens there already"),
        (more(&format!("{}[[destination]]\nto = \"127.0.0.1:9\"\n", listener("0.0.0.0:9"))), "a loop"),
        // Good as a file: it is the kernel that refuses. All sockets before it were open already.
        (more(&listener(&taken.to_string())), "address already in use"),
        (more(&listener("192.0.2.77:9")), "192.0.2.77:9"),
        (more("[[listener]]\naddress = \"127.0.0.1:0\"\ninterface = \"nosuch0\"\n"), "nosuch0"),
    ];
    let load = Load::start(to, &[&a], 5_000);
    for (text, reason) in &cases {
        file.write(text);
        tee.signal(Signal::SIGHUP);
        let line = tee.await_line("reload of ");
        assert!(line.to_lowercase().contains(reason) && line.contains("nothing has changed"), "{reason}: {line}");
        load.await_more(100);
    }
    let failed = format!("weir_reloads_total{{result=\"failed\"}} {}\n", cases.len());
    assert!(metrics(&mut tee).contains(&failed), "{}", metrics(&mut tee));
    fs::remove_file(file.path()).unwrap();
    tee.signal(Signal::SIGHUP);
    assert!(tee.await_line("reload of ").contains("No such file or directory"));
    // It can still reload.
    file.write(&good);
    tee.signal(Signal::SIGHUP);
    tee.await_line("reloaded");
    let counts = metrics(&mut tee);
    assert!(counts.contains("weir_reloads_total{result=\"succeeded\"} 1\n"), "{counts}");
    load.await_more(100);
    let sent = load.stop();
    a.await_count(sent);
    assert_eq!(b.received(), 0);
    let ledger = tee.stop();
    assert_eq!((&ledger["closed"], ledger["destinations"].as_array().unwrap().len()), (&true.into(), 1), "{ledger:#}");
}

#[test]
fn what_a_reload_cannot_change_is_said() {
    let a = Sink::new();
    let text = toml(&[("a", &a)], "");
    let file = File::new(&text);
    let mut tee = start(&["-c", &file.argument(), "--json"]);
    file.write(&text.replace("workers = 2", "workers = 3"));
    tee.signal(Signal::SIGHUP);
    let line = tee.await_line("workers");
    assert!(line.contains("stays 2: a reload does not change it"), "{line}");
    tee.await_line("reloaded");
}

/// Each reload adds a listener and a destination, or removes them.
#[test]
fn no_datagram_is_lost_on_what_stays() {
    let (a, b, guest) = (Sink::new(), Sink::new(), Sink::new());
    let without = toml(&[("a", &a), ("b", &b)], "");
    let more = "[[listener]]\nname = \"second\"\naddress = \"127.0.0.1:0\"\n";
    let with = toml(&[("a", &a), ("guest", &guest), ("b", &b)], more);
    let file = File::new(&without);
    let mut tee = start(&["-c", &file.argument(), "--json"]);
    let load = Load::start(listens(&mut tee, "in"), &[&a, &b], 50_000);
    for number in 0..100 {
        load.await_more(100);
        file.write(if number % 2 == 0 { &with } else { &without });
        tee.signal(Signal::SIGHUP);
        tee.await_line("reloaded");
    }
    load.await_more(1_000);
    let sent = load.stop();
    a.await_count(sent);
    b.await_count(sent);
    let ledger = tee.stop();
    assert_eq!(ledger["closed"], true, "{ledger:#}");
    let listener = entry(&ledger, "listeners", "in");
    assert_eq!(
        (&listener["received"]["datagrams"], &listener["kernel_drops"]),
        (&sent.into(), &0.into()),
        "{ledger:#}"
    );
    for name in ["a", "b"] {
        assert_eq!(entry(&ledger, "destinations", name)["sent"]["datagrams"], sent, "{ledger:#}");
    }
    // The guest got everything that was asked for while it was there, or its removal is on record.
    let guest_count = entry(&ledger, "destinations", "(removed)");
    let copies = guest_count["copies"]["datagrams"].as_u64().unwrap();
    let (sent, lost) =
        (guest_count["sent"]["datagrams"].as_u64().unwrap(), guest_count["drops"]["abandoned"].as_u64().unwrap());
    assert!(copies > 0 && copies == sent + lost, "{guest_count:#}");
}
