//! QUIC (RFC 9000, RFC 9221) by quinn: messages over a stream or over datagrams.
//!
//! Receivers present a raw public key (RFC 7250), and clients accept any: no keys are distributed. Each end drives
//! quinn's protocol on its own thread ([`engine`]), woken by its socket, by the stop, and by timers with microsecond
//! precision.
//!
//! The congestion window, not the socket, limits data in flight, and quinn's send window the data that waits for it:
//! "sent" means handed to quinn, as it means handed to the kernel for TCP.

mod bulk;
mod client;
mod engine;
mod server;
mod tls;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{ConnectionError, IdleTimeout, TransportConfig, TransportErrorCode, VarInt};
use rustls::AlertDescription;

pub(super) use self::bulk::{listen_for_bulk, receive_bulk};
pub(super) use self::client::{Client, Known};
pub(super) use self::server::{Event, Listener};
use crate::TrafficError;

/// The choices of congestion control. It is quinn's own, not the kernel's. The first one (RFC 9438) is the
/// default.
pub(super) const CONGESTION: [&str; 3] = ["cubic", "newreno", "bbr"];

/// Refuses what quinn does not have; the error names the choices.
pub(super) fn controller(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>, TrafficError> {
    Ok(match name {
        "cubic" => Arc::new(CubicConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        other => {
            let choices = CONGESTION.join(", ");
            return Err(TrafficError::Refused(format!("quic.congestion `{other}`: use {choices}")));
        }
    })
}

/// Payload bytes of the longest QUIC datagram to `to`, on a path that carries 1500-byte packets.
pub fn longest_datagram(to: SocketAddr) -> usize {
    usize::from(packet_size(ETHERNET, to.ip())) - DATAGRAM_OVERHEAD
}

/// Bytes of overhead in a packet with a datagram frame: flags, 8 bytes of connection id, 4 of packet
/// number, 16 of authentication tag; frame type and length (at its bound).
const DATAGRAM_OVERHEAD: usize = 1 + 8 + 4 + 16 + 9;

/// An end's transport parameters, of which both ends share the limits.
fn transport_config() -> TransportConfig {
    let mut config = TransportConfig::default();
    // At 50 % loss many packets in a row are lost: half of the packets, or of their acknowledgements, is a quarter
    // of the round trips.
    config.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT.as_millis() as u32))));
    config.keep_alive_interval(None);
    config.stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW));
    config.datagram_receive_buffer_size(Some(RECEIVE_WINDOW as usize));
    config
}

const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Max bytes in flight on a stream: 1 Gbit/s over 250 ms, so that flow control does not limit the path.
pub(super) const RECEIVE_WINDOW: u32 = 32 << 20;

fn packet_size(mtu: u16, to: IpAddr) -> u16 {
    let headers = if to.is_ipv4() { 28 } else { 48 };
    (mtu - headers).max(SMALLEST_PACKET)
}

const ETHERNET: u16 = 1500;

/// RFC 9000, section 14.
const SMALLEST_PACKET: u16 = 1200;

/// Why a connection ended, as text. `None`: one of the ends closed it as planned.
fn ended_by(error: &ConnectionError) -> Option<String> {
    let code = match error {
        ConnectionError::TransportError(error) => Some(error.code),
        ConnectionError::ConnectionClosed(close) => Some(close.error_code),
        _ => None,
    };
    match error {
        _ if code == Some(TransportErrorCode::crypto(AlertDescription::NoApplicationProtocol.into())) => {
            Some("one end has --transport quic, the other quic-datagram. Use the same at both ends.".to_owned())
        }
        ConnectionError::LocallyClosed => None,
        ConnectionError::ApplicationClosed(close) if close.error_code == DONE => None,
        ConnectionError::TimedOut => Some(format!("nothing received for {} s", IDLE_TIMEOUT.as_secs())),
        error => Some(error.to_string()),
    }
}

/// The reason if a peer closes a connection before its sender has ended.
const DONE_WORD: &str = "the peer closed it";

/// Error code of a connection that is closed as planned.
const DONE: VarInt = VarInt::from_u32(0);

#[cfg(test)]
mod tests;
