//! The REST API: sFlow-RT's documented paths for what both have, with intervals and staleness added to the answers.
//!
//! ```text
//! service::http: connections, admission --> route (one table: routes)
//!                                                                    | call: path, query, body, checked by the route
//!                                                                    v
//!                       handlers: agents, metrics, flows, events, settings, prometheus ---> Analysis
//! ```
//!
//! Handlers run beside the reactor where they compute; whoever waits, for an event or the next second, holds one of few
//! places. Answers about all agents are written while the client reads them.

mod agents;
mod analysis;
mod body;
mod call;
mod flows;
mod latest;
mod live;
mod metrics;
mod page;
mod problem;
mod routes;
mod selection;
pub(crate) mod server;
mod settings;
mod statistics;
mod streams;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::Semaphore;
pub(crate) use weir_service::http::Call;
pub use weir_service::http::Settings;
use weir_service::http::{Ended, Places};

pub(crate) use analysis::sum;
pub use analysis::{
    ActiveFlow, ActiveFlows, Agent, Agents, Analysis, CompletedFlow, FlowValue, Groups, Interface, Interval, Load,
    Measure, STALE, Samples, TopKey,
};
pub use routes::page;

pub(crate) use body::pages;
pub(crate) use call::named;
pub(crate) use flows::mode;
pub use live::is_question;
pub(crate) use metrics::{each, names_of};
pub(crate) use problem::{Answer, Problem};
pub(crate) use selection::{agents_of, conditions};
pub(crate) use settings::define;

use crate::prometheus::{IDLE, Scraped};
use crate::shard::Shards;
use latest::Shared;

/// What handlers have.
pub(crate) struct Api {
    /// What is defined and what happened.
    pub(crate) shards: Arc<Shards>,
    /// What is known of agents and flows.
    pub(crate) analysis: Arc<dyn Analysis>,
    pub(crate) places: Places,
    pub(crate) flow_streams: Places,
    pub(crate) latest: Shared,
    /// Long work takes turns: one of the threads that answer is always for what is short.
    turn: Arc<Semaphore>,
    /// Flow definitions that scrapers made.
    pub(crate) scraped: Scraped,
    /// Flow definitions that the page is looked at by.
    pub(crate) tried: Scraped,
    pub(crate) live: live::Live,
    /// Whether there is a page of floods beside, at `/protect`.
    pub(crate) protects: bool,
    /// Connections that were ended for others.
    pub(crate) ended: Ended,
}

impl Api {
    pub(crate) fn new(shards: Arc<Shards>, analysis: Arc<dyn Analysis>) -> Self {
        Self {
            shards,
            analysis,
            places: Places::new(PLACES, "wait or follow a stream"),
            flow_streams: Places::new(FLOW_STREAMS, "follow flows"),
            latest: Shared::default(),
            turn: Arc::new(Semaphore::new(1)),
            scraped: Scraped::new("prometheus/", IDLE),
            tried: Scraped::new("page/", LOOKED_AWAY),
            live: live::Live::default(),
            protects: false,
            ended: Ended::default(),
        }
    }

    /// Whose turn it is to do long work.
    pub(crate) fn turns(&self) -> Arc<Semaphore> {
        self.turn.clone()
    }

    /// Does long work when it is its turn; who leaves before gives the turn up. `None` if it panicked.
    pub(crate) async fn in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> Option<T> {
        let turn = self.turn.clone().acquire_owned().await.ok()?;
        let api = self.clone();
        let working = move || {
            let _turn = turn;
            work(&api)
        };
        tokio::task::spawn_blocking(working).await.ok()
    }
}

/// Clients that wait or follow events at once.
pub(crate) const PLACES: usize = 256;

/// Clients that follow flows at once: each has a frame of its own in memory.
pub(crate) const FLOW_STREAMS: usize = 64;

/// Time after which a flow definition ends that a page has turned away from.
const LOOKED_AWAY: std::time::Duration = std::time::Duration::from_secs(30);
