use super::*;
use crate::model::Mode;

fn read(text: &str) -> Result<Settings> {
    read_to(true, text)
}

fn read_to(serves: bool, text: &str) -> Result<Settings> {
    let whole = format!("[protect]\n{text}");
    let file = config::Document::parse("f.toml", &whole)?;
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        protect: Document,
    }
    let named = |name: &str| {
        let agent = "10.0.0.1".parse().ok();
        agent.filter(|_| name == "uplink").map(|agent| Point { agent, index: 3 }).into_iter().collect()
    };
    settings(&file.read::<Whole>()?.protect, &Context { file: Some(&file), at: "protect", interfaces: &named, serves })
}

const LEAST: &str = "[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"40k/s\"\n";

#[test]
fn the_least_is_observed_with_defaults() {
    let settings = read(LEAST).unwrap();
    assert_eq!((settings.mode, settings.caps.routes, settings.witnesses), (Mode::Observe, 1_000, 1));
    let group = &settings.groups["web"];
    assert_eq!((group.mode, group.levels.len()), (Mode::Observe, 1));
    assert!((settings.false_alarms.per_second() * 365.25 * 86_400.0 - 1.0).abs() < 1e-9);
}

#[test]
fn what_is_printed_means_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("journal");
    let text = format!(
        r#"mode = "automatic"
        agents = ["10.0.0.1", "10.0.1.0/24 from 192.0.2.9"]
        journal = {journal:?}
        false_alarms = "2/month"
        burst = "50ms"
        ingress = ["uplink"]
        [protect.allow]
        sources = ["203.0.113.0/24"]
        [protect.caps]
        routes = 10
        share = "7%"
        [protect.ttl]
        first = "5m"
        backoff = 3.0
        [protect.speaker]
        gobgp = "127.0.0.1:50051"
        marker = "65001:667"
        next_hop = "198.51.100.1"
        on_stop = "withdraw"
        community = "64500:666:0"
        {LEAST}
        [[protect.groups.web.levels]]
        action = "limit"
        rate = "10mbit"
        [[protect.groups.web.levels]]
        action = "blackhole"
        after = "30s"
        harm = "100%"
        "#
    );
    let settings = read(&text).unwrap();
    let printed = toml::to_string(&settings.document).unwrap();
    let again: Document = toml::from_str(&printed).unwrap();
    let context = Context {
        file: None,
        at: "protect",
        interfaces: &|_| vec![Point { agent: [10, 0, 0, 1].into(), index: 3 }],
        serves: true,
    };
    let again = super::settings(&again, &context).unwrap();
    assert_eq!(again, settings);
    assert!(
        printed.contains("hysteresis = \"1m\"")
            && printed.contains("harm = \"20%\"")
            && printed.contains("settle = \"1m\""),
        "{printed}"
    );
}

#[test]
fn who_may_ask_is_not_looked_for_where_nobody_is_served() {
    let text = format!("{LEAST}[protect.access]\ntokens = \"/nowhere/tokens\"");
    assert!(read_to(true, &text).is_err());
    assert!(read_to(false, &text).unwrap().access.is_some());
}

#[test]
fn a_mistake_is_one_line_with_its_place_and_its_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, open) = (dir.path().join("journal"), dir.path().join("tokens"));
    std::fs::write(&open, "anna act 0123").unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let short = dir.path().join("short");
    std::fs::copy(&open, &short).unwrap();
    std::fs::set_permissions(&short, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let foreign = dir.path().join("bird.conf");
    std::fs::write(&foreign, "router id 192.0.2.1;\n").unwrap();
    let agents = "agents = [\"10.0.0.1\"]\n";
    let speaker = "[protect.speaker]\ngobgp = \"127.0.0.1:50051\"\n";
    let level = |level: &str| format!("{LEAST}[[protect.groups.web.levels]]\n{level}");
    let cases: Vec<(String, &str)> = vec![
        ("mod = \"manual\"".into(), ":2: unknown key `mod`, did you mean `mode`?"),
        ("mode = \"auto\"".into(), ":2: `auto`: write one of observe, manual, automatic"),
        (String::new(), ":1: protect: nothing is protected: write [protect.groups.NAME]"),
        (
            "[protect.groups.web]\nthresholds = {}".into(),
            "protect.groups.web.networks: it has no networks: write networks",
        ),
        (
            "[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]".into(),
            "web.thresholds: it has no thresholds: write e.g.",
        ),
        (
            LEAST.replace("40k/s", "0"),
            ":4: protect.groups.web.thresholds.udp_flood.packets: 0 (it must be 1/s or more)",
        ),
        (LEAST.replace("udp_flood", "upd_flood"), ":4: `upd_flood`: write one of ip_flood"),
        (LEAST.replace("packets = \"40k/s\"", "learn = true"), "neither packets nor bits: write the least"),
        (LEAST.replace("40k/s", "40k"), ":4: `40k`: no unit `k` for a frequency"),
        (
            LEAST.replace("192.0.2.0/24", "192.0.2.7/24"),
            ":3: protect.groups.web.networks: 192.0.2.7/24 has bits after its prefix",
        ),
        (
            LEAST.replace("192.0.2.0/24", "::ffff:203.0.113.0/120"),
            ":3: protect.groups.web.networks: ::ffff:203.0.113.0/120 is IPv4 in IPv6's form, which no packet has: write \"203.0.113.0/24\"",
        ),
        (
            format!("agents = [\"::ffff:10.0.0.1\"]\n{LEAST}"),
            "protect.agents: ::ffff:10.0.0.1/128 is IPv4 in IPv6's form, which no packet has: write \"10.0.0.1/32\"",
        ),
        (LEAST.replace("udp_flood.packets", "udp_flood"), "invalid type: string \"40k/s\", expected a table"),
        (
            format!("agents = \"10.0.0.1\"\n{LEAST}"),
            ":2: protect.agents: invalid type: string \"10.0.0.1\", expected a sequence",
        ),
        (
            LEAST.replace("[\"192.0.2.0/24\"]", "\"192.0.2.0/24\""),
            ":3: protect.groups.web.networks: invalid type: string \"192.0.2.0/24\", expected a sequence",
        ),
        (format!("allow = [\"192.0.2.9\"]\n{LEAST}"), ":2: protect.allow: invalid type: sequence, expected a table"),
        (format!("{LEAST}{}", LEAST.replace("web", "mail")), "web.networks: 192.0.2.0/24 is in the group `mail`, too"),
        (format!("mode = \"automatic\"\n{LEAST}"), ":2: protect.mode: mode automatic (group `web`) needs agents"),
        (
            format!("{agents}mode = \"automatic\"\n{LEAST}"),
            ":3: protect.mode: mode automatic (group `web`) needs a speaker",
        ),
        (format!("{agents}mode = \"automatic\"\n{LEAST}{speaker}"), "needs a journal, so that a stop holds"),
        (
            format!("{agents}mode = \"manual\"\njournal = {journal:?}\n{LEAST}{speaker}"),
            "needs somebody who may approve: write [protect.access]",
        ),
        (format!("{LEAST}[protect.access]\ntokens = {open:?}"), "others may read it (chmod 600"),
        (
            format!("{LEAST}[protect.access]\ntokens = \"/nowhere/tokens\""),
            ":6: protect.access.tokens: tokens /nowhere/tokens: No such",
        ),
        (format!("{LEAST}[protect.access]\ntokens = {short:?}"), "line 1: token of anna: 32 ASCII characters at least"),
        (
            format!("{LEAST}[protect.hooks]\ncommand = [\"/nowhere/page-noc\"]"),
            ":6: protect.hooks.command: /nowhere/page-noc: No such",
        ),
        (format!("{LEAST}[protect.hooks]\ncommand = [{short:?}]"), "it may not be started: chmod +x it"),
        (
            format!("{LEAST}[protect.hooks]\ncommand = [\"no-such-program-anywhere\"]"),
            "no-such-program-anywhere: no such program in PATH: write its whole path",
        ),
        (format!("journal = {pipe:?}\n{LEAST}"), "pipe: it is not a regular file"),
        (format!("{LEAST}[protect.caps]\nunknown_harm = \"permit\""), ":6: unknown_harm is gone"),
        (
            format!("{LEAST}[protect.hooks]\nwebhook = \"https://noc/\""),
            ":6: webhook is gone: write command = [\"curl\"",
        ),
        (format!("{LEAST}[protect.hooks]\nsyslog = \"noc\""), ":6: `noc`: write ADDRESS:PORT"),
        (format!("{LEAST}[protect.hooks]\ntimeout = \"1h\""), ":6: protect.hooks.timeout: 1h"),
        (
            format!("journal = \"/nowhere/journal\"\n{LEAST}"),
            ":2: protect.journal: /nowhere/journal: directory /nowhere",
        ),
        (format!("agents = [\"10.0.0.1 via 10.0.0.2\"]\n{LEAST}"), ":2: `10.0.0.1 via 10.0.0.2`: write an agent"),
        (
            format!("ingress = [\"upstream\"]\n{LEAST}"),
            ":2: protect.ingress: no interface is called `upstream`: name it at its [[agent]]",
        ),
        (format!("false_alarms = \"never\"\n{LEAST}"), ":2: `never`: write how often, e.g. \"1/year\""),
        (format!("witnesses = 0\n{LEAST}"), ":2: protect.witnesses: 0 (it must be 1 to 16)"),
        (format!("journal = {foreign:?}\nagents = [\"10.0.0.1\"]\n{LEAST}"), ":2: protect.journal: "),
        (format!("{LEAST}[protect.caps]\nshare = \"0%\""), ":6: protect.caps.share: 0 (it must be 0.000001% to 100%)"),
        (format!("{LEAST}[protect.caps]\nroutes = 0"), ":6: protect.caps.routes: 0 (it must be 1 to 100000)"),
        (
            format!("{LEAST}[protect.ttl]\nfirst = \"2h\"\nmost = \"1h\""),
            ":6: protect.ttl.first: 2h is longer than most, 1h",
        ),
        (format!("{LEAST}[protect.ttl]\nbackoff = 0.5"), ":6: protect.ttl.backoff: 0.5 (it must be 1 to 16)"),
        (
            level("action = \"limit\""),
            ":5: protect.groups.web.levels.rate: rate is missing: write e.g. rate = \"10mbit\"",
        ),
        (level("action = \"redirect\""), "levels.to: to is missing: write e.g. to = \"65000:100\""),
        (level("action = \"drop\"\nrate = \"1mbit\""), ":7: protect.groups.web.levels.rate: it is of another action"),
        (
            level("action = \"drop\"\nafter = \"5s\""),
            ":7: protect.groups.web.levels.after: the first step is taken at once",
        ),
        (level("action = \"block\""), "`block`: write one of drop, limit, mark, redirect, blackhole"),
        (
            level(&format!("action = \"blackhole\"\n{speaker}")),
            ":6: protect.groups.web.levels.action: a blackhole needs a next hop",
        ),
        (
            format!(
                "{agents}mode = \"automatic\"\njournal = {journal:?}\n{}{speaker}next_hop = \"198.51.100.1\"\n",
                level("action = \"blackhole\"\n")
            ),
            "a blackhole hits all other traffic of its target: write harm = \"100%\"",
        ),
        (
            format!("{LEAST}{speaker}[[protect.speaker.neighbours]]\nasn = 1"),
            "neighbours is gone: gobgpd's own file has them",
        ),
        (format!("{LEAST}{speaker}next_hop = \"100::1\""), ":7: protect.speaker.next_hop: it must be an IPv4 address"),
        (format!("{LEAST}{speaker}marker = \"65536:1\""), ":7: `65536:1`: write a community"),
        (
            format!("{LEAST}[protect.speaker]\ngobgp = \"10.0.0.9:50051\""),
            ":6: protect.speaker.gobgp: 10.0.0.9:50051: its gRPC has no password",
        ),
        (
            format!("{LEAST}[protect.speaker]\ngobgp = \"localhost\""),
            ":6: protect.speaker.gobgp: `localhost`: write ADDRESS:PORT",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let told = read(&text).map_or_else(|why| why.to_string(), |_| "nothing".into());
        // Between the line and what is wrong there is the key.
        let parts = expected.strip_prefix(':').and_then(|expected| expected.split_once(": "));
        let (place, what) =
            parts.map_or(("f.toml".into(), expected), |(line, wrong)| (format!("f.toml:{line}: "), wrong));
        let is_meant = told.starts_with(&place) && told.contains(what) && told.lines().count() == 1;
        if !is_meant {
            wrong.push(format!("{told}\n    instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A next hop that leads to the router itself, to nobody or to many would lead the victim's traffic anywhere.
#[test]
fn a_next_hop_that_cannot_be_is_refused_with_its_line() {
    let v4 =
        ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "169.254.1.1", "0.1.2.3"].map(|hop| ("next_hop", hop));
    let v6 = ["::", "::1", "fe80::1", "ff02::1", "::ffff:192.0.2.1"].map(|hop| ("next_hop_v6", hop));
    for (key, hop) in v4.into_iter().chain(v6) {
        let text = format!("{LEAST}[protect.speaker]\ngobgp = \"127.0.0.1:50051\"\n{key} = \"{hop}\"");
        let told = read(&text).map(drop).unwrap_err().to_string();
        let expected = format!("f.toml:7: protect.speaker.{key}: {hop} is no next hop: write one that routers discard");
        assert!(told.starts_with(&expected), "{told}");
    }
}

/// What may be meant, and seldom is.
#[test]
fn what_would_be_found_out_in_an_attack_is_a_warning() {
    let mail = LEAST.replace("web", "mail").replace("192.0.2.0", "198.51.100.0");
    let allow = "[protect.allow]\ndestinations = [\"192.0.2.0/25\", \"192.0.2.128/25\"]\n";
    for (text, expected) in [
        (
            format!("{LEAST}{mail}{allow}"),
            Some("f.toml:3: protect.groups.web.networks: all of them are within protect.allow.destinations"),
        ),
        (
            format!("agents = [\"10.0.0.1\", \"192.0.0.0/8\"]\n{LEAST}{mail}"),
            Some(
                "f.toml:4: protect.groups.web.networks: all of them are within protect.allow.destinations or protect.agents",
            ),
        ),
        // Those in it are left alone, and nothing else is.
        (format!("agents = [\"192.0.2.1\"]\n{LEAST}{mail}"), None),
        (format!("{LEAST}{mail}"), None),
    ] {
        let warnings = read(&text).unwrap().warnings;
        assert_eq!(warnings.len(), usize::from(expected.is_some()), "{text}: {warnings:?}");
        assert!(expected.is_none_or(|expected| warnings[0].starts_with(expected)), "{warnings:?}");
    }
}

/// What a message suggests is in it as the file has it, and does in the place of the mistake.
#[test]
fn what_a_message_suggests_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("journal");
    let speaker = "[protect.speaker]\ngobgp = \"127.0.0.1:50051\"\n";
    let hops = "next_hop = \"198.51.100.1\"\n";
    let beside = |key: &str| format!("{key} = @\n{LEAST}");
    let table = |table: &str, key: &str| format!("{LEAST}[protect.{table}]\n{key} = @\n");
    let threshold = |key: &str| LEAST.replace("packets = \"40k/s\"", &format!("{key} = @"));
    let level = |rest: &str| format!("{LEAST}[[protect.groups.web.levels]]\n{rest}");
    let second =
        |rest: &str| level(&format!("action = \"drop\"\n[[protect.groups.web.levels]]\naction = \"drop\"\n{rest}"));
    let blackhole = level("action = \"blackhole\"\n");
    let automatic =
        format!("agents = [\"10.0.0.1\"]\nmode = \"automatic\"\njournal = {journal:?}\n{blackhole}@\n{speaker}{hops}");
    let cases: Vec<(String, &str, &[&str])> = vec![
        // Numbers alone.
        (beside("burst"), "150", &["\"150ms\""]),
        (beside("settle"), "60", &["\"60s\""]),
        (table("ttl", "first"), "60", &["\"60s\""]),
        (table("ttl", "most"), "3600", &["\"3600s\""]),
        (table("ttl", "hysteresis"), "60", &["\"60s\""]),
        (table("hooks", "timeout"), "5", &["\"5s\""]),
        (second("after = @"), "30", &["\"30s\""]),
        (threshold("packets"), "40000", &["\"40000/s\""]),
        (threshold("bits"), "500", &["\"500mbit\""]),
        (threshold("bits"), "500000000", &["\"500000000bit\""]),
        (level("action = \"limit\"\nrate = @"), "10", &["\"10mbit\""]),
        (table("caps", "share"), "5", &["\"5%\""]),
        (table("caps", "share"), "0.05", &["\"5%\""]),
        (table("caps", "harm"), "1.0", &["\"100%\""]),
        (table("caps", "harm"), "1", &["\"1%\"", "\"100%\""]),
        (table("caps", "harm"), "150", &["\"0%\"", "\"100%\""]),
        (level("action = \"drop\"\nharm = @"), "0.2", &["\"20%\""]),
        // What is no such thing at all.
        (beside("false_alarms"), "\"never\"", &["\"1/year\"", "\"0.5/month\"", "\"2/week\"", "\"1/day\""]),
        (table("speaker", "gobgp"), "\"10.0.0.9:50052\"", &["\"127.0.0.1:50052\"", "\"[::1]:50052\""]),
        (format!("{LEAST}{speaker}marker = @"), "\"1\"", &["\"65535:666\""]),
        (format!("{LEAST}{speaker}next_hop = @"), "\"100::1\"", &["\"192.0.2.1\""]),
        (format!("{LEAST}{speaker}next_hop_v6 = @"), "\"192.0.2.1\"", &["\"100::1\""]),
        (level("action = \"redirect\"\nto = @"), "\"1\"", &["\"65000:100\""]),
        // What is out of bounds.
        (beside("witnesses"), "17", &["1", "16"]),
        (table("caps", "routes"), "0", &["1", "100000"]),
        (table("caps", "prefixes"), "0", &["1", "100000"]),
        (table("ttl", "backoff"), "17", &["1", "16"]),
        (threshold("packets = \"40k/s\"\nthresholds.udp_flood.ratio"), "0.5", &["1", "100"]),
        (threshold("packets = \"40k/s\"\nthresholds.udp_flood.spread"), "2", &["0", "1"]),
        (threshold("packets = \"40k/s\"\nthresholds.udp_flood.min_sources"), "0", &["1", "1000"]),
        (level("action = \"mark\"\ndscp = @"), "64", &["0", "63"]),
        // What is missing.
        (level("action = \"limit\"\n@"), "", &["rate = \"10mbit\""]),
        (level("action = \"mark\"\n@"), "", &["dscp = 8"]),
        (level("action = \"redirect\"\n@"), "", &["to = \"65000:100\""]),
        (format!("{blackhole}{speaker}@"), "", &["next_hop = \"192.0.2.1\""]),
        (automatic, "", &["harm = \"100%\""]),
    ];
    for (text, mistake, suggested) in cases {
        let told = read(&text.replace('@', mistake)).map_or_else(|why| why.to_string(), |_| "nothing".into());
        for one in suggested {
            assert!(told.contains(one), "{told}: {one}");
            let taken = read(&text.replace('@', one)).map(drop).map_err(|why| why.to_string());
            assert_eq!(taken, Ok(()), "{told}: {one}");
        }
    }
    let group = "[protect.groups.\"my web\"]\nnetworks = [\"192.0.2.0/24\"]\n";
    let told = read(group).map(drop).unwrap_err().to_string();
    let line = "thresholds.udp_flood.packets = \"40k/s\"";
    assert!(told.contains(line), "{told}");
    read(&format!("{group}{line}\n")).unwrap();
}
