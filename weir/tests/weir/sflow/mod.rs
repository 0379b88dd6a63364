//! `weir sflow`.

pub(crate) mod agent;
mod decode;
pub(crate) mod known_agent;
mod page;
mod real_agents;
mod serve;
