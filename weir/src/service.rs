//! Flags that services share: a room adds its own, and has these mean the same everywhere.

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

/// Of every service. In its help they come last.
#[derive(Debug, Args)]
pub(super) struct Service {
    /// Serve /metrics, /healthz, /readyz and /ledger here.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address, display_order = LAST)]
    admin: Option<SocketAddr>,
    /// Become this user once everything is open [default: in place of root the owner of the folder that is written, else nobody].
    #[arg(long, value_name = "NAME", value_parser = user, display_order = LAST + 1)]
    user: Option<String>,
    /// Log more to standard error; twice: everything.
    #[arg(short, action = ArgAction::Count, display_order = LAST + 3)]
    pub(super) verbose: u8,
}

/// Of a service that a file configures: flatten it first. A room whose file is not optional, or that says more of it, changes
/// the flag by `mut_arg`.
#[derive(Debug, Args)]
pub(super) struct Configured {
    /// TOML file that configures it; SIGHUP reads it again.
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) service: Service,
    /// Check the configuration, print what is in force as TOML, and end.
    #[arg(long, display_order = LAST + 2)]
    pub(super) check: bool,
    /// Print the final ledger as one JSON object.
    #[arg(long, conflicts_with = "check", display_order = LAST - 1)]
    json: bool,
}

impl Service {
    /// What they say of the process; for rooms with a file it goes before that.
    pub(super) fn fixed(&self) -> Fixed {
        Fixed { admin: self.admin, user: self.user.clone() }
    }

    /// How the service is started, for rooms without a file.
    pub(super) fn launch(&self) -> Launch {
        Launch { fixed: self.fixed(), file: None, verbosity: self.verbose }
    }
}

impl Configured {
    /// The file, of which flags replace keys, or where there is none what `flags` say.
    pub(super) fn origin<T: Checked>(&self, flags: Flags) -> Origin<T> {
        let Service { admin, user, .. } = &self.service;
        let flags = flags.with("--admin", "admin", admin.map(Address)).with("--user", "user", user.as_ref());
        Origin::new(self.config.clone(), flags)
    }

    /// Runs a service to its end and prints its ledger, as one line of JSON on standard output or in words on standard
    /// error. With `--check` it prints the warnings and what is in force, which `in_force` says of the configuration.
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

/// A list, if a flag has given one.
pub(super) fn given<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// `192.0.2.7:514`; no host name is looked up.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map(|Address(address)| address)
}

/// A user that there is.
fn user(name: &str) -> Result<String, weir_kernel::Error> {
    User::find(name).map(|_| name.to_owned())
}

/// Behind the flags of any room, before `--help`.
const LAST: usize = 900;
