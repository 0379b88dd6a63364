//! Samples that somebody made up.

use std::time::Duration;

use serde_json::Value;

use super::agent::Agent;
use super::{FLOOD, HOST, Scene, is_on};

/// Whose name, which part of the device, from where; what is told of it.
const FORGERS: [(&str, u32, &str, &str); 5] = [
    // From elsewhere, in the name of the one that is heard.
    ("127.0.0.11", 0, "127.0.0.99", "stranger"),
    // From its own address, with a sequence of its own.
    ("127.0.0.11", 0, "127.0.0.11", "sequence"),
    // As another part of the same device, of its interface.
    ("127.0.0.11", 5, "127.0.0.11", "sequence"),
    // One that is on the list, from its address, without counters.
    ("127.0.0.12", 0, "127.0.0.12", "uncounted"),
    // One that is not.
    ("127.0.0.66", 0, "127.0.0.66", "stranger"),
];

/// Whoever forges an agent that is heard speaks against it; whoever forges another is nobody.
fn forge(forgers: &[(&str, u32, &str, &str)]) {
    for &(agent, sub_agent, from, what) in forgers {
        let mut scene = Scene::new("automatic", "\"192.0.2.0/24\"", "");
        let to = scene.serve.address();
        let mut forger = Agent::new(agent, from).part(sub_agent).booted(900_000_000);
        // The honest one goes on meanwhile: a step of each in turn. The first samples may tell of a prefix around the host.
        let (mut attack, mut rounds) = (None, 0);
        while attack.is_none() && rounds < 200 {
            if sub_agent > 0 {
                forger.tell_counters(to);
            }
            forger.flood(to, &[(HOST, FLOOD)], 40);
            scene.agent.play(to, &[(HOST, 2e3)], Duration::from_millis(60), || false);
            attack = scene.list().into_iter().find(is_on("192.0.2.7/32"));
            rounds += 1;
        }
        let attack = attack.unwrap_or_else(|| panic!("{what}: nothing was seen of it, but {:#?}", scene.serve.said()));
        assert_eq!((&attack["phase"], &attack["refused"]), (&"seen".into(), &"doubt".into()), "{what}: {attack:#}");
        let (status, said) = scene.protect(&["approve", &attack["id"].to_string()]);
        assert!(status == 1, "{what}: {said}");
        // As long as more of it is heard and judged.
        let heard = |ledger: &Value| ledger["received"]["datagrams"].as_u64().unwrap();
        let before = heard(&scene.serve.ledger());
        for _ in 0..5 {
            forger.flood(to, &[(HOST, FLOOD)], 40);
            scene.agent.play(to, &[(HOST, 2e3)], Duration::from_millis(60), || false);
        }
        let ledger = scene.serve.await_ledger(|ledger| heard(ledger) >= before + 30);
        assert_eq!(ledger["protect"]["announced"], 0, "{what}: {ledger:#}");
    }
}

#[test]
fn a_forged_agent_gets_nobody_blackholed() {
    forge(&FORGERS[..2]);
}

#[test]
#[ignore = "long: 8 s"]
fn no_forged_agent_gets_anybody_blackholed() {
    forge(&FORGERS);
}
