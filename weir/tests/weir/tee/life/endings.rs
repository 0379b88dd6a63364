//! However a tee is asked to end, what it has received is sent, and the ledger says so.

use std::net::UdpSocket;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use weir_testbed::{Ended, Started};

use super::{File, Load, Sink, entry, listens, start};
use crate::WEIR;
use crate::endings::ask_twice;

#[test]
fn sigterm_under_load_sends_what_was_received() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (a, b) = (Sink::new(), Sink::new());
        let (to_a, to_b) = (a.address.to_string(), b.address.to_string());
        let arguments = ["--listen", "127.0.0.1:0", "--to", &to_a, "--to", &to_b, "--json"];
        let mut tee = start(&arguments);
        let load = Load::start(listens(&mut tee, "127.0.0.1:0"), &[&a, &b], 50_000);
        // Of those that were sent, the last may be under way.
        load.await_more(5_000 + Load::WINDOW);
        tee.signal(signal);
        let ledger = tee.wait().json();
        let sent = load.stop();
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
        let mut tee = start(&["--listen", "127.0.0.1:0", "--to", &sink.address.to_string(), "--json"]);
        let load = Load::start(listens(&mut tee, "127.0.0.1:0"), &[&sink], 50_000);
        load.await_more(5_000);
        ask_twice(tee.pid(), signal);
        assert_eq!(tee.wait().json()["closed"], true, "{signal}");
        load.stop();
    }
}

#[test]
fn timeout_gets_a_ledger() {
    for _ in 0..7 {
        let sink = Sink::new();
        let mut command = Command::new("timeout");
        command.args(["1h", &WEIR, "tee", "--listen", "127.0.0.1:0", "--json"]);
        command.args(["--to", &sink.address.to_string()]).stdin(Stdio::null());
        let mut tee = Started::ready(command);
        let load = Load::start(listens(&mut tee, "127.0.0.1:0"), &[&sink], 50_000);
        load.await_more(5_000);
        // It does the same as when its time is over, and ends as its child does.
        assert_eq!(tee.end().json()["closed"], true);
        load.stop();
    }
}

#[test]
fn the_ledger_is_printed_on_sigusr1_and_goes_on() {
    let sink = Sink::new();
    let to = sink.address.to_string();
    let mut tee = start(&["--listen", "127.0.0.1:0", "--to", &to, "--json"]);
    let load = Load::start(listens(&mut tee, "127.0.0.1:0"), &[&sink], 10_000);
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
    let mut tee = start(&["--listen", "127.0.0.1:0", "--to", &to]);
    let load = Load::start(listens(&mut tee, "127.0.0.1:0"), &[&sink], 10_000);
    load.await_more(100);
    let sent = load.stop();
    sink.await_count(sent);
    let Ended { status, stdout, stderr: said } = tee.end();
    assert_eq!((status, &*stdout), (Some(0), ""));
    assert!(said.contains(&format!("\ndestination {to}\n  copies ")), "{said}");
    assert!(said.ends_with("the ledger closes: unexplained 0\n"), "{said}");
}

#[test]
fn without_a_file_sighup_ends_it_in_order() {
    let sink = Sink::new();
    let mut tee = start(&["--listen", "127.0.0.1:0", "--to", &sink.address.to_string(), "--json"]);
    tee.signal(Signal::SIGHUP);
    assert_eq!(tee.wait().json()["closed"], true);
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
    let mut tee = start(&["-c", &file.argument(), "--json"]);
    let load = Load::start(listens(&mut tee, "in"), &[&sink], 20_000);
    load.await_more(2_000);
    let sent = load.stop();
    sink.await_count(sent);
    let ledger = tee.stop();
    assert_eq!(ledger["closed"], true, "{ledger:#}");
    assert_eq!(entry(&ledger, "destinations", "live")["sent"]["datagrams"], sent);
    assert_eq!(entry(&ledger, "destinations", "gone")["copies"]["datagrams"], sent);
    assert!(entry(&ledger, "destinations", "gone")["icmp_errors"].as_u64() > Some(0), "{ledger:#}");
}
