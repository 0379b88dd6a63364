//! A cell's network in the kernel: one namespace per node, two veth pairs per link, the emulator between them.
//!
//! ```text
//!  host            the cell's fabric                switch
//!  eth0 ==== l0a  (emulator, link 0)  l0b ==== p0  br0
//! ```
//! A direct link is one veth pair, `eth0 ==== p0`.
//!
//! Nothing has a name outside its namespace; everything goes away with the last descriptor, however the process ends.

mod bring_up;
mod members;
mod reading;
mod routing;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_emulator::datapath::{Emulator, LinkId};
use weir_emulator::model::{Nanos, Plan, Way};
use weir_kernel::counters::{InterfaceCounters, Interfaces};
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;

use self::members::GroupPort;
pub use self::reading::{Joint, LinkReading};
pub use self::routing::DATA_PORTS;
use crate::topology::{Kind, Topology};

/// A network that is up. Dropping it takes it down.
pub struct Network<'a> {
    emulator: &'a Emulator,
    nodes: Vec<NodeNs>,
    fabric: NodeNs,
    links: Vec<Wire>,
    receive_buffer: usize,
    /// What switches must know before a group reaches its receivers.
    group_ports: Vec<GroupPort>,
    /// What the kernel refused, and the network lacks.
    refused: Vec<String>,
    /// Time from which switches hold back groups without members.
    snooping_from: Instant,
}

/// A node's namespace.
struct NodeNs {
    ns: NetNs,
    /// Its netlink socket, while it is being configured.
    netlink: Option<Netlink>,
    interfaces: Interfaces,
}

/// A link's interfaces in the kernel.
struct Wire {
    /// Per end: the node and its interface's name.
    nodes: [(usize, String); 2],
    /// The emulator between them; `None`: the ends are one veth pair.
    emulated: Option<Emulated>,
}

/// The emulator's side of a link.
struct Emulated {
    id: LinkId,
    /// Per end: the emulator's interface.
    fabric: [String; 2],
}

impl<'a> Network<'a> {
    /// Builds the network of a checked topology; its links run.
    pub fn build(topology: &Topology, emulator: &'a Emulator, seed: u64) -> Result<Self> {
        let mut network = Network {
            emulator,
            nodes: bring_up::nodes(topology)?,
            fabric: NodeNs::create()?,
            links: Vec::new(),
            receive_buffer: usize::MAX,
            group_ports: members::group_ports(topology),
            refused: Vec::new(),
            snooping_from: Instant::now(),
        };
        network.bring_up(topology, seed)?;
        Ok(network)
    }

    /// A node's namespace.
    pub fn namespace(&self, node: usize) -> &NetNs {
        &self.nodes[node].ns
    }

    /// The name of a node's interface on a link: `eth0` where it is a host's or router's only one, else `eth0`, `eth1`
    /// ... in the order of the names of its links. Empty if the link does not end there.
    pub fn interface(&self, node: usize, link: usize) -> &str {
        let ends = &self.links[link].nodes;
        ends.iter().find(|(end, _)| *end == node).map_or("", |(_, name)| name)
    }

    /// Effective bytes of the emulator's smallest socket buffer.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// What the kernel refused, and the network lacks, one sentence each.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Sets time 0 of steps and traces, on CLOCK_MONOTONIC.
    pub fn start_clocks(&self, at: Nanos) -> Result<()> {
        let mut emulated = self.links.iter().filter_map(|wire| wire.emulated.as_ref());
        Ok(emulated.try_for_each(|emulated| self.emulator.start_clock(emulated.id, at))?)
    }

    /// Changes the impairments of one direction of a link from now on; waiting packets keep their release.
    pub(crate) fn change_plan(&self, link: usize, way: Way, plan: Plan) -> Result<()> {
        let emulated = self.links[link].emulated.as_ref().context("a direct link does nothing to packets")?;
        Ok(self.emulator.change_plan(emulated.id, way, plan)?)
    }

    /// Makes TCP connections of programs on hosts and routers use this congestion control. One that this machine
    /// reserves for privileged programs cannot be a namespace's default, and is set on the routes; then it also
    /// overrides what programs choose before they connect. Returns whether that is so.
    /// # Errors
    /// The kernel does not have it.
    pub(crate) fn set_congestion(&mut self, topology: &Topology, name: &str) -> Result<bool, weir_kernel::Error> {
        let mut of_routes = false;
        let nodes = topology.nodes.iter().zip(&mut self.nodes).filter(|(node, _)| node.kind != Kind::Switch);
        for (_, node_ns) in nodes {
            if sysctl::set(&node_ns.ns, &[("ipv4/tcp_congestion_control", name)]).is_err() {
                node_ns.netlink()?.set_congestion_of_routes(name)?;
                node_ns.netlink = None;
                of_routes = true;
            }
        }
        Ok(of_routes)
    }

    /// Reads every link once the network is quiet: the counters have not changed between two readings, no packet is in
    /// flight, and interfaces and emulator agree; or the counters have not changed for `patience`, or `at_most` is
    /// over: then the emulator's ledgers show what is in flight. Call it after the traffic.
    pub fn settled(&self, patience: Duration, at_most: Duration) -> Result<Vec<LinkReading>> {
        let (mut last, mut since, begin) = (Vec::new(), Instant::now(), Instant::now());
        loop {
            let readings = self.read()?;
            let joints: Vec<Joint> = readings.iter().flat_map(LinkReading::joints).collect();
            let agreed = readings.iter().all(LinkReading::is_settled);
            if begin.elapsed() >= at_most {
                return Ok(readings);
            }
            if joints != last {
                (last, since) = (joints, Instant::now());
            } else if agreed || since.elapsed() >= patience {
                return Ok(readings);
            }
            // The kernel has no event for "nothing moves".
            std::thread::sleep(POLL);
        }
    }

    /// Reads every link as it is now.
    pub(crate) fn read(&self) -> Result<Vec<LinkReading>> {
        let nodes: Vec<_> = self.nodes.iter().map(|node_ns| node_ns.interfaces.read()).collect::<Result<_, _>>()?;
        let find = |counters: &[InterfaceCounters], name: &str| {
            counters.iter().find(|interface| interface.name == name).cloned().with_context(|| format!("{name} is gone"))
        };
        let read = |wire: &Wire| {
            let [a, b] = &wire.nodes;
            let nodes = [find(&nodes[a.0], &a.1)?, find(&nodes[b.0], &b.1)?];
            let report = wire.emulated.as_ref().map(|emulated| self.emulator.report(emulated.id));
            Ok(LinkReading { nodes, emulated: report.transpose()? })
        };
        self.links.iter().map(read).collect()
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        for emulated in self.links.iter().filter_map(|wire| wire.emulated.as_ref()) {
            // An emulator thread that has ended no longer holds a link.
            let _ = self.emulator.detach(emulated.id);
        }
    }
}

impl NodeNs {
    fn create() -> Result<NodeNs> {
        let ns = NetNs::create()?;
        let interfaces = Interfaces::open(&ns)?;
        Ok(NodeNs { ns, netlink: None, interfaces })
    }

    fn netlink(&mut self) -> Result<&mut Netlink, weir_kernel::Error> {
        let netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open(&self.ns)?,
        };
        Ok(self.netlink.insert(netlink))
    }
}

/// Time between two readings while packets may still move.
const POLL: Duration = Duration::from_millis(20);
