//! Host names that resolve, that never do, and that lead back.

use weir_testbed::network::on_loopback;

use super::{Load, Sink, entry, listens, start};

#[test]
fn what_comes_once_a_name_is_known_goes_where_it_leads() {
    let sink = Sink::new();
    let to = format!("localhost:{}", sink.address.port());
    let mut tee = start(&["--listen", "127.0.0.1:0", "--to", &to, "--json"]);
    tee.line("resolve localhost: ");
    let load = Load::start(listens(&mut tee, "127.0.0.1:0"), &[&sink], 10_000);
    load.await_more(500);
    let sent = load.stop();
    sink.await_count(sent);
    let ledger = tee.stop();
    let destination = entry(&ledger, "destinations", &to);
    assert_eq!((&destination["sent"]["datagrams"], &ledger["closed"]), (&sent.into(), &true.into()), "{ledger:#}");
}

#[test]
fn a_name_that_does_not_resolve_delays_nobody() {
    let sink = Sink::new();
    let to = sink.address.to_string();
    // Reserved never to exist (RFC 6761).
    let mut tee = start(&["--listen", "127.0.0.1:0", "--to", "siem.invalid:514", "--to", &to, "--json"]);
    let load = Load::start(listens(&mut tee, "127.0.0.1:0"), &[&sink], 10_000);
    load.await_more(500);
    let sent = load.stop();
    sink.await_count(sent);
    let ledger = tee.stop();
    assert_eq!(ledger["closed"], true, "{ledger:#}");
    let lost = entry(&ledger, "destinations", "siem.invalid:514");
    assert_eq!(
        (&lost["drops"]["unresolved"], &lost["address"]),
        (&sent.into(), &serde_json::Value::Null),
        "{ledger:#}"
    );
    assert_eq!(entry(&ledger, "destinations", &to)["sent"]["datagrams"], sent);
}

#[test]
fn a_name_that_leads_back_is_left_out() {
    on_loopback(|| {
        let sink = Sink::new();
        let to = sink.address.to_string();
        let (listen, back) = ("127.0.0.1:5000", "localhost:5000");
        let mut tee = start(&["--listen", listen, "--to", back, "--to", &to, "--json"]);
        let told = format!("destination {back}: {listen} comes in again at listener {listen}: a loop, left out");
        assert!(tee.line("a loop").ends_with(&told), "{:#?}", tee.said());
        let load = Load::start(listen.parse().unwrap(), &[&sink], 10_000);
        load.await_more(500);
        let sent = load.stop();
        sink.await_count(sent);
        let ledger = tee.stop();
        assert_eq!(entry(&ledger, "listeners", listen)["received"]["datagrams"], sent, "{ledger:#}");
    });
}
