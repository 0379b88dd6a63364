//! Settings as the file that says the same.

use ipnet::IpNet;
use weir_units::{Size, Span};

use super::Config;
use super::document::{Addresses, Destination, Document, Group, Join, Listener, Probe, Rule};
use super::values::{Address, List, Network};
use crate::settings::{self, MOST_ADDRESSES, ProbeKind, Recipient, Settings};

/// The file, with every default written out.
pub(super) fn to_toml(config: &Config) -> String {
    // Every key of the document has a form in TOML.
    toml::to_string(&document(config)).unwrap_or_default()
}

fn document(config: &Config) -> Document {
    let settings = &config.settings;
    Document {
        workers: Some(settings.workers),
        matching: Some(settings.matching),
        on_loop: Some(settings.on_loop),
        gather: Some(span(settings.gather)),
        drain: Some(span(settings.drain)),
        admin: config.fixed.admin.map(Address),
        user: config.fixed.user.clone(),
        listeners: settings.listeners.iter().map(Listener::from).collect(),
        destinations: settings.destinations.iter().map(Destination::from).collect(),
        groups: settings.groups.iter().map(|group| self::group(group, settings)).collect(),
        rules: settings.rules.iter().map(|rule| self::rule(rule, settings)).collect(),
    }
}

impl From<&settings::Listener> for Listener {
    fn from(listener: &settings::Listener) -> Self {
        let join = |joined: &settings::Membership| Join {
            group: joined.group,
            source: joined.source,
            interface: joined.interface.clone(),
        };
        Self {
            name: Some(listener.name.clone()),
            address: Address(listener.address),
            last_port: None,
            interface: listener.interface.clone(),
            join: list(listener.groups.iter().map(join)),
            receive_buffer: Some(listener.receive_buffer.map_or(Size::default(), size)),
        }
    }
}

impl From<&settings::Destination> for Destination {
    fn from(destination: &settings::Destination) -> Self {
        Self {
            name: Some(destination.name.clone()),
            to: destination.to.clone(),
            addresses: Some(match (destination.all_addresses, destination.most_addresses) {
                (false, _) => Addresses::First,
                (true, MOST_ADDRESSES) => Addresses::All,
                (true, most) => Addresses::Most(u32::try_from(most).unwrap_or(u32::MAX)),
            }),
            source: Some(destination.source),
            from: destination.from.map(Address),
            interface: destination.interface.clone(),
            ttl: destination.ttl.map(i64::from),
            hop_guard: Some(destination.hop_guard),
            dscp: destination.dscp.map(i64::from),
            mtu: destination.mtu.map(i64::from),
            loopback: destination.loopback,
            send_buffer: Some(destination.send_buffer.map_or(Size::default(), size)),
            queue: Some(size(destination.queue)),
            rate: destination.rate,
            bandwidth: destination.bandwidth,
            sample: Some(destination.sample.get()),
            every: Some(destination.every.get()),
            probe: destination.probe.as_ref().map(probe),
            replies: Some(destination.replies.is_some()),
            sessions: destination.replies.map(|replies| u32::try_from(replies.sessions).unwrap_or(u32::MAX)),
            session_timeout: destination.replies.map(|replies| span(replies.timeout)),
        }
    }
}

fn probe(probe: &settings::Probe) -> Probe {
    let (tcp, ping) = match probe.kind {
        ProbeKind::Tcp(port) => (Some(port), None),
        ProbeKind::Ping => (None, Some(true)),
    };
    Probe { tcp, ping, interval: Some(span(probe.interval)), timeout: Some(span(probe.timeout)) }
}

fn group(group: &settings::Group, settings: &Settings) -> Group {
    Group {
        name: group.name.clone(),
        policy: Some(group.policy),
        members: List(group.members.iter().map(|&index| settings.destinations[index].name.clone()).collect()),
    }
}

fn rule(rule: &settings::Rule, settings: &Settings) -> Rule {
    let name = |recipient: &Recipient| match *recipient {
        Recipient::Destination(index) => settings.destinations[index].name.clone(),
        Recipient::Group(index) => settings.groups[index].name.clone(),
    };
    Rule {
        name: Some(rule.name.clone()),
        from: list(rule.sources.iter().map(|&net: &IpNet| Network(net))),
        listener: list(rule.listeners.iter().map(|&index| settings.listeners[index].name.clone())),
        to: List(rule.to.iter().map(name).collect()),
    }
}

/// A list; none, if it is empty.
fn list<T>(values: impl Iterator<Item = T>) -> Option<List<T>> {
    let values: Vec<T> = values.collect();
    (!values.is_empty()).then_some(List(values))
}

fn size(bytes: usize) -> Size {
    Size { bytes: bytes as u64 }
}

fn span(duration: std::time::Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
