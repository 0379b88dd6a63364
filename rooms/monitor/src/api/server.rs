//! The server of the page.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use weir_service::http::{self, Error, Limits, Serving, Settings, Sockets};

use super::{Api, News, PLACES, Shown, news, page, routes};

/// A server, bound but not yet serving.
#[derive(Debug)]
pub struct Server(http::Server);

impl Server {
    /// Binds the address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// If it is taken, forbidden or not of this machine.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        http::Server::bind("HTTP", address, Limits::PAGE).map(Self)
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Serves on a thread of its own, named `http`, and two beside it that compute answers. Pages of the peers may follow here, too:
    /// they change over.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be had (no file descriptor or memory left).
    pub fn serve(self, shown: Arc<dyn Shown>, mut settings: Settings) -> Result<Serving, Error> {
        let peers = shown.peers();
        let page = page::page(&peers);
        settings.origins.extend(peers);
        let read_only = settings.read_only;
        let batches = watch::Sender::new(());
        let after = batches.clone();
        shown.history().after_each_batch(move || after.send_replace(()));
        self.0.serve("http", settings, move |ended| {
            let api = Arc::new(Api {
                shown,
                read_only,
                page,
                sockets: Sockets::new(PLACES, "follow signals"),
                news: watch::Sender::new(News::default()),
                batches,
                messages: Default::default(),
                bytes: Default::default(),
                ended,
            });
            tokio::spawn(news::gather(api.clone()));
            http::router(&api, &[routes::ROUTES, routes::OF_THE_PAGE], &Arc::new(Semaphore::new(1)))
        })
    }
}
