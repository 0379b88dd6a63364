//! Places for clients that wait: long polls and streams. There are few, nobody has more than a share of them, and a
//! connection in one is not taken for idle.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places of one kind.
#[derive(Debug)]
pub struct Places {
    taken: Arc<Mutex<Taken>>,
    most: usize,
    /// Of those, the share of one address.
    share: usize,
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
pub struct Held {
    requests: Arc<AtomicUsize>,
    /// Whose share it counts to; unknown where another server took the connection.
    client: Option<IpAddr>,
}

/// A place that is taken; given back when dropped.
#[derive(Debug)]
pub struct Place {
    taken: Arc<Mutex<Taken>>,
    held: Held,
}

/// There is no place left: who has them all, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{who} {what} already: try again later")]
pub struct Full {
    who: String,
    what: &'static str,
}

impl Places {
    /// Of so many, of which one address may have a share; `what` their clients do stands in refusals: `follow flows`.
    pub fn new(most: usize, share: usize, what: &'static str) -> Self {
        Self { taken: Arc::default(), most, share, what }
    }

    /// Takes one.
    ///
    /// # Errors
    /// If all are taken, or the share of this address.
    pub fn take(&self, held: &Held) -> Result<Place, Full> {
        let full = |who: String| Full { who, what: self.what };
        let mut taken = lock(&self.taken);
        if taken.all >= self.most {
            return Err(full(format!("{} clients", self.most)));
        }
        if let Some(client) = held.client {
            let own = taken.by.entry(client).or_default();
            if *own >= self.share {
                return Err(full(format!("{} clients at {client}, the share of one address,", self.share)));
            }
            *own += 1;
        }
        taken.all += 1;
        held.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Place { taken: self.taken.clone(), held: held.clone() })
    }

    /// Those that are taken now.
    pub fn taken(&self) -> usize {
        lock(&self.taken).all
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

    /// Whose connection it is, IPv6 by its network of 64 bits; `None`: another server took it.
    pub fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// Whether another is of the same address.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.client == other.client
    }

    pub(super) fn is_held(&self) -> bool {
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
