//! Settings as the file that says the same.

use std::net::IpAddr;

use weir_program::config::Address;
use weir_tee::config::values::{List, Network};

use super::Config;
use super::document::{Agent, Document, GeoIp, Limits};
use crate::settings::Named;

/// The file, with every default written out.
pub(super) fn to_toml(config: &Config) -> String {
    // Every key of the document has a form in TOML.
    toml::to_string(&document(config)).unwrap_or_default()
}

fn document(config: &Config) -> Document {
    let settings = &config.settings;
    let limits = settings.limits;
    let networks = |nets: &Vec<ipnet::IpNet>| List(nets.iter().copied().map(Network).collect());
    let texts = |texts: &Vec<String>| (!texts.is_empty()).then(|| List(texts.clone()));
    let agent = |(&address, named): (&IpAddr, &Named)| Agent {
        address,
        name: named.name.clone(),
        interfaces: named.interfaces.iter().map(|(index, name)| (index.to_string(), name.clone())).collect(),
    };
    let groups = settings.groups.iter().map(|(name, groups)| {
        (name.clone(), groups.iter().map(|(group, nets)| (group.clone(), networks(nets))).collect())
    });
    let geoip = (settings.country.is_some() || settings.asn.is_some())
        .then(|| GeoIp { country: settings.country.clone(), asn: settings.asn.clone() });
    Document {
        workers: Some(settings.carrier.workers),
        http: Some(Address(settings.http)),
        hosts: texts(&settings.api.hosts),
        origins: texts(&settings.api.origins),
        read_only: Some(settings.api.read_only),
        admin: config.fixed.admin.map(Address),
        user: config.fixed.user.clone(),
        state: settings.state.clone(),
        allow: (!settings.allow.is_empty()).then(|| networks(&settings.allow)),
        limits: Some(Limits {
            agents: Some(limits.agents),
            sources: Some(limits.sources),
            flows: Some(limits.flows),
            definitions: Some(limits.definitions),
            newcomers: Some(limits.newcomers),
            offenders: Some(limits.offenders),
            crossings: Some(limits.crossings),
        }),
        geoip,
        listeners: settings.carrier.listeners.iter().map(Into::into).collect(),
        destinations: settings.carrier.destinations.clone(),
        agents: settings.agents.iter().map(agent).collect(),
        groups: groups.collect(),
        flows: settings.flows.clone(),
        thresholds: settings.thresholds.clone(),
        protect: settings.protect.as_deref().map(weir_protect::config::document),
    }
}
