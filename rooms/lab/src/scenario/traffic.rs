//! What is sent: messages or bulk, by which transport, and the settings of TCP and QUIC.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_traffic::{Pacing, Transport};
use weir_units::{BitRate, Share, Size, Span};

/// What goes from one host to another, or (multicast) to several.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Sending host.
    pub from: String,
    /// Receiving host, or a list of them.
    pub to: Receivers,
    /// Destination address; absent: the receiver's first. A multicast group is joined by every receiver.
    pub address: Option<IpAddr>,
    /// Destination port.
    pub port: u16,
    /// `udp`, `tcp`, `quic` (a stream) or `quic-datagram`.
    pub transport: Transport,
    /// `messages` (numbered and timestamped, one every `interval`), `bulk` (as much as the path takes; UDP: `rate`),
    /// or `programs` (the scenario's `[[programs]]` send and receive; `from` and `to` name the path that rows are about).
    #[serde(default)]
    pub mode: Mode,
    /// Who sends and receives in bulk: `weir` or `iperf3`.
    #[serde(default)]
    pub engine: Engine,
    /// Bytes of a message; bulk: of a datagram, or of what is handed to a stream at once.
    #[serde(default = "Traffic::default_payload")]
    pub payload: Size,
    /// Messages: from one to the next; absent: 10ms, or what `rate` makes it.
    pub interval: Option<Span>,
    /// Messages over UDP: most in one call, each a datagram of its own. With it a sender that cannot keep its interval
    /// ends with its window, and an interval of 0 sends as fast as the machine takes it.
    pub batch: Option<NonZeroUsize>,
    /// Messages: `schedule` (at fixed times) or `sleep` (send, then sleep the interval, which takes a little longer each
    /// time, as in a script).
    #[serde(default = "Traffic::default_pacing")]
    pub pacing: Pacing,
    /// Bulk by datagrams: payload bits a second. So of messages, in place of the interval.
    pub rate: Option<BitRate>,
    /// Messages over UDP: `constant` (one each interval) or `poisson` (at random, one each interval on average).
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Messages over UDP: `{ on = "100ms", off = "900ms" }`: sent for a time, then not for a time, and so on.
    pub bursts: Option<OnOff>,
    /// Messages over UDP: `[{ bytes = "64B", share = "75%" }, ...]`, each drawn for itself, in place of `payload`.
    pub sizes: Option<Vec<SizeShare>>,
    /// Messages over UDP: a capture (pcap or pcapng), whose UDP datagrams say when messages are sent and how long they are; when it
    /// is over, from its beginning. Its addresses mean nothing.
    pub replay: Option<PathBuf>,
    /// Bulk: connections at once.
    #[serde(default = "Traffic::default_streams")]
    pub streams: u32,
    /// Bulk: what is sent before the measured window begins.
    #[serde(default)]
    pub warmup: Span,
    /// iperf3: the link that its control connection leaves the sender by; it carries nothing else.
    pub control: Option<String>,
}

/// When messages are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One each interval.
    #[default]
    Constant,
    /// At random, independently: one each interval on average.
    Poisson,
}

/// Sending by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table, e.g. { on = \"100ms\", off = \"900ms\" }")]
pub struct OnOff {
    /// For so long messages are sent.
    pub on: Span,
    /// For so long then none.
    pub off: Span,
}

/// A size that messages may have.
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
    /// Several, all of the same multicast group.
    Several(Vec<String>),
}

/// What kind of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Numbered, timestamped messages at an interval.
    #[default]
    Messages,
    /// As many bytes as the path takes.
    Bulk,
    /// What `[[programs]]` do; the lab itself sends nothing.
    Programs,
}

/// Who makes bulk traffic.
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
    /// Receive buffer to ask for (SO_RCVBUF), or `default`: that of the kernel, of bulk datagrams 32 MiB.
    pub buffer: ReceiveBuffer,
    /// Messages over UDP: a reader that stops reading again and again.
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
    /// From the beginning of one to that of the next.
    pub every: Span,
    /// How long each is.
    pub length: Span,
}

/// QUIC settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quic {
    /// Congestion control: `cubic`, `newreno` or `bbr`, as quinn has them.
    pub congestion: String,
}

/// TCP settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Congestion control, by the kernel's name, whatever the host's default is.
    pub congestion: String,
    /// Switch Nagle's algorithm off.
    pub nodelay: bool,
    /// How long a connection may take to come up.
    pub connect_timeout: Span,
    /// Most that a socket's receive and send buffer may grow to (net.ipv4.tcp_rmem, tcp_wmem of every host); absent:
    /// the kernel's default.
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
