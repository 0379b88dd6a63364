//! What agents and their interfaces are called: by the configuration, else as they tell in their counters.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use weir_units::format::printable;
use weir_wire::sflow::{DataSource, Structure};

use crate::agents::Nanos;
use crate::counters::{Counters, Metric, Number};
use crate::names::{AgentId, Directory, Named};

/// Names of a shard's agents, by their slots.
#[derive(Debug)]
pub(super) struct Names {
    /// Which shard, of how many: agents of all of them have different numbers.
    shard: (u32, u32),
    agents: HashMap<u32, Known>,
    configured: Arc<BTreeMap<IpAddr, Named>>,
    /// Structures of counters that have come, and when each last did.
    pub(super) seen: Vec<(&'static Structure, u64)>,
}

#[derive(Debug)]
struct Known {
    address: IpAddr,
    name: Option<Box<str>>,
    interfaces: HashMap<u32, Box<str>>,
}

impl Names {
    pub(super) fn new((shard, shards): (usize, usize)) -> Self {
        Self {
            shard: (shard as u32, shards as u32),
            agents: HashMap::new(),
            configured: Arc::default(),
            seen: Vec::new(),
        }
    }

    pub(super) fn configure(&mut self, configured: Arc<BTreeMap<IpAddr, Named>>) {
        self.configured = configured;
    }

    /// Which shard, of how many.
    pub(super) fn shard(&self) -> (u32, u32) {
        self.shard
    }

    /// The number of the agent in a slot, which no agent of another shard has.
    #[inline]
    pub(super) fn id(&self, slot: u32) -> AgentId {
        AgentId(slot * self.shard.1 + self.shard.0)
    }

    /// Knows the address of the agent in a slot, until it is forgotten.
    pub(super) fn know(&mut self, slot: u32, address: IpAddr) {
        let begin = || Known { address, name: None, interfaces: HashMap::new() };
        self.agents.entry(slot).or_insert_with(begin);
    }

    pub(super) fn forget(&mut self, slot: u32) {
        self.agents.remove(&slot);
    }

    /// The agent tells its own name.
    pub(super) fn tell(&mut self, slot: u32, name: &[u8]) {
        if let Some(known) = self.agents.get_mut(&slot)
            && known.name.as_deref().map(str::as_bytes) != Some(name)
        {
            known.name = text(name);
        }
    }

    /// It tells the name of an interface. Those are data sources, of which there is a limit.
    pub(super) fn tell_interface(&mut self, slot: u32, if_index: u32, name: &[u8]) {
        if let Some(known) = self.agents.get_mut(&slot)
            && known.interfaces.get(&if_index).map(|known| known.as_bytes()) != Some(name)
            && let Some(name) = text(name)
        {
            known.interfaces.insert(if_index, name);
        }
    }

    /// A structure of counters came then: that, and the names that it tells.
    pub(super) fn learn(
        &mut self,
        slot: u32,
        source: DataSource,
        counters: &Counters,
        structure: &'static Structure,
        then: Nanos,
    ) {
        match self.seen.iter_mut().find(|(known, _)| known.format == structure.format) {
            Some((_, last)) => *last = then.max(*last),
            None => self.seen.push((structure, then)),
        }
        let told = |metric| match counters.read(Metric::find(metric)?, then)?.ok()?.value {
            Number::Text(text) => Some(text),
            _ => None,
        };
        match structure.name {
            "port_name" => told("ifname").into_iter().for_each(|name| self.tell_interface(slot, source.index, name)),
            "host_descr" => told("host_name").into_iter().for_each(|name| self.tell(slot, name)),
            _ => {}
        }
    }

    fn known(&self, agent: AgentId) -> Option<&Known> {
        self.agents.get(&(agent.0 / self.shard.1))
    }
}

impl Directory for Names {
    fn address(&self, agent: AgentId) -> Option<IpAddr> {
        Some(self.known(agent)?.address)
    }

    fn name(&self, agent: AgentId) -> Option<&str> {
        let known = self.known(agent)?;
        let configured = self.configured.get(&known.address).and_then(|named| named.name.as_deref());
        configured.or(known.name.as_deref())
    }

    fn interface(&self, agent: AgentId, if_index: u32) -> Option<&str> {
        let known = self.known(agent)?;
        let configured = self.configured.get(&known.address).and_then(|named| named.interfaces.get(&if_index));
        configured.map(String::as_str).or_else(|| known.interfaces.get(&if_index).map(|name| &**name))
    }
}

/// As text, no longer than names are.
fn text(name: &[u8]) -> Option<Box<str>> {
    let name = &name[..name.len().min(LONGEST)];
    (!name.is_empty()).then(|| printable(&String::from_utf8_lossy(name)).into())
}

/// The specification's longest interface name.
const LONGEST: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_goes_before_what_agents_tell() {
        let address = IpAddr::from([10, 0, 0, 1]);
        let named = Named { name: None, interfaces: [(1, "uplink".to_owned())].into() };
        let mut names = Names::new((1, 4));
        names.configure(Arc::new([(address, named)].into()));
        names.know(7, address);
        let id = names.id(7);
        assert_eq!((id, names.address(id), names.name(id)), (AgentId(29), Some(address), None));
        names.tell(7, "leaf\u{1b}[2J\u{202e}".as_bytes());
        assert_eq!(names.name(id), Some("leaf [2J "));
        names.tell(7, b"leaf");
        for (if_index, name) in [(1, "eth1"), (2, "eth2")] {
            names.tell_interface(7, if_index, name.as_bytes());
        }
        assert_eq!(
            (names.name(id), names.interface(id, 1), names.interface(id, 2)),
            (Some("leaf"), Some("uplink"), Some("eth2"))
        );
        let named = Named { name: Some("spine".into()), ..Named::default() };
        names.configure(Arc::new([(address, named)].into()));
        assert_eq!((names.name(id), names.interface(id, 1)), (Some("spine"), Some("eth1")));
        // Another agent in the same slot has none of it.
        names.forget(7);
        names.know(7, [10, 0, 0, 2].into());
        assert_eq!((names.name(id), names.interface(id, 1)), (None, None));
        names.forget(7);
        assert_eq!(names.address(id), None);
    }
}
