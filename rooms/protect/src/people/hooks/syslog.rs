//! A receiver of syslog: RFC 5424 in datagrams of UDP (RFC 5426).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;

use nix::unistd::gethostname;

use super::event::severity;
use super::{Carrier, Event};

pub(super) struct Sender {
    address: SocketAddr,
    host: String,
    socket: Option<UdpSocket>,
}

impl Sender {
    pub(super) fn new(address: SocketAddr) -> Self {
        let host = gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        Self { address, host: named(&host), socket: None }
    }

    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => {
                let any: SocketAddr = match self.address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(self.address)?;
                socket
            }
        };
        socket.send(message)?;
        self.socket = Some(socket);
        Ok(())
    }
}

impl Carrier for Sender {
    const NAME: &'static str = "syslog";

    fn carry(&mut self, event: &Event, _: &AtomicBool) -> Result<(), String> {
        let message = message(event, &self.host);
        self.send(message.as_bytes()).map_err(|error| format!("{}: {error}", self.address))
    }
}

/// A message: `<132>1 2026-11-23T03:14:15.926535Z HOST weir PID detected - TEXT`; the text is what the event says.
fn message(event: &Event, host: &str) -> String {
    let priority = FACILITY * 8 + severity(event.event);
    let time = humantime::format_rfc3339_micros(event.time);
    let mut message =
        format!("<{priority}>1 {time} {host} weir {} {} - {}", std::process::id(), event.event.name(), event.text);
    message.truncate(message.floor_char_boundary(LONGEST));
    message
}

/// A host's name as the grammar has it: visible ASCII; nil if it has none.
fn named(host: &str) -> String {
    let name: String = host.chars().filter(char::is_ascii_graphic).take(255).collect();
    if name.is_empty() { "-".into() } else { name }
}

/// daemon
const FACILITY: u8 = 3;

/// Bytes of a message that every receiver takes (RFC 5426, section 3.2, has 2048 as what all should).
const LONGEST: usize = 2048;

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::journal::{Entry, What};

    #[test]
    fn a_message_is_as_the_rfc_has_it() {
        let time = UNIX_EPOCH + Duration::from_micros(1_795_403_655_926_535);
        let entry = Entry::new(time, "ali\u{1b}ce", What::Stopped, "");
        let message = message(&Event::new(&entry, None), &named("edge\u{202e} 1"));
        let id = std::process::id();
        let expected = format!("<29>1 2026-11-23T03:14:15.926535Z edge1 weir {id} stopped - stopped by ali\\u{{1b}}ce");
        assert_eq!(message, expected);
        assert_eq!(named(""), "-");
    }
}
