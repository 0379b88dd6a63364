//! REST of a running analyser, as a client sees it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::Serve;
use crate::service::PATIENCE;

impl Serve {
    /// Where REST is served.
    fn rest(&self) -> SocketAddr {
        let address = |line: &String| line.split_once("http://")?.1.split('/').next()?.parse().ok();
        self.said.iter().find_map(address).unwrap_or_else(|| panic!("no REST in {:#?}", self.said))
    }

    /// Asks; status and body.
    #[track_caller]
    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.rest()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body =
            if head.to_lowercase().contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }

    /// What there is at a path.
    #[track_caller]
    pub(super) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    #[track_caller]
    pub(super) fn put(&self, path: &str, body: &Value) {
        let (status, answer) = self.ask("PUT", path, &body.to_string());
        assert_eq!(status, 204, "{path}: {answer}");
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}
