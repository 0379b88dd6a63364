//! What fits together, and what has to be there.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use ipnet::IpNet;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use weir_program::config::Step::{self, Index, Key};
use weir_program::escape::{escaped, showable};
use weir_program::files;
use weir_units::Share;

use super::Context;
use super::document::{self, Document, Kind};
use super::values::Network;
use crate::detect::Threshold;
use crate::journal;
use crate::model::{Action, Mode, Point};
use crate::people::Tokens;
use crate::settings::{Group, Level, Settings, Speaker, Ttl};

impl Context<'_> {
    /// Checks one document.
    pub(super) fn settings(&self, document: &Document) -> Result<Settings> {
        let networks: Vec<Network> = document.agents.iter().map(|agent| Network(agent.agent)).collect();
        let routers = self.networks(&[Key("agents")], &networks)?;
        document.speaker.as_ref().map_or(Ok(()), |speaker| self.speaker(speaker))?;
        self.ttl(&document.ttl)?;
        let mut groups = BTreeMap::new();
        for (name, group) in &document.groups {
            groups.insert(name.clone(), self.group(name, group, document)?);
        }
        if groups.is_empty() {
            return Err(self.error(&[], "nothing is protected: write [protect.groups.NAME] with its networks"));
        }
        self.overlap(&groups)?;
        let allowed_sources = self.networks(&[Key("allow"), Key("sources")], &document.allow.sources)?;
        let mut untouchable = self.networks(&[Key("allow"), Key("destinations")], &document.allow.destinations)?;
        untouchable.extend(&routers);
        let settings = Settings {
            ingress: self.ingress(&document.ingress)?,
            warnings: self.warnings(&groups, &untouchable, document.journal.is_some()),
            groups,
            allowed_sources,
            untouchable,
            document: document.clone(),
        };
        self.able(&settings)?;
        self.files(&settings)?;
        Ok(settings)
    }

    /// What would be found out in the first attack.
    fn warnings(&self, groups: &BTreeMap<String, Group>, untouchable: &[IpNet], is_kept: bool) -> Vec<String> {
        let untouchable = IpNet::aggregate(&untouchable.to_vec());
        let is_idle = |network: &IpNet| untouchable.iter().any(|net| net.contains(network));
        let useless = groups.iter().filter(|(_, group)| group.networks.iter().all(is_idle));
        let what = "all of them are within protect.allow.destinations or protect.agents: floods are told, and nothing is ever announced";
        let path = |name| [Key("groups"), Key(name), Key("networks")];
        let mut warnings: Vec<String> = useless.map(|(name, _)| self.error(&path(name), what).to_string()).collect();
        let forgets = |(name, group): (&String, &Group)| {
            let learns = group.thresholds.iter().find(|threshold| threshold.learn && !is_kept)?;
            let path = [Key("groups"), Key(name), Key("thresholds"), Key(learns.class.name()), Key("learn")];
            let what = "what is learnt is lost with a restart: write journal = \"/var/lib/weir/protect.jsonl\"";
            Some(self.error(&path, what).to_string())
        };
        warnings.extend(groups.iter().filter_map(forgets));
        warnings
    }

    fn ttl(&self, written: &Ttl) -> Result<()> {
        for (key, value) in [("first", written.first), ("hysteresis", written.hysteresis)] {
            if value > written.most {
                let message = format!("{value} is longer than most, {} (raise most or lower it)", written.most);
                return Err(self.error(&[Key("ttl"), Key(key)], &message));
            }
        }
        Ok(())
    }

    fn ingress(&self, names: &[String]) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let named = (self.interfaces)(name);
            if named.is_empty() {
                let name = escaped(name);
                let message = format!(
                    "no interface is called `{name}`: name it at its [[agent]], interfaces = {{ 1 = {name:?} }}"
                );
                return Err(self.error(&[Key("ingress"), Index(index)], &message));
            }
            points.extend(named);
        }
        points.sort_unstable();
        points.dedup();
        Ok(points)
    }

    fn speaker(&self, written: &Speaker) -> Result<()> {
        let fail = |key: &'static str, what: &str| self.error(&[Key("speaker"), Key(key)], what);
        for (key, hop, v4, example) in
            [("next_hop", written.next_hop, true, "192.0.2.1"), ("next_hop_v6", written.next_hop_v6, false, "100::1")]
        {
            if hop.is_some_and(|hop| hop.is_ipv4() != v4) {
                let family = if v4 { "an IPv4" } else { "an IPv6" };
                return Err(fail(key, &format!("it must be {family} address, e.g. \"{example}\"")));
            }
            if let Some(hop) = hop.filter(is_no_hop) {
                let what = format!("{hop} is no next hop: write one that routers discard, e.g. \"{example}\"");
                return Err(fail(key, &what));
            }
        }
        let gobgp = written.gobgp.0;
        if !gobgp.ip().to_canonical().is_loopback() {
            let told = format!(
                "{gobgp}: its gRPC has no password and no encryption, and whoever reaches it announces anything: have gobgpd on \
                 this machine, at \"127.0.0.1:{port}\" or \"[::1]:{port}\" (or lead a tunnel there)",
                port = gobgp.port()
            );
            return Err(fail("gobgp", &told));
        }
        Ok(())
    }

    /// Whether what the modes promise can be done.
    fn able(&self, settings: &Settings) -> Result<()> {
        for (mode, word) in [(Mode::Automatic, "automatic"), (Mode::Manual, "manual")] {
            let Some((name, _)) = settings.groups.iter().find(|(_, group)| group.mode == mode) else { continue };
            let need = match () {
                () if settings.agents.is_empty() => {
                    "needs agents: name those whose samples may lead to an action, agents = [\"10.0.0.1\"]"
                }
                () if settings.speaker.is_none() => {
                    "needs a speaker: write [protect.speaker] with gobgp = \"127.0.0.1:50051\""
                }
                () if settings.journal.is_none() => {
                    "needs a journal, so that a stop holds over a restart: journal = \"/var/lib/weir/protect.jsonl\""
                }
                () if mode == Mode::Manual && settings.access.is_none() => {
                    "needs somebody who may approve: write [protect.access] with tokens = \"/etc/weir/protect.tokens\""
                }
                () => continue,
            };
            let own = settings.document.groups.get(name).is_some_and(|group| group.mode.is_some());
            let path: &[Step<'_>] = if own { &[Key("groups"), Key(name), Key("mode")] } else { &[Key("mode")] };
            return Err(self.error(path, &format!("mode {word} (group `{name}`) {need}")));
        }
        Ok(())
    }

    /// What is read, written or started later can be.
    fn files(&self, settings: &Settings) -> Result<()> {
        if let Some(path) = &settings.journal {
            files::writable(path)
                .and_then(|()| journal::read(path).map(drop))
                .map_err(|why| self.error(&[Key("journal")], &format!("{}: {why}", path.display())))?;
        }
        let command = &settings.hooks.command;
        if let Some(program) = command.first() {
            startable(program)
                .map_err(|why| self.error(&[Key("hooks"), Key("command")], &format!("{}: {why}", escaped(program))))?;
        }
        let Some(access) = settings.access.as_ref().filter(|_| self.serves) else { return Ok(()) };
        Tokens::read(&access.tokens)
            .map(drop)
            .map_err(|why| self.error(&[Key("access"), Key("tokens")], &why.to_string()))
    }

    fn networks(&self, path: &[Step<'_>], written: &[Network]) -> Result<Vec<IpNet>> {
        let whole = |(index, network): (usize, &Network)| {
            network.whole().map_err(|what| self.error(&[path, &[Index(index)]].concat(), &format!("{network} {what}")))
        };
        written.iter().enumerate().map(whole).collect()
    }

    fn group(&self, name: &str, written: &document::Group, document: &Document) -> Result<Group> {
        let (mode, harm) = (written.mode.unwrap_or(document.mode), document.caps.harm);
        let at = [Key("groups"), Key(name)];
        let fail = |path: &[Step<'_>], what: &str| self.error(&[&at[..], path].concat(), what);
        showable(name).map_err(|why| self.error(&at, &why.to_string()))?;
        if written.networks.is_empty() {
            return Err(fail(&[Key("networks")], "it has no networks: write networks = [\"192.0.2.0/24\"]"));
        }
        let networks = self.networks(&[at[0], at[1], Key("networks")], &written.networks)?;
        if written.thresholds.is_empty() {
            let what = "it has no thresholds: write e.g. thresholds.udp_flood.packets = \"40k/s\"";
            return Err(fail(&[Key("thresholds")], what));
        }
        let mut thresholds = Vec::new();
        for (&class, of) in &written.thresholds {
            let packets = of.packets.map(|packets| packets.micro_hertz as f64 / 1e6);
            let bits = of.bits.map(|bits| bits.bits_per_second as f64);
            if packets.is_none() && bits.is_none() {
                let what = "neither packets nor bits: write the least that is ever too much, e.g. packets = \"40k/s\" (with learn = \
                            true it is the floor)";
                return Err(fail(&[Key("thresholds"), Key(class.name())], what));
            }
            let document::Threshold { learn, min_sources, ratio, spread, .. } = *of;
            let min_sources = min_sources.into();
            thresholds.push(Threshold { class, packets, bits, learn, min_sources, ratio, spread });
        }
        let mut levels = Vec::new();
        for (index, level) in written.levels.iter().enumerate() {
            let fail = |key: &str, what: &str| fail(&[Key("levels"), Index(index), Key(key)], what);
            levels.push(level_of(level, index == 0, harm, &fail)?);
            if level.action == Kind::Blackhole {
                hops(&networks, document.speaker.as_ref()).map_err(|what| fail("action", &what))?;
                if mode == Mode::Automatic && level.harm.is_none_or(|harm| harm.fraction() < 1.0) {
                    let what = "a blackhole hits all other traffic of its target: write harm = \"100%\" at this level to accept \
                                that, or mode = \"manual\"";
                    return Err(fail("action", what));
                }
            }
        }
        if levels.is_empty() {
            levels.push(Level { action: Action::Drop, after: Duration::ZERO, harm: harm.fraction() });
        }
        Ok(Group { networks, mode, thresholds, levels })
    }

    /// A network has one group; one within another's is the inner one's.
    fn overlap(&self, groups: &BTreeMap<String, Group>) -> Result<()> {
        let mut seen: BTreeMap<IpNet, &str> = BTreeMap::new();
        for (name, group) in groups {
            for (index, network) in group.networks.iter().enumerate() {
                if let Some(other) = seen.insert(*network, name) {
                    let path = [Key("groups"), Key(name), Key("networks"), Index(index)];
                    let both =
                        if other == name { "twice in it".into() } else { format!("in the group `{other}`, too") };
                    return Err(self.error(&path, &format!("{network} is {both} (leave it out in one place)")));
                }
            }
        }
        Ok(())
    }
}

/// One step of action, with what it needs and nothing else.
fn level_of(
    written: &document::Level,
    first: bool,
    harm: Share,
    fail: &dyn Fn(&str, &str) -> anyhow::Error,
) -> Result<Level> {
    let strays = [
        ("rate", written.rate.is_some(), Kind::Limit),
        ("dscp", written.dscp.is_some(), Kind::Mark),
        ("to", written.to.is_some(), Kind::Redirect),
    ];
    if let Some((key, ..)) = strays.iter().find(|(_, given, kind)| *given && *kind != written.action) {
        return Err(fail(key, "it is of another action (leave it out)"));
    }
    let need = |key: &str, example: &str| fail(key, &format!("{key} is missing: write e.g. {key} = {example}"));
    let action = match written.action {
        Kind::Drop => Action::Drop,
        Kind::Blackhole => Action::Blackhole,
        Kind::Limit => {
            let rate = written.rate.ok_or_else(|| need("rate", "\"10mbit\""))?;
            Action::Limit { bytes_per_s: rate.bits_per_second as f32 / 8.0 }
        }
        Kind::Mark => Action::Mark { dscp: written.dscp.ok_or_else(|| need("dscp", "8"))? },
        Kind::Redirect => {
            let to = written.to.ok_or_else(|| need("to", "\"65000:100\""))?;
            Action::Redirect { asn: to.asn, number: to.number }
        }
    };
    let after = match (written.after, first) {
        (Some(_), true) => return Err(fail("after", "the first step is taken at once (leave it out)")),
        (None, false) => {
            let what =
                "after is missing: write how long the step before may go on without helping, e.g. after = \"30s\"";
            return Err(fail("after", what));
        }
        (after, _) => after.unwrap_or_default(),
    };
    Ok(Level { action, after: after.duration(), harm: written.harm.unwrap_or(harm).fraction() })
}

/// A blackhole needs a next hop of each family that it is for.
fn hops(networks: &[IpNet], speaker: Option<&Speaker>) -> Result<(), String> {
    let Some(speaker) = speaker else { return Ok(()) };
    for (v4, hop, key, example) in
        [(true, speaker.next_hop, "next_hop", "192.0.2.1"), (false, speaker.next_hop_v6, "next_hop_v6", "100::1")]
    {
        if hop.is_none() && networks.iter().any(|net| net.addr().is_ipv4() == v4) {
            return Err(format!(
                "a blackhole needs a next hop that routers discard: write {key} = \"{example}\" in [protect.speaker]"
            ));
        }
    }
    Ok(())
}

/// Whether routers would send to themselves, to nobody, to many, or to whoever is on some link.
fn is_no_hop(hop: &IpAddr) -> bool {
    let is_local = match hop {
        IpAddr::V4(hop) => hop.is_link_local() || hop.is_broadcast() || hop.octets()[0] == 0,
        IpAddr::V6(hop) => hop.is_unicast_link_local() || hop.to_ipv4_mapped().is_some(),
    };
    is_local || hop.is_unspecified() || hop.is_loopback() || hop.is_multicast()
}

/// Whether a program is there and can be started: by its path, or by a name that `PATH` leads to.
fn startable(program: &str) -> Result<(), String> {
    let is_there = |path: &Path| match fs::metadata(path) {
        Err(error) => Err(error.to_string()),
        Ok(about) if !about.is_file() => Err("it is no program".into()),
        Ok(_) => faccessat(AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS)
            .map_err(|_| "it may not be started: chmod +x it".to_owned()),
    };
    if program.contains('/') {
        return is_there(Path::new(program));
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&paths).any(|directory| is_there(&directory.join(program)).is_ok());
    if is_found { Ok(()) } else { Err("no such program in PATH: write its whole path".into()) }
}
