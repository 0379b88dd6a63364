//! `weir recv`: what arrived of the messages of `weir send`.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use weir_dgram::Membership;
use weir_loss::account::{OwnTraffic, ReceivedSession, Sessions};
use weir_service::output::{complain, say};
use weir_service::stop::Stop;
use weir_traffic::{
    Ended, ErrorCount, Exchange, Machine, ReceiveReport, Receiver, ReceiverSettings, SessionReport, Transport, Until,
    in_words,
};
use weir_units::format;
use weir_units::{Size, Span};

use crate::loss::print_with_account;
use crate::send::endpoint;
use crate::{Outcome, usage};

/// `weir recv`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir recv --listen 0.0.0.0:5000
  weir recv --listen [::]:5000 --transport tcp --duration 5m --json
  weir recv --listen 0.0.0.0:5000 --join 232.1.1.1@eth0 --source 192.0.2.7

Ends when every sender seen has announced its end, after the idle timeout or the duration, or at
Ctrl-C, and then prints one account a sender. A sender on another machine has another clock: its
one-way delay is not claimed.")]
pub(super) struct Recv {
    /// Where to listen; port 0 lets the kernel choose.
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    listen: SocketAddr,
    /// What carries the messages.
    #[arg(long, value_enum, default_value = "udp")]
    transport: Transport,
    /// Multicast group to join, and the interface to join it on [default: where a route leads; a group that is listened
    /// on is joined, too].
    #[arg(long, value_name = "GROUP[@INTERFACE]")]
    join: Vec<Join>,
    /// Source-specific multicast: join the groups for this sender alone.
    #[arg(long, value_name = "ADDR")]
    source: Vec<IpAddr>,
    /// End after this time, whatever has come [default: never].
    #[arg(long, value_name = "SPAN")]
    duration: Option<Span>,
    /// End when nothing has come for this long since the last message; 0: never [default: 10s, TCP: 2m].
    #[arg(long, value_name = "SPAN")]
    idle_timeout: Option<Span>,
    /// Count this session alone.
    #[arg(long)]
    session: Option<u16>,
    /// Receive buffer to ask for (SO_RCVBUF) [default: the kernel's].
    #[arg(long, value_name = "SIZE")]
    receive_buffer: Option<Size>,
    /// Print the account of every datagram, too, as `weir loss account` tells it from this host (UDP).
    #[arg(long)]
    account: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Recv {
    pub(super) fn run(self) -> Result<Outcome> {
        let settings = self.settings();
        usage(self.check(&settings))?;
        let stop = Stop::on_signals().context("watch for Ctrl-C")?;
        // No sender in this process will ever open or close it.
        let exchange = Exchange::new(Span::default().duration()).context("open an event descriptor")?;
        // Before the first datagram can come, unless the kernel is to choose the port.
        let asked = Some(settings.listen.port()).filter(|&port| self.account && port != 0);
        let early = asked.map(OwnTraffic::follow).transpose()?;
        let receiver = Receiver::bind(&settings)?;
        let port = receiver.local_addr().port();
        let following = match early {
            None if self.account => Some(OwnTraffic::follow(port)?),
            early => early,
        };
        complain!("listening on {} {}", settings.transport, receiver.local_addr());
        let report = receiver.run(&exchange, &stop);
        self.warn_about_buffer(&report);
        let summary = Summary::new(&settings, &report);
        let account = following
            .map(|following| -> Result<_> {
                let told = ReceivedSession::from_json(serde_json::to_value(&summary)?)?;
                // Port 0 was chosen by the kernel.
                following.end(&Sessions { sent: None, received: Some(ReceivedSession { port, ..told }) })
            })
            .transpose()?;
        print_with_account(self.json, &summary, account.as_ref(), || print(&settings, &report))?;
        if report.ended == Ended::Failed {
            bail!("receive on {} {}: {}", settings.transport, settings.listen, in_words(&report.errors));
        }
        Ok(Outcome::Done)
    }

    fn warn_about_buffer(&self, report: &ReceiveReport) {
        if let (Some(asked), Some(granted)) = (self.receive_buffer, report.receive_buffer)
            // The kernel grants twice what it is asked for, to make room for its own overhead.
            && (granted as u64) < asked.bytes.saturating_mul(2)
        {
            let half = Size { bytes: granted as u64 / 2 };
            let sysctl = report.receive_buffer_limit.unwrap_or("net.core.rmem_max");
            complain!("weir: receive buffer: {half} instead of {asked} (raise {sysctl})");
        }
    }

    fn check(&self, settings: &ReceiverSettings) -> Result<()> {
        ensure!(!self.account || self.transport == Transport::Udp, "--account: only over udp");
        ensure!(
            self.transport == Transport::Udp || settings.groups.is_empty(),
            "--join {}: there is no multicast over tcp",
            self.join.first().map_or(self.listen.ip(), |join| join.group)
        );
        ensure!(
            self.source.is_empty() || !settings.groups.is_empty(),
            "--source {}: only with --join GROUP",
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

    /// The groups asked for, each for each source, and the one that is listened on.
    fn groups(&self) -> Vec<Membership> {
        let listened = self.listen.ip();
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
        // Lost segments can keep a living TCP connection silent for a minute and more.
        let idle = self.idle_timeout.unwrap_or(match self.transport {
            Transport::Udp => Span::from_secs(10),
            Transport::Tcp | Transport::Quic | Transport::QuicDatagram => Span::from_secs(120),
        });
        ReceiverSettings {
            transport: self.transport,
            session: self.session,
            groups: self.groups(),
            receive_buffer: self.receive_buffer.map(|size| usize::try_from(size.bytes).unwrap_or(usize::MAX)),
            until: Until {
                duration: self.duration.map(Span::duration),
                idle: (idle != Span::default()).then(|| idle.duration()),
                announced: self.duration.is_none(),
                ..Until::default()
            },
            ..ReceiverSettings::new(self.listen)
        }
    }
}

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
            Err(format!("`{group}`: no multicast address (224.0.0.0/4 or ff00::/8)"))
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    transport: Transport,
    listen: SocketAddr,
    sessions: Vec<Account>,
    /// Datagrams or connections that were not ours.
    foreign: u64,
    /// Messages of sessions too many to tell apart.
    unlisted: u64,
    /// Dropped at this socket; null: the kernel does not tell.
    socket_drops: Option<u64>,
    receive_buffer_bytes: Option<usize>,
    errors: &'a [ErrorCount],
    elapsed_s: f64,
}

/// The account of one sender and session. Null: unknown.
#[derive(Serialize)]
struct Account {
    peer: SocketAddr,
    session: u16,
    /// As the sender announced it.
    sent: Option<u64>,
    sent_at_least: u64,
    received: u64,
    received_bytes: u64,
    /// Datagrams that announced the end, not in `received`.
    announcements: u64,
    /// Without an announced count: those missing before the last one that came.
    lost: u64,
    duplicated: u64,
    reordered: u64,
    /// Too late to tell whether new or duplicated; counted in `lost`.
    stale: u64,
    msgs_per_s: Option<f64>,
    mbit_per_s: Option<f64>,
    same_machine: Option<bool>,
    delay_n: u64,
    delay_mean_us: Option<f64>,
    delay_p50_us: Option<f64>,
    delay_p99_us: Option<f64>,
    delay_max_us: Option<f64>,
}

impl<'a> Summary<'a> {
    fn new(settings: &ReceiverSettings, report: &'a ReceiveReport) -> Self {
        Self {
            transport: settings.transport,
            listen: settings.listen,
            sessions: report.sessions.iter().map(Account::new).collect(),
            foreign: report.foreign,
            unlisted: report.unlisted,
            socket_drops: report.socket_drops,
            receive_buffer_bytes: report.receive_buffer,
            errors: &report.errors,
            elapsed_s: (report.finished - report.started) as f64 / 1e9,
        }
    }
}

impl Account {
    fn new(session: &SessionReport) -> Self {
        // n messages span n - 1 intervals.
        let span = (session.last_arrival - session.first_arrival) as f64 / 1e9;
        let per_second = (session.delivered > 1 && span > 0.0).then(|| (session.delivered - 1) as f64 / span);
        let bits = session.delivered_bytes as f64 * 8e-6 / session.delivered.max(1) as f64;
        let same_machine = match session.machine {
            Machine::Same => Some(true),
            Machine::Other => Some(false),
            Machine::Unknown => None,
        };
        // Only a clock known to be ours gives delays.
        let delays = (same_machine == Some(true)).then(|| session.delays.delays());
        let quantile = |q| delays.and_then(|delays| delays.quantile_us(q)).map(|estimate| estimate.value);
        Self {
            peer: session.peer,
            session: session.session,
            sent: session.announced,
            sent_at_least: session.sent_at_least(),
            received: session.delivered,
            received_bytes: session.delivered_bytes,
            announcements: session.announcements,
            lost: session.sent_at_least().saturating_sub(session.delivered),
            duplicated: session.duplicates,
            reordered: session.reordered,
            stale: session.stale,
            msgs_per_s: per_second,
            mbit_per_s: per_second.map(|rate| rate * bits),
            same_machine,
            delay_n: delays.map_or(0, |delays| delays.n()),
            delay_mean_us: delays.and_then(|delays| delays.mean_us()),
            delay_p50_us: quantile(0.5),
            delay_p99_us: quantile(0.99),
            delay_max_us: delays.and_then(|delays| delays.max_us()),
        }
    }

    fn print(&self) {
        say!("session {} from {}", self.session, self.peer);
        match self.sent {
            Some(sent) => say!("  sent        {sent}"),
            None => say!("  sent        unknown, at least {}", self.sent_at_least),
        }
        say!("  received    {}", self.received);
        let least = if self.sent.is_none() { "at least " } else { "" };
        let share = self.lost as f64 / self.sent_at_least.max(1) as f64 * 100.0;
        say!("  lost        {least}{} ({} %)", self.lost, format::short(share));
        say!("  duplicated  {}", self.duplicated);
        say!("  reordered   {}", self.reordered);
        if self.stale > 0 {
            say!("  too late    {}, duplicated or counted as lost", self.stale);
        }
        if let (Some(messages), Some(mbit)) = (self.msgs_per_s, self.mbit_per_s) {
            say!("  throughput  {}/s, {} Mbit/s", format::short(messages), format::short(mbit));
        }
        say!("  delay       {}", self.delay());
    }

    fn delay(&self) -> String {
        match (self.same_machine, self.delay_mean_us, self.delay_max_us) {
            (Some(true), Some(mean), Some(max)) => {
                let quantile = |name, us: Option<f64>| match us {
                    Some(us) => format!(", {name} {}", format::duration(us)),
                    None => String::new(),
                };
                let (p50, p99) = (quantile("p50", self.delay_p50_us), quantile("p99", self.delay_p99_us));
                let (mean, max) = (format::duration(mean), format::duration(max));
                format!("mean {mean}{p50}{p99}, max {max} (n {})", self.delay_n)
            }
            (Some(true), ..) => "unknown: nothing was received".to_owned(),
            (Some(false), ..) => {
                "unknown: the sender runs on another machine, whose clock cannot be compared".to_owned()
            }
            (None, ..) => "unknown: messages below 40B do not tell whose clock they carry".to_owned(),
        }
    }
}

fn print(settings: &ReceiverSettings, report: &ReceiveReport) {
    let mut accounts = report.sessions.iter().map(Account::new).peekable();
    if accounts.peek().is_none() {
        say!("nothing received");
    }
    accounts.for_each(|account| account.print());
    let foreign = if settings.transport == Transport::Tcp { "connections" } else { "datagrams" };
    if report.foreign > 0 {
        say!("foreign       {} {foreign} were not messages of `weir send`", report.foreign);
    }
    if report.unlisted > 0 {
        say!("unlisted      {} messages of further senders", report.unlisted);
    }
    if let Some(drops) = report.socket_drops.filter(|&drops| drops > 0) {
        say!("socket drops  {drops} (this program was too slow: a larger --receive-buffer may help)");
    }
    if report.partial_bytes > 0 {
        say!("cut off       {} bytes of messages that did not come to their end", report.partial_bytes);
    }
    if !report.errors.is_empty() {
        say!("errors        {}", in_words(&report.errors));
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

    /// The groups of a command line, or why it is none.
    fn groups(arguments: &str) -> Result<Vec<String>, String> {
        let words = std::iter::once("recv").chain(arguments.split_whitespace());
        let recv = Command::try_parse_from(words).map_err(|error| error.to_string())?.recv;
        let settings = recv.settings();
        recv.check(&settings).map_err(|error| error.to_string())?;
        Ok(settings.groups.iter().map(ToString::to_string).collect())
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
    fn what_cannot_be_joined_is_a_usage_error() {
        let refusal = |arguments: &str| groups(arguments).unwrap_err();
        assert!(refusal("--listen [::]:5 --join 10.0.0.1").contains("`10.0.0.1`: no multicast address"));
        assert!(refusal("--listen [::]:5 --join 239.1.1.1@").contains("write GROUP or GROUP@INTERFACE"));
        assert_eq!(
            refusal("--listen 0.0.0.0:5 --join 239.1.1.1 --transport tcp"),
            "--join 239.1.1.1: there is no multicast over tcp"
        );
        assert_eq!(refusal("--listen 0.0.0.0:5 --source 10.0.0.1"), "--source 10.0.0.1: only with --join GROUP");
        assert_eq!(
            refusal("--listen [::]:5 --join ff15::1 --source 10.0.0.1"),
            "--join ff15::1 --source 10.0.0.1: one is IPv4, the other IPv6"
        );
    }
}
