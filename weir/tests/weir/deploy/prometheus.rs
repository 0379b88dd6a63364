//! The alert rules.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_norway::Value;
use weir_program::ledger::families;
use weir_service::metrics::Family;

use super::{path, read};

#[test]
fn alerts_are_on_metrics_that_there_are() {
    assert_known("prometheus/weir-tee.rules.yaml", &weir_tee::metrics::families());
    assert_known("prometheus/weir-loss.rules.yaml", &weir_loss::metrics::families());
    assert_known("prometheus/weir-sflow.rules.yaml", &families::<weir_sflow::ledger::Ledger>());
    assert_known("prometheus/weir-protect.rules.yaml", &weir_protect::metrics::families());
    assert_known("prometheus/weir-agent.rules.yaml", &families::<weir_agent::ledger::Ledger>());
    assert_known(
        "prometheus/weir-monitor.rules.yaml",
        &[weir_monitor::serve::ledger::families(), families::<weir_monitor::station::ledger::Ledger>()].concat(),
    );
}

#[test]
fn alerts_say_what_they_must() {
    let Some(promtool) = weir_testbed::program("promtool") else { return };
    let dir = tempfile::tempdir().unwrap();
    let test = dir.path().join("rules.test.yaml");
    fs::write(&test, include_str!("rules.test.yaml").replace("RULES", path("prometheus").to_str().unwrap())).unwrap();
    let output = Command::new(promtool).args(["test", "rules"]).arg(test).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
}

fn assert_known(file: &str, families: &[Family]) {
    let document: Value = serde_norway::from_str(&read(file)).unwrap();
    let known: BTreeSet<String> = families.iter().map(Family::full_name).collect();
    let rules = document["groups"][0]["rules"].as_sequence().unwrap();
    assert!(!rules.is_empty());
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(name.starts_with("Weir") && names.insert(name), "{name}");
        assert!(rule["labels"]["severity"].is_string() && rule["annotations"]["summary"].is_string(), "{name}");
        let expression = rule["expr"].as_str().unwrap();
        let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let metrics: Vec<&str> = words.filter(|word| word.starts_with("weir_")).collect();
        assert!(!metrics.is_empty(), "{name}");
        for metric in metrics {
            assert!(known.contains(metric), "{name}: {metric}");
        }
        let (open, closed) = (expression.matches('(').count(), expression.matches(')').count());
        assert_eq!(open, closed, "{name}");
    }
}
