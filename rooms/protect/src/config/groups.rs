//! Groups: what is protected, what is too much, and what may be done for whom.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use ipnet::IpNet;
use weir_program::config::Step::{Index, Key};
use weir_program::escape::showable;
use weir_units::Share;

use super::check::{Checker, quoted};
use super::document::{self, Kind};
use super::levels::{hops, level_of};
use crate::model::{Action, Mode};
use crate::settings::{Caps, Group, Level, Speaker, Threshold};

impl Checker<'_> {
    pub(super) fn group(
        &self,
        name: &str,
        written: &document::Group,
        mode: Mode,
        caps: &Caps,
        speaker: Option<&Speaker>,
    ) -> Result<Group> {
        let mode = written.mode.unwrap_or(mode);
        let at = [Key("groups"), Key(name)];
        let path = |key| [at[0], at[1], Key(key)];
        let fail =
            |key: &str, what: &str| self.error(&[at[0], at[1], Key(key)], &format!("protect.groups.{name}: {what}"));
        showable(name).map_err(|why| self.error(&at, &format!("protect.groups: {why}")))?;
        if written.networks.is_empty() {
            return Err(fail("networks", "it has no networks: write networks = [\"192.0.2.0/24\"]"));
        }
        let networks = self.networks(&path("networks"), Some(&written.networks))?;
        if written.thresholds.is_empty() {
            let what = format!(
                "it has no thresholds: write e.g. [protect.groups.{}.thresholds.udp_flood] with packets = \"40k/s\"",
                quoted(name)
            );
            return Err(fail("thresholds", &what));
        }
        let mut thresholds = BTreeMap::new();
        for (&class, threshold) in &written.thresholds {
            let at = [at[0], at[1], Key("thresholds"), Key(class.name())];
            let fail = |key: &str, what: &str| {
                let path = [at[0], at[1], at[2], at[3], Key(key)];
                self.error(&path, &format!("protect.groups.{name}.thresholds.{}: {what}", class.name()))
            };
            thresholds.insert(class, self.threshold(threshold, &fail)?);
        }
        let mut levels = Vec::new();
        for (index, level) in written.levels.iter().enumerate() {
            let fail = |key: &str, what: &str| {
                let path = [at[0], at[1], Key("levels"), Index(index), Key(key)];
                self.error(&path, &format!("protect.groups.{name}: level {}: {what}", index + 1))
            };
            levels.push(level_of(level, index == 0, caps, &fail)?);
            if level.action == Kind::Blackhole {
                hops(&networks, speaker).map_err(|what| fail("action", &what))?;
                if mode == Mode::Automatic && level.harm.is_none_or(|harm| harm.fraction() < 1.0) {
                    let what = "a blackhole hits all other traffic of its target: write harm = \"100%\" at this level to accept \
                                that, or mode = \"manual\"";
                    return Err(fail("action", what));
                }
            }
        }
        if levels.is_empty() {
            levels.push(Level { action: Action::Drop, after: Duration::ZERO, harm: caps.harm });
        }
        Ok(Group { networks, mode, thresholds, levels })
    }

    fn threshold(
        &self,
        written: &document::Threshold,
        fail: &dyn Fn(&str, &str) -> anyhow::Error,
    ) -> Result<Threshold> {
        let packets = written.packets.map(|packets| packets.micro_hertz as f64 / 1e6);
        let bits = written.bits.map(|bits| bits.bits_per_second as f64);
        for (key, value, example) in [("packets", packets, "40k/s"), ("bits", bits, "500mbit")] {
            if value.is_some_and(|value| value < 1.0) {
                return Err(fail(
                    key,
                    &format!("{key}: 0 would make an attack of everything: write e.g. \"{example}\""),
                ));
            }
        }
        if packets.is_none() && bits.is_none() {
            let what = "neither packets nor bits: write the least that is ever too much, e.g. packets = \"40k/s\" (with \
                        learn = true it is the floor)";
            return Err(fail("", what));
        }
        let ratio = written.ratio.unwrap_or(RATIO);
        if !(1.0..=100.0).contains(&ratio) {
            return Err(fail("ratio", &format!("ratio: {ratio} (it must be 1 to 100)")));
        }
        let spread = written.spread.unwrap_or(SPREAD);
        if !(0.0..=1.0).contains(&spread) {
            return Err(fail(
                "spread",
                &format!("spread: {spread} (it must be 0, a prefix as a host, to 1, as all of its hosts)"),
            ));
        }
        let min_sources = written.min_sources.unwrap_or(1);
        if !(1..=1_000).contains(&min_sources) {
            return Err(fail("min_sources", &format!("min_sources: {min_sources} (it must be 1 to 1000)")));
        }
        Ok(Threshold { packets, bits, learn: written.learn.unwrap_or(false), min_sources, ratio, spread })
    }

    /// A network has one group; one within another's is the inner one's.
    pub(super) fn overlap(&self, groups: &BTreeMap<String, Group>) -> Result<()> {
        let mut seen: BTreeMap<IpNet, &str> = BTreeMap::new();
        for (name, group) in groups {
            for (index, network) in group.networks.iter().enumerate() {
                if let Some(other) = seen.insert(*network, name) {
                    let path = [Key("groups"), Key(name), Key("networks"), Index(index)];
                    let both =
                        if other == name { "twice in it".into() } else { format!("in the group `{other}`, too") };
                    let message = format!("protect.groups.{name}: {network} is {both} (leave it out in one place)");
                    return Err(self.error(&path, &message));
                }
            }
        }
        Ok(())
    }

    /// What announces and what tells must not be cut off.
    pub(super) fn routers(
        &self,
        agents: &[IpNet],
        speaker: Option<&Speaker>,
        allowed: &[IpNet],
        groups: &BTreeMap<String, Group>,
    ) -> Result<()> {
        let neighbours = speaker.iter().flat_map(|speaker| &speaker.neighbours).map(|to| IpNet::from(to.address));
        for (index, net) in agents.iter().enumerate() {
            let of = |(name, group): (&String, &Group)| {
                Some((name.clone(), *group.networks.iter().find(|of| net.contains(*of))?))
            };
            // Where all that is protected counts as an agent, nothing is.
            let is_meant = net.prefix_len() == net.max_prefix_len() || allowed.iter().any(|of| of.contains(net));
            if let Some((name, network)) = groups.iter().find_map(of).filter(|_| !is_meant) {
                let message = format!(
                    "protect.agents: {net} has all of group {name}'s {network} in it: name the agents' own addresses, or a \
                     network that has nothing else"
                );
                return Err(self.error(&[Key("agents"), Index(index)], &message));
            }
        }
        let agents = agents.iter().map(|net| (*net, "agent"));
        for (router, what) in agents.chain(neighbours.map(|net| (net, "neighbour"))) {
            if allowed.iter().any(|net| net.contains(&router)) {
                continue;
            }
            for (name, group) in groups {
                let overlaps = |net: &&IpNet| net.contains(&router) || router.contains(*net);
                if let Some((index, network)) = group.networks.iter().enumerate().find(|(_, net)| overlaps(net)) {
                    let path = [Key("groups"), Key(name), Key("networks"), Index(index)];
                    let router = if router.prefix_len() == router.max_prefix_len() {
                        router.addr().to_string()
                    } else {
                        router.to_string()
                    };
                    let message = format!(
                        "protect.groups.{name}: {network} has the {what} {router} in it: name that in \
                         protect.allow.destinations, and nothing is ever announced for it"
                    );
                    return Err(self.error(&path, &message));
                }
            }
        }
        Ok(())
    }

    /// A blackhole that the share never permits would be found out in the first attack.
    pub(super) fn room_for_one(&self, groups: &BTreeMap<String, Group>, caps: &Caps) -> Result<()> {
        let blackholes = |group: &Group| group.levels.iter().any(|level| level.action == Action::Blackhole);
        let Some((name, group)) = groups.iter().find(|(_, group)| blackholes(group)) else { return Ok(()) };
        let v4 = group.networks.iter().any(|net| net.addr().is_ipv4());
        let of_family = groups.values().flat_map(|group| &group.networks).filter(|net| net.addr().is_ipv4() == v4);
        let space: f64 = IpNet::aggregate(&of_family.copied().collect()).iter().map(crate::guard::addresses).sum();
        if space * caps.share >= 1.0 {
            return Ok(());
        }
        let message = format!(
            "protect.caps: share: {} of {space} protected addresses is less than one: group `{name}` could never \
             blackhole a host (write at least \"{}%\")",
            Share::from_fraction(caps.share).unwrap_or_default(),
            (100.0 / space).ceil()
        );
        Err(self.error(&[Key("caps"), Key("share")], &message))
    }
}

/// Half as much again as is usual.
const RATIO: f64 = 1.5;

/// As independent hosts vary.
const SPREAD: f64 = 0.5;
