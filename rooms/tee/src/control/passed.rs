//! Sockets that a service manager has passed, and what each is for.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use socket2::SockRef;
use weir_service::activation::{Kind, Passed};
use weir_service::admin::Admin;

use crate::settings::{Listener, Settings};

/// What was passed.
pub(super) struct Taken {
    /// For the listeners.
    pub(super) listeners: Vec<OwnedFd>,
    /// For the admin address.
    pub(super) admin: Option<Admin>,
}

/// Gives each to the listener of its name or address, or to the admin address likewise.
///
/// # Errors
/// One is bound to another address than its user has, is not listening, or has no user.
pub(super) fn take(mut passed: Passed, settings: &Settings, admin: Option<SocketAddr>) -> Result<Taken> {
    let mut listeners = Vec::new();
    for Listener { name, address, .. } in &settings.listeners {
        for socket in passed.take(Kind::Datagrams, name, *address) {
            is_bound(&socket, *address, &format!("listener `{name}`"))?;
            listeners.push(socket);
        }
    }
    let admin = admin.map(|address| take_admin(&mut passed, address)).transpose()?.flatten();
    passed.finish()?;
    Ok(Taken { listeners, admin })
}

fn take_admin(passed: &mut Passed, address: SocketAddr) -> Result<Option<Admin>> {
    let mut sockets = passed.take(Kind::Connections, ADMIN, address).into_iter();
    let Some(socket) = sockets.next() else { return Ok(None) };
    is_bound(&socket, address, ADMIN)?;
    // Connections would wait in the second one for ever.
    if sockets.next().is_some() {
        bail!("socket activation: {ADMIN} is passed {address} more than once (pass one)");
    }
    if !SockRef::from(&socket).is_listener().unwrap_or(true) {
        bail!("socket activation: {ADMIN} is passed a connection (set `Accept=no`)");
    }
    Admin::adopt(TcpListener::from(socket)).map(Some).with_context(|| format!("take over admin address {address}"))
}

fn is_bound(socket: &OwnedFd, address: SocketAddr, user: &str) -> Result<()> {
    let bound = SockRef::from(socket).local_addr().ok().and_then(|bound| bound.as_socket());
    if let Some(bound) = bound
        && bound != address
    {
        bail!("socket activation: {user} is passed {bound}, and its address is {address} (make them one)");
    }
    Ok(())
}

/// The key of the configuration, and the name of a socket that is for it.
const ADMIN: &str = "admin";
