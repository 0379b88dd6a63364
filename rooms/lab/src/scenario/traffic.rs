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
    /// Receiving host, or a list of them.
    pub to: Receivers,
    /// Destination address; absent: the receiver's first. Every receiver joins a multicast group.
    pub address: Option<IpAddr>,
    /// Destination port.
    pub port: u16,
    /// `udp`, `tcp`, `quic` (a stream) or `quic-datagram`.
    pub transport: Transport,
    /// `messages` (numbered and timestamped, one every `interval`), `bulk` (as much as the path takes; UDP: `rate`),
    /// or `programs` (the scenario's `[[programs]]` send and receive; `from` and `to` name the path of the result rows).
    #[serde(default)]
    pub mode: Mode,
    /// The program for bulk traffic: `weir` or `iperf3`.
    #[serde(default)]
    pub engine: Engine,
    /// Message size; bulk: size of a datagram, or of one write to a stream.
    #[serde(default = "Traffic::default_payload")]
    pub payload: Size,
    /// Messages: time between them; absent: 10ms, or as `rate` requires.
    pub interval: Option<Span>,
    /// Messages over UDP: max number per call, each its own datagram. A sender that cannot keep its interval then stops at
    /// the end of its window, and an interval of 0 sends as fast as the machine can.
    pub batch: Option<NonZeroUsize>,
    /// Messages: `schedule` (at fixed times) or `sleep` (send, then sleep for the interval, as a script would; each round
    /// takes a little longer).
    #[serde(default = "Traffic::default_pacing")]
    pub pacing: Pacing,
    /// Bulk over UDP: payload bits per second. Messages: the same, instead of the interval.
    pub rate: Option<BitRate>,
    /// Messages over UDP: `constant` (one per interval) or `poisson` (at random, one per interval on average).
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Messages over UDP: `{ on = "100ms", off = "900ms" }`: send and pause in turns.
    pub bursts: Option<OnOff>,
    /// Messages over UDP: `[{ bytes = "64B", share = "75%" }, ...]`, drawn for each message, instead of `payload`.
    pub sizes: Option<Vec<SizeShare>>,
    /// Messages over UDP: a capture (pcap or pcapng) whose UDP datagrams set the times and sizes of the messages. It starts
    /// again at its end. Its addresses are ignored.
    pub replay: Option<PathBuf>,
    /// Bulk: number of connections.
    #[serde(default = "Traffic::default_streams")]
    pub streams: u32,
    /// Bulk: time to send before the measured window begins.
    #[serde(default)]
    pub warmup: Span,
    /// iperf3: the sender's link for its control connection, which carries nothing else.
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
    /// Receive buffer to request (SO_RCVBUF), or `default`: the kernel's, for bulk datagrams 32 MiB.
    pub buffer: ReceiveBuffer,
    /// Messages over UDP: the reader stops reading at intervals.
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
    /// Max size of a socket's receive and send buffers (net.ipv4.tcp_rmem, tcp_wmem of every host); absent: the kernel's
    /// default.
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
