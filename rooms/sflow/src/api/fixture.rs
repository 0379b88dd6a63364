//! A small analyser in memory, whose answers are known, and a client that knows little HTTP.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use weir_service::http::{Server, Serving};
use weir_wire::sflow::DataSource;

use super::{
    ActiveFlow, ActiveFlows, Agent, Agents, Analysis, CompletedFlow, FlowValue, Interface, Interval, Load, Measure,
    STALE, Samples, Settings, TopKey, define, server,
};
use crate::config;
use crate::events::{Dropped, Event};
use crate::flows::{AggMode, End, Ends, keys};
use crate::shard::{Life, Names, Shards};
use crate::thresholds::Fact;

/// Three agents, a few metrics, one flow definition.
pub(crate) struct Small {
    /// Without agents: what is defined, and what happened.
    pub(crate) shards: Arc<Shards>,
    /// Agents beside the three, each with a value of `ifinoctets`.
    pub(crate) more: u32,
    /// Bytes that keys of active flows have besides.
    pub(crate) wide: usize,
    /// Calls of `active_flows`, and whether they and those of `measures` may go on.
    pub(crate) ranked: AtomicUsize,
    pub(crate) gate: Mutex<()>,
    /// Calls of `measures`.
    pub(crate) looked: AtomicUsize,
    /// Name of interface 4.
    pub(crate) uplink: &'static str,
}

/// As hostile as names from others can be.
pub(crate) const HOSTILE: &str = "up\"link\\\n\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{2067}";

const TABLE: &[(&str, (u32, u32), &str, Fact<'static>)] = &[
    ("10.0.0.1", (0, 1), "ifname", Fact::Text(Cow::Borrowed("swp1"))),
    ("10.0.0.1", (0, 4), "ifname", Fact::Text(Cow::Borrowed(""))),
    ("10.0.0.1", (0, 1), "ifinoctets", Fact::Number(1000.0)),
    ("10.0.0.1", (0, 4), "ifinoctets", Fact::Number(125_000_000.5)),
    ("10.0.0.2", (0, 9), "ifinoctets", Fact::Number(77.0)),
    ("10.0.0.1", (0, 1), "ifspeed", Fact::Number(1e9)),
    ("10.0.0.1", (0, 4), "ifspeed", Fact::Number(1e10)),
    ("10.0.0.1", (0, 1), "ifinutilization", Fact::Number(0.0008)),
    ("10.0.0.1", (0, 4), "ifinutilization", Fact::Number(10.0)),
    ("10.0.0.1", (2, 1), "load_one", Fact::Number(0.5)),
    ("2001:db8::3", (2, 1), "load_one", Fact::Number(1.5)),
    ("2001:db8::3", (2, 1), "mem_total", Fact::Number(16e9)),
    ("2001:db8::3", (2, 1), "os_name", Fact::Text(Cow::Borrowed("linux"))),
];

/// The one whose values are too old.
const SILENT: &str = "10.0.0.2";

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl Default for Small {
    fn default() -> Self {
        let settings = config::Settings::read("here", "workers = 1").unwrap();
        let shards = Shards::new(&settings, Names::read(&settings).unwrap());
        let small = Self {
            shards: Arc::new(shards),
            more: 0,
            wide: 0,
            ranked: AtomicUsize::new(0),
            gate: Mutex::default(),
            looked: AtomicUsize::new(0),
            uplink: "swp4",
        };
        let tcp = json!({"keys": "ipsource,ipdestination", "value": "bytes"});
        define(&small.shards, "tcp", tcp, Life::Kept).unwrap();
        let busy = json!({"metric": "ifinutilization", "value": 80, "timeout": 10});
        small.shards.define_threshold("busy", serde_json::from_value(busy).unwrap()).unwrap();
        let office = BTreeMap::from([("office".into(), vec!["10.1.0.0/16".parse().unwrap()])]);
        small.shards.define_groups("sites", office).unwrap();
        for second in 0..6 {
            small.cross("busy", second);
        }
        let who = Ends { source: Some(End::Ip(address("10.9.0.1"))), destination: Some(End::Ip(address("10.0.0.5"))) };
        let drop = Dropped { who, why: Some("ttl_exceeded".into()), place: Some("swp1".into()) };
        small.shards.events().push(|id| Event {
            metric: "dropped".into(),
            flow_key: Some("10.9.0.1,10.0.0.5".into()),
            drop: Some(drop),
            ..event(id, "drops", 6)
        });
        small.complete("web");
        small.complete("web");
        small
    }
}

fn event(id: u64, threshold: &str, second: u64) -> Event {
    Event {
        id,
        timestamp: 1_700_000_000_000 + second * 1000,
        threshold_id: threshold.into(),
        agent: address("10.0.0.1"),
        data_source: DataSource { class: 0, index: 4 },
        metric: "ifinutilization".into(),
        value: 91.25,
        threshold: 80.0,
        flow_key: None,
        drop: None,
    }
}

impl Small {
    pub(crate) fn cross(&self, threshold: &str, second: u64) -> u64 {
        self.shards.events().push(|id| event(id, threshold, second))
    }

    pub(crate) fn flows(&self) -> Vec<String> {
        self.shards.flow_definitions().into_keys().collect()
    }

    pub(crate) fn complete(&self, name: &str) -> u64 {
        self.shards.completed().push(|id| CompletedFlow {
            id,
            name: name.into(),
            agent: address("10.0.0.1"),
            source: DataSource { class: 0, index: 4 },
            keys: "10.9.0.1,443".into(),
            value: 4e6,
            start: 1_700_000_000_000,
            end: 1_700_000_003_000,
        })
    }
}

fn estimate(value: f64) -> Interval {
    Interval { low: Some(value * 0.75), high: Some(value * 1.25), samples: 61.0, contradicted: false }
}

impl Analysis for Small {
    fn agents(&self) -> Vec<IpAddr> {
        let more = (0..self.more).map(|index| IpAddr::from((0x0b00_0000 + index).to_be_bytes()));
        let known = ["10.0.0.1", SILENT].map(address);
        known.into_iter().chain(more).chain([address("2001:db8::3")]).collect()
    }

    fn agent(&self, agent: IpAddr) -> Option<Agent> {
        let is_more = matches!(agent, IpAddr::V4(address) if address.octets()[0] == 11);
        let is_known = is_more || ["10.0.0.1", SILENT, "2001:db8::3"].map(address).contains(&agent);
        let sources = is_known.then(|| vec![address("10.0.0.254")])?;
        let unknown = Agent::unknown();
        Some(Agent {
            first_seen: Duration::from_secs(3600),
            last_seen: Duration::from_millis(if agent == address(SILENT) { 300_000 } else { 250 }),
            uptime: Duration::from_secs(86_400),
            host: (agent == address("10.0.0.1")).then(|| "leaf1".to_owned()),
            stale: agent == address(SILENT),
            streams: 1,
            sources,
            datagrams_received: 441,
            datagrams_lost: 3,
            notification: Samples { samples: 40, drops: Some(50), ..unknown.notification },
            ..unknown
        })
    }

    fn agent_named(&self, name: &str) -> Option<IpAddr> {
        (name == "leaf1").then(|| address("10.0.0.1"))
    }

    fn metrics(&self) -> Vec<(String, Duration)> {
        let mut names: Vec<&str> = TABLE.iter().map(|(_, _, name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| (name.to_owned(), Duration::from_millis(2033))).collect()
    }

    fn measures(&self, agent: IpAddr, metric: &str, visit: &mut dyn FnMut(Measure<'_>)) {
        self.looked.fetch_add(1, Ordering::Relaxed);
        drop(self.gate.lock().unwrap());
        let is_more = matches!(agent, IpAddr::V4(address) if address.octets()[0] == 11);
        let more = (is_more && metric == "ifinoctets").then_some(((0, 1), Fact::Number(1.0)));
        let rows = TABLE.iter().filter(|(of, _, name, _)| address(of) == agent && *name == metric);
        for ((class, index), value) in rows.map(|(_, source, _, value)| (*source, value.clone())).chain(more) {
            let ifname = if index == 4 { self.uplink } else { "swp1" };
            let value = if value == Fact::Text("".into()) { Fact::Text(self.uplink.into()) } else { value };
            visit(Measure {
                source: DataSource { class, index },
                value: if agent == address(SILENT) { Err(STALE) } else { Ok(value) },
                age: Duration::from_millis(if agent == address(SILENT) { 300_000 } else { 2033 + u64::from(index) }),
                interval: metric.starts_with("ifin").then_some(Duration::from_secs(20)),
                host: (agent == address("10.0.0.1")).then_some("leaf1"),
                ifname: (class == 0).then_some(ifname),
            });
        }
    }

    fn interfaces(&self, agent: IpAddr, visit: &mut dyn FnMut(Interface<'_>)) {
        let of = |metric: &str, source: DataSource| {
            let mut found = None;
            self.measures(agent, metric, &mut |measure| {
                if let Ok(Fact::Number(number)) = measure.value
                    && measure.source == source
                {
                    found = Some(number);
                }
            });
            found
        };
        let mut known = Vec::new();
        self.measures(agent, "ifinoctets", &mut |measure| known.push((measure.source, measure.age)));
        for (source, age) in known {
            let load = Load {
                octets_in: of("ifinoctets", source),
                utilization_in: of("ifinutilization", source),
                speed: of("ifspeed", source),
                ..Load::default()
            };
            visit(Interface { source, name: Some(if source.index == 4 { self.uplink } else { "swp1" }), age, load });
        }
    }

    fn key_ages(&self) -> Vec<Option<f64>> {
        keys().map(|(name, _)| (name == "ipsource").then_some(0.234)).collect()
    }

    fn active_flows(&self, name: &str, agents: &Agents, query: &ActiveFlows) -> Option<Vec<ActiveFlow>> {
        self.ranked.fetch_add(1, Ordering::Relaxed);
        drop(self.gate.lock().unwrap());
        let (checked, wide) = (self.shards.flow_definition(name)?, "x".repeat(self.wide));
        let fs = &checked.definition().fs;
        let flow = |sources: u64, from: &str, value: f64| ActiveFlow {
            agent: address("10.0.0.1"),
            source: DataSource { class: 0, index: 4 },
            sources,
            key: format!("{from}{fs}10.0.0.5{wide}"),
            value: if query.mode == Some(AggMode::Sum) { value * sources as f64 } else { value },
            age: Duration::from_millis(40),
            stale: false,
            values: Vec::new(),
            estimate: estimate(value),
        };
        let flows = [flow(2, "10.9.0.1", 5e6), flow(1, "10.9.0.\"2\"", 4e6), flow(1, "10.9.0.3", 1e3)];
        let wanted = flows.into_iter().filter(|flow| flow.value >= query.least && agents.contains(flow.agent));
        Some(wanted.take(query.most).collect())
    }

    fn flow_values(&self, name: &str, agents: &Agents, source: Option<DataSource>) -> Option<Vec<FlowValue>> {
        self.shards.flow_definition(name)?;
        let value = |index: u32, value: f64| FlowValue {
            agent: address("10.0.0.1"),
            source: DataSource { class: 0, index },
            age: Duration::from_millis(40),
            value,
            estimate: estimate(value),
            stale: false,
            top: vec![TopKey {
                key: "10.9.0.1,10.0.0.5".into(),
                value: value / 2.0,
                age: Duration::from_millis(40),
                estimate: Interval { low: None, high: None, samples: 2.0, contradicted: false },
            }],
        };
        let values = [value(1, 1e6), value(4, 9e6)];
        let wanted =
            |value: &FlowValue| agents.contains(value.agent) && source.is_none_or(|source| source == value.source);
        Some(values.into_iter().filter(wanted).collect())
    }
}

pub(crate) fn serve_with(small: Small, settings: Settings) -> (Arc<Small>, Serving) {
    let small = Arc::new(small);
    let server = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (small.clone(), serve_at(server, small, settings))
}

pub(crate) fn serve_at(server: Server, small: Arc<Small>, settings: Settings) -> Serving {
    server::serve(server, small.shards.clone(), small, settings, None).unwrap()
}

pub(crate) fn serve() -> (Arc<Small>, Serving) {
    serve_with(Small::default(), Settings::default())
}

pub(crate) fn get(serving: &Serving, target: &str) -> Reply {
    ask(serving, "GET", target, "", "").reply()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

/// A request whose answer is being read.
pub(crate) struct Asked(pub(crate) BufReader<TcpStream>);

pub(crate) fn ask(serving: &Serving, method: &str, target: &str, headers: &str, body: &str) -> Asked {
    ask_at(serving.local_addr(), method, target, headers, body)
}

pub(crate) fn ask_at(address: SocketAddr, method: &str, target: &str, headers: &str, body: &str) -> Asked {
    ask_on(TcpStream::connect(address).unwrap(), method, target, headers, body)
}

pub(crate) fn ask_on(mut stream: TcpStream, method: &str, target: &str, headers: &str, body: &str) -> Asked {
    let host = if headers.starts_with("Host:") { "" } else { "Host: localhost\r\n" };
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    Asked(BufReader::new(stream))
}

impl Asked {
    /// The head of the answer, in lower case.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).unwrap(), 0, "ended in {head:?}");
        }
        head.to_lowercase()
    }

    /// One chunk of a body that is sent in chunks; empty at the end.
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).unwrap_or(0) + 2];
        self.0.read_exact(&mut chunk).unwrap();
        chunk.truncate(chunk.len() - 2);
        chunk
    }

    pub(crate) fn reply(mut self) -> Reply {
        let head = self.head();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut body = Vec::new();
        if head.contains("transfer-encoding: chunked") {
            loop {
                let chunk = self.chunk();
                if chunk.is_empty() {
                    break;
                }
                body.extend(chunk);
            }
        } else {
            self.0.read_to_end(&mut body).unwrap();
        }
        Reply { status, head, body: String::from_utf8(body).unwrap() }
    }
}
