//! An inspection of the machine: everything is read twice, with a short time in between, so that what it counts now can be told
//! from what it counted at any time since boot.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_kernel::counters::{LinkCounters, Running, softnet, udp_memory};
use weir_kernel::namespaces::NetNs;
use weir_kernel::sockets::Sockets;
use weir_kernel::{counters, host, sysctl};
use weir_trace::{Detail, Drop, Trace, Tracer};

use super::interfaces::Inspection;
use super::receivers::{enter_drops, find_receivers};
use super::{Counted, Facts, Receiver, Softnet, Sysctls, Tracking, Truesize, losses as lost};
use crate::account::difference;
use crate::places::Place;
use crate::reading::{Id, Loss, Reader, Reading, Totals};
use crate::subject::Process;

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Ports of running receivers.
    pub ports: Vec<u16>,
    /// A running receiver.
    pub process: Option<Process>,
    /// The interface that datagrams come in by; `None`: all that are up.
    pub interface: Option<String>,
    /// The group that is received.
    pub group: Option<IpAddr>,
}

impl Scope {
    /// Whether running receivers were asked for.
    pub(in crate::check) fn is_followed(&self) -> bool {
        !self.ports.is_empty() || self.process.is_some()
    }

    pub(super) fn words(&self) -> String {
        let ports = self.ports.iter().map(|port| format!("port {port}"));
        let process = self.process.iter().map(|process| format!("process {process}"));
        let group = self.group.iter().map(|group| format!("group {group}"));
        ports.chain(process).chain(group).collect::<Vec<_>>().join(", ")
    }
}

/// What is looked with.
pub struct Look<'a> {
    /// The namespace.
    pub ns: &'a NetNs,
    /// Whether it is the one that we are in, whose /sys we see.
    pub own: bool,
    /// What was asked for.
    pub scope: &'a Scope,
    /// Whether its receivers were, by whoever checks: else they are those that were found to lose.
    pub asked_for: bool,
    /// What traces the namespace, or why nothing does.
    pub tracer: Result<&'a mut Tracer, String>,
}

/// Looks for a second.
///
/// # Errors
/// If what was asked for is not there, or /proc or netlink do not answer.
pub fn collect(look: Look<'_>, truesize: Truesize) -> Result<Facts> {
    let Look { ns, own, scope, asked_for, tracer } = look;
    let mut unseen = Vec::new();
    let begun = tracer.and_then(|tracer| Ok((tracer.read().map_err(|error| error.to_string())?, tracer)));
    let mut traced = begun.map_err(|why| unseen.push(format!("{WITHOUT_COUNTER} ({why})"))).ok();
    let mut sockets = Sockets::open(ns)?;
    let sockets_before = sockets.read()?;
    let mut receivers = find_receivers(&sockets_before, scope, &mut unseen)?;
    let here = NetNs::current()?;
    let mut reader = Reader::open(ns)?;
    let before = Counts::read(&mut reader, ns)?;
    let begin = Instant::now();
    thread::sleep(WINDOW);
    let watched = begin.elapsed();
    let mut losing = enter_drops(&sockets_before, sockets.read()?, &mut receivers)?;
    let after = Counts::read(&mut reader, ns)?;
    let traced = traced.as_mut().and_then(|(before, tracer)| match tracer.read() {
        Ok(trace) => Some((difference(&trace, before), tracer.detail())),
        Err(error) => {
            unseen.push(format!("{WITHOUT_COUNTER} ({error})"));
            None
        }
    });
    if let Some((trace, detail)) = &traced {
        let all = receivers.iter_mut().chain(&mut losing);
        all.for_each(|receiver| receiver.hangs = hangs(receiver, trace, *detail));
    }
    let losses = Losses::between(&before.reading, &after.reading);
    let known = receivers.iter().chain(&losing).map(|receiver| (receiver.cookie, receiver.drops.recent)).collect();
    let ports: BTreeSet<u16> = receivers.iter().filter(|_| asked_for).map(|receiver| receiver.address.port()).collect();
    let traced = traced.as_ref().map(|(trace, detail)| (trace, *detail));
    let lost = lost::losses(traced, ns.inode()?, &losses.recent, &known, &ports);

    let memory = udp_memory(ns)?;
    let settings = settings(&here, memory.limits, &mut unseen)?;
    let (interfaces, bridges) =
        Inspection { ns, own, scope, links: &after.reading.links, losses: &losses }.interfaces(&mut unseen)?;
    Ok(Facts {
        watched_s: watched.as_secs_f64(),
        processors: after.softnet.len(),
        memory: host::memory(),
        truesize,
        settings,
        page: Some(memory.page_size),
        udp_pages: Some(memory.pages),
        softnet: softnet_facts(&before, &after),
        receivers,
        losing,
        losses: lost,
        seen: None,
        payload_is_mean: false,
        interfaces,
        bridges,
        reverse_path_drops: losses.at(Place::ReversePath, None),
        reassembly_failures: losses.at(Place::Reassembly, None),
        memory_errors: losses.at(Place::UdpMemory, None),
        tracking: counters::conntrack(ns)?.map(|tracking| Tracking {
            entries: tracking.count,
            most: tracking.max,
            drops: losses.at(Place::Firewall, None).unwrap_or_default(),
        }),
        group: scope.group.is_some(),
        unseen,
    })
}

/// Whether nothing was read of a queue that is full.
fn hangs(receiver: &Receiver, trace: &Trace, detail: Detail) -> bool {
    let is_followed = detail >= Detail::Queues && trace.missed.total() == 0;
    let reads = || trace.sockets.iter().any(|socket| socket.cookie == receiver.cookie && socket.reads > 0);
    let at_buffer = |drop: &Drop| Place::of_drop(&drop.reason, &drop.function, false) == Place::ReceiveBuffer;
    let full =
        || trace.drops.iter().any(|drop| drop.cookie == receiver.cookie && at_buffer(drop) && drop.datagrams > 0);
    is_followed && receiver.level > 0 && receiver.drops.recent > 0 && full() && !reads()
}

/// How long counters are watched.
const WINDOW: Duration = Duration::from_secs(1);

const WITHOUT_COUNTER: &str = "losses that leave no counter, as those of firewalls";

/// Counters at one moment.
struct Counts {
    reading: Reading,
    softnet: Vec<counters::Softnet>,
}

impl Counts {
    fn read(reader: &mut Reader, ns: &NetNs) -> Result<Counts> {
        let mut reading = reader.read(ns);
        match reading.failed.pop() {
            Some(error) => Err(error.into()),
            None => Ok(Counts { reading, softnet: softnet()? }),
        }
    }
}

/// What counters tell of losses, since boot and while we watched.
pub(super) struct Losses {
    total: Vec<Loss>,
    recent: Vec<Loss>,
}

impl Losses {
    fn between(before: &Reading, after: &Reading) -> Losses {
        let earlier: HashMap<&Id, u64> = before.values.iter().map(|(id, value)| (id, *value)).collect();
        let since = |(id, value): &(Id, u64)| {
            let mut running = Running::new();
            running.add(earlier.get(id).copied().unwrap_or(*value), id.counter.width());
            (id.clone(), running.add(*value, id.counter.width()))
        };
        Losses {
            total: after.values.iter().cloned().collect::<Totals>().losses(),
            recent: after.values.iter().map(since).collect::<Totals>().losses(),
        }
    }

    /// Those at a place, of one interface or of none; `None`: the kernel does not tell.
    pub(super) fn at(&self, place: Place, interface: Option<&LinkCounters>) -> Option<Counted> {
        let index = interface.map_or(0, |link| link.index);
        let of = |losses: &[Loss]| {
            let own = losses.iter().filter(|loss| loss.place == place && loss.interface == index);
            own.map(|loss| loss.packets).reduce(|sum, more| sum + more)
        };
        Some(Counted { total: of(&self.total)?, recent: of(&self.recent)? })
    }
}

fn settings(here: &NetNs, udp_mem: Option<[u64; 3]>, unseen: &mut Vec<String>) -> Result<Sysctls> {
    let mut core = |name: &str| -> Result<Option<u64>> {
        let value = sysctl::find(here, &format!("core/{name}"))?.and_then(|value| value.parse().ok());
        if value.is_none() {
            unseen.push(format!("net.core.{name} (of the machine: not shown in this namespace)"));
        }
        Ok(value)
    };
    Ok(Sysctls {
        rmem_max: core("rmem_max")?,
        rmem_default: core("rmem_default")?,
        netdev_max_backlog: core("netdev_max_backlog")?,
        netdev_budget: core("netdev_budget")?,
        netdev_budget_usecs: core("netdev_budget_usecs")?,
        udp_mem,
    })
}

fn softnet_facts(before: &Counts, after: &Counts) -> Vec<Softnet> {
    let fact = |now: &counters::Softnet| {
        let earlier = before.softnet.iter().find(|earlier| earlier.cpu == now.cpu).unwrap_or(now);
        let count = |now: u32, earlier: u32| Counted { total: now.into(), recent: now.wrapping_sub(earlier).into() };
        Softnet {
            cpu: now.cpu,
            processed: count(now.processed, earlier.processed),
            dropped: count(now.dropped, earlier.dropped),
            squeezed: count(now.squeezed, earlier.squeezed),
        }
    };
    after.softnet.iter().map(fact).collect()
}

#[cfg(test)]
mod tests {
    use weir_kernel::counters::{Counter, links};

    use super::*;

    #[test]
    fn a_loss_is_what_an_account_and_a_watch_call_one() {
        let id = |counter: Counter| Id { counter, interface: 2, name: format!("eth0 {counter}"), part: 0 };
        let of = |counters: &[Counter], value| Reading {
            values: counters.iter().map(|counter| (id(*counter), value)).collect(),
            ..Reading::default()
        };
        let eth0 = LinkCounters { index: 2, ..links(&NetNs::create().unwrap()).unwrap().remove(0) };
        let ring = [Counter::RxMissed, Counter::RxFifo, Counter::RxOver];
        for counted in [&ring[..1], &ring[1..2], &ring[2..], &ring] {
            let losses = Losses::between(&of(counted, 5), &of(counted, 12));
            let told = losses.at(Place::ReceiveRing, Some(&eth0));
            assert_eq!(told, Some(Counted { total: 12, recent: 7 }), "{counted:?}");
        }
        let damaged = [Counter::RxCrc, Counter::RxFrame, Counter::RxLength];
        let losses = Losses::between(&of(&damaged, 5), &of(&damaged, 12));
        assert_eq!(losses.at(Place::Frame, Some(&eth0)), Some(Counted { total: 36, recent: 21 }));
        assert_eq!(losses.at(Place::Frame, None), None);
    }

    #[test]
    fn an_empty_namespace_has_nothing_but_settings() {
        let ns = NetNs::create().unwrap();
        let truesize = Truesize { bytes: 832, source: "test".into() };
        let look = |scope| Look { ns: &ns, own: false, scope, asked_for: true, tracer: Err("not permitted".into()) };
        let all = Scope::default();
        let facts = collect(look(&all), truesize.clone()).unwrap();
        assert_eq!((&facts.truesize, &*facts.interfaces, &*facts.receivers), (&truesize, &[][..], &[][..]));
        assert!(facts.settings.rmem_max.is_some() && facts.processors > 0, "{facts:?}");
        let missing = Scope { ports: vec![5], ..Scope::default() };
        let refused = collect(look(&missing), truesize).unwrap_err().to_string();
        assert!(refused.starts_with("port 5: no UDP socket of that kind is open"), "{refused}");
        let nobody = Scope { process: Some(Process::Name("no-such-program".into())), ..Scope::default() };
        let truesize = Truesize { bytes: 832, source: "test".into() };
        let refused = collect(look(&nobody), truesize).unwrap_err().to_string();
        assert_eq!(refused, "process no-such-program: there is no such process");
    }
}
