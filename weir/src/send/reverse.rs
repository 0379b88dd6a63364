//! `weir send --reverse` and `--bidir`: the receiver sends.

use std::sync::mpsc;
use std::thread;

use anyhow::{Result, bail, ensure};
use serde_json::json;
use weir_program::output::say;
use weir_program::stop::Stop;
use weir_traffic::{Account, Client, ClientReport, ErrorCount, Interval, Parted, SenderSettings, Transport, in_words};
use weir_units::format;

use super::summary::NOT_WRITTEN;
use super::{Send, joined};
use crate::Outcome;
use crate::account::{End, print_with_account};
use crate::lines::{self, Line};
use crate::messages::Rows;
use crate::recv::{account, print_intervals};

impl Send {
    /// Has the receiver send, and with --bidir sends as well.
    pub(super) fn converse(&self, all: &[SenderSettings], stop: &Stop) -> Result<Outcome> {
        let table = self.messages.as_deref().map(Rows::create).transpose()?;
        let clients = all.iter().map(|settings| Client::open(settings, self.bidir)).collect::<Result<Vec<_>, _>>()?;
        let (reports, intervals) = self.run_all(clients, stop)?;
        let received: Vec<_> = reports.iter().map(|report| &report.received).collect();
        let ours = all.iter().zip(&reports);
        let ours: Vec<_> = ours.filter_map(|(settings, report)| Some((settings, report.sent.as_ref()?))).collect();
        let unwritten = table.map(|table| table.finish(&ours, &received)).unwrap_or_default();
        let directions: Vec<&Account> = reports.iter().flat_map(|report| &report.directions).collect();
        let errors = received.iter().flat_map(|report| &report.errors);
        let errors: Vec<ErrorCount> = errors.chain(ours.iter().flat_map(|(_, sent)| &sent.errors)).cloned().collect();
        let mut object = json!({
            "transport": self.settings.transport,
            "to": self.settings.to,
            "payload_bytes": all[0].payload_bytes,
            "directions": directions,
            "foreign": reports.iter().map(|report| report.received.foreign).sum::<u64>(),
            "not_written": unwritten.messages,
            "errors": errors,
            "stopped": reports.iter().any(|report| report.parted == Parted::Stopped),
        });
        if !intervals.is_empty() {
            object["intervals"] = json!(intervals);
        }
        let print = || {
            directions.iter().for_each(|direction| account::print(direction, self.settings.transport));
            lines::print(&object, "", LINES);
            if !errors.is_empty() {
                say!("errors        {}", in_words(&errors));
            }
            if object["stopped"] == true {
                say!("stopped early");
            }
        };
        // A request that was refused has only the reason to report.
        if self.json || !directions.is_empty() {
            print_with_account(self.json, &object, (None, End::Sent), print)?;
        }
        unwritten.judge(self.judge(&reports, &directions))
    }

    fn run_all(&self, clients: Vec<Client>, stop: &Stop) -> Result<(Vec<ClientReport>, Vec<Interval>)> {
        thread::scope(|scope| {
            let (mut told, mut running) = (None, Vec::new());
            for mut client in clients {
                if let Some(every) = self.every {
                    let (sender, intervals) = mpsc::channel();
                    client = client.tell(every, sender);
                    told = Some(scope.spawn(move || print_intervals(&intervals, self.bidir, self.json)));
                }
                running.push(scope.spawn(move || client.run(stop)));
            }
            let reports = running.into_iter().map(joined).collect::<std::io::Result<Vec<_>>>()?;
            Ok((reports, told.map(joined).unwrap_or_default()))
        })
    }

    /// Fails if an end did not report, or messages were lost over TCP.
    fn judge(&self, reports: &[ClientReport], directions: &[&Account]) -> Result<Outcome> {
        let SenderSettings { transport, to, connect_timeout, .. } = self.settings;
        for report in reports {
            let failure = report.failure.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
            match &report.parted {
                Parted::Told | Parted::Stopped => {}
                Parted::Untold if self.bidir => {
                    bail!(
                        "{to} did not report what it received{failure}: the fate of the messages sent there is unknown"
                    )
                }
                Parted::Untold => bail!("{to} did not confirm our report of what arrived here{failure}"),
                Parted::Unreachable => bail!(
                    "ask tcp {to} to send{failure}. Start `weir recv --allow-reverse` there; its TCP port is needed too."
                ),
                Parted::Unanswered => bail!(
                    "ask tcp {to} to send: no answer within {}{failure}. It needs `weir recv --allow-reverse --transport \
                     {transport}` and a route back to this host.",
                    format::span(connect_timeout.as_secs_f64())
                ),
                Parted::Refused(why) => bail!("ask tcp {to} to send: {why}"),
                Parted::Nothing => {
                    bail!("{to} agreed to send, but nothing came: {transport} is blocked on the way there or back")
                }
                Parted::Silent => bail!("{to} fell silent{failure}: counts cover only what came before"),
                Parted::Failed => bail!("receive from {transport} {to}: {}", in_words(&report.received.errors)),
            }
        }
        let lost: u64 = directions.iter().filter_map(|direction| direction.lost).sum();
        ensure!(
            transport != Transport::Tcp || lost == 0 || reports.iter().any(|report| report.parted == Parted::Stopped),
            "{lost} messages were not delivered: the connection to tcp {to} broke or was too slow"
        );
        Ok(Outcome::Done)
    }
}

const LINES: &[Line<'_>] = &[("foreign", "+{foreign} datagrams were not messages of `weir recv`"), NOT_WRITTEN];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        send: Send,
    }

    #[test]
    fn only_what_was_confirmed_and_over_tcp_delivered_has_come_to_a_good_end() {
        for transport in ["udp", "tcp"] {
            let words = ["send", "--to", "127.0.0.1:5000", "-R", "--transport", transport];
            let send = Command::try_parse_from(words).unwrap().send;
            for (parted, lost, expected) in [
                (Parted::Told, 0, None),
                (Parted::Stopped, 0, None),
                (Parted::Stopped, 41, None),
                (Parted::Told, 41, (transport == "tcp").then_some("41 messages were not delivered")),
                (Parted::Untold, 0, Some("127.0.0.1:5000 did not confirm our report of what arrived here")),
                (Parted::Silent, 0, Some("127.0.0.1:5000 fell silent")),
            ] {
                let account = Account { lost: Some(lost), ..Account::nothing(send.settings.to, 1, Some(100)) };
                let reports = [ClientReport { parted: parted.clone(), ..ClientReport::default() }];
                let failure = send.judge(&reports, &[&account]).err().map(|error| error.to_string());
                let is_expected = match (&failure, expected) {
                    (Some(failure), Some(expected)) => failure.starts_with(expected),
                    (failure, expected) => failure.is_none() && expected.is_none(),
                };
                assert!(is_expected, "{transport} {parted:?} {lost}: {failure:?}");
            }
        }
    }
}
