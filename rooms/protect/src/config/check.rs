//! Defaults filled in, every value within its bounds, and what fits together.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use ipnet::IpNet;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use weir_program::config::Step::{self, Index, Key};
use weir_units::{Frequency, Share, Span};

use super::Context;
use super::document::{self, Document};
use super::values::{Exporter, Network, Rarity};
use crate::journal;
use crate::model::Mode;
use crate::people::Tokens;
use crate::people::hooks::{Url, check_trust};
use crate::settings::{Caps, Settings, Ttl};

/// Checks one document.
pub(super) struct Checker<'a> {
    pub(super) context: &'a Context<'a>,
}

impl Checker<'_> {
    pub(super) fn settings(&self, document: &Document) -> Result<Settings> {
        let mode = document.mode.unwrap_or_default();
        let agents = document.agents.clone().unwrap_or_default();
        let networks: Vec<Network> = agents.iter().map(|agent| Network(agent.agent)).collect();
        let routers = self.networks(&[Key("agents")], Some(&networks))?;
        for (index, agent) in agents.iter().enumerate() {
            if let Some((from, meant)) = agent.from.and_then(|from| Some((from, ipv4_of(from)?))) {
                let whole = Exporter { from: Some(meant), ..agent.clone() };
                let message = format!("protect.agents: from {from} is IPv4 in IPv6's form: write \"{whole}\"");
                return Err(self.error(&[Key("agents"), Index(index)], &message));
            }
        }
        let speaker = document.speaker.as_ref().map(|speaker| self.speaker(speaker)).transpose()?;
        let mut groups = BTreeMap::new();
        let caps = self.caps(document.caps.as_ref())?;
        for (name, group) in &document.groups {
            groups.insert(name.clone(), self.group(name, group, mode, &caps, speaker.as_ref())?);
        }
        if groups.is_empty() {
            return Err(self.error(&[], "protect: nothing is protected: write [protect.groups.NAME] with its networks"));
        }
        self.overlap(&groups)?;
        let allow = document.allow.clone().unwrap_or_default();
        let allowed_sources = self.networks(&[Key("allow"), Key("sources")], allow.sources.as_deref())?;
        let mut untouchable = self.networks(&[Key("allow"), Key("destinations")], allow.destinations.as_deref())?;
        self.routers(&routers, speaker.as_ref(), &untouchable, &groups)?;
        untouchable.extend(&routers);
        untouchable.extend(speaker.iter().flat_map(|speaker| &speaker.neighbours).map(|to| IpNet::from(to.address)));
        self.room_for_one(&groups, &caps)?;
        let settings = Settings {
            mode,
            agents,
            journal: document.journal.clone(),
            false_alarms: document.false_alarms.unwrap_or(FALSE_ALARMS).per_second(),
            burst: self.span(&[Key("burst")], document.burst, BURST, Span::from_millis(1), Span::from_secs(60))?,
            witnesses: self.count(&[Key("witnesses")], document.witnesses, 1, 1, 16)?,
            settle: self.span(
                &[Key("settle")],
                document.settle,
                SETTLE,
                Span::from_secs(0),
                Span::from_secs(86_400),
            )?,
            ingress: self.ingress(document.ingress.as_deref().unwrap_or_default())?,
            groups,
            allowed_sources,
            untouchable,
            caps,
            ttl: self.ttl(document.ttl.as_ref())?,
            speaker,
            access: document.access.clone(),
            hooks: self.hooks(document.hooks.as_ref())?,
            document: document.clone(),
            warnings: Vec::new(),
        };
        self.able(&settings)?;
        self.useful(&settings)?;
        self.files(&settings)?;
        Ok(Settings { warnings: self.warnings(&settings), ..settings })
    }

    fn caps(&self, written: Option<&document::Caps>) -> Result<Caps> {
        let (default, written) = (Caps::default(), written.cloned().unwrap_or_default());
        let part = |key: &'static str, written: Option<Share>, default: f64| {
            let value = written.map_or(default, |share| share.fraction());
            if value > 0.0 {
                return Ok(value);
            }
            let message =
                format!("protect.caps: {key}: 0 would permit nothing: write e.g. \"5%\" (or mode = \"observe\")");
            Err(self.error(&[Key("caps"), Key(key)], &message))
        };
        Ok(Caps {
            routes: self.count(&[Key("caps"), Key("routes")], written.routes, default.routes, 1, 100_000)?,
            prefixes: self.count(&[Key("caps"), Key("prefixes")], written.prefixes, default.prefixes, 1, 100_000)?,
            share: part("share", written.share, default.share)?,
            harm: written.harm.map_or(default.harm, |share| share.fraction()),
            unknown_harm: written.unknown_harm.unwrap_or(default.unknown_harm),
        })
    }

    fn ttl(&self, written: Option<&document::Ttl>) -> Result<Ttl> {
        let (default, written) = (Ttl::default(), written.cloned().unwrap_or_default());
        let (second, week) = (Span::from_secs(1), Span::from_secs(7 * 86_400));
        let span = |key: &'static str, value, default| self.span(&[Key("ttl"), Key(key)], value, default, second, week);
        let most = span("most", written.most, default.most)?;
        let ttl = Ttl {
            first: span("first", written.first, default.first.min(most))?,
            most,
            hysteresis: span("hysteresis", written.hysteresis, default.hysteresis.min(most))?,
            backoff: written.backoff.unwrap_or(default.backoff),
        };
        for (key, value) in [("first", ttl.first), ("hysteresis", ttl.hysteresis)] {
            if value > most {
                let (value, most) = (show(value), show(most));
                let message =
                    format!("protect.ttl: {key}: {value} is longer than most, {most} (raise most or lower it)");
                return Err(self.error(&[Key("ttl"), Key(key)], &message));
            }
        }
        if !(1.0..=16.0).contains(&ttl.backoff) {
            let message = format!("protect.ttl: backoff: {} (it must be 1 to 16)", ttl.backoff);
            return Err(self.error(&[Key("ttl"), Key("backoff")], &message));
        }
        Ok(ttl)
    }

    fn ingress(&self, names: &[String]) -> Result<Vec<crate::model::Point>> {
        let mut points = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let named = (self.context.interfaces)(name);
            if named.is_empty() {
                let name = weir_program::escape::escaped(name);
                let message = format!(
                    "protect.ingress: no interface is called `{name}`: name it at its [[agent]], interfaces = {{ 1 = {name:?} }}"
                );
                return Err(self.error(&[Key("ingress"), Index(index)], &message));
            }
            points.extend(named);
        }
        points.sort_unstable();
        points.dedup();
        Ok(points)
    }

    /// Whether what the modes promise can be done.
    fn able(&self, settings: &Settings) -> Result<()> {
        let of = |wanted: Mode| settings.groups.iter().find(|(_, group)| group.mode == wanted).map(|(name, _)| name);
        for (mode, word) in [(Mode::Automatic, "automatic"), (Mode::Manual, "manual")] {
            let Some(name) = of(mode) else { continue };
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
            return Err(self.error(path, &format!("protect: mode {word} (group `{name}`) {need}")));
        }
        Ok(())
    }

    /// What is read or written later can be.
    fn files(&self, settings: &Settings) -> Result<()> {
        if let Some(path) = &settings.journal {
            journal::writable(path)
                .and_then(|()| journal::read(path).map(drop))
                .map_err(|why| self.error(&[Key("journal")], &format!("protect.journal: {}: {why}", path.display())))?;
        }
        for (index, neighbour) in settings.speaker.iter().flat_map(|speaker| &speaker.neighbours).enumerate() {
            let Some(path) = &neighbour.password else { continue };
            let at = [Key("speaker"), Key("neighbours"), Index(index), Key("password")];
            let told = |why: String| self.error(&at, &format!("protect.speaker: password: {}: {why}", path.display()));
            fs::read_to_string(path).map_err(|why| told(why.to_string()))?;
        }
        let Some(access) = settings.access.as_ref().filter(|_| self.context.serves) else { return Ok(()) };
        let (path, at) = (&access.tokens, [Key("access"), Key("tokens")]);
        readable(path).map_err(|why| self.error(&at, &format!("protect.access: tokens: {}: {why}", path.display())))?;
        Tokens::read(path).map(drop).map_err(|why| self.error(&at, &format!("protect.access: {why}")))
    }

    /// Who is told.
    fn hooks(&self, written: Option<&document::Hooks>) -> Result<document::Hooks> {
        let hooks = written.cloned().unwrap_or_default();
        let at = |key: &'static str| [Key("hooks"), Key(key)];
        if hooks.command.as_ref().is_some_and(|line| line.first().is_none_or(String::is_empty)) {
            let message = "protect.hooks: command: it names no program: write command = [\"/usr/local/bin/page-noc\"]";
            return Err(self.error(&at("command"), message));
        }
        if let Some(program) = hooks.command.as_ref().and_then(|line| line.first()) {
            startable(program).map_err(|why| {
                let program = weir_program::escape::escaped(program);
                self.error(&at("command"), &format!("protect.hooks: command: {program}: {why}"))
            })?;
        }
        let webhook = hooks.webhook.as_ref().map(|url| url.parse::<Url>()).transpose();
        let webhook = webhook.map_err(|why| self.error(&at("webhook"), &format!("protect.hooks: webhook: {why}")))?;
        let key = if hooks.ca.is_some() { "ca" } else { "webhook" };
        if webhook.is_some_and(|url| url.is_encrypted()) {
            check_trust(hooks.ca.as_deref())
                .map_err(|why| self.error(&at(key), &format!("protect.hooks: {key}: {why}")))?;
        } else if hooks.ca.is_some() {
            let message =
                "protect.hooks: ca: nothing asks for it: write webhook = \"https://HOST/PATH\", or leave ca out";
            return Err(self.error(&at(key), message));
        }
        let (least, most) = (Span::from_millis(100), Span::from_secs(600));
        self.span(&at("timeout"), hooks.timeout, Duration::from_secs(10), least, most)?;
        Ok(hooks)
    }

    pub(super) fn networks(&self, path: &[Step<'_>], written: Option<&[Network]>) -> Result<Vec<IpNet>> {
        let written = written.unwrap_or_default();
        for (index, Network(network)) in written.iter().enumerate() {
            let what = if let Some(meant) = ipv4_of(*network) {
                format!("is IPv4 in IPv6's form, which no packet has: write \"{meant}\"")
            } else if network.trunc() != *network {
                format!("has bits behind its prefix: write \"{}\", or \"{}\" alone", network.trunc(), network.addr())
            } else {
                continue;
            };
            let keys = path.iter().filter_map(|step| if let Key(key) = step { Some(*key) } else { None });
            let keys = keys.collect::<Vec<_>>().join(".");
            return Err(self.error(&[path, &[Index(index)]].concat(), &format!("protect.{keys}: {network} {what}")));
        }
        Ok(written.iter().map(|network| network.0).collect())
    }

    fn count(
        &self,
        path: &[Step<'_>],
        written: Option<usize>,
        default: usize,
        least: usize,
        most: usize,
    ) -> Result<usize> {
        match written {
            None => Ok(default),
            Some(count) if (least..=most).contains(&count) => Ok(count),
            Some(count) => {
                Err(self.error(path, &format!("protect.{}: {count} (it must be {least} to {most})", dotted(path))))
            }
        }
    }

    fn span(
        &self,
        path: &[Step<'_>],
        written: Option<Span>,
        default: Duration,
        least: Span,
        most: Span,
    ) -> Result<Duration> {
        match written {
            None => Ok(default),
            Some(span) if (least..=most).contains(&span) => Ok(span.duration()),
            Some(span) => {
                Err(self
                    .error(path, &format!("protect.{}: {span} (it must be \"{least}\" to \"{most}\")", dotted(path))))
            }
        }
    }

    pub(super) fn error(&self, path: &[Step<'_>], message: &str) -> anyhow::Error {
        self.context.error(path, message)
    }
}

/// A name as the file has it in a path of keys.
pub(super) fn quoted(name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) && !name.is_empty();
    if is_bare { name.to_owned() } else { format!("{name:?}") }
}

/// Whether a secret can be read, and by nobody else.
fn readable(path: &Path) -> Result<(), String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no regular file".into());
    }
    if about.mode() & 0o077 != 0 {
        return Err(format!("others can read it (mode {:o}): chmod 600 {}", about.mode() & 0o777, path.display()));
    }
    fs::File::open(path).map(drop).map_err(|error| error.to_string())
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

fn dotted(path: &[Step<'_>]) -> String {
    let keys = path.iter().filter_map(|step| if let Key(key) = step { Some(*key) } else { None });
    keys.collect::<Vec<_>>().join(": ")
}

/// The IPv4 network that an IPv4-mapped one (RFC 4291) is.
pub(super) fn ipv4_of(network: IpNet) -> Option<IpNet> {
    let IpAddr::V6(address) = network.addr() else { return None };
    let length = network.prefix_len().checked_sub(96)?;
    Some(IpNet::new(IpAddr::V4(address.to_ipv4_mapped()?), length).ok()?.trunc())
}

fn show(span: Duration) -> Span {
    Span::from_nanos(span.as_nanos() as u64)
}

/// One a year.
pub(super) const FALSE_ALARMS: Rarity = Rarity { times: 1.0, per: super::values::Per::Year };

/// A tenth of a second of the threshold.
const BURST: Duration = Duration::from_millis(100);
/// Ten minutes.
const SETTLE: Duration = Duration::from_secs(60);

/// As the file has a frequency.
pub(super) fn frequency(per_second: f64) -> Frequency {
    Frequency { micro_hertz: (per_second * 1e6).round() as u64 }
}
