//! Multicast groups: when switches know who has joined.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_emulator::model::Way;
use weir_kernel::links::Netlink;

use super::Network;
use crate::topology::{Kind, Path, Topology};

/// A port by which a switch must hand a group out for a receiver.
pub(super) struct Leg {
    group: IpAddr,
    receiver: usize,
    receiver_name: String,
    switch: usize,
    switch_name: String,
    port: String,
}

/// The legs of all receivers of a group.
pub(super) fn legs(topology: &Topology) -> Vec<Leg> {
    let groups = topology.flows().filter(|flow| flow.destination.is_multicast());
    let ends = groups.flat_map(|flow| flow.receivers.iter().zip(&flow.paths).map(|end| (flow.destination, end)));
    let legs = |(group, (&receiver, path)): (IpAddr, (&usize, &Path))| -> Vec<Leg> {
        let leg = |&(link, way): &(usize, Way)| {
            let switch = topology.links[link].ends[way as usize];
            let node = &topology.nodes[switch];
            (node.kind == Kind::Switch).then(|| Leg {
                group,
                receiver,
                receiver_name: topology.nodes[receiver].name.clone(),
                switch,
                switch_name: node.name.clone(),
                port: node.interface(link).map(|port| port.name.clone()).unwrap_or_default(),
            })
        };
        path.there.iter().filter_map(leg).collect()
    };
    ends.flat_map(legs).collect()
}

impl Network<'_> {
    /// Returns when every switch on the way of a group knows that these receivers have joined it, and holds back the
    /// groups that nobody has joined. To be called when they have. Without switches there is nothing to wait for.
    ///
    /// # Errors
    /// If a switch does not hear of a receiver within 10 s.
    pub fn wait_for_members(&self, group: IpAddr, receivers: &[usize]) -> Result<()> {
        self.members_within(PATIENCE, group, receivers)
    }

    pub(super) fn members_within(&self, patience: Duration, group: IpAddr, receivers: &[usize]) -> Result<()> {
        let deadline = Instant::now() + patience;
        for leg in self.legs.iter().filter(|leg| leg.group == group && receivers.contains(&leg.receiver)) {
            let mut netlink = Netlink::open(&self.sites[leg.switch].ns)?;
            let port = netlink.link(&leg.port)?.index;
            let left = deadline.saturating_duration_since(Instant::now());
            netlink.wait_until_forwarded(port, group, left).with_context(|| {
                format!("switch {} has not heard that `{}` has joined {group}", leg.switch_name, leg.receiver_name)
            })?;
        }
        // The kernel tells nobody when a querier's first round is over.
        thread::sleep(self.snooping_from.saturating_duration_since(Instant::now()));
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
