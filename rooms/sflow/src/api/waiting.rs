//! Places for clients that wait: long polls and streams. There are few, nobody has more than a share of them, and a
//! connection in one is not taken for idle.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;

use super::problem::Problem;

/// Places of one kind.
#[derive(Debug)]
pub(crate) struct Places {
    taken: Arc<Mutex<Taken>>,
    most: usize,
    /// What clients do in them.
    what: &'static str,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<IpAddr, usize>,
}

/// A connection: its client, and how many of its requests wait for good reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    requests: Arc<AtomicUsize>,
    /// Whose share it counts to; unknown where another server took the connection.
    client: Option<IpAddr>,
}

/// A place that is taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<Mutex<Taken>>,
    held: Held,
}

/// Clients that wait or follow events at once.
pub(crate) const PLACES: usize = 256;

/// Clients that follow flows at once: each has a frame of its own in memory.
pub(crate) const FLOW_STREAMS: usize = 64;

/// One address has this part of the places.
pub(super) const SHARE: usize = 4;

impl Places {
    pub(crate) fn new(most: usize, what: &'static str) -> Self {
        Self { taken: Arc::default(), most, what }
    }

    pub(crate) fn take(&self, held: &Held) -> Result<Place, Problem> {
        let full = |who: String| {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{who} {} already: try again later", self.what))
        };
        let mut taken = lock(&self.taken);
        if taken.all >= self.most {
            return Err(full(format!("{} clients", self.most)));
        }
        if let Some(client) = held.client {
            let own = taken.by.entry(client).or_default();
            if *own >= self.most / SHARE {
                return Err(full(format!("{} clients at {client}, the share of one address,", self.most / SHARE)));
            }
            *own += 1;
        }
        taken.all += 1;
        held.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Place { taken: self.taken.clone(), held: held.clone() })
    }
}

impl Held {
    /// Of a client's connection. The networks of 64 bits that hosts have in IPv6 count as one address.
    pub(super) fn by(client: IpAddr) -> Self {
        let client = match client.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from(network))
            }
            address => address,
        };
        Self { requests: Arc::default(), client: Some(client) }
    }

    /// Whether another is of the same address.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.client == other.client
    }

    pub(crate) fn is_held(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.held.requests.fetch_sub(1, Ordering::Relaxed);
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        if let Some(client) = self.held.client
            && let Some(own) = taken.by.get_mut(&client)
        {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&client);
            }
        }
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}
