//! An inspection of the machine: everything is read twice, with a short time in between, so that what it counts now can be told
//! from what it counted at any time since boot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::socket::{getsockopt, sockopt};
use weir_kernel::counters::{LinkCounters, Running, reassembly, softnet, udp_memory};
use weir_kernel::ethtool::{Device, Ethtool};
use weir_kernel::links::{Netlink, default_routes};
use weir_kernel::namespaces::NetNs;
use weir_kernel::offloads::{Offload, Offloads};
use weir_kernel::sockets::{Owner, Sockets, UdpSocket, borrow, owners};
use weir_kernel::steering::receive_queues;
use weir_kernel::{counters, host, sysctl};

use super::{
    Bridge, Counted, Facts, Interface, Moderation, Pause, Queue, Receiver, Ring, Softnet, Sysctls, Tracking, Truesize,
};
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

    fn words(&self) -> String {
        let ports = self.ports.iter().map(|port| format!("port {port}"));
        let process = self.process.iter().map(|process| format!("process {process}"));
        ports.chain(process).collect::<Vec<_>>().join(", ")
    }
}

/// Looks for a second. `own`: `ns` is the namespace that we are in, whose /sys we see.
///
/// # Errors
/// If what was asked for is not there, or /proc or netlink do not answer.
pub fn collect(ns: &NetNs, own: bool, scope: &Scope, truesize: Truesize) -> Result<Facts> {
    let mut unseen = Vec::new();
    let mut sockets = Sockets::open(ns)?;
    let mut receivers = find_receivers(&mut sockets, scope, &mut unseen)?;
    let here = NetNs::current()?;
    let mut reader = Reader::open(ns)?;
    let before = Counts::read(&mut reader, ns)?;
    let others = others(&mut sockets, &receivers)?;
    let begin = Instant::now();
    let levels = watch(&mut sockets, &mut receivers)?;
    let watched = begin.elapsed();
    let losing = losing(&mut sockets, &others)?;
    let after = Counts::read(&mut reader, ns)?;
    let losses = Losses::between(&before.reading, &after.reading);

    let truesize = match weigh(&levels) {
        Some(bytes) if bytes > truesize.bytes => Truesize { bytes, source: "seen in its receive queue".to_owned() },
        _ => truesize,
    };
    let memory = udp_memory(ns)?;
    let settings = settings(&here, ns, memory.limits, &mut unseen)?;
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
        receivers: receivers.into_iter().map(|watched| watched.fact).collect(),
        losing,
        seen: None,
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
struct Losses {
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
    fn at(&self, place: Place, interface: Option<&LinkCounters>) -> Option<Counted> {
        let index = interface.map_or(0, |link| link.index);
        let of = |losses: &[Loss]| {
            let own = losses.iter().filter(|loss| loss.place == place && loss.interface == index);
            own.map(|loss| loss.packets).reduce(|sum, more| sum + more)
        };
        Some(Counted { total: of(&self.total)?, recent: of(&self.recent)? })
    }
}

/// A receiver that is watched.
struct Watched {
    cookie: Option<u64>,
    inode: u32,
    drops: u32,
    fact: Receiver,
}

fn find_receivers(sockets: &mut Sockets, scope: &Scope, unseen: &mut Vec<String>) -> Result<Vec<Watched>> {
    if !scope.is_followed() {
        return Ok(Vec::new());
    }
    let owners = owners()?;
    let holds = |owner: &Owner| scope.process.as_ref().is_none_or(|process| process.is(owner.pid, &owner.name));
    let wanted = |socket: &UdpSocket| {
        let port = scope.ports.is_empty() || scope.ports.contains(&socket.local.port());
        let group = scope.group.is_none_or(|group| socket.local.ip().is_unspecified() || socket.local.ip() == group);
        let process = scope.process.is_none() || owners.of(socket.inode).iter().any(holds);
        port && group && process
    };
    let found: Vec<UdpSocket> = sockets.read()?.into_iter().filter(wanted).collect();
    if found.is_empty() {
        let hidden = match owners.hidden() {
            0 => String::new(),
            hidden => format!(" ({hidden} processes of other users are hidden: run as root)"),
        };
        bail!("{}: no UDP socket of that kind is open{hidden}", scope.words());
    }
    let receiver = |socket: UdpSocket| {
        let owner = owners.of(socket.inode).iter().find(|owner| holds(owner));
        if owner.is_none() {
            unseen.push(format!("whose socket {} is (run as root)", socket.local));
        }
        let fact = Receiver {
            address: socket.local,
            cookie: socket.cookie.unwrap_or(0),
            pid: owner.map(|owner| owner.pid),
            process: owner.map(|owner| owner.name.clone()),
            buffer: socket.memory.receive_buffer.unwrap_or(0).into(),
            level: 0,
            drops: Counted { total: socket.memory.drops.into(), recent: 0 },
            joins: owner.and_then(|owner| {
                let socket = borrow(owner.pid, owner.fd).ok()?;
                getsockopt(&socket, sockopt::UdpGroSegment).ok()
            }),
        };
        Watched { cookie: socket.cookie, inode: socket.inode, drops: socket.memory.drops, fact }
    };
    Ok(found.into_iter().map(receiver).collect())
}

/// What sockets that are not followed have dropped so far, by cookie.
fn others(sockets: &mut Sockets, receivers: &[Watched]) -> Result<HashMap<u64, u32>> {
    let followed: BTreeSet<Option<u64>> = receivers.iter().map(|watched| watched.cookie).collect();
    let others = sockets.read()?.into_iter().filter(|socket| !followed.contains(&socket.cookie));
    Ok(others.filter_map(|socket| Some((socket.cookie?, socket.memory.drops))).collect())
}

/// Those of them that have dropped something, now or before.
fn losing(sockets: &mut Sockets, before: &HashMap<u64, u32>) -> Result<Vec<Receiver>> {
    let is_losing = |socket: &UdpSocket| {
        socket.memory.drops > 0 && socket.cookie.is_some_and(|cookie| before.contains_key(&cookie))
    };
    let found: Vec<UdpSocket> = sockets.read()?.into_iter().filter(is_losing).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let owners = owners()?;
    let receiver = |socket: UdpSocket| {
        let owner = owners.of(socket.inode).first();
        let cookie = socket.cookie.unwrap_or(0);
        let earlier = before.get(&cookie).copied().unwrap_or(socket.memory.drops);
        let recent = socket.memory.drops.wrapping_sub(earlier);
        Receiver {
            address: socket.local,
            cookie,
            pid: owner.map(|owner| owner.pid),
            process: owner.map(|owner| owner.name.clone()),
            buffer: socket.memory.receive_buffer.unwrap_or(0).into(),
            level: socket.memory.rmem_alloc.into(),
            drops: Counted { total: socket.memory.drops.into(), recent: recent.into() },
            joins: None,
        }
    };
    let mut losing: Vec<Receiver> = found.into_iter().map(receiver).collect();
    losing.sort_by_key(|receiver| std::cmp::Reverse((receiver.drops.recent, receiver.drops.total)));
    losing.truncate(MOST_LOSING);
    Ok(losing)
}

/// Sockets that are named though nobody asked for them.
const MOST_LOSING: usize = 20;

/// Looks at receivers until the time is over; returns the levels that were seen.
fn watch(sockets: &mut Sockets, receivers: &mut [Watched]) -> Result<BTreeSet<u64>> {
    let begin = Instant::now();
    let mut levels = BTreeSet::new();
    if receivers.is_empty() {
        thread::sleep(WINDOW);
        return Ok(levels);
    }
    while begin.elapsed() < WINDOW {
        for socket in sockets.read()? {
            let same = |watched: &&mut Watched| watched.cookie == socket.cookie && watched.inode == socket.inode;
            if let Some(watched) = receivers.iter_mut().find(same) {
                let level = u64::from(socket.memory.rmem_alloc);
                watched.fact.level = watched.fact.level.max(level);
                watched.fact.drops = Counted {
                    total: socket.memory.drops.into(),
                    recent: socket.memory.drops.wrapping_sub(watched.drops).into(),
                };
                levels.insert(level);
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(levels)
}

/// The memory of one datagram, where all are alike: what all levels are multiples of. `None`: too few levels were seen to
/// tell.
fn weigh(levels: &BTreeSet<u64>) -> Option<u64> {
    let levels: Vec<u64> = levels.iter().copied().filter(|level| *level > 0).collect();
    let common = levels.iter().copied().fold(0, greatest_common_divisor);
    (levels.len() >= ENOUGH_LEVELS && common >= LEAST_TRUESIZE).then_some(common)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn settings(here: &NetNs, ns: &NetNs, udp_mem: Option<[u64; 3]>, unseen: &mut Vec<String>) -> Result<Sysctls> {
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
        ipfrag_high_thresh: reassembly(ns)?.ipv4.high_threshold,
    })
}

/// An inspection of the interfaces.
struct Inspection<'a> {
    ns: &'a NetNs,
    own: bool,
    scope: &'a Scope,
    links: &'a [LinkCounters],
    losses: &'a Losses,
}

impl Inspection<'_> {
    fn interfaces(&self, unseen: &mut Vec<String>) -> Result<(Vec<Interface>, Vec<Bridge>)> {
        let links = self.links;
        if let Some(name) = self.scope.interface.as_ref().filter(|name| links.iter().all(|link| link.name != **name)) {
            bail!("interface {name}: no such interface in this namespace");
        }
        let looked_at = |link: &&LinkCounters| match &self.scope.interface {
            Some(name) => link.name == *name,
            // A port of a bridge that is no card belongs to a container or a virtual machine.
            None => link.up && !link.loopback && (link.kind.is_none() || link.master.is_none()),
        };
        let default_routes = default_routes(self.ns).ok().filter(|through| !through.is_empty());
        let (ethtool, mut offloads) = (Ethtool::open(self.ns)?, Offloads::open(self.ns)?);
        let mut devices: BTreeMap<&str, Device> = BTreeMap::new();
        for link in links {
            // One that goes away meanwhile has nothing to tell.
            devices.insert(&link.name, ethtool.device(&link.name).unwrap_or_default());
        }
        let mut interfaces = Vec::new();
        for link in links.iter().filter(looked_at) {
            let device = &devices[link.name.as_str()];
            let mut interface = self.interface(link, device, default_routes.as_ref())?;
            interface.joins = offloads.is_on(&link.name, Offload::GenericReceive).ok();
            if device.driver.as_deref() == Some(VIRTIO) {
                unseen
                    .push(format!("interrupt moderation of {} ({VIRTIO} does not tell whether it has any)", link.name));
            }
            interfaces.push(interface);
        }
        if !self.own {
            unseen.push("packet steering (rps_cpus) of another namespace: run this inside it".to_owned());
        }
        let snooping = Netlink::open(self.ns)?.snooping()?;
        let bridge = |found: weir_kernel::links::Snooping| {
            let port = |link: &&LinkCounters| link.master == Some(found.index) && link.up;
            let speed =
                |link: &LinkCounters| Some((link.name.clone(), self.speed(link, &devices[link.name.as_str()])?));
            let ports = links.iter().filter(port).filter_map(speed).collect();
            Bridge { name: found.bridge, snoops: found.snoops, asks: found.asks, asked: found.asked, ports }
        };
        Ok((interfaces, snooping.into_iter().map(bridge).collect()))
    }

    fn interface(&self, link: &LinkCounters, device: &Device, default: Option<&BTreeSet<String>>) -> Result<Interface> {
        let bridge = self.links.iter().find(|other| Some(other.index) == link.master);
        let channels = device.channels.map(|channels| channels.combined_max.max(channels.receive_max));
        Ok(Interface {
            name: link.name.clone(),
            mtu: link.mtu.into(),
            speed_mbit: self.speed(link, device),
            hardware: is_hardware(link),
            through_backlog: link.loopback || link.kind.as_deref() == Some("veth"),
            bridge: bridge.map(|bridge| bridge.name.clone()),
            ring: device
                .rings
                .filter(|rings| rings.receive_max > 0)
                .map(|rings| Ring { length: rings.receive.into(), most: rings.receive_max.into() }),
            moderation: device.coalescing.filter(|_| device.driver.as_deref() != Some(VIRTIO)).map(|moderation| {
                Moderation {
                    usecs: moderation.receive_us.into(),
                    frames: moderation.receive_frames.into(),
                    adaptive: moderation.receive_adaptive,
                }
            }),
            pause: device.pause.map(|pause| Pause { obeys: pause.receive, sends: pause.transmit }),
            queues: if self.own { queues(link) } else { Vec::new() },
            most_queues: channels.filter(|most| *most > 0),
            ring_drops: self.losses.at(Place::ReceiveRing, Some(link)).unwrap_or_default(),
            damaged: self.losses.at(Place::Frame, Some(link)).unwrap_or_default(),
            rp_filter: self.rp_filter(&link.name)?,
            default_route: default.map(|through| through.contains(&link.name)),
            joins: None,
        })
    }

    /// A virtual interface claims a speed that means nothing.
    fn speed(&self, link: &LinkCounters, device: &Device) -> Option<u64> {
        device.mode.filter(|_| is_hardware(link))?.speed_mbit.map(u64::from)
    }

    /// The kernel takes the larger of the interface's and `all`.
    fn rp_filter(&self, name: &str) -> Result<Option<u8>> {
        let of = |name: &str| sysctl::find(self.ns, &format!("ipv4/conf/{name}/rp_filter"));
        let value = |text: Option<String>| text.and_then(|text| text.parse::<u8>().ok());
        let (own, all) = (value(of(name)?), value(of("all")?));
        Ok(own.zip(all).map(|(own, all)| own.max(all)))
    }
}

fn is_hardware(link: &LinkCounters) -> bool {
    link.kind.is_none() && !link.loopback
}

fn queues(link: &LinkCounters) -> Vec<Queue> {
    let queues = receive_queues(&link.name, link.index).into_iter();
    queues.map(|queue| Queue { number: queue.number, steered_to: queue.steered_to }).collect()
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

/// How long counters are watched.
const WINDOW: Duration = Duration::from_millis(1000);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Fewer may have a larger divisor by chance.
const ENOUGH_LEVELS: usize = 8;

/// No datagram takes less (a struct sk_buff alone is larger).
const LEAST_TRUESIZE: u64 = 256;

/// A driver whose answer is the same whether it has interrupt moderation or not.
const VIRTIO: &str = "virtio_net";

#[cfg(test)]
mod tests {
    use weir_kernel::counters::{Counter, links};

    use super::*;

    #[test]
    fn a_datagrams_memory_is_what_all_levels_share() {
        let levels = |factors: &[u64]| factors.iter().map(|factor| factor * 832).collect::<BTreeSet<u64>>();
        assert_eq!(weigh(&levels(&[0, 7, 3, 12, 31, 8, 9, 10, 11])), Some(832));
        assert_eq!(weigh(&levels(&[2, 4])), None);
        assert_eq!(weigh(&(1..20).collect()), None);
    }

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
        let facts = collect(&ns, false, &Scope::default(), truesize.clone()).unwrap();
        assert_eq!((&facts.truesize, &*facts.interfaces, &*facts.receivers), (&truesize, &[][..], &[][..]));
        assert!(facts.settings.rmem_max.is_some() && facts.processors > 0, "{facts:?}");
        let missing = Scope { ports: vec![5], ..Scope::default() };
        let refused = collect(&ns, false, &missing, truesize).unwrap_err().to_string();
        assert!(refused.starts_with("port 5: no UDP socket of that kind is open"), "{refused}");
    }
}
