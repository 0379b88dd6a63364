//! The scenario document: what the network looks like, what is sent through it, how the result is drawn.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use include_dir::{Dir, include_dir};
use ipnet::IpNet;
use serde::Deserialize;

use super::traces::Traces;
use crate::report::record::{Assert, Chart, Claim, Published};
use crate::service::config::one_line;
use crate::traffic::{Pacing, Transport};
use crate::units::{BitRate, Share, Size, Span};

/// One cell of a scenario: the document without its axes, every value decided.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Names the run, its result directory and its shell.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// What is measured and how.
    #[serde(default)]
    pub description: String,
    /// Scenario keys and the values to sweep; laid out by [`super::sweep`], empty in a cell.
    #[serde(default)]
    pub axes: toml::Table,
    /// How it is run.
    #[serde(default)]
    pub run: Run,
    /// End systems by name.
    pub hosts: BTreeMap<String, Host>,
    /// Routers by name: the kernel's forwarding.
    #[serde(default)]
    pub routers: BTreeMap<String, Router>,
    /// Learning bridges by name.
    #[serde(default)]
    pub switches: BTreeMap<String, Switch>,
    /// Emulated links by name, in the order of their random sequences.
    pub links: BTreeMap<String, Link>,
    /// Impairments of the route from the sender to the receiver as a whole.
    #[serde(default)]
    pub path: PathImpairments,
    /// What is sent and measured.
    pub traffic: Traffic,
    /// A bulk transfer beside it.
    #[serde(default)]
    pub load: Option<Traffic>,
    /// TCP settings of the hosts and of all traffic by TCP.
    #[serde(default)]
    pub tcp: Tcp,
    /// Settings of all traffic by QUIC.
    #[serde(default)]
    pub quic: Quic,
    /// Cells besides those of the axes.
    #[serde(default)]
    pub cells: Vec<ExtraCell>,
    /// Charts of the report.
    #[serde(default)]
    pub charts: Vec<Chart>,
    /// Published values to lay over them.
    #[serde(default)]
    pub published: Option<Published>,
    /// Published statements to judge.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Bounds that fail the run.
    #[serde(default, rename = "assert")]
    pub asserts: Vec<Assert>,
    /// Where relative paths of traces start; absent: at the directory of the scenario's file.
    pub directory: Option<PathBuf>,
    /// The traces that links name, read when the sweep was laid out.
    #[serde(skip)]
    pub traces: Traces,
}

/// How a scenario is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// The sending window of a cell.
    pub duration: Span,
    /// How long a receiver goes on after the window has ended.
    pub drain: Span,
    /// How often each cell is run.
    pub repeat: u32,
    /// Seed of every random choice.
    pub seed: u64,
    /// Cells at once.
    pub jobs: Jobs,
    /// The emulator, and senders and receivers of messages, run before every ordinary thread of the machine, and
    /// processors stay awake, where the user may have that. Bulk transfers never do: whoever fills a processor this way
    /// starves the kernel's own threads.
    pub realtime: bool,
    /// Emulator threads busy-wait the last 60 us before a release.
    pub spin: bool,
    /// How the emulator carries frames.
    pub datapath: Datapath,
    /// A cell during which the machine stood still for longer than this is disturbed and runs again.
    pub max_stall: Span,
    /// A cell during which other programs, and the host of this virtual machine, took more than this share of the
    /// processors is disturbed and runs again.
    pub max_foreign: Share,
    /// Time between two looks at the state of connections, and length of a batch of received bytes.
    pub sample: Span,
    /// Whether links do what they are told to; if not, all of them only carry packets.
    pub impaired: bool,
    /// How long the lab measures, before the first cell, the delay that it adds itself; 0: not at all.
    pub control: Span,
}

/// Cells at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "JobsValue")]
pub enum Jobs {
    /// Every cell of the sweep.
    All,
    /// As many as the processors carry, by what each is expected to need.
    Auto,
    /// This many.
    Count(usize),
}

/// How the emulator carries frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// Super-packets whole, decided segment by segment; the hosts' offloads stay on.
    #[default]
    Segments,
    /// Packet by packet; the hosts' offloads are switched off.
    Packets,
}

/// An end system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Addresses with prefix length; the first is the one that traffic goes to. A host with several links has them by
    /// link: `{ access = ["10.0.1.2/24"], control = ["10.0.9.2/24"] }`.
    pub addresses: Addresses,
    /// Lines for the shell, run on the host before any traffic, as with `weir lab shell`: firewall rules, routes,
    /// sysctls.
    #[serde(default)]
    pub setup: Vec<String>,
}

/// Addresses of a node's interfaces.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a list of addresses, or lists of addresses by link")]
pub enum Addresses {
    /// Of a node's only interface.
    Only(Vec<IpNet>),
    /// By the name of the link that the interface is on.
    ByLink(BTreeMap<String, Vec<IpNet>>),
}

/// A namespace that forwards IP packets between its interfaces. Routes to every network are computed (shortest path,
/// then by name), on hosts too.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Addresses with prefix length by the name of the link.
    pub addresses: BTreeMap<String, Vec<IpNet>>,
    /// As [`Host::setup`].
    #[serde(default)]
    pub setup: Vec<String>,
}

/// A learning bridge, with IGMP and MLD snooping and a querier.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {}

/// An emulated link between two nodes. Its impairments hold both ways unless `forward` or `backward` says otherwise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The nodes at its ends; `forward` is from the first to the second.
    pub ends: [String; 2],
    /// Largest IP packet, bytes.
    #[serde(default = "Link::default_mtu")]
    pub mtu: u32,
    /// As in [`Direction`], for both.
    pub loss: Option<Loss>,
    /// As in [`Direction`], for both.
    pub delay: Option<Span>,
    /// As in [`Direction`], for both.
    pub variation: Option<Variation>,
    /// As in [`Direction`], for both.
    pub rate: Option<BitRate>,
    /// As in [`Direction`], for both.
    pub burst: Option<Size>,
    /// As in [`Direction`], for both.
    pub queue: Option<Queue>,
    /// As in [`Direction`], for both.
    pub duplicate: Option<Share>,
    /// As in [`Direction`], for both.
    pub corrupt: Option<Share>,
    /// As in [`Direction`], for both.
    pub reorder: Option<Reorder>,
    /// As in [`Direction`], for both.
    pub trace: Option<PathBuf>,
    /// As in [`Direction`], for both.
    pub steps: Option<Vec<Step>>,
    /// As in [`Direction`], for both.
    pub repeat: Option<Span>,
    /// Only from the first end to the second.
    #[serde(default)]
    pub forward: Direction,
    /// Only from the second end to the first.
    #[serde(default)]
    pub backward: Direction,
}

/// Impairments of one direction of a link. What is absent does nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Planned loss.
    pub loss: Option<Loss>,
    /// One-way delay.
    pub delay: Option<Span>,
    /// Random addition to the delay.
    pub variation: Option<Variation>,
    /// Rate of the shaper, counted from the IP header on.
    pub rate: Option<BitRate>,
    /// How much the shaper lets through at once; absent: packets are spaced evenly.
    pub burst: Option<Size>,
    /// What may wait for the shaper; absent: any amount.
    pub queue: Option<Queue>,
    /// Share of packets delivered twice.
    pub duplicate: Option<Share>,
    /// Share of packets that get one bit flipped.
    pub corrupt: Option<Share>,
    /// Share of packets held back so that others overtake them.
    pub reorder: Option<Reorder>,
    /// In place of a rate: a file with the times at which the link delivers 1500 bytes, in milliseconds, one a line, as
    /// mahimahi has them.
    pub trace: Option<PathBuf>,
    /// Changes while the traffic runs.
    pub steps: Option<Vec<Step>>,
    /// After which time the steps start again; absent: the last one stays.
    pub repeat: Option<Span>,
}

/// A change of a direction: `{ at = "5s", loss = "3%" }`. What it names replaces the values that the direction begins
/// with, the others are as at the beginning. A rate replaces a trace, and a trace a rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "toml::Table")]
pub struct Step {
    /// When, from the start of sending.
    pub at: Span,
    /// What it names.
    pub values: Direction,
}

/// Planned loss: `"5%"`, `{ mean = "5%", burst = 4 }`, `{ to_bad = "1%", to_good = "25%" }` or `{ list = [3, 17] }`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a share as \"5%\", { mean, burst }, { to_bad, to_good, good, bad } or { list }"
)]
pub enum Loss {
    /// Each packet independently.
    Share(Share),
    /// A share, in bursts of a mean length.
    Mean(MeanLoss),
    /// Gilbert-Elliott bursts.
    Bursts(Bursts),
    /// These packets of each flow, from 0.
    List(DropList),
}

/// Gilbert-Elliott loss by its mean: all is lost in the bad state, nothing in the good one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeanLoss {
    /// Share of packets lost in the long run.
    pub mean: Share,
    /// Mean length of a burst, packets; 1: each packet independently.
    #[serde(default = "MeanLoss::single")]
    pub burst: f64,
}

/// Gilbert-Elliott loss, see [`weir_emulator::model::Loss::GilbertElliott`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Chance a packet to turn bad.
    pub to_bad: Share,
    /// Chance a packet to turn good again.
    pub to_good: Share,
    /// Loss in the good state; absent: 0.
    #[serde(default)]
    pub good: Share,
    /// Loss in the bad state; absent: all.
    pub bad: Option<Share>,
}

/// Explicit losses.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropList {
    /// Indexes, from 0, of the packets of every flow.
    pub list: Vec<u64>,
}

/// Delay variation: exactly one distribution, and whether it may reorder.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Evenly between 0 and this.
    pub uniform: Option<Span>,
    /// Mean and standard deviation.
    pub normal: Option<[Span; 2]>,
    /// Mean.
    pub exponential: Option<Span>,
    /// `keep` (packets stay in order) or `reorder`.
    #[serde(default)]
    pub order: Order,
}

/// Whether delay variation may reorder packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Packets stay in order.
    #[default]
    Keep,
    /// Each packet has its own delay.
    Reorder,
}

/// A queue limit: `100` packets, or bytes as `"64kB"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a number of packets (100) or a size (\"64kB\")")]
pub enum Queue {
    /// Packets.
    Packets(u64),
    /// Bytes.
    Bytes(Size),
}

/// Holding packets back.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Share of packets.
    pub probability: Share,
    /// For how long.
    pub by: Span,
}

/// Impairments of the whole route, spread evenly over its links, both ways independently: n links of
/// 1 - (1 - loss)^(1/n) each multiply to `loss`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathImpairments {
    /// One-way loss of the route.
    pub loss: Option<Share>,
    /// One-way delay of the route.
    pub delay: Option<Span>,
}

/// What goes from one host to another, or (multicast) to several.
#[derive(Clone, Debug, Deserialize)]
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
    /// `messages` (numbered and timestamped, one every `interval`) or `bulk` (as much as the path takes; UDP: `rate`).
    #[serde(default)]
    pub mode: Mode,
    /// Who sends and receives in bulk: `weir` or `iperf3`.
    #[serde(default)]
    pub engine: Engine,
    /// Bytes of a message; bulk: of a datagram, or of what is handed to a stream at once.
    pub payload: Size,
    /// Messages: from one to the next.
    #[serde(default = "Traffic::default_interval")]
    pub interval: Span,
    /// Messages: `sleep` (send, then sleep the interval) or `schedule` (at fixed times).
    #[serde(default)]
    pub pacing: Pacing,
    /// Bulk by datagrams: payload bits a second.
    pub rate: Option<BitRate>,
    /// Bulk: connections at once.
    #[serde(default = "Traffic::default_streams")]
    pub streams: u32,
    /// Bulk: what is sent before the measured window begins.
    #[serde(default)]
    pub warmup: Span,
    /// iperf3: the link that its control connection leaves the sender by; it carries nothing else.
    pub control: Option<String>,
}

/// One receiving host, or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected the name of a host, or a list of them")]
pub enum Receivers {
    /// One.
    One(String),
    /// Several, all of the same multicast group.
    Several(Vec<String>),
}

/// What kind of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Numbered, timestamped messages at an interval.
    #[default]
    Messages,
    /// As many bytes as the path takes.
    Bulk,
}

/// Who makes bulk traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Weir itself.
    #[default]
    Weir,
    /// The program iperf3, started on the hosts.
    Iperf3,
}

/// QUIC settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quic {
    /// Congestion control: `cubic`, `newreno` or `bbr`, as quinn has them.
    pub congestion: String,
}

/// A cell of its own: the document with some keys set, and the first value of every axis for those that are not.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraCell {
    /// The cell's name.
    pub name: String,
    /// Scenario key to value.
    #[serde(default)]
    pub set: toml::Table,
}

/// TCP settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Congestion control, by the kernel's name, whatever the host's default is.
    pub congestion: String,
    /// Switch Nagle's algorithm off.
    pub nodelay: bool,
    /// How long a connection may take to come up.
    pub connect_timeout: Span,
    /// Most that a socket's receive and send buffer may grow to (net.ipv4.tcp_rmem, tcp_wmem of every host); absent: the
    /// kernel's default.
    pub buffer: Option<Size>,
}

impl Scenario {
    /// The text of a scenario by file path or by the name of one that ships, and the name to use in errors.
    pub fn find(name: &str) -> Result<(String, String)> {
        let path = Path::new(name);
        if path.extension().is_some() || path.components().count() > 1 {
            let text = std::fs::read_to_string(path).with_context(|| format!("read scenario {name}"))?;
            return Ok((name.to_owned(), text));
        }
        match SHIPPED.get_file(format!("{name}.toml")).and_then(|file| file.contents_utf8()) {
            Some(text) => Ok((format!("{name}.toml"), text.to_owned())),
            None => {
                let names = Scenario::shipped().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
                bail!("no scenario `{name}`: there are {names}, or give the path of a file (./{name}.toml)")
            }
        }
    }

    /// Name and text of every scenario that ships, by name.
    pub fn shipped() -> impl Iterator<Item = (&'static str, &'static str)> {
        SHIPPED.files().filter_map(|file| Some((file.path().file_stem()?.to_str()?, file.contents_utf8()?)))
    }
}

static SHIPPED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");

impl Default for Run {
    fn default() -> Self {
        Run {
            duration: Span::from_secs(60),
            drain: Span::from_secs(10),
            repeat: 1,
            seed: 1,
            jobs: Jobs::Count(1),
            realtime: false,
            spin: false,
            datapath: Datapath::default(),
            max_stall: Span::from_millis(5),
            max_foreign: Share::ALL,
            sample: Span::from_millis(100),
            impaired: true,
            control: Span::from_secs(1),
        }
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp { congestion: "cubic".into(), nodelay: false, connect_timeout: Span::from_secs(30), buffer: None }
    }
}

impl MeanLoss {
    fn single() -> f64 {
        1.0
    }
}

impl Default for Quic {
    fn default() -> Self {
        Quic { congestion: "cubic".into() }
    }
}

impl Traffic {
    fn default_interval() -> Span {
        Span::from_millis(10)
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

impl Link {
    fn default_mtu() -> u32 {
        1500
    }

    /// What each direction does, forward first, the values for both filled in.
    pub fn directions(&self) -> [Direction; 2] {
        let both = Direction {
            loss: self.loss.clone(),
            delay: self.delay,
            variation: self.variation.clone(),
            rate: self.rate,
            burst: self.burst,
            queue: self.queue,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            reorder: self.reorder,
            trace: self.trace.clone(),
            steps: self.steps.clone(),
            repeat: self.repeat,
        };
        [&self.forward, &self.backward].map(|own| own.over(&both))
    }
}

impl Direction {
    /// Its changes, in order.
    pub fn steps(&self) -> &[Step] {
        self.steps.as_deref().unwrap_or_default()
    }

    /// Its own values, and those of `other` where it has none. A rate and a trace are each other's.
    pub fn over(&self, other: &Direction) -> Direction {
        let has_capacity = self.rate.is_some() || self.trace.is_some();
        let (rate, trace) =
            if has_capacity { (self.rate, self.trace.clone()) } else { (other.rate, other.trace.clone()) };
        // What is inherited has nothing to say about a trace of its own.
        let burst = if self.trace.is_some() { self.burst } else { self.burst.or(other.burst) };
        Direction {
            loss: self.loss.clone().or_else(|| other.loss.clone()),
            delay: self.delay.or(other.delay),
            variation: self.variation.clone().or_else(|| other.variation.clone()),
            rate,
            burst,
            queue: self.queue.or(other.queue),
            duplicate: self.duplicate.or(other.duplicate),
            corrupt: self.corrupt.or(other.corrupt),
            reorder: self.reorder.or(other.reorder),
            trace,
            steps: self.steps.clone().or_else(|| other.steps.clone()),
            repeat: self.repeat.or(other.repeat),
        }
    }
}

impl TryFrom<toml::Table> for Step {
    type Error = String;

    fn try_from(mut table: toml::Table) -> Result<Step, String> {
        let at = table.remove("at").ok_or("a step needs `at`, its time from the start of sending")?;
        let at = Span::deserialize(at).map_err(|error| format!("at: {}", one_line(&error)))?;
        let values: Direction = serde_path_to_error::deserialize(table).map_err(|error| {
            let (key, message) = (error.path().to_string(), one_line(error.inner()));
            if message.starts_with("unknown key") { message } else { format!("{key}: {message}") }
        })?;
        match (&values.steps, &values.repeat) {
            (None, None) => Ok(Step { at, values }),
            _ => Err("a step has no `steps` and no `repeat` of its own".into()),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JobsValue {
    Count(usize),
    Word(String),
}

impl TryFrom<JobsValue> for Jobs {
    type Error = String;

    fn try_from(value: JobsValue) -> Result<Jobs, String> {
        match value {
            JobsValue::Count(0) => Err("jobs: at least 1, \"all\" or \"auto\"".into()),
            JobsValue::Count(count) => Ok(Jobs::Count(count)),
            JobsValue::Word(word) => word.parse(),
        }
    }
}

impl std::fmt::Display for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Jobs::All => f.write_str("all"),
            Jobs::Auto => f.write_str("auto"),
            Jobs::Count(count) => count.fmt(f),
        }
    }
}

impl std::str::FromStr for Jobs {
    type Err = String;

    fn from_str(word: &str) -> Result<Jobs, String> {
        match (word, word.parse()) {
            ("all", _) => Ok(Jobs::All),
            ("auto", _) => Ok(Jobs::Auto),
            (_, Ok(count)) if count > 0 => Ok(Jobs::Count(count)),
            _ => Err(format!("`{word}`: a number of cells at once, `all` or `auto`")),
        }
    }
}
