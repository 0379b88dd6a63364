//! Host names to addresses, again and again: at once, when the answer's TTL has passed, and after failures.
//!
//! ```text
//! follow(names) -> one task a name: hosts file, name servers -> record: what counts now -> addresses(name), events
//!                  (resolve/directory)                         (resolve/record)
//! ```
//!
//! Nobody waits for it. A name that does not resolve has no addresses until it does; one that fails later keeps those
//! it had. Tasks live on a tokio runtime beside the data plane; who follows names need not.
//!
//! A control loop of any kind uses it like this: `events` posts to the loop's own queue (and wakes it), the loop takes
//! [`Event::Resolved`] and [`Event::Withdrawn`] as a reason to compile its plan anew with [`Resolver::addresses`], and
//! logs every event, which is one line. On a reload it calls [`Resolver::follow`] with the new names *before* compiling
//! the plan: names that stay keep their addresses without a gap.

mod directory;
mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use directory::System;
use record::{Record, Told};

/// Where answers come from, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverOptions {
    /// Name servers to ask, in place of those in `resolv_conf`; whose search domains and options stay in force.
    pub nameservers: Vec<SocketAddr>,
    /// Name servers, search domains, `ndots` (resolv.conf(5)). Without it, or without name servers in it, 127.0.0.1 is
    /// asked.
    pub resolv_conf: PathBuf,
    /// Names that no server is asked for (hosts(5)). It may be missing.
    pub hosts: PathBuf,
    /// Least time from one answer to the next question, whatever its TTL.
    pub shortest: Duration,
    /// Most time from one answer to the next question.
    pub longest: Duration,
    /// From the first failure to the next try; it doubles with every further one, up to `last_retry`.
    pub first_retry: Duration,
    /// Most time from a failure to the next try.
    pub last_retry: Duration,
    /// Most time that one question to one server may take. That in `resolv_conf` counts where it is less.
    pub timeout: Duration,
    /// How long addresses are kept while servers answer that there are none. (While they do not answer: for ever.)
    pub hold: Duration,
}

/// Follows host names. Dropped, it follows none.
pub struct Resolver {
    runtime: Handle,
    shared: Arc<Shared>,
    names: BTreeMap<String, Followed>,
}

/// What became of a name. `Display` is a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has these addresses, which it had not before; or it resolves again, to the same.
    Resolved {
        /// The name.
        name: String,
        /// All of them, in the order in which they are to be used: see [`Resolver::addresses`].
        addresses: Vec<IpAddr>,
    },
    /// It does not resolve (any more). Said once, until it resolves again.
    Failing {
        /// The name.
        name: String,
        /// Why, for people.
        reason: String,
        /// Addresses that it had before and keeps.
        kept: usize,
    },
    /// Servers have answered for [`ResolverOptions::hold`] that there are no addresses: it has none any more.
    Withdrawn {
        /// The name.
        name: String,
    },
}

/// What tasks share.
struct Shared {
    options: ResolverOptions,
    system: System,
    events: Box<dyn Fn(Event) + Send + Sync>,
}

/// A name that is followed.
struct Followed {
    addresses: Arc<Mutex<Vec<IpAddr>>>,
    task: JoinHandle<()>,
}

impl Resolver {
    /// Follows no name yet. Tasks will run on `runtime`, which must drive I/O and time, and call `events` there: it must
    /// not block.
    pub fn new(runtime: Handle, options: ResolverOptions, events: impl Fn(Event) + Send + Sync + 'static) -> Self {
        let system = System::new(&options);
        let shared = Arc::new(Shared { options, system, events: Box::new(events) });
        Self { runtime, shared, names: BTreeMap::new() }
    }

    /// Follows these names and no others. Those that it followed already keep their addresses. Returns at once.
    pub fn follow<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        let mut before = std::mem::take(&mut self.names);
        for name in names {
            let followed = before.remove(name).or_else(|| self.names.remove(name));
            let followed = followed.unwrap_or_else(|| {
                let addresses = Arc::<Mutex<Vec<IpAddr>>>::default();
                let task = follow(Arc::clone(&self.shared), name.to_owned(), Arc::clone(&addresses));
                Followed { addresses, task: self.runtime.spawn(task) }
            });
            self.names.insert(name.to_owned(), followed);
        }
    }

    /// The addresses that count now. Empty: it does not resolve yet, or it is not followed.
    ///
    /// Addresses keep their order as long as they are there, so that the first stays the first; new ones come behind
    /// them, those that this machine has a route to first, IPv4 before IPv6, and in their numeric order.
    pub fn addresses(&self, name: &str) -> Vec<IpAddr> {
        self.names.get(name).map(|followed| lock(&followed.addresses).clone()).unwrap_or_default()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Default for ResolverOptions {
    fn default() -> Self {
        Self {
            nameservers: Vec::new(),
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            shortest: Duration::from_secs(1),
            longest: Duration::from_secs(300),
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_secs(30),
            timeout: Duration::from_secs(2),
            hold: Duration::from_secs(30),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolved { name, addresses } => {
                write!(f, "resolve {name}: ")?;
                for (i, address) in addresses.iter().enumerate() {
                    write!(f, "{}{address}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::Failing { name, reason, kept: 0 } => write!(f, "resolve {name}: {reason} (still trying)"),
            Self::Failing { name, reason, kept } => {
                write!(f, "resolve {name}: {reason} (its last {kept} addresses stay in use)")
            }
            Self::Withdrawn { name } => write!(f, "resolve {name}: no addresses any more (copies for it are dropped)"),
        }
    }
}

/// Follows one name for ever.
async fn follow(shared: Arc<Shared>, name: String, addresses: Arc<Mutex<Vec<IpAddr>>>) {
    let mut record = Record::default();
    loop {
        let answer = shared.system.directory().look_up(&name, record.origin()).await;
        let (wait, told) = record.take(answer, Instant::now(), &shared.options, directory::has_route);
        if let Some(told) = told {
            record.addresses().clone_into(&mut lock(&addresses));
            (shared.events)(match told {
                Told::Resolved => Event::Resolved { name: name.clone(), addresses: record.addresses().to_vec() },
                Told::Failing(reason) => Event::Failing { name: name.clone(), reason, kept: record.addresses().len() },
                Told::Withdrawn => Event::Withdrawn { name: name.clone() },
            });
        }
        tokio::time::sleep(wait).await;
    }
}

/// Nobody panics while holding it: a list of addresses is whole at all times.
fn lock(addresses: &Mutex<Vec<IpAddr>>) -> MutexGuard<'_, Vec<IpAddr>> {
    addresses.lock().unwrap_or_else(PoisonError::into_inner)
}
