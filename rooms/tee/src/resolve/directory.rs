//! Where a name is looked up: the hosts file, then name servers, as resolv.conf(5) says.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};
use tokio::time::timeout;

use super::ResolverOptions;
use super::record::{Answer, Family, Found};

/// The files of this machine, read again when they change.
pub(super) struct System {
    nameservers: Vec<SocketAddr>,
    resolv_conf: PathBuf,
    hosts: PathBuf,
    timeout: Duration,
    read: Mutex<(Stamp, Arc<Directory>)>,
}

/// The files as they were read once.
pub(super) struct Directory {
    hosts: Hosts,
    search: Vec<Name>,
    ndots: usize,
    /// Or why there is none.
    resolver: Result<TokioResolver, String>,
    /// Why 127.0.0.1 is asked, though nobody said so.
    assumed: Option<String>,
}

/// When both files were changed last, and their lengths.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl System {
    pub(super) fn new(options: &ResolverOptions) -> Self {
        let ResolverOptions { nameservers, resolv_conf, hosts, timeout, .. } = options.clone();
        let stamp = stamp(&resolv_conf, &hosts);
        let directory = Directory::read(&nameservers, &resolv_conf, &hosts, timeout);
        Self { nameservers, resolv_conf, hosts, timeout, read: Mutex::new((stamp, Arc::new(directory))) }
    }

    /// The files as they are now.
    pub(super) fn directory(&self) -> Arc<Directory> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.resolv_conf, &self.hosts);
        if read.0 != stamp {
            let directory = Directory::read(&self.nameservers, &self.resolv_conf, &self.hosts, self.timeout);
            *read = (stamp, Arc::new(directory));
        }
        Arc::clone(&read.1)
    }
}

impl Directory {
    fn read(nameservers: &[SocketAddr], resolv_conf: &Path, hosts_file: &Path, timeout: Duration) -> Self {
        let mut hosts = Hosts::default();
        if let Ok(file) = fs::File::open(hosts_file) {
            // What was read before an error counts.
            let _ = hosts.read_hosts_conf(file);
        }
        let parsed = fs::read(resolv_conf).map_err(NetError::from).and_then(parse_resolv_conf);
        let (mut config, mut options, error) = match parsed {
            Ok((config, options)) => (config, options, None),
            Err(error) => (ResolverConfig::default(), ResolverOpts::default(), Some(reason(&error))),
        };
        let mut assumed = None;
        if !nameservers.is_empty() {
            config.name_servers = nameservers.iter().map(|&server| name_server(server)).collect();
        } else if let Some(error) = error {
            assumed = Some(format!("{}: {error}", resolv_conf.display()));
            config.name_servers = vec![name_server((Ipv4Addr::LOCALHOST, 53).into())];
        }
        let (domain, search, name_servers) = config.into_parts();
        let search = if search.is_empty() { domain.into_iter().collect() } else { search };
        let ndots = options.ndots;
        options.timeout = options.timeout.min(timeout);
        // Every question is to be asked: who asks keeps the answer, for as long as it holds.
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        // A port of the kernel's ephemeral range is none that a listener wants.
        options.os_port_selection = true;
        let config = ResolverConfig::from_parts(None, Vec::new(), name_servers);
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            .with_options(options)
            .build()
            .map_err(|error| reason(&error));
        Self { hosts, search, ndots, resolver, assumed }
    }

    /// Looks a name up: first in the hosts file, then each full name that it may stand for. `origin`, the full name that
    /// had the addresses in use, decides if it fails: others behind it could be somebody else.
    pub(super) async fn look_up(&self, name: &str, origin: Option<&Name>) -> Answer {
        let name = match Name::from_str_relaxed(name) {
            Ok(name) => name,
            Err(error) => return Answer::Failed(format!("not a host name: {error}")),
        };
        if let Some(found) = self.static_addresses(&name) {
            return Answer::Found(found);
        }
        // A name takes its time at most; the next in line starts anew.
        let mut failure = None;
        for full in candidates(&name, &self.search, self.ndots) {
            let answer = match timeout(PATIENCE, self.ask(&full)).await {
                Ok(answer) => answer,
                Err(_) => Answer::Failed("timed out".into()),
            };
            match answer {
                Answer::Found(_) => return answer,
                Answer::None => {}
                Answer::Failed(_) if Some(&full) == origin => return answer,
                Answer::Failed(reason) => failure = failure.or(Some(reason)),
            }
        }
        match (failure, &self.assumed) {
            (None, _) => Answer::None,
            (Some(failure), None) => Answer::Failed(failure),
            (Some(failure), Some(assumed)) => Answer::Failed(format!("{failure}, asking 127.0.0.1 ({assumed})")),
        }
    }

    fn static_addresses(&self, name: &Name) -> Option<Found> {
        let mut origin = name.to_lowercase();
        origin.set_fqdn(true);
        let lookup = |kind| self.hosts.lookup_static_host(&Query::query(origin.clone(), kind));
        let records = [lookup(RecordType::A), lookup(RecordType::AAAA)];
        let addresses: Vec<IpAddr> =
            records.iter().flatten().flat_map(|lookup| lookup.answers()).filter_map(|r| r.data.ip_addr()).collect();
        (!addresses.is_empty()).then_some(Found { origin, addresses, ttl: HOSTS_TTL, unknown: None })
    }

    /// Asks servers for the addresses of a full name, of both families at a time.
    async fn ask(&self, full: &Name) -> Answer {
        let resolver = match &self.resolver {
            Ok(resolver) => resolver,
            Err(error) => return Answer::Failed(error.clone()),
        };
        let one = async |kind| match resolver.lookup(full.clone(), kind).await {
            Ok(lookup) => {
                let records = lookup.answers();
                let addresses: Vec<IpAddr> = records.iter().filter_map(|record| record.data.ip_addr()).collect();
                let ttl = records.iter().map(|record| record.ttl).min().unwrap_or(0);
                Ok((addresses, Duration::from_secs(ttl.into())))
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) if says_none(none.response_code) => {
                Ok((Vec::new(), Duration::MAX))
            }
            Err(error) => Err(reason(&error)),
        };
        let (v4, v6) = tokio::join!(one(RecordType::A), one(RecordType::AAAA));
        let found = |addresses, ttl, unknown| Answer::Found(Found { origin: full.clone(), addresses, ttl, unknown });
        match (v4, v6) {
            (Ok((mut addresses, ttl)), Ok((more, other_ttl))) => {
                addresses.extend(more);
                if addresses.is_empty() { Answer::None } else { found(addresses, ttl.min(other_ttl), None) }
            }
            (Ok((addresses, ttl)), Err(_)) if !addresses.is_empty() => found(addresses, ttl, Some(Family::V6)),
            (Err(_), Ok((addresses, ttl))) if !addresses.is_empty() => found(addresses, ttl, Some(Family::V4)),
            (Err(reason), _) | (_, Err(reason)) => Answer::Failed(reason),
        }
    }
}

/// Whether the kernel knows a way to an address. Nothing is sent.
pub(super) fn has_route(address: IpAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((address, DISCARD))).is_ok()
}

/// The full names that a name may stand for, in the order in which resolv.conf(5) tries them.
fn candidates(name: &Name, search: &[Name], ndots: usize) -> Vec<Name> {
    let mut itself = name.clone();
    itself.set_fqdn(true);
    if name.is_fqdn() {
        return vec![itself];
    }
    let dots = usize::from(name.num_labels()).saturating_sub(1);
    let searched = search.iter().filter_map(|domain| name.clone().append_domain(domain).ok());
    let mut names: Vec<Name> = searched.collect();
    let at = if dots >= ndots { 0 } else { names.len() };
    names.insert(at, itself);
    names
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = address.port();
    }
    NameServerConfig::new(address.ip(), true, connections)
}

/// Whether a response without records says that there are none, rather than that the server does not know.
fn says_none(code: ResponseCode) -> bool {
    matches!(code, ResponseCode::NoError | ResponseCode::NXDomain)
}

/// Why a question failed, in few words.
fn reason(error: &NetError) -> String {
    match error {
        NetError::Timeout => "timed out".into(),
        NetError::Io(error) => error.to_string(),
        NetError::Dns(DnsError::ResponseCode(code)) => format!("the name server answered: {code}"),
        other => other.to_string(),
    }
}

fn stamp(resolv_conf: &Path, hosts: &Path) -> Stamp {
    [resolv_conf, hosts].map(|path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

/// Most time for one full name, over all servers and attempts.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an entry of the hosts file holds.
const HOSTS_TTL: Duration = Duration::from_secs(10);

/// A port to ask the kernel's way to.
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(name: &str, search: &[&str], ndots: usize) -> Vec<String> {
        let name = Name::from_str_relaxed(name).unwrap();
        let search: Vec<Name> = search.iter().map(|domain| Name::from_str_relaxed(domain).unwrap()).collect();
        candidates(&name, &search, ndots).iter().map(Name::to_string).collect()
    }

    #[test]
    fn search_domains_are_tried_as_resolv_conf_says() {
        // What a pod of the namespace `default` finds in its resolv.conf.
        let pod = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"];
        assert_eq!(
            tried("sinks.logging", &pod, 5),
            [
                "sinks.logging.default.svc.cluster.local.",
                "sinks.logging.svc.cluster.local.",
                "sinks.logging.cluster.local.",
                "sinks.logging.",
            ]
        );
        assert_eq!(tried("sink.example.com", &["lan"], 1), ["sink.example.com.", "sink.example.com.lan."]);
        assert_eq!(tried("sink", &["lan"], 1), ["sink.lan.", "sink."]);
        assert_eq!(tried("sink.example.com.", &pod, 5), ["sink.example.com."]);
        assert_eq!(tried("sink_1", &[], 1), ["sink_1."]);
    }
}
