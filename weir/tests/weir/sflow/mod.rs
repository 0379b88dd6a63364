//! `weir sflow`.

mod agent;
mod decode;
mod real_agents;
mod serve;
