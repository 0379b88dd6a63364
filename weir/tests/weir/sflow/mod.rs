//! `weir sflow`.

mod decode;
pub(crate) mod known_agent;
mod real_agents;
mod serve;
