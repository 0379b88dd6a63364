//! From what is written to what is meant: defaults filled in, every value within its bounds, every definition compiled.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use ipnet::IpNet;
use weir_dgram::{Options, Socket};
use weir_program::config::{self, Address, Pointed, Step};
use weir_service::Fixed;
use weir_tee::config::document::Listener;
use weir_tee::config::values::{List, Network};
use weir_units::Size;

use super::Config;
use super::document::{Agent, Document, GeoIp};
use crate::api::{self, Groups, named};
use crate::collector::STEERING;
use crate::escape::{escaped, showable};
use crate::flows::{Definition, Known, Mistake};
use crate::names::{self, Geo};
use crate::settings::{Limits, Named, Settings};
use crate::state;
use crate::thresholds::{THRESHOLDS, Threshold};

/// Checks one document.
pub(super) struct Checker<'a> {
    file: Option<&'a config::Document<'a>>,
    serves: bool,
}

impl<'a> Checker<'a> {
    /// `file`: where the document stands; `None`: it was made of flags.
    pub(super) fn new(file: Option<&'a config::Document<'a>>) -> Self {
        Self { file, serves: true }
    }

    /// Nobody is served: who may ask is not looked for.
    pub(super) fn alone(self) -> Self {
        Self { serves: false, ..self }
    }

    /// The validated configuration, or the first mistake.
    pub(super) fn config(&self, document: Document) -> Result<Config> {
        let listeners = listeners(document.listeners);
        let carried = weir_tee::config::forwarding(self.file, document.workers, &listeners, &document.destinations)?;
        let geoip = document.geoip.unwrap_or_default();
        self.geoip(&geoip)?;
        let limits = self.limits(document.limits.unwrap_or_default())?;
        let nets = |list: List<Network>| list.0.into_iter().map(|network| network.0).collect::<Vec<_>>();
        let groups = document
            .groups
            .into_iter()
            .map(|(name, groups)| (name, groups.into_iter().map(|(group, list)| (group, nets(list))).collect()));
        let groups: BTreeMap<String, Groups> = groups.collect();
        self.names("group", groups.keys())?;
        self.names("flow", document.flows.keys())?;
        self.names("threshold", document.thresholds.keys())?;
        for (name, groups) in &groups {
            let path = [Step::Key("group"), Step::Key(name)];
            for group in groups.keys() {
                let path = [path[0], path[1], Step::Key(group)];
                showable(group).map_err(|why| self.error(&path, &format!("group.{name}: {why}")))?;
            }
            names::set(groups).map_err(|error| self.error(&path, &format!("group.{name}: {error}")))?;
        }
        let known = Known { groups: &groups, country: geoip.country.is_some(), asn: geoip.asn.is_some() };
        self.flows(&document.flows, limits, known)?;
        self.thresholds(&document.thresholds, &document.flows)?;
        let allow = document.allow.map(nets);
        if allow.as_ref().is_some_and(Vec::is_empty) {
            return Err(self.error(&[Step::Key("allow")], "allow: no agent at all (leave it out for any)"));
        }
        if let Some(path) = &document.state {
            state::writable(path).map_err(|why| self.error(&[Step::Key("state")], &format!("state: {why}")))?;
        }
        let api = self.api(document.hosts, document.origins, document.read_only)?;
        let agents = self.agents(document.agents)?;
        let protect = document.protect.as_ref().map(|protect| self.protect(protect, &agents)).transpose()?;
        self.heard(allow.as_deref().unwrap_or_default(), protect.as_ref())?;
        let settings = Settings {
            carrier: weir_tee::settings::Settings { steering: Some(STEERING), ..carried },
            http: document.http.map_or(HTTP, |Address(address)| address),
            api,
            state: document.state,
            allow: allow.unwrap_or_default(),
            limits,
            country: geoip.country,
            asn: geoip.asn,
            agents,
            groups,
            flows: document.flows,
            thresholds: document.thresholds,
            protect: protect.map(Arc::new),
        };
        let fixed = Fixed::new(document.admin.map(|Address(address)| address), document.user)
            .map_err(|error| self.error(&[Step::Key("user")], &error))?;
        if fixed.admin.is_some_and(|admin| admin.port() != 0 && admin == settings.http) {
            let message = format!("admin: REST is served at {} (give one of the two another port)", settings.http);
            return Err(self.error(&[Step::Key("admin")], &message));
        }
        Ok(Config { settings, fixed })
    }

    /// Reads the files, to see that they can be: at the start nobody looks at the place in the configuration any more.
    fn geoip(&self, written: &GeoIp) -> Result<()> {
        for (key, path) in [("country", &written.country), ("asn", &written.asn)] {
            let Some(path) = path else { continue };
            let path_to = [Step::Key("geoip"), Step::Key(key)];
            Geo::open(path).map_err(|error| self.error(&path_to, &format!("geoip.{key}: {error}")))?;
        }
        Ok(())
    }

    /// A name that no request can have would be of no use, and nobody would be told.
    fn api(
        &self,
        hosts: Option<List<String>>,
        origins: Option<List<String>>,
        read_only: Option<bool>,
    ) -> Result<api::Settings> {
        let checked = |key, list: Option<List<String>>, is_good: fn(&str) -> bool, example: &str| {
            let texts = list.map(|List(texts)| texts).unwrap_or_default();
            let Some((index, bad)) = texts.iter().enumerate().find(|(_, text)| !is_good(text)) else {
                return Ok(texts);
            };
            let message = format!("{key}: `{}`: write it as {example}", escaped(bad));
            Err(self.error(&[Step::Key(key), Step::Index(index)], &message))
        };
        Ok(api::Settings {
            read_only: read_only.unwrap_or_default(),
            hosts: checked("hosts", hosts, is_host, "noc.example, without scheme and port")?,
            origins: checked("origins", origins, is_origin, "https://noc.example:8443, without a path")?,
        })
    }

    fn limits(&self, written: super::document::Limits) -> Result<Limits> {
        let default = Limits::default();
        let bound = |key: &'static str, written: Option<usize>, default: usize, most: usize| match written {
            None => Ok(default),
            Some(count) if (1..=most).contains(&count) => Ok(count),
            Some(count) => {
                let message = format!("limits: {key}: {count} (it must be 1 to {most})");
                Err(self.error(&[Step::Key("limits"), Step::Key(key)], &message))
            }
        };
        Ok(Limits {
            agents: bound("agents", written.agents, default.agents, 1_000_000)?,
            sources: bound("sources", written.sources, default.sources, 10_000_000)?,
            flows: bound("flows", written.flows, default.flows, 100_000_000)?,
            definitions: bound("definitions", written.definitions, default.definitions, 4096)?,
            streams: bound("streams", written.streams, default.streams, 65_536)?,
            offenders: bound("offenders", written.offenders, default.offenders, 1_000_000)?,
            crossings: bound("crossings", written.crossings, default.crossings, 10_000_000)?,
        })
    }

    fn agents(&self, written: Vec<Agent>) -> Result<BTreeMap<IpAddr, Named>> {
        let mut agents = BTreeMap::new();
        for (index, agent) in written.into_iter().enumerate() {
            let fail = |key: &str, what: &str| {
                let path = [Step::Key("agent"), Step::Index(index), Step::Key(key)];
                self.error(&path, &format!("agent {}: {key}: {what}", agent.address))
            };
            let mut interfaces = BTreeMap::new();
            for (number, name) in agent.interfaces {
                let number = number.parse().map_err(|_| {
                    fail("interfaces", &format!("`{number}`: write an ifIndex, e.g. interfaces = {{ 1 = \"uplink\" }}"))
                })?;
                showable(&name).map_err(|why| fail("interfaces", &why))?;
                interfaces.insert(number, name);
            }
            agent.name.as_deref().map_or(Ok(()), showable).map_err(|why| fail("name", &why))?;
            if agents.contains_key(&agent.address) {
                return Err(fail("address", "it is there twice (remove one of them)"));
            }
            agents.insert(agent.address, Named { name: agent.name, interfaces });
        }
        Ok(agents)
    }

    /// Whether agents are heard whose samples may lead to an action.
    fn heard(&self, allow: &[IpNet], protect: Option<&weir_protect::settings::Settings>) -> Result<()> {
        let agents = protect.iter().flat_map(|protect| &protect.agents).enumerate();
        for (index, agent) in agents.map(|(index, exporter)| (index, exporter.agent)) {
            let is_heard = |net: &IpNet| net.contains(&agent) || agent.contains(net);
            if !allow.is_empty() && !allow.iter().any(is_heard) {
                let message = format!(
                    "protect.agents: {agent}: allow does not name it, and nobody would hear it (add it there, or remove it here)"
                );
                return Err(self.error(&[Step::Key("protect"), Step::Key("agents"), Step::Index(index)], &message));
            }
        }
        Ok(())
    }

    fn protect(
        &self,
        written: &weir_protect::config::document::Document,
        agents: &BTreeMap<IpAddr, Named>,
    ) -> Result<weir_protect::settings::Settings> {
        let interfaces = |wanted: &str| {
            let of = |(&agent, named): (&IpAddr, &Named)| {
                let called = named.interfaces.iter().filter(|(_, name)| *name == wanted);
                called.map(|(&index, _)| weir_protect::model::Point { agent, index }).collect::<Vec<_>>()
            };
            agents.iter().flat_map(of).collect()
        };
        let (file, serves) = (self.file, self.serves);
        let context = weir_protect::config::Context { file, at: "protect", interfaces: &interfaces, serves };
        weir_protect::config::settings(written, &context)
    }

    /// Names under which REST has things.
    fn names<'n>(&self, table: &str, names: impl Iterator<Item = &'n String>) -> Result<()> {
        for name in names {
            named(name).map_err(|why| self.error(&[Step::Key(table), Step::Key(name)], &format!("{table}: {why}")))?;
        }
        Ok(())
    }

    /// Compiles each once, to see that it can be.
    fn flows(&self, flows: &BTreeMap<String, Definition>, limits: Limits, known: Known<'_>) -> Result<()> {
        if flows.len() > limits.definitions {
            let message = format!("{} flow definitions (limits.definitions is {})", flows.len(), limits.definitions);
            return Err(self.error(&[Step::Key("flow")], &message));
        }
        for (name, definition) in flows {
            let fail = |attribute: &str, what: &str| {
                let path = [Step::Key("flow"), Step::Key(name), Step::Key(attribute)];
                self.error(&path, &format!("flow `{name}`: {what}"))
            };
            let beyond = definition.clone().bounded().unwrap_or_default();
            if let Some((attribute, told)) = beyond.first() {
                // What REST takes in its place, nobody would be told of here.
                let told = told.rsplit_once(':').map_or(&**told, |(told, _)| told);
                return Err(fail(attribute, told));
            }
            let checked = definition.clone().check().map_err(|Mistake { attribute, text, syntax }| {
                let line = fail(attribute, &format!("{attribute}: {}", syntax.message));
                Pointed { line: line.to_string(), text, at: syntax.at }
            })?;
            if let Some((need, missing)) = checked.needs().iter().find_map(|need| Some((need, need.missing(known)?))) {
                return Err(fail(need.attribute, &missing));
            }
        }
        Ok(())
    }

    /// A file's thresholds watch metrics, or flows of the file: of those that REST may put one day, nobody knows here.
    fn thresholds(&self, thresholds: &BTreeMap<String, Threshold>, flows: &BTreeMap<String, Definition>) -> Result<()> {
        if thresholds.len() > THRESHOLDS {
            let message = format!("{} thresholds (at most {THRESHOLDS})", thresholds.len());
            return Err(self.error(&[Step::Key("threshold")], &message));
        }
        for (name, threshold) in thresholds {
            let fail = |key: &str, what: &str| {
                let path = [Step::Key("threshold"), Step::Key(name), Step::Key(key)];
                self.error(&path, &format!("threshold `{name}`: {what}"))
            };
            threshold.check().map_err(|refused| fail(refused.key(), &refused.to_string()))?;
            if let Some(missing) = threshold.missing(flows.keys().map(String::as_str)) {
                return Err(fail(
                    "metric",
                    &format!("{missing} (one that REST puts is watched by a threshold that REST puts)"),
                ));
            }
        }
        Ok(())
    }

    fn error(&self, path: &[Step<'_>], message: &str) -> anyhow::Error {
        match self.file {
            Some(file) => file.error(path, message),
            None => anyhow!("{message}"),
        }
    }
}

/// Where nothing says where to listen: the port that the specification has, of all addresses of both families; where the
/// kernel has no IPv6, of IPv4.
fn listeners(written: Vec<Listener>) -> Vec<Listener> {
    let listener = |address| Listener {
        name: Some("sflow".to_owned()),
        address: Address(address),
        last_port: None,
        interface: None,
        join: None,
        receive_buffer: None,
    };
    let written = if written.is_empty() { vec![listener(anywhere())] } else { written };
    written
        .into_iter()
        .map(|listener| Listener { receive_buffer: listener.receive_buffer.or(Some(RECEIVE_BUFFER)), ..listener })
        .collect()
}

/// A name as `Host` has it.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// An origin as `Origin` has it (RFC 6454, section 6.2).
fn is_origin(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, host)| {
        let is_port = |port: &str| port.parse::<u16>().is_ok();
        let name = match host.rsplit_once(':') {
            Some((name, port)) if is_port(port) => name,
            _ => host,
        };
        let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_name = v6.map_or(is_host(name), |address| address.parse::<Ipv6Addr>().is_ok());
        matches!(scheme, "http" | "https") && is_name
    })
}

fn anywhere() -> SocketAddr {
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let ip = match Socket::bind(v6, &Options::default()) {
        Ok(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        Err(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, PORT)
}

/// IANA's sflow.
const PORT: u16 = 6343;

/// sFlow-RT's port, for this machine alone.
const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8008);

/// 16 MiB: some 30,000 datagrams as the kernel accounts them, 100 ms of the most that a worker analyses.
const RECEIVE_BUFFER: Size = Size { bytes: 16 << 20 };
