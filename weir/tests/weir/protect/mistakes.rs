//! Mistakes in `[protect]`: one line each, with the place and what to do. All of them: `rooms/protect/src/config/tests.rs`.

use weir_testbed::Ended;

use crate::sflow::serve::File;
use crate::weir;

const GROUP: &str = "[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"40k/s\"\n";

fn check(text: &str) -> (i32, String, String) {
    let file = File::new(text);
    let ended = Ended::of(&mut weir(&["sflow", "serve", "--check", "-c", &file.path()]));
    (ended.status.unwrap(), ended.stdout, ended.stderr)
}

#[test]
fn a_mistake_is_told_with_its_line_and_its_remedy() {
    for (text, expected) in [
        ("[protect]\n".to_owned(), ":1: protect: nothing is protected: write [protect.groups.NAME]"),
        (format!("[protect]\nmod = \"manual\"\n{GROUP}"), ":2: unknown key `mod`, did you mean `mode`?"),
        (format!("[protect]\nmode = \"manual\"\n{GROUP}"), ":2: protect.mode: mode manual (group `web`) needs agents"),
        (
            GROUP.replace("40k/s", "0"),
            ":3: protect.groups.web.thresholds.udp_flood.packets: 0 (it must be 1/s or more)",
        ),
        (GROUP.replace("udp_flood", "udp_floods"), "`udp_floods`: write one of ip_flood"),
        (GROUP.replace("/24", "/33"), ":2: protect.groups.web.networks: `192.0.2.0/33`: write a network or an address"),
        (GROUP.replace("thresholds", "treshold"), ":3: unknown key `treshold`, did you mean `thresholds`?"),
        (format!("{GROUP}{}", GROUP.replace("web", "two")), "192.0.2.0/24 is in the group `two`, too"),
        (
            format!("allow = [\"10.9.0.0/16\"]\n[protect]\nagents = [\"10.9.0.1\", \"10.0.0.1\"]\n{GROUP}"),
            ":3: protect.agents: 10.0.0.1/32: allow does not name it, and nobody would hear it",
        ),
        (
            format!("{GROUP}[protect.caps]\nshare = 0.05\n"),
            ":5: protect.caps.share: `0.05`: a share is written in percent, e.g. \"5%\"",
        ),
        (format!("[protect]\ningress = [\"wan\"]\n{GROUP}"), ":2: protect.ingress: no interface is called `wan`"),
        (format!("[protect]\nburst = \"2m\"\n{GROUP}"), ":2: protect.burst: 2m (it must be 1ms to 1m)"),
        (
            format!("[protect]\nfalse_alarms = \"1/s\"\n{GROUP}"),
            ":2: protect.false_alarms: `1/s`: write how often, e.g. \"1/year\"",
        ),
        (
            format!("[protect]\njournal = \"/nowhere/j\"\n{GROUP}"),
            ":2: protect.journal: /nowhere/j: directory /nowhere",
        ),
        (
            format!("{GROUP}[protect.access]\ntokens = \"/nowhere/t\"\n"),
            ":5: protect.access.tokens: tokens /nowhere/t: No such file",
        ),
        (
            format!("{GROUP}[protect.access]\ntokens = \"/etc/passwd\"\n"),
            ":5: protect.access.tokens: tokens /etc/passwd: others may read it",
        ),
        (format!("{GROUP}[protect.caps]\nroutes = 0\n"), ":5: protect.caps.routes: 0 (it must be 1 to 100000)"),
        (
            format!("{GROUP}[protect.ttl]\nhysteresis = \"48h\"\n"),
            ":5: protect.ttl.hysteresis: 48h is longer than most, 24h",
        ),
        (
            format!("{GROUP}[[protect.groups.web.levels]]\naction = \"limit\"\n"),
            ":4: protect.groups.web.levels.rate: rate is missing",
        ),
        (
            format!("{GROUP}[[protect.groups.web.levels]]\naction = \"nuke\"\n"),
            ":5: protect.groups.web.levels.action: `nuke`: write one of drop, limit",
        ),
        (
            format!(
                "{GROUP}[[protect.groups.web.levels]]\naction = \"blackhole\"\n[protect.speaker]\ngobgp = \"127.0.0.1:50051\"\n"
            ),
            "a blackhole needs a next hop that routers discard: write next_hop = \"192.0.2.1\"",
        ),
        (
            format!("{GROUP}[protect.speaker]\ngobgp = \"gobgp\"\n"),
            ":5: protect.speaker.gobgp: `gobgp`: write ADDRESS:PORT",
        ),
    ] {
        let (status, _, said) = check(&text);
        assert_eq!((status, said.lines().count()), (2, 1), "{text}: {said}");
        assert!(said.contains(expected), "{text}\n{said}");
    }
}

/// It is in force all the same.
#[test]
fn what_is_seldom_meant_is_a_warning() {
    let mail = GROUP.replace("web", "mail").replace("192.0.2.0", "198.51.100.0");
    let allow = "[protect.allow]\ndestinations = [\"192.0.2.0/24\"]\n";
    let (status, printed, said) = check(&format!("{GROUP}{mail}{allow}"));
    assert_eq!((status, said.lines().count()), (0, 1), "{said}");
    assert!(
        said.starts_with("weir: ") && said.contains(":2: protect.groups.web.networks: all of them are within"),
        "{said}"
    );
    assert!(printed.contains("destinations = [\"192.0.2.0/24\"]"), "{printed}");
    let (status, _, said) = check(&format!("{GROUP}thresholds.udp_flood.learn = true\n"));
    assert_eq!((status, said.lines().count()), (0, 1), "{said}");
    assert!(said.contains(":4: protect.groups.web.thresholds.udp_flood.learn: what is learnt is lost"), "{said}");
}

/// What `--check` prints is a configuration that says the same.
#[test]
fn what_is_checked_is_printed_with_every_default() {
    let (status, printed, said) = check(GROUP);
    assert_eq!(status, 0, "{said}");
    for line in ["mode = \"observe\"", "false_alarms = \"1/year\"", "share = \"5%\"", "first = \"10m\"", "ratio = 1.5"]
    {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    let (status, again, said) = check(&printed);
    assert_eq!((status, again), (0, printed), "{said}");
}
