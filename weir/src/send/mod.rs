//! `weir send`: numbered, timestamped messages to `weir recv`.

pub(crate) mod intervals;
mod reverse;
pub(crate) mod summary;

use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weir_program::stop::Stop;
use weir_traffic::{Exchange, Pacing, SendReport, Sender, SenderSettings, Transport, in_words};
use weir_units::{BitRate, Frequency, Span};

use crate::account::{End, OwnTraffic, print_with_account};
use crate::files;
use crate::messages::Rows;
use crate::{Outcome, usage};

/// `weir send`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir send --to 192.0.2.7:5000 --payload 1000B --interval 10ms --duration 60s
  weir send --to [2001:db8::7]:5000 --transport tcp --rate 10mbit --json
  weir send --to 192.0.2.7:5000 -n 1000 -P 4 --dscp ef --every 1s
  weir send --to 192.0.2.7:5000 --reverse --rate 100/s --every 1s
  weir send --to 239.1.1.1:5000 --interface eth0 --ttl 4

Start `weir recv --listen 0.0.0.0:5000` on the other machine first: it reports what arrived.")]
pub(super) struct Send {
    #[command(flatten)]
    settings: SenderSettings,
    /// Messages per second (100/s, 50k/s) or payload bits per second (10mbit).
    #[arg(long, conflicts_with = "interval")]
    rate: Option<SendRate>,
    /// When the next message is due [default: sleep; with --rate: schedule].
    #[arg(long, value_enum)]
    pacing: Option<Pacing>,
    /// Run this many senders, with their own sockets and consecutive sessions.
    #[arg(long, short = 'P', value_name = "SENDERS", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=128))]
    parallel: u16,
    /// UDP, TCP: receive instead, from `weir recv --allow-reverse` (needs TCP too).
    #[arg(long, short = 'R', conflicts_with_all = ["bidir", "quantum"])]
    reverse: bool,
    /// UDP, TCP: send both ways at once, with `weir recv --allow-reverse`.
    #[arg(long)]
    bidir: bool,
    /// Write the first 4 million messages of each sender to this CSV file.
    #[arg(long, value_name = "FILE", value_parser = files::csv())]
    messages: Option<PathBuf>,
    /// Print one line of results per interval of this length.
    #[arg(long, value_name = "SPAN", value_parser = interval)]
    every: Option<Duration>,
    /// UDP: also print this host's `weir loss account` of the datagrams.
    #[arg(long, conflicts_with_all = ["reverse", "bidir"])]
    account: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Send {
    pub(super) fn run(self) -> Result<Outcome> {
        let all = self.all_settings();
        let settings = &all[0];
        usage(self.check(&all))?;
        let stop = Stop::on_signals().context("handle Ctrl-C")?;
        if self.reverse || self.bidir {
            return self.converse(&all, &stop);
        }
        let exchanges = all.iter().map(|_| Exchange::new(settings.drain)).collect::<io::Result<Vec<_>>>();
        let exchanges = exchanges.context("open an event descriptor")?;
        let following = if self.account { Some(OwnTraffic::follow(settings.to.port())?) } else { None };
        let table = self.messages.as_deref().map(Rows::create).transpose()?;
        let senders: Vec<Sender> = all.iter().map(Sender::open).collect::<Result<_, _>>()?;
        let (reports, told): (Vec<SendReport>, _) = thread::scope(|scope| {
            let (exchanges, stop, json) = (&exchanges, &stop, self.json);
            let telling =
                self.every.map(|every| scope.spawn(move || intervals::tell(every, settings, exchanges, json)));
            let run = |(sender, exchange): (Sender, _)| scope.spawn(move || sender.run(exchange, stop));
            let running: Vec<_> = senders.into_iter().zip(exchanges).map(run).collect();
            (running.into_iter().map(joined).collect(), telling.map(joined).unwrap_or_default())
        });
        let sent: Vec<_> = all.iter().zip(&reports).collect();
        let unwritten = table.map(|table| table.finish(&sent, &[])).unwrap_or_default();
        let object = summary::object(&all, &reports, &told, unwritten.messages);
        let print = || summary::print(&object, settings, &reports);
        print_with_account(self.json, &object, (following, End::Sent), print)?;
        unwritten.judge(judge(&all, &reports))
    }

    fn check(&self, all: &[SenderSettings]) -> Result<()> {
        all.iter().try_for_each(SenderSettings::validate)?;
        let SenderSettings { transport, to, interval, payload_bytes, .. } = all[0];
        let (udp, batches) = (transport == Transport::Udp, !all[0].quantum.is_zero());
        ensure!(!self.account || udp, "--account: only over udp");
        ensure!(to.port() != 0, "--to {to}: port 0 is not a destination. Write the port of `weir recv`.");
        ensure!(all[0].congestion.is_none() || !udp, "--congestion: not over udp. Use --transport tcp or quic.");
        ensure!(!all[0].nodelay || transport == Transport::Tcp, "--nodelay: only over tcp");
        ensure!(
            self.rate.is_none() || !interval.is_zero(),
            "--rate: more than one message of {payload_bytes}B per nanosecond. Lower it, or raise --payload."
        );
        ensure!(!batches || udp, "--quantum: only over udp. TCP and QUIC send in batches by themselves.");
        ensure!(
            !batches || all[0].pacing == Pacing::Schedule,
            "--quantum: needs --pacing schedule (the default with --rate)"
        );
        let way = if self.bidir { "--bidir" } else { "--reverse" };
        if self.reverse || self.bidir {
            ensure!(
                udp || transport == Transport::Tcp,
                "{way}: not over {transport}. Use --transport udp or tcp at both ends."
            );
            ensure!(
                !to.ip().is_multicast(),
                "{way}: {} is a multicast group. Write the address of one receiver.",
                to.ip()
            );
            ensure!(self.every.is_none() || self.parallel == 1, "--every: not with both {way} and --parallel");
        }
        ensure!(
            all[0].dscp.is_none() || matches!(transport, Transport::Udp | Transport::Tcp),
            "--dscp: not over {transport}, whose library sets the field. Mark the packets with nft (`ip dscp set`)."
        );
        ensure!(
            all[0].from.is_none_or(|from| from.port() == 0 || self.parallel == 1),
            "--from: with --parallel each sender has its own port. Write port 0."
        );
        Ok(())
    }

    /// One per sender.
    fn all_settings(&self) -> Vec<SenderSettings> {
        let given = &self.settings;
        let first = SenderSettings {
            interval: self.rate.map_or(given.interval, |rate| rate.interval(given.payload_bytes)),
            pacing: self.pacing.unwrap_or(if self.rate.is_some() { Pacing::Schedule } else { Pacing::Sleep }),
            // Enough for a hiccup at the end, too short for the backlog of a rate that is too high.
            overtime: (given.duration / 100).min(Duration::from_millis(100)),
            announce: true,
            // Each report would wake up a socket that also receives.
            reports: !self.reverse && !self.bidir,
            keep_departures: if self.messages.is_some() { SenderSettings::MOST_DEPARTURES } else { 0 },
            ..given.clone()
        };
        let of = |number: u16| SenderSettings { session: first.session.wrapping_add(number), ..first.clone() };
        (0..self.parallel).map(of).collect()
    }
}

/// Fails if a connection broke or nothing was sent.
fn judge(all: &[SenderSettings], reports: &[SendReport]) -> Result<Outcome> {
    for (settings, report) in all.iter().zip(reports) {
        let broken = settings.transport.connects() && !report.errors.is_empty();
        if broken || report.sent == 0 && !report.stopped {
            bail!("send to {} {}: {}", settings.transport, settings.to, reason(report));
        }
    }
    Ok(Outcome::Done)
}

/// The result of a thread.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// `--rate`: messages or payload bits per second, not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendRate {
    Messages(Frequency),
    Bits(BitRate),
}

impl SendRate {
    fn interval(self, payload_bytes: usize) -> Duration {
        match self {
            Self::Messages(frequency) => frequency.interval().unwrap_or(Duration::MAX),
            Self::Bits(rate) => {
                let nanos = payload_bytes as u128 * 8 * 1_000_000_000 / u128::from(rate.bits_per_second.max(1));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}

impl FromStr for SendRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = if text.contains("bit") {
            text.parse().map(Self::Bits).map_err(|error| error.to_string())
        } else {
            text.parse().map(Self::Messages).map_err(|error| format!("{error}, or bits, e.g. 10mbit"))
        };
        match rate? {
            Self::Messages(Frequency { micro_hertz: 0 }) | Self::Bits(BitRate { bits_per_second: 0 }) => {
                Err(format!("`{text}`: must be above 0, e.g. 100/s or 10mbit"))
            }
            rate => Ok(rate),
        }
    }
}

/// `--every`: at least 10 ms, so that printing takes little time.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?.duration();
    if span >= Duration::from_millis(10) { Ok(span) } else { Err(format!("`{text}`: must be at least 10ms")) }
}

/// Why not all messages were sent.
fn reason(report: &SendReport) -> String {
    if report.errors.is_empty() { "nothing was sent".to_owned() } else { in_words(&report.errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_messages_or_bits() {
        let interval = |rate: &str| rate.parse::<SendRate>().map(|rate| rate.interval(1000));
        assert_eq!(interval("100/s"), Ok(Duration::from_millis(10)));
        assert_eq!(interval("50k/s"), Ok(Duration::from_micros(20)));
        assert_eq!(interval("8mbit"), Ok(Duration::from_millis(1)));
        assert_eq!(interval("0/s"), Err("`0/s`: must be above 0, e.g. 100/s or 10mbit".into()));
        assert_eq!(interval("10"), Err("`10`: a frequency needs a unit, e.g. 10/s, or bits, e.g. 10mbit".into()));
        assert!(interval("10M").unwrap_err().ends_with(", or bits, e.g. 10mbit"));
    }
}
