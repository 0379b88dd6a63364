//! Analyses sFlow in real time: rates and flows that stay right when datagrams are lost.
//!
//! ```text
//! collector: sockets, an agent pinned to one worker ----> forward, whole
//!    |  batch
//!    v  shard (one a worker, locked once a batch)
//! agents:   which agent and stream, what is lost, late, twice, restarted
//!    |            \
//!    v             v
//! sampling:      counters: totals -> rates with an interval and an age
//! effective rate     \
//!    v                v
//! flows: keys, filter, top flows ---> thresholds -> events
//!                 \     |      /
//!                  api: REST, SSE, Prometheus
//! ```

mod analysis;
pub mod api;
mod atlas;
pub mod collector;
pub mod config;
pub mod control;
pub mod decode;
pub mod events;
pub mod ledger;
mod losses;
pub mod prometheus;
pub mod rehearsal;
pub mod shard;
#[doc(hidden)]
pub mod state;
mod statement;

pub use weir_flows::{agents, counters, fate, flows, names, sampling, thresholds};
use weir_program::escape;
