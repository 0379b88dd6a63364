//! However a tee is asked to end, what it has received is sent, and the ledger says so.

use std::net::UdpSocket;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{File, Load, Sink, Tee, entry};
use crate::endings::signal_twice;

#[test]
fn sigterm_under_load_sends_what_was_received() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (a, b) = (Sink::new(), Sink::new());
        let (to_a, to_b) = (a.address.to_string(), b.address.to_string());
        let arguments = ["--listen", "127.0.0.1:0", "--to", &to_a, "--to", &to_b, "--json"];
        let mut tee = Tee::start(&arguments);
        let load = Load::start(tee.listens("127.0.0.1:0"), &[&a, &b], 50_000);
        // Of those that were sent, the last may be under way.
        load.await_more(5_000 + Load::WINDOW);
        tee.signal(signal);
        let (status, output) = tee.end();
        assert_eq!(status, Some(0), "{:#?}", tee.said);
        let sent = load.stop();
        let ledger: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(ledger["closed"], true, "{ledger:#}");
        let received = entry(&ledger, "listeners", "127.0.0.1:0")["received"]["datagrams"].as_u64().unwrap();
        assert!((5_000..=sent).contains(&received), "{received} of {sent}");
        for (sink, name) in [(&a, &to_a), (&b, &to_b)] {
            let destination = entry(&ledger, "destinations", name);
            assert_eq!(destination["copies"]["datagrams"], received, "{ledger:#}");
            assert_eq!(destination["sent"]["datagrams"], received, "{ledger:#}");
            sink.await_count(received);
        }
    }
}

#[test]
fn two_signals_in_a_row_are_one() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let sink = Sink::new();
        let mut tee = Tee::start(&["--listen", "127.0.0.1:0", "--to", &sink.address.to_string(), "--json"]);
        let load = Load::start(tee.listens("127.0.0.1:0"), &[&sink], 50_000);
        load.await_more(5_000);
        signal_twice(&tee.child, signal);
        let (status, output) = tee.end();
        load.stop();
        assert_eq!(status, Some(0), "{signal}: {:#?}", tee.said);
        assert_eq!(serde_json::from_str::<Value>(&output).unwrap()["closed"], true);
    }
}

#[test]
fn timeout_gets_a_ledger() {
    for _ in 0..7 {
        let sink = Sink::new();
        let mut command = Command::new("timeout");
        command.args(["1h", env!("CARGO_BIN_EXE_weir"), "tee", "--listen", "127.0.0.1:0", "--json"]);
        let mut tee = Tee::spawn(command.args(["--to", &sink.address.to_string()]));
        let load = Load::start(tee.listens("127.0.0.1:0"), &[&sink], 50_000);
        load.await_more(5_000);
        // It does the same as when its time is over, and ends as its child does.
        tee.signal(Signal::SIGTERM);
        let (status, output) = tee.end();
        load.stop();
        assert_eq!(status, Some(0), "{:#?}", tee.said);
        assert_eq!(serde_json::from_str::<Value>(&output).unwrap()["closed"], true);
    }
}

#[test]
fn the_ledger_is_printed_on_sigusr1_and_goes_on() {
    let sink = Sink::new();
    let to = sink.address.to_string();
    let mut tee = Tee::start(&["--listen", "127.0.0.1:0", "--to", &to, "--json"]);
    let load = Load::start(tee.listens("127.0.0.1:0"), &[&sink], 10_000);
    let mut last = 0;
    for _ in 0..5 {
        load.await_more(500);
        let ledger = tee.ledger();
        assert_eq!(ledger["closed"], true, "{ledger:#}");
        let received = entry(&ledger, "listeners", "127.0.0.1:0")["received"]["datagrams"].as_u64().unwrap();
        assert!(received > last, "{ledger:#}");
        last = received;
    }
    let sent = load.stop();
    sink.await_count(sent);
    let ledger = tee.stop();
    assert_eq!(entry(&ledger, "destinations", &to)["sent"]["datagrams"], sent);
    assert_eq!(entry(&ledger, "destinations", &to)["sent"]["bytes"], sent * 8);
}

#[test]
fn people_get_the_ledger_in_words() {
    let sink = Sink::new();
    let to = sink.address.to_string();
    let mut tee = Tee::start(&["--listen", "127.0.0.1:0", "--to", &to]);
    let load = Load::start(tee.listens("127.0.0.1:0"), &[&sink], 10_000);
    load.await_more(100);
    let sent = load.stop();
    sink.await_count(sent);
    tee.signal(Signal::SIGTERM);
    assert_eq!(tee.end(), (Some(0), String::new()));
    let said = tee.said.join("\n");
    assert!(said.contains(&format!("\ndestination {to}\n  copies ")), "{said}");
    assert!(said.ends_with("the ledger closes: unexplained 0"), "{said}");
}

#[test]
fn without_a_file_sighup_ends_it_in_order() {
    let sink = Sink::new();
    let mut tee = Tee::start(&["--listen", "127.0.0.1:0", "--to", &sink.address.to_string(), "--json"]);
    tee.signal(Signal::SIGHUP);
    let (status, output) = tee.end();
    assert_eq!(status, Some(0));
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap()["closed"], true);
}

#[test]
fn a_destination_that_is_gone_ends_nothing() {
    let sink = Sink::new();
    // Nobody else gets the port, and it takes only what it sends itself.
    let held = UdpSocket::bind("127.0.0.1:0").unwrap();
    let gone = held.local_addr().unwrap();
    held.connect(gone).unwrap();
    let text = format!(
        "drain = \"200ms\"\n[[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
         [[destination]]\nname = \"live\"\nto = \"{}\"\n[[destination]]\nname = \"gone\"\nto = \"{gone}\"\n",
        sink.address
    );
    let file = File::new(&text);
    let tee = Tee::start(&["-c", &file.argument(), "--json"]);
    let load = Load::start(tee.listens("in"), &[&sink], 20_000);
    load.await_more(2_000);
    let sent = load.stop();
    sink.await_count(sent);
    let ledger = tee.stop();
    assert_eq!(ledger["closed"], true, "{ledger:#}");
    assert_eq!(entry(&ledger, "destinations", "live")["sent"]["datagrams"], sent);
    assert_eq!(entry(&ledger, "destinations", "gone")["copies"]["datagrams"], sent);
    assert!(entry(&ledger, "destinations", "gone")["icmp_errors"].as_u64() > Some(0), "{ledger:#}");
}
