//! `weir protect list`: attacks, one a line.

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weir_program::escape::{escaped, write_json};
use weir_program::output::{complain, say};

use super::client::Client;
use crate::Outcome;

/// `weir protect list`.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Those that are over, too.
    #[arg(long)]
    history: bool,
    /// Print one JSON object an attack.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: Client,
}

impl List {
    pub(super) fn run(&self) -> Result<Outcome> {
        let get = |path: &str| self.client.ask("GET", &format!("/protect/{path}"), "");
        let rows = |path: &str| Ok::<_, anyhow::Error>(get(path)?.as_array().cloned().unwrap_or_default());
        let mut attacks = rows("attacks")?;
        if self.history {
            attacks.extend(rows("history")?);
        }
        if self.json {
            for attack in &attacks {
                let mut line = Vec::new();
                write_json(&mut line, attack)?;
                say!("{}", String::from_utf8_lossy(&line));
            }
            return Ok(Outcome::Done);
        }
        for remark in remarks(&get("state")?) {
            complain!("weir: {remark}");
        }
        if attacks.is_empty() {
            say!("no attack goes on");
            return Ok(Outcome::Done);
        }
        let mut lines = vec![HEAD.map(str::to_owned)];
        lines.extend(attacks.iter().map(line));
        let widths: [usize; HEAD.len()] =
            std::array::from_fn(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0));
        for line in &lines {
            let cells = line.iter().zip(widths).map(|(text, width)| format!("{text:width$}"));
            say!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        Ok(Outcome::Done)
    }
}

const HEAD: [&str; 8] = ["ID", "PHASE", "TARGET", "CLASS", "PACKETS/S", "BIT/S", "ROUTES", "ACTION"];

/// What whoever looks at attacks is to know besides.
fn remarks(state: &Value) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(by) = state["stopped"]["by"].as_str() {
        remarks.push(format!("everything was stopped by {}: `weir protect resume` goes on", escaped(by)));
    }
    if state["counts"]["switch_unwritten"] == true {
        let what = "the last stop, or its end, is not in the journal yet (tried each second)";
        remarks.push(format!("{what}: a restart would not know of it"));
    }
    if state["counts"]["alive_agents"] == 0 {
        let what = "no listed agent is heard";
        remarks.push(format!(
            "{what}: look at `agents` of [protect] (which say `from` where datagrams come from another address than the agent's), at \
             `allow`, and whether datagrams come"
        ));
    }
    if let Some(agent) = state["short"]["first"]["agent"].as_str() {
        let more = match state["short"]["points"].as_u64() {
            Some(points) if points > 1 => format!(" (and {} more, which the log names)", points - 1),
            _ => String::new(),
        };
        remarks.push(format!(
            "agent {}, interface {}{more}: samples tell of less than its counters: floods there are not seen, or late",
            escaped(agent),
            state["short"]["first"]["index"]
        ));
    }
    let speaker = &state["speaker"];
    if speaker["in_doubt"] == true {
        let text = |key: &str| escaped(speaker[key].as_str().unwrap_or_default());
        let why = speaker["why"].as_str().map(|why| format!(" ({})", escaped(why))).unwrap_or_default();
        remarks.push(format!("speaker {}: {}{why}", text("address"), text("text")));
    }
    remarks.extend(speaker["away"].as_str().map(escaped));
    remarks
}

fn line(attack: &Value) -> [String; HEAD.len()] {
    let text = |key: &str| escaped(attack[key].as_str().unwrap_or("-"));
    let count = |key: &str| attack[key].as_u64().unwrap_or(0);
    let is_announced = matches!(attack["phase"].as_str(), Some("unreachable" | "active" | "fading"));
    let routes = if is_announced { format!("{}/{}", count("installed"), count("routes")) } else { "-".into() };
    let is_over = attack["phase"] == "over";
    let action = match attack["refused"].as_str() {
        // What was done is not undone by what was found out afterwards.
        _ if is_over && attack["was_announced"] == true && count("doubts") > 0 => {
            format!("{}, doubted", text("action"))
        }
        _ if is_over && count("doubts") > 0 => "none: doubt".into(),
        Some(limit) => format!("none: {}", escaped(limit)),
        // Whoever is asked sees what it would cost.
        None if attack["phase"] == "pending" => {
            let doubt = attack["doubt"].as_str().map(|doubt| format!("{}; ", escaped(doubt))).unwrap_or_default();
            let hits = match attack["harm"].as_f64() {
                Some(share) => format!("hits {:.0} % of the other traffic", share * 100.0),
                None => "what else it hits is not known".into(),
            };
            format!("{}? {doubt}{hits}", text("action"))
        }
        None => text("action"),
    };
    [
        count("id").to_string(),
        text("phase"),
        text("target"),
        if attack["by_hand"] == true { "by hand".into() } else { text("class") },
        scaled(attack["packets"].as_f64()),
        scaled(attack["bits"].as_f64()),
        routes,
        action,
    ]
}

/// `812k`, `9.1G`.
fn scaled(value: Option<f64>) -> String {
    let Some(mut value) = value else { return "-".into() };
    let mut units = ["", "k", "M", "G", "T"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1000.0, next);
    }
    if value < 9.95 && !unit.is_empty() { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_waits_for_a_person_is_told_with_what_it_would_hit() {
        let row =
            |phase: &str, harm: Option<f64>| json!({"id": 1, "phase": phase, "action": "blackhole", "harm": harm});
        let told = |row: &Value| line(row)[HEAD.len() - 1].clone();
        assert_eq!(told(&row("pending", Some(1.0))), "blackhole? hits 100 % of the other traffic");
        assert_eq!(told(&row("pending", None)), "blackhole? what else it hits is not known");
        assert_eq!(told(&row("active", Some(1.0))), "blackhole");
        let mut doubted = row("pending", None);
        doubted["doubt"] = json!("no counters of interface 1 have come");
        assert_eq!(told(&doubted), "blackhole? no counters of interface 1 have come; what else it hits is not known");
        let over = |was_announced: bool, doubts: u64, refused: Option<&str>| json!({"id": 1, "phase": "over", "action": "drop", "was_announced": was_announced, "doubts": doubts, "refused": refused});
        for (row, expected) in [
            (over(true, 0, None), "drop"),
            (over(true, 1, None), "drop, doubted"),
            (over(false, 1, None), "none: doubt"),
            (over(false, 0, Some("harm")), "none: harm"),
        ] {
            assert_eq!(told(&row), expected);
        }
    }

    #[test]
    fn what_a_person_asked_for_is_told_as_that_and_of_no_class() {
        let row = |by_hand: bool, class: &str| json!({"id": 1, "phase": "active", "class": class, "by_hand": by_hand});
        assert_eq!(line(&row(true, "by_hand"))[3], "by hand");
        assert_eq!(line(&row(false, "ip_flood"))[3], "ip_flood");
    }

    #[test]
    fn what_is_not_as_it_should_be_is_told_in_a_line_each() {
        let speaker = json!({"address": "127.0.0.1:50051", "in_doubt": false, "text": "3 routes", "why": null});
        let fine =
            json!({"stopped": null, "counts": {"switch_unwritten": false, "alive_agents": 1}, "speaker": speaker});
        assert!(remarks(&fine).is_empty() && remarks(&json!({"speaker": null})).is_empty());
        let text = "gobgpd does not answer: 3 routes may still stand";
        let away = "1 of 2 neighbours without the routes: neighbour 192.0.2.2 (AS 65002) is Idle";
        let speaker =
            json!({"address": "127.0.0.1:50051", "in_doubt": true, "text": text, "why": "gone\u{1b}[2J", "away": away});
        let short = json!({"points": 3, "first": {"agent": "10.0.0.1", "index": 7}});
        let stopped = json!({"stopped": {"by": "anna"}, "counts": {"switch_unwritten": true, "alive_agents": 0}, "short": short, "speaker": speaker});
        assert_eq!(
            remarks(&stopped),
            [
                "everything was stopped by anna: `weir protect resume` goes on",
                "the last stop, or its end, is not in the journal yet (tried each second): a restart would not know of it",
                "no listed agent is heard: look at `agents` of [protect] (which say `from` where datagrams come from another address than the agent's), at `allow`, and whether datagrams come",
                "agent 10.0.0.1, interface 7 (and 2 more, which the log names): samples tell of less than its counters: floods there are not seen, or late",
                "speaker 127.0.0.1:50051: gobgpd does not answer: 3 routes may still stand (gone\\u{1b}[2J)",
                away,
            ]
        );
    }
}
