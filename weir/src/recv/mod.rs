//! `weir recv`: receives the messages of `weir send` and reports what arrived.

pub(crate) mod account;
mod summary;

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use weir_dgram::Membership;
use weir_program::links::Links;
use weir_program::output::complain;
use weir_program::stop::Stop;
use weir_traffic::{
    Exchange, Interval, ReceiveReport, Receiver, ReceiverSettings, ReverseSettings, SenderSettings, Transport, Until,
};
use weir_units::{Size, Span};

use crate::account::{End, OwnTraffic, print_with_account};
use crate::files;
use crate::messages::Rows;
use crate::send::intervals::{self, Column};
use crate::send::{interval, joined};
use crate::{Outcome, usage};

/// `weir recv`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir recv --listen 0.0.0.0:5000
  weir recv --listen [::]:5000 --transport tcp --duration 5m --json
  weir recv --listen 0.0.0.0:5000 --allow-reverse --reverse-rate 20mbit
  weir recv --listen 0.0.0.0:5000 --join 232.1.1.1@eth0 --source 192.0.2.7

Stops when every sender has finished, after the idle timeout or the duration, or at Ctrl-C, and
prints one report per sender. A given --idle-timeout counts from the start, the default one from the
first message. Exit status 1 if it timed out before a sender had finished. One-way delays are shown
only for senders on this machine: others have another clock.")]
pub(super) struct Recv {
    #[command(flatten)]
    settings: ReceiverSettings,
    /// Multicast group to join, in addition to one in --listen. Repeatable.
    #[arg(long, value_name = "GROUP[@INTERFACE]")]
    join: Vec<Join>,
    /// Join the groups only for this source (SSM). Repeatable.
    #[arg(long, value_name = "ADDR")]
    source: Vec<IpAddr>,
    /// Print one line of results per interval of this length.
    #[arg(long, value_name = "SPAN", value_parser = interval)]
    every: Option<Duration>,
    /// Write the first 4 million messages to this CSV file.
    #[arg(long, value_name = "FILE", value_parser = files::csv())]
    messages: Option<PathBuf>,
    /// UDP, TCP: send to `weir send --reverse` and `--bidir` (opens the TCP port too).
    #[arg(long)]
    allow_reverse: bool,
    #[command(flatten)]
    reverse: ReverseSettings,
    /// UDP: also print this host's `weir loss account` of the datagrams.
    #[arg(long, conflicts_with = "allow_reverse")]
    account: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Recv {
    pub(super) fn run(self) -> Result<Outcome> {
        let settings = self.settings();
        usage(self.check(&settings))?;
        let stop = Stop::on_signals().context("handle Ctrl-C")?;
        // No sender in this process opens or closes it.
        let exchange = Exchange::new(Span::default().duration()).context("open an event descriptor")?;
        // Before the first datagram can come, unless the kernel chooses the port.
        let asked = Some(settings.listen.port()).filter(|&port| self.account && port != 0);
        let early = asked.map(OwnTraffic::follow).transpose()?;
        let receiver = Receiver::bind(&settings)?;
        let port = receiver.local_addr().port();
        let following = match early {
            None if self.account => Some(OwnTraffic::follow(port)?),
            early => early,
        };
        let table = self.messages.as_deref().map(Rows::create).transpose()?;
        complain!("listening on {} {}", settings.transport, receiver.local_addr());
        // Without it, groups are not joined again on an interface that was recreated.
        let _links = Links::follow(|change| complain!("weir: {change}"));
        let (report, told) = self.receive(receiver, &exchange, &stop);
        if let Some(less) = less_buffer(&settings, &report) {
            complain!("weir: receive buffer: {less}");
        }
        let unwritten = table.map(|table| table.finish(&[], &[&report])).unwrap_or_default();
        let object = summary::object(&settings, &report, &told, unwritten.messages);
        let print = || summary::print(&object, &report, settings.transport);
        // Port 0 was chosen by the kernel.
        print_with_account(self.json, &object, (following, End::Received(port)), print)?;
        let why_not = summary::why_not_well(&settings, &report);
        unwritten.judge(why_not.map_or(Ok(Outcome::Done), |why| Err(anyhow!(why))))
    }

    /// Receives, and prints each interval if requested.
    fn receive(&self, receiver: Receiver, exchange: &Exchange, stop: &Stop) -> (ReceiveReport, Vec<Interval>) {
        // A slow terminal must not block the receiver.
        thread::scope(|scope| {
            let (mut receiver, mut telling) = (receiver, None);
            if let Some(every) = self.every {
                let (sender, intervals) = mpsc::channel();
                receiver = receiver.tell(every, sender);
                telling = Some(scope.spawn(move || print_intervals(&intervals, self.allow_reverse, self.json)));
            }
            let report = receiver.run(exchange, stop);
            (report, telling.map(joined).unwrap_or_default())
        })
    }

    fn check(&self, settings: &ReceiverSettings) -> Result<()> {
        let (transport, sessions) = (settings.transport, settings.sessions);
        ensure!(!self.account || transport == Transport::Udp, "--account: only over udp");
        ensure!(
            settings.until.senders <= sessions.get() as u64,
            "--senders {}: more than --sessions {sessions}. Raise --sessions.",
            settings.until.senders
        );
        ensure!(
            !self.allow_reverse || matches!(transport, Transport::Udp | Transport::Tcp),
            "--allow-reverse: not over {transport}. Use --transport udp or tcp at both ends."
        );
        ensure!(
            !self.allow_reverse || settings.groups.is_empty(),
            "--allow-reverse: not with a multicast group, where each receiver would answer"
        );
        ensure!(
            transport == Transport::Udp || settings.groups.is_empty(),
            "--join {}: multicast works only over udp",
            self.join.first().map_or(settings.listen.ip(), |join| join.group)
        );
        ensure!(
            self.source.is_empty() || !settings.groups.is_empty(),
            "--source {}: needs --join GROUP",
            self.source[0]
        );
        for (group, source) in
            self.source.iter().flat_map(|source| self.join.iter().map(move |join| (join.group, source)))
        {
            ensure!(
                group.is_ipv4() == source.is_ipv4(),
                "--join {group} --source {source}: one is IPv4, the other IPv6"
            );
        }
        Ok(())
    }

    /// The requested groups, each with each source, and the group in --listen.
    fn groups(&self) -> Vec<Membership> {
        let listened = self.settings.listen.ip();
        let implied = listened.is_multicast() && !self.join.iter().any(|join| join.group == listened);
        let implied = implied.then_some(Join { group: listened, interface: None });
        let of = |join: Join, source| Membership { group: join.group, source, interface: join.interface };
        let with_sources = |join: Join| match &self.source[..] {
            [] => vec![of(join, None)],
            sources => sources.iter().map(|source| of(join.clone(), Some(*source))).collect(),
        };
        self.join.iter().cloned().chain(implied).flat_map(with_sources).collect()
    }

    fn settings(&self) -> ReceiverSettings {
        let given = &self.settings.until;
        // Lost segments can keep a live TCP connection silent for more than a minute.
        let idle = given.idle.unwrap_or(match self.settings.transport {
            Transport::Udp => Duration::from_secs(10),
            Transport::Tcp | Transport::Quic | Transport::QuicDatagram => Duration::from_secs(120),
        });
        ReceiverSettings {
            groups: self.groups(),
            keep_flights: if self.messages.is_some() { SenderSettings::MOST_DEPARTURES } else { 0 },
            until: Until {
                idle: Some(idle).filter(|idle| !idle.is_zero()),
                // An explicit idle time also limits the wait for the first message.
                idle_from_start: given.idle.is_some(),
                // A duration with --idle-timeout 0 is exact: neither ends nor silence stop it before.
                announced: given.duration.is_none() || !idle.is_zero(),
                under_way: UNDER_WAY,
                ..given.clone()
            },
            reverse: self.allow_reverse.then_some(self.reverse),
            ..self.settings.clone()
        }
    }
}

/// The effective receive buffer if it is smaller than requested.
fn less_buffer(settings: &ReceiverSettings, report: &ReceiveReport) -> Option<String> {
    // The kernel reports twice the requested size, to include its own overhead.
    let (asked, half) = settings.receive_buffer.zip(report.receive_buffer.map(|granted| granted / 2))?;
    let [asked, half] = [asked, half].map(|bytes| Size { bytes: bytes as u64 });
    (half.bytes < asked.bytes).then(|| format!("{half} instead of {asked}. Raise net.core.rmem_max."))
}

/// Prints all intervals; silent if the result is JSON. `both`: with the messages sent the other way.
pub(crate) fn print_intervals(intervals: &mpsc::Receiver<Interval>, both: bool, quietly: bool) -> Vec<Interval> {
    let columns = &COLUMNS[usize::from(!both)..];
    let tell = |(number, interval): (usize, Interval)| {
        let interval = Interval { sent: interval.sent.filter(|_| both), ..interval };
        let mut object = serde_json::to_value(interval).unwrap_or_default();
        let (received, lost) = (interval.received as f64, interval.lost.max(0) as f64);
        object["share"] = (received + lost > 0.0).then(|| lost / (received + lost) * 100.0).into();
        if !quietly {
            intervals::print(&object, columns, number == 0);
        }
        interval
    };
    intervals.iter().enumerate().map(tell).collect()
}

const COLUMNS: &[Column] = &[
    ("sent", 8, "{sent}"),
    ("received", 8, "{received}"),
    ("lost", 7, "{lost}"),
    ("lost %", 7, "{share}"),
    ("Mbit/s", 10, "{mbit_per_s}"),
    ("delay", 10, "{delay_mean_us}"),
    ("max", 10, "{delay_max_us}"),
    ("jitter", 10, "{jitter_us}"),
];

/// At Ctrl-C: if both ends run in one terminal, the sender has been stopped as well.
const UNDER_WAY: Duration = Duration::from_millis(200);

/// `--join`: a group, perhaps on one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Join {
    group: IpAddr,
    interface: Option<String>,
}

impl FromStr for Join {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = || format!("`{text}`: write GROUP or GROUP@INTERFACE, e.g. 239.1.1.1@eth0 or ff15::1");
        let (group, interface) = match text.split_once('@') {
            Some((_, "")) => return Err(example()),
            Some((group, interface)) => (group, Some(interface.to_owned())),
            None => (text, None),
        };
        let group: IpAddr = group.parse().map_err(|_| example())?;
        if group.is_multicast() {
            Ok(Self { group, interface })
        } else {
            Err(format!("`{group}`: not a multicast address (224.0.0.0/4 or ff00::/8)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        recv: Recv,
    }

    /// The settings of a command line, or its error.
    fn settings(arguments: &str) -> Result<ReceiverSettings, String> {
        let words = std::iter::once("recv").chain(arguments.split_whitespace());
        let recv = Command::try_parse_from(words).map_err(|error| error.to_string())?.recv;
        let settings = recv.settings();
        recv.check(&settings).map_err(|error| error.to_string())?;
        Ok(settings)
    }

    fn groups(arguments: &str) -> Result<Vec<String>, String> {
        Ok(settings(arguments)?.groups.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn groups_are_joined_for_each_source() {
        let of = |arguments: &str| groups(arguments).unwrap().join(", ");
        assert_eq!(of("--listen 0.0.0.0:5000"), "");
        assert_eq!(of("--listen 239.1.1.1:5000"), "239.1.1.1");
        assert_eq!(of("--listen 239.1.1.1:5000 --join 239.1.1.1@eth0"), "239.1.1.1 on eth0");
        assert_eq!(of("--listen [::]:5000 --join ff15::1 --join 239.1.1.1@e"), "ff15::1, 239.1.1.1 on e");
        assert_eq!(
            of("--listen 0.0.0.0:5000 --join 232.1.1.1@e --source 10.0.0.1 --source 10.0.0.2"),
            "232.1.1.1 from 10.0.0.1 on e, 232.1.1.1 from 10.0.0.2 on e"
        );
    }

    #[test]
    fn a_duration_puts_no_announced_end_off_unless_silence_ends_nothing_either() {
        let announced = |more: &str| settings(&format!("--listen 0.0.0.0:5000 {more}")).unwrap().until.announced;
        assert!(announced("") && announced("--idle-timeout 0"));
        assert!(announced("--duration 15s") && announced("--duration 15s --idle-timeout 20s"));
        assert!(!announced("--duration 15s --idle-timeout 0"));
    }

    #[test]
    fn a_duration_is_some_time() {
        assert!(settings("--listen 0.0.0.0:5000 --duration 15ms").is_ok());
        for text in ["0", "0s", "0ms"] {
            let refusal = settings(&format!("--listen 0.0.0.0:5000 --duration {text}")).unwrap_err();
            assert!(refusal.contains(&format!("`{text}`: must be longer than 0, e.g. 60s")), "{refusal}");
        }
    }

    #[test]
    fn a_buffer_that_is_smaller_says_what_would_raise_it() {
        let less = |asked: &str, granted| {
            let settings = settings(&format!("--listen 0.0.0.0:5000 --receive-buffer {asked}")).unwrap();
            less_buffer(&settings, &ReceiveReport { receive_buffer: Some(granted), ..ReceiveReport::default() })
        };
        assert_eq!(less("1MiB", 2 << 20), None);
        assert_eq!(less("1MiB", 1 << 20), Some("512KiB instead of 1MiB. Raise net.core.rmem_max.".to_owned()));
        // The kernel gives a socket no more, and what is asked for does not wrap round.
        assert_eq!(less("100GiB", i32::MAX as usize - 1), None);
    }

    #[test]
    fn no_session_to_tell_apart_is_a_usage_error() {
        let refusal = settings("--listen 0.0.0.0:5000 --sessions 0").unwrap_err();
        assert!(refusal.contains("`0`: write 1 or more"), "{refusal}");
    }

    #[test]
    fn what_cannot_be_joined_is_a_usage_error() {
        let refusal = |arguments: &str| groups(arguments).unwrap_err();
        assert!(refusal("--listen [::]:5 --join 10.0.0.1").contains("`10.0.0.1`: not a multicast address"));
        assert!(refusal("--listen [::]:5 --join 239.1.1.1@").contains("write GROUP or GROUP@INTERFACE"));
        assert_eq!(
            refusal("--listen 0.0.0.0:5 --join 239.1.1.1 --transport tcp"),
            "--join 239.1.1.1: multicast works only over udp"
        );
        assert_eq!(refusal("--listen 0.0.0.0:5 --source 10.0.0.1"), "--source 10.0.0.1: needs --join GROUP");
        assert_eq!(
            refusal("--listen [::]:5 --join ff15::1 --source 10.0.0.1"),
            "--join ff15::1 --source 10.0.0.1: one is IPv4, the other IPv6"
        );
    }
}
