//! A service before it has a second thread: sockets passed by a service manager, the admin address, privileges.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::{Context, Result};
use weir_kernel::activation::inherited;
use weir_kernel::capabilities::User;
use weir_program::config::{Address, UserName};

use crate::activation::Passed;
use crate::admin::Admin;
use crate::notify;
use crate::privileges::{Needs, reduce};
use crate::room::Room;
use crate::service::Service;
use crate::token::Token;

/// How a service is started, whatever its room does.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// What a reload does not change.
    pub fixed: Fixed,
    /// The file that SIGHUP reads again; `None`: SIGHUP (the terminal is gone) asks for the end.
    pub file: Option<PathBuf>,
    /// As in [`log::start`](crate::log::start).
    pub verbosity: u8,
}

/// What a configuration says of the process: only a start can change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Where `/metrics`, `/healthz`, `/readyz` and `/ledger` are served; `None`: nowhere.
    pub admin: Option<SocketAddr>,
    /// The user to become once every socket is open; `None`: as [`privileges`](crate::privileges) chooses for root, else stay.
    pub user: Option<String>,
}

impl Fixed {
    /// What a configuration has read.
    pub fn of(admin: Option<Address>, user: Option<&UserName>) -> Self {
        Self { admin: admin.map(|Address(admin)| admin), user: user.map(|UserName(user)| user.clone()) }
    }

    /// What a configuration says, checked.
    ///
    /// # Errors
    /// What is wrong with its `user`.
    pub fn new(admin: Option<SocketAddr>, user: Option<String>) -> Result<Self, String> {
        match user.as_deref() {
            Some("") => Err("user: it has no name (leave it out, or name one)".into()),
            Some(name) => User::find(name).map_err(|error| error.to_string()).map(drop),
            None => Ok(()),
        }?;
        Ok(Self { admin, user })
    }
}

/// A service that has one thread and all its privileges: the time to open sockets.
#[derive(Debug)]
pub struct Setup {
    launch: Launch,
    passed: Passed,
    admin: Option<Admin>,
    /// Whether the service manager hears.
    manager: io::Result<()>,
}

impl Setup {
    /// Takes over the sockets that a service manager has passed, and connects to it.
    ///
    /// # Errors
    /// One line: what was passed for the admin address is bound to another one, or does not listen.
    pub fn new(launch: Launch) -> Result<Self> {
        let manager = notify::connect();
        let mut passed = Passed::new(inherited()?);
        let adopt =
            |address| passed.admin(address)?.map(Admin::adopt).transpose().context("take over the admin address");
        let admin = launch.fixed.admin.map(adopt).transpose()?.flatten();
        Ok(Self { launch, passed, admin, manager })
    }

    /// The sockets that were passed for a listener, by its name or its address; empty: open one.
    ///
    /// # Errors
    /// One is bound to another address.
    pub fn passed(&mut self, listener: &str, address: SocketAddr) -> Result<Vec<OwnedFd>> {
        Ok(self.passed.listener(listener, address)?)
    }

    /// Binds the admin address where it was not passed, gives up for good everything but what the room `needs` while it
    /// runs, for privileges belong to threads, and starts what every service has: signals, which no later thread hears, and
    /// the log.
    ///
    /// # Errors
    /// One line: a socket was passed that nobody took, the admin address cannot be had, a privilege cannot be given up, a
    /// thread cannot be started.
    pub fn start<R: Room>(self, needs: impl Into<Needs>) -> Result<Service<R>> {
        let Self { launch, passed, admin, manager } = self;
        passed.finish()?;
        let admin = match admin {
            None => launch.fixed.admin.map(Admin::bind).transpose()?,
            adopted => adopted,
        };
        let token = Token::of_environment()?;
        let admin = admin.map(|admin| admin.asking_for(token));
        let reduced = reduce(launch.fixed.user.as_deref(), &needs.into(), launch.file.as_deref())?;
        let service = Service::start(launch, admin)?;
        reduced.log();
        manager.unwrap_or_else(|error| tracing::warn!("connect to the service manager at $NOTIFY_SOCKET: {error}"));
        Ok(service)
    }
}
