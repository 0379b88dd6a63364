//! What `weir send --json` and `weir recv --json` told of their session.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// What is wrong with a file of a session before the session: it is read at its end. `None`: nothing.
///
/// # Errors
/// If it will never be what it should, in one line.
pub fn before_the_session(path: &Path, is_sender: bool) -> Result<Option<String>> {
    let Ok(metadata) = fs::metadata(path) else {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        ensure!(folder.is_dir(), "{}: there is no folder {}", path.display(), folder.display());
        return Ok(Some(format!("{}: not there yet: read at the end", path.display())));
    };
    ensure!(!metadata.is_dir(), "{}: a folder", path.display());
    // A pipe can be read but once, and an empty file waits for its session.
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(None);
    }
    let read = if is_sender { SentSession::read(path).map(drop) } else { ReceivedSession::read(path).map(drop) };
    read?;
    Ok(None)
}

/// What a sender told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSession {
    /// Messages, and announcements of the end, that the kernel took.
    pub sent: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Where it sent to.
    pub port: u16,
}

/// What a receiver told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedSession {
    /// Datagrams it read: messages, duplicates, announcements, and those of others.
    pub received: u64,
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
    #[serde(default)]
    evicted_messages: u64,
}

#[derive(Deserialize)]
struct Received {
    sent: Option<u64>,
    received: u64,
    duplicated: u64,
    stale: u64,
    #[serde(default)]
    announcements: u64,
    /// Announced ends that were none.
    #[serde(default)]
    contradicted: u64,
}

impl From<SentReport> for SentSession {
    fn from(report: SentReport) -> Self {
        let calls = report.errors.iter().filter(|error| matches!(error.operation.as_str(), "send" | "announce"));
        SentSession {
            sent: report.sent.saturating_add(report.announcements),
            failed: calls.map(|error| error.count).fold(0, u64::saturating_add),
            port: report.to.port(),
        }
    }
}

impl From<ReceivedReport> for ReceivedSession {
    fn from(report: ReceivedReport) -> Self {
        let each = |s: &Received| [s.received, s.duplicated, s.stale, s.announcements, s.contradicted];
        let datagrams = report.sessions.iter().flat_map(each).chain([report.foreign, report.evicted_messages]);
        ReceivedSession {
            received: datagrams.fold(0, u64::saturating_add),
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
        assert_eq!(sent, SentSession { sent: 105, failed: 3, port: 5000 });
        let received = r#"{"transport":"udp","listen":"0.0.0.0:5000","foreign":1,"sessions":[
            {"sent":100,"received":90,"duplicated":2,"stale":0,"announcements":4}]}"#;
        let received: ReceivedSession = serde_json::from_str::<ReceivedReport>(received).unwrap().into();
        assert_eq!(received, ReceivedSession { received: 97, announced: Some(104), port: 5000 });
        let received = r#"{"transport":"udp","listen":"0.0.0.0:5000","foreign":0,"evicted_messages":325,
            "sessions":[{"sent":9,"received":9,"duplicated":0,"stale":0,"contradicted":1}]}"#;
        let received: ReceivedSession = serde_json::from_str::<ReceivedReport>(received).unwrap().into();
        assert_eq!(received.received, 335);
    }

    #[test]
    fn what_can_never_be_a_session_is_told_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sent.json");
        let told = before_the_session(&file, true).unwrap().unwrap();
        assert!(told.ends_with("sent.json: not there yet: read at the end"), "{told}");
        fs::write(&file, "").unwrap();
        assert_eq!(before_the_session(&file, true).unwrap(), None);
        // The receiver's report instead of the sender's, a folder that is not there, a folder.
        fs::write(&file, r#"{"transport":"udp","listen":"0.0.0.0:5000","foreign":1,"sessions":[]}"#).unwrap();
        assert!(before_the_session(&file, true).is_err() && before_the_session(&file, false).unwrap().is_none());
        let nowhere = before_the_session(&folder.path().join("none/sent.json"), true).unwrap_err().to_string();
        assert!(nowhere.contains("there is no folder "), "{nowhere}");
        assert!(before_the_session(folder.path(), true).is_err());
    }

    #[test]
    fn something_else_is_said_in_one_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "{}").unwrap();
        let error = SentSession::read(file.path()).unwrap_err().to_string();
        assert!(error.ends_with("not what `weir send --json` prints"), "{error}");
    }
}
