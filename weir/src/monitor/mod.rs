//! `weir monitor`: signals from stations to any number of screens.

mod check;
mod export;
mod key;
mod record;
mod replay;
mod serve;
mod station;
mod view;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use weir_monitor::archive::Damage;
use weir_monitor::config::Listen;
use weir_program::config::Address;
use weir_program::output::complain;
use weir_signal::receive::Settings;
use weir_units::format::count;

use crate::Outcome;

/// `weir monitor`.
#[derive(Debug, Args)]
pub(super) struct Monitor {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send samples of this machine to a group.
    Station(station::Station),
    /// Receive signals, watch them, and show them on a page.
    Serve(Box<serve::Serve>),
    /// Show signals on this terminal.
    View(view::View),
    /// Write what comes to files, and what does not.
    Record(record::Record),
    /// Write an archive as a table of CSV.
    Export(export::Export),
    /// Send an archive again, at any speed.
    Replay(replay::Replay),
    /// Try the way of a group, and tell what is wrong with it.
    Check(check::Check),
    /// Make a key to sign or to encrypt with.
    Key(key::Key),
}

impl Monitor {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Station(station) => station.run(),
            Command::Serve(serve) => serve.run(),
            Command::View(view) => view.run(),
            Command::Record(record) => record.run(),
            Command::Export(export) => export.run(),
            Command::Replay(replay) => replay.run(),
            Command::Check(check) => check.run(),
            Command::Key(key) => key.run(),
        }
    }
}

/// What `--listen`, `--interface` and `--source` say as a file would. Without the first the others are of the usual group.
fn listens(listen: &[SocketAddr], interface: Option<&str>, source: Option<IpAddr>) -> Result<Vec<Listen>> {
    let mut addresses = listen.to_vec();
    let of_groups = [("--interface", interface.is_some()), ("--source", source.is_some())];
    if let Some((flag, _)) = of_groups.iter().find(|(_, is_given)| *is_given) {
        if addresses.is_empty() {
            addresses.extend(Settings::default().listen.iter().map(|usual| usual.address));
        }
        if !addresses.iter().any(|address| address.ip().is_multicast()) {
            let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            bail!("{flag}: there is no group among {} (leave it out)", all.join(", "));
        }
    }
    let of = |address: SocketAddr| Listen {
        address: Address(address),
        interface: interface.filter(|_| address.ip().is_multicast()).map(str::to_owned),
        source: source.filter(|_| address.ip().is_multicast()),
    };
    Ok(addresses.into_iter().map(of).collect())
}

/// Says of files that were read what was wrong with them, `taken` what became of the rest. What is done with the rest stays,
/// but the exit status says that it is not all.
fn account_for_files(damaged: &[(PathBuf, Damage)], taken: &str) -> Result<Outcome> {
    let mut damaged = damaged.iter().map(|(file, Damage { whole_bytes, error })| {
        format!("{}: damaged after {whole_bytes} bytes: {error} (what is before {taken})", file.display())
    });
    let Some(last) = damaged.next_back() else { return Ok(Outcome::Done) };
    damaged.for_each(|line| complain!("weir: {line}"));
    bail!("{last}")
}

/// A number with its thousands apart.
fn number(number: u64) -> String {
    count(i64::try_from(number).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_and_a_source_are_of_groups_and_of_the_usual_one_where_none_is_named() {
        let [group, host]: [SocketAddr; 2] = ["239.1.1.1:7", "192.0.2.7:5110"].map(|address| address.parse().unwrap());
        let of = |listen: &[SocketAddr], interface, source| -> Result<Vec<(String, bool, bool)>, String> {
            let told =
                |listen: Listen| (listen.address.0.to_string(), listen.interface.is_some(), listen.source.is_some());
            let listens = listens(listen, interface, source).map_err(|error| error.to_string())?;
            Ok(listens.into_iter().map(told).collect())
        };
        let (eth1, source) = (Some("eth1"), Some(host.ip()));
        let usual = "239.192.77.1:5110".to_owned();
        assert_eq!(of(&[], None, None), Ok(vec![]));
        assert_eq!(of(&[], eth1, None), Ok(vec![(usual.clone(), true, false)]));
        assert_eq!(of(&[], None, source), Ok(vec![(usual, false, true)]));
        let both = vec![(group.to_string(), true, true), (host.to_string(), false, false)];
        assert_eq!(of(&[group, host], eth1, source), Ok(both));
        assert_eq!(
            of(&[host, host], eth1, None),
            Err("--interface: there is no group among 192.0.2.7:5110, 192.0.2.7:5110 (leave it out)".to_owned())
        );
    }
}
