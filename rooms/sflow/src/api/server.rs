//! The server of the analyser.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use tokio::time::interval;
use weir_service::http::{Error, Limits, Server, Serving};

use super::{Analysis, Api, PLACES, Settings, routes};
use crate::prometheus::IDLE;
use crate::shard::Shards;

/// Binds the address; port 0 lets the kernel choose.
///
/// # Errors
/// If it is taken, forbidden or not of this machine.
pub(crate) fn bind(address: SocketAddr) -> Result<Server, Error> {
    Server::bind("REST", address, LIMITS)
}

/// Serves on a thread of its own, named `rest`, and two beside it that compute answers; also the paths of `protect`.
///
/// # Errors
/// If the thread or its runtime cannot be had (no file descriptor or memory left).
pub(crate) fn serve(
    server: Server,
    shards: Arc<Shards>,
    analysis: Arc<dyn Analysis>,
    settings: Settings,
    protect: Option<Router>,
) -> Result<Serving, Error> {
    server.serve("rest", settings, move |ended| {
        let api = Api { ended, protects: protect.is_some(), ..Api::new(shards, analysis) };
        let api = Arc::new(api);
        tokio::spawn(end_idle(api.clone()));
        routes::router(&api).merge(protect.unwrap_or_default())
    })
}

/// Ends flow definitions that nobody scrapes any more.
async fn end_idle(api: Arc<Api>) {
    let mut ticks = interval(IDLE / 30);
    loop {
        ticks.tick().await;
        api.scraped.end_idle(&api.shards, Instant::now());
        api.tried.end_idle(&api.shards, Instant::now());
        api.live.rest();
    }
}

/// All who wait, and as many who do not.
const LIMITS: Limits = Limits { connections: 2 * PLACES, ..Limits::PAGE };
