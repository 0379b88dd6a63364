//! The load of a receiver, taken from what comes to it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use weir_kernel::namespaces::NetNs;
use weir_kernel::sockets::{Owner, Sockets, owners};
use weir_trace::{SocketTrace, Trace, Tracer};
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
    /// How many its socket dropped meanwhile, for whatever reason.
    pub lost: u64,
    /// As a load: datagrams a second on average, their mean payload, the longest stall.
    pub load: Load,
    /// What helps; null: nothing was lost.
    pub advice: Option<Advice>,
}

/// Looks for some seconds at what `tracer`, which has just been started, counts. `None`: nothing came to a socket.
///
/// # Errors
/// If the kernel does not list its sockets, or what was traced.
pub(super) fn look(ns: &NetNs, tracer: &mut Tracer, scope: &Scope, stated: &Stated) -> Result<Option<Seen>> {
    let mut sockets = Sockets::open(ns)?;
    let drops: HashMap<u32, u32> =
        sockets.read()?.into_iter().map(|socket| (socket.inode, socket.memory.drops)).collect();
    let begin = Instant::now();
    thread::sleep(LOOK);
    let (trace, took) = (tracer.read()?, begin.elapsed());
    let owners = owners()?;
    let mut found = Vec::new();
    for socket in sockets.read()? {
        if !scope.ports.is_empty() && !scope.ports.contains(&socket.local.port()) {
            continue;
        }
        let holds = |owner: &&Owner| scope.process.as_ref().is_none_or(|process| process.is(owner.pid, &owner.name));
        let owner = owners.of(socket.inode).iter().find(holds);
        let traced = trace.sockets.iter().find(|traced| Some(traced.cookie) == socket.cookie && traced.enqueued > 0);
        if let Some(traced) = traced.filter(|_| scope.process.is_none() || owner.is_some()) {
            let lost = socket.memory.drops.wrapping_sub(drops.get(&socket.inode).copied().unwrap_or(0));
            found.push((socket.local, owner.map(|owner| owner.name.clone()), u64::from(lost), *traced));
        }
    }
    let worst = found.into_iter().max_by_key(|(_, _, lost, traced)| (*lost, traced.enqueued));
    let inode = ns.inode()?;
    Ok(worst.map(|(address, process, lost, traced)| {
        let came = came_to(&trace, traced.cookie, inode);
        Seen { lost, ..seen(address, process, &traced, came, took, stated) }
    }))
}

/// Datagrams and bytes that came to the port of a socket; `None`: others have that port, too, or it is not traced.
fn came_to(trace: &Trace, cookie: u64, namespace: u32) -> Option<(u64, u64)> {
    let port = trace.sockets.iter().find(|socket| socket.cookie == cookie)?.port;
    let sharing = trace.sockets.iter().filter(|other| (other.port, other.namespace) == (port, namespace));
    let came = trace.arrivals.iter().filter(|count| (count.port, count.namespace) == (port, namespace));
    let sum = came.fold((0, 0), |sum, count| (sum.0 + count.datagrams, sum.1 + count.bytes));
    (sharing.count() == 1 && sum.0 > 0).then_some(sum)
}

/// Where nothing comes to a socket: as far as it was stated.
pub(super) fn nothing(stated: &Stated) -> Load {
    Load {
        rate: stated.rate.unwrap_or(Frequency { micro_hertz: 1_000_000 }),
        payload: stated.payload.unwrap_or(Size { bytes: 0 }),
        stall: stated.stall.unwrap_or_default(),
    }
}

/// `came`: datagrams and bytes that came to its port, where it is the only one there.
fn seen(
    address: SocketAddr,
    process: Option<String>,
    traced: &SocketTrace,
    came: Option<(u64, u64)>,
    took: Duration,
    stated: &Stated,
) -> Seen {
    let advice = advice::of(traced, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    let datagrams = traced.enqueued + traced.dropped;
    let per_s = datagrams as f64 / took.as_secs_f64();
    let read = advice::mean(traced.read_bytes, traced.reads);
    // What its program cuts off has come all the same. Joined ones are read as one.
    let came = came.filter(|_| traced.read_datagrams == Some(traced.reads));
    let payload = came.map_or(read, |(datagrams, bytes)| advice::mean(bytes, datagrams).max(read));
    let load = Load {
        rate: stated.rate.unwrap_or(Frequency { micro_hertz: (per_s.ceil() * 1e6) as u64 }),
        payload: stated.payload.unwrap_or(Size { bytes: payload }),
        stall: stated.stall.unwrap_or(Span { nanos: traced.longest_stall_ns.next_multiple_of(100_000) }),
    };
    let (cookie, took_s) = (traced.cookie, took.as_secs_f64());
    Seen { address, cookie, process, took_s, datagrams, lost: traced.dropped, load, advice }
}

/// Stalls of a collection or a flush come within some seconds.
const LOOK: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_the_payload_that_came_not_what_was_left_of_it() {
        let traced = SocketTrace {
            reads: 10,
            read_bytes: 500,
            read_datagrams: Some(10),
            enqueued: 10,
            port: 5000,
            ..SocketTrace::default()
        };
        let payload = |traced: &SocketTrace, came| {
            let address = "127.0.0.1:5000".parse().unwrap();
            seen(address, None, traced, came, LOOK, &Stated::default()).load.payload.bytes
        };
        assert_eq!(payload(&traced, Some((10, 1000))), 100);
        assert_eq!(payload(&traced, None), 50);
        let joined = SocketTrace { read_datagrams: Some(100), ..traced };
        assert_eq!(payload(&joined, Some((100, 500))), 50);
    }
}
