//! From what is written to what is meant: names resolved, defaults filled in, every value within its bounds.

mod destinations;
mod listeners;
mod replies;
mod rules;

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, anyhow};
use weir_program::config::{self, Step, did_you_mean};
use weir_service::Fixed;
use weir_units::format::shown;

use listeners::RECEIVE_BUFFER;

use super::document::{self, Document};
use super::{Config, Local};
use weir_forward::settings::{Destination, Matching, OnLoop, Recipient, Settings};

/// Checks one document.
pub(super) struct Checker<'a> {
    file: Option<&'a config::Document<'a>>,
    local: &'a Local,
}

impl<'a> Checker<'a> {
    /// `file`: where the document stands; `None`: it was made of flags. `local`: to see loops.
    pub(super) fn new(file: Option<&'a config::Document<'a>>, local: &'a Local) -> Self {
        Self { file, local }
    }

    /// The validated configuration, or the first mistake.
    pub(super) fn config(&self, written: &Document) -> Result<Config> {
        let listeners = self.listeners(&written.listener)?;
        let destinations = self.destinations(&written.destination, &listeners)?;
        let groups = self.groups(&written.group, &destinations)?;
        let inlets = Self::inlets(&written.listener, &listeners);
        let rules = self.rules(&written.rule, &inlets, &listeners, &destinations, &groups)?;
        self.refuse_two_answers(&written.rule, &rules, &destinations, &groups, written.r#match)?;
        let settings = Settings {
            workers: workers(written.workers.map(usize::from)),
            gather: written.gather.duration(),
            drain: written.drain.duration(),
            steering: None,
            listeners,
            destinations,
            groups,
            rules,
            matching: written.r#match,
            on_loop: written.r#loop,
        };
        let mut warnings = self.deaf(&written.listener);
        warnings.extend(self.warnings(&settings));
        let fixed = Fixed::of(written.admin, written.user.as_ref());
        let mut document = Document {
            workers: u16::try_from(settings.workers).ok(),
            destination: settings.destinations.clone(),
            ..written.clone()
        };
        for listener in &mut document.listener {
            listener.receive_buffer.get_or_insert(RECEIVE_BUFFER);
            if listener.last_port.is_none() {
                listener.name.get_or_insert_with(|| listener.address.0.to_string());
            }
        }
        for (written, rule) in document.rule.iter_mut().zip(&settings.rules) {
            written.name = Some(rule.name.clone());
        }
        Ok(Config { document, settings, fixed, warnings, absent: self.absent_interface(written) })
    }

    fn absent_interface(&self, document: &Document) -> Option<String> {
        let of_listeners = document.listener.iter().enumerate().flat_map(|(index, listener)| {
            let joined = listener.join.iter().flat_map(|join| &join.0).map(|join| ("join", &join.interface));
            let all = std::iter::once(("interface", &listener.interface)).chain(joined);
            all.map(move |(key, interface)| ("listener", index, key, interface))
        });
        let of_destinations = document.destination.iter().enumerate();
        let of_destinations = of_destinations.map(|(index, to)| ("destination", index, "interface", &to.interface));
        of_listeners.chain(of_destinations).find_map(|(table, index, key, interface)| {
            let name = interface.as_ref().filter(|name| !self.local.interfaces.contains(*name))?;
            let there: Vec<&str> = self.local.interfaces.iter().map(String::as_str).collect();
            let message = format!("{table}: {key}: this machine has no `{name}` (it has {})", there.join(", "));
            Some(self.place(&[Step::Key(table), Step::Index(index), Step::Key(key)], &message))
        })
    }

    /// The settings of a room that forwards all that it receives, if it has destinations.
    pub(super) fn forwarding(
        &self,
        workers: Option<usize>,
        listeners: &[document::Listener],
        destinations: &[Destination],
    ) -> Result<Settings> {
        let listeners = self.listeners(listeners)?;
        let destinations = match destinations {
            [] => Vec::new(),
            written => self.destinations(written, &listeners)?,
        };
        let rules = if destinations.is_empty() { Vec::new() } else { vec![rules::everything(&destinations, &[])] };
        self.refuse_two_answers(&[], &rules, &destinations, &[], Matching::First)?;
        Ok(Settings {
            workers: self::workers(workers),
            gather: Duration::ZERO,
            drain: DRAIN,
            steering: None,
            listeners,
            destinations,
            groups: Vec::new(),
            rules,
            matching: Matching::First,
            on_loop: OnLoop::Off,
        })
    }

    /// What is allowed and hardly meant.
    fn warnings(&self, settings: &Settings) -> Vec<String> {
        let mut warnings = self.foreign_sources(&settings.destinations);
        for (index, listener) in settings.listeners.iter().enumerate() {
            if listener.address.port() == 0 {
                let message =
                    format!("listener `{}`: port 0 is another port at each start (the log says which)", listener.name);
                warnings.push(self.place(&[Step::Key("listener"), Step::Index(index), Step::Key("address")], &message));
            }
        }
        let recipients: HashSet<Recipient> = settings.rules.iter().flat_map(|rule| rule.to.iter().copied()).collect();
        let members: HashSet<usize> = settings.groups.iter().flat_map(|group| group.members.iter().copied()).collect();
        for (index, group) in settings.groups.iter().enumerate() {
            if !recipients.contains(&Recipient::Group(index)) {
                let message = format!("group `{}`: no rule leads to it", group.name);
                warnings.push(self.place(&[Step::Key("group"), Step::Index(index)], &message));
            }
        }
        for (index, destination) in settings.destinations.iter().enumerate() {
            if !members.contains(&index) && !recipients.contains(&Recipient::Destination(index)) {
                let message = format!("destination `{}`: no rule leads to it", destination.name);
                warnings.push(self.place(&[Step::Key("destination"), Step::Index(index)], &message));
            }
        }
        warnings
    }

    fn error(&self, path: &[Step<'_>], message: &str) -> anyhow::Error {
        anyhow!(self.place(path, message))
    }

    fn place(&self, path: &[Step<'_>], message: &str) -> String {
        match self.file {
            Some(file) => format!("{}: {message}", file.place(path)),
            None => message.to_owned(),
        }
    }

    /// A name that is not empty, stays on one line and is new among `taken`, to which it is added. `what` is its kind, and
    /// its table's key.
    fn name(&self, what: &str, index: usize, name: String, taken: &mut HashSet<String>) -> Result<String> {
        let path = [Step::Key(what), Step::Index(index), Step::Key("name")];
        if name.is_empty() || name.len() > LONGEST_NAME || shown(&name) != name {
            let message =
                format!("{what} {name:?}: a name has 1 to {LONGEST_NAME} characters, all of which can be seen");
            return Err(self.error(&path, &message));
        }
        if !taken.insert(name.clone()) {
            let message = format!("{what} `{name}`: the name is taken (give one of them another `name`)");
            return Err(self.error(&path, &message));
        }
        Ok(name)
    }
}

/// Threads that move datagrams.
fn workers(written: Option<usize>) -> usize {
    written.unwrap_or_else(|| available_parallelism().map_or(1, NonZeroUsize::get).min(WORKERS))
}

/// The places of things by their names.
fn places<'a>(names: impl IntoIterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    names.into_iter().enumerate().map(|(index, name)| (name, index)).collect()
}

/// The end of an error about a name that nothing has.
fn unknown<'a>(name: &str, kind: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    format!("there is no {kind} `{name}`{}", did_you_mean(name, valid))
}

/// More threads than this by default gain little: sends to one destination meet in the same device queue.
const WORKERS: usize = 4;

/// Orchestrators wait longer: systemd 90 s, Kubernetes 30 s.
const DRAIN: Duration = Duration::from_secs(5);

/// Names are labels of metrics.
const LONGEST_NAME: usize = 200;
