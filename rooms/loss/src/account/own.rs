//! The account of a program's own traffic: followed on a thread beside it, in its own namespace.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use weir_program::stop::Stop;
use weir_trace::{Detail, Extras};
use weir_units::format::shown_in_json;

use super::book::Account;
use super::follow::{FollowOptions, Following, Sessions};
use crate::subject::TrafficFilter;
use crate::watch::settings::Where;

/// Follows a port while the caller does its work.
pub struct OwnTraffic {
    stop: Stop,
    thread: JoinHandle<Following>,
}

impl OwnTraffic {
    /// Begins to follow `port` in the caller's namespace, with everything that may be traced.
    ///
    /// # Errors
    /// As [`Following::start`], and out of threads or descriptors.
    pub fn follow(port: u16) -> Result<OwnTraffic> {
        let filter = TrafficFilter { ports: [port].into(), ..TrafficFilter::default() };
        let options = FollowOptions {
            filter,
            namespaces: Where::Own,
            trace: Some(Detail::Everything),
            extras: Extras::default(),
        };
        let mut following = Following::start(&options)?;
        let stop = Stop::new().context("open an event descriptor")?;
        let asked = stop.clone();
        let follow = move || {
            following.watch(Instant::now() + FOREVER, &asked, |_, _| {});
            following
        };
        let thread = thread::Builder::new().name("account".into()).spawn(follow).context("start a thread")?;
        Ok(OwnTraffic { stop, thread })
    }

    /// Ends, and closes the account with what the caller counted.
    ///
    /// # Errors
    /// If the thread that followed has failed.
    pub fn end(self, sessions: &Sessions) -> Result<Account> {
        self.stop.set();
        let mut following = self.thread.join().map_err(|_| anyhow!("the account beside the traffic has failed"))?;
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
    Ok(format!("{open},\"account\":{}}}", shown_in_json(&account)))
}

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(1 << 32);
