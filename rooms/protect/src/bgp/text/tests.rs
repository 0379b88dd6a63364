//! Each text is read by the program that it is for; ExaBGP writes the routes as bytes, which must be ours.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Output};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_testbed::program;
use weir_testbed::random::Source;

use super::*;
use crate::model::{Action, Icmp, TcpFlags};

const MARKER: (u16, u16) = (65001, 666);

/// Any routes, each for a host of its own, half of them IPv6.
fn routes(source: &mut Source, count: u16) -> Vec<Route> {
    (1..=count).map(|host| route(source, host)).collect()
}

fn route(source: &mut Source, host: u16) -> Route {
    let is_v6 = source.bits() & 1 == 0;
    let coin = |source: &mut Source| source.bits() & 1 == 0;
    let address = |source: &mut Source| -> IpNet {
        if is_v6 {
            let bits = u128::from(source.bits()) << 64;
            Ipv6Net::new(bits.into(), source.number(16..65) as u8).unwrap().trunc().into()
        } else {
            Ipv4Net::new((source.bits() as u32).into(), source.number(8..33) as u8).unwrap().trunc().into()
        }
    };
    let destination: IpNet = if is_v6 {
        Ipv6Net::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host)).into()
    } else {
        Ipv4Net::from(Ipv4Addr::from(0xc612_0000 + u32::from(host))).into()
    };
    let ports = |source: &mut Source| {
        let count = source.number(0..4);
        // Below, ExaBGP gives some of them names in what it prints, and then thinks that it has not understood itself.
        let one = |_| {
            let first = source.number(49_152..65_000) as u16;
            Ports(first, if source.bits() & 1 == 0 { first } else { first + source.number(1..500) as u16 })
        };
        (0..count).map(one).collect::<Vec<_>>()
    };
    let mut rule = Rule::to(destination);
    let action = match source.number(0..6) {
        0 => Action::Blackhole,
        1 => Action::Drop,
        2 => Action::Limit { bytes_per_s: source.number(10_000..1_000_000) as f32 },
        3 => Action::Mark { dscp: source.number(0..64) as u8 },
        4 => Action::Redirect { asn: 65001, number: source.number(0..1 << 32) as u32 },
        _ => Action::Redirect { asn: 70_000, number: source.number(0..65_536) as u32 },
    };
    if action != Action::Blackhole {
        rule.source = coin(source).then(|| address(source));
        rule.destination_ports = ports(source);
        rule.source_ports = ports(source);
        match source.number(0..4) {
            0 => rule.protocols = vec![17],
            1 => {
                rule.protocols = vec![if is_v6 { 58 } else { 1 }];
                rule.icmp = Some(Icmp { kind: source.bits() as u8, code: coin(source).then_some(3) });
            }
            2 => {
                rule.protocols = vec![6];
                let mask = source.number(1..256) as u8;
                rule.tcp_flags = Some(TcpFlags { mask, value: mask & source.bits() as u8 });
            }
            _ => {}
        }
        rule.lengths = coin(source).then(|| (source.number(20..500) as u16, source.number(500..1501) as u16));
        rule.dscp = coin(source).then(|| source.number(0..64) as u8);
        rule.fragment = coin(source);
    }
    let next_hop = if is_v6 { "100::1" } else { "192.0.2.1" }.parse().unwrap();
    let communities = if coin(source) { vec![(65535, 666)] } else { Vec::new() };
    Route { rule, action, next_hop: Some(next_hop), communities }
}

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {text}");
    text
}

/// What ExaBGP announces: whether it is FlowSpec and its NLRI, to the whole message.
type Announced = BTreeMap<(bool, String), String>;

#[test]
fn exabgp_announces_the_same_bytes() {
    let Some(python) = program("python3") else { return };
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers/python");
    if !fs::exists(format!("{place}/exabgp")).unwrap() {
        return weir_testbed::skip("needs ExaBGP");
    }
    let routes = routes(&mut Source::drawn(), 60);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("exabgp.conf");
    let families = "family { ipv4 unicast; ipv6 unicast; ipv4 flow; ipv6 flow; }";
    let head = "router-id 10.0.0.1; local-address 127.0.0.1; local-as 65002; peer-as 65001";
    let text = format!("neighbor 127.0.0.2 {{\n{head};\n{families}\n{}}}\n", exabgp(&routes, MARKER));
    fs::write(&file, &text).unwrap();
    let command = ["-m", "exabgp", "validate", "-n", "-r", "-v"];
    let mut command_line = Command::new(python);
    let said = run(command_line.args(command).arg(&file).env("PYTHONPATH", place));

    let mut announced = Announced::new();
    let mut update = String::new();
    for line in said.lines() {
        let bytes = |after| line.split_once(after).map(|(_, hex): (_, &str)| hex.replace(' ', "").to_lowercase());
        if let Some(hex) = bytes("parsed hex") {
            update = hex;
        } else if let (Some((_, rest)), Some(nlri)) = (line.split_once(" NLRI "), bytes("payload")) {
            announced.insert((rest.contains("flow"), nlri), update.clone());
        }
    }
    assert_eq!(announced.len(), routes.len(), "{text}");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for route in &routes {
        let Announcement { key, attributes } = Announcement::new(route, MARKER).unwrap();
        let update = announced.get(&(key.family.is_flow, hex(&key.nlri)));
        let update = update.unwrap_or_else(|| panic!("{route:?} is not in {text}"));
        let communities: String = attributes.communities.iter().map(|community| format!("{community:08x}")).collect();
        // Flags, type, length, value.
        let mut wanted = vec![format!("c008{:02x}{communities}", 4 * attributes.communities.len())];
        wanted.extend(attributes.extended.iter().map(|extended| format!("c01008{}", hex(extended))));
        if !key.family.is_flow {
            let next_hop = if key.family.is_v6 {
                format!("10{:032x}", 0x100_u128 << 112 | 1)
            } else {
                "400304c0000201".to_owned()
            };
            wanted.push(next_hop);
        }
        for wanted in wanted {
            assert!(update.contains(&wanted), "{route:?}: no {wanted} in {update}");
        }
    }
}

#[test]
fn bird_reads_them_all() {
    let Some(bird_program) = program("bird") else { return };
    let routes = routes(&mut Source::drawn(), 60);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bird.conf");
    let head = "router id 10.0.0.1;\nflow4 table flowtab4; flow6 table flowtab6;\n";
    fs::write(&file, head.to_owned() + &bird(&routes, MARKER)).unwrap();
    run(Command::new(&bird_program).arg("-p").arg("-c").arg(&file));
    // It would tell a mistake.
    fs::write(&file, head.to_owned() + &bird(&routes, MARKER).replace("route", "rout")).unwrap();
    assert!(!Command::new(&bird_program).arg("-p").arg("-c").arg(&file).output().unwrap().status.success());
}

#[test]
fn frr_reads_blackhole_routes_and_says_what_it_cannot() {
    let Some(vtysh) = program("vtysh") else { return };
    let routes = routes(&mut Source::drawn(), 60);
    let text = frr(&routes, MARKER, 65001);
    let comments = text.lines().filter(|line| line.starts_with('!')).count();
    assert_eq!(comments, routes.iter().filter(|route| route.action != Action::Blackhole).count());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frr.conf");
    fs::write(&file, &text).unwrap();
    let check = || {
        let mut command = Command::new(&vtysh);
        command.arg("-C").arg("-f").arg(&file).arg("--config_dir").arg(folder.path()).output().unwrap()
    };
    assert!(check().status.success(), "{text}");
    fs::write(&file, text.replace("blackhole", "blackhol blackhol")).unwrap();
    assert!(!check().status.success() || !text.contains("blackhole"));
}

#[test]
fn what_cannot_be_said_is_a_comment() {
    let rule = Rule::to("192.0.2.9/32".parse().unwrap());
    let route = Route { rule, action: Action::Blackhole, next_hop: None, communities: Vec::new() };
    let why = "192.0.2.9/32: a blackhole route needs a next hop (set next_hop)\n";
    assert_eq!(bird(std::slice::from_ref(&route), MARKER), format!("# {why}"));
    assert_eq!(frr(std::slice::from_ref(&route), MARKER, 65001), format!("! {why}"));
    assert_eq!(exabgp(&[route], MARKER), format!("flow {{\n  # {why}}}\n"));
}
