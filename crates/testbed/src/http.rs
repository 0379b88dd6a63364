//! An HTTP client that shares no code with what it asks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use serde_json::Value;

use crate::started::PATIENCE;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The status line and headers, in lower case.
    pub head: String,
    /// The body, whole.
    pub body: String,
}

/// A request whose answer is being read: the head is there.
#[derive(Debug)]
pub struct Asked {
    /// The status.
    pub status: u16,
    /// The status line and headers, in lower case.
    pub head: String,
    /// The body as it comes.
    pub body: BufReader<TcpStream>,
}

/// Asks for what there is at a path.
#[track_caller]
pub fn get(address: impl ToSocketAddrs, path: &str) -> Answer {
    ask(address, "GET", path, "", "").answer()
}

/// Asks, with further lines of the head, each ended by `\r\n`. `Host: localhost` and `Connection: close` are sent unless given.
#[track_caller]
pub fn ask(address: impl ToSocketAddrs, method: &str, path: &str, headers: &str, body: &str) -> Asked {
    ask_on(TcpStream::connect(address).unwrap(), method, path, headers, body)
}

/// As [`ask`], on a connection that stands.
#[track_caller]
pub fn ask_on(mut stream: TcpStream, method: &str, path: &str, headers: &str, body: &str) -> Asked {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let unless_given = |name: &str, line: &'static str| if headers.contains(name) { "" } else { line };
    let host = unless_given("Host:", "Host: localhost\r\n");
    let close = unless_given("Connection:", "Connection: close\r\n");
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\n{host}{close}{headers}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut body = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(body.read_line(&mut head).unwrap(), 0, "ended in {head:?}");
    }
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Asked { status: status.unwrap_or_else(|| panic!("{head}")), head: head.to_lowercase(), body }
}

impl Asked {
    /// The next chunk of a body in chunks (RFC 9112, 7.1); empty at the end.
    #[track_caller]
    pub fn chunk(&mut self) -> Vec<u8> {
        let mut line = String::new();
        self.body.read_line(&mut line).unwrap();
        let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).unwrap_or(0) + 2];
        self.body.read_exact(&mut chunk).unwrap();
        chunk.truncate(chunk.len() - 2);
        chunk
    }

    /// The whole answer.
    #[track_caller]
    pub fn answer(mut self) -> Answer {
        let mut body = Vec::new();
        if self.head.contains("transfer-encoding: chunked") {
            loop {
                let chunk = self.chunk();
                if chunk.is_empty() {
                    break;
                }
                body.extend(chunk);
            }
        } else {
            self.body.read_to_end(&mut body).unwrap();
        }
        Answer { status: self.status, head: self.head, body: String::from_utf8_lossy(&body).into_owned() }
    }
}

impl Answer {
    /// What is wrong, as a body says that is JSON.
    #[track_caller]
    pub fn error(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body));
        body["error"].as_str().unwrap_or_default().to_owned()
    }

    /// The body, which is JSON, of an answer with status 200.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}{}", self.head, self.body);
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn bodies_with_a_length_and_in_chunks_are_read_whole() {
        for (head, body) in
            [("Content-Length: 7", "{\"a\":1}"), ("Transfer-Encoding: chunked", "2\r\n{\"\r\n5\r\na\":1}\r\n0\r\n\r\n")]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1000];
                let length = stream.read(&mut request).unwrap();
                write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").unwrap();
                String::from_utf8_lossy(&request[..length]).into_owned()
            });
            assert_eq!(get(address, "/x?y=1").json()["a"], 1);
            let request = server.join().unwrap();
            assert_eq!(
                request,
                "GET /x?y=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            );
        }
    }
}
