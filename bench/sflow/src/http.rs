//! A client of the REST API: one connection, one request after the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use weir_kernel::namespaces::NetNs;

/// A connection that is kept.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(ns: &NetNs, to: SocketAddr) -> Result<Client> {
        let stream = ns.run(|| TcpStream::connect(to))?.with_context(|| format!("connect to {to}"))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<Value> {
        let body = self.ask("GET", path, "")?;
        serde_json::from_slice(&body).with_context(|| format!("GET {path}: {}", String::from_utf8_lossy(&body)))
    }

    pub(crate) fn put(&mut self, path: &str, body: &Value) -> Result<()> {
        self.ask("PUT", path, &body.to_string()).map(|_| ())
    }

    pub(crate) fn delete(&mut self, path: &str) -> Result<()> {
        self.ask("DELETE", path, "").map(|_| ())
    }

    /// The body of the answer.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Vec<u8>> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let header = self.line()?.to_ascii_lowercase();
            match header.split_once(": ") {
                None => break,
                Some(("content-length", value)) => length = value.parse()?,
                Some(("transfer-encoding", value)) => chunked = value == "chunked",
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        if chunked {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16)?;
                self.take(size, &mut body)?;
                ensure!(self.line()?.is_empty(), "{path}: a chunk without an end");
                if size == 0 {
                    break;
                }
            }
        } else {
            self.take(length, &mut body)?;
        }
        match status.split(' ').nth(1) {
            Some(code) if code.starts_with('2') => Ok(body),
            _ => bail!("{method} {path}: {status}: {}", String::from_utf8_lossy(&body)),
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.0.read_line(&mut line)? > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }

    fn take(&mut self, size: usize, body: &mut Vec<u8>) -> Result<()> {
        let start = body.len();
        body.resize(start + size, 0);
        Ok(self.0.read_exact(&mut body[start..])?)
    }
}
