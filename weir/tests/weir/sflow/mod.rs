//! `weir sflow`.

mod decode;
mod real_agents;
mod serve;
