//! `weir send --reverse` and `--bidir`: through address translation with loss, and with ends that die.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ipnet::IpNet;
use nix::sys::signal::Signal;
use serde_json::Value;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;
use weir_testbed::network::{end, namespace, on_loopback};
use weir_testbed::{Ended, Started, program};

use crate::send_recv::{Listening, json, run};
use crate::weir;

/// A client behind a router that translates addresses, and a server with two of them that the client reaches.
struct Nat {
    client: NetNs,
    router: NetNs,
    server: NetNs,
    nft: PathBuf,
}

/// What goes through it, each datagram of 1000 bytes by its chance, and what of it, by the router's own count.
const RULES: &str = "
table ip nat {
  chain post {
    type nat hook postrouting priority 100;
    oifname \"outside\" masquerade random;
  }
}
table ip lossy {
  counter up { }
  counter up_lost { }
  counter down { }
  counter down_lost { }
  chain forward {
    type filter hook forward priority 0;
    meta length 1028 iifname \"inside\" counter name up numgen random mod 10 < 2 counter name up_lost drop
    meta length 1028 iifname \"outside\" counter name down numgen random mod 10 < 1 counter name down_lost drop
  }
}
";

impl Nat {
    fn new() -> Option<Nat> {
        let nft = program("nft")?;
        let [client, router, server] = [namespace()?, namespace()?, namespace()?];
        let wire = |one: (&NetNs, &str, u32), other: (&NetNs, &str, u32)| {
            let (a, b) = (end(one.0, one.1, one.2, 1500), end(other.0, other.1, other.2, 1500));
            Netlink::open(one.0).unwrap().add_veth(&a, &b).unwrap();
        };
        wire((&client, "eth0", 1), (&router, "inside", 2));
        wire((&router, "outside", 3), (&server, "eth0", 4));
        for (ns, name, addresses) in [
            (&client, "eth0", &["10.0.0.2/24"][..]),
            (&router, "inside", &["10.0.0.1/24"]),
            (&router, "outside", &["192.0.2.1/24"]),
            // The second one is not what a route chooses.
            (&server, "eth0", &["192.0.2.7/24", "192.0.2.8/24"]),
        ] {
            let mut netlink = Netlink::open(ns).unwrap();
            let index = netlink.link(name).unwrap().index;
            for address in addresses {
                netlink.add_address(index, address.parse::<IpNet>().unwrap()).unwrap();
            }
            netlink.set_up(index).unwrap();
        }
        for (ns, name) in [(&client, "eth0"), (&router, "inside"), (&router, "outside"), (&server, "eth0")] {
            Netlink::open(ns).unwrap().wait_until_running(name).unwrap();
        }
        let mut netlink = Netlink::open(&client).unwrap();
        let eth0 = netlink.link("eth0").unwrap().index;
        netlink.add_route("0.0.0.0/0".parse().unwrap(), Some("10.0.0.1".parse().unwrap()), eth0).unwrap();
        sysctl::set(&router, &[("ipv4/ip_forward", "1")]).unwrap();
        let nat = Nat { client, router, server, nft };
        nat.nft(&["-f", "-"], RULES);
        Some(nat)
    }

    fn nft(&self, arguments: &[&str], input: &str) -> String {
        self.router
            .run(|| {
                let mut command = Command::new(&self.nft);
                let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
                child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success());
                String::from_utf8(output.stdout).unwrap()
            })
            .unwrap()
    }

    /// A receiver on the server.
    fn receiver(&self, address: &str, flags: &[&str]) -> Listening {
        self.server.run(|| Listening::start_at(address, flags)).unwrap()
    }

    /// What a sender on the client does.
    fn send(&self, to: &str, flags: &[&str]) -> Ended {
        self.client.run(|| run(&[&["send", "--to", to], flags].concat())).unwrap()
    }

    /// How many datagrams the router counted by this name.
    fn counted(&self, name: &str) -> u64 {
        let listing = self.nft(&["-j", "list", "counter", "ip", "lossy", name], "");
        let listing: Value = serde_json::from_str(&listing).unwrap();
        let counters = listing["nftables"].as_array().unwrap();
        counters.iter().find_map(|entry| entry["counter"]["packets"].as_u64()).unwrap()
    }
}

/// Of each direction that both ends tell of, what they tell alike.
fn told(report: &Value) -> Vec<Value> {
    let directions = report["directions"].as_array().unwrap_or_else(|| panic!("{report}"));
    let same = ["direction", "session", "incarnation", "sent", "received", "received_bytes", "lost", "duplicated"];
    let rest = ["reordered", "same_machine", "delay_n", "shortfall"];
    let of =
        |direction: &Value| same.iter().chain(&rest).map(|key| (key.to_string(), direction[key].clone())).collect();
    directions.iter().map(of).collect()
}

#[test]
fn both_ways_through_address_translation_both_ends_tell_the_routers_truth() {
    tell_the_routers_truth("0.0.0.0:5000", "--bidir");
}

#[test]
#[ignore = "long: 12 s"]
fn the_other_ways_through_address_translation() {
    tell_the_routers_truth("0.0.0.0:5000", "--reverse");
    tell_the_routers_truth("[::]:5000", "--bidir");
}

#[test]
fn the_way_back_through_address_translation_is_told_alike_at_both_ends() {
    tell_the_routers_truth("[::]:5000", "--reverse");
}

fn tell_the_routers_truth(listen: &str, flag: &str) {
    let Some(nat) = Nat::new() else { return };
    let both = flag == "--bidir";
    let listening = nat.receiver(listen, &["--allow-reverse", "--json", "--every", "100ms"]);
    // What comes while an end has no processor fits into its buffer, 90 datagrams: only the router loses any.
    let flags = ["--interval", "5ms", "-n", "200", "--session", "7", "--every", "100ms", "--json"];
    let sent = json(&nat.send("192.0.2.8:5000", &[&[flag][..], &flags].concat()));
    let received = listening.json();
    assert_eq!(told(&sent), told(&received), "{listen} {flag}");
    let [up, up_lost, down, down_lost] = ["up", "up_lost", "down", "down_lost"].map(|name| nat.counted(name));
    let direction = |name: &str| {
        let all = sent["directions"].as_array().unwrap();
        all.iter().find(|direction| direction["direction"] == name).cloned()
    };
    let reverse = direction("reverse").unwrap();
    assert_eq!((&reverse["sent"], &reverse["lost"]), (&down.into(), &down_lost.into()), "{reverse}");
    assert_eq!(reverse["sent"], 200);
    assert!(reverse["jitter_us"].is_f64() && reverse["delay_mean_us"].is_f64(), "{reverse}");
    let forward = direction("forward");
    assert_eq!((forward.is_some(), up), (both, if both { 200 } else { 0 }));
    if let Some(forward) = forward {
        assert_eq!((&forward["sent"], &forward["lost"]), (&up.into(), &up_lost.into()), "{forward}");
    }
    let sum = |of: &Value, key: &str| -> u64 {
        of["intervals"].as_array().unwrap().iter().map(|interval| interval[key].as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&sent, "received"), down - down_lost);
    assert_eq!((sum(&received, "received"), sum(&received, "sent")), (up - up_lost, down));
    if both {
        assert_eq!(sum(&sent, "sent"), up);
    }
}

#[test]
fn over_tcp_the_connection_carries_both_and_the_accounts() {
    let Some(nat) = Nat::new() else { return };
    for (flag, payload, both) in [("--reverse", "500B", false), ("--bidir", "500B", true), ("--bidir", "40B", true)] {
        let tcp = ["--transport", "tcp", "--allow-reverse", "--json", "--every", "50ms"];
        let listening = nat.receiver("0.0.0.0:0", &tcp);
        let to = format!("192.0.2.8:{}", listening.port());
        let flags = ["--interval", "1ms", "-n", "200", "--session", "7", "--payload", payload, "--json"];
        let sent = json(&nat.send(&to, &[&["--transport", "tcp", flag][..], &flags].concat()));
        let received = listening.json();
        assert_eq!(told(&sent), told(&received), "{flag} {payload}");
        let directions = sent["directions"].as_array().unwrap();
        assert_eq!(directions.len(), 1 + usize::from(both), "{sent}");
        for direction in directions {
            assert_eq!((&direction["sent"], &direction["received"]), (&200.into(), &200.into()), "{direction}");
        }
    }
}

/// Its messages are dropped from some time on, and what is said beside them comes through.
#[test]
fn what_tcp_did_not_deliver_is_said_so_and_no_good_end() {
    let Some(nat) = Nat::new() else { return };
    let rule = "add rule ip lossy forward iifname outside meta length > 900 numgen inc mod 1000000 > 40 drop";
    nat.nft(&["-f", "-"], rule);
    let listening = nat.receiver("0.0.0.0:5000", &["--transport", "tcp", "--allow-reverse"]);
    let flags = ["-R", "--transport", "tcp", "--interval", "100us", "-n", "20000", "--payload", "1000B"];
    let sent = nat.send("192.0.2.7:5000", &flags);
    assert_eq!(sent.status, Some(1), "{}", sent.stderr);
    assert!(sent.stderr.contains(" messages were not delivered: the connection to tcp 192.0.2.7:5000 broke"));
    for text in [&sent.stdout, &listening.ended().stdout] {
        assert!(text.contains(" %) not delivered: ") && !text.contains("lost"), "{text}");
    }
}

#[test]
fn people_read_the_same_lines_at_both_ends() {
    let Some(nat) = Nat::new() else { return };
    let listening = nat.receiver("0.0.0.0:5000", &["--allow-reverse"]);
    let flags = ["--interval", "1ms", "-n", "50", "--payload", "100B", "--session", "7", "-P", "2"];
    let sent = nat.send("192.0.2.7:5000", &[&["--bidir"][..], &flags].concat());
    let [sent, received] = [sent, listening.ended()].map(|Ended { status, stdout, stderr }| {
        assert_eq!((status, &*stderr), (Some(0), ""));
        stdout
    });
    for session in [7, 8] {
        for (direction, here, there) in [("forward", "to", "from"), ("reverse", "from", "to")] {
            let block = |text: &str, way: &str| {
                let (_, rest) = text.split_once(&format!("{direction}, session {session} {way} ")).unwrap();
                rest.lines().skip(1).take_while(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")
            };
            let (sent, received) = (block(&sent, here), block(&received, there));
            assert_eq!(sent, received);
            assert!(sent.starts_with("  sent        50\n  received    50\n  lost        0 (0 %)\n"), "{sent}");
        }
    }
}

#[test]
fn a_receiver_that_allows_nothing_says_so_in_a_line() {
    on_loopback(|| {
        for (transport, says, refused) in [
            ("udp", "connection refused). Start `weir recv --allow-reverse` there; its TCP port is needed too.", 0),
            ("tcp", "it does not allow that. Start it with `weir recv --allow-reverse`.", 1),
        ] {
            let listening = Listening::start(&["--transport", transport, "--json"]);
            let sent = run(&["send", "--to", &listening.address, "--transport", transport, "--reverse"]);
            assert_eq!((sent.status, &*sent.stdout, sent.stderr.lines().count()), (Some(1), "", 1), "{}", sent.stderr);
            assert!(sent.stderr.contains(says), "{}", sent.stderr);
            listening.signal(Signal::SIGTERM);
            let report = listening.json();
            assert_eq!((&report["refused"], &report["foreign"]), (&refused.into(), &0.into()), "{report}");
        }
    });
}

#[test]
fn limits_are_told_to_who_asks_for_more() {
    for transport in ["udp", "tcp"] {
        let limits = ["--allow-reverse", "--reverse-rate", "1mbit", "--reverse-duration", "10s"];
        let listening = Listening::start(&[&["--transport", transport, "--json"][..], &limits].concat());
        let to = listening.address.clone();
        for (flags, says) in [
            (&["--duration", "1s", "--rate", "2mbit"][..], "it sends at most 1mbit of IP packets"),
            (&["--duration", "11s"], "it sends for at most 10s. Lower --duration or --count"),
        ] {
            let sent = run(&[&["send", "--to", &to, "--transport", transport, "-R"], flags].concat());
            let Ended { status, stdout, stderr } = sent;
            assert_eq!((status, &*stdout), (Some(1), ""), "{stderr}");
            assert!(stderr.contains(says) && stderr.lines().count() == 1, "{stderr}");
        }
        // What is refused does not keep others from what is allowed.
        let flags = ["-n", "20", "--interval", "10ms", "--json", "--transport", transport, "-R"];
        json(&run(&[&["send", "--to", &to][..], &flags].concat()));
        let report = listening.json();
        assert_eq!(report["refused"], 2, "{report}");
    }
}

#[test]
fn an_end_that_dies_in_the_middle_is_told_by_the_other() {
    for transport in ["udp", "tcp"] {
        for dies in ["client", "server"] {
            let flags = ["--transport", transport, "--allow-reverse", "--every", "10ms"];
            let mut listening = Listening::start(&flags);
            let to = listening.address.clone();
            let flags = ["--duration", "5m", "--interval", "1ms", "--every", "10ms", "--transport", transport];
            let mut sending = Started::spawn(weir(&[&["send", "--to", &to, "--reverse"][..], &flags].concat()));
            // Names of columns, then what came in the first interval.
            (0..3).for_each(|_| drop(sending.next_line().unwrap()));
            let (killed, other) =
                if dies == "client" { (&mut sending, &mut *listening) } else { (&mut *listening, &mut sending) };
            killed.signal(Signal::SIGKILL);
            let Ended { status, stderr, .. } = other.wait();
            assert_eq!(status, Some(1), "{transport} {dies}: {stderr}");
            assert!(stderr.contains("fell silent"), "{transport} {dies}: {stderr}");
        }
    }
}
