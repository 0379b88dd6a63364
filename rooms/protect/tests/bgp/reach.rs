//! In force is what routers have: a neighbour that stands, with the family, and the path in what it was sent.

use weir_protect::bgp::State;
use weir_protect::model::{Action, Installed, Ports, Route, Rule};

use crate::network::{Network, are_installed, blackhole, blackholes, gobgpds, settings, until};

fn why(state: &State, route: &Route) -> String {
    match state.installed(route) {
        Installed::No { why } => why,
        other => format!("{other:?}"),
    }
}

fn flow() -> Route {
    let rule = Rule { source_ports: vec![Ports(53, 53)], ..Rule::to("10.9.4.9/32".parse().unwrap()) };
    Route { rule, action: Action::Drop, next_hop: None, communities: Vec::new() }
}

#[test]
fn without_a_neighbour_nothing_is_in_force() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let Some(_gobgpd) = network.gobgpd_with(gobgpd, "") else { return };
        let held = network.speaker(&settings());
        let route = blackhole("10.9.4.1/32");
        held.speaker.want(std::slice::from_ref(&route));
        held.until("an answer", |state| state.installed(&route) != Installed::Waiting);
        assert_eq!(why(&held.speaker.state(), &route), "unreachable by BGP: gobgpd has no neighbour");
    }
}

/// A neighbour that is away, then one that takes no FlowSpec.
#[test]
fn a_neighbour_has_to_stand_and_to_take_the_family() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let Some(_gobgpd) = network.gobgpd(gobgpd) else { return };
        let held = network.speaker(&settings());
        let route = blackhole("10.9.4.1/32");
        held.speaker.want(&[route.clone(), flow()]);
        held.until("an answer", |state| state.installed(&route) != Installed::Waiting);
        let told = why(&held.speaker.state(), &route);
        assert!(told.starts_with("unreachable by BGP: neighbour 10.9.0.2 (AS 65002) is "), "{told}");
        let text: String = include_str!("bird.conf")
            .lines()
            .filter(|line| !line.contains("flow"))
            .map(|line| format!("{line}\n"))
            .collect();
        let Some(_bird) = network.bird_with(&text) else { return };
        held.until("the blackhole", |state| are_installed(state, std::slice::from_ref(&route)));
        until("in the kernel", || network.blackholes() == 1);
        let told = why(&held.speaker.state(), &flow());
        assert!(told.contains("neighbour 10.9.0.2 (AS 65002) has not negotiated ipv4-flowspec"), "{told}");
    }
}

/// A router's limit of prefixes ends the session: that is known within a second, and nothing is in force any more.
#[test]
fn a_session_that_a_prefix_limit_ends_is_told_at_once() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let Some(_gobgpd) = network.gobgpd(gobgpd) else { return };
        let limited =
            include_str!("bird.conf").replace("ipv4 { gateway", "ipv4 { import limit 5 action disable; gateway");
        let Some(_bird) = network.bird_with(&limited) else { return };
        let held = network.speaker(&settings());
        held.install(&blackholes(3));
        held.speaker.want(&blackholes(20));
        held.until("the end", |state| {
            blackholes(3).iter().all(|route| why(state, route).contains("unreachable by BGP"))
        });
        let told = why(&held.speaker.state(), &blackholes(3)[0]);
        assert!(told.contains("neighbour 10.9.0.2 (AS 65002) is ") && !told.contains("Established"), "{told}");
    }
}
