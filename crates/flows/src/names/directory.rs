//! Names that agents tell of themselves.

use std::net::IpAddr;

/// An agent, by its place in the table of those that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub u32);

/// What is known of agents and their interfaces. It is asked once a sample at most for each name that a key needs.
pub trait Directory {
    /// Address of the agent; `None`: it is not known any more.
    fn address(&self, agent: AgentId) -> Option<IpAddr>;

    /// Name of the agent, from its counters or from the configuration; `None`: it has only its address.
    fn name(&self, agent: AgentId) -> Option<&str>;

    /// Name of an interface: `port_name` (counter structure 0:1005), or from the configuration; `None`: it has told none.
    fn interface(&self, agent: AgentId, if_index: u32) -> Option<&str>;
}

/// Nobody has a name.
#[derive(Clone, Copy, Debug)]
pub struct Nameless;

impl Directory for Nameless {
    fn address(&self, _: AgentId) -> Option<IpAddr> {
        None
    }

    fn name(&self, _: AgentId) -> Option<&str> {
        None
    }

    fn interface(&self, _: AgentId, _: u32) -> Option<&str> {
        None
    }
}
