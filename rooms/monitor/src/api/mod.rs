//! The page of a server, its WebSocket and its REST.
//!
//! ```text
//! service::http: connections, admission --> routes --> page, channels, history, events, ledger
//!                                                     | /live
//!                                                     v
//!                  Shown --> history --> feed: blocks, thinned to what a screen has --> WebSocket, as fast as it is read
//!                        --> news, five times a second for all: states, events -------^
//! ```
//!
//! Nothing is queued for a client: it is pulled from the history from its own index on, when it has taken what came before. Who does not
//! read gets a gap once the history has moved on, and costs nobody anything.

mod live;
mod news;
mod page;
mod routes;
mod rows;
mod server;
mod shown;
#[cfg(test)]
mod tests;

pub(crate) use live::is_question;
pub use routes::paths;
pub use server::Server;
pub use shown::{Acknowledged, Alarm, Event, NotAcknowledged, Severity, Shown, State};
pub(crate) use shown::{is_loss, words};
pub use weir_service::http::{Error, Serving, Settings};

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;
use weir_service::http::{Ended, Page, Sockets};

use news::News;

/// What handlers have.
struct Api {
    shown: Arc<dyn Shown>,
    /// Whether nothing can be acknowledged.
    read_only: bool,
    page: Page,
    sockets: Arc<Sockets>,
    news: watch::Sender<News>,
    /// Changes after each batch of the history.
    batches: watch::Sender<()>,
    /// Messages with samples, and their bytes.
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Connections that made room for newer ones: WebSockets that were still to become one are among them.
    ended: Ended,
}

/// Clients that follow signals at once: two hundred screens, and some that look after them.
const PLACES: usize = 256;
