//! Rules of what is announced: they follow the flood, and never those who were there before.

use super::*;

const HOST: &str = "192.0.2.7/32";
const SYN: TcpFlags = TcpFlags { mask: 0x12, value: 0x02 };
const ACK: TcpFlags = TcpFlags { mask: 0x12, value: 0x10 };

/// As the detector tells of it: bare, and as narrow as this.
fn told(packets: f64, narrow: Rule) -> Detection {
    let bare = Rule::to(narrow.destination);
    Detection { rules: vec![bare, narrow], ..detection(HOST, packets) }
}

fn to_443() -> Rule {
    Rule { protocols: vec![6], destination_ports: vec![Ports(443, 443)], ..Rule::to(HOST.parse().unwrap()) }
}

fn syn() -> Rule {
    Rule { tcp_flags: Some(SYN), ..to_443() }
}

fn clients() -> Rule {
    Rule { tcp_flags: Some(ACK), source: Some("198.18.0.0/21".parse().unwrap()), ..to_443() }
}

/// A flood of 20 times the threshold ends; its rate sinks as an average does, and what comes is more and more its target's own.
#[test]
fn a_rule_never_becomes_that_of_the_clients_as_a_flood_ends() {
    for harm in [f64::NAN, 0.0, 0.2] {
        let mut scene = Scene::new(AUTOMATIC);
        scene.harm = harm;
        scene.flood(told(800e3, syn()));
        scene.pass(3.0);
        let begun = scene.guard.wanted();
        assert_eq!(begun[0].rule, syn());
        for tenth in 0..60 {
            let left = 20e3 + 780e3 * (-f64::from(tenth) / 10.0).exp();
            scene.flood(told(left, if tenth < 20 { to_443() } else { clients() }));
            scene.pass(0.1);
            assert_eq!(scene.guard.wanted(), begun, "after {tenth} tenths of a second");
        }
        scene.over(HOST);
        scene.pass(50.0);
        assert_eq!(scene.guard.wanted(), begun);
    }
}

/// Other packets of a flood that goes on have another rule, where that is known to spare the target's own as much.
#[test]
fn a_rule_follows_an_excess_that_holds() {
    let other = Rule { source_ports: vec![Ports(123, 123)], ..clients() };
    for (harm, follows) in [(0.0, true), (f64::NAN, false)] {
        let mut scene = Scene::new(AUTOMATIC);
        scene.harm = harm;
        scene.flood(told(800e3, syn()));
        scene.pass(3.0);
        for _ in 0..30 {
            scene.flood(told(700e3, other.clone()));
            scene.pass(0.1);
        }
        assert_eq!(scene.guard.wanted()[0].rule == other, follows);
    }
}

#[test]
fn a_rule_is_not_replaced_by_one_that_hits_more_of_what_came_before() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.harm = 0.1;
    scene.flood(told(800e3, syn()));
    for _ in 0..30 {
        // The narrow one is refused, the bare one would be permitted by nobody.
        scene.flood(Detection { rules: vec![Rule::to(HOST.parse().unwrap())], ..detection(HOST, 800e3) });
        scene.pass(0.1);
    }
    assert_eq!(scene.guard.wanted()[0].rule, syn());
}

/// Of a host that has just come, or by an analyser that has, nothing is known of what a rule would hit.
#[test]
fn what_is_not_known_is_no_permission() {
    let limits = |rule: Rule| {
        let mut scene = Scene::new(AUTOMATIC);
        scene.harm = f64::NAN;
        scene.flood(told(800e3, rule));
        (scene.wanted().len(), scene.limit())
    };
    let established = Rule { tcp_flags: Some(ACK), ..to_443() };
    for common in [Rule::to(HOST.parse().unwrap()), to_443(), established] {
        assert_eq!(limits(common.clone()), (0, Some("harm")), "{common:?}");
    }
    assert_eq!(limits(syn()), (1, None));
    // A person may take it upon themselves.
    let mut scene = Scene::new(AUTOMATIC);
    scene.harm = f64::NAN;
    scene.flood(told(800e3, to_443()));
    assert!(scene.attack().refusal.unwrap().why.starts_with("too little is known of the target's other traffic"));
    scene.ask(&Command::Approve { id: 1 }).unwrap();
    assert_eq!(scene.wanted().len(), 1);
}
