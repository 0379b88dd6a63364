//! The sender, the receivers, and the paths between them.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;

use super::check::index_of;
use super::routes::Map;
use super::{Kind, Link, Node, Path};
use crate::scenario::{self, Traffic};

/// The ends of traffic, and its paths.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Index of the sending host.
    pub sender: usize,
    /// Indexes of the receiving hosts, in the order of the scenario.
    pub receivers: Vec<usize>,
    /// Destination: an address of the receiver, or a multicast group.
    pub destination: IpAddr,
    /// By receiver.
    pub paths: Vec<Path>,
}

/// The route of the sender's control connection, which avoids the measured path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Index of the link.
    pub link: usize,
    /// The sender's address on it.
    pub address: IpAddr,
    /// The next hop: the receiver, or a router on its path.
    pub gateway: IpAddr,
    /// The receiver's address.
    pub destination: IpNet,
    /// The port that the receiver listens on.
    pub port: u16,
    /// Whether there is a control connection: other engines' only connections take the normal route.
    pub in_use: bool,
}

impl Flow {
    /// Checks and routes the traffic in `key` of the scenario.
    pub(super) fn new(key: &str, traffic: &Traffic, map: &Map<'_>) -> Result<Flow> {
        let host = |end: &str, name: &str| -> Result<usize> {
            let index = index_of(map.nodes, name).with_context(|| format!("{key}.{end}"))?;
            let kind = map.nodes[index].kind;
            ensure!(kind == Kind::Host, "{key}.{end}: `{name}` is a {kind}, not a host");
            Ok(index)
        };
        let sender = host("from", &traffic.from)?;
        let names = traffic.to.names();
        let receivers = names.iter().map(|name| host("to", name)).collect::<Result<Vec<_>>>()?;
        let Some(&first) = receivers.first() else { bail!("{key}.to: no receiver given") };
        ensure!(!receivers.contains(&sender), "{key}.to: the receiver is the sender");
        for (index, receiver) in receivers.iter().enumerate() {
            ensure!(!receivers[..index].contains(receiver), "{key}.to: names `{}` twice", names[index]);
        }
        let group = traffic.address.filter(IpAddr::is_multicast);
        ensure!(
            group.is_some() || receivers.len() == 1,
            "{key}.to: several receivers need a multicast group as {key}.address"
        );
        let (destination, paths) = match group {
            Some(group) => {
                let path = |&receiver| map.multicast_path(sender, receiver, group);
                let paths = receivers.iter().map(path).collect::<Result<Vec<_>>>();
                (group, paths.with_context(|| format!("{key}.to"))?)
            }
            None => {
                let destination = map.address_of(first, traffic.address).with_context(|| format!("{key}.address"))?;
                (destination, vec![map.path(sender, first, destination).with_context(|| format!("{key}.to"))?])
            }
        };
        let leaves_by = |path: &Path| path.forward.first().map(|&(link, _)| link);
        ensure!(
            paths.iter().all(|path| leaves_by(path) == leaves_by(&paths[0])),
            "{key}.to: the receivers are on several segments, but a group leaves `{}` by one link",
            traffic.from
        );
        Ok(Flow { sender, receivers, destination, paths })
    }
}

/// Index of `traffic.control`.
pub(super) fn control_link(traffic: &Traffic, nodes: &[Node], links: &[Link]) -> Result<Option<usize>> {
    let Some(name) = &traffic.control else { return Ok(None) };
    let link = links.iter().position(|link| link.name == *name).with_context(|| {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        format!("traffic.control: no link `{name}` (there are {})", names.join(", "))
    })?;
    let sender = index_of(nodes, &traffic.from).context("traffic.from")?;
    ensure!(
        links[link].ends.contains(&sender),
        "traffic.control: link `{name}` does not end at the sender, `{}`",
        traffic.from
    );
    ensure!(nodes[sender].interfaces.len() > 1, "traffic.control: `{name}` is the sender's only link");
    Ok(Some(link))
}

impl Control {
    /// Finds the route to the receiver over the link.
    pub(super) fn new(traffic: &Traffic, map: &Map<'_>, flow: &Flow, link: usize) -> Result<Control> {
        let &Flow { sender, destination, .. } = flow;
        let name = &map.links[link].name;
        ensure!(!destination.is_multicast(), "traffic.control: iperf3 cannot send to a multicast group");
        // As if the sender had no other link.
        let only = Map { aside: None, ..*map };
        let neighbours = only.neighbours(sender, destination.is_ipv4()).into_iter().filter(|(by, _, _)| *by == link);
        let ways = neighbours.filter_map(|(_, node, gateway)| {
            let there = map.walk(node, destination)?;
            let receives = there.is_empty() || map.nodes[node].kind == Kind::Router;
            receives.then_some((there.len(), node, gateway))
        });
        let (_, _, gateway) = ways
            .min()
            .with_context(|| format!("traffic.control: link `{name}` leads to no router that reaches {destination}"))?;
        let in_use = traffic.engine == scenario::Engine::Iperf3;
        let address = map.nodes[sender].address_towards(link, gateway).context("a neighbor shares a subnet")?;
        let receiver = map.receiver_of(destination).context("the receiver has its address")?;
        map.walk(receiver, address).with_context(|| {
            format!("traffic.control: no route from `{}` back to {address}", map.nodes[receiver].name)
        })?;
        Ok(Control { link, address, gateway, destination: destination.into(), port: traffic.port, in_use })
    }
}

impl Map<'_> {
    /// The first address of a node, in the order of its links and not on the control link; or the `wanted` one.
    pub(super) fn address_of(&self, node: usize, wanted: Option<IpAddr>) -> Result<IpAddr> {
        let node = &self.nodes[node];
        if let Some(wanted) = wanted {
            let has = node.addresses().any(|address| address.addr() == wanted);
            ensure!(has, "{wanted} is not an address of `{}`", node.name);
            return Ok(wanted);
        }
        let interfaces = node.interfaces.iter().filter(|interface| Some(interface.link) != self.aside);
        let mut addresses = interfaces.flat_map(|interface| &interface.addresses).map(IpNet::addr);
        addresses.next().with_context(|| format!("`{}` has no address", node.name))
    }

    fn receiver_of(&self, address: IpAddr) -> Option<usize> {
        self.nodes.iter().position(|node| node.addresses().any(|own| own.addr() == address))
    }
}
