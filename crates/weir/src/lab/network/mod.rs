//! A cell's network in the kernel: a namespace a node, two veth pairs a link, the emulator between them.
//!
//! ```text
//!  host            the cell's air                switch
//!  eth0 ==== l0a  (emulator, link 0)  l0b ==== p0  br0
//! ```
//! Nothing has a name outside its namespace; all of it goes with the last descriptor, however the process ends.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use weir_emulator::datapath::{self, Emulator, LinkId, LinkPorts, Port};
use weir_emulator::ledger::LinkReport;
use weir_emulator::model::{Direction, Key, Way};
use weir_kernel::counters::{InterfaceCounters, Interfaces};
use weir_kernel::links::{BridgeSettings, Index, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::Program;
use weir_kernel::offloads::{Offload, Offloads};

use super::topology::{Kind, Topology};

/// A network that is up. Dropping it takes it down.
pub struct Network<'a> {
    emulator: &'a Emulator,
    sites: Vec<Site>,
    air: Site,
    links: Vec<Wire>,
    receive_buffer: usize,
}

/// A node's namespace.
struct Site {
    ns: NetNs,
    netlink: Netlink,
    interfaces: Interfaces,
}

/// A link's traces in the kernel.
struct Wire {
    id: LinkId,
    /// Per end: the node and its interface's name.
    nodes: [(usize, String); 2],
    /// Per end: the emulator's interface.
    air: [String; 2],
}

/// What the counters of one link say.
#[derive(Clone, Debug)]
pub struct LinkReading {
    /// The emulator's account.
    pub emulator: LinkReport,
    /// Per end: the node's interface.
    pub nodes: [InterfaceCounters; 2],
    /// Per end: the emulator's interface.
    pub air: [InterfaceCounters; 2],
}

impl<'a> Network<'a> {
    /// Builds the network of a checked topology, links running.
    pub fn build(
        topology: &Topology,
        emulator: &'a Emulator,
        settings: &datapath::Settings,
        seed: u64,
    ) -> Result<Self> {
        let sites = topology
            .nodes
            .iter()
            .map(|node| Site::create().with_context(|| format!("host {}", node.name)))
            .collect::<Result<Vec<_>>>()?;
        let mut network =
            Network { emulator, sites, air: Site::create()?, links: Vec::new(), receive_buffer: usize::MAX };
        let mut bridges: Vec<Option<Index>> = vec![None; topology.nodes.len()];
        for (index, node) in topology.nodes.iter().enumerate() {
            let netlink = &mut network.sites[index].netlink;
            match node.kind {
                Kind::Host(_) => netlink.set_loopback_up()?,
                Kind::Switch => bridges[index] = Some(add_bridge(netlink, index)?),
            }
        }
        for index in 0..topology.links.len() {
            let link = network
                .add_link(topology, index, &bridges, settings, seed)
                .with_context(|| format!("link {}", topology.links[index].name))?;
            network.links.push(link);
        }
        // A host announces its addresses (MLD): switches that do not forward yet would swallow that.
        network.wait_until_running()?;
        for (index, node) in topology.nodes.iter().enumerate() {
            if let Kind::Host(addresses) = &node.kind {
                network.address(topology, index, addresses).with_context(|| format!("host {}", node.name))?;
            }
        }
        // IPv6 addresses, too, come to life in the background.
        if topology.has_ipv6() {
            network.wait_until_running()?;
        }
        for (index, node) in topology.nodes.iter().enumerate() {
            for line in &node.setup {
                network.set_up_host(index, &node.name, line)?;
            }
        }
        Ok(network)
    }

    /// A node's namespace.
    pub fn namespace(&self, node: usize) -> &NetNs {
        &self.sites[node].ns
    }

    /// Bytes that the smallest socket buffer of the emulator was granted.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Reads every link once nothing moves any more: the counters have not changed from one look to the next, no packet
    /// is in flight, and interfaces and emulator agree; or they have not changed for as long as `patience`. To be called
    /// when the traffic has ended.
    pub fn settled(&self, patience: Duration) -> Result<Vec<LinkReading>> {
        let (mut last, mut since) = (Vec::new(), Instant::now());
        loop {
            let readings = self.read()?;
            let joints: Vec<Joint> = readings.iter().flat_map(LinkReading::joints).collect();
            let agreed = readings.iter().all(LinkReading::is_settled);
            if joints != last {
                (last, since) = (joints, Instant::now());
            } else if agreed || since.elapsed() >= patience {
                return Ok(readings);
            }
            // The kernel has no event for "nothing moves".
            std::thread::sleep(POLL);
        }
    }

    fn read(&self) -> Result<Vec<LinkReading>> {
        let sites: Vec<_> = self.sites.iter().map(|site| site.interfaces.read()).collect::<Result<_, _>>()?;
        let air = self.air.interfaces.read()?;
        let find = |counters: &[InterfaceCounters], name: &str| {
            counters.iter().find(|interface| interface.name == name).cloned().with_context(|| format!("{name} is gone"))
        };
        let read = |wire: &Wire| {
            let [a, b] = &wire.nodes;
            Ok(LinkReading {
                emulator: self.emulator.report(wire.id)?,
                nodes: [find(&sites[a.0], &a.1)?, find(&sites[b.0], &b.1)?],
                air: [find(&air, &wire.air[0])?, find(&air, &wire.air[1])?],
            })
        };
        self.links.iter().map(read).collect()
    }

    fn add_link(
        &mut self,
        topology: &Topology,
        index: usize,
        bridges: &[Option<Index>],
        settings: &datapath::Settings,
        seed: u64,
    ) -> Result<Wire> {
        let link = &topology.links[index];
        let air_names = [format!("l{index}a"), format!("l{index}b")];
        let mut nodes = Vec::with_capacity(2);
        let mut ports = Vec::with_capacity(2);
        for (end, node) in link.ends.into_iter().enumerate() {
            let name = if bridges[node].is_some() { format!("p{index}") } else { HOST_INTERFACE.to_owned() };
            let site = &mut self.sites[node];
            let mac = |side| MacAddress::local((index * 4 + end * 2 + side) as u32);
            let mtu = link.mtu;
            let near = VethEnd { ns: &site.ns, name: &name, mac: mac(0), mtu, queue_length: QUEUE_LENGTH };
            let far = VethEnd { ns: &self.air.ns, name: &air_names[end], mac: mac(1), mtu, queue_length: QUEUE_LENGTH };
            site.netlink.add_veth(&near, &far)?;
            let near = site.netlink.link(&name)?.index;
            let far = self.air.netlink.link(&air_names[end])?.index;
            site.netlink.set_no_link_local(near)?;
            self.air.netlink.set_no_link_local(far)?;
            if let Some(bridge) = bridges[node] {
                site.netlink.set_bridge(near, bridge)?;
            }
            if settings.path == datapath::Path::Packets {
                let mut offloads = Offloads::open(&site.ns)?;
                for offload in LEFT_TO_HARDWARE {
                    offloads.set(&name, offload, false)?;
                }
            }
            let port = self.air.ns.run(|| Port::open(far, settings))??;
            self.receive_buffer = self.receive_buffer.min(port.receive_buffer());
            ports.push(port);
            self.air.netlink.set_up(far)?;
            site.netlink.set_up(near)?;
            nodes.push((node, name));
        }
        let direction = |way: Way| {
            let key = Key { seed, link: index as u32, direction: way };
            Direction::new(&link.impairments[way as usize], key)
        };
        let [a, b] = ports.try_into().map_err(|_| anyhow::anyhow!("a link has two ends"))?;
        let (forward, backward) = (direction(Way::Forward), direction(Way::Backward));
        let id = self.emulator.attach(LinkPorts { name: link.name.clone(), a, b, forward, backward })?;
        let nodes = nodes.try_into().map_err(|_| anyhow::anyhow!("a link has two ends"))?;
        Ok(Wire { id, nodes, air: air_names })
    }

    /// Addresses a host, and tells it where the others are, so that nothing has to be asked on the links.
    fn address(&mut self, topology: &Topology, host: usize, addresses: &[IpNet]) -> Result<()> {
        let peers: Vec<(IpAddr, MacAddress)> = topology
            .neighbours(host)
            .into_iter()
            .map(|peer| Ok((peer, self.host_interface(peer)?.1)))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flat_map(|(peer, mac)| match &topology.nodes[peer].kind {
                Kind::Host(addresses) => addresses.iter().map(|address| (address.addr(), mac)).collect(),
                Kind::Switch => Vec::new(),
            })
            .collect();
        let (interface, _) = self.host_interface(host)?;
        let netlink = &mut self.sites[host].netlink;
        for address in addresses {
            netlink.add_address(interface, *address)?;
        }
        for (peer, mac) in peers {
            if addresses.iter().any(|own| own.contains(&peer)) {
                netlink.add_neighbour(interface, peer, mac)?;
            }
        }
        Ok(())
    }

    /// The kernel starts links in the background, and drops packets without a word until then.
    fn wait_until_running(&mut self) -> Result<()> {
        for wire in &self.links {
            for (node, name) in &wire.nodes {
                self.sites[*node].netlink.wait_until_running(name)?;
            }
            for name in &wire.air {
                self.air.netlink.wait_until_running(name)?;
            }
        }
        Ok(())
    }

    /// Runs one line of a host's `setup` by the shell, on that host.
    fn set_up_host(&self, host: usize, name: &str, line: &str) -> Result<()> {
        let program = Program::new(&self.sites[host].ns, name, "sh").args(["-c", line]);
        let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (status, _, said) = program.output()?;
        let said = String::from_utf8_lossy(&said);
        let said = said.lines().next().unwrap_or("it said nothing");
        ensure!(status == 0, "hosts.{name}.setup: `{line}` ended with status {status}: {said}");
        Ok(())
    }

    fn host_interface(&mut self, host: usize) -> Result<(Index, MacAddress)> {
        let link = self.sites[host].netlink.link(HOST_INTERFACE)?;
        Ok((link.index, link.mac.context("a veth interface has an address")?))
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        for wire in &self.links {
            // An emulator thread that has ended holds no link any more.
            let _ = self.emulator.detach(wire.id);
        }
    }
}

impl Site {
    fn create() -> Result<Site> {
        let ns = NetNs::create()?;
        let (netlink, interfaces) = (Netlink::open(&ns)?, Interfaces::open(&ns)?);
        Ok(Site { ns, netlink, interfaces })
    }
}

impl LinkReading {
    /// Frames that went missing between a node and the emulator, or came from nowhere, by the interfaces' counters;
    /// both ways, both ends.
    pub fn joints(&self) -> [Joint; 4] {
        let [forward, backward] = [&self.emulator.forward.ledger, &self.emulator.backward.ledger];
        let [a, b] = &self.nodes;
        let into = |node: &InterfaceCounters, ledger: &weir_emulator::ledger::Ledger| Joint {
            before: node.sent,
            after: ledger.frames_received + ledger.socket_dropped_frames,
        };
        let out = |ledger: &weir_emulator::ledger::Ledger, node: &InterfaceCounters| Joint {
            before: ledger.frames_delivered,
            after: node.received,
        };
        [into(a, forward), out(forward, b), into(b, backward), out(backward, a)]
    }

    fn is_settled(&self) -> bool {
        let in_flight = self.emulator.forward.ledger.in_flight + self.emulator.backward.ledger.in_flight;
        in_flight == 0 && self.joints().iter().all(|joint| joint.remainder() == 0)
    }
}

/// Two counters of the same frames, in the order of their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// The earlier counter.
    pub before: u64,
    /// The later one.
    pub after: u64,
}

impl Joint {
    /// What is missing behind the joint; negative: more came than went.
    pub fn remainder(self) -> i64 {
        self.before as i64 - self.after as i64
    }
}

/// What a sender leaves to its interface, and the packet-by-packet emulator could not see.
const LEFT_TO_HARDWARE: [Offload; 4] =
    [Offload::TcpSegmentation, Offload::UdpSegmentation, Offload::GenericSegmentation, Offload::SendChecksum];

/// How often counters are read while packets may still move.
const POLL: Duration = Duration::from_millis(20);

/// A host's one interface.
const HOST_INTERFACE: &str = "eth0";

/// The kernel's own default.
const QUEUE_LENGTH: u32 = 1000;

fn add_bridge(netlink: &mut Netlink, node: usize) -> Result<Index> {
    let settings = BridgeSettings {
        // Behind the links' addresses.
        mac: MacAddress::local(0x10_0000 + node as u32),
        multicast_snooping: false,
        ageing: Duration::from_secs(300),
    };
    let bridge = netlink.add_bridge("br0", &settings)?;
    netlink.set_no_link_local(bridge)?;
    netlink.set_up(bridge)?;
    Ok(bridge)
}
