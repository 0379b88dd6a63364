//! Host names that resolve, that never do, and that lead back.

use std::time::{Duration, Instant};

use weir_testbed::standstills::Standstills;

use super::{Load, Sink, Tee, entry};

/// A tee that has said a line with `words` in it, of what a name means, before it was ready. It waits a quarter of a
/// second for that: where the machine stands still meanwhile, another is started.
#[track_caller]
fn start_knowing(arguments: &[&str], words: &str) -> Tee {
    let standstills = Standstills::watch();
    loop {
        let begin = Instant::now();
        let tee = Tee::start(arguments);
        if tee.said.iter().any(|line| line.contains(words)) {
            return tee;
        }
        let now = Instant::now();
        let still = now - begin - standstills.running(begin, now);
        assert!(still >= Duration::from_millis(100), "no {words:?} in {:#?}, stood still for {still:?}", tee.said);
    }
}

#[test]
fn a_name_is_there_before_the_first_datagram() {
    let sink = Sink::new();
    let to = format!("localhost:{}", sink.address.port());
    let tee = start_knowing(&["--listen", "127.0.0.1:0", "--to", &to, "--json"], "resolve localhost: ");
    let load = Load::start(tee.listens("127.0.0.1:0"), &[&sink], 10_000);
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
    let tee = Tee::start(&["--listen", "127.0.0.1:0", "--to", "siem.invalid:514", "--to", &to, "--json"]);
    let load = Load::start(tee.listens("127.0.0.1:0"), &[&sink], 10_000);
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
    let sink = Sink::new();
    let to = sink.address.to_string();
    // A port that was free a moment ago.
    let port = Sink::new().address.port();
    let (listen, back) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
    let told = format!("destination {back}: {listen} comes in again at listener {listen}: a loop, left out");
    let tee = start_knowing(&["--listen", &listen, "--to", &back, "--to", &to, "--json"], &told);
    assert!(tee.said.iter().any(|line| line.ends_with(&told)), "{:#?}", tee.said);
    let load = Load::start(listen.parse().unwrap(), &[&sink], 10_000);
    load.await_more(500);
    let sent = load.stop();
    sink.await_count(sent);
    let ledger = tee.stop();
    assert_eq!(entry(&ledger, "listeners", &listen)["received"]["datagrams"], sent, "{ledger:#}");
}
