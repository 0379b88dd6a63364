//! A server on loopback, and clients that know little HTTP.

mod answers;
mod page;
mod strangers;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use weir_service::http::{Limits, Server, Serving, Settings as Ground};

use super::access::Tokens;
use super::fixture::Fixture;
use super::{People, router};

const ALICE: &str = "0123456789abcdef0123456789abcdef";
const BOB: &str = "fedcba9876543210fedcba9876543210";

/// The room that serves.
struct Scene {
    guard: Arc<Fixture>,
    people: Arc<People>,
    serving: Serving,
}

/// An answer, or the beginning of one.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Scene {
    fn new() -> Self {
        Self::with(Ground::default())
    }

    /// Alice may act, Bob may look.
    fn with(ground: Ground) -> Self {
        let guard = Arc::new(Fixture::new());
        let people =
            Arc::new(People::new(guard.clone(), tokens(&[("alice", "act", ALICE), ("bob", "read", BOB)]), ground));
        let serving = serve(&people, "127.0.0.1:0".parse().unwrap());
        Self { guard, people, serving }
    }

    /// Sends a request with these lines in its head, and reads that of the answer.
    fn ask(&self, verb: &str, target: &str, head: &[String], body: &str) -> (String, BufReader<TcpStream>) {
        let mut stream = TcpStream::connect(self.serving.local_addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let host = if head.iter().any(|line| line.starts_with("Host:")) { "" } else { "Host: 127.0.0.1\r\n" };
        let lines: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        write!(
            stream,
            "{verb} {target} HTTP/1.1\r\n{host}{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let mut answer = String::new();
        while !answer.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut answer).unwrap() > 0, "{answer}");
        }
        (answer.to_lowercase(), reader)
    }

    fn reply(&self, verb: &str, target: &str, head: &[String], body: &str) -> Reply {
        let (head, mut reader) = self.ask(verb, target, head, body);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        let body = String::from_utf8_lossy(&bytes).into_owned();
        Reply { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body }
    }

    /// As somebody with a token.
    fn of(&self, token: &str, verb: &str, target: &str, body: &str) -> Reply {
        self.reply(verb, target, &[bearer(token)], body)
    }
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }
}

fn serve(people: &Arc<People>, address: SocketAddr) -> Serving {
    let limits = Limits { connections: 64, share: 64, patience: Duration::from_secs(30) };
    let server = Server::bind("test", address, limits).unwrap();
    let routes = people.clone();
    server.serve("test", move |_| router(&routes)).unwrap()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

fn tokens(people: &[(&str, &str, &str)]) -> Tokens {
    use std::os::unix::fs::PermissionsExt;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for (name, role, token) in people {
        writeln!(file, "{name} {role} {token}").unwrap();
    }
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    Tokens::read(file.path()).unwrap()
}
