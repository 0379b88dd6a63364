//! Findings from facts that were made up.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use weir_wire::signal::{Clock, Flags, Header, Kind};

use super::facts::{Numbers, Source, joined_on};
use super::refused::Judge;
use super::*;
use crate::seal::{GroupKey, Opener};

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

#[test]
fn what_is_missing_is_told_by_numbers() {
    let mut numbers = Numbers::default();
    let mut see = |kind, sequence| {
        let (flags, clock) = (Default::default(), Default::default());
        numbers.see("10.0.0.1".parse().unwrap(), &Header { kind, flags, clock, count: 1, session: 7, sequence });
    };
    // From 5 on: 8 and 9 do not come, 6 comes late and twice; 3 was sent before; a heartbeat tells of the last two; one is made up.
    for number in [5, 7, 6, 6, 3, 10] {
        see(Kind::Data, number);
    }
    see(Kind::Heartbeat, 13);
    see(Kind::Heartbeat, 1 << 40);
    see(Kind::Metadata, 1000);
    let mut facts = well();
    numbers.tell(&mut facts);
    let source = facts.sources["10.0.0.1"];
    assert_eq!((source.numbered, source.missing), (8, 4));
}

/// What `--send` sends: of data and the heartbeat behind it, either may be lost.
#[test]
fn a_check_hears_what_another_sends_and_is_lost() {
    let told = |came: &[(Kind, u64)]| {
        let mut numbers = Numbers::default();
        for &(kind, sequence) in came {
            let (flags, clock) = (Default::default(), Default::default());
            numbers.see("10.0.0.1".parse().unwrap(), &Header { kind, flags, clock, count: 0, session: 7, sequence });
        }
        let mut facts = well();
        numbers.tell(&mut facts);
        let source = facts.sources["10.0.0.1"];
        ((source.numbered, source.missing), Report::new(facts).to_string())
    };
    use Kind::{Data, Heartbeat};
    let pairs = |numbers: std::ops::Range<u64>| numbers.flat_map(|number| [(Data, number), (Heartbeat, number + 1)]);
    let all: Vec<_> = pairs(3..9).collect();
    let (counts, text) = told(&all);
    assert!(counts == (12, 0) && text.ends_with("nothing is wrong\n"), "{text}");
    // The heartbeat of the data that was heard first of all belongs to what was before.
    assert_eq!(told(&all[1..]).0, (10, 0));
    let of = |kind| all.iter().copied().filter(|one| one.0 == kind).collect::<Vec<_>>();
    assert_eq!(told(&of(Data)).0, (12, 6));
    assert_eq!(told(&of(Heartbeat)).0, (5, 5));
    let (counts, text) = told(&[(Heartbeat, 0), (Heartbeat, 0)]);
    assert!(counts == (0, 0) && text.contains("loss was not measured") && !text.contains("nothing is wrong"), "{text}");
}

/// What a server's ledger counts as refused, by who sends it.
#[test]
fn who_sends_what_is_not_taken_is_named() {
    let (own, other) = ("10.0.0.1:5110".parse().unwrap(), "10.0.0.9:4000".parse().unwrap());
    let header = |kind, sequence| {
        Header { kind, flags: Flags::default(), clock: Clock::default(), count: 0, session: 7, sequence }.to_bytes()
    };
    let (data, heartbeat) = (header(Kind::Data, 0), header(Kind::Heartbeat, 1));
    let mut judge = Judge::new(Opener::default(), false);
    for (bytes, source, why) in [
        (&data[..], own, None),
        (&heartbeat, own, None),
        (b"app.requests:1|c", other, Some("foreign")),
        (&data[..20], other, Some("malformed")),
        (&[0; 2000], other, Some("long")),
    ] {
        assert_eq!(judge.judge(bytes, source), why);
    }
    // What is sealed is a signal to who has no key, and what is not sealed is none to who has one.
    let mut sealed = header(Kind::Data, 1);
    sealed[3] = 3;
    assert_eq!(judge.judge(&sealed, own), None);
    let folder = tempfile::TempDir::new().unwrap();
    let key = GroupKey::create(&folder.path().join("key")).unwrap();
    let mut judge = Judge::new(Opener::new(Some(key), Vec::new()), true);
    assert_eq!(judge.judge(&data, own), Some("plain"));
    assert_eq!(judge.judge(&sealed, own), Some("no_sender"));

    let refused = [("10.0.0.8", "unsigned", 1), ("10.0.0.9", "foreign", 7)];
    let refused = refused.map(|(sender, why, count)| (sender.to_owned(), BTreeMap::from([(why, count)]))).into();
    let found = Report::new(Facts { refused, ..well() }).findings;
    let what = "a server does not take all that comes: 8 datagrams from 10.0.0.9 (foreign 7), 10.0.0.8 (unsigned 1)";
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
    let places = ["malformed 9: damaged or forged", "; foreign 3: something else", "; version 1: it is another"];
    let places = places.map(|text| found.remedy.find(text).unwrap());
    assert!(places[0] == 0 && places.is_sorted(), "{}", found.remedy);
    // Of one reason alone what mends it needs no name.
    assert!(of(&[("malformed", 9)]).remedy.starts_with("damaged or forged"));
    let many = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|why| (why, 2_u64));
    let found = of(&many);
    assert!(found.what.ends_with("(a 2, b 2, c 2, d 2, e 2, f 2, other reasons 4)"), "{}", found.what);
    assert!(found.remedy.ends_with("; 2 reasons more: docs/monitor.md explains each"), "{}", found.remedy);
}

#[test]
fn groups_are_found_where_the_kernel_lists_them() {
    let igmp = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
                2\teth0      :     2      V3\n\t\t\t\t014DC0EF     1 0:00000000\t\t0\n\t\t\t\t010000E0     1 0:00000000\t\t0\n";
    let group = Ipv4Addr::new(239, 192, 77, 1);
    if cfg!(target_endian = "little") {
        assert_eq!(joined_on(igmp, group, None).as_deref(), Some("eth0"));
        assert_eq!(joined_on(igmp, group, Some("lo")), None);
        assert_eq!(joined_on(igmp, Ipv4Addr::new(224, 0, 0, 1), Some("eth0")).as_deref(), Some("eth0"));
    }
}
