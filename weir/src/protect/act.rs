//! What is done about attacks.

use std::net::IpAddr;

use anyhow::Result;
use clap::Args;
use ipnet::IpNet;
use serde_json::{Value, json};
use weir_program::escape::escaped;
use weir_program::output::say;
use weir_units::Span;

use super::client::Client;
use crate::Outcome;

/// About one attack.
#[derive(Debug, Args)]
pub(super) struct Of {
    /// Number of the attack, as `weir protect list` has it.
    id: u64,
    #[command(flatten)]
    client: Client,
}

/// `weir protect extend`.
#[derive(Debug, Args)]
pub(super) struct Extend {
    /// Number of the attack, as `weir protect list` has it.
    id: u64,
    /// How long from now on: 30m, 2h.
    #[arg(value_name = "DURATION", value_parser = span)]
    span: Span,
    #[command(flatten)]
    client: Client,
}

/// `weir protect add`.
#[derive(Debug, Args)]
pub(super) struct Add {
    /// What gets a blackhole: an address or a prefix of a protected group.
    #[arg(value_parser = prefix)]
    prefix: IpNet,
    /// For how long: 30m, 2h.
    #[arg(value_name = "DURATION", value_parser = span)]
    span: Span,
    #[command(flatten)]
    client: Client,
}

/// About all of them.
#[derive(Debug, Args)]
pub(super) struct All {
    #[command(flatten)]
    client: Client,
}

impl Of {
    pub(super) fn run(&self, what: &str) -> Result<Outcome> {
        done(&self.client.post(&format!("/protect/attacks/{}/{what}", self.id), "")?)
    }
}

impl Extend {
    pub(super) fn run(&self) -> Result<Outcome> {
        let seconds = self.span.duration().as_secs();
        let body = json!({ "seconds": seconds }).to_string();
        done(&self.client.post(&format!("/protect/attacks/{}/extend", self.id), &body)?)
    }
}

impl Add {
    pub(super) fn run(&self) -> Result<Outcome> {
        let body = json!({ "prefix": self.prefix, "seconds": self.span.duration().as_secs() }).to_string();
        done(&self.client.post("/protect/routes", &body)?)
    }
}

/// Whoever writes a number alone here means no milliseconds.
fn span(text: &str) -> Result<Span, String> {
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte != b'0');
    if is_bare {
        return Err(format!("`{text}`: a duration needs a unit, e.g. {text}m or {text}h"));
    }
    let span = text.parse::<Span>().map_err(|why| why.to_string())?;
    // Seconds are what the service takes.
    let is_enough = span.duration().as_secs() > 0;
    is_enough.then_some(span).ok_or_else(|| format!("`{text}`: less than a second: write e.g. 30m or 2h"))
}

fn prefix(text: &str) -> Result<IpNet, String> {
    let parsed = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let prefix = parsed.map_err(|_| "write a prefix or an address, e.g. 192.0.2.7 or 2001:db8::/64".to_owned())?;
    let (meant, alone) = (prefix.trunc(), prefix.addr());
    let is_whole = meant == prefix;
    is_whole.then_some(prefix).ok_or_else(|| format!("it has bits behind its prefix: write {meant}, or {alone} alone"))
}

impl All {
    pub(super) fn run(&self, what: &str) -> Result<Outcome> {
        done(&self.client.post(&format!("/protect/{what}"), "")?)
    }
}

fn done(answer: &Value) -> Result<Outcome> {
    let told = ["done", "message", "text"].into_iter().find_map(|key| answer[key].as_str());
    say!("{}", escaped(told.unwrap_or("done")));
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_is_asked_for_its_unit_in_minutes_and_hours() {
        assert_eq!(span("7").unwrap_err(), "`7`: a duration needs a unit, e.g. 7m or 7h");
        assert_eq!(span("7m").unwrap().duration().as_secs(), 420);
        assert!(span("soon").is_err() && span("").is_err());
    }

    #[test]
    fn less_than_a_second_is_refused_as_it_is_written() {
        for text in ["500ms", "999us"] {
            assert_eq!(span(text).unwrap_err(), format!("`{text}`: less than a second: write e.g. 30m or 2h"));
        }
        assert_eq!(span("1s").unwrap().duration().as_secs(), 1);
    }
}
