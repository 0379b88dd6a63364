//! The small HTTP server beside every service: `/metrics`, `/healthz`, `/readyz`, `/ledger`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use weir_dgram::interfaces;

use crate::http::{self, Answer, Call, Limits, Problem, Route, Server, Serving, Settings};
use crate::metrics::{Family, Format, Samples, Wanted, expose_wanted};
use crate::reloads::Reloads;
use crate::room::Observable;
use crate::token::Token;
use crate::{notify, process, reloads};
use weir_program::pulse::Pulses;

/// A room, whatever its ledger is.
trait Observed: Send + Sync {
    fn metrics(&self, samples: &mut Samples<'_>);
    fn ledger(&self) -> serde_json::Result<String>;
    fn ready(&self) -> Result<(), String>;
}

impl<R: Observable> Observed for R {
    fn metrics(&self, samples: &mut Samples<'_>) {
        Observable::metrics(self, samples);
    }

    fn ledger(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&Observable::ledger(self))
    }

    fn ready(&self) -> Result<(), String> {
        Observable::ready(self)
    }
}

/// What probes ask of a service: of its room, and of its threads.
pub(crate) struct Probes {
    room: Arc<dyn Observed>,
    pulses: Pulses,
    /// `None`: there is no file to reload.
    reloads: Option<Reloads>,
    stopping: AtomicBool,
}

impl Probes {
    pub(crate) fn new(room: Arc<impl Observable>, pulses: Pulses, reloads: Option<Reloads>) -> Self {
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

impl fmt::Debug for Probes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Probes").field("pulses", &self.pulses).finish_non_exhaustive()
    }
}

/// The server, bound but not yet serving: bind first, drop privileges, then serve.
#[derive(Debug)]
pub(crate) struct Admin {
    server: Server,
    /// Who reads counts must know this; `None`: anybody may.
    token: Option<Token>,
}

impl Admin {
    /// Binds the address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// If it is taken, forbidden or not of this machine.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, http::Error> {
        Ok(Self { server: Server::bind("admin", address, Limits::ADMIN)?, token: None })
    }

    /// Takes over a listening socket, one that a service manager passed.
    ///
    /// # Errors
    /// If it is no TCP socket.
    pub(crate) fn adopt(listener: TcpListener) -> io::Result<Self> {
        Ok(Self { server: Server::adopt("admin", listener, Limits::ADMIN)?, token: None })
    }

    /// Answers `/metrics` and `/ledger` only to who knows this; `None`: to anybody.
    pub(crate) fn asking_for(self, token: Option<Token>) -> Self {
        Self { token, ..self }
    }

    /// Serves on a thread of its own, named `admin`.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be had (no file descriptor or memory left).
    pub(crate) fn serve(self, probes: Arc<Probes>) -> Result<Serving, http::Error> {
        let desk = Arc::new(Desk { probes, token: self.token });
        self.server
            .serve("admin", Settings::default(), move |_| http::router(&desk, &[ROUTES], &Arc::new(Semaphore::new(1))))
    }
}

/// What handlers have.
struct Desk {
    probes: Arc<Probes>,
    token: Option<Token>,
}

static ROUTES: &[Route<Desk>] = &[
    Route::get("/", "These paths.", |_, _| Ok(http::index(ROUTES).into_response())).media("text/plain"),
    Route::get(
        "/metrics",
        "The counts of [metrics.md](metrics.md), for Prometheus. Parameters are labels: `?destination=siem&destination=b` for samples with \
         either value, `destination=*` for any; another label must have its value, too. A label of no count is refused.",
        metrics,
    )
    .further()
    .media("text/plain"),
    Route::get("/ledger", "The whole account as JSON.", ledger),
    // Beside nothing: who computes something else holds up no probe.
    Route::later("/healthz", "200 while no thread is stuck in a piece of work, and each worker of `weir tee` and `weir sflow serve` answers; 503 with the reason if not.", |desk: Arc<Desk>, _| {
        Box::pin(async move { Ok(probe(desk.probes.healthy())) })
    })
    .media("text/plain"),
    Route::later("/readyz", "200 once it runs and has what its configuration names; 503 with the reason if not: it is stopping, an interface is gone, a disk is full. It does not say whether what is sent arrives: its counts do.", |desk: Arc<Desk>, _| {
        Box::pin(async move { Ok(probe(desk.probes.ready())) })
    })
    .media("text/plain"),
];

/// The reference of the admin address, for `docs/deploy-prometheus.md`.
pub fn reference() -> String {
    http::reference(ROUTES)
}

impl Desk {
    /// Whether whoever asks may read counts.
    fn recognise(&self, call: &Call) -> Result<(), Problem> {
        let is_known = self.token.as_ref().is_none_or(|token| token.is_in(&call.parts.headers));
        let unknown = || Problem::new(StatusCode::UNAUTHORIZED, WHO).header(header::WWW_AUTHENTICATE, "Bearer");
        is_known.then_some(()).ok_or_else(unknown)
    }
}

fn metrics(desk: &Arc<Desk>, call: &Call) -> Answer {
    desk.recognise(call)?;
    let format = Format::accepted(call.header(header::ACCEPT));
    let (probes, wanted) = (desk.probes.clone(), Wanted::parse(call.parts.uri.query().unwrap_or_default()));
    let body = expose_wanted(format, wanted.clone(), move |samples| {
        probes.room.metrics(samples);
        if let Some(reloads) = &probes.reloads {
            reloads.metrics(samples);
        }
        process::metrics(samples);
    });
    match wanted.unknown() {
        Some((label, known)) => Err(http::unknown(label, known.into_iter())),
        None => Ok(([(header::CONTENT_TYPE, format.content_type())], body).into_response()),
    }
}

fn ledger(desk: &Arc<Desk>, call: &Call) -> Answer {
    desk.recognise(call)?;
    let json = desk.probes.room.ledger();
    let json = json.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, http::JSON)], json + "\n").into_response())
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

/// How to say who one is, RFC 6750, section 3.
const WHO: &str = "send `Authorization: Bearer TOKEN`, the token being what the file of WEIR_ADMIN_TOKEN_FILE has";

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
    }

    impl Observable for Room {
        type Ledger = serde_json::Value;

        fn metrics(&self, samples: &mut Samples<'_>) {
            samples.single(&MADE, 3_u64);
        }

        fn ledger(&self) -> serde_json::Value {
            json!({ "made": 3 })
        }

        fn ready(&self) -> Result<(), String> {
            if self.ready.load(Ordering::Relaxed) { Ok(()) } else { Err("no listener is open yet".into()) }
        }
    }

    fn serve(room: Room) -> (Arc<Room>, Arc<Probes>, Serving) {
        let room = Arc::new(room);
        let probes = Arc::new(Probes::new(room.clone(), Pulses::new(), None));
        let serving = Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap().serve(probes.clone()).unwrap();
        (room, probes, serving)
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

    #[test]
    fn every_path_answers() {
        let (room, probes, serving) = serve(Room::default());
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

        let (head, body) = get(&serving, "/metrics?version=*&bogus=1", "");
        assert!(head.starts_with("http/1.1 400 ") && body.lines().count() == 1, "{head} {body}");
        assert!(body.contains("unknown parameter \\\"bogus\\\": this path takes version"), "{body}");
        assert!(get(&serving, "/ledger?bogus=1", "").1.contains("\\\"bogus\\\": this path takes none"));

        let (head, body) = get(&serving, "/ledger", "");
        assert!(head.contains("content-type: application/json"), "{head}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap()["made"], 3);

        assert_eq!(get(&serving, "/healthz", "").1, "ok\n");
        let (head, body) = get(&serving, "/readyz", "");
        assert!(head.starts_with("http/1.1 503 "), "{head}");
        assert_eq!(body, "no listener is open yet\n");
        room.ready.store(true, Ordering::Relaxed);
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
        let (.., serving) = serve(Room::default());
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
    fn it_ends_with_its_owner_and_errors_are_one_line() {
        let (.., serving) = serve(Room::default());
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
