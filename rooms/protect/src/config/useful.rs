//! Whether anything can come of it: what is allowed, and who has to see a flood.

use anyhow::Result;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_program::config::Step::Key;

use super::check::Checker;
use super::values::Network;
use crate::settings::Settings;

impl Checker<'_> {
    /// Whether anything can come of it at all.
    pub(super) fn useful(&self, settings: &Settings) -> Result<()> {
        let allow = settings.document.allow.clone().unwrap_or_default();
        let (sources, allowed) = (whole(allow.sources), whole(allow.destinations));
        let networks = || settings.groups.values().flat_map(|group| &group.networks);
        if networks().all(|network| is_within(network, &allowed)) {
            let message = "protect.allow: destinations: all that is protected is within them, and nothing would ever be announced: \
                           name those alone that must never be touched";
            return Err(self.error(&[Key("allow"), Key("destinations")], message));
        }
        let every = |network: &IpNet| match network {
            IpNet::V4(_) => IpNet::V4(Ipv4Net::default()),
            IpNet::V6(_) => IpNet::V6(Ipv6Net::default()),
        };
        if let Some(every) = networks().map(every).find(|every| is_within(every, &sources)) {
            let message = format!(
                "protect.allow: sources: every sender is within them ({every}), and no flood would ever be found: name those alone \
                 that never take part in one"
            );
            return Err(self.error(&[Key("allow"), Key("sources")], &message));
        }
        let (wanted, agents) = (settings.witnesses, &settings.agents);
        let are_hosts = agents.iter().all(|agent| agent.agent.prefix_len() == agent.agent.max_prefix_len());
        if are_hosts && !agents.is_empty() && wanted > agents.len() {
            let message = format!(
                "protect.witnesses: {wanted}, and agents names {}: no flood could have so many (name more agents, or lower it)",
                agents.len()
            );
            return Err(self.error(&[Key("witnesses")], &message));
        }
        Ok(())
    }

    /// What can be meant, but would be found out in the first attack.
    pub(super) fn warnings(&self, settings: &Settings) -> Vec<String> {
        let allow = settings.document.allow.clone().unwrap_or_default();
        let allowed = whole(allow.destinations);
        let mut warnings = Vec::new();
        for (name, group) in &settings.groups {
            if group.networks.iter().all(|network| is_within(network, &allowed)) {
                let message = format!(
                    "protect.groups.{name}: all of its networks are within protect.allow.destinations: floods of them are told, and \
                     nothing is ever announced"
                );
                warnings.push(self.error(&[Key("groups"), Key(name), Key("networks")], &message).to_string());
            }
        }
        warnings.extend(self.selves(settings.speaker.as_ref()));
        warnings
    }
}

/// Several that are one network together count as that.
fn whole(written: Option<Vec<Network>>) -> Vec<IpNet> {
    let written: Vec<IpNet> = written.unwrap_or_default().iter().map(|network| network.0).collect();
    IpNet::aggregate(&written)
}

fn is_within(network: &IpNet, around: &[IpNet]) -> bool {
    around.iter().any(|net| net.contains(network))
}
