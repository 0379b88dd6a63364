//! One transfer: the server waits, the client runs, and both outputs are read.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;
use weir_program::clock::{Nanos, nanos, now};
use weir_program::stop::Stop;
use weir_traffic::bulk::{BulkReport, BulkSettings};
use weir_traffic::{ErrorCount, Transport, Window};

use super::report::report;
use super::{Iperf3Settings, PROGRAM};
use crate::programs::Instance;
use crate::scenario::Program;

/// A listening server, and a client that is ready to start. Both end with this.
pub struct Transfer {
    settings: Iperf3Settings,
    client: Instance,
    server: Instance,
}

impl Transfer {
    /// Starts the server on its host, and returns when it listens. The `main` of the executable `init` begins with
    /// [`init_if_asked`](weir_kernel::namespaces::process::init_if_asked).
    ///
    /// # Errors
    /// iperf3 cannot listen, or cannot do what the settings require.
    pub fn prepare(init: &Path, client_ns: &NetNs, server_ns: &NetNs, settings: &Iperf3Settings) -> Result<Self> {
        settings.validate()?;
        if let Some(name) = settings.bulk.congestion.as_ref().filter(|_| settings.bulk.transport == Transport::Tcp) {
            for ns in [client_ns, server_ns] {
                begin_with(ns, name)?;
            }
        }
        let end = |host: &str, ns: &NetNs, arguments: Vec<String>, ready: String| -> Result<Instance> {
            let run = [PROGRAM.to_owned()].into_iter().chain(arguments).collect();
            Ok(Instance::new(init, Program::new(PROGRAM, host, run, ready), host, ns.try_clone()?, None))
        };
        let listens = format!("port {}", settings.bulk.to.port());
        let client = end("client", client_ns, settings.client_arguments(), "none".into())?;
        let mut server = end("server", server_ns, settings.server_arguments(), listens)?;
        if !server.get_ready(|| false) {
            bail!("start iperf3 -s: {}", output_of(&mut server).1.unwrap_or_else(|| "it does not listen".into()));
        }
        Ok(Self { settings: settings.clone(), client, server })
    }

    /// Starts the client at the time `begin` (CLOCK_MONOTONIC) and returns when the transfer is over: at its planned
    /// end, at a stop, or when it takes too long.
    ///
    /// Errors of the transfer are in the report, in iperf3's words. iperf3 reports neither its connections' set-up
    /// times ([`BulkReport::connect`] is `None`) nor its exact window, which is computed back from its end.
    pub fn run(mut self, begin: Nanos, stop: &Stop) -> BulkReport {
        let BulkSettings { connect_timeout, warmup, duration, .. } = self.settings.bulk;
        let over = begin.saturating_add(nanos(connect_timeout + warmup + duration + GRACE));
        // When asked to end, it prints its results so far.
        self.client.conduct(begin, over, || stop.is_set());
        let (at, stopped) = (now(), stop.is_set());
        // The server prints its report once the client has gone.
        self.server.conduct(begin, at + nanos(PATIENCE), || false);
        let ((client, client_error), (server, server_error)) =
            (output_of(&mut self.client), output_of(&mut self.server));

        let is_late = at >= over;
        let complete = !stopped && !is_late && client_error.is_none();
        let mut report = report(&self.settings, &client, &server, complete);
        let version = client["start"]["version"].as_str().unwrap_or(PROGRAM);
        report.engine = format!("{version}: {PROGRAM} {}", self.settings.client_arguments().join(" "));
        report.stopped = stopped;
        let error = |operation, error: String| ErrorCount { operation, error, count: 1 };
        let by_client = match is_late {
            false => client_error.map(|said| error("iperf3 -c", said)),
            true if report.connected == 0 => Some(error("connect", "connection timed out".into())),
            true => Some(error("iperf3 -c", "did not end in time and was stopped".into())),
        };
        let by_server = server_error.filter(|_| !is_late).map(|said| error("iperf3 -s", said));
        // Their errors after a stop are only that they were ended.
        report.errors = by_client.into_iter().chain(by_server).filter(|_| !stopped).collect();
        if report.connected > 0 {
            let start = at.saturating_sub(nanos(report.used));
            report.window = Some(Window { start, end: start.saturating_add(nanos(duration)) });
        }
        report
    }
}

/// The output of an end, and its error. Some versions print a second document, or text, after the first.
fn output_of(end: &mut Instance) -> (Value, Option<String>) {
    let [stdout, stderr] = end.output();
    match stdout.first_object() {
        Some(output) => {
            let error = output["error"].as_str().map(str::to_owned);
            (output, error)
        }
        // Errors in its arguments are text, not JSON.
        None if !stderr.last_words().is_empty() => (Value::Null, Some(stderr.last_words().to_owned())),
        None => (Value::Null, Some(stdout.why_no_object(&stderr))),
    }
}

/// Lets the connections of a host begin with a congestion control, or with a harmless one.
///
/// iperf3 chooses (`-C`) once it is connected; until then the host's default is active, and bbr leaves its pacing on:
/// bbr_init (net/ipv4/tcp_bbr.c) enables it, and no other algorithm disables it. cubic then sends evenly what it would
/// send in bursts. A namespace's default can only be one that is open to everybody
/// (tcp_set_default_congestion_control); reno always is, and does not pace. iperf3 itself reports one that does not
/// exist.
fn begin_with(ns: &NetNs, name: &str) -> Result<()> {
    let set = |name| sysctl::set(ns, &[("ipv4/tcp_congestion_control", name)]);
    Ok(set(name).or_else(|_| set("reno"))?)
}

/// Max time for the server to print its report.
const PATIENCE: Duration = Duration::from_secs(5);

/// Max time for the exchange of results.
const GRACE: Duration = Duration::from_secs(10);
