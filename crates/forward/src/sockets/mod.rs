//! The sockets of a plan: opened before anything is handed over, so that a plan that cannot be carried out changes
//! nothing.
//!
//! What a plan has in common with the one before keeps its sockets: no datagram in their queues is lost. A listener has
//! one socket a worker (SO_REUSEPORT: the kernel spreads flows over them), an outlet one a worker.

mod egress;
mod listener;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weir_dgram::{Error, Granted, Membership, Options, Socket, reason};

use crate::plan::Plan;
use egress::EgressSockets;
use listener::{ListenerSockets, NewMemberships};

pub(crate) use egress::EgressSocket;

/// Every socket of a plan.
#[derive(Debug)]
pub struct Sockets {
    /// By the plan's listeners.
    pub(super) listeners: Vec<ListenerSockets>,
    /// By the plan's outlets, of each one a worker.
    pub(super) outlets: Vec<EgressSockets>,
    /// Memberships that are joined already and not part of the plan any more: left when the plan takes over.
    outdated: Vec<(Arc<Socket>, Membership)>,
    /// Sockets in use that are to be given other options when the plan takes over.
    changed: Vec<(Arc<Socket>, Options)>,
    /// Sockets of listeners that are to have but one from now on.
    surplus: Vec<Arc<Socket>>,
}

/// A socket that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A listener's, or one that was handed over.
    #[error(transparent)]
    Listener(#[from] Error),
    /// A destination's.
    #[error("destination `{name}`: {}", of_destination(source))]
    Destination {
        /// The destination's name.
        name: String,
        /// What the kernel says.
        source: Error,
    },
}

impl OpenError {
    /// The destination's name, if it is one's.
    pub fn destination(&self) -> Option<&str> {
        match self {
            Self::Listener(_) => None,
            Self::Destination { name, .. } => Some(name),
        }
    }
}

/// The hints of errors are for who listens.
fn of_destination(error: &Error) -> String {
    match error {
        Error::Bind { address, source } if source.kind() == io::ErrorKind::AddrNotAvailable => {
            format!("from: {} is no address of this machine (see `ip address`)", address.ip())
        }
        Error::Bind { address, source } => format!("from: bind {address}: {}", reason(source)),
        other => other.to_string(),
    }
}

impl Sockets {
    /// Opens what the plan needs beyond the sockets of `previous`. `adopted`: sockets that a service manager has bound;
    /// those that no listener is for are closed. Must run in the network namespace of the tee. Nothing that is in use
    /// changes before the plan takes over.
    ///
    /// # Errors
    /// A listener cannot be bound, a group not be joined, an option not be set. A destination without a route is no
    /// error: its copies count as unreachable, see [`closed`](Self::closed).
    pub fn open(plan: &Plan, adopted: Vec<OwnedFd>, previous: Option<&Self>) -> Result<Self, OpenError> {
        let mut adopted =
            adopted.into_iter().map(|fd| Socket::adopt(fd, &Options::default())).collect::<Result<Vec<_>, _>>()?;
        let (mut outdated, mut surplus, mut joined) = (Vec::new(), Vec::new(), NewMemberships::default());
        let mut listeners = Vec::new();
        let old: HashMap<_, _> =
            previous.iter().flat_map(|previous| &previous.listeners).map(|old| (old.key(), old)).collect();
        for listener in &plan.listeners {
            let old = old.get(&listener::key(&listener.settings)).filter(|old| !old.are_outlived());
            listeners.push(match old {
                Some(old) => old.keep(listener, &mut joined, &mut outdated, &mut surplus)?,
                None => ListenerSockets::open(listener, plan, &mut adopted, previous)?,
            });
        }
        let old: HashMap<_, _> =
            previous.iter().flat_map(|previous| &previous.outlets).map(|old| (old.key(), old)).collect();
        let (mut outlets, mut changed) = (Vec::new(), Vec::new());
        for outlet in &plan.outlets {
            let old = old.get(&outlet.key()).filter(|old| old.serves(outlet));
            outlets.push(match old {
                Some(old) => old.keep(outlet, &mut changed),
                None => EgressSockets::open(outlet, plan.books.workers())
                    .map_err(|source| OpenError::Destination { name: outlet.settings.name.clone(), source })?,
            });
        }
        joined.keep();
        Ok(Self { listeners, outlets, outdated, changed, surplus })
    }

    /// Why outlets of the plan have no socket, with their indices. They are worth another try with the same plan.
    pub fn closed(&self) -> impl Iterator<Item = (usize, &str)> {
        self.outlets.iter().enumerate().filter_map(|(index, outlet)| Some((index, outlet.closed()?)))
    }

    /// Has groups pass over outlets that have no socket.
    pub(super) fn tell_closed(&self, plan: &Plan) {
        for (outlet, sockets) in plan.outlets.iter().zip(&self.outlets) {
            outlet.health.hop.set_closed(sockets.closed().is_some());
        }
    }

    /// The destinations that are to be sent to from another port: see [`EgressSockets::are_stale`].
    pub fn stale<'a>(&self, plan: &'a Plan) -> Vec<&'a str> {
        let outlets = self.outlets.iter().zip(&plan.outlets);
        let stale = outlets.filter(|(sockets, outlet)| sockets.are_stale(outlet));
        stale.map(|(_, outlet)| &*outlet.settings.name).collect()
    }

    /// Whether another try with the same plan would open any of [`closed`](Self::closed), or listeners whose interface was
    /// made anew; `from`: where to begin among the closed, for not all of many are tried.
    pub fn would_open(&self, plan: &Plan, from: usize) -> bool {
        if self.listeners.iter().any(ListenerSockets::are_outlived) {
            return true;
        }
        let closed: Vec<usize> = self.closed().map(|(index, _)| index).collect();
        let from = from % closed.len().max(1);
        let mut tried = closed[from..].iter().chain(&closed[..from]).take(TRIED);
        tried.any(|&index| {
            EgressSockets::open(&plan.outlets[index], 1).map_or(true, |sockets| sockets.closed().is_none())
        })
    }

    /// The address that a listener is bound to: with the port that the kernel chose for port 0.
    pub fn local_addr(&self, listener: usize) -> Option<SocketAddr> {
        self.listeners[listener].local_addr()
    }

    /// What the sockets of a listener were granted, by worker.
    pub fn granted(&self, listener: usize) -> impl Iterator<Item = Granted> {
        self.listeners[listener].granted()
    }

    /// Has sockets that are about to be closed leave what comes from now on to the one that stays.
    pub(super) fn leave_reuseport_groups(&mut self) {
        for socket in self.surplus.drain(..) {
            // Without a loopback interface, what comes in its last moment is lost.
            let _ = socket.stand_aside();
        }
    }

    /// Leaves the groups that the plan no longer names, and gives sockets that stay their new options.
    pub(super) fn settle(&mut self) {
        for (socket, options) in self.changed.drain(..) {
            // It takes values that were checked, and was made with such.
            if let Err(error) = socket.set_outgoing(&options) {
                tracing::error!("{error} (the socket stays as it was)");
            }
        }
        for (socket, membership) in self.outdated.drain(..) {
            // A group that cannot be left is gone with its interface.
            let _ = socket.leave(&membership);
        }
    }
}

/// Closed outlets that are tried before the rest waits.
pub const TRIED: usize = 256;
