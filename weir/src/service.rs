//! Flags that all services share. Each room adds its own.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{ArgAction, Args};
use serde::Serialize;
use weir_kernel::capabilities::User;
use weir_program::config::{Address, Checked, Flags, Origin};
use weir_program::output::{complain, print, print_patiently};
use weir_service::{Fixed, Launch};
use weir_units::format::shown;

use crate::{Outcome, usage};

/// Flags of every service, last in its help.
#[derive(Debug, Args)]
pub(super) struct Service {
    /// Serve /metrics, /healthz, /readyz and /ledger at this address.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address, display_order = LAST)]
    admin: Option<SocketAddr>,
    /// Become this user after startup [default: if root, an unprivileged user].
    #[arg(long, value_name = "NAME", value_parser = user, display_order = LAST + 1)]
    user: Option<String>,
    /// Log more to standard error; -vv: everything.
    #[arg(short, action = ArgAction::Count, display_order = LAST + 3)]
    pub(super) verbose: u8,
}

/// Flags of a service that a file configures: flatten it first. A room with a mandatory file or its own help text changes
/// the flag by `mut_arg`.
#[derive(Debug, Args)]
pub(super) struct Configured {
    /// TOML configuration file; SIGHUP reloads it.
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) service: Service,
    /// Check the configuration, print the effective one as TOML, and exit.
    #[arg(long, display_order = LAST + 2)]
    pub(super) check: bool,
    /// Print the final ledger as one JSON object.
    #[arg(long, conflicts_with = "check", display_order = LAST - 1)]
    json: bool,
}

impl Service {
    /// Settings of the process; they override those of a file.
    pub(super) fn fixed(&self) -> Fixed {
        Fixed { admin: self.admin, user: self.user.clone() }
    }

    /// How to start a service without a file.
    pub(super) fn launch(&self) -> Launch {
        Launch { fixed: self.fixed(), file: None, verbosity: self.verbose }
    }
}

impl Configured {
    /// The file, whose keys the flags replace, or only the flags if there is no file.
    pub(super) fn origin<T: Checked>(&self, flags: Flags) -> Origin<T> {
        let Service { admin, user, .. } = &self.service;
        let flags = flags.with("--admin", "admin", admin.map(Address)).with("--user", "user", user.as_ref());
        Origin::new(self.config.clone(), flags)
    }

    /// Runs a service to its end and prints its ledger, as one line of JSON on standard output or as text on standard
    /// error. With `--check` it prints the warnings and the effective configuration, which `in_force` returns.
    pub(super) fn run<C, L: Serialize + Display>(
        &self,
        config: Result<C>,
        in_force: impl FnOnce(&C) -> (&[String], String),
        run: impl FnOnce(C, u8) -> Result<L>,
    ) -> Result<Outcome> {
        let config = usage(config)?;
        if self.check {
            let (warnings, toml) = in_force(&config);
            warnings.iter().for_each(|warning| complain!("weir: {}", shown(warning)));
            print(format_args!("{toml}"));
            return Ok(Outcome::Done);
        }
        let ledger = run(config, self.service.verbose)?;
        if self.json {
            let line = serde_json::to_string(&ledger)?;
            print_patiently(&line).context("print the ledger on standard output")?;
        } else {
            complain!("{}", ledger.to_string().trim_end());
        }
        Ok(Outcome::Done)
    }
}

/// The list, if it is not empty.
pub(super) fn given<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// `192.0.2.7:514`; host names are not looked up.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map(|Address(address)| address)
}

/// An existing user.
fn user(name: &str) -> Result<String, weir_kernel::Error> {
    User::find(name).map(|_| name.to_owned())
}

/// Display order after the flags of any room and before `--help`.
const LAST: usize = 900;
