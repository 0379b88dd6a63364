//! `weir send`: numbered, timestamped messages to a `weir recv` somewhere.

pub(crate) mod intervals;
mod reverse;
pub(crate) mod summary;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU64;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weir_program::clock;
use weir_program::stop::Stop;
use weir_traffic::{Exchange, Pacing, SendReport, Sender, SenderSettings, Transport, in_words};
use weir_units::{BitRate, Frequency, Size, Span};

use self::summary::Summary;

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

Start `weir recv --listen 0.0.0.0:5000` on the other machine first: it tells what arrived.")]
pub(super) struct Send {
    /// Where the receiver listens, e.g. 192.0.2.7:5000 or host.example:5000.
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    to: SocketAddr,
    /// What carries the messages.
    #[arg(long, value_enum, default_value = "udp")]
    transport: Transport,
    /// Bytes of a message, its header included: at least 16B, over TCP and QUIC streams 40B.
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
    /// How long to send (not 0) [default: 60s, with --count: until that].
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    duration: Option<Span>,
    /// How many messages to send, each of the senders.
    #[arg(long, short = 'n', value_name = "MESSAGES")]
    count: Option<NonZeroU64>,
    /// Senders at once, each with a socket and a session number of its own: --session and those behind it.
    #[arg(long, short = 'P', value_name = "SENDERS", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=128))]
    parallel: u16,
    /// UDP, TCP: have the receiver send, and receive: for ends behind address translation or a firewall. It must allow it
    /// (`weir recv --allow-reverse`); it is asked over TCP, at the same port number.
    #[arg(long, short = 'R', conflicts_with = "bidir")]
    reverse: bool,
    /// UDP, TCP: send, and have the receiver send as much at the same time, on the same socket or connection.
    #[arg(long)]
    bidir: bool,
    /// UDP, by schedule: wake up once in this time and send in one batch what has become due, for rates that a call a
    /// message cannot reach [default: each message alone].
    #[arg(long, value_name = "SPAN", conflicts_with = "reverse")]
    quantum: Option<Span>,
    /// Write every message that was sent into this file, the first 4 million of each sender: its session, number, and when it
    /// was due and sent, as CSV.
    #[arg(long, value_name = "FILE", value_parser = files::csv())]
    messages: Option<PathBuf>,
    /// Print a line for each interval of this length.
    #[arg(long, value_name = "SPAN", value_parser = interval)]
    every: Option<Duration>,
    /// Number that tells these messages from another sender's [default: a random one].
    #[arg(long)]
    session: Option<u16>,
    /// Address and port to send from, e.g. 0.0.0.0:4000 to fix the port alone.
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    from: Option<SocketAddr>,
    /// Differentiated services code point of the packets, a number or a name, e.g. 46 or ef (UDP, TCP).
    #[arg(long, value_name = "POINT")]
    dscp: Option<Dscp>,
    /// TTL or hop limit of the packets [default: the host's, multicast: 1].
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    ttl: Option<u8>,
    /// Interface to send through, e.g. for a multicast group [default: where a route leads].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// TCP, QUIC: congestion control, e.g. cubic or bbr [default: the host's, QUIC: cubic].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// TCP: send small segments at once (switches Nagle's algorithm off).
    #[arg(long)]
    nodelay: bool,
    /// TCP, QUIC: how long connecting may take; with --reverse or --bidir, connecting and the receiver's answer
    /// [default: 30s, with --reverse or --bidir 10s].
    #[arg(long, value_name = "SPAN")]
    connect_timeout: Option<Span>,
    /// TCP, QUIC: how long to wait, when all is sent, until the receiver has it.
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    drain: Span,
    /// Send buffer to ask for (SO_SNDBUF) [default: the kernel's].
    #[arg(long, value_name = "SIZE")]
    send_buffer: Option<Size>,
    /// Print the account of every datagram, too, as `weir loss account` tells it from this host (UDP).
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
        let stop = Stop::on_signals().context("watch for Ctrl-C")?;
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
        let summary = Summary::new(&all, &reports, &told, unwritten.messages);
        print_with_account(self.json, &summary.object, (following, End::Sent), || summary.print(settings))?;
        unwritten.judge(judge(&all, &reports))
    }

    fn check(&self, all: &[SenderSettings]) -> Result<()> {
        all.iter().try_for_each(SenderSettings::validate)?;
        let udp = self.transport == Transport::Udp;
        ensure!(!self.account || udp, "--account: only over udp");
        ensure!(self.to.port() != 0, "--to {}: nobody listens at port 0: write the one that `weir recv` has", self.to);
        ensure!(
            self.congestion.is_none() || !udp,
            "--congestion: not over udp, which sends what is due whatever is lost"
        );
        ensure!(!self.nodelay || self.transport == Transport::Tcp, "--nodelay: only over tcp");
        ensure!(
            self.rate.is_none() || !all[0].interval.is_zero(),
            "--rate: more than a message a nanosecond of {}B: ask for less, or for larger messages (--payload)",
            all[0].payload_bytes
        );
        ensure!(self.quantum.is_none() || udp, "--quantum: only over udp; TCP and QUIC send what is due by themselves");
        ensure!(
            self.quantum.is_none() || all[0].pacing == Pacing::Schedule,
            "--quantum: only with --pacing schedule, which --rate has by default"
        );
        let way = if self.bidir { "--bidir" } else { "--reverse" };
        if self.reverse || self.bidir {
            ensure!(
                udp || self.transport == Transport::Tcp,
                "{way}: not over {}, where only the end that connects sends: choose --transport udp or tcp at both ends",
                self.transport
            );
            ensure!(!self.to.ip().is_multicast(), "{way}: {} is a multicast group: ask one receiver", self.to.ip());
            ensure!(
                self.every.is_none() || self.parallel == 1,
                "--every: with {way} only of one sender, not with --parallel"
            );
        }
        ensure!(
            self.dscp.is_none() || matches!(self.transport, Transport::Udp | Transport::Tcp),
            "--dscp: not over {}, whose library sets the field itself (mark the packets by nft: `ip dscp set`)",
            self.transport
        );
        ensure!(
            self.from.is_none_or(|from| from.port() == 0 || self.parallel == 1),
            "--from: with --parallel write port 0: each sender has a port of its own"
        );
        Ok(())
    }

    /// How long connecting may take.
    fn patience(&self) -> Span {
        self.connect_timeout.unwrap_or(Span::from_secs(if self.reverse || self.bidir { 10 } else { 30 }))
    }

    /// One a sender.
    fn all_settings(&self) -> Vec<SenderSettings> {
        let first = self.settings();
        let of = |number: u16| SenderSettings { session: first.session.wrapping_add(number), ..first.clone() };
        (0..self.parallel).map(of).collect()
    }

    fn settings(&self) -> SenderSettings {
        let payload_bytes = usize::try_from(self.payload.bytes).unwrap_or(usize::MAX);
        let interval = match (self.interval, self.rate) {
            (Some(interval), _) => interval.duration(),
            (None, Some(rate)) => rate.interval(self.payload),
            (None, None) => Duration::from_millis(10),
        };
        let default_pacing = if self.rate.is_some() { Pacing::Schedule } else { Pacing::Sleep };
        let duration = match (self.duration, self.count) {
            (Some(duration), _) => duration.duration(),
            (None, None) => Duration::from_secs(60),
            (None, Some(_)) => FOREVER,
        };
        SenderSettings {
            transport: self.transport,
            from: self.from,
            payload_bytes,
            interval,
            pacing: self.pacing.unwrap_or(default_pacing),
            quantum: self.quantum.map_or(Duration::ZERO, Span::duration),
            duration,
            count: self.count,
            // What a hiccup at the end held up is sent, what a rate that cannot be kept piles up is not.
            overtime: (duration / 100).min(Duration::from_millis(100)),
            session: self.session.unwrap_or_else(random_session),
            congestion: self.congestion.clone(),
            nodelay: self.nodelay,
            dscp: self.dscp.map(|Dscp(point)| point),
            ttl: self.ttl,
            interface: self.interface.clone(),
            send_buffer: self.send_buffer.map(buffer),
            connect_timeout: self.patience().duration(),
            drain: self.drain.duration(),
            announce: true,
            // A socket that also receives would be woken up by each.
            reports: !self.reverse && !self.bidir,
            keep_departures: if self.messages.is_some() { SenderSettings::MOST_DEPARTURES } else { 0 },
            ..SenderSettings::new(self.to)
        }
    }
}

/// Whether it came to a good end.
fn judge(all: &[SenderSettings], reports: &[SendReport]) -> Result<Outcome> {
    for (settings, report) in all.iter().zip(reports) {
        let broken = settings.transport.connects() && !report.errors.is_empty();
        if broken || report.sent == 0 && !report.stopped {
            bail!("send to {} {}: {}", settings.transport, settings.to, reason(report));
        }
    }
    Ok(Outcome::Done)
}

/// What a thread brought back.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// The most that a socket's buffer can be asked for: the kernel doubles it, in an int.
pub(super) const MOST_BUFFER: usize = i32::MAX as usize / 2;

/// What to ask for of a buffer of this size.
pub(super) fn buffer(size: Size) -> usize {
    usize::try_from(size.bytes).unwrap_or(usize::MAX).min(MOST_BUFFER)
}

/// The window of a sender that ends by its count.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// `--dscp`: a code point by its number or its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dscp(u8);

impl FromStr for Dscp {
    type Err = String;

    /// Names: RFC 2474 (cs), 2597 (af), 3246 (ef), 5865 (va), 8622 (le).
    fn from_str(text: &str) -> Result<Self, String> {
        let refusal = || format!("`{text}`: write a code point, 0 to 63, or its name, e.g. ef, af41, cs1 or le");
        let digits = |from: usize| text.get(from..).and_then(|digits| digits.parse::<u8>().ok());
        let point = match text.to_ascii_lowercase().as_str() {
            "ef" => Some(46),
            "va" => Some(44),
            "le" => Some(1),
            "default" => Some(0),
            name if name.starts_with("cs") && name.len() == 3 => {
                digits(2).filter(|class| *class < 8).map(|class| class * 8)
            }
            name if name.starts_with("af") && name.len() == 4 => digits(2)
                .map(|number| (number / 10, number % 10))
                .filter(|(class, drop)| (1..=4).contains(class) && (1..=3).contains(drop))
                .map(|(class, drop)| class * 8 + drop * 2),
            number => number.parse().ok().filter(|point| *point < 64),
        };
        point.map(Dscp).ok_or_else(refusal)
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
        let rate = if text.contains("bit") {
            text.parse().map(Self::Bits).map_err(|error| error.to_string())
        } else {
            text.parse().map(Self::Messages).map_err(|error| format!("{error}; of bits e.g. 10mbit"))
        };
        match rate? {
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

/// `--duration`.
pub(super) fn duration(text: &str) -> Result<Span, String> {
    match text.parse::<Span>() {
        Ok(span) if span == Span::default() => Err(format!("`{text}`: no time at all; write e.g. 60s")),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// `--every`: 10 ms at least, so that telling does not become the work.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?.duration();
    if span >= Duration::from_millis(10) { Ok(span) } else { Err(format!("`{text}`: 10ms at least")) }
}

/// A number that another sender hardly has, too.
fn random_session() -> u16 {
    (clock::now() >> 10) as u16 ^ std::process::id() as u16
}

/// Why nothing, or not all, was sent.
fn reason(report: &SendReport) -> String {
    if report.errors.is_empty() { "nothing was sent".to_owned() } else { in_words(&report.errors) }
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
        assert_eq!(interval("10"), Err("`10`: a frequency needs a unit, e.g. 10/s; of bits e.g. 10mbit".into()));
        assert!(interval("10M").unwrap_err().ends_with("; of bits e.g. 10mbit"));
    }

    #[test]
    fn a_code_point_has_a_number_and_perhaps_a_name() {
        let point = |text: &str| text.parse::<Dscp>().map(|Dscp(point)| point);
        let named = [("0", 0), ("63", 63), ("ef", 46), ("AF11", 10), ("af43", 38), ("cs0", 0), ("cs7", 56), ("le", 1)];
        for (text, expected) in named {
            assert_eq!(point(text), Ok(expected), "{text}");
        }
        for text in ["64", "-1", "cs8", "af14", "af51", "af1", "cs", "express", "a\u{e9}1"] {
            let refusal = format!("`{text}`: write a code point, 0 to 63, or its name, e.g. ef, af41, cs1 or le");
            assert_eq!(point(text), Err(refusal));
        }
    }

    #[test]
    fn a_duration_is_some_time() {
        assert_eq!(duration("15ms"), Ok(Span { nanos: 15_000_000 }));
        for text in ["0", "0s"] {
            assert_eq!(duration(text), Err(format!("`{text}`: no time at all; write e.g. 60s")));
        }
        assert_eq!(duration("15"), Err("15".parse::<Span>().unwrap_err().to_string()));
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
