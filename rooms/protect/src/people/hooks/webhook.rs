//! A receiver of HTTP POST, plain or over TLS. One connection an event: they are rare.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Uri, header};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::tls::Trust;
use super::{Carrier, Event};

/// `http://HOST:PORT/PATH`, or `https://`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: u16,
    authority: String,
    path: String,
    is_encrypted: bool,
}

/// Why a text is no URL that can be posted to, in one line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is something else.
    #[error("`{0}`: write https://HOST:PORT/PATH, or http://")]
    Other(String),
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let other = || UrlError::Other(weir_program::escape::escaped(text));
        let uri: Uri = text.parse().map_err(|_| other())?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(other()),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(other)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        Ok(Self { host, port, authority: authority.to_string(), path, is_encrypted })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(formatter, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl Url {
    /// Whether it is behind TLS.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }
}

pub(super) struct Poster {
    url: Url,
    /// Who is believed, where it is behind TLS.
    trust: Option<Trust>,
    timeout: Duration,
}

impl Poster {
    pub(super) fn new(url: Url, trust: Option<Trust>, timeout: Duration) -> Self {
        Self { url, trust, timeout }
    }

    /// One try.
    pub(super) async fn post(&self, json: Vec<u8>) -> Result<(), String> {
        let url = &self.url;
        let stream = TcpStream::connect((&*url.host, url.port)).await.map_err(|error| error.to_string())?;
        match &self.trust {
            Some(trust) => self.hand_over(trust.greet(&url.host, stream).await?, json).await,
            None => self.hand_over(stream, json).await,
        }
    }

    async fn hand_over<S>(&self, stream: S, json: Vec<u8>) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let url = &self.url;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url.path)
            .header(header::HOST, &url.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")))
            .body(Body::from(json))
            .map_err(|error| error.to_string())?;
        // It ends with this call, whatever becomes of it.
        let mut driving = JoinSet::new();
        driving.spawn(connection);
        let answer = sender.send_request(request).await;
        let status = answer.map_err(|error| error.to_string())?.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answers {status}")) }
    }
}

impl Carrier for Poster {
    const NAME: &'static str = "webhook";

    async fn carry(&mut self, event: &Event) -> Result<(), String> {
        let json = event.json();
        let mut why = String::new();
        // The flood that it is about may be what is in its way.
        for pause in PAUSES {
            sleep(pause).await;
            why = match timeout(self.timeout, self.post(json.clone())).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(why)) => why,
                Err(_) => format!("no answer in {} s", self.timeout.as_secs_f64()),
            };
        }
        Err(format!("{}: {why}", self.url))
    }
}

/// Before each try.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(2)];
