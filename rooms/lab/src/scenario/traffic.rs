//! The traffic: messages or bulk, the transport, and the settings of TCP and QUIC.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_traffic::{Pacing, Transport};
use weir_units::{BitRate, Share, Size, Span};

/// Traffic from one host to another or, with multicast, to several.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Sending host.
    pub from: String,
    /// Receiving host, or a list of them that join the group `address`.
    pub to: Receivers,
    /// Destination address. Default: the receiver's first.
    pub address: Option<IpAddr>,
    /// Destination port.
    pub port: u16,
    /// `udp`, `tcp`, `quic` (a stream) or `quic-datagram` (RFC 9221).
    pub transport: Transport,
    /// `messages` (one every `interval`), `bulk` (as much as the path takes; UDP: `rate`) or `programs` (only
    /// `[[programs]]` send; `from` and `to` name the path of the rows).
    #[serde(default)]
    pub mode: Mode,
    /// Bulk: `weir` or `iperf3`.
    #[serde(default)]
    pub engine: Engine,
    /// Bytes of a message. Bulk: of a datagram, or of a write to a stream.
    #[serde(default = "Traffic::default_payload")]
    pub payload: Size,
    /// Messages: time from one to the next. Default: 10ms, or what follows from `rate`.
    pub interval: Option<Span>,
    /// Messages over UDP: most datagrams in one call (sendmmsg). A sender that is late then ends with its window. An
    /// interval of 0 sends as fast as the machine can.
    pub batch: Option<NonZeroUsize>,
    /// Messages: `schedule` (fixed times) or `sleep` (send, then sleep the interval, as a script does).
    #[serde(default = "Traffic::default_pacing")]
    pub pacing: Pacing,
    /// Payload bits per second, for bulk datagrams, or for messages instead of `interval`.
    pub rate: Option<BitRate>,
    /// Messages over UDP: `constant` or `poisson` (one per interval on average).
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Messages over UDP: send and pause: `{ on = "100ms", off = "900ms" }`.
    pub bursts: Option<OnOff>,
    /// Messages over UDP, instead of `payload`: `[{ bytes = "64B", share = "75%" }, ...]`, drawn at random.
    pub sizes: Option<Vec<SizeShare>>,
    /// Messages over UDP: a capture (pcap, pcapng) whose UDP datagrams give times and sizes. It repeats.
    pub replay: Option<PathBuf>,
    /// Bulk: parallel connections.
    #[serde(default = "Traffic::default_streams")]
    pub streams: u32,
    /// Bulk: time to send before the window.
    #[serde(default)]
    pub warmup: Span,
    /// iperf3: link for its control connection alone, so that loss does not stop the measurement.
    pub control: Option<String>,
}

/// When messages are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One per interval.
    #[default]
    Constant,
    /// At random and independent: one per interval on average.
    Poisson,
}

/// Sending and pausing in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table, e.g. { on = \"100ms\", off = \"900ms\" }")]
pub struct OnOff {
    /// How long messages are sent.
    pub on: Span,
    /// How long none are sent then.
    pub off: Span,
}

/// A size of messages.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SizeShare {
    /// Bytes of a message.
    pub bytes: Size,
    /// Share of the messages.
    pub share: Share,
}

/// One receiving host, or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected the name of a host, or a list of them")]
pub enum Receivers {
    /// One.
    One(String),
    /// Several, all in the same multicast group.
    Several(Vec<String>),
}

/// What kind of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Numbered, timestamped messages at an interval.
    #[default]
    Messages,
    /// As many bytes as the path carries.
    Bulk,
    /// Traffic of `[[programs]]`; the lab itself sends nothing.
    Programs,
}

/// The program for bulk traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Weir itself.
    #[default]
    Weir,
    /// The program iperf3, started on the hosts.
    Iperf3,
}

/// How datagrams are received.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Receive {
    /// Receive buffer to request (SO_RCVBUF), or `default`: the kernel's, and 32 MiB for bulk datagrams.
    pub buffer: ReceiveBuffer,
    /// Messages over UDP: a reader that pauses: `{ every = "200ms", length = "40ms" }`.
    pub stall: Option<ReaderStall>,
}

/// `default`, or bytes: `16MiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReceiveBuffer(pub Option<Size>);

/// `{ every = "200ms", length = "40ms" }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table, e.g. { every = \"200ms\", length = \"40ms\" }")]
pub struct ReaderStall {
    /// Time from the start of one stall to the start of the next.
    pub every: Span,
    /// Length of each stall.
    pub length: Span,
}

/// QUIC settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quic {
    /// Congestion control of quinn: `cubic`, `newreno` or `bbr`.
    pub congestion: String,
}

/// TCP settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Congestion control, by the kernel's name.
    pub congestion: String,
    /// Disable Nagle's algorithm.
    pub nodelay: bool,
    /// Max time to connect.
    pub connect_timeout: Span,
    /// Largest socket buffers (net.ipv4.tcp_rmem, tcp_wmem). Default: the kernel's.
    pub buffer: Option<Size>,
}

impl Traffic {
    fn default_payload() -> Size {
        Size { bytes: 1000 }
    }

    fn default_pacing() -> Pacing {
        Pacing::Schedule
    }

    fn default_streams() -> u32 {
        1
    }
}

impl Receivers {
    /// The receiving hosts' names, in order.
    pub fn names(&self) -> &[String] {
        match self {
            Receivers::One(name) => std::slice::from_ref(name),
            Receivers::Several(names) => names,
        }
    }
}

impl TryFrom<String> for ReceiveBuffer {
    type Error = String;

    fn try_from(text: String) -> Result<ReceiveBuffer, String> {
        match text.as_str() {
            "default" => Ok(ReceiveBuffer(None)),
            size => {
                size.parse().map(|size| ReceiveBuffer(Some(size))).map_err(|error| format!("{error}, or `default`"))
            }
        }
    }
}

impl From<ReceiveBuffer> for String {
    fn from(buffer: ReceiveBuffer) -> String {
        buffer.0.map_or_else(|| "default".to_owned(), |size| size.to_string())
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp { congestion: "cubic".into(), nodelay: false, connect_timeout: Span::from_secs(30), buffer: None }
    }
}

impl Default for Quic {
    fn default() -> Self {
        Quic { congestion: "cubic".into() }
    }
}
