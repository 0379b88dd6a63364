//! What is in the table is what is wanted, whoever was away; what others put there stays.

use std::env;
use std::process::Command;

use weir_protect::config::document::OnStop;
use weir_protect::model::{Action, Installed, Ports, Route, Rule};
use weir_protect::settings::Speaker as Settings;
use weir_testbed::program;

use crate::network::{Network, are_installed, blackhole, blackholes, gobgpds, settings, spawn, until};

/// Another speaker's routes have another id, though the same marker: they are as anybody's.
#[test]
#[ignore = "long: 20 s"]
fn what_others_announce_stays() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(_gobgpd), Some(_bird)) = (network.gobgpd(gobgpd), network.bird()) else { return };
        let other = Settings { id: 2, on_stop: OnStop::Withdraw, ..settings() };
        let other = network.speaker(&other);
        let flow = |action| Route { action, next_hop: None, ..blackhole("10.9.4.9/32") };
        let theirs = [blackhole("10.9.4.1/32"), blackhole("fd09:2::1/128"), flow(Action::Drop)];
        other.install(&theirs);

        let held = network.speaker(&settings());
        let ours = [blackhole("10.9.4.2/32"), blackhole("10.9.4.1/32"), flow(Action::Mark { dscp: 8 })];
        // BIRD announces it, with our marker: it is BIRD's all the same.
        let from_bird = blackhole("10.9.3.1/32");
        held.speaker.want(&ours);
        held.until("an answer", |state| ours.iter().all(|route| state.installed(route) != Installed::Waiting));
        let state = held.speaker.state();
        assert!(matches!(state.installed(&ours[0]), Installed::Yes { .. }));
        for route in &ours[1..] {
            let Installed::No { why } = state.installed(route) else { panic!("{route:?}") };
            assert!(why.starts_with("gobgpd has a route of somebody else there"), "{why}");
        }
        held.until_established();
        until("theirs and ours", || network.blackholes() == 3);
        held.install(&[ours[0].clone(), from_bird]);
        held.install(&[]);
        until("theirs alone", || network.blackholes() == 2);
        assert!(are_installed(&other.speaker.state(), &theirs));
        // Theirs being gone, ours takes the place.
        held.speaker.want(&ours[1..]);
        held.until("refused", |state| matches!(state.installed(&ours[1]), Installed::No { .. }));
        drop(other);
        held.until("installed", |state| are_installed(state, &ours[1..]));
    }
}

/// Of two routes for the same packets the first counts; what cannot be announced does not hinder the rest.
#[test]
fn each_route_is_told_how_it_stands() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(_gobgpd), Some(_bird)) = (network.gobgpd(gobgpd), network.bird()) else { return };
        let held = network.speaker(&settings());
        let plain = Route { communities: Vec::new(), ..blackhole("10.9.4.1/32") };
        let impossible = Route { next_hop: None, ..blackhole("10.9.4.2/32") };
        // Its length has two bytes, which gobgpd does not read as RFC 8955, section 4.1 writes them.
        let ports = (0..100).map(|at| Ports(1000 + at, 1000 + at)).collect();
        let rule = Rule { source_ports: ports, ..Rule::to("10.9.4.3/32".parse().unwrap()) };
        let long = Route { rule, action: Action::Drop, next_hop: None, communities: Vec::new() };
        held.speaker.want(&[impossible.clone(), long.clone(), blackhole("10.9.4.1/32"), plain.clone()]);
        held.until("installed", |state| are_installed(state, &[blackhole("10.9.4.1/32")]));
        let why = |route| match held.speaker.state().installed(route) {
            Installed::No { why } => why,
            other => format!("{other:?}"),
        };
        assert_eq!(why(&impossible), "a blackhole route needs a next hop (set next_hop)");
        assert!(matches!(held.speaker.state().installed(&long), Installed::No { .. }), "{gobgpd}");
        assert_eq!(why(&plain), "another route for the same packets is wanted before it");
        // The same place with other communities: replaced.
        held.install(&[plain]);
    }
}

/// A gobgpd that has IPv4 alone.
#[test]
#[ignore = "long: 1 s"]
fn a_family_that_gobgpd_lacks_is_told() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let only = "[[global.afi-safis]]\n[global.afi-safis.config]\nafi-safi-name = \"ipv4-unicast\"\n";
        let only = format!("{only}{}", include_str!("gobgpd-neighbour.toml"));
        let (Some(_gobgpd), Some(_bird)) = (network.gobgpd_with(gobgpd, &only), network.bird()) else { return };
        let held = network.speaker(&settings());
        let flow = Route { action: Action::Drop, next_hop: None, ..blackhole("10.9.4.9/32") };
        held.speaker.want(&[flow.clone(), blackhole("10.9.4.1/32")]);
        held.until("installed", |state| are_installed(state, &[blackhole("10.9.4.1/32")]));
        let state = held.speaker.state();
        let Installed::No { why } = state.installed(&flow) else { panic!("{gobgpd}: {:?}", state.installed(&flow)) };
        assert!(why.lines().count() == 1, "{why}");
    }
}

/// What was announced is found as it was announced: another start changes nothing.
#[test]
#[ignore = "long: 3 s"]
fn what_is_there_is_not_announced_again() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(_gobgpd), Some(_bird)) = (network.gobgpd(gobgpd), network.bird()) else { return };
        let routes: Vec<Route> = crate::tshark::meant().into_iter().map(|(route, _)| route).collect();
        let since = || {
            let held = network.speaker(&settings());
            held.install(&routes);
            let state = held.speaker.state();
            routes.iter().map(|route| format!("{:?}", state.installed(route))).collect::<Vec<_>>()
        };
        let first = since();
        // gobgpd tells the time of a path in seconds.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert_eq!(since(), first, "{gobgpd}");
    }
}

/// This test in another process announces a thousand routes, and is killed while it does; what it has left is adopted, changed
/// to what is wanted then, and withdrawn.
#[test]
#[ignore = "long: 8 s"]
fn what_a_killed_weir_has_left_is_taken_over() {
    const NAME: &str = "reconcile::what_a_killed_weir_has_left_is_taken_over";
    if env::var_os("WEIR_TEST_ROLE").is_some() {
        let speaker = weir_protect::bgp::Speaker::start(&settings(), || {}).unwrap();
        loop {
            speaker.want(&blackholes(1000));
            std::thread::sleep(std::time::Duration::from_millis(5));
            speaker.want(&blackholes(500));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(_gobgpd), Some(_bird)) = (network.gobgpd(gobgpd), network.bird()) else { return };
        for _ in 0..3 {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", NAME]).env("WEIR_TEST_ROLE", "killed").arg("--include-ignored");
            let other = spawn(&network.speaker, command);
            until("some of its routes", || network.blackholes() > 300);
            drop(other);
            let held = network.speaker(&settings());
            held.install(&blackholes(700));
            until("as wanted", || network.blackholes() == 700);
            held.speaker.want(&blackholes(10));
            until("as wanted", || network.blackholes() == 10);
            let leaving = Settings { on_stop: OnStop::Withdraw, ..settings() };
            drop(held);
            assert_eq!(network.blackholes(), 10);
            let held = network.speaker(&leaving);
            held.until("a session", |state| state.speaking.connected);
            drop(held);
            until("withdrawn", || network.blackholes() == 0);
        }
    }
}

/// Somebody deletes what is ours: it comes back by itself.
#[test]
#[ignore = "long: 10 s"]
fn what_was_deleted_comes_back() {
    let Some(network) = Network::create() else { return };
    let (Some(_gobgpd), Some(_bird)) = (network.gobgpd("gobgpd"), network.bird()) else { return };
    let Some(gobgp) = program("gobgp") else { return };
    let held = network.speaker(&settings());
    held.install(&[blackhole("10.9.4.1/32")]);
    let run = |arguments: &str| network.script(&network.speaker, &format!("{} {arguments}", gobgp.display()));
    assert!(run("global rib").contains("10.9.4.1/32"));
    run("global rib del all");
    until("back", || run("global rib").contains("10.9.4.1/32"));
}
