//! A server on loopback, and clients that know little HTTP.

mod answers;
mod page;
mod strangers;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use weir_service::http::{Limits, Server, Serving, Settings as Ground};
use weir_testbed::http::{self, Answer, Asked};

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

impl Scene {
    fn new() -> Self {
        Self::with(Ground::default())
    }

    /// Alice may act, Bob may look.
    fn with(ground: Ground) -> Self {
        let guard = Arc::new(Fixture::new());
        let people =
            Arc::new(People::new(guard.commands.clone(), tokens(&[("alice", "act", ALICE), ("bob", "read", BOB)])));
        let serving = serve(&people, ground, "127.0.0.1:0".parse().unwrap());
        Self { guard, people, serving }
    }

    /// Sends a request with these lines in its head, and reads that of the answer.
    fn ask(&self, verb: &str, target: &str, head: &[String], body: &str) -> Asked {
        let lines: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        http::ask(self.serving.local_addr(), verb, target, &lines, body)
    }

    fn reply(&self, verb: &str, target: &str, head: &[String], body: &str) -> Answer {
        self.ask(verb, target, head, body).answer()
    }

    /// As somebody with a token.
    fn of(&self, token: &str, verb: &str, target: &str, body: &str) -> Answer {
        self.reply(verb, target, &[bearer(token)], body)
    }
}

fn serve(people: &Arc<People>, ground: Ground, address: SocketAddr) -> Serving {
    let server = Server::bind("test", address, Limits::PAGE).unwrap();
    let routes = people.clone();
    server.serve("test", ground, move |_| router(&routes)).unwrap()
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
