//! Real iperf3 on the hosts of an emulated network: started, watched, and its JSON read.
//!
//! The server prints what was received, the client what its connections were like; both are asked (`-J`), because the
//! client's own figure of what was received comes through the control connection and has no intervals. The control
//! connection and the data connections go to the same address and port; only the latter leave from
//! [`Iperf3Settings::data_port`] and the ports behind it (`--cport`; iperf_create_streams in src/iperf_client_api.c of
//! github.com/esnet/iperf), so that a routing rule by source port can tell them apart.

pub(crate) mod report;
mod transfer;

use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

pub use self::transfer::Transfer;
use weir_traffic::Transport;

/// What a transfer by iperf3 is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iperf3Settings {
    /// Where the server listens, and the client connects to.
    pub server: SocketAddr,
    /// TCP or UDP.
    pub transport: Transport,
    /// Connections at once (`-P`), up to 128.
    pub streams: u32,
    /// TCP: congestion control by the kernel's name (`-C`); `None`: the host's default.
    pub congestion: Option<String>,
    /// Length of the measured window (`-t`): whole seconds, iperf3 reads no fractions.
    pub duration: Duration,
    /// How long to send before it (`-O`): whole seconds, likewise.
    pub warmup: Duration,
    /// Bytes handed to the kernel at once, or of a datagram (`-l`).
    pub payload: u64,
    /// UDP: payload bits/s of all streams together (`-b`); `None`: as fast as it can.
    pub rate: Option<u64>,
    /// Wished length of a batch (`-i`). iperf3 looks every 0.1 s at most: shorter ones become that.
    pub interval: Duration,
    /// The data connections leave from this port and those behind it (`--cport`); `None`: the kernel chooses.
    pub data_port: Option<u16>,
    /// Give up if the control connection (`--connect-timeout`), or by TCP a data connection, is not made by this time
    /// after the begin.
    pub connect_timeout: Duration,
}

/// Looks for the program.
///
/// # Errors
/// It is not installed (the error says which package has it), or something else answers to its name.
pub fn find() -> Result<String> {
    let output = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(MISSING),
        output => output.context("run iperf3 --version")?,
    };
    parse_version(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| "iperf3 --version: the answer is not iperf3's (another program of that name in PATH?)")
}

/// From the first line: `iperf 3.12 (cJSON 1.7.15)`.
pub(crate) fn parse_version(text: &str) -> Option<String> {
    let number = text.lines().next()?.strip_prefix("iperf ")?.split_whitespace().next()?;
    number.starts_with("3.").then(|| number.to_owned())
}

impl Iperf3Settings {
    /// Refuses what iperf3 would refuse, or misread.
    ///
    /// # Errors
    /// One line with the value and what iperf3 takes.
    pub fn validate(&self) -> Result<()> {
        let whole = |time: Duration| time.subsec_nanos() == 0;
        let longest = if self.transport == Transport::Udp { MOST_DATAGRAM } else { MOST_BLOCK };
        ensure!(
            matches!(self.transport, Transport::Tcp | Transport::Udp),
            "iperf3 speaks tcp and udp, not {}",
            self.transport
        );
        ensure!(
            (1..=MOST_STREAMS).contains(&self.streams),
            "{} streams: iperf3 makes between 1 and {MOST_STREAMS}",
            self.streams
        );
        ensure!(
            whole(self.duration) && !self.duration.is_zero(),
            "a window of {:?}: iperf3 counts whole seconds",
            self.duration
        );
        ensure!(
            whole(self.warmup) && self.warmup <= MOST_WARMUP,
            "a warm-up of {:?}: iperf3 counts whole seconds, up to {MOST_WARMUP:?}",
            self.warmup
        );
        ensure!(
            (LEAST_PAYLOAD..=longest).contains(&self.payload),
            "a payload of {}B: iperf3 sends between {LEAST_PAYLOAD}B and {longest}B at once over {}",
            self.payload,
            self.transport
        );
        let last = self.data_port.map(|first| u32::from(first) + self.streams - 1);
        ensure!(
            last.is_none_or(|last| last <= u16::MAX.into()),
            "{} streams from port {} on: the last one would be beyond 65535",
            self.streams,
            self.data_port.unwrap_or_default()
        );
        Ok(())
    }

    /// The batches' length and number.
    fn batches(&self) -> (Duration, u32) {
        let wished = self.interval.max(LEAST_INTERVAL);
        let count = (self.duration.as_secs_f64() / wished.as_secs_f64()).round().clamp(1.0, 1e6) as u32;
        (self.duration / count, count)
    }

    /// The server's arguments. One transfer, and then it ends.
    fn server_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["-s", "-1", "-J"].map(str::to_owned).into();
        arguments.extend([self.family().to_owned(), "-p".into(), self.server.port().to_string()]);
        arguments.extend(["-i".into(), self.interval_text()]);
        arguments
    }

    /// The client's arguments.
    fn client_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = vec!["-c".into(), self.server.ip().to_string(), self.family().into()];
        let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        add("-p", self.server.port().to_string());
        add("-t", self.duration.as_secs().to_string());
        if !self.warmup.is_zero() {
            add("-O", self.warmup.as_secs().to_string());
        }
        add("-i", self.interval_text());
        add("-P", self.streams.to_string());
        add("-l", self.payload.to_string());
        match (self.transport, &self.congestion) {
            // Each stream has the rate, not all of them.
            (Transport::Udp, _) => add("-b", (self.rate.unwrap_or(0) / u64::from(self.streams)).to_string()),
            (_, Some(name)) => add("-C", name.clone()),
            (_, None) => {}
        }
        if let Some(port) = self.data_port {
            add("--cport", port.to_string());
        }
        add("--connect-timeout", self.connect_timeout.as_millis().max(1).to_string());
        if self.transport == Transport::Udp {
            arguments.push("-u".into());
        }
        arguments.push("-J".into());
        arguments
    }

    fn family(&self) -> &'static str {
        if self.server.is_ipv4() { "-4" } else { "-6" }
    }

    /// Seconds, as `-i` reads them.
    fn interval_text(&self) -> String {
        format!("{:.3}", self.batches().0.max(LEAST_INTERVAL).min(MOST_INTERVAL).as_secs_f64())
    }
}

const PROGRAM: &str = "iperf3";

const MISSING: &str = "iperf3: not found in PATH \
     (install the package iperf3, e.g. apt-get install iperf3, or use traffic.engine = \"weir\")";

// Limits of src/iperf.h, the same from 3.9 to 3.20.
const MOST_STREAMS: u32 = 128;
const MOST_WARMUP: Duration = Duration::from_secs(600);
const MOST_BLOCK: u64 = 1 << 20;
const MOST_DATAGRAM: u64 = 65_507;
const LEAST_PAYLOAD: u64 = 16;
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
const MOST_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn settings() -> Iperf3Settings {
        Iperf3Settings {
            server: "10.0.0.2:5201".parse().unwrap(),
            transport: Transport::Tcp,
            streams: 1,
            congestion: Some("cubic".into()),
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            payload: 131_072,
            rate: None,
            interval: Duration::from_millis(100),
            data_port: None,
            connect_timeout: Duration::from_secs(30),
        }
    }

    #[test]
    fn says_it_in_the_programs_words() {
        assert_eq!(settings().server_arguments().join(" "), "-s -1 -J -4 -p 5201 -i 0.100");
        assert_eq!(
            settings().client_arguments().join(" "),
            "-c 10.0.0.2 -4 -p 5201 -t 10 -i 0.100 -P 1 -l 131072 -C cubic --connect-timeout 30000 -J"
        );
        let udp = Iperf3Settings {
            server: "[fd00::2]:5202".parse().unwrap(),
            transport: Transport::Udp,
            streams: 4,
            rate: Some(100_000_000),
            warmup: Duration::from_secs(2),
            payload: 1200,
            interval: Duration::from_millis(50),
            data_port: Some(5200),
            ..settings()
        };
        assert_eq!(
            udp.client_arguments().join(" "),
            "-c fd00::2 -6 -p 5202 -t 10 -O 2 -i 0.100 -P 4 -l 1200 -b 25000000 --cport 5200 --connect-timeout 30000 -u -J"
        );
    }

    #[test]
    fn batches_fill_the_window() {
        let batches = |duration, interval| {
            let settings = Iperf3Settings {
                duration: Duration::from_secs(duration),
                interval: Duration::from_millis(interval),
                ..settings()
            };
            (settings.batches(), settings.interval_text())
        };
        assert_eq!(batches(10, 100), ((Duration::from_millis(100), 100), "0.100".into()));
        assert_eq!(batches(10, 20), ((Duration::from_millis(100), 100), "0.100".into()));
        assert_eq!(batches(1, 300), ((Duration::from_secs(1) / 3, 3), "0.333".into()));
        assert_eq!(batches(1, 5000), ((Duration::from_secs(1), 1), "1.000".into()));
    }

    #[test]
    fn refuses_what_iperf3_would_misread() {
        let error = |settings: Iperf3Settings| settings.validate().unwrap_err().to_string();
        assert!(settings().validate().is_ok());
        let duration = Duration::from_millis(1500);
        assert_eq!(error(Iperf3Settings { duration, ..settings() }), "a window of 1.5s: iperf3 counts whole seconds");
        let warmup = Duration::from_millis(300);
        assert!(error(Iperf3Settings { warmup, ..settings() }).starts_with("a warm-up of 300ms: iperf3 counts whole"));
        assert_eq!(error(Iperf3Settings { streams: 129, ..settings() }), "129 streams: iperf3 makes between 1 and 128");
        let payload = 1 << 21;
        assert!(error(Iperf3Settings { payload, ..settings() }).starts_with("a payload of 2097152B: iperf3 sends"));
        let (data_port, streams) = (Some(65_535), 2);
        assert!(error(Iperf3Settings { data_port, streams, ..settings() }).contains("beyond 65535"));
    }

    #[test]
    fn reads_the_version() {
        let version = |text| parse_version(text);
        assert_eq!(version("iperf 3.12 (cJSON 1.7.15)\nLinux h1 6.1\n"), Some("3.12".into()));
        assert_eq!(version("iperf 3.17.1+ (cJSON 1.7.15)"), Some("3.17.1+".into()));
        assert_eq!(version("iperf version 2.1.9 (14 March 2023) pthreads"), None);
        assert_eq!(version(""), None);
    }
}
