//! Findings from facts that were made up.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use weir_wire::signal::{Clock, Flags, Header, Kind};

use super::facts::Source;
use super::judge::Judge;
use super::*;
use weir_signal::seal::{GroupKey, Opener};

fn well() -> Facts {
    Facts {
        group: "239.192.77.1:5110".into(),
        listened_s: 3.0,
        interface: Some("eth0".into()),
        up: true,
        mtu: Some(1500),
        receive_buffer: (8 << 20, 8 << 20),
        at_interface: Some(9),
        at_socket: 9,
        ..Facts::default()
    }
}

#[test]
fn each_fault_is_found_and_nothing_else() {
    let bridge = || Bridge { name: "br0".into(), snoops: true, asked: false };
    let lossy = Source { at_socket: 9, numbered: 100, missing: 8, ..Source::default() };
    let sources = || BTreeMap::from([("10.0.0.1".to_owned(), lossy)]);
    let refused = |why, count| BTreeMap::from([("10.0.0.9".to_owned(), BTreeMap::from([(why, count)]))]);
    let cases: [(&str, Facts); 15] = [
        ("not-joined", Facts { not_joined: Some("no such device".into()), interface: None, ..well() }),
        ("not-listed", Facts { interface: None, ..well() }),
        ("down", Facts { up: false, ..well() }),
        ("mtu", Facts { mtu: Some(1400), ..well() }),
        ("fragments", Facts { fragments: 1, ..well() }),
        ("buffer", Facts { receive_buffer: (8 << 20, 212_992), ..well() }),
        ("socket-drops", Facts { socket_drops: 5, ..well() }),
        ("rp-filter", Facts { at_socket: 0, reverse_path_drops: 9, ..well() }),
        ("firewall", Facts { at_socket: 0, ..well() }),
        ("lost", Facts { sources: sources(), ..well() }),
        ("socket-drops", Facts { sources: sources(), socket_drops: 8, ..well() }),
        ("no-querier", Facts { bridges: vec![bridge()], ..well() }),
        ("silence", Facts { at_socket: 0, at_interface: Some(0), ..well() }),
        ("foreign", Facts { refused: refused("foreign", 9), ..well() }),
        ("refused", Facts { refused: refused("foreign", 8), ..well() }),
    ];
    assert_eq!(Report::new(well()).findings, []);
    for (name, facts) in cases {
        let found: Vec<&str> = Report::new(facts).findings.iter().map(|finding| finding.name).collect();
        assert_eq!(found, [name]);
    }
    let asked = Facts { bridges: vec![bridge()], queriers: vec![Ipv4Addr::new(10, 0, 0, 1)], ..well() };
    assert_eq!(Report::new(asked).findings, []);
}

fn header(kind: Kind, sequence: u64) -> [u8; 24] {
    Header { kind, flags: Flags::default(), clock: Clock::default(), count: 0, session: 7, sequence }.to_bytes()
}

#[test]
fn what_is_missing_is_counted_by_numbers() {
    let source = "10.0.0.1:5110".parse().unwrap();
    let mut sealed = header(Kind::Data, 10);
    sealed[3] = 3;
    let mut judge = Judge::new(Opener::default(), false);
    // From 5 on: 8 and 9 do not come, 6 comes late and twice; a heartbeat announces the last two. Without keys it is all the same.
    let numbers = [5, 7, 6, 6].map(|number| header(Kind::Data, number));
    for bytes in numbers.into_iter().chain([sealed, header(Kind::Heartbeat, 13), header(Kind::Metadata, 1000)]) {
        judge.judge(&bytes, (source, "10.0.0.1"), Duration::ZERO);
    }
    judge.look(Duration::from_secs(1));
    let mut facts = well();
    judge.account(&mut facts);
    let source = facts.sources["10.0.0.1"];
    assert_eq!((source.numbered, source.missing), (8, 4));
    facts.sources.insert("10.0.0.1".into(), Source { at_socket: 9, ..Source::default() });
    let text = Report::new(facts).to_string();
    assert!(text.contains("loss was not measured") && !text.contains("nothing is wrong"), "{text}");
}

/// What a server's ledger counts as refused, by source.
#[test]
fn a_source_of_refused_datagrams_is_named() {
    let own: SocketAddr = "10.0.0.1:5110".parse().unwrap();
    let (data, heartbeat) = (header(Kind::Data, 0), header(Kind::Heartbeat, 1));
    let mut judge = Judge::new(Opener::default(), false);
    for (bytes, why) in [
        (&data[..], None),
        (&heartbeat, None),
        (b"app.requests:1|c", Some("foreign")),
        (&data[..20], Some("malformed")),
        (&[0; 2000], Some("long")),
    ] {
        assert_eq!(judge.judge(bytes, (own, "10.0.0.1"), Duration::ZERO), why);
    }
    // With keys, what is not sealed is refused.
    let mut sealed = header(Kind::Data, 1);
    sealed[3] = 3;
    let folder = tempfile::TempDir::new().unwrap();
    let key = GroupKey::create(&folder.path().join("key")).unwrap();
    let mut judge = Judge::new(Opener::new(Some(key), Vec::new()), true);
    assert_eq!(judge.judge(&data, (own, "10.0.0.1"), Duration::ZERO), Some("plain"));
    assert_eq!(judge.judge(&sealed, (own, "10.0.0.1"), Duration::ZERO), Some("no_sender"));

    let refused = [("10.0.0.8", "unsigned", 1), ("10.0.0.9", "foreign", 7)];
    let refused = refused.map(|(sender, why, count)| (sender.to_owned(), BTreeMap::from([(why, count)]))).into();
    let found = Report::new(Facts { refused, ..well() }).findings;
    let what =
        "a server would refuse part of what arrives: 8 datagrams from 10.0.0.9 (foreign 7), 10.0.0.8 (unsigned 1)";
    assert_eq!((found.len(), found[0].what.as_str()), (1, what));
}

#[test]
fn all_reasons_are_named_the_most_frequent_first() {
    let of = |reasons: &[(&'static str, u64)]| {
        let refused = BTreeMap::from([("10.0.0.9".to_owned(), reasons.iter().copied().collect())]);
        Report::new(Facts { refused, ..well() }).findings.remove(0)
    };
    let found = of(&[("foreign", 3), ("malformed", 9), ("version", 1)]);
    assert!(found.what.ends_with("13 datagrams from 10.0.0.9 (malformed 9, foreign 3, version 1)"), "{}", found.what);
    let places = ["malformed 9: damaged or forged", "; foreign 3: something else", "; version 1: sent by another"];
    let places = places.map(|text| found.remedy.find(text).unwrap());
    assert!(places[0] == 0 && places.is_sorted(), "{}", found.remedy);
    // One reason alone needs no name.
    assert!(of(&[("malformed", 9)]).remedy.starts_with("damaged or forged"));
    let many = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|why| (why, 2_u64));
    let found = of(&many);
    assert!(found.what.ends_with("(a 2, b 2, c 2, d 2, e 2, f 2, other reasons 4)"), "{}", found.what);
    assert!(found.remedy.ends_with("; 2 reasons more: docs/monitor.md explains each"), "{}", found.remedy);
}
