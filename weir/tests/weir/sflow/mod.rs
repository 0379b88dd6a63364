//! `weir sflow`.

pub(crate) mod agent;
mod decode;
pub(crate) mod known_agent;
pub(crate) mod page;
mod real_agents;
pub(crate) mod serve;
