//! From a checked topology to links that carry packets.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use weir_emulator::datapath::{EmulatorSettings, LinkPorts, Port};
use weir_emulator::model::{Direction, Key, Way};
use weir_kernel::Error;
use weir_kernel::links::{BridgeSettings, Index, MacAddress, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::Program;
use weir_kernel::{steering, sysctl};

use super::{Emulated, LinkReading, Network, NodeNs, Wire};
use crate::topology::{Kind, Link, Node, Topology};

/// One namespace per node, with its settings, which interfaces inherit when they are created.
pub(super) fn nodes(topology: &Topology) -> Result<Vec<NodeNs>> {
    let node_ns = |node: &Node| -> Result<NodeNs> {
        let node_ns = NodeNs::create()?;
        configure(&node_ns.ns, node, topology)?;
        Ok(node_ns)
    };
    topology.nodes.iter().map(|node| node_ns(node).with_context(|| format!("{} {}", node.kind, node.name))).collect()
}

impl Network<'_> {
    pub(super) fn bring_up(&mut self, topology: &Topology, seed: u64) -> Result<()> {
        let mut bridges: Vec<Option<Index>> = vec![None; topology.nodes.len()];
        for (index, node) in topology.nodes.iter().enumerate() {
            match node.kind {
                Kind::Host | Kind::Router => self.nodes[index].netlink()?.set_loopback_up()?,
                Kind::Switch => bridges[index] = Some(self.add_bridge(index, topology.has_ipv6())?),
            }
        }
        for (index, link) in topology.links.iter().enumerate() {
            let wire = self.add_link(topology, index, seed).with_context(|| format!("link {}", link.name))?;
            self.links.push(wire);
        }
        self.wait_until_running()?;
        let switches: Vec<(usize, Index)> =
            bridges.into_iter().enumerate().filter_map(|(index, bridge)| Some((index, bridge?))).collect();
        for &(index, bridge) in &switches {
            self.add_ports(topology, index, bridge)
                .with_context(|| format!("switch {}", topology.nodes[index].name))?;
        }
        if !switches.is_empty() {
            // Each added port makes all ports query again, a tick later (net/bridge/br_stp.c,
            // br_port_state_selection): the number of queries would differ from run to run.
            thread::sleep(TICK);
        }
        for &(index, bridge) in &switches {
            self.nodes[index].netlink()?.enable_querier(bridge, QUERY_RESPONSE)?;
            if switches.len() > 1 {
                self.wait_until_asked(topology, index)?;
            }
        }
        // A host announces its addresses (MLD): switches that do not forward yet would drop that.
        for (index, node) in topology.nodes.iter().enumerate() {
            self.address(topology, index).with_context(|| format!("{} {}", node.kind, node.name))?;
        }
        // IPv6 addresses become usable in the background as well.
        if topology.has_ipv6() {
            self.wait_until_running()?;
        }
        for (index, node) in topology.nodes.iter().enumerate() {
            self.route(topology, index).with_context(|| format!("{} {}", node.kind, node.name))?;
        }
        self.steer(topology);
        self.snooping_from = Instant::now() + QUERY_RESPONSE + longest_delay(topology);
        for (index, node) in topology.nodes.iter().enumerate() {
            for line in &node.setup {
                self.run_setup(index, node, line)?;
            }
        }
        // Thousands of networks may be up: each keeps only the descriptors that it still needs.
        self.nodes.iter_mut().chain([&mut self.fabric]).for_each(|node_ns| node_ns.netlink = None);
        Ok(())
    }

    fn add_bridge(&mut self, node: usize, ipv6: bool) -> Result<Index> {
        let settings = BridgeSettings {
            // After the links' addresses.
            mac: MacAddress::local(0x10_0000 + node as u32),
            multicast_snooping: true,
            ageing: Duration::from_secs(300),
        };
        let netlink = self.nodes[node].netlink()?;
        let bridge = netlink.add_bridge("br0", &settings)?;
        netlink.set_no_link_local(bridge)?;
        if ipv6 {
            // Without its own address it could not query listeners (MLD).
            netlink.add_address(bridge, ipnet::Ipv6Net::new(settings.mac.link_local(), 64)?.into())?;
        }
        netlink.set_up(bridge)?;
        Ok(bridge)
    }

    /// For links that are running: a port forwards from here on.
    fn add_ports(&mut self, topology: &Topology, switch: usize, bridge: Index) -> Result<()> {
        let netlink = self.nodes[switch].netlink()?;
        for port in &topology.nodes[switch].interfaces {
            let index = netlink.link(&port.name)?.index;
            netlink.set_bridge(index, bridge)?;
            if topology.joins_switches(&topology.links[port.link]) {
                netlink.set_multicast_router(index)?;
            }
        }
        Ok(())
    }

    /// Switches that query at the same time silence one another at random, so they query one after the other.
    fn wait_until_asked(&self, topology: &Topology, switch: usize) -> Result<()> {
        let deadline = Instant::now() + ASKING;
        loop {
            let readings = self.read()?;
            let ports: Vec<_> =
                topology.ends_at(switch).into_iter().map(|(link, end)| &readings[link].nodes[end]).collect();
            // A switch that has received another's query does not send one.
            let asked = ports.iter().all(|port| port.sent > 0) || ports.iter().any(|port| port.received > 0);
            if (asked && readings.iter().all(LinkReading::is_settled)) || Instant::now() >= deadline {
                return Ok(());
            }
            // There is no event for a frame that has left.
            thread::sleep(POLL_ASKING);
        }
    }

    fn add_link(&mut self, topology: &Topology, index: usize, seed: u64) -> Result<Wire> {
        let link = &topology.links[index];
        let name = |node: usize| {
            let interface = topology.nodes[node].interface(index).context("a link ends at an interface")?;
            anyhow::Ok((node, interface.name.clone()))
        };
        let nodes = [name(link.ends[0])?, name(link.ends[1])?];
        let namespaces = [self.nodes[link.ends[0]].ns.try_clone()?, self.nodes[link.ends[1]].ns.try_clone()?];
        let near = |end: usize| VethEnd {
            ns: &namespaces[end],
            name: &nodes[end].1,
            mac: mac(index, end),
            mtu: link.mtu,
            queue_length: QUEUE_LENGTH,
        };
        let emulated = if link.direct {
            self.nodes[link.ends[0]].netlink()?.add_veth(&near(0), &near(1))?;
            None
        } else {
            let fabric = [format!("l{index}a"), format!("l{index}b")];
            let mut ports = Vec::with_capacity(2);
            for (end, name) in fabric.iter().enumerate() {
                let far = VethEnd { ns: &self.fabric.ns, name, mac: fabric_mac(index, end), ..near(end) };
                self.nodes[link.ends[end]].netlink()?.add_veth(&near(end), &far)?;
                let far = self.fabric.netlink()?.link(name)?.index;
                self.fabric.netlink()?.set_no_link_local(far)?;
                let port = self.fabric.ns.run(|| Port::open(far, &EmulatorSettings::default()))??;
                self.receive_buffer = self.receive_buffer.min(port.receive_buffer());
                ports.push(port);
                self.fabric.netlink()?.set_up(far)?;
            }
            let direction = |way: Way| {
                let key = Key { seed, link: index as u32, direction: way };
                Direction::new(&link.impairments[way as usize], key)
            };
            let (forward, backward) = (direction(Way::Forward), direction(Way::Backward));
            let [a, b] = ports.try_into().map_err(|_| anyhow::anyhow!("a link has two ends"))?;
            let id = self.emulator.attach(LinkPorts { name: link.name.clone(), a, b, forward, backward })?;
            Some(Emulated { id, fabric })
        };
        for (node, name) in &nodes {
            let netlink = self.nodes[*node].netlink()?;
            let interface = netlink.link(name)?.index;
            netlink.set_no_link_local(interface)?;
            netlink.set_up(interface)?;
        }
        Ok(Wire { nodes, emulated })
    }

    /// Steers packets for hosts with their own CPU to that CPU.
    fn steer(&mut self, topology: &Topology) {
        for (node, node_ns) in topology.nodes.iter().zip(&self.nodes) {
            let Some(processor) = node.processor else { continue };
            for interface in &node.interfaces {
                if let Err(error) = steering::receive_on(&node_ns.ns, &interface.name, processor) {
                    self.refused.push(format!("{}: {error}: its packets are received on any CPU", node.name));
                }
            }
        }
    }

    /// The kernel starts links in the background, and drops packets silently until then.
    fn wait_until_running(&mut self) -> Result<()> {
        for wire in &self.links {
            for (node, name) in &wire.nodes {
                self.nodes[*node].netlink()?.wait_until_running(name)?;
            }
            for name in wire.emulated.iter().flat_map(|emulated| &emulated.fabric) {
                self.fabric.netlink()?.wait_until_running(name)?;
            }
        }
        Ok(())
    }

    /// Runs one line of a node's `setup` in the shell, on that node.
    fn run_setup(&self, index: usize, node: &Node, line: &str) -> Result<()> {
        let program = Program::new(&self.nodes[index].ns, &node.name, "sh").args(["-c", line]);
        let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (status, _, said) = program.output()?;
        let said = String::from_utf8_lossy(&said);
        let said = said.lines().next().unwrap_or("no output");
        ensure!(status == 0, "{}.setup: `{line}` ended with status {status}: {said}", node.key());
        Ok(())
    }
}

/// The Ethernet address of the node's end of a link.
pub(super) fn mac(link: usize, end: usize) -> MacAddress {
    MacAddress::local((link * 4 + end * 2) as u32)
}

/// The Ethernet address of the emulator's end.
fn fabric_mac(link: usize, end: usize) -> MacAddress {
    MacAddress::local((link * 4 + end * 2 + 1) as u32)
}

fn configure(ns: &NetNs, node: &Node, topology: &Topology) -> Result<()> {
    match node.kind {
        Kind::Host => {
            if node.interfaces.len() > 1 {
                sysctl::set(ns, &ANY_WAY_BACK)?;
            }
            topology.tcp_buffer.map_or(Ok(()), |bytes| limit_tcp_buffers(ns, bytes))
        }
        Kind::Router => {
            // This comes first: it resets other settings to a router's defaults.
            sysctl::set(ns, &[("ipv4/ip_forward", "1")])?;
            sysctl::set(ns, &ANY_WAY_BACK)?;
            // Routes follow the scenario, even if others would be shorter.
            sysctl::set(ns, &[("ipv4/conf/all/send_redirects", "0"), ("ipv4/conf/default/send_redirects", "0")])?;
            if topology.has_ipv6() {
                forward_ipv6(ns)?;
            }
            Ok(())
        }
        Kind::Switch => {
            // A bridge joins groups itself, at random moments. If it cannot be kept from announcing that, only the
            // number
            // of control packets differs from run to run.
            let _ = sysctl::set(ns, &[("ipv4/igmp_link_local_mcast_reports", "0")]);
            if !topology.has_ipv6() {
                let _ = sysctl::set(ns, &[("ipv6/conf/default/disable_ipv6", "1")]);
            }
            Ok(())
        }
    }
}

fn forward_ipv6(ns: &NetNs) -> Result<(), Error> {
    match sysctl::set(ns, &[("ipv6/conf/all/forwarding", "1")]) {
        Err(error) if error.errno() == Some(Errno::ENOENT) => Err(Error::NoIpv6 { operation: "forward IPv6".into() }),
        result => result,
    }
}

/// The third number of each is the max size to which the kernel grows a buffer (tcp(7)).
fn limit_tcp_buffers(ns: &NetNs, bytes: u64) -> Result<()> {
    for setting in ["ipv4/tcp_rmem", "ipv4/tcp_wmem"] {
        let before = sysctl::get(ns, setting)?;
        let numbers: Vec<u64> = before.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let &[min, initial, _] = numbers.as_slice() else {
            bail!("read net/{setting}: not three numbers: {before:?}");
        };
        let limited = format!("{} {} {bytes}", min.min(bytes), initial.min(bytes));
        sysctl::set(ns, &[(setting, &limited)]).context("tcp.buffer")?;
    }
    Ok(())
}

/// Waits until every switch has received the queries of all others.
fn longest_delay(topology: &Topology) -> Duration {
    let between = |link: &&Link| topology.joins_switches(link);
    let longest = |link: &Link| link.impairments.iter().map(|way| way.first.delay).max();
    topology.links.iter().filter(between).filter_map(longest).sum()
}

/// A packet that arrives on another link than its answers would use is not forged here (RFC 3704).
const ANY_WAY_BACK: [(&str, &str); 2] = [("ipv4/conf/all/rp_filter", "0"), ("ipv4/conf/default/rp_filter", "0")];

/// The kernel's own default.
const QUEUE_LENGTH: u32 = 1000;

/// If queries take longer than this, the number of control packets may differ from run to run.
const ASKING: Duration = Duration::from_secs(2);

/// One tick of the slowest kernels (CONFIG_HZ=100).
const TICK: Duration = Duration::from_millis(10);

/// Time between two checks for a query.
const POLL_ASKING: Duration = Duration::from_millis(2);

/// Time that switches give listeners to answer; IGMP counts in tenths of a second.
const QUERY_RESPONSE: Duration = Duration::from_millis(100);
