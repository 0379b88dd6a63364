//! The account of a program's own traffic: followed on a thread beside it, in its own namespace.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use weir_kernel::trace::Detail;
use weir_service::stop::Stop;

use super::book::Account;
use super::follow::{Following, Sessions, Settings};
use crate::subject::Subject;

/// Follows a port while the caller does its work.
pub struct Beside {
    stop: Stop,
    thread: JoinHandle<Following>,
}

impl Beside {
    /// Begins to follow `port` in the caller's namespace, with everything that may be traced.
    ///
    /// # Errors
    /// As [`Following::start`], and out of threads or descriptors.
    pub fn start(port: u16) -> Result<Beside> {
        let subject = Subject { ports: [port].into(), ..Subject::default() };
        let settings = Settings { subject, namespaces: Vec::new(), trace: Some(Detail::Everything) };
        let mut following = Following::start(&settings)?;
        let stop = Stop::new().context("open an event descriptor")?;
        let asked = stop.clone();
        let follow = move || {
            following.watch(Instant::now() + FOREVER, &asked, |_, _| {});
            following
        };
        let thread = thread::Builder::new().name("account".into()).spawn(follow).context("start a thread")?;
        Ok(Beside { stop, thread })
    }

    /// Ends, and closes the account with what the caller counted.
    ///
    /// # Errors
    /// If the thread that followed has failed.
    pub fn end(self, sessions: &Sessions) -> Result<Account> {
        self.stop.set();
        let following = self.thread.join().map_err(|_| anyhow!("the account beside the traffic has failed"))?;
        Ok(following.close(sessions))
    }
}

/// A report as one line of JSON, with the account as its last member.
///
/// # Errors
/// If they cannot be written as JSON.
pub fn with_account(report: &impl Serialize, account: Option<&Account>) -> Result<String> {
    let report = serde_json::to_string(report)?;
    let Some(account) = account else { return Ok(report) };
    let account = serde_json::to_string(account)?;
    let open = report.strip_suffix('}').context("a report is a JSON object")?;
    Ok(format!("{open},\"account\":{account}}}"))
}

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(1 << 32);
