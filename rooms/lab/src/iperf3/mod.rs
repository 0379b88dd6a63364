//! Real iperf3 on the hosts of an emulated network: two [`programs`](crate::programs), and a parser of their JSON.
//!
//! The server prints the received bytes, the client its connections' state; both run with `-J`, because the
//! client's own figure of received bytes comes through the control connection and has no intervals. The control
//! connection and the data connections go to the same address and port; only the latter leave from
//! [`Iperf3Settings::data_port`] and the ports after it (`--cport`; iperf_create_streams in src/iperf_client_api.c of
//! github.com/esnet/iperf), so that a routing rule by source port can distinguish them.

pub(crate) mod report;
mod transfer;

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

pub use self::transfer::Transfer;
use weir_traffic::Transport;
use weir_traffic::bulk::BulkSettings;

/// Settings of a transfer by iperf3. It counts whole seconds, and reads its counters at most every 0.1 s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iperf3Settings {
    /// As for Weir's own transfer, by TCP or UDP; `block_bytes` is also the size of a datagram.
    pub bulk: BulkSettings,
    /// UDP: payload bits/s of all streams together (`-b`); `None`: as fast as it can.
    pub rate: Option<u64>,
    /// The data connections use this source port and those after it (`--cport`). `None`: the kernel chooses.
    pub data_port: Option<u16>,
}

/// Looks for the program.
///
/// # Errors
/// It is not installed: the error names its package.
pub fn find() -> Result<()> {
    let started = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
    let is_missing = started.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    ensure!(!is_missing, "{MISSING}");
    Ok(())
}

impl Iperf3Settings {
    /// Refuses what iperf3 would misread. iperf3 reports its own refusals when it runs.
    ///
    /// # Errors
    /// One line with the value and what iperf3 accepts.
    pub fn validate(&self) -> Result<()> {
        let BulkSettings { transport, duration, warmup, .. } = self.bulk;
        ensure!(matches!(transport, Transport::Tcp | Transport::Udp), "iperf3 speaks tcp and udp, not {transport}");
        for (what, time) in [("window", duration), ("warm-up", warmup)] {
            ensure!(time.subsec_nanos() == 0, "a {what} of {time:?}: iperf3 counts whole seconds");
        }
        Ok(())
    }

    /// The batches' length and number.
    fn batches(&self) -> (Duration, u32) {
        let (duration, wished) = (self.bulk.duration, self.bulk.batch.max(MIN_INTERVAL));
        let count = (duration.as_secs_f64() / wished.as_secs_f64()).round().clamp(1.0, 1e6) as u32;
        (duration / count, count)
    }

    /// The server's arguments. It ends after one transfer.
    fn server_arguments(&self) -> Vec<String> {
        let (port, interval) = (self.bulk.to.port().to_string(), self.interval_text());
        ["-s", "-1", "-J", self.family(), "-p", &port, "-i", &interval].map(str::to_owned).into()
    }

    /// The client's arguments.
    fn client_arguments(&self) -> Vec<String> {
        let BulkSettings { transport, to, streams, congestion, block_bytes, duration, warmup, .. } = &self.bulk;
        let udp = *transport == Transport::Udp;
        // The rate is per stream.
        let rate = udp.then(|| (self.rate.unwrap_or(0) / u64::from(*streams)).to_string());
        let arguments = [
            ("-c", Some(to.ip().to_string())),
            (self.family(), Some(String::new())),
            ("-p", Some(to.port().to_string())),
            ("-t", Some(duration.as_secs().to_string())),
            ("-O", (!warmup.is_zero()).then(|| warmup.as_secs().to_string())),
            ("-i", Some(self.interval_text())),
            ("-P", Some(streams.to_string())),
            ("-l", Some(block_bytes.to_string())),
            ("-b", rate),
            ("-C", congestion.clone().filter(|_| !udp)),
            ("--cport", self.data_port.map(|port| port.to_string())),
            ("--connect-timeout", Some(self.bulk.connect_timeout.as_millis().max(1).to_string())),
            ("-u", udp.then(String::new)),
            ("-J", Some(String::new())),
        ];
        let given = arguments.into_iter().filter_map(|(option, value)| Some([option.to_owned(), value?]));
        given.flatten().filter(|word| !word.is_empty()).collect()
    }

    fn family(&self) -> &'static str {
        if self.bulk.to.is_ipv4() { "-4" } else { "-6" }
    }

    /// Seconds, as `-i` reads them.
    fn interval_text(&self) -> String {
        format!("{:.3}", self.batches().0.max(MIN_INTERVAL).min(MAX_INTERVAL).as_secs_f64())
    }
}

const PROGRAM: &str = "iperf3";

const MISSING: &str =
    "iperf3: not found in PATH. Install it (apt-get install iperf3), or set traffic.engine = \"weir\".";

// Limits of src/iperf.h, the same from 3.9 to 3.20.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn settings() -> Iperf3Settings {
        of(BulkSettings { congestion: Some("cubic".into()), ..BulkSettings::new("10.0.0.2:5201".parse().unwrap()) })
    }

    pub(super) fn of(bulk: BulkSettings) -> Iperf3Settings {
        Iperf3Settings { bulk, rate: None, data_port: None }
    }

    #[test]
    fn says_it_in_the_programs_words() {
        assert_eq!(settings().server_arguments().join(" "), "-s -1 -J -4 -p 5201 -i 0.100");
        assert_eq!(
            settings().client_arguments().join(" "),
            "-c 10.0.0.2 -4 -p 5201 -t 10 -i 0.100 -P 1 -l 131072 -C cubic --connect-timeout 30000 -J"
        );
        let bulk = BulkSettings {
            to: "[fd00::2]:5202".parse().unwrap(),
            transport: Transport::Udp,
            streams: 4,
            warmup: Duration::from_secs(2),
            block_bytes: 1200,
            batch: Duration::from_millis(50),
            ..settings().bulk
        };
        let udp = Iperf3Settings { rate: Some(100_000_000), data_port: Some(5200), ..of(bulk) };
        assert_eq!(
            udp.client_arguments().join(" "),
            "-c fd00::2 -6 -p 5202 -t 10 -O 2 -i 0.100 -P 4 -l 1200 -b 25000000 --cport 5200 --connect-timeout 30000 -u -J"
        );
    }

    #[test]
    fn batches_fill_the_window() {
        let batches = |duration, interval| {
            let (duration, batch) = (Duration::from_secs(duration), Duration::from_millis(interval));
            let settings = of(BulkSettings { duration, batch, ..settings().bulk });
            (settings.batches(), settings.interval_text())
        };
        assert_eq!(batches(10, 100), ((Duration::from_millis(100), 100), "0.100".into()));
        assert_eq!(batches(10, 20), ((Duration::from_millis(100), 100), "0.100".into()));
        assert_eq!(batches(1, 300), ((Duration::from_secs(1) / 3, 3), "0.333".into()));
        assert_eq!(batches(1, 5000), ((Duration::from_secs(1), 1), "1.000".into()));
    }

    #[test]
    fn refuses_what_iperf3_would_misread() {
        let error = |bulk: BulkSettings| of(bulk).validate().unwrap_err().to_string();
        let good = || settings().bulk;
        assert!(settings().validate().is_ok());
        let duration = Duration::from_millis(1500);
        assert_eq!(error(BulkSettings { duration, ..good() }), "a window of 1.5s: iperf3 counts whole seconds");
        let warmup = Duration::from_millis(300);
        assert_eq!(error(BulkSettings { warmup, ..good() }), "a warm-up of 300ms: iperf3 counts whole seconds");
    }
}
