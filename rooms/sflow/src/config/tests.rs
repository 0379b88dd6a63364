//! Mistakes in the configuration: one line each, with the place and what to do.

use weir_program::config::{Checked, Document, Pointed};

use super::{Settings, check};

#[test]
fn a_mistake_is_told_with_its_line_and_its_remedy() {
    for (text, expected) in [
        ("\nworkers = 0", ":2: workers: 0 (it must be 1 to 256)"),
        ("\nworker = 3", ":2: unknown key `worker`, did you mean `workers`?"),
        ("[[listener]]\naddres = \"[::]:6343\"", ":2: unknown key `addres`, did you mean `address`?"),
        ("[[destination]]\nto = \"nowhere\"", ":2: destination.to: `nowhere`: write HOST:PORT"),
        (
            "[[listener]]\naddress = \"127.0.0.1:1\"\n[[destination]]\nto = \"127.0.0.1:1\"",
            ":4: destination `127.0.0.1:1`",
        ),
        ("allow = []", ":1: allow: no agent at all (leave it out for any)"),
        ("\nallow = [\"10.0.0.0/8\", \"10.0.0.0/33\"]", ":2: allow: `10.0.0.0/33`: write a network or an address"),
        ("[limits]\nagents = 0", ":2: limits.agents: 0 (it must be 1 to 1000000)"),
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
            ":4: threshold `busy`: timeout: 0 is not 1 to 86400",
        ),
        (
            "[threshold.busy]\nmetric = \"ifinutilisation\"\nvalue = 1",
            ":2: threshold `busy`: metric: there is no metric or flow definition `ifinutilisation`, did you mean \
             `ifinutilization`?",
        ),
        (
            "[threshold.busy]\nvalue = 1\nmetric = \"ifname\"",
            ":3: threshold `busy`: metric: ifname is a text, of which none is greater",
        ),
        (
            "[threshold.busy]\nmetric = \"ifinoctets\"\nvalue = 1\nfilter = { ifsped = [\"1\"] }",
            ":4: threshold `busy`: filter: there is no metric `ifsped`, did you mean `ifspeed`?",
        ),
        ("[flow.a]\nn = 2", ":2: flow `a`: n: 2 is not 5 to 1000"),
        ("[flow.a]\n\nt = 0.1", ":3: flow `a`: t: 0.1 is not 0.2 to 600"),
        (
            "[group.sites]\nlab = [\"10.0.0.0/8\"]\n[flow.a]\nkeys = \"group:ipsource:site\"",
            ":4: flow `a`: keys: there are no groups `site`, did you mean `sites`?",
        ),
        (
            "[group.sites]\nlab = [\"10.0.0.0/8\"]\n[flow.a]\nfilter = \"group:ipsource:sites=lib\"",
            ":4: flow `a`: filter: there is no group `lib` in sites, did you mean `lab`?",
        ),
        (
            "[flow.a]\nkeys = \"null:[country:ipsource]:-\"",
            ":2: flow `a`: keys: nothing is found without a file ([geoip] country in the configuration)",
        ),
        (
            "\nstate = \"/nowhere/state\"",
            ":2: state: /nowhere/state: directory /nowhere: No such file or directory (os error 2) (it could not be written",
        ),
        ("state = \"/proc\"", ":1: state: /proc: it is not a regular file"),
        (
            "[[agent]]\naddress = \"10.0.0.1\"\nname = \"a\\u001b[2J\"",
            ":3: agent 10.0.0.1: name: `a\\u{1b}[2J`: it has characters that terminals obey",
        ),
        (
            "[[agent]]\naddress = \"10.0.0.1\"\ninterfaces = { 1 = \"a\\u202e\" }",
            ":3: agent 10.0.0.1: interfaces: `a\\u{202e}`: it has characters",
        ),
        ("[group.sites]\n\"a\\u0007\" = [\"10.0.0.0/8\"]", ":2: group.sites: `a\\u{7}`: it has characters"),
        (
            "[group.\"a/b\"]\nc = [\"10.0.0.0/8\"]",
            ":1: group: name \"a/b\": use 1 to 128 bytes without control characters",
        ),
        ("[flow.\"a\\u202e\"]\nkeys = \"vlan\"", ":1: flow: name \"a\\u{202e}\": use 1 to 128 bytes"),
        ("[flow.a]\nkeys = 5", ":2: flow.a.keys: write a text, or a list of texts"),
        ("[flow.a]\nn = \"many\"", ":2: flow.a.n: invalid value: string \"many\", expected a whole number from 0"),
        ("[limits]\nagents = \"x\"", ":2: limits.agents: invalid type: string \"x\", expected a whole number from 0"),
        ("[threshold.busy]\nmetric = 5\nvalue = 1", ":2: threshold.busy.metric: invalid type: integer `5`"),
        ("[threshold.busy]\nmetric = \"load_one\"", ":1: threshold.busy: missing key `value`"),
        (
            "[[agent]]\naddress = \"10.0.0.1\"\n[[agent]]\naddress = \"10.0.0.2\"\ninterfaces = 7",
            ":5: agent.interfaces: invalid type: integer `7`",
        ),
        ("user = \"\"", ":1: user: it has no name"),
        ("\nuser = \"no-such-user\"", ":2: user: look up user no-such-user: "),
        (
            "allow = [\"192.0.2.7/24\"]",
            ":1: allow: `192.0.2.7/24`: an address behind which a prefix stands (write 192.0.2.0/24 for all, 192.0.2.7 for one)",
        ),
        (
            "[group.sites]\na = [\"10.1.0.0/8\"]",
            ":2: group.sites.a: `10.1.0.0/8`: an address behind which a prefix stands (write 10.0.0.0/8 for all, 10.1.0.0 for one)",
        ),
        ("http = \"127.0.0.1:80\"\nadmin = \"127.0.0.1:80\"", ":2: admin: REST is served at 127.0.0.1:80 (give one"),
        ("hosts = [\"noc.example\", \"noc:8008\"]", ":1: hosts: `noc:8008`: write it as noc.example, without"),
        (
            "origins = \"https://noc.example/\"",
            ":1: origins: `https://noc.example/`: write it as https://noc.example:8443",
        ),
        ("http = \"8008\"", ":1: http: `8008`: write ADDRESS:PORT"),
    ] {
        let said = Settings::read("sflow.toml", text).unwrap_err().to_string();
        assert_eq!(said.lines().count(), 1, "{text}: {said}");
        assert!(said.contains(expected), "{text}: {said}");
    }
}

/// A mistake in an expression is shown where it is.
#[test]
fn a_caret_is_under_the_place() {
    for (filter, place, expected) in [
        ("ipprotocol=6&tcpdestnationport=80", "tcpdestnationport=80", "did you mean `tcpdestinationport`?"),
        ("vlan=5&ipprotocol=6,tcp", "tcp", "`ipprotocol` is a whole number from 0 to 255, never `tcp`: write 6"),
        ("ipdestination=10.1.0.0/8", "10.1.0.0/8", "has bits behind its prefix: write 10.0.0.0/8"),
    ] {
        let text = format!("[flow.web]\nkeys = \"ipsource\"\nvalue = \"bytes\"\nfilter = \"{filter}\"\n");
        let error = Settings::read("sflow.toml", &text).unwrap_err();
        let pointed = error.downcast_ref::<Pointed>().unwrap();
        assert!(
            pointed.line.contains("sflow.toml:4: flow `web`: filter: ") && pointed.line.contains(expected),
            "{pointed}"
        );
        let caret = pointed.caret();
        let lines: Vec<&str> = caret.lines().collect();
        assert_eq!((lines.len(), lines[0].trim_start()), (2, filter));
        assert_eq!(&lines[0][lines[1].find('^').unwrap()..], place, "{caret}");
    }
}

#[test]
fn what_is_printed_is_a_configuration_that_says_the_same() {
    let all = "allow = \"10.0.0.0/8\"\nhttp = \"0.0.0.0:80\"\n[limits]\nagents = 7\n[[agent]]\naddress = \"10.0.0.1\"\n\
               name = \"leaf\"\ninterfaces = { 1 = \"uplink\" }\n[group.sites]\nlab = [\"10.1.0.0/16\"]\n\
               [[destination]]\nto = \"collector.example:6343\"\n";
    for text in ["", all] {
        let printed = Settings::read("sflow.toml", text).unwrap().config.to_toml();
        assert!(printed.contains("6343") && printed.contains("receive_buffer = \"16MiB\""), "{printed}");
        assert_eq!(Settings::read("again.toml", &printed).unwrap().config.to_toml(), printed);
    }
}

/// What can be meant, but seldom is.
#[test]
fn who_acts_alone_is_told_to_keep_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let text = |mode: &str| {
        let journal = dir.path().join("journal");
        format!(
            "[protect]\nmode = \"{mode}\"\njournal = {journal:?}\nagents = [\"10.0.0.1\"]\n[protect.speaker]\n\
             gobgp = \"127.0.0.1:50051\"\nnext_hop = \"192.0.2.1\"\n[protect.access]\ntokens = \"/dev/null\"\n\
             [protect.groups.web]\nnetworks = [\"198.51.100.0/24\"]\nthresholds.udp_flood.packets = \"40k/s\"\n"
        )
    };
    let warnings = |text: &str| {
        let document = Document::parse("sflow.toml", text).unwrap();
        check::settings(document.read().unwrap(), &document, false).unwrap().warnings
    };
    let said = warnings(&text("automatic"));
    assert!(said.len() == 1 && said[0].starts_with("sflow.toml:1: protect: without `state`"), "{said:?}");
    assert!(said[0].contains("for 1m every attack"), "{said:?}");
    let state = format!("state = {:?}\n", dir.path().join("state"));
    assert!(warnings(&text("observe")).is_empty() && warnings(&(state + &text("automatic"))).is_empty());
    // It would overwrite the journal.
    let journal = format!("state = {:?}\n", dir.path().join("journal")) + &text("observe");
    let document = Document::parse("sflow.toml", &journal).unwrap();
    let why = check::settings(document.read().unwrap(), &document, false).unwrap_err().to_string();
    assert!(why.starts_with("sflow.toml:1: state: the journal of [protect]"), "{why}");
}
