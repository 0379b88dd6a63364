//! A server: connections are bounded and kept alive only while they move, so that a slow, silent or hostile client
//! holds nothing that another one needs.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::guard::OnLoopback;
use super::places::Held;
use crate::listening::{is_shortage, refusal};

/// A server, bound but not yet serving.
#[derive(Debug)]
pub struct Server {
    /// What it serves, in errors: `REST`.
    what: &'static str,
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once; more than places to wait.
    pub connections: usize,
    /// Of those, the share of one address.
    pub share: usize,
    /// How long a connection may stand still while it does not wait for an event.
    pub patience: Duration,
}

/// Connections that were ended to make room for newer ones.
#[derive(Debug, Default)]
pub struct Ended {
    /// Since there were too many.
    full: AtomicU64,
    /// Since their address had more than its share.
    share: AtomicU64,
}

impl Ended {
    /// By name.
    pub fn figures(&self) -> [(String, serde_json::Value); 2] {
        [("connections_ended_full", &self.full), ("connections_ended_share", &self.share)]
            .map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed).into()))
    }
}

/// A server that serves until this is dropped.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    /// Has a clone a connection.
    open: Arc<()>,
    /// Dropping the sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why it cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("bind {what} address {address}: {}", refusal(error))]
    Bind {
        /// What was to be served there.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Its thread cannot be started.
    #[error("serve {what} address {address}: {error}")]
    Start {
        /// What was to be served there.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

impl Server {
    /// Binds the address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// If it is taken, forbidden or not of this machine.
    pub fn bind(what: &'static str, address: SocketAddr, limits: Limits) -> Result<Self, Error> {
        let failed = |error| Error::Bind { what, address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { what, listener, address, limits })
    }

    /// With other limits.
    pub fn with(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves on a thread of that name, and two beside it that compute answers. `begin` makes the router, on that thread and in its
    /// runtime, where it may spawn what else goes on; it is given the count of connections that are ended for others.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be had (no file descriptor or memory left).
    pub fn serve(
        self,
        name: &str,
        begin: impl FnOnce(Arc<Ended>) -> Router + Send + 'static,
    ) -> Result<Serving, Error> {
        let (what, address) = (self.what, self.address);
        let failed = |error| Error::Start { what, address, error };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let answers = format!("{name}-answers");
        let runtime = runtime.enable_all().max_blocking_threads(2).thread_name(answers).build().map_err(failed)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(failed)?
        };
        let open = Arc::new(());
        let (stop, stopped) = oneshot::channel();
        let each = open.clone();
        let serving = move || {
            runtime.block_on(async {
                let ended = Arc::<Ended>::default();
                let routes = begin(ended.clone());
                tokio::spawn(accept(listener, routes, self.limits, each, ended));
                // Connections end with the runtime.
                let _ = stopped.await;
            });
            // An answer that is being computed is for nobody any more.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(name.into()).spawn(serving).map_err(failed)?;
        Ok(Serving { address, open, stop: Some(stop), thread: Some(thread) })
    }
}

impl Serving {
    /// The address it serves.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        // One more is the server's, the other this one's.
        Arc::strong_count(&self.open).saturating_sub(2)
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

struct Connection {
    task: AbortHandle,
    held: Held,
}

/// Takes connections. One too many, of all or of one address, ends the oldest of those that does not wait for an event: whoever just
/// came is served, and no address takes the places of others.
async fn accept(listener: tokio::net::TcpListener, routes: Router, limits: Limits, each: Arc<()>, ended: Arc<Ended>) {
    let mut open: VecDeque<Connection> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                open.retain(|connection| !connection.task.is_finished());
                let held = Held::by(client.ip());
                let own: Vec<usize> = (0..open.len()).filter(|&at| open[at].held.is_of(&held)).collect();
                let (among, count) = match () {
                    () if own.len() >= limits.share => (own, &ended.share),
                    () if open.len() >= limits.connections => ((0..open.len()).collect(), &ended.full),
                    () => (Vec::new(), &ended.full),
                };
                let idle = among.iter().find(|&&at| !open[at].held.is_held());
                if let Some(&oldest) = idle.or(among.first()) {
                    count.fetch_add(1, Ordering::Relaxed);
                    open.remove(oldest).inspect(|connection| connection.task.abort());
                }
                let answering = answer(stream, routes.clone(), held.clone(), limits.patience);
                let mark = each.clone();
                let task = tokio::spawn(async move {
                    let _mark = mark;
                    answering.await;
                });
                let task = task.abort_handle();
                open.push_back(Connection { task, held });
            }
            // A connection that ended while it waited is nothing; without descriptors or memory the next try fails, too.
            Err(error) if is_shortage(&error) => sleep(PAUSE).await,
            Err(_) => {}
        }
    }
}

async fn answer(stream: TcpStream, routes: Router, held: Held, patience: Duration) {
    // Answers are written whole: there is nothing to wait for.
    let _ = stream.set_nodelay(true);
    // What a client does not take stays here, not in the kernel: else each that does not read holds megabytes.
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(MOST_UNSENT);
    let moved = Arc::new(Moved { begin: Instant::now(), last: AtomicU64::new(0), stuck: AtomicU64::new(u64::MAX) });
    let routes = TowerToHyperService::new(routes);
    // A server of all addresses is reached by this machine's browsers, too.
    let local = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let service = service_fn({
        let held = held.clone();
        move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(held.clone());
            if local {
                request.extensions_mut().insert(OnLoopback);
            }
            routes.call(request)
        }
    });
    // A connection that becomes a WebSocket is no longer one of these: who takes it bounds it.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(Watched { stream, moved: moved.clone() }), service)
        .with_upgrades();
    tokio::select! {
        // Whatever goes wrong is the client's doing, and the client's alone to know.
        _ = connection => {}
        () = stands_still(&moved, &held, patience) => {}
    }
}

/// Returns when nothing has moved for so long, though nobody waits for an event; or something waits for the client, who
/// does not read.
async fn stands_still(moved: &Moved, held: &Held, patience: Duration) {
    loop {
        sleep(patience / 4).await;
        let is_idle = !held.is_held() && moved.begin.elapsed().saturating_sub(moved.last()) >= patience;
        if is_idle || moved.stuck() >= patience {
            return;
        }
    }
}

/// When a connection last moved a byte.
struct Moved {
    begin: Instant,
    /// Milliseconds since.
    last: AtomicU64,
    /// When the client began to take nothing of what is written; `u64::MAX` while it takes all.
    stuck: AtomicU64,
}

impl Moved {
    fn now(&self) {
        self.last.store(self.milliseconds(), Ordering::Relaxed);
    }

    fn wrote(&self, has: bool) {
        match has {
            true => self.stuck.store(u64::MAX, Ordering::Relaxed),
            false => _ = self.stuck.fetch_min(self.milliseconds(), Ordering::Relaxed),
        }
    }

    /// How long the client has taken nothing of what is to be written.
    fn stuck(&self) -> Duration {
        self.begin.elapsed().saturating_sub(Duration::from_millis(self.stuck.load(Ordering::Relaxed)))
    }

    fn milliseconds(&self) -> u64 {
        self.begin.elapsed().as_millis().try_into().unwrap_or(u64::MAX)
    }

    fn last(&self) -> Duration {
        Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}

/// A stream that tells when it moves.
struct Watched {
    stream: TcpStream,
    moved: Arc<Moved>,
}

impl Watched {
    fn tell<T>(&self, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.moved.now();
        }
        outcome
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.tell(outcome)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved.wrote(outcome.is_ready());
        self.tell(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.moved.wrote(outcome.is_ready());
        self.tell(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Bytes that wait in the kernel until a client takes those before.
const MOST_UNSENT: u32 = 128 * 1024;

/// After an error that would come again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a request's head, and of what is written at once: long lists stand in paths.
const LONGEST_HEAD: usize = 64 * 1024;
