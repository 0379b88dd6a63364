//! Whole files: what they mean, what is refused and how it is said.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::Ipv4Net;
use proptest::prelude::*;
use weir_service::Fixed;
use weir_units::{BitRate, Frequency, Span};

use super::{Config, Local};
use weir_forward::settings::{
    Addresses, Listener, Matching, Membership, OnLoop, Policy, Probe, Recipient, Source, Target,
};

const FULL: &str = r#"
workers = 2
match = "all"
loop = "stop"
gather = "50us"
drain = "3s"
admin = "127.0.0.1:9514"
user = "nobody"

[[listener]]
name = "syslog"
address = "0.0.0.0:514"
receive_buffer = "2MiB"
join = ["239.1.1.1", { group = "232.1.1.1", source = "10.0.0.9", interface = "eth1" }]

[[listener]]
address = "[ff15::1]:5000"
interface = "eth2"
receive_buffer = 0

[[destination]]
name = "siem"
to = "siem.example:514"
addresses = "all"
from = "10.0.0.1:0"
interface = "eth1"
ttl = 8
hop_guard = true
dscp = 46
send_buffer = "1MiB"
queue = "1MiB"
rate = "10k/s"
bandwidth = "100mbit"
sample = 10
probe = { tcp = 6514, interval = "4s" }

[[destination]]
to = "[2001:db8::5]:514"
source = "kept"

[[destination]]
name = "feed"
to = "239.7.7.7:514"
loopback = false

[[group]]
name = "collectors"
policy = "round-robin"
members = ["siem", "[2001:db8::5]:514"]

[[rule]]
from = ["10.0.0.0/8", "2001:db8::7"]
listener = "syslog"
to = ["feed", "collectors"]

[[rule]]
name = "rest"
to = []
"#;

/// A machine with one interface besides `lo`.
fn local() -> Local {
    let own = ["127.0.0.1", "::1", "10.0.0.1", "2001:db8::1"].map(|address| address.parse().unwrap());
    let interfaces = ["lo", "eth1", "eth2"].map(str::to_owned).into();
    Local { own: own.to_vec(), broadcast: vec![Ipv4Addr::new(10, 0, 0, 255)], interfaces }
}

fn read(text: &str) -> anyhow::Result<Config> {
    Config::read("tee.toml", text, &local())
}

/// The error of a good file with a piece of its text replaced.
#[track_caller]
fn mistake(from: &str, to: &str) -> String {
    assert_eq!(FULL.matches(from).count(), 1, "{from}");
    let error = read(&FULL.replace(from, to)).map(|_| format!("{from} -> {to} is no mistake")).unwrap_err();
    let line = format!("{error:#}");
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn a_file_with_every_key_means_what_it_says() {
    let Config { settings, fixed, warnings, .. } = read(FULL).unwrap();
    assert_eq!(fixed, Fixed { admin: Some("127.0.0.1:9514".parse().unwrap()), user: Some("nobody".into()) });
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!((settings.workers, settings.matching, settings.on_loop), (2, Matching::All, OnLoop::Stop));
    assert_eq!((settings.gather, settings.drain), (Duration::from_micros(50), Duration::from_secs(3)));

    let [syslog, multicast] = &settings.listeners[..] else { panic!("{settings:?}") };
    assert_eq!(
        (&*syslog.name, syslog.address, syslog.receive_buffer),
        ("syslog", "0.0.0.0:514".parse().unwrap(), Some(2 << 20))
    );
    let joined = |group: &str, source: Option<&str>, interface: Option<&str>| Membership {
        group: group.parse().unwrap(),
        source: source.map(|source| source.parse().unwrap()),
        interface: interface.map(str::to_owned),
    };
    assert_eq!(syslog.groups, [joined("239.1.1.1", None, None), joined("232.1.1.1", Some("10.0.0.9"), Some("eth1"))]);
    // Its name is its address, and it joins what it is bound to.
    assert_eq!((&*multicast.name, multicast.receive_buffer), ("[ff15::1]:5000", None));
    assert_eq!(multicast.groups, [joined("ff15::1", None, Some("eth2"))]);

    let [siem, kept, feed] = &settings.destinations[..] else { panic!("{settings:?}") };
    assert_eq!((siem.hop_guard, kept.hop_guard, siem.answers()), (true, false, None));
    assert_eq!((&siem.to, siem.addresses), (&Target::Name("siem.example".into(), 514), Addresses::All));
    assert_eq!((siem.source, siem.local()), (Source::Own, Some("10.0.0.1:0".parse().unwrap())));
    assert_eq!((siem.interface.as_deref(), siem.ttl, siem.dscp), (Some("eth1"), Some(8), Some(46)));
    assert_eq!((siem.send_buffer.bytes, siem.queue_bytes(), siem.sample), (1 << 20, 1 << 20, 10));
    assert_eq!(siem.rate, Some(Frequency { micro_hertz: 10_000_000_000 }));
    assert_eq!(siem.bandwidth, Some(BitRate { bits_per_second: 100_000_000 }));
    let (interval, timeout) = (Span::from_secs(4), Some(Span::from_secs(1)));
    let probe = Probe { tcp: Some(6514), ping: false, interval, timeout };
    assert_eq!(siem.probe, Some(probe));
    assert_eq!((&*kept.name, kept.source, kept.sample), ("[2001:db8::5]:514", Source::Preserved, 1));
    assert_eq!((feed.loopback, feed.addresses, feed.send_buffer.bytes), (Some(false), Addresses::First, 0));

    assert_eq!((settings.groups[0].policy, &settings.groups[0].members[..]), (Policy::RoundRobin, &[0, 1][..]));
    let [some, rest] = &settings.rules[..] else { panic!("{settings:?}") };
    assert_eq!(some.sources, ["10.0.0.0/8".parse().unwrap(), "2001:db8::7/128".parse().unwrap()]);
    assert_eq!((&*some.name, &some.listeners[..]), ("rule 1", &[0][..]));
    assert_eq!(some.to, [Recipient::Destination(2), Recipient::Group(0)]);
    assert_eq!((&*rest.name, rest.sources.len(), rest.listeners.len(), rest.to.len()), ("rest", 0, 0, 0));
}

#[test]
fn little_is_needed() {
    let config = read("[[listener]]\naddress = \"0.0.0.0:514\"\n[[destination]]\nto = \"10.0.0.5:514\"").unwrap();
    let settings = &config.settings;
    assert!((1..=4).contains(&settings.workers) && settings.gather.is_zero());
    assert_eq!((settings.rules.len(), &settings.rules[0].to[..]), (1, &[Recipient::Destination(0)][..]));
    assert_eq!((config.fixed, config.warnings.len()), (Fixed::default(), 0));
}

#[test]
fn without_rules_all_goes_to_groups_and_to_what_is_in_none() {
    let rules = FULL.find("[[rule]]").unwrap();
    let config = read(&FULL[..rules]).unwrap();
    assert_eq!(config.settings.rules[0].to, [Recipient::Group(0), Recipient::Destination(2)]);
    assert_eq!((config.settings.rules.len(), config.warnings.len()), (1, 0));
}

#[test]
fn what_is_printed_reads_back_the_same() {
    let config = read(FULL).unwrap();
    let printed = config.to_toml();
    assert_eq!(read(&printed).unwrap(), config, "{printed}");
    insta::assert_snapshot!(printed);
}

#[test]
fn mistakes_are_told_in_one_line() {
    let mistakes = [
        // The document.
        mistake("[[group]]", "[[group]"),
        mistake("workers = 2", "worker = 2"),
        mistake("ttl = 8", "tll = 8"),
        mistake("interface = \"eth1\" }", "interfaces = \"eth1\" }"),
        mistake("interval = \"4s\"", "intervall = \"4s\""),
        mistake("match = \"all\"", "match = \"any\""),
        mistake("policy = \"round-robin\"", "policy = \"roundrobin\""),
        mistake("addresses = \"all\"", "addresses = \"both\""),
        mistake("to = \"siem.example:514\"", ""),
        mistake("to = \"siem.example:514\"", "to = \"siem.example\""),
        mistake("to = \"siem.example:514\"", "to = \"10.0.0.256:514\""),
        mistake("address = \"0.0.0.0:514\"", "address = \"0.0.0.0\""),
        mistake("\"10.0.0.0/8\"", "\"10.0.0.0/33\""),
        mistake("\"239.1.1.1\"", "\"239.1.1\""),
        mistake("\"2MiB\"", "\"2M\""),
        mistake("ttl = 8", "ttl = 256"),
        mistake("ttl = 8", "ttl = \"8\""),
        mistake("tcp = 6514", "tcp = 0"),
        // Listeners.
        mistake("workers = 2", "workers = 0"),
        mistake("gather = \"50us\"", "gather = \"2s\""),
        mistake("user = \"nobody\"", "user = \"\""),
        mistake("user = \"nobody\"", "user = \"no-such-user\""),
        mistake("address = \"[ff15::1]:5000\"\ninterface = \"eth2\"", "address = \"0.0.0.0:514\""),
        mistake("address = \"[ff15::1]:5000\"", "name = \"syslog\"\naddress = \"[ff15::1]:5000\""),
        mistake("name = \"syslog\"", "name = \"\""),
        mistake("\"239.1.1.1\"", "\"10.1.1.1\""),
        mistake("\"239.1.1.1\"", "\"ff15::1\""),
        mistake("\"239.1.1.1\"", "\"239.1.1.1\", \"239.1.1.1\""),
        mistake("\"10.0.0.9\"", "\"239.0.0.9\""),
        mistake("interface = \"eth2\"", "join = \"ff15::2\""),
        // Destinations.
        mistake("to = \"siem.example:514\"", "to = \"siem.example:0\""),
        mistake("name = \"feed\"", "name = \"siem\""),
        mistake("from = \"10.0.0.1:0\"", "source = \"kept\"\nfrom = \"10.0.0.1:0\""),
        mistake("source = \"kept\"", "from = \"10.0.0.1:0\""),
        mistake("ttl = 8", "ttl = 0"),
        mistake("ttl = 8", "ttl = 300"),
        mistake("ttl = 8", "ttl = "),
        mistake("dscp = 46", "dscp = -1"),
        mistake("[2001:db8::5]:514\"\nsource", "[fe80::5]:514\"\nsource"),
        mistake("[2001:db8::5]:514\"\nsource", "[fe80::5%eth0]:514\"\nsource"),
        mistake("\"10.0.0.0/8\"", "\"10.0.0.7/8\""),
        mistake("name = \"feed\"", "name = \"fe\\u202eed\""),
        mistake("to = [\"feed\", \"collectors\"]", "to = [\"10.0.0.9:514\"]"),
        mistake("dscp = 46", "dscp = 64"),
        mistake("sample = 10", "sample = 0"),
        mistake("sample = 10", "every = 0"),
        mistake("sample = 10", "sample = 10\nevery = 10"),
        mistake("rate = \"10k/s\"", "rate = \"0/s\""),
        mistake("bandwidth = \"100mbit\"", "bandwidth = 0"),
        mistake("queue = \"1MiB\"", "queue = \"1500B\""),
        mistake("source = \"kept\"", "loopback = true"),
        mistake("tcp = 6514", "tcp = 6514, ping = true"),
        mistake("tcp = 6514, ", ""),
        mistake("interval = \"4s\"", "interval = \"1ms\""),
        mistake("interval = \"4s\"", "timeout = \"3s\""),
        mistake("loopback = false", "loopback = false\nprobe = { ping = true }"),
        // Loops.
        mistake("to = \"[2001:db8::5]:514\"\nsource = \"kept\"", "to = \"127.0.0.9:514\""),
        mistake("to = \"239.7.7.7:514\"\nloopback = false", "to = \"239.1.1.1:514\""),
        // Groups and rules.
        mistake("name = \"collectors\"", "name = \"feed\""),
        mistake("members = [\"siem\", ", "members = [\"sime\", "),
        mistake("members = [\"siem\", ", "members = [\"siem\", \"siem\", "),
        mistake("members = [\"siem\", ", "members = [\"collectors\", "),
        mistake("members = [\"siem\", \"[2001:db8::5]:514\"]", "members = []"),
        mistake("listener = \"syslog\"", "listener = \"sylog\""),
        mistake("listener = \"syslog\"", "listener = []"),
        mistake("[\"10.0.0.0/8\", \"2001:db8::7\"]", "[]"),
        mistake("to = [\"feed\", \"collectors\"]", "to = [\"feed\", \"colectors\"]"),
        mistake("to = []", ""),
        mistake("name = \"rest\"", "name = \"rule 1\""),
    ];
    insta::assert_snapshot!(mistakes.join("\n"));
    let whole = [
        "",
        "[[listener]]\naddress = \"0.0.0.0:514\"",
        "[[destination]]\nto = \"10.0.0.5:514\"",
        "[listener]\naddress = \"0.0.0.0:514\"\n[[destination]]\nto = \"10.0.0.5:514\"",
    ];
    insta::assert_snapshot!(whole.map(|text| read(text).unwrap_err().to_string()).join("\n"));
}

/// Whether a destination comes in again at a listener.
fn loops(listener: &str, destination: &str) -> bool {
    let text = format!("[[listener]]\n{listener}\n[[destination]]\n{destination}");
    match read(&text) {
        Ok(_) => false,
        Err(error) if error.to_string().contains(": a loop (") => true,
        Err(error) => panic!("{text}: {error}"),
    }
}

#[test]
fn a_destination_that_comes_in_again_is_refused() {
    let any4 = "address = \"0.0.0.0:514\"";
    let any6 = "address = \"[::]:514\"";
    let joined = "address = \"0.0.0.0:514\"\njoin = \"239.1.1.1\"";
    let joined_on_eth1 = "address = \"0.0.0.0:514\"\njoin = { group = \"239.1.1.1\", interface = \"eth1\" }";
    let one_source = "address = \"0.0.0.0:514\"\njoin = { group = \"232.1.1.1\", source = \"10.9.9.9\" }";
    let own_source = "address = \"0.0.0.0:514\"\njoin = { group = \"232.1.1.1\", source = \"10.0.0.1\" }";
    for (listener, destination, expected) in [
        (any4, "to = \"127.0.0.1:514\"", true),
        (any4, "to = \"127.9.9.9:514\"", true),
        (any4, "to = \"0.0.0.0:514\"", true),
        (any4, "to = \"10.0.0.1:514\"", true),
        (any4, "to = \"[::ffff:10.0.0.1]:514\"", true),
        (any4, "to = \"10.0.0.1:515\"", false),
        (any4, "to = \"10.0.0.2:514\"", false),
        (any4, "to = \"[::1]:514\"", false),
        (any6, "to = \"[::1]:514\"", true),
        (any6, "to = \"[2001:db8::1]:514\"", true),
        (any6, "to = \"10.0.0.1:514\"", true),
        (any6, "to = \"[2001:db8::2]:514\"", false),
        ("address = \"10.0.0.1:514\"", "to = \"10.0.0.1:514\"", true),
        ("address = \"10.0.0.1:514\"", "to = \"127.0.0.1:514\"", false),
        ("address = \"127.0.0.1:514\"", "to = \"0.0.0.0:514\"", true),
        ("address = \"0.0.0.0:514\"\ninterface = \"eth1\"", "to = \"10.0.0.1:514\"", false),
        ("address = \"0.0.0.0:514\"\ninterface = \"lo\"", "to = \"10.0.0.1:514\"", true),
        // Broadcasts come back to the machine that sends them.
        (any4, "to = \"255.255.255.255:514\"", true),
        (any4, "to = \"10.0.0.255:514\"", true),
        (any4, "to = \"10.0.1.255:514\"", false),
        ("address = \"10.0.0.1:514\"", "to = \"255.255.255.255:514\"", false),
        (
            "address = \"0.0.0.0:514\"\ninterface = \"eth1\"",
            "to = \"255.255.255.255:514\"\ninterface = \"eth2\"",
            false,
        ),
        // So does multicast that the machine has joined.
        (joined, "to = \"239.1.1.1:514\"", true),
        (joined, "to = \"239.1.1.1:514\"\nloopback = true", true),
        (joined, "to = \"239.1.1.1:514\"\nloopback = false", false),
        (joined, "to = \"239.1.1.2:514\"", false),
        (joined, "to = \"239.1.1.1:515\"", false),
        ("address = \"239.1.1.1:514\"", "to = \"239.1.1.1:514\"", true),
        ("address = \"[ff15::1]:514\"", "to = \"[ff15::1]:514\"", true),
        // Some groups every machine has joined.
        (any4, "to = \"224.0.0.1:514\"", true),
        (any4, "to = \"224.0.0.1:514\"\nloopback = false", false),
        (any4, "to = \"224.0.0.2:514\"", false),
        (any6, "to = \"[ff02::1]:514\"\ninterface = \"eth1\"", true),
        (any4, "to = \"[ff02::1]:514\"\ninterface = \"eth1\"", false),
        (joined_on_eth1, "to = \"239.1.1.1:514\"", true),
        (joined_on_eth1, "to = \"239.1.1.1:514\"\ninterface = \"eth1\"", true),
        (joined_on_eth1, "to = \"239.1.1.1:514\"\ninterface = \"eth2\"", false),
        (one_source, "to = \"232.1.1.1:514\"", false),
        (one_source, "to = \"232.1.1.1:514\"\nsource = \"kept\"", true),
        (own_source, "to = \"232.1.1.1:514\"", true),
        // A socket bound to 0.0.0.0 hears every group that any socket has joined.
        ("address = \"239.1.1.1:514\"\n[[listener]]\naddress = \"0.0.0.0:515\"", "to = \"239.1.1.1:515\"", true),
        (any4, "to = \"localhost:514\"", false),
    ] {
        assert_eq!(loops(listener, destination), expected, "{listener} <- {destination}");
    }
}

#[test]
fn a_listener_that_would_hear_nothing_is_a_warning() {
    let warnings = |listener: &str| {
        let destination = "[[destination]]\nname = \"a\"\nto = \"10.0.0.5:1\"\n";
        read(&format!("[[listener]]\n{listener}\n{destination}")).unwrap().warnings
    };
    let deaf = "join: bound to 127.0.0.1, it hears nothing that is sent to a group (bind 0.0.0.0)";
    let [warning] = &warnings("address = \"127.0.0.1:514\"\njoin = \"239.1.1.1\"")[..] else { panic!() };
    assert!(warning.contains(deaf), "{warning}");
    assert_eq!(warnings("address = \"0.0.0.0:514\"\ninterface = \"eth1\"\njoin = \"239.1.1.1\""), [""; 0]);
}

#[test]
fn a_start_needs_the_interfaces_and_a_reload_does_not() {
    let there = "this machine has no `eth9` (it has eth1, eth2, lo)";
    for (listener, destination, place) in [
        ("", "", None),
        (
            "interface = \"eth9\"\njoin = { group = \"239.1.1.1\", interface = \"eth9\" }",
            "",
            Some("3: listener: interface"),
        ),
        ("join = { group = \"239.1.1.1\", interface = \"eth9\" }", "", Some("3: listener: join")),
        ("", "interface = \"eth9\"", Some("6: destination: interface")),
    ] {
        let text = format!(
            "[[listener]]\naddress = \"0.0.0.0:514\"\n{listener}\n[[destination]]\nto = \"10.0.0.5:1\"\n{destination}\n"
        );
        let (config, expected) = (read(&text).unwrap(), place.map(|place| format!("tee.toml:{place}: {there}")));
        assert_eq!((&config.absent, &config.warnings[..]), (&expected, &[][..]));
        assert_eq!(config.startable().err().map(|error| error.to_string()), expected);
    }
}

#[test]
fn a_source_that_this_machine_lacks_is_a_warning() {
    let text = "[[listener]]\naddress = \"0.0.0.0:0\"\n[[destination]]\nto = \"10.0.0.5:1\"\nfrom = \"10.9.9.9:0\"\n";
    assert_eq!(
        read(text).unwrap().warnings,
        [
            "tee.toml:5: destination `10.0.0.5:1`: from: 10.9.9.9 is no address of this machine (see `ip address`)",
            "tee.toml:2: listener `0.0.0.0:0`: port 0 is another port at each start (the log says which)",
        ]
    );
}

#[test]
fn a_kept_source_needs_a_listener_of_the_destinations_family() {
    let kept = |listener: &str, to: &str| {
        let text =
            format!("[[listener]]\naddress = \"{listener}\"\n[[destination]]\nto = \"{to}\"\nsource = \"kept\"\n");
        read(&text).map(drop).map_err(|error| error.to_string())
    };
    for (listener, to) in [("0.0.0.0:514", "10.0.0.5:1"), ("[::]:514", "10.0.0.5:1"), ("[::]:514", "[2001:db8::5]:1")] {
        assert_eq!(kept(listener, to), Ok(()));
    }
    assert_eq!(
        kept("0.0.0.0:514", "[2001:db8::5]:1").unwrap_err(),
        "tee.toml:5: destination `[2001:db8::5]:1`: an IPv4 source cannot be kept towards IPv6, and no listener hears IPv6 \
         (source = \"proxy\")"
    );
    assert!(kept("[2001:db8::1]:514", "10.0.0.5:1").is_err());
}

#[test]
fn what_no_rule_leads_to_is_a_warning() {
    let text = FULL.replace("to = [\"feed\", \"collectors\"]", "to = \"siem\"");
    assert_eq!(
        read(&text).unwrap().warnings,
        [
            "tee.toml:46: group `collectors`: no rule leads to it",
            "tee.toml:41: destination `feed`: no rule leads to it"
        ]
    );
}

#[test]
fn this_machine_has_the_loopback_address() {
    assert!(Local::now().own.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
}

/// A key of the file and values that may or may not fit.
fn line() -> impl Strategy<Value = String> {
    let tables = ["[[listener]]", "[[destination]]", "[[group]]", "[[rule]]", "[listener]", ""];
    let keys = [
        "workers",
        "match",
        "gather",
        "drain",
        "admin",
        "user",
        "name",
        "address",
        "interface",
        "join",
        "receive_buffer",
        "to",
        "addresses",
        "source",
        "from",
        "ttl",
        "dscp",
        "loopback",
        "send_buffer",
        "queue",
        "rate",
        "bandwidth",
        "last_port",
        "sample",
        "every",
        "loop",
        "hop_guard",
        "replies",
        "sessions",
        "session_timeout",
        "probe",
        "policy",
        "members",
        "listener",
    ];
    let values = [
        "0",
        "1",
        "-1",
        "1e9",
        "true",
        "[]",
        "{}",
        "\"\"",
        "\"0.0.0.0:514\"",
        "\"[::]:1\"",
        "\"10.0.0.1:514\"",
        "\"host:1\"",
        "\"239.1.1.1\"",
        "\"239.1.1.1:5\"",
        "[\"a\", \"b\"]",
        "\"a\"",
        "\"all\"",
        "\"first\"",
        "\"kept\"",
        "\"hash\"",
        "\"1MiB\"",
        "\"10k/s\"",
        "\"1s\"",
        "\"0\"",
        "{ tcp = 1 }",
        "{ ping = true, timeout = \"9s\" }",
        "{ group = \"239.1.1.1\" }",
        "\"0.0.0.0/0\"",
        "[\"::/0\"]",
        "18446744073709551615",
    ];
    prop_oneof![
        1 => prop::sample::select(tables.to_vec()).prop_map(str::to_owned),
        4 => (prop::sample::select(keys.to_vec()), prop::sample::select(values.to_vec()))
            .prop_map(|(key, value)| format!("{key} = {value}")),
    ]
}

fn is_one_line(error: &anyhow::Error) -> bool {
    !format!("{error:#}").contains('\n')
}

proptest! {
    #[test]
    fn no_text_panics_and_errors_are_one_line(text in ".{0,200}") {
        if let Err(error) = read(&text) {
            prop_assert!(is_one_line(&error));
        }
    }

    #[test]
    fn no_file_panics(lines in prop::collection::vec(line(), 0..20)) {
        match read(&lines.join("\n")) {
            Ok(config) => prop_assert_eq!(&read(&config.to_toml()).unwrap().settings, &config.settings),
            Err(error) => prop_assert!(is_one_line(&error)),
        }
    }

    /// A good file whose every table is there, in any order and number.
    #[test]
    fn settings_print_as_they_are_read(
        ports in prop::collection::btree_set(1u16..65_535, 1..6),
        hosts in prop::collection::btree_set("[a-z]{1,8}", 1..6),
        nets in prop::collection::vec((any::<u32>(), 0u8..=32), 0..6),
        queue in 65_536u64..1 << 40,
        sample in 1u32..,
    ) {
        let mut text = String::new();
        for port in &ports {
            text += &format!("[[listener]]\naddress = \"[::]:{port}\"\n");
        }
        for host in &hosts {
            text += &format!("[[destination]]\nname = \"{host}\"\nto = \"{host}:1\"\nqueue = \"{queue}B\"\nsample = {sample}\n");
        }
        text += &format!("[[group]]\nname = \"all of them\"\nmembers = {:?}\n", hosts.iter().collect::<Vec<_>>());
        for (address, length) in nets {
            let net = Ipv4Net::new(Ipv4Addr::from_bits(address), length).unwrap().trunc();
            text += &format!("[[rule]]\nfrom = \"{net}\"\nto = \"all of them\"\n");
        }
        let config = read(&text).unwrap();
        let again = read(&config.to_toml()).unwrap();
        prop_assert_eq!(&again.settings, &config.settings);
    }
}

#[test]
fn a_range_of_ports_is_a_listener_each_under_one_name() {
    let read = |last: &str| {
        let text = format!(
            "[[listener]]\nname = \"flows\"\naddress = \"0.0.0.0:2055\"\n{last}\n[[listener]]\naddress = \"0.0.0.0:514\"\n\
             [[destination]]\nname = \"a\"\nto = \"10.0.0.5:1\"\n[[rule]]\nlistener = \"flows\"\nto = \"a\"\n"
        );
        Config::read("tee.toml", &text, &Local::default())
    };
    let config = read("last_port = 2057").unwrap();
    let named = |listener: &Listener| (listener.name.clone(), listener.address.port());
    let all: Vec<_> = config.settings.listeners.iter().map(named).collect();
    let expected = [("flows:2055", 2055), ("flows:2056", 2056), ("flows:2057", 2057), ("0.0.0.0:514", 514)];
    assert_eq!(all, expected.map(|(name, port)| (name.to_owned(), port)));
    assert_eq!(config.settings.rules[0].listeners, [0, 1, 2]);
    assert_eq!(Config::read("printed", &config.to_toml(), &Local::default()).unwrap().settings, config.settings);
    let told = "tee.toml:4: listener 0.0.0.0:2055: last_port: 2055 (write the last of at most 1024 ports, of which 2055 is the first)";
    assert_eq!(read("last_port = 2055").unwrap_err().to_string(), told);
    assert!(read("last_port = 3079").is_err() && read("last_port = 3078").is_ok());
}
