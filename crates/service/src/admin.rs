//! The small HTTP server beside every service: `/metrics`, `/healthz`, `/readyz`, `/ledger`.
//!
//! One thread, one request a connection, few connections, all of them short: a slow or hostile client holds nothing
//! that a probe or a scrape needs.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use weir_dgram::interfaces;

use crate::http::{self, Purpose};
use crate::listening::{is_shortage, refusal};
use crate::metrics::{Family, Format, Wanted, expose_wanted};
use crate::pulse::Pulses;
use crate::reloads::Reloads;
use crate::room::Observable;
use crate::token::Token;
use crate::{notify, process, reloads};

/// What probes ask of a service: of its room, and of its threads.
#[derive(Debug)]
pub(crate) struct Probes<S> {
    room: Arc<S>,
    pulses: Pulses,
    /// `None`: there is no file to reload.
    reloads: Option<Reloads>,
    stopping: AtomicBool,
}

impl<S: Observable> Probes<S> {
    pub(crate) fn new(room: Arc<S>, pulses: Pulses, reloads: Option<Reloads>) -> Self {
        Self { room, pulses, reloads, stopping: AtomicBool::new(false) }
    }

    /// From now on no more traffic should be led here.
    pub(crate) fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn ready(&self) -> Result<(), String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err("stopping".into());
        }
        interfaces::all_there()?;
        self.room.ready()
    }

    /// Whether it can go on; else why it is to be started anew.
    fn healthy(&self) -> Result<(), String> {
        self.pulses.check(Instant::now(), notify::PATIENCE)
    }
}

/// The server, bound but not yet serving: bind first, drop privileges, then serve.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    /// Who reads counts must know this; `None`: anybody may.
    token: Option<Token>,
}

/// What clients may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Connections at once.
    connections: usize,
    /// How long a connection has from its first byte to its last.
    patience: Duration,
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
    #[error("bind admin address {address}: {}", refusal(error))]
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
        Self::adopt(TcpListener::bind(address).map_err(failed)?).map_err(failed)
    }

    /// Takes over a listening socket, one that a service manager passed.
    ///
    /// # Errors
    /// If it is no TCP socket.
    pub fn adopt(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, limits: LIMITS, token: None })
    }

    /// Answers `/metrics` and `/ledger` only to who knows this; `None`: to anybody.
    pub(crate) fn asking_for(self, token: Option<Token>) -> Self {
        Self { token, ..self }
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves on a thread of its own, named `admin`.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be had (no file descriptor or memory left).
    pub(crate) fn serve<S: Observable>(self, probes: Arc<Probes<S>>) -> Result<Serving, Error> {
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
                tokio::spawn(accept(listener, routes(probes, self.token), self.limits));
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

fn routes<S: Observable>(probes: Arc<Probes<S>>, token: Option<Token>) -> Router {
    type Probed<S> = State<Arc<Probes<S>>>;
    let ask = move |request: Request, next: Next| {
        let known = token.as_ref().is_none_or(|token| token.is_in(request.headers()));
        async move { if known { next.run(request).await } else { (StatusCode::UNAUTHORIZED, BEARER, WHO).into_response() } }
    };
    Router::new()
        .route("/metrics", get(metrics::<S>))
        .route("/ledger", get(ledger::<S>))
        .route_layer(from_fn(ask))
        .route("/", get(index))
        .route("/healthz", get(async |State(probes): Probed<S>| probe(probes.healthy())))
        .route("/readyz", get(async |State(probes): Probed<S>| probe(probes.ready())))
        .with_state(probes)
}

async fn index() -> &'static str {
    "/metrics\n/healthz\n/readyz\n/ledger\n"
}

async fn metrics<S: Observable>(
    State(probes): State<Arc<Probes<S>>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let format = Format::accepted(headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()));
    let wanted = Wanted::parse(query.as_deref().unwrap_or_default());
    let body = expose_wanted(format, wanted, move |samples| {
        probes.room.metrics(samples);
        if let Some(reloads) = &probes.reloads {
            reloads.metrics(samples);
        }
        process::metrics(samples);
    });
    ([(header::CONTENT_TYPE, format.content_type())], body).into_response()
}

async fn ledger<S: Observable>(State(probes): State<Arc<Probes<S>>>) -> Response {
    match serde_json::to_string_pretty(&probes.room.ledger()) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json + "\n").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Every family that a service adds to those of its room, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    reloads::FAMILIES.into_iter().chain(process::FAMILIES).collect()
}

fn probe(state: Result<(), String>) -> Response {
    match state {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

/// Takes connections. One too many ends the oldest: whoever just came is served, and whoever dawdles is not.
async fn accept(listener: tokio::net::TcpListener, routes: Router, limits: Limits) {
    let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(limits.connections);
    let guarded = routes.clone().layer(from_fn(guard));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() == limits.connections
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let is_local = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
                let routes = if is_local { guarded.clone() } else { routes.clone() };
                open.push_back(tokio::spawn(answer(stream, routes, limits.patience)).abort_handle());
            }
            // A connection that ended while it waited is nothing; without descriptors or memory the next try fails, too.
            Err(error) if is_shortage(&error) => sleep(PAUSE).await,
            Err(_) => {}
        }
    }
}

/// A web page whose name its owner lets point to this machine (DNS rebinding) reads nothing that is served on it alone.
async fn guard(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match http::Settings::default().admit(&parts, true, Purpose::Read) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refused) if refused.status == StatusCode::MISDIRECTED_REQUEST => {
            (refused.status, "ask by an address, or as localhost\n").into_response()
        }
        Err(refused) => (refused.status, format!("{refused}\n")).into_response(),
    }
}

async fn answer(stream: TcpStream, routes: Router, patience: Duration) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    // Whatever goes wrong is the client's doing, and the client's alone to know.
    let _ = timeout(patience, connection).await;
}

/// How to say who one is, RFC 6750, section 3.
const BEARER: [(header::HeaderName, &str); 1] = [(header::WWW_AUTHENTICATE, "Bearer")];
const WHO: &str = "send `Authorization: Bearer TOKEN`, the token being what the file of WEIR_ADMIN_TOKEN_FILE has\n";

/// Enough for a scraper or two, two probes and a few people.
const LIMITS: Limits = Limits { connections: 32, patience: Duration::from_secs(10) };

/// After an error that would come again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a request's head, and of what is written at once.
const LONGEST_HEAD: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use serde_json::json;

    use super::super::metrics::{Kind, Samples};
    use super::*;

    static MADE: Family = Family {
        name: "weir_test_made",
        unit: Some("things"),
        kind: Kind::Counter,
        help: "Things that were made.",
        labels: &[],
    };

    #[derive(Default)]
    struct Room {
        ready: AtomicBool,
        /// Bytes of the ledger.
        long: usize,
    }

    impl Observable for Room {
        type Ledger = serde_json::Value;

        fn metrics(&self, samples: &mut Samples<'_>) {
            samples.single(&MADE, 3_u64);
        }

        fn ledger(&self) -> serde_json::Value {
            json!({ "made": 3, "filler": "x".repeat(self.long) })
        }

        fn ready(&self) -> Result<(), String> {
            if self.ready.load(Ordering::Relaxed) { Ok(()) } else { Err("no listener is open yet".into()) }
        }
    }

    fn serve(room: Room, limits: Limits) -> (Arc<Probes<Room>>, Serving) {
        let probes = Arc::new(Probes::new(Arc::new(room), Pulses::new(), None));
        let admin = Admin { limits, ..Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap() };
        (probes.clone(), admin.serve(probes).unwrap())
    }

    fn request(serving: &Serving, text: &str) -> (String, String) {
        let mut stream = TcpStream::connect(serving.local_addr()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), body.to_owned())
    }

    fn get(serving: &Serving, path: &str, headers: &str) -> (String, String) {
        request(serving, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"))
    }

    /// Whether somebody who asks and listens gets an answer in time.
    fn is_served(serving: &Serving) -> bool {
        let mut answer = String::new();
        let mut stream = TcpStream::connect(serving.local_addr()).unwrap();
        let asked = stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n");
        asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.ends_with("\r\n\r\nok\n")
    }

    #[test]
    fn every_path_answers() {
        let (probes, serving) = serve(Room::default(), LIMITS);
        let (head, body) = get(&serving, "/metrics", "");
        assert!(
            head.starts_with("http/1.1 200 ok") && head.contains("content-type: text/plain; version=0.0.4"),
            "{head}"
        );
        assert!(
            body.starts_with("# HELP weir_test_made_things_total ") && body.contains("\nweir_build_info{"),
            "{body}"
        );
        let (head, body) = get(&serving, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
        assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
        assert!(body.contains("\nweir_test_made_things_total 3\n") && body.ends_with("\n# EOF\n"), "{body}");

        let of_a_label = get(&serving, "/metrics?version=*", "").1;
        assert!(of_a_label.contains("weir_build_info{") && !of_a_label.contains("weir_test_made"), "{of_a_label}");

        let (head, body) = get(&serving, "/ledger", "");
        assert!(head.contains("content-type: application/json"), "{head}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap()["made"], 3);

        assert_eq!(get(&serving, "/healthz", "").1, "ok\n");
        let (head, body) = get(&serving, "/readyz", "");
        assert!(head.starts_with("http/1.1 503 "), "{head}");
        assert_eq!(body, "no listener is open yet\n");
        probes.room.ready.store(true, Ordering::Relaxed);
        assert_eq!(get(&serving, "/readyz", "").1, "ok\n");
        probes.stopping();
        assert_eq!(get(&serving, "/readyz", "").1, "stopping\n");
        // Ending is not failing.
        assert_eq!(get(&serving, "/healthz", "").1, "ok\n");

        assert!(get(&serving, "/", "").1.contains("/metrics\n"));
        assert!(get(&serving, "/nowhere", "").0.starts_with("http/1.1 404 "));
        let post = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        assert!(request(&serving, post).0.starts_with("http/1.1 405 "));
        let (head, body) = request(&serving, "HEAD /healthz HTTP/1.0\r\n\r\n");
        assert!(head.contains(" 200 ok") && body.is_empty(), "{head}");
        assert!(request(&serving, "no http at all\r\n\r\n").0.starts_with("http/1.1 400 "));
    }

    /// A page whose name was made to point to this machine asks with that name.
    #[test]
    fn who_asks_for_another_host_reads_nothing() {
        let (_, serving) = serve(Room::default(), LIMITS);
        for (host, status) in [("evil.example", 421), ("evil.example:80", 421), ("127.0.0.1:9514", 200), ("[::1]", 200)]
        {
            let (head, body) = request(&serving, &format!("GET /ledger HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert!(head.starts_with(&format!("http/1.1 {status} ")), "{host}: {head}");
            assert_eq!(body.contains("made"), status == 200, "{host}");
        }
        let two = "GET /ledger HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
        let (head, body) = request(&serving, two);
        assert!(head.starts_with("http/1.1 400 ") && body.contains("more than one Host"), "{head} {body}");
    }

    #[test]
    fn with_a_token_counts_are_for_who_knows_it_and_probes_for_anybody() {
        let probes = Arc::new(Probes::new(Arc::new(Room::default()), Pulses::new(), None));
        let token = Token::parse("0123456789abcdef").unwrap();
        let serving =
            Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap().asking_for(Some(token)).serve(probes).unwrap();
        for path in ["/metrics", "/ledger", "/metrics?version=*"] {
            for (headers, status) in [
                ("", 401),
                ("Authorization: Bearer 0123456789abcdeF\r\n", 401),
                ("Authorization: Basic 0123456789abcdef\r\n", 401),
                ("Authorization: Bearer 0123456789abcdef\r\n", 200),
                ("authorization: bearer 0123456789abcdef\r\n", 200),
            ] {
                let (head, body) = get(&serving, path, headers);
                assert!(head.starts_with(&format!("http/1.1 {status} ")), "{path} {headers}: {head}");
                assert_eq!(head.contains("www-authenticate: bearer"), status == 401, "{head}");
                assert_eq!(body.contains("made") || body.contains("build"), status == 200, "{body}");
            }
        }
        assert_eq!(get(&serving, "/healthz", "").1, "ok\n");
    }

    #[test]
    fn silent_clients_are_ended_by_those_who_come() {
        let limits = Limits { connections: 4, patience: Duration::from_secs(1000) };
        let (_, serving) = serve(Room::default(), limits);
        let connect = || TcpStream::connect(serving.local_addr()).unwrap();
        let mut silent: Vec<TcpStream> = (0..limits.connections).map(|_| connect()).collect();
        // Comes when all of them are taken, as they came first.
        assert_eq!(get(&serving, "/healthz", "").1, "ok\n");
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
        // The others may still ask.
        silent[3].write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        silent[3].read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
    }

    #[test]
    fn slow_clients_run_out_of_time() {
        let limits = Limits { connections: 4, patience: Duration::from_millis(50) };
        let (_, serving) = serve(Room { long: 64 << 20, ..Room::default() }, limits);
        let mut silent = TcpStream::connect(serving.local_addr()).unwrap();
        // An answer about the time-out or none, and the end.
        silent.read_to_end(&mut Vec::new()).unwrap();

        // More than socket buffers hold, and nobody reads it until the connection has ended.
        let mut slow = TcpStream::connect(serving.local_addr()).unwrap();
        slow.write_all(b"GET /ledger HTTP/1.0\r\n\r\n").unwrap();
        // Whoever is prompt is served; on a busy machine this thread may not be, the first time.
        assert!((0..20).any(|_| is_served(&serving)));
        let mut after = TcpStream::connect(serving.local_addr()).unwrap();
        after.read_to_end(&mut Vec::new()).unwrap();
        let mut read = Vec::new();
        let end = slow.read_to_end(&mut read);
        assert!(end.is_err() || read.len() < 64 << 20, "{end:?}");
    }

    #[test]
    fn it_ends_with_its_owner_and_errors_are_one_line() {
        let (_, serving) = serve(Room::default(), LIMITS);
        let address = serving.local_addr();
        let taken = Admin::bind(address).unwrap_err().to_string();
        let expected = format!("bind admin address {address}: address in use (another service? choose another port)");
        assert_eq!(taken, expected);
        drop(serving);
        assert!(TcpStream::connect(address).is_err());
        drop(Admin::bind(address).unwrap());

        let foreign = Admin::bind("192.0.2.1:9".parse().unwrap()).unwrap_err().to_string();
        assert!(foreign.contains("not an address of this machine (0.0.0.0 or [::] serves all"), "{foreign}");
    }
}
