//! Multicast groups: when switches know the members.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_emulator::model::Way;
use weir_kernel::links::Netlink;

use super::Network;
use crate::topology::{Kind, Path, Topology};

/// A port on which a switch must forward a group to a receiver.
pub(super) struct GroupPort {
    group: IpAddr,
    receiver: usize,
    switch: usize,
    port: String,
    /// The error as long as the switch does not.
    unheard: String,
}

/// The group_ports of all receivers of a group.
pub(super) fn group_ports(topology: &Topology) -> Vec<GroupPort> {
    let groups = topology.flows().filter(|flow| flow.destination.is_multicast());
    let ends = groups.flat_map(|flow| flow.receivers.iter().zip(&flow.paths).map(|end| (flow.destination, end)));
    let group_ports = |(group, (&receiver, path)): (IpAddr, (&usize, &Path))| -> Vec<GroupPort> {
        let group_port = |&(link, way): &(usize, Way)| {
            let switch = topology.links[link].ends[way as usize];
            let node = &topology.nodes[switch];
            (node.kind == Kind::Switch).then(|| GroupPort {
                group,
                receiver,
                switch,
                unheard: format!(
                    "switch {} did not learn that `{}` has joined {group}",
                    node.name, topology.nodes[receiver].name
                ),
                port: node.interface(link).map(|port| port.name.clone()).unwrap_or_default(),
            })
        };
        path.forward.iter().filter_map(group_port).collect()
    };
    ends.flat_map(group_ports).collect()
}

impl Network<'_> {
    /// Returns when every switch on the path of a group knows that these receivers have joined, and holds back groups
    /// without members. Call it once they have joined. Without switches it returns at once.
    ///
    /// # Errors
    /// A switch does not learn of a receiver within 10 s.
    pub fn wait_for_members(&self, group: IpAddr, receivers: &[usize]) -> Result<()> {
        self.members_within(PATIENCE, group, receivers)
    }

    pub(super) fn members_within(&self, patience: Duration, group: IpAddr, receivers: &[usize]) -> Result<()> {
        let deadline = Instant::now() + patience;
        let wanted = |port: &&GroupPort| port.group == group && receivers.contains(&port.receiver);
        for GroupPort { switch, port, unheard, .. } in self.group_ports.iter().filter(wanted) {
            let mut netlink = Netlink::open(&self.nodes[*switch].ns)?;
            let port = netlink.link(port)?.index;
            let left = deadline.saturating_duration_since(Instant::now());
            netlink.wait_until_forwarded(port, group, left).with_context(|| unheard.clone())?;
        }
        // There is no event for the end of a querier's first round.
        thread::sleep(self.snooping_from.saturating_duration_since(Instant::now()));
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
