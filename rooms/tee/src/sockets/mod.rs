//! The sockets of a plan: opened before anything is handed over, so that a plan that cannot be carried out changes
//! nothing.
//!
//! What a plan has in common with the one before keeps its sockets: no datagram in their queues is lost. A listener has
//! one socket a worker (SO_REUSEPORT: the kernel spreads flows over them), an outlet one a worker.

mod egress;
mod listener;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weir_dgram::{Error, Granted, Membership, Options, Socket};

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
    /// Sockets of listeners that are to have but one from now on.
    surplus: Vec<Arc<Socket>>,
}

impl Sockets {
    /// Opens what the plan needs beyond the sockets of `previous`. `adopted`: sockets that a service manager has bound;
    /// those that no listener is for are closed. Must run in the network namespace of the tee. Nothing that is in use
    /// changes before the plan takes over.
    ///
    /// # Errors
    /// A listener cannot be bound, a group not be joined, an option not be set. A destination without a route is no
    /// error: its copies count as unreachable, see [`closed`](Self::closed).
    pub fn open(plan: &Plan, adopted: Vec<OwnedFd>, previous: Option<&Self>) -> Result<Self, Error> {
        let mut adopted =
            adopted.into_iter().map(|fd| Socket::adopt(fd, &Options::default())).collect::<Result<Vec<_>, _>>()?;
        let (mut outdated, mut surplus, mut joined) = (Vec::new(), Vec::new(), NewMemberships::default());
        let mut listeners = Vec::new();
        for listener in &plan.listeners {
            let old = previous.and_then(|previous| previous.listeners.iter().find(|old| old.serves(listener)));
            listeners.push(match old {
                Some(old) => old.keep(listener, &mut joined, &mut outdated, &mut surplus)?,
                None => ListenerSockets::open(listener, plan, &mut adopted, previous)?,
            });
        }
        let mut outlets = Vec::new();
        for outlet in &plan.outlets {
            let old = previous.and_then(|previous| previous.outlets.iter().find(|old| old.serves(outlet)));
            outlets.push(match old {
                Some(old) => old.keep(outlet),
                None => EgressSockets::open(outlet, plan.books.workers())?,
            });
        }
        joined.keep();
        Ok(Self { listeners, outlets, outdated, surplus })
    }

    /// Why outlets of the plan have no socket, with their indices. They are worth another try with the same plan.
    pub fn closed(&self) -> impl Iterator<Item = (usize, &str)> {
        self.outlets.iter().enumerate().filter_map(|(index, outlet)| Some((index, outlet.closed()?)))
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

    /// Leaves the groups that the plan no longer names.
    pub(super) fn settle(&mut self) {
        for (socket, membership) in self.outdated.drain(..) {
            // A group that cannot be left is gone with its interface.
            let _ = socket.leave(&membership);
        }
    }
}
