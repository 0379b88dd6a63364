//! `weir sflow`.

mod decode;
mod page;
mod real_agents;
mod serve;
