//! Samples that somebody made up.

use std::time::Duration;

use serde_json::Value;

use super::agent::Agent;
use super::{FLOOD, HOST, Scene};

/// Whose name, which part of the device, from where; what is told of it.
const FORGERS: [(&str, u32, &str, &str); 4] = [
    // From elsewhere, in the name of the one that is heard.
    ("127.0.0.11", 0, "127.0.0.99", "unlisted"),
    // From its own address, with a sequence of its own.
    ("127.0.0.11", 0, "127.0.0.11", "rival"),
    // One that is on the list, from its address, without counters.
    ("127.0.0.12", 0, "127.0.0.12", "uncounted"),
    // One that is not.
    ("127.0.0.66", 0, "127.0.0.66", "unlisted"),
];

/// Nothing is announced by itself on a forger's word, whoever he says he is.
fn forge(forgers: &[(&str, u32, &str, &str)]) {
    for &(agent, sub_agent, from, what) in forgers {
        let mut scene = Scene::new("automatic", "\"192.0.2.0/24\"", "");
        let to = scene.serve.address();
        let mut forger = Agent::new(agent, from).part(sub_agent).booted(900_000_000);
        // The honest one goes on meanwhile: a step of each in turn.
        let heard = |ledger: &Value| ledger["received"]["datagrams"].as_u64().unwrap();
        let before = heard(&scene.serve.ledger());
        for _ in 0..40 {
            forger.flood(to, &[(HOST, FLOOD)], 40);
            scene.agent.play(to, &[(HOST, 2e3)], Duration::from_millis(60), || false);
        }
        let ledger = scene.serve.await_ledger(|ledger| heard(ledger) >= before + 80);
        assert_eq!(ledger["protect"]["announced"], 0, "{what}: {ledger:#}");
        assert!(scene.list().iter().all(|attack| attack["phase"] == "pending"), "{what}: {:#?}", scene.list());
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
