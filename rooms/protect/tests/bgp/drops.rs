//! Routers that were told drop, and no longer when they were told otherwise.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;

use weir_protect::model::{Action, Ports, Route, Rule};
use weir_testbed::{PATIENCE, program, skip};

use crate::network::{Network, blackhole, gobgpds, settings, spawn, until};

const TARGETS: [&str; 2] = ["10.9.2.7", "fd09:2::7"];

/// Blackhole routes of both families come, hold and go, other hosts being untouched.
fn drops(network: &Network) {
    let targets: [IpAddr; 2] = TARGETS.map(|target| target.parse().unwrap());
    let held = network.speaker(&settings());
    held.speaker.want(&[]);
    held.until_established();
    assert_eq!(targets.map(|target| network.passes(target)), [true, true]);
    held.install(&[blackhole("10.9.2.7/32"), blackhole("fd09:2::7/128")]);
    for target in targets {
        until("dropped", || !network.passes(target));
    }
    held.install(&[blackhole("fd09:2::7/128")]);
    until("passed", || network.passes(targets[0]));
    assert!(!network.passes(targets[1]));
    held.speaker.want(&[]);
    until("passed", || network.passes(targets[1]));
}

#[test]
#[ignore = "long: 8 s"]
fn bird_drops() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(_gobgpd), Some(_bird)) = (network.gobgpd(gobgpd), network.bird()) else { return };
        drops(&network);
    }
}

#[test]
fn frr_drops() {
    let Some(network) = Network::create() else { return };
    let (Some(_gobgpd), Some(zebra), Some(bgpd)) = (network.gobgpd("gobgpd"), program("zebra"), program("bgpd")) else {
        return;
    };
    // Packages would have made these groups.
    let groups = fs::read_to_string("/etc/group").unwrap() + "frr:x:9998:root\nfrrvty:x:9999:root\n";
    let groups = network.file("group", &groups);
    let start = |name: &str, program: &std::path::Path, text: &str| {
        let (file, folder) = (network.file(&format!("{name}.conf"), text), network.folder.path().display().to_string());
        let script = "mount --bind \"$0\" /etc/group; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", script]).arg(&groups).arg(program);
        command.args(["-u", "root", "-g", "root", "-f"]);
        command.arg(file).args(["-z", &format!("{folder}/zserv"), "--vty_socket", &folder, "-P", "0"]);
        command.args(["-i", &format!("{folder}/{name}.pid")]);
        spawn(&network.router, command)
    };
    let nowhere = "ip route 192.0.2.1/32 blackhole\nipv6 route 100::1/128 blackhole\n";
    network.script(&network.router, "ip route add blackhole 192.0.2.1; ip route add blackhole 100::1");
    let _zebra = start("zebra", &zebra, nowhere);
    until("zebra", || network.folder.path().join("zserv").exists());
    let _bgpd = start("bgpd", &bgpd, include_str!("frr-bgpd.conf"));
    drops(&network);
}

/// FlowSpec, as a program behind ExaBGP makes nftables of it: neither BIRD nor FRR enforces it.
#[test]
#[ignore = "long: 9 s"]
fn flowspec_is_enforced_by_exabgp_and_nft() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(_gobgpd), Some(python), Some(nft)) = (network.gobgpd(gobgpd), program("python3"), program("nft"))
        else {
            return;
        };
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers/python");
        if !fs::exists(format!("{place}/exabgp")).unwrap() {
            return skip("needs ExaBGP");
        }
        let helper = network.file("flow_to_nft.py", include_str!("flow_to_nft.py"));
        let run = format!("{} {} {}", python.display(), helper.display(), nft.display());
        let file = network.file("exabgp.conf", &include_str!("exabgp.conf").replace("@RUN@", &run));
        let mut command = Command::new(&python);
        command.args(["-m", "exabgp", "server"]).arg(file).env("PYTHONPATH", place);
        command.env("exabgp_daemon_user", "root").env("exabgp_api_cli", "false");
        let _exabgp = spawn(&network.router, command);

        let held = network.speaker(&settings());
        held.speaker.want(&[]);
        held.until_established();
        let rule = |prefix: &str| Rule {
            protocols: vec![17],
            source_ports: vec![Ports(53, 53)],
            lengths: Some((500, 1500)),
            ..Rule::to(prefix.parse().unwrap())
        };
        let route =
            |prefix| Route { rule: rule(prefix), action: Action::Drop, next_hop: None, communities: Vec::new() };
        let rules = || network.script(&network.router, "nft list chain inet flowspec forward").matches("drop").count();
        until("a chain", || fs::exists(network.folder.path().join("ready")).unwrap());
        let counts = |wanted: &[Route]| {
            held.install(wanted);
            until("rules", || rules() == wanted.len());
            TARGETS.map(|target| received(&network, target.parse().unwrap()))
        };
        assert_eq!(counts(&[]), [(20, 20); 2]);
        assert_eq!(counts(&[route("10.9.2.7/32"), route("fd09:2::7/128")]), [(0, 20); 2]);
        assert_eq!(counts(&[route("fd09:2::7/128")]), [(20, 20), (0, 20)]);
        assert_eq!(counts(&[]), [(20, 20); 2]);
    }
}

/// Of 20 long answers of a name server, and 20 short ones after each, how many come.
fn received(network: &Network, target: IpAddr) -> (usize, usize) {
    let receiver = network.victim.run(|| UdpSocket::bind((target, 9)).unwrap()).unwrap();
    let from = if target.is_ipv4() { "0.0.0.0:53" } else { "[::]:53" };
    let sender = network.attacker.run(|| UdpSocket::bind(from).unwrap()).unwrap();
    for _ in 0..20 {
        for length in [1200, 60] {
            sender.send_to(&vec![0; length], SocketAddr::new(target, 9)).unwrap();
        }
    }
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut long, mut short) = (0, 0);
    while short < 20 {
        match receiver.recv(&mut [0; 2000]).unwrap() {
            1200 => long += 1,
            _ => short += 1,
        }
    }
    (long, short)
}
