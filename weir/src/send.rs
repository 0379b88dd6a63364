//! `weir send`: numbered, timestamped messages to a `weir recv` somewhere.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use weir_loss::account::{OwnTraffic, SentSession, Sessions};
use weir_service::clock;
use weir_service::output::say;
use weir_service::stop::Stop;
use weir_traffic::{
    ErrorCount, Exchange, Pacing, SendReport, Sender, SenderSettings, TcpSettings, Transport, in_words,
};
use weir_units::format;
use weir_units::{BitRate, Frequency, Size, Span};

use crate::loss::print_with_account;
use crate::{Outcome, usage};

/// `weir send`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir send --to 192.0.2.7:5000 --payload 1000B --interval 10ms --duration 60s
  weir send --to [2001:db8::7]:5000 --transport tcp --rate 10mbit --json
  weir send --to 239.1.1.1:5000 --interface eth0 --ttl 4

Start `weir recv --listen 0.0.0.0:5000` on the other machine first: it tells what arrived.")]
pub(super) struct Send {
    /// Where the receiver listens, e.g. 192.0.2.7:5000 or host.example:5000.
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    to: SocketAddr,
    /// What carries the messages.
    #[arg(long, value_enum, default_value = "udp")]
    transport: Transport,
    /// Bytes of a message, its 16 to 40 bytes of header included.
    #[arg(long, value_name = "SIZE", default_value = "1000B")]
    payload: Size,
    /// Time between messages [default: 10ms].
    #[arg(long, value_name = "SPAN", conflicts_with = "rate")]
    interval: Option<Span>,
    /// Messages a second (100/s, 50k/s), or payload bits a second (10mbit).
    #[arg(long)]
    rate: Option<SendRate>,
    /// When the next message is due: an interval after the last one was sent, or by a fixed schedule that makes up for
    /// late ones [default: sleep, with --rate: schedule].
    #[arg(long, value_enum)]
    pacing: Option<Pacing>,
    /// How long to send.
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    duration: Span,
    /// Number that tells these messages from another sender's [default: a random one].
    #[arg(long)]
    session: Option<u16>,
    /// Address and port to send from, e.g. 0.0.0.0:4000 to fix the port alone.
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    from: Option<SocketAddr>,
    /// TTL or hop limit of the packets [default: the host's, multicast: 1].
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    ttl: Option<u8>,
    /// Interface to send through, e.g. for a multicast group [default: where a route leads].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// TCP: congestion control, e.g. cubic or bbr [default: the host's].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// TCP: send small segments at once (switches Nagle's algorithm off).
    #[arg(long)]
    nodelay: bool,
    /// TCP: how long connecting may take.
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    connect_timeout: Span,
    /// TCP: how long to wait, when all is sent, until the receiver has it.
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    drain: Span,
    /// Send buffer to ask for (SO_SNDBUF) [default: the kernel's].
    #[arg(long, value_name = "SIZE")]
    send_buffer: Option<Size>,
    /// Print the account of every datagram, too, as `weir loss account` tells it from this host (UDP).
    #[arg(long)]
    account: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Send {
    pub(super) fn run(self) -> Result<Outcome> {
        let settings = self.settings();
        usage(settings.validate().map_err(Into::into))?;
        let of_udp = !self.account || settings.transport == Transport::Udp;
        usage(if of_udp { Ok(()) } else { Err(anyhow!("--account: only over udp")) })?;
        let stop = Stop::on_signals().context("watch for Ctrl-C")?;
        let exchange = Exchange::new(settings.drain).context("open an event descriptor")?;
        let following = if self.account { Some(OwnTraffic::follow(settings.to.port())?) } else { None };
        let report = Sender::open(&settings)?.run(&exchange, &stop);
        let summary = Summary::new(&settings, &report);
        let sessions = || -> Result<Sessions> {
            let told = serde_json::to_value(&summary)?;
            Ok(Sessions { sent: Some(SentSession::from_json(told)?), received: None })
        };
        let account = following.map(|following| following.end(&sessions()?)).transpose()?;
        print_with_account(self.json, &summary, account.as_ref(), || print(&settings, &report))?;
        let broken = settings.transport == Transport::Tcp && !report.errors.is_empty();
        if broken || report.sent == 0 && !report.stopped {
            bail!("send to {} {}: {}", settings.transport, settings.to, reason(&report));
        }
        Ok(Outcome::Done)
    }

    fn settings(&self) -> SenderSettings {
        let payload_bytes = usize::try_from(self.payload.bytes).unwrap_or(usize::MAX);
        let interval = match (self.interval, self.rate) {
            (Some(interval), _) => interval.duration(),
            (None, Some(rate)) => rate.interval(self.payload),
            (None, None) => Duration::from_millis(10),
        };
        let default_pacing = if self.rate.is_some() { Pacing::Schedule } else { Pacing::Sleep };
        SenderSettings {
            transport: self.transport,
            from: self.from,
            payload_bytes,
            interval,
            pacing: self.pacing.unwrap_or(default_pacing),
            duration: self.duration.duration(),
            session: self.session.unwrap_or_else(random_session),
            tcp: TcpSettings { congestion: self.congestion.clone(), nodelay: self.nodelay },
            ttl: self.ttl,
            interface: self.interface.clone(),
            send_buffer: self.send_buffer.map(|size| usize::try_from(size.bytes).unwrap_or(usize::MAX)),
            connect_timeout: self.connect_timeout.duration(),
            drain: self.drain.duration(),
            announce: true,
            ..SenderSettings::new(self.to)
        }
    }
}

/// `--rate`: messages or payload bits a second, not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendRate {
    Messages(Frequency),
    Bits(BitRate),
}

impl SendRate {
    fn interval(self, payload: Size) -> Duration {
        match self {
            Self::Messages(frequency) => frequency.interval().unwrap_or(Duration::MAX),
            Self::Bits(rate) => {
                let nanos = u128::from(payload.bytes) * 8 * 1_000_000_000 / u128::from(rate.bits_per_second.max(1));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}

impl FromStr for SendRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = if text.contains("bit") { text.parse().map(Self::Bits) } else { text.parse().map(Self::Messages) };
        match rate.map_err(|error| error.to_string())? {
            Self::Messages(Frequency { micro_hertz: 0 }) | Self::Bits(BitRate { bits_per_second: 0 }) => {
                Err(format!("`{text}`: nothing would be sent; write e.g. 100/s or 10mbit"))
            }
            rate => Ok(rate),
        }
    }
}

/// An address and port, or a name and port, which is looked up.
pub(super) fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let example = || format!("`{text}`: write ADDRESS:PORT, e.g. 192.0.2.7:5000 or [2001:db8::7]:5000");
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(example)?;
    if host.is_empty() || host.contains(':') || port.parse::<u16>().is_err() {
        return Err(example());
    }
    let found = text.to_socket_addrs().map_err(|error| format!("look up {host}: {error}"))?.next();
    found.ok_or_else(|| format!("look up {host}: it has no address"))
}

/// A number that another sender hardly has, too.
fn random_session() -> u16 {
    (clock::now() >> 10) as u16 ^ std::process::id() as u16
}

/// Why nothing, or not all, was sent.
fn reason(report: &SendReport) -> String {
    if report.errors.is_empty() { "nothing was sent".to_owned() } else { in_words(&report.errors) }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    transport: Transport,
    to: SocketAddr,
    from: Option<SocketAddr>,
    session: u16,
    payload_bytes: usize,
    sent: u64,
    sent_bytes: u64,
    /// Datagrams that announced the end, not in `sent`.
    announcements: u64,
    duration_s: f64,
    msgs_per_s: Option<f64>,
    mbit_per_s: Option<f64>,
    lateness_mean_us: Option<f64>,
    lateness_max_us: Option<f64>,
    blocked_s: f64,
    connect_s: Option<f64>,
    retransmits: Option<u32>,
    outstanding_bytes: Option<u64>,
    partial_bytes: u64,
    errors: &'a [ErrorCount],
    stopped: bool,
}

impl<'a> Summary<'a> {
    fn new(settings: &SenderSettings, report: &'a SendReport) -> Self {
        let seconds = report.used.as_secs_f64();
        let per_second = |count: f64| (seconds > 0.0).then(|| count / seconds);
        Self {
            transport: settings.transport,
            to: settings.to,
            from: report.local,
            session: settings.session,
            payload_bytes: settings.payload_bytes,
            sent: report.sent,
            sent_bytes: report.sent_bytes,
            announcements: report.announcements,
            duration_s: seconds,
            msgs_per_s: per_second(report.sent as f64),
            mbit_per_s: per_second(report.sent_bytes as f64 * 8e-6),
            lateness_mean_us: report.lateness.mean_us(),
            lateness_max_us: report.lateness.max_us(),
            blocked_s: report.blocked.as_secs_f64(),
            connect_s: report.connect.map(|connect| connect.as_secs_f64()),
            retransmits: report.tcp_after_drain.map(|tcp| tcp.retransmits),
            outstanding_bytes: report.tcp_after_drain.map(|tcp| tcp.outstanding_bytes()),
            partial_bytes: report.partial_bytes,
            errors: &report.errors,
            stopped: report.stopped,
        }
    }
}

fn print(settings: &SenderSettings, report: &SendReport) {
    let summary = Summary::new(settings, report);
    let from = report.local.map(|local| format!(" from {local}")).unwrap_or_default();
    say!("{} {}{from}, session {}", settings.transport, settings.to, settings.session);
    say!(
        "  sent        {} messages of {}B in {}",
        report.sent,
        settings.payload_bytes,
        format::duration(report.used.as_secs_f64() * 1e6)
    );
    if let (Some(messages), Some(mbit)) = (summary.msgs_per_s, summary.mbit_per_s) {
        say!("  throughput  {}/s, {} Mbit/s", format::short(messages), format::short(mbit));
    }
    if let (Some(mean), Some(max)) = (summary.lateness_mean_us, summary.lateness_max_us) {
        let (mean, max) = (format::duration(mean), format::duration(max));
        say!("  late        mean {mean}, max {max} behind the intended send time (n {})", report.lateness.n());
    }
    if let Some(tcp) = report.tcp_after_drain {
        let rtt = format::duration(f64::from(tcp.rtt_us));
        say!("  tcp         {} segments sent again, round trip {rtt}", tcp.retransmits);
        if tcp.outstanding_bytes() > 0 {
            say!("              {} bytes not acknowledged when the drain ended", tcp.outstanding_bytes());
        }
    }
    if !report.blocked.is_zero() {
        let blocked = format::duration(report.blocked.as_secs_f64() * 1e6);
        say!("  blocked     {blocked} by a full send buffer");
    }
    if !report.errors.is_empty() {
        say!("  errors      {}", in_words(&report.errors));
    }
    if report.stopped {
        say!("  stopped early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_messages_or_bits() {
        let interval = |rate: &str| rate.parse::<SendRate>().map(|rate| rate.interval(Size { bytes: 1000 }));
        assert_eq!(interval("100/s"), Ok(Duration::from_millis(10)));
        assert_eq!(interval("50k/s"), Ok(Duration::from_micros(20)));
        assert_eq!(interval("8mbit"), Ok(Duration::from_millis(1)));
        assert_eq!(interval("0/s"), Err("`0/s`: nothing would be sent; write e.g. 100/s or 10mbit".into()));
        assert_eq!(interval("10"), Err("`10`: a frequency needs a unit, e.g. 10/s".into()));
    }

    #[test]
    fn an_endpoint_has_a_port() {
        assert_eq!(endpoint("[::1]:5000"), Ok("[::1]:5000".parse().unwrap()));
        for text in ["192.0.2.7", "::1:5000", ":5000", "host:", "host:99999"] {
            assert_eq!(
                endpoint(text),
                Err(format!("`{text}`: write ADDRESS:PORT, e.g. 192.0.2.7:5000 or [2001:db8::7]:5000"))
            );
        }
    }
}
