//! `weir send --reverse` and `--bidir`: the receiver sends.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use anyhow::{Result, bail};
use serde::Serialize;
use weir_program::output::{complain, say};
use weir_program::stop::Stop;
use weir_traffic::{
    Client, ClientReport, Delivery, ErrorCount, Interval, Parted, Refusal, SendReport, SenderSettings, Transport,
    in_words,
};

use super::{Send, joined, rows_of};
use crate::Outcome;
use crate::account::{End, print_with_account};
use crate::messages::{Rows, Unwritten};
use crate::recv::account::{Account, Direction};
use crate::recv::summary::{Told, print_interval};
use crate::recv::{WAITING, row};

/// What `--json` prints.
#[derive(Serialize)]
struct Summary {
    transport: Transport,
    to: SocketAddr,
    payload_bytes: usize,
    /// Of each sender what it sent, if it did, and what was sent to it.
    directions: Vec<Account>,
    /// Datagrams that were no messages.
    foreign: u64,
    /// Messages that --messages could not write, or not in time.
    not_written: u64,
    errors: Vec<ErrorCount>,
    stopped: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Told>,
}

impl Send {
    /// Has the receiver send, and sends, too, if both are to.
    pub(super) fn converse(&self, all: &[SenderSettings], stop: &Stop) -> Result<Outcome> {
        let table = self.messages.as_deref().map(Rows::create).transpose()?;
        let clients = all.iter().map(|settings| Client::open(settings, self.bidir)).collect::<Result<Vec<_>, _>>()?;
        let (reports, told, unwritten) = self.run_all(clients, table, all, stop)?;
        let too_slow: u64 = reports.iter().map(|report| report.received.not_handed_over).sum();
        let directions = all.iter().zip(&reports).flat_map(|(settings, report)| directions(settings, report));
        let sent = reports.iter().filter_map(|report| report.sent.as_ref());
        let errors =
            reports.iter().flat_map(|report| &report.received.errors).chain(sent.flat_map(|sent| &sent.errors));
        let summary = Summary {
            transport: self.transport,
            to: self.to,
            payload_bytes: all[0].payload_bytes,
            directions: directions.collect(),
            foreign: reports.iter().map(|report| report.received.foreign).sum(),
            not_written: too_slow + unwritten.messages,
            errors: errors.cloned().collect(),
            stopped: reports.iter().any(|report| report.parted == Parted::Stopped),
            intervals: told,
        };
        // One that was never granted has nothing to tell but why.
        let began = reports.iter().any(|report| !report.received.sessions.is_empty() || report.sent.is_some());
        if self.json || began {
            print_with_account(self.json, &summary, (None, End::Sent), || summary.print())?;
        }
        unwritten.judge(self.judge(&reports))
    }

    fn run_all(
        &self,
        clients: Vec<Client>,
        table: Option<Rows>,
        all: &[SenderSettings],
        stop: &Stop,
    ) -> Result<(Vec<ClientReport>, Vec<Told>, Unwritten)> {
        thread::scope(|scope| {
            let (mut told, mut writing, mut deliveries) = (None, None, None);
            if let Some(mut table) = table {
                let (sender, messages) = mpsc::sync_channel::<Vec<Delivery>>(WAITING);
                deliveries = Some(sender);
                writing = Some(scope.spawn(move || {
                    for some in messages {
                        let rows: Vec<_> = some.iter().map(row).collect();
                        table.write(&rows);
                    }
                    table
                }));
            }
            let mut running = Vec::new();
            for mut client in clients {
                if let Some(every) = self.every {
                    let (sender, intervals) = mpsc::channel();
                    client = client.tell(every, sender);
                    told = Some(scope.spawn(move || self.print_intervals(&intervals)));
                }
                if let Some(deliveries) = &deliveries {
                    client = client.deliver(deliveries.clone());
                }
                running.push(scope.spawn(move || client.run(stop)));
            }
            drop(deliveries);
            let reports = running.into_iter().map(joined).collect::<std::io::Result<Vec<_>>>()?;
            let mut unwritten = Unwritten::default();
            if let Some(writing) = writing {
                let mut table = joined(writing);
                for (settings, sent) in all.iter().zip(reports.iter().map(|report| &report.sent)) {
                    if let Some(sent) = sent {
                        table.write(&rows_of(settings, sent));
                    }
                }
                unwritten = table.finish();
            }
            Ok((reports, told.map(joined).unwrap_or_default(), unwritten))
        })
    }

    fn print_intervals(&self, intervals: &mpsc::Receiver<Interval>) -> Vec<Told> {
        let tell = |(number, interval): (usize, Interval)| {
            let told = Told::new(&interval, self.bidir);
            if !self.json {
                print_interval(&told, number == 0);
            }
            told
        };
        intervals.iter().enumerate().map(tell).collect()
    }

    /// Whether it came to a good end.
    fn judge(&self, reports: &[ClientReport]) -> Result<Outcome> {
        for report in reports {
            let (transport, to) = (self.transport, self.to);
            let failure = report.failure.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
            match report.parted {
                Parted::Told | Parted::Stopped => {}
                Parted::Untold if self.bidir => {
                    bail!("{to} has not told what it received{failure}: of the messages sent there that is unknown")
                }
                Parted::Untold => complain!("weir: {to} has not confirmed that it knows what came here{failure}"),
                Parted::Unreachable if transport == Transport::Udp => bail!("ask {to} to send: nobody listens there"),
                Parted::Unreachable => {
                    bail!("ask {transport} {to} to send: {}", report.failure.as_deref().unwrap_or("not connected"))
                }
                Parted::Unanswered => bail!(
                    "ask {transport} {to} to send: no answer{failure}; it needs `weir recv --allow-reverse{}`, and a way \
                     for {transport} there and back",
                    if transport == Transport::Udp { "" } else { " --transport tcp" }
                ),
                Parted::Refused(refusal) => bail!("ask {to} to send: {}", words(refusal)),
                Parted::Silent => bail!("{to} fell silent in the middle{failure}: counts are of what came"),
                Parted::Failed => bail!("receive from {transport} {to}: {}", in_words(&report.received.errors)),
            }
        }
        Ok(Outcome::Done)
    }
}

/// Why a request was refused, and what to do about it.
fn words(refusal: Refusal) -> String {
    match refusal {
        Refusal::Rate(most) => format!(
            "it sends at most {} of IP packets, headers and all who have asked included: ask for less (--rate, --interval), \
             or raise --reverse-rate there",
            weir_units::BitRate { bits_per_second: most }
        ),
        Refusal::Duration(most) => format!(
            "it sends for at most {}: ask for less (--duration, --count), or raise --reverse-duration there",
            weir_units::Span { nanos: most }
        ),
        Refusal::Flows(most) => {
            format!("it sends to at most {most} at once: try again later, or raise --reverse-flows there")
        }
        Refusal::Payload(most) => format!("it sends messages of 16B to {most}B (--payload)"),
    }
}

/// What is known of both directions.
fn directions(settings: &SenderSettings, report: &ClientReport) -> Vec<Account> {
    let (to, session) = (settings.to, settings.session);
    let told = report.told.as_ref();
    let forward = |sent: &SendReport| Account::told(to, session, sent, told).going(Direction::Forward, None);
    let reverse = report.received.main_session().map_or_else(|| Account::nothing(to, session), Account::new);
    let reverse = reverse.going(Direction::Reverse, told.and_then(|told| told.shortfall));
    report.sent.as_ref().map(forward).into_iter().chain([reverse]).collect()
}

impl Summary {
    fn print(&self) {
        self.directions.iter().for_each(Account::print);
        if self.foreign > 0 {
            say!("foreign       {} datagrams were not messages of `weir recv`", self.foreign);
        }
        if self.not_written > 0 {
            say!(
                "not written   {} messages: the file of --messages could not be written, or not in time",
                self.not_written
            );
        }
        if !self.errors.is_empty() {
            say!("errors        {}", in_words(&self.errors));
        }
        if self.stopped {
            say!("stopped early");
        }
    }
}
