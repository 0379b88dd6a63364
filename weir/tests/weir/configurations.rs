//! What people get wrong in a file, in every room: each mistake is a line with file, line and key.

use weir_testbed::Ended;

use crate::sflow::serve::File;
use crate::weir;

/// Commands, and files with a mistake.
const WRONG: &[(&str, &str)] = &[
    ("tee", "[[listner]]\n"),
    (
        "tee",
        "workers = \"2\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n",
    ),
    (
        "tee",
        "workers = 100000\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n",
    ),
    ("tee", "[[listener]]\nadress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n"),
    ("tee", "[[listener]]\naddress = \"127.0.0.1\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n"),
    ("tee", "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1\"\n"),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\nqueue = \"1\"\n",
    ),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\nqueue = \"5 apples\"\n",
    ),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\nsource = \"keep\"\n",
    ),
    ("tee", "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\nrate = 5\n"),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n",
    ),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n[[rule]]\nto = \"b\"\n",
    ),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n[[rule]]\nfrom = \"10.0.0.0/33\"\nto = \"a\"\n",
    ),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n[[group]]\nname = \"g\"\nmembers = []\n",
    ),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\nprobe = \"http\"\n",
    ),
    ("tee", "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\nttl = 0\n"),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\ndscp = 64\n",
    ),
    ("tee", "[listener]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\n"),
    (
        "tee",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"a\"\nto = \"127.0.0.1:9\"\nto = \"127.0.0.1:8\"\n",
    ),
    ("sflow serve", "listen = \"6343\"\n"),
    ("sflow serve", "htpp = \"127.0.0.1:8008\"\n"),
    ("sflow serve", "[flow.a]\nkeys = \"nosuchkey\"\nvalue = \"bytes\"\n"),
    ("sflow serve", "[flow.a]\nvalue = \"bytes\"\nkeys = \"ipsource\"\nfilter = \"ipsource=\"\n"),
    ("sflow serve", "[limits]\nagents = -1\n"),
    ("sflow serve", "[threshold.b]\nmetric = \"ifinoctets\"\n"),
    ("sflow serve", "[group.sites]\na = [\"10.1.0.0/8\"]\n"),
    ("sflow serve", "allow = [\"x\"]\n"),
    ("sflow serve", "admin = true\n"),
    ("sflow serve", "[[destination]]\nto = \"nowhere\"\n"),
    ("sflow serve", "[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"0\"\n"),
    ("sflow serve", "[protect.groups.web]\nnetworks = [\"192.0.2.0/33\"]\nthresholds.udp_flood.packets = \"40k/s\"\n"),
    (
        "sflow serve",
        "[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"40k/s\"\n[protect]\nmode = \"manuel\"\n",
    ),
    (
        "sflow serve",
        "[protect]\nmode = \"manuel\"\n[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"40k/s\"\n",
    ),
    ("sflow serve", "[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.pakets = \"40k/s\"\n"),
    (
        "sflow serve",
        "[protect]\nfalse_alarms = \"1/s\"\n[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"40k/s\"\n",
    ),
    (
        "sflow serve",
        "[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"40k/s\"\n[protect.caps]\nshare = 0.05\n",
    ),
    (
        "sflow serve",
        "[protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"40k/s\"\n[protect.speaker]\ngobgp = \"gobgp\"\n",
    ),
    ("sflow agent", ""),
    ("sflow agent", "[[collector]]\nto = \"192.0.2.7\"\n[[collector]]\nto = \"192.0.2.7\"\n"),
    ("sflow agent", "polling = \"10ms\"\n[[collector]]\nto = \"192.0.2.7\"\n"),
    ("sflow agent", "interfaces = [\"a b\"]\n[[collector]]\nto = \"192.0.2.7\"\n"),
    ("sflow agent", "samples = \"0/s\"\n[[collector]]\nto = \"192.0.2.7\"\n"),
    ("sflow agent", "sampling = 99999999\n[[collector]]\nto = \"192.0.2.7\"\n"),
    ("sflow agent", "agent = \"::\"\n[[collector]]\nto = \"192.0.2.7\"\n"),
    ("sflow agent", "pooling = \"10s\"\n[[collector]]\nto = \"192.0.2.7\"\n"),
    ("sflow agent", "[[collector]]\nto = \"192.0.2.7:x\"\n"),
    ("sflow agent", "[[collector]]\n"),
    ("sflow agent", "user = \"no-such-user\"\n[[collector]]\nto = \"192.0.2.7\"\n"),
    ("monitor station", "to = []\n"),
    ("monitor station", "to = [\"host\"]\n"),
    ("monitor station", "to = [\"239.1.1.1\", \"239.1.1.1\"]\n"),
    ("monitor station", "delay = \"0\"\n"),
    ("monitor station", "dscp = 64\n"),
    ("monitor station", "[[source]]\nkind = \"sinus\"\nname = \"a\"\n"),
    ("monitor station", "[[source]]\nkind = \"sine\"\n"),
    ("monitor station", "[[source]]\nkind = \"sine\"\nname = \"a\"\nlisten = \"127.0.0.1:1\"\n"),
    ("monitor station", "[[source]]\nkind = \"sine\"\nname = \"a\"\nrate = \"2M/s\"\n"),
    ("monitor station", "[[source]]\nkind = \"sine\"\nname = \"a\"\n[[source]]\nkind = \"sine\"\nname = \"a\"\n"),
    ("monitor station", "[[source]]\nkind = \"sine\"\nname = \"a\"\nphase = nan\n"),
    (
        "monitor station",
        "[[source]]\nkind = \"sine\"\nname = \"a\"\n[[channel]]\nname = \"a\"\nlow = 2.0\nhigh = 1.0\n",
    ),
    ("monitor station", "[[source]]\nkind = \"udp\"\nlisten = \"127.0.0.1:1\"\nformat = \"csv\"\n"),
    ("monitor serve", "htpt = \"127.0.0.1:8010\"\n"),
    ("monitor serve", "stale = 5\n"),
    ("monitor serve", "[[derive]]\nname = \"p\"\nexpression = \"{a/b} +\"\n"),
    ("monitor serve", "[[limit]]\nchannel = \"a\"\nhigh = \"x\"\n"),
    ("monitor record", "cut_size = \"1KiB\"\n"),
    ("monitor record", "queue = \"1MiB\"\n"),
    ("monitor record", "senders = []\n"),
    ("monitor record", "prefix = \"../a\"\n"),
    ("monitor record", "[[listen]]\naddress = \"127.0.0.1:1\"\ninterface = \"eth0\"\n"),
    ("monitor record", "cut_after = \"10ms\"\nprefx = \"a\"\n"),
];

#[test]
fn each_mistake_is_a_line_that_names_file_line_and_key() {
    let mut said = String::new();
    for (command, text) in WRONG {
        let file = File::new(text);
        let path = file.path();
        let arguments: Vec<&str> = command.split(' ').chain(["-c", &path, "--check"]).collect();
        let ended = Ended::of(&mut weir(&arguments));
        assert_eq!((ended.status, &*ended.stdout), (Some(2), ""), "{command}: {text}{}", ended.stderr);
        // Below an expression there is a caret.
        for line in ended.stderr.lines() {
            let line = line.strip_prefix(&format!("weir: {path}")).or(line.starts_with("  ").then_some(line));
            said += &format!("{command}{}\n", line.unwrap_or_else(|| panic!("{command}: {text}{}", ended.stderr)));
        }
    }
    insta::assert_snapshot!(said);
}
