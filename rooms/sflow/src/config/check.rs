//! What fits together, and what has to be there: definitions compiled, files read once.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use axum::http::Uri;
use ipnet::IpNet;
use weir_dgram::{Options, Socket};
use weir_program::config::{Address, Document, Many, Pointed, Step};
use weir_protect::model::Mode;
use weir_tee::config::document::Listener;
use weir_tee::config::values::Network;
use weir_units::Size;

use super::{Agent, Config, GeoIp, Named, Protect, Settings};
use crate::api::{Groups, named};
use crate::collector::STEERING;
use crate::escape::{escaped, showable};
use crate::flows::{Definition, Known, Mistake};
use crate::names::{self, Geo};
use crate::state;
use crate::thresholds::{THRESHOLDS, Threshold};

/// The validated configuration, or the first mistake.
pub(super) fn settings(mut config: Config, document: &Document<'_>, serves: bool) -> Result<Settings> {
    let check = Checker { document, serves };
    let (workers, listeners) = (config.workers.map(usize::from), listeners(config.listener));
    let carried = weir_tee::config::forwarding(Some(document), workers, &listeners, &config.destination)?;
    config.workers = u16::try_from(carried.workers).ok();
    config.listener = carried.listeners.iter().map(Into::into).collect();
    config.destination.clone_from(&carried.destinations);
    check.geoip(&config.geoip)?;
    let groups = check.groups(&config)?;
    let known = Known { groups: &groups, country: config.geoip.country.is_some(), asn: config.geoip.asn.is_some() };
    check.flows(&config, known)?;
    check.thresholds(&config.threshold, &config.flow)?;
    let allow = config.allow.as_ref().map(nets);
    if allow.as_ref().is_some_and(Vec::is_empty) {
        return Err(check.error(&[Step::Key("allow")], "allow: no agent at all (leave it out for any)"));
    }
    if let Some(path) = &config.state {
        state::writable(path).map_err(|why| check.error(&[Step::Key("state")], &format!("state: {why}")))?;
    }
    check.each("hosts", &config.hosts, is_host, "noc.example, without scheme and port")?;
    check.each("origins", &config.origins, is_origin, "https://noc.example:8443, without a path")?;
    let agents = check.agents(&config.agent)?;
    let protect = config.protect.as_ref().map(|protect| check.protect(protect, &agents)).transpose()?;
    check.heard(allow.as_deref().unwrap_or_default(), protect.as_ref())?;
    if config.admin.is_some_and(|Address(admin)| admin.port() != 0 && admin == config.http.0) {
        let message = format!("admin: REST is served at {} (give one of the two another port)", config.http.0);
        return Err(check.error(&[Step::Key("admin")], &message));
    }
    if let (Some(state), Some(protect)) = (&config.state, &protect)
        && protect.journal.as_ref() == Some(state)
    {
        return Err(check.error(&[Step::Key("state")], "state: the journal of [protect] is there (name another file)"));
    }
    let warnings = protect.as_ref().map(|protect| check.warnings(config.state.is_some(), protect)).unwrap_or_default();
    Ok(Settings {
        carrier: weir_forward::settings::Settings { steering: Some(STEERING), ..carried },
        config,
        allow: allow.unwrap_or_default(),
        agents,
        groups,
        protect: protect.map(Arc::new),
        warnings,
    })
}

struct Checker<'a> {
    document: &'a Document<'a>,
    /// Whether REST is served: only then it is looked for who may ask.
    serves: bool,
}

impl Checker<'_> {
    /// Reads the files, to see that they can be: at the start nobody looks at the place in the configuration any more.
    fn geoip(&self, written: &GeoIp) -> Result<()> {
        for (key, path) in [("country", &written.country), ("asn", &written.asn)] {
            let Some(path) = path else { continue };
            let path_to = [Step::Key("geoip"), Step::Key(key)];
            Geo::open(path).map_err(|error| self.error(&path_to, &format!("geoip.{key}: {error}")))?;
        }
        Ok(())
    }

    /// A name that no request can have would be of no use, and nobody would notice.
    fn each(&self, key: &str, texts: &[String], is_good: fn(&str) -> bool, example: &str) -> Result<()> {
        let Some((index, bad)) = texts.iter().enumerate().find(|(_, text)| !is_good(text)) else { return Ok(()) };
        let message = format!("{key}: `{}`: write it as {example}", escaped(bad));
        Err(self.error(&[Step::Key(key), Step::Index(index)], &message))
    }

    fn groups(&self, config: &Config) -> Result<BTreeMap<String, Groups>> {
        let groups = config.group.iter().map(|(name, groups)| {
            (name.clone(), groups.iter().map(|(group, list)| (group.clone(), nets(list))).collect())
        });
        let groups: BTreeMap<String, Groups> = groups.collect();
        self.names("group", groups.keys())?;
        for (name, groups) in &groups {
            let path = [Step::Key("group"), Step::Key(name)];
            for group in groups.keys() {
                let path = [path[0], path[1], Step::Key(group)];
                showable(group).map_err(|why| self.error(&path, &format!("group.{name}: {why}")))?;
            }
            names::Groups::new(groups).map_err(|error| self.error(&path, &format!("group.{name}: {error}")))?;
        }
        Ok(groups)
    }

    fn agents(&self, written: &[Agent]) -> Result<BTreeMap<IpAddr, Named>> {
        let mut agents = BTreeMap::new();
        for (index, agent) in written.iter().enumerate() {
            let fail = |key: &str, what: &str| {
                let path = [Step::Key("agent"), Step::Index(index), Step::Key(key)];
                self.error(&path, &format!("agent {}: {key}: {what}", agent.address))
            };
            let mut interfaces = BTreeMap::new();
            for (number, name) in &agent.interfaces {
                let number = number.parse().map_err(|_| {
                    fail("interfaces", &format!("`{number}`: write an ifIndex, e.g. interfaces = {{ 1 = \"uplink\" }}"))
                })?;
                showable(name).map_err(|why| fail("interfaces", &why))?;
                interfaces.insert(number, name.clone());
            }
            agent.name.as_deref().map_or(Ok(()), showable).map_err(|why| fail("name", &why))?;
            if agents.contains_key(&agent.address) {
                return Err(fail("address", "it is there twice (remove one of them)"));
            }
            agents.insert(agent.address, Named { name: agent.name.clone(), interfaces });
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

    fn protect(&self, written: &Protect, agents: &BTreeMap<IpAddr, Named>) -> Result<weir_protect::settings::Settings> {
        let interfaces = |wanted: &str| {
            let of = |(&agent, named): (&IpAddr, &Named)| {
                let called = named.interfaces.iter().filter(|(_, name)| *name == wanted);
                called.map(|(&index, _)| weir_protect::model::Point { agent, index }).collect::<Vec<_>>()
            };
            agents.iter().flat_map(of).collect()
        };
        let (file, serves) = (Some(self.document), self.serves);
        let context = weir_protect::config::Context { file, at: "protect", interfaces: &interfaces, serves };
        weir_protect::config::settings(written, &context)
    }

    /// What can be meant, but seldom is.
    fn warnings(&self, has_state: bool, protect: &weir_protect::settings::Settings) -> Vec<String> {
        let mut warnings = protect.warnings.clone();
        if !has_state && protect.groups.values().any(|group| group.mode == Mode::Automatic) {
            let message = format!(
                "protect: without `state` a restart knows no agent: for {} every attack waits for a person (set state = \"FILE\")",
                protect.document.settle
            );
            warnings.push(self.error(&[Step::Key("protect")], &message).to_string());
        }
        warnings
    }

    /// Names under which REST has things.
    fn names<'n>(&self, table: &str, names: impl Iterator<Item = &'n String>) -> Result<()> {
        for name in names {
            named(name).map_err(|why| self.error(&[Step::Key(table), Step::Key(name)], &format!("{table}: {why}")))?;
        }
        Ok(())
    }

    /// Compiles each once, to see that it can be.
    fn flows(&self, config: &Config, known: Known<'_>) -> Result<()> {
        let (flows, most) = (&config.flow, config.limits.definitions);
        self.names("flow", flows.keys())?;
        if flows.len() > most {
            let message = format!("{} flow definitions (limits.definitions is {most})", flows.len());
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
            if let Some((attribute, missing)) = checked.missing(known).first() {
                return Err(fail(attribute, missing));
            }
        }
        Ok(())
    }

    /// A file's thresholds watch metrics, or flows of the file: of those that REST may put one day, nobody knows here.
    fn thresholds(&self, thresholds: &BTreeMap<String, Threshold>, flows: &BTreeMap<String, Definition>) -> Result<()> {
        self.names("threshold", thresholds.keys())?;
        if thresholds.len() > THRESHOLDS {
            let message = format!("{} thresholds (at most {THRESHOLDS})", thresholds.len());
            return Err(self.error(&[Step::Key("threshold")], &message));
        }
        for (name, threshold) in thresholds {
            let fail = |key: &str, what: &str| {
                let path = [Step::Key("threshold"), Step::Key(name), Step::Key(key)];
                self.error(&path, &format!("threshold `{name}`: {what}"))
            };
            threshold.check().map_err(|refused| fail(refused.key, &refused.to_string()))?;
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
        self.document.error(path, message)
    }
}

fn nets(list: &Many<Network>) -> Vec<IpNet> {
    list.iter().map(|network| network.0).collect()
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
    text.parse::<Uri>().is_ok_and(|uri| match (uri.scheme_str(), uri.authority()) {
        (Some(scheme @ ("http" | "https")), Some(host)) => {
            format!("{scheme}://{host}") == text && !host.as_str().contains('@')
        }
        _ => false,
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

/// 16 MiB: some 30,000 datagrams as the kernel accounts them, 100 ms of the most that a worker analyses.
const RECEIVE_BUFFER: Size = Size { bytes: 16 << 20 };
