//! Mistakes in the configuration: one line each, with the place and what to do.

use super::File;
use crate::service::weir;

#[test]
fn a_mistake_is_told_with_its_line_and_its_remedy() {
    for (text, expected) in [
        ("\nworker = 3", ":2: unknown key `worker`, did you mean `workers`?"),
        ("[[listener]]\naddres = \"[::]:6343\"", ":2: unknown key `addres`, did you mean `address`?"),
        ("[[destination]]\nto = \"nowhere\"", ":2: `nowhere`: write HOST:PORT"),
        (
            "[[listener]]\naddress = \"127.0.0.1:1\"\n[[destination]]\nto = \"127.0.0.1:1\"",
            ":4: destination `127.0.0.1:1`",
        ),
        ("allow = []", ":1: allow: no agent at all (leave it out for any)"),
        ("\nallow = [\"10.0.0.0/8\", \"10.0.0.0/33\"]", ":2: `10.0.0.0/33`: write a network or an address"),
        ("[limits]\nagents = 0", ":2: limits: agents: 0 (it must be 1 to 1000000)"),
        ("[limits]\nagent = 5", ":2: unknown key `agent`, did you mean `agents`?"),
        (
            "[[agent]]\naddress = \"10.0.0.1\"\n[[agent]]\naddress = \"10.0.0.1\"",
            ":4: agent 10.0.0.1: address: it is there twice",
        ),
        (
            "[[agent]]\naddress = \"10.0.0.1\"\ninterfaces = { eth0 = \"uplink\" }",
            ":3: agent 10.0.0.1: interfaces: `eth0`",
        ),
        ("[geoip]\nasn = \"/nowhere/asn.mmdb\"", ":2: geoip.asn: read /nowhere/asn.mmdb: No such file"),
        (
            "\n[geoip]\ncountry = \"/proc/version\"",
            ":3: geoip.country: /proc/version: no MaxMind DB file, or a damaged one",
        ),
        (
            "[group.sites]\na = [\"10.0.0.0/8\"]\nb = [\"10.0.0.0/8\"]",
            ":1: group.sites: 10.0.0.0/8 is in the groups `a` and `b`",
        ),
        (
            "[threshold.busy]\nmetric = \"ifinoctets\"\nvalue = 1\ntimeout = 0",
            ":1: threshold `busy`: timeout: 0 is not 1 to 86400",
        ),
        ("user = \"\"", ":1: user: it has no name"),
        ("\nuser = \"no-such-user\"", ":2: look up user no-such-user: "),
        ("http = \"8008\"", ":1: `8008`: write ADDRESS:PORT"),
    ] {
        let file = File::new(text);
        let output = weir(&["sflow", "serve", "--check", "-c", &file.path()]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{text}: {said}");
        assert!(said.contains(expected), "{text}: {said}");
    }
}

/// A mistake in an expression is shown where it is.
#[test]
fn a_caret_is_under_the_place() {
    let file = File::new(
        "[flow.web]\nkeys = \"ipsource\"\nvalue = \"bytes\"\nfilter = \"ipprotocol=6&tcpdestnationport=80\"\n",
    );
    let output = weir(&["sflow", "serve", "--check", "-c", &file.path()]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((output.status.code(), lines.len()), (Some(2), 3), "{said}");
    assert!(
        lines[0].contains("sflow.toml:4: flow `web`: filter: ") && lines[0].contains("tcpdestinationport"),
        "{said}"
    );
    assert_eq!(lines[1].trim_start(), "ipprotocol=6&tcpdestnationport=80");
    assert_eq!(&lines[1][lines[2].find('^').unwrap()..], "tcpdestnationport=80", "{said}");
}
