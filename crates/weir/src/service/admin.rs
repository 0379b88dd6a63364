//! The small HTTP server beside every service: `/metrics`, `/healthz`, `/readyz`, `/ledger`.
//!
//! One thread, one request a connection, few connections, all of them short: a slow or hostile client holds nothing
//! that a probe or a scrape needs.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::errno::Errno;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::metrics::{Format, Samples, expose};
use super::process;

/// What a room tells about itself. Called on the admin thread: answers at once, from counters.
pub trait Service: Send + Sync + 'static {
    /// The room's samples; those of the process are added.
    fn metrics(&self, samples: &mut Samples<'_>);

    /// The room's account, as JSON.
    fn ledger(&self) -> serde_json::Value;

    /// Whether it does its job now, so that traffic may be led to it; else why not, in one line.
    fn ready(&self) -> Result<(), String>;

    /// Whether it can go on; else why it is to be started anew, in one line.
    fn healthy(&self) -> Result<(), String>;
}

/// The server, bound but not yet serving: bind first, drop privileges, then serve.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

/// A server that serves until this is dropped.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    /// Dropping the sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why the server cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("bind admin address {address}: {}{}", in_lower_case(error), remedy(error))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Its thread cannot be started.
    #[error("serve admin address {address}: {error}")]
    Start {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

impl Admin {
    /// Binds the address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// If it is taken, forbidden or not of this machine.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |error| Error::Bind { address, error };
        // The standard library sets SO_REUSEADDR, so that a restart need not wait for old connections.
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves on a thread of its own, named `admin`.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be had (no file descriptor or memory left).
    pub fn serve(self, service: Arc<dyn Service>) -> Result<Serving, Error> {
        let address = self.address;
        let failed = |error| Error::Start { address, error };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(failed)?
        };
        let (stop, stopped) = oneshot::channel();
        let serving = move || {
            runtime.block_on(async {
                tokio::spawn(accept(listener, routes(service)));
                // Connections end with the runtime.
                let _ = stopped.await;
            });
        };
        let thread = thread::Builder::new().name("admin".into()).spawn(serving).map_err(failed)?;
        Ok(Serving { address, stop: Some(stop), thread: Some(thread) })
    }
}

impl Serving {
    /// The address it serves.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic on that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

fn routes(service: Arc<dyn Service>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .route("/healthz", get(async |State(service): State<Arc<dyn Service>>| probe(service.healthy())))
        .route("/readyz", get(async |State(service): State<Arc<dyn Service>>| probe(service.ready())))
        .route("/ledger", get(ledger))
        .with_state(service)
}

async fn index() -> &'static str {
    "/metrics\n/healthz\n/readyz\n/ledger\n"
}

async fn metrics(State(service): State<Arc<dyn Service>>, headers: HeaderMap) -> Response {
    let format = Format::accepted(headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()));
    let body = expose(format, move |samples| {
        service.metrics(samples);
        process::metrics(samples);
    });
    ([(header::CONTENT_TYPE, format.content_type())], body).into_response()
}

async fn ledger(State(service): State<Arc<dyn Service>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{:#}\n", service.ledger())).into_response()
}

fn probe(state: Result<(), String>) -> Response {
    match state {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

/// Takes connections. One too many ends the oldest: whoever just came is served, and whoever dawdles is not.
async fn accept(listener: tokio::net::TcpListener, routes: Router) {
    let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() == CONNECTIONS
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                open.push_back(tokio::spawn(answer(stream, routes.clone())).abort_handle());
            }
            // A connection that ended while it waited is nothing; without descriptors or memory the next try fails, too.
            Err(error) if is_shortage(&error) => sleep(PAUSE).await,
            Err(_) => {}
        }
    }
}

async fn answer(stream: TcpStream, routes: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    // Whatever goes wrong is the client's doing, and the client's alone to know.
    let _ = timeout(PATIENCE, connection).await;
}

fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM))
}

fn in_lower_case(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "address in use".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::AddrNotAvailable => "not an address of this machine".into(),
        _ => error.to_string(),
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (another service? choose another port)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one)",
        io::ErrorKind::AddrNotAvailable => " (0.0.0.0 or [::] serves all of them)",
        _ => "",
    }
}

/// Connections at once: a scraper or two, two probes, a few people.
const CONNECTIONS: usize = 32;

/// From the first byte to the last a connection has this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// After an error that would come again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a request's head, and of what is written at once.
const LONGEST_HEAD: usize = 16 * 1024;
