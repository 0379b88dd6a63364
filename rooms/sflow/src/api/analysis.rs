//! What the API asks of the analyser, and the shapes in which it answers.
//!
//! Addresses and names come one agent at a time, so that an answer about 50,000 agents is written while it is read, and
//! is never in memory as a whole.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use weir_wire::sflow::DataSource;

use crate::agents::Ledger;
use crate::events::short;
use crate::flows::AggMode;
use crate::thresholds::Fact;

/// What the API reads of the analyser's agents and flows. Each method answers from memory, and waits only for short locks.
pub trait Analysis: Send + Sync + 'static {
    /// Addresses of all agents, in ascending order.
    fn agents(&self) -> Vec<IpAddr>;

    /// What is known of an agent.
    fn agent(&self, address: IpAddr) -> Option<Agent>;

    /// The agent of a host name.
    fn agent_named(&self, name: &str) -> Option<IpAddr>;

    /// Metrics that have values now, in order of names, each with the age of its newest value.
    fn metrics(&self) -> Vec<(String, Duration)>;

    /// Calls `visit` for the value of a metric at each data source of an agent, in order of sources; where there is no value, for the
    /// reason. The agent may be locked meanwhile: `visit` must call no other method.
    fn measures(&self, agent: IpAddr, metric: &str, visit: &mut dyn FnMut(Measure<'_>));

    /// Calls `visit` for each interface of an agent that counts octets, in order of ifIndex. `visit` must call no other method.
    fn interfaces(&self, agent: IpAddr, visit: &mut dyn FnMut(Interface<'_>));

    /// Seconds since a sample had each key of flows, in the order of [`keys`](crate::flows::keys); `None`: none had it.
    fn key_ages(&self) -> Vec<Option<f64>>;

    /// The largest flows of a definition, largest first; `None` if there is no such definition.
    fn active_flows(&self, name: &str, agents: &Agents, query: &ActiveFlows) -> Option<Vec<ActiveFlow>>;

    /// The value of a flow definition at each data source, or at one; `None` if there is no such definition.
    fn flow_values(&self, name: &str, agents: &Agents, source: Option<DataSource>) -> Option<Vec<FlowValue>>;
}

pub use crate::names::Networks as Groups;

/// Which agents are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agents {
    /// All of them.
    All,
    /// These, in ascending order, each once.
    These(Vec<IpAddr>),
}

impl Agents {
    /// Whether one is asked about.
    pub fn contains(&self, agent: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::These(agents) => agents.binary_search(&agent).is_ok(),
        }
    }
}

/// An agent; names are sFlow-RT's as far as it has them. Times are ages in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Agent {
    #[serde(rename = "firstSeen", serialize_with = "milliseconds")]
    pub first_seen: Duration,
    #[serde(rename = "lastSeen", serialize_with = "milliseconds")]
    pub last_seen: Duration,
    /// As the agent tells it, in milliseconds; of several sub-agents, the longest.
    #[serde(serialize_with = "milliseconds")]
    pub uptime: Duration,
    /// Its name in the configuration or its host record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Nothing came for three of its polling intervals.
    pub stale: bool,
    /// Streams of datagrams behind the address: sub-agents, or several devices that share it.
    pub streams: u64,
    /// Data sources that several streams of one sub-agent report: their metrics have no values.
    #[serde(rename = "sharedDataSources")]
    pub shared: u64,
    /// UDP sources, few of them.
    #[serde(rename = "sFlowDatagramSource")]
    pub sources: Vec<IpAddr>,
    #[serde(rename = "sFlowDatagramsReceived")]
    pub datagrams_received: u64,
    #[serde(rename = "sFlowDatagramsLost")]
    pub datagrams_lost: u64,
    #[serde(rename = "sFlowDatagramsOutOfOrder")]
    pub datagrams_out_of_order: u64,
    #[serde(rename = "sFlowDatagramsDuplicates")]
    pub datagrams_duplicates: u64,
    /// Times that it began anew, by its uptime.
    pub restarts: u64,
    /// One packet out of so many is sampled, as the agent says, at the data source of whose samples most are missing.
    #[serde(rename = "samplingRate", skip_serializing_if = "Option::is_none")]
    pub sampling_rate: Option<u32>,
    /// Packets that a sample stands for there: more where samples or datagrams are lost.
    #[serde(rename = "effectiveSamplingRate", skip_serializing_if = "Option::is_none")]
    pub effective_sampling_rate: Option<f64>,
    #[serde(flatten)]
    pub flow: Samples,
    #[serde(flatten)]
    pub counter: Samples,
    /// Packets that devices report as dropped.
    #[serde(flatten)]
    pub notification: Samples,
}

impl Agent {
    /// One of which nothing is known yet.
    pub fn unknown() -> Self {
        let of = |kind, drops| Samples { kind, drops, ..Samples::default() };
        let (flow, counter) = (of("Flow", Some(0)), of("Counter", None));
        Self { flow, counter, notification: of("Notification", Some(0)), ..Self::default() }
    }
}

/// What an agent sent of one kind of samples.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Samples {
    /// As keys of the answer have it: `Flow`.
    pub kind: &'static str,
    pub sources: u64,
    pub samples: u64,
    pub lost: u64,
    pub duplicates: u64,
    pub out_of_order: u64,
    /// Samples that the agent itself could not take or send; `None`: this kind does not say.
    pub drops: Option<u64>,
}

impl Samples {
    /// Adds those of a data source, if there are any.
    pub(crate) fn add(&mut self, ledger: &Ledger, drops: u64) {
        if ledger.received > 0 {
            self.sources += 1;
            self.samples += ledger.received;
            self.lost += ledger.lost;
            self.duplicates += ledger.duplicates;
            self.out_of_order += ledger.late;
            *self.drops.get_or_insert_default() += drops;
        }
    }
}

impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = [
            ("Datasources", Some(self.sources)),
            ("Samples", Some(self.samples)),
            ("LostSamples", Some(self.lost)),
            ("DuplicateSamples", Some(self.duplicates)),
            ("OutOfOrderSamples", Some(self.out_of_order)),
            ("Drops", self.drops),
        ];
        let known = counts.into_iter().filter_map(|(name, count)| Some((format!("sFlow{}{name}", self.kind), count?)));
        serializer.collect_map(known)
    }
}

/// A metric's value at a data source.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure<'a> {
    /// Where it is measured.
    pub source: DataSource,
    /// What it is, or the reason why nobody knows, as answers name it.
    pub value: Result<Fact<'a>, &'static str>,
    /// Since it was measured; 0 if it was not.
    pub age: Duration,
    /// The time a rate was taken over; none of a gauge or a text.
    pub interval: Option<Duration>,
    /// The agent's name, from others: any characters.
    pub host: Option<&'a str>,
    /// The interface's name, likewise.
    pub ifname: Option<&'a str>,
}

/// An interface of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interface<'a> {
    /// Which.
    #[serde(rename = "dataSource", serialize_with = "short")]
    pub source: DataSource,
    /// Its name, from others: any characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// Since its counters came.
    #[serde(rename = "lastUpdate", serialize_with = "milliseconds")]
    pub age: Duration,
    /// What it carries.
    #[serde(flatten)]
    pub load: Load,
}

/// What an interface carries; what is stale or unknown is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Bytes a second that come in.
    #[serde(rename = "ifinoctets", skip_serializing_if = "Option::is_none")]
    pub octets_in: Option<f64>,
    /// Bytes a second that go out.
    #[serde(rename = "ifoutoctets", skip_serializing_if = "Option::is_none")]
    pub octets_out: Option<f64>,
    /// Per cent of its speed.
    #[serde(rename = "ifinutilization", skip_serializing_if = "Option::is_none")]
    pub utilization_in: Option<f64>,
    /// Per cent of its speed.
    #[serde(rename = "ifoututilization", skip_serializing_if = "Option::is_none")]
    pub utilization_out: Option<f64>,
    /// Packets a second that it dropped though nothing was wrong with them, in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discards: Option<f64>,
    /// Packets a second that were damaged, in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<f64>,
    /// Bits a second.
    #[serde(rename = "ifspeed", skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
}

impl Load {
    /// The greater utilisation of the two directions, per cent.
    pub fn utilization(&self) -> Option<f64> {
        [self.utilization_in, self.utilization_out].into_iter().flatten().reduce(f64::max)
    }
}

/// What is known of two together.
pub(crate) fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.map_or(b, |a| Some(a + b.unwrap_or(0.0)))
}

/// Why there is no value: it is older than its polling permits.
pub const STALE: &str = "stale";

/// Which of the active flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ActiveFlows {
    /// At most so many.
    pub most: usize,
    /// At least this value.
    pub least: f64,
    /// How reports of one flow by several data sources are joined; `None`: as the definition says.
    pub mode: Option<AggMode>,
}

/// A flow now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ActiveFlow {
    /// Who saw most of it.
    pub agent: IpAddr,
    /// Where.
    #[serde(rename = "dataSource", serialize_with = "short")]
    pub source: DataSource,
    /// Data sources that saw it.
    #[serde(rename = "flowN")]
    pub sources: u64,
    /// Its keys.
    pub key: String,
    /// Its rate.
    pub value: f64,
    /// Since the last sample of it.
    #[serde(rename = "lastUpdate", serialize_with = "milliseconds")]
    pub age: Duration,
    /// The agent is silent: what the value sinks to is not what it is.
    pub stale: bool,
    /// The definition's further values, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// The 95 % interval of the rate, and the samples it rests on.
    #[serde(flatten)]
    pub estimate: Interval,
}

/// How well an estimate is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end of the 95 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Samples within the smoothing time.
    pub samples: f64,
    /// The counters of the interface say otherwise: how wrong it is, nobody knows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contradicted: bool,
}

/// A flow definition's value at a data source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowValue {
    /// Whose.
    pub agent: IpAddr,
    /// Where.
    #[serde(rename = "dataSource", serialize_with = "short")]
    pub source: DataSource,
    /// Since the last sample.
    #[serde(rename = "lastUpdate", serialize_with = "milliseconds")]
    pub age: Duration,
    /// The rate of all its flows.
    #[serde(rename = "metricValue")]
    pub value: f64,
    /// The interval of that.
    #[serde(flatten)]
    pub estimate: Interval,
    /// Nothing came for `activeTimeout`, or the agent is silent.
    pub stale: bool,
    /// The largest, largest first.
    #[serde(rename = "topKeys")]
    pub top: Vec<TopKey>,
}

/// One of the largest flows of a data source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopKey {
    /// Its keys.
    pub key: String,
    /// Its rate.
    pub value: f64,
    /// Since the last sample.
    #[serde(rename = "lastUpdate", serialize_with = "milliseconds")]
    pub age: Duration,
    /// The interval of the rate.
    #[serde(flatten)]
    pub estimate: Interval,
}

/// A flow that has ended, or begun where its definition says `flowStart`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletedFlow {
    /// Grows by one a flow, from 1.
    #[serde(rename = "flowID")]
    pub id: u64,
    /// Its definition.
    pub name: String,
    /// Who saw it.
    pub agent: IpAddr,
    /// Where.
    #[serde(rename = "dataSource", serialize_with = "short")]
    pub source: DataSource,
    /// Its keys.
    #[serde(rename = "flowKeys")]
    pub keys: String,
    /// Its total.
    pub value: f64,
    /// First sample, in milliseconds since 1970.
    pub start: u64,
    /// Last sample.
    pub end: u64,
}

pub(super) fn milliseconds<S: Serializer>(age: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(age.as_millis().try_into().unwrap_or(u64::MAX))
}
