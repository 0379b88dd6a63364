//! The one accept loop: connections are bounded, and each ends that does not go on.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::sleep;

use super::admission::{Settings, admission};
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
    /// Connections at once. WebSockets are none of them: whoever takes one bounds it.
    pub connections: usize,
    /// How long a client may take for the head of a request, and how long nothing of an answer.
    pub patience: Duration,
    /// Whether a connection is for more than one request.
    pub keep_alive: bool,
}

impl Limits {
    /// Of pages.
    pub const PAGE: Self = Self { connections: 256, patience: Duration::from_secs(10), keep_alive: true };
    /// Of the admin address: a scraper or two, two probes and a few people.
    pub(crate) const ADMIN: Self = Self { connections: 32, keep_alive: false, ..Self::PAGE };
}

/// Connections that were closed to make room for newer ones.
#[derive(Clone, Debug, Default)]
pub struct Ended(Arc<AtomicU64>);

impl Ended {
    /// How many.
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
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
#[error("{failed} {what} address {address}: {}", refusal(error))]
pub struct Error {
    failed: &'static str,
    what: &'static str,
    address: SocketAddr,
    error: io::Error,
}

impl Server {
    /// Binds the address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// If it is taken, forbidden or not of this machine.
    pub fn bind(what: &'static str, address: SocketAddr, limits: Limits) -> Result<Self, Error> {
        let failed = |error| Error { failed: "bind", what, address, error };
        // The standard library sets SO_REUSEADDR, so that a restart need not wait for old connections.
        Self::adopt(what, TcpListener::bind(address).map_err(failed)?, limits).map_err(failed)
    }

    /// Takes over a listening socket, one that a service manager passed.
    ///
    /// # Errors
    /// If it is no TCP socket.
    pub(crate) fn adopt(what: &'static str, listener: TcpListener, limits: Limits) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
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

    /// Serves those whom `settings` admit, on a thread of that name, and two beside it that compute answers. `begin` makes the
    /// router, on that thread and in its runtime, where it may spawn what else goes on; it is given the count of connections
    /// that were closed for others.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be had (no file descriptor or memory left).
    pub fn serve(
        self,
        name: &str,
        settings: Settings,
        begin: impl FnOnce(Ended) -> Router + Send + 'static,
    ) -> Result<Serving, Error> {
        let (what, address) = (self.what, self.address);
        let failed = |error| Error { failed: "serve", what, address, error };
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
                let ended = Ended::default();
                let routes = begin(ended.clone()).layer(from_fn_with_state(Arc::new(settings), admission));
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

/// The ends of a connection; each request has it as an extension.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its client.
    pub client: IpAddr,
    /// Whether it came to an address of loopback.
    pub(super) on_loopback: bool,
}

struct Connection {
    task: AbortHandle,
    waits: Arc<Waits>,
}

/// Since when a connection waits for a whole request, in ns since its server's start; while it is answered, that and [`ANSWERED`].
type Waits = AtomicU64;

/// More than any time: who is being answered makes room only where all are.
const ANSWERED: u64 = 1 << 63;

/// Takes connections. One too many closes the one that has been longest without a complete request: whoever just came is served.
async fn accept(listener: tokio::net::TcpListener, routes: Router, limits: Limits, each: Arc<()>, ended: Ended) {
    let begin = Instant::now();
    let now = move || u64::try_from(begin.elapsed().as_nanos()).unwrap_or(0);
    let mut open: VecDeque<Connection> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                open.retain(|connection| !connection.task.is_finished());
                if open.len() >= limits.connections
                    && let Some(longest) = (0..open.len()).min_by_key(|&at| open[at].waits.load(Relaxed))
                {
                    ended.0.fetch_add(1, Relaxed);
                    open.remove(longest).inspect(|connection| connection.task.abort());
                }
                let waits = Arc::new(AtomicU64::new(now()));
                let answering = answer(stream, client.ip(), routes.clone(), limits, waits.clone(), now);
                let mark = each.clone();
                let task = tokio::spawn(async move {
                    let _mark = mark;
                    answering.await;
                });
                open.push_back(Connection { task: task.abort_handle(), waits });
                // What it has sent already is read before the next one comes.
                yield_now().await;
            }
            // A connection that ended while it waited is nothing; without descriptors or memory the next try fails, too.
            Err(error) if is_shortage(&error) => sleep(PAUSE).await,
            Err(_) => {}
        }
    }
}

/// Answers one connection after the other's request, until it ends.
async fn answer(
    stream: TcpStream,
    client: IpAddr,
    routes: Router,
    limits: Limits,
    waits: Arc<Waits>,
    now: impl Fn() -> u64 + Copy + Send + 'static,
) {
    let socket = SockRef::from(&stream);
    // Answers are written whole: there is nothing to wait for.
    let _ = socket.set_tcp_nodelay(true);
    // What a client does not take stays here, not in the kernel: else each that does not read holds megabytes.
    let _ = socket.set_tcp_notsent_lowat(MOST_UNSENT);
    // Who takes nothing is closed by the kernel (tcp(7)), and so is who is gone without a word while an answer is waited for.
    let _ = socket.set_tcp_user_timeout(Some(limits.patience));
    let alive = TcpKeepalive::new().with_time(limits.patience).with_interval(limits.patience);
    let _ = socket.set_tcp_keepalive(&alive);
    // A server of all addresses is reached by this machine's browsers, too.
    let on_loopback = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let peer = Peer { client: client.to_canonical(), on_loopback };
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        waits.fetch_or(ANSWERED, Relaxed);
        let (answering, whole) = (routes.call(request), Whole { waits: waits.clone(), now });
        async move {
            let response: Response = answering.await?;
            Ok::<_, std::convert::Infallible>(response.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _ = &whole;
                    frame
                }))
            }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .keep_alive(limits.keep_alive)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // Whatever goes wrong is the client's doing, and the client's alone to know.
    let _ = connection.await;
}

/// Of an answer that is made or sent: when it is whole, its connection waits for the next request.
struct Whole<N: Fn() -> u64> {
    waits: Arc<Waits>,
    now: N,
}

impl<N: Fn() -> u64> Drop for Whole<N> {
    fn drop(&mut self) {
        self.waits.store((self.now)(), Relaxed);
    }
}

/// Bytes that wait in the kernel until a client takes those before.
const MOST_UNSENT: u32 = 128 * 1024;

/// After an error that would come again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a request's head, and of what is written at once: long lists stand in paths.
const LONGEST_HEAD: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::mpsc::channel;

    use axum::routing::get;

    use super::super::frames;
    use super::*;

    /// `/`, what is long, and what never comes.
    fn serve(limits: Limits) -> (Serving, Ended) {
        let server = Server::bind("test", "127.0.0.1:0".parse().unwrap(), limits).unwrap();
        let (told, ended) = channel();
        let routes = move |ended| {
            told.send(ended).unwrap();
            let never = || async { frames((), |()| pending()) };
            let long = || async { "x".repeat(64 << 20) };
            Router::new().route("/", get(|| async { "ok" })).route("/long", get(long)).route("/never", get(never))
        };
        let serving = server.serve("test", Settings::default(), routes).unwrap();
        (serving, ended.recv().unwrap())
    }

    fn connect(serving: &Serving, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(serving.local_addr()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn ask(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }

    #[test]
    fn who_does_not_go_on_ends_and_who_waits_for_an_answer_does_not() {
        let limits = Limits { patience: Duration::from_millis(500), ..Limits::PAGE };
        let (serving, _) = serve(limits);
        let begun = Instant::now();
        // Silent, half a head, idle after an answer, and one that takes nothing.
        let held: Vec<_> =
            ["", "GET / HT", &ask("/"), &ask("/long")].iter().map(|text| connect(&serving, text)).collect();
        let mut waits = connect(&serving, &ask("/never"));
        waits.read_exact(&mut [0; 12]).unwrap();
        while serving.connections() > 1 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{} are open", serving.connections());
            thread::sleep(Duration::from_millis(5));
        }
        assert!(begun.elapsed() >= limits.patience);
        drop((held, waits));
    }

    #[test]
    fn one_too_many_closes_who_waits_longest_without_a_request() {
        let limits = Limits { connections: 4, patience: Duration::from_secs(1000), ..Limits::PAGE };
        let (serving, ended) = serve(limits);
        let mut waits = connect(&serving, &ask("/never"));
        waits.read_exact(&mut [0; 12]).unwrap();
        let mut idle: Vec<_> = ["", "GET /", ""].iter().map(|text| connect(&serving, text)).collect();
        let mut answer = [0; 12];
        let mut newest = connect(&serving, &ask("/"));
        newest.read_exact(&mut answer).unwrap();
        assert_eq!((&answer, ended.count()), (b"HTTP/1.1 200", 1));
        assert_eq!(idle[0].read(&mut [0]).unwrap(), 0);
        // A request makes it young again.
        idle[1].write_all(ask("").split_off(4).as_bytes()).unwrap();
        idle[1].read_exact(&mut answer).unwrap();
        connect(&serving, &ask("/")).read_exact(&mut answer).unwrap();
        assert_eq!((idle[2].read(&mut [0]).unwrap(), ended.count()), (0, 2));
        waits.set_nonblocking(true).unwrap();
        while waits.read(&mut [0; 100]).is_ok_and(|length| length > 0) {}
        assert_eq!(waits.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
