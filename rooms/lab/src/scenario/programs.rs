//! Programs that a scenario runs on its hosts, and its own columns.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use weir_report::columns::{Better, Statistic};
use weir_report::record::OwnColumn;
use weir_units::Span;

use super::Receivers;

/// A program that runs on a host during a cell.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Name for `[columns]`.
    pub name: String,
    /// The host, or a list of hosts: one instance on each.
    pub host: Receivers,
    /// The program and its arguments. Replaced: `{weir}` (this executable), `{NAME}` (of `[parameters]`), `{host}`.
    pub run: Vec<String>,
    /// Standard input, with the same replacements.
    #[serde(default)]
    pub stdin: String,
    /// When it is ready: `READY` (sd_notify), `port N` (it listens) or `none`.
    #[serde(default = "Program::none")]
    pub ready: String,
    /// `before` the window (and after earlier programs are ready), an offset from its start (`8s`), or `window`: at its
    /// end.
    #[serde(default = "Program::before")]
    pub start: String,
    /// When to send SIGTERM: `end` of the drain, `window`: at the end of the window, or an offset (`8s`).
    #[serde(default = "Program::end")]
    pub stop: String,
    /// When to send SIGKILL: an offset (`8s`, or a `{NAME}`) or `never`.
    #[serde(default = "Program::never")]
    pub kill: String,
    /// HTTP request to repeat while it runs.
    pub poll: Option<Poll>,
}

/// JSON that the lab requests over HTTP on the program's host: `{ every = "1s", get = "http://127.0.0.1:8008/agents/json" }`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, e.g. { every = \"1s\", get = \"http://127.0.0.1:8008/agents/json\" }"
)]
pub struct Poll {
    /// Time from one request to the next.
    pub every: Span,
    /// URL.
    pub get: String,
    /// First request, as an offset from the start of the window.
    #[serde(default)]
    pub from: Span,
}

/// A column that the scenario defines.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// An expression. What is still a series becomes a timeline.
    pub value: String,
    /// Unit, e.g. `us`, `%`, `bytes`.
    #[serde(default)]
    pub unit: String,
    /// Which values are better: `higher` or `lower`. Default: neither.
    pub better: Option<Better>,
    /// Decides when it is believed: `rate`, `mean`, `p50`, `p99`, `p999`, `max`, `counter` or `setting`.
    #[serde(default = "Column::counter")]
    pub statistic: Statistic,
}

impl Program {
    /// A program that starts at once and has no input.
    pub(crate) fn new(name: &str, host: &str, run: Vec<String>, ready: String) -> Program {
        let (name, host, stdin) = (name.to_owned(), Receivers::One(host.to_owned()), String::new());
        let (start, stop, kill) = (Program::before(), Program::end(), Program::never());
        Program { name, host, run, stdin, ready, start, stop, kill, poll: None }
    }

    fn before() -> String {
        "before".into()
    }

    fn end() -> String {
        "end".into()
    }

    fn never() -> String {
        "never".into()
    }

    fn none() -> String {
        "none".into()
    }

    /// The port on which it listens once it is ready.
    pub fn ready_port(&self) -> Option<u16> {
        self.ready.strip_prefix("port ")?.parse().ok()
    }

    /// Refuses unknown words and times after the end of the cell.
    pub fn check(&self, window: Duration, drain: Duration) -> Result<()> {
        for (key, text, words, max) in [
            ("start", &self.start, "before, window", window),
            ("stop", &self.stop, "window, end", window + drain),
            ("kill", &self.kill, "never", window + drain),
        ] {
            let Ok(offset) = text.parse::<Span>() else {
                let known = words.split(", ").any(|word| word == text);
                ensure!(known, "{key}: `{text}`: write {words}, or a time after the start, e.g. 8s");
                continue;
            };
            let cell = if key == "start" { "window" } else { "window and drain" };
            ensure!(offset.duration() <= max, "{key}: {offset} is after the {cell} of the cell, {max:?}");
        }
        let (ready, known) = (&self.ready, ["READY", "none"].contains(&&*self.ready));
        ensure!(
            known || self.ready_port().is_some(),
            "ready: `{ready}`: write READY, none, or a port, e.g. \"port 6343\""
        );
        Ok(())
    }
}

impl Column {
    /// The same for the report.
    pub fn own(&self, name: &str) -> OwnColumn {
        let Column { unit, better, statistic, .. } = self.clone();
        OwnColumn { name: name.to_owned(), unit, better, statistic }
    }

    fn counter() -> Statistic {
        Statistic::Counter
    }
}
