//! The page of a server, its WebSocket and its REST.
//!
//! ```text
//! service::http: connections, bounded --> guard --> routes --> page, channels, history, events, ledger
//!                                                     | /live
//!                                                     v
//!                  Shown --> history --> feed: blocks, thinned to what a screen has --> WebSocket, as fast as it is read
//!                        --> news, five times a second for all: states, events -------^
//! ```
//!
//! Nothing is queued for a client: it is pulled from the history from its own index on, when it has taken what came before. Who does not
//! read gets a gap once the history has moved on, and costs nobody anything.

mod figures;
mod live;
mod news;
mod page;
mod routes;
mod rows;
mod server;
mod shown;
#[cfg(test)]
mod tests;
mod thinned;

pub(crate) use live::is_question;
pub use server::Server;
pub use shown::{Acknowledged, Alarm, Event, NotAcknowledged, Severity, Shown, State};
pub use weir_service::http::{Error, Serving, Settings};

use std::sync::Arc;

use tokio::sync::watch;
use weir_service::http::{Ended, Page, Places};

use figures::Figures;
use news::News;

/// What handlers have.
struct Api {
    shown: Arc<dyn Shown>,
    settings: Settings,
    page: Page,
    /// For WebSockets.
    places: Places,
    news: watch::Sender<News>,
    figures: Figures,
    /// Connections that made room for newer ones: WebSockets that were still to become one are among them.
    ended: Arc<Ended>,
}

/// Clients that follow signals at once: two hundred screens, and some that look after them.
const PLACES: usize = 256;

/// Of one address: two hundred screens may be behind one, and whoever says nothing in all of its places leaves some to others.
const SHARE: usize = PLACES / 8 * 7;
