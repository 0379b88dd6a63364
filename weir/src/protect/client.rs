//! Asks a running analyser.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::Value;
use weir_program::escape::escaped;

use crate::usage;

/// Whom to ask, and as whom.
#[derive(Debug, Args)]
pub(super) struct Client {
    /// Where the analyser serves REST.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8008")]
    server: String,
    /// File with the token alone [default: the environment's WEIR_TOKEN].
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Client {
    /// Asks for a path, and returns the answer.
    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let token = usage(self.token())?;
        let server = self.server.trim_start_matches("http://").trim_end_matches('/');
        if server.starts_with("https://") {
            return usage(Err(anyhow!(
                "--server {server}: no TLS is spoken: ask the analyser's own host, or through a tunnel"
            )));
        }
        let (status, answer) = exchange(server, method, path, &token, body).with_context(|| format!("ask {server}"))?;
        let value: Option<Value> = serde_json::from_str(&answer).ok();
        if (200..300).contains(&status) {
            return value.ok_or_else(|| anyhow!("{server}: its answer is no JSON: is it weir sflow serve?"));
        }
        let told = value.as_ref().and_then(|value| {
            let keys = ["detail", "message", "error", "title"];
            keys.into_iter().find_map(|key| value[key].as_str()).map(str::to_owned)
        });
        let told = escaped(told.as_deref().unwrap_or(answer.lines().next().unwrap_or_default()));
        match status {
            404 if value.is_none() || told.starts_with("there is no path") => bail!(
                "--server {server}: nobody may ask about attacks there: write [protect.access] with tokens = \
                 \"/etc/weir/protect.tokens\" in the analyser's configuration, or name another --server"
            ),
            _ => bail!("{server}: {told}"),
        }
    }

    fn token(&self) -> Result<String> {
        let token = match &self.token_file {
            Some(path) => secret(path).with_context(|| format!("--token-file {}", path.display()))?,
            None => std::env::var("WEIR_TOKEN")
                .map_err(|_| anyhow!("no token: name a file that has it, --token-file FILE, or set WEIR_TOKEN"))?,
        };
        let token = token.trim();
        if token.is_empty() {
            let whose = if self.token_file.is_some() { "the file of --token-file" } else { "WEIR_TOKEN" };
            bail!(
                "{whose} is empty: write the token in it, as the service's file of tokens has it behind name and role"
            );
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!(
                "the token has white space or other characters in it: write it alone, in one line (of the service's file of \
                 tokens it is the last word of yours)"
            );
        }
        Ok(token.to_owned())
    }
}

/// A secret that nobody else may read.
fn secret(path: &Path) -> Result<String> {
    let mode = fs::metadata(path)?.mode();
    if mode & 0o077 != 0 {
        bail!("others can read it (mode {:o}): chmod 600 it", mode & 0o777);
    }
    Ok(fs::read_to_string(path)?)
}

/// One request over a connection of its own.
fn exchange(server: &str, method: &str, path: &str, token: &str, body: &str) -> Result<(u16, String)> {
    let mut addresses = server.to_socket_addrs().context("write HOST:PORT, e.g. 127.0.0.1:8008")?;
    let address = addresses.next().ok_or_else(|| anyhow!("it has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the answer ends with the connection, and comes in one piece.
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {server}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| anyhow!("it does not answer as HTTP does"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| anyhow!("it does not answer as HTTP does"))?, body.to_owned()))
}

/// Longest wait for an answer: longer than the guard takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of an answer.
const LONGEST: u64 = 64 << 20;
