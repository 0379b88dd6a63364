//! What `weir send --json` and `weir recv --json` told of their session.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// What a sender told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentSession {
    /// Messages, and announcements of the end, that the kernel took.
    pub sent: u64,
    /// Calls that failed.
    pub failed: u64,
    /// The session's number.
    pub session: u16,
    /// Where it sent to.
    pub port: u16,
}

/// What a receiver told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedSession {
    /// Datagrams it read: messages, duplicates, announcements, and those of others.
    pub received: u64,
    /// Of them, messages that came twice.
    pub duplicated: u64,
    /// What its only sender announced, and the announcements themselves as far as they came; `None`: the end was not
    /// heard, or there were several senders.
    pub announced: Option<u64>,
    /// The port it listened on.
    pub port: u16,
}

impl SentSession {
    /// Takes what `weir send --json` prints.
    ///
    /// # Errors
    /// If it is something else.
    pub fn from_json(report: serde_json::Value) -> Result<SentSession> {
        Ok(serde_json::from_value::<SentReport>(report)?.into())
    }

    /// Reads the output of `weir send --json`.
    ///
    /// # Errors
    /// If the file cannot be read or is something else.
    pub fn read(path: &Path) -> Result<SentSession> {
        let report: SentReport = parse(path, "weir send --json")?;
        ensure!(report.transport == "udp", "{}: a session over {}, not UDP", path.display(), report.transport);
        Ok(report.into())
    }
}

impl ReceivedSession {
    /// Takes what `weir recv --json` prints.
    ///
    /// # Errors
    /// If it is something else.
    pub fn from_json(report: serde_json::Value) -> Result<ReceivedSession> {
        Ok(serde_json::from_value::<ReceivedReport>(report)?.into())
    }

    /// Reads the output of `weir recv --json`.
    ///
    /// # Errors
    /// If the file cannot be read or is something else.
    pub fn read(path: &Path) -> Result<ReceivedSession> {
        let report: ReceivedReport = parse(path, "weir recv --json")?;
        ensure!(report.transport == "udp", "{}: sessions over {}, not UDP", path.display(), report.transport);
        Ok(report.into())
    }
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path, command: &str) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: not what `{command}` prints", path.display()))
}

#[derive(Deserialize)]
struct SentReport {
    transport: String,
    to: SocketAddr,
    session: u16,
    sent: u64,
    #[serde(default)]
    announcements: u64,
    errors: Vec<Failed>,
}

#[derive(Deserialize)]
struct Failed {
    operation: String,
    count: u64,
}

#[derive(Deserialize)]
struct ReceivedReport {
    transport: String,
    listen: SocketAddr,
    sessions: Vec<Received>,
    foreign: u64,
    unlisted: u64,
}

#[derive(Deserialize)]
struct Received {
    sent: Option<u64>,
    received: u64,
    duplicated: u64,
    stale: u64,
    #[serde(default)]
    announcements: u64,
}

impl From<SentReport> for SentSession {
    fn from(report: SentReport) -> Self {
        let calls = report.errors.iter().filter(|error| matches!(error.operation.as_str(), "send" | "announce"));
        SentSession {
            sent: report.sent.saturating_add(report.announcements),
            failed: calls.map(|error| error.count).fold(0, u64::saturating_add),
            session: report.session,
            port: report.to.port(),
        }
    }
}

impl From<ReceivedReport> for ReceivedSession {
    fn from(report: ReceivedReport) -> Self {
        let each = |s: &Received| [s.received, s.duplicated, s.stale, s.announcements];
        let datagrams = report.sessions.iter().flat_map(each).chain([report.foreign, report.unlisted]);
        ReceivedSession {
            received: datagrams.fold(0, u64::saturating_add),
            duplicated: report.sessions.iter().map(|session| session.duplicated).fold(0, u64::saturating_add),
            announced: match &report.sessions[..] {
                [only] => only.sent.map(|sent| sent.saturating_add(only.announcements)),
                _ => None,
            },
            port: report.listen.port(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datagram_of_a_session_is_counted() {
        let sent = r#"{"transport":"udp","to":"10.0.0.2:5000","session":7,"sent":100,"announcements":5,
            "errors":[{"operation":"send","error":"x","count":3},{"operation":"connect","error":"x","count":9}]}"#;
        let sent: SentSession = serde_json::from_str::<SentReport>(sent).unwrap().into();
        assert_eq!(sent, SentSession { sent: 105, failed: 3, session: 7, port: 5000 });
        let received = r#"{"transport":"udp","listen":"0.0.0.0:5000","foreign":1,"unlisted":0,"sessions":[
            {"sent":100,"received":90,"duplicated":2,"stale":0,"announcements":4}]}"#;
        let received: ReceivedSession = serde_json::from_str::<ReceivedReport>(received).unwrap().into();
        assert_eq!(received, ReceivedSession { received: 97, duplicated: 2, announced: Some(104), port: 5000 });
    }

    #[test]
    fn something_else_is_said_in_one_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "{}").unwrap();
        let error = SentSession::read(file.path()).unwrap_err().to_string();
        assert!(error.ends_with("not what `weir send --json` prints"), "{error}");
    }
}
