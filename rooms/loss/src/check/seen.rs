//! The load of a receiver, taken from what comes to it.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use weir_kernel::namespaces::NetNs;
use weir_kernel::sockets::{Owner, Sockets, owners};
use weir_kernel::trace::{Detail, Filter, SocketTrace, Tracer};
use weir_units::{Frequency, Size, Span};

use super::facts::Scope;
use super::load::{Load, Stated};
use crate::advice::{self, Advice};

/// What came to the socket that loses most, or else is busiest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// Where it receives.
    pub address: SocketAddr,
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// Its program; `None`: not to be seen.
    pub process: Option<String>,
    /// How long was looked, seconds.
    pub took_s: f64,
    /// Datagrams that came to it; those that the kernel joined count as one.
    pub datagrams: u64,
    /// Of these, how many found its buffer full.
    pub lost: u64,
    /// As a load: datagrams a second, of where any were lost while any waited; their mean payload; the longest stall.
    pub load: Load,
    /// What helps; null: nothing was lost.
    pub advice: Option<Advice>,
}

/// Looks for some seconds. `None`: nothing came.
///
/// # Errors
/// Without the privilege to trace, or if the kernel does not list its sockets.
pub(super) fn look(ns: &NetNs, scope: &Scope, stated: &Stated) -> Result<Option<Seen>> {
    let filter = Filter { ports: scope.ports.clone(), namespaces: vec![ns.inode()?] };
    let instead = || "see the load (or state it: --rate, --payload, --stall)";
    let mut tracer = Tracer::start(Detail::Queues, &filter).with_context(instead)?;
    let mut sockets = Sockets::open(ns)?;
    let begin = Instant::now();
    thread::sleep(LOOK);
    let (trace, took) = (tracer.read()?, begin.elapsed());
    let owners = owners()?;
    let mut found = Vec::new();
    for socket in sockets.read()? {
        let holds = |owner: &&Owner| scope.process.as_ref().is_none_or(|process| process.is(owner.pid, &owner.name));
        let owner = owners.of(socket.inode).iter().find(holds);
        let traced = trace.sockets.iter().find(|traced| Some(traced.cookie) == socket.cookie && traced.enqueued > 0);
        if let Some(traced) = traced.filter(|_| scope.process.is_none() || owner.is_some()) {
            found.push((socket.local, owner.map(|owner| owner.name.clone()), *traced));
        }
    }
    let worst = found.into_iter().max_by_key(|(_, _, traced)| (traced.dropped, traced.enqueued));
    Ok(worst.map(|(address, process, traced)| seen(address, process, &traced, took, stated)))
}

fn seen(address: SocketAddr, process: Option<String>, traced: &SocketTrace, took: Duration, stated: &Stated) -> Seen {
    let advice = advice::of(traced, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    let datagrams = traced.enqueued + traced.dropped;
    let mean = datagrams as f64 / took.as_secs_f64();
    let per_s = advice.as_ref().map_or(mean, |advice| advice.arrive_per_s.max(mean));
    let load = Load {
        rate: stated.rate.unwrap_or(Frequency { micro_hertz: (per_s.ceil() * 1e6) as u64 }),
        payload: stated.payload.unwrap_or(Size { bytes: traced.read_bytes.div_ceil(traced.reads.max(1)) }),
        stall: stated.stall.unwrap_or(Span { nanos: traced.longest_stall_ns }),
    };
    let (cookie, took_s) = (traced.cookie, took.as_secs_f64());
    Seen { address, cookie, process, took_s, datagrams, lost: traced.dropped, load, advice }
}

/// Stalls of a collection or a flush come within some seconds.
const LOOK: Duration = Duration::from_secs(3);
