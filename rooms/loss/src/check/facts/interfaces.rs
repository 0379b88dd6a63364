//! Interfaces: their speeds, rings, queues and what they lost.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use weir_kernel::counters::LinkCounters;
use weir_kernel::ethtool::{Device, Ethtool};
use weir_kernel::links::{Netlink, default_routes};
use weir_kernel::namespaces::NetNs;
use weir_kernel::steering::receive_queues;
use weir_kernel::sysctl;

use super::collect::Losses;
use super::{Bridge, Interface, Moderation, Pause, Queue, Ring, Scope};
use crate::places::Place;

/// An inspection of the interfaces.
pub(super) struct Inspection<'a> {
    pub(super) ns: &'a NetNs,
    pub(super) own: bool,
    pub(super) scope: &'a Scope,
    pub(super) links: &'a [LinkCounters],
    pub(super) losses: &'a Losses,
}

impl Inspection<'_> {
    pub(super) fn interfaces(&self, unseen: &mut Vec<String>) -> Result<(Vec<Interface>, Vec<Bridge>)> {
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
        let ethtool = Ethtool::open(self.ns)?;
        let mut devices: BTreeMap<&str, Device> = BTreeMap::new();
        for link in links {
            // One that goes away meanwhile has nothing to tell.
            devices.insert(&link.name, ethtool.device(&link.name).unwrap_or_default());
        }
        let mut interfaces = Vec::new();
        for link in links.iter().filter(looked_at) {
            let device = &devices[link.name.as_str()];
            interfaces.push(self.interface(link, device, default_routes.as_ref())?);
            if device.driver.as_deref() == Some(VIRTIO) {
                unseen
                    .push(format!("interrupt moderation of {} ({VIRTIO} does not tell whether it has any)", link.name));
            }
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
        Ok(Interface {
            name: link.name.clone(),
            mtu: link.mtu.into(),
            speed_mbit: self.speed(link, device),
            hardware: is_hardware(link),
            through_backlog: link.loopback || link.kind.as_deref() == Some("veth"),
            bridge: bridge.map(|bridge| bridge.name.clone()),
            ring: device
                .ring
                .filter(|ring| ring.most > 0)
                .map(|ring| Ring { length: ring.length.into(), most: ring.most.into() }),
            moderation: device.coalescing.filter(|_| device.driver.as_deref() != Some(VIRTIO)).map(|moderation| {
                Moderation {
                    usecs: moderation.receive_us.into(),
                    frames: moderation.receive_frames.into(),
                    adaptive: moderation.receive_adaptive,
                }
            }),
            pause: device.pause.map(|pause| Pause { obeys: pause.receive, sends: pause.transmit }),
            queues: if self.own { queues(link) } else { Vec::new() },
            most_queues: device.most_queues.filter(|most| *most > 0),
            ring_drops: self.losses.at(Place::ReceiveRing, Some(link)).unwrap_or_default(),
            rp_filter: self.rp_filter(&link.name)?,
            default_route: default.map(|through| through.contains(&link.name)),
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

/// A driver whose answer is the same whether it has interrupt moderation or not.
const VIRTIO: &str = "virtio_net";
