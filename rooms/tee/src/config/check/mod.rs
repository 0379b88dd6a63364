//! From what is written to what is meant: names resolved, defaults filled in, every value within its bounds.

mod destinations;
mod listeners;
mod rules;

use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, anyhow};
use weir_service::Fixed;
use weir_service::config::{self, Step, did_you_mean};
use weir_units::Span;

use super::document::{self, Document};
use super::{Config, Local, shadows};
use crate::settings::{Matching, Recipient, Settings};

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
    pub(super) fn config(&self, document: &Document) -> Result<Config> {
        let listeners = self.listeners(&document.listeners)?;
        let destinations = self.destinations(&document.destinations, &listeners)?;
        let groups = self.groups(&document.groups, &destinations)?;
        let rules = self.rules(&document.rules, &listeners, &destinations, &groups)?;
        let settings = Settings {
            workers: self.workers(document.workers)?,
            gather: self.gather(document.gather)?,
            drain: document.drain.map_or(DRAIN, Span::duration),
            lending: true,
            steering: None,
            listeners,
            destinations,
            groups,
            rules,
            matching: document.matching.unwrap_or_default(),
        };
        let fixed = Fixed::new(document.admin.map(|address| address.0), document.user.clone())
            .map_err(|error| self.error(&[Step::Key("user")], &error))?;
        let warnings = self.warnings(&settings);
        Ok(Config { settings, fixed, warnings })
    }

    /// The settings of a room that forwards all that it receives, if it has destinations.
    pub(super) fn forwarding(
        &self,
        workers: Option<usize>,
        listeners: &[document::Listener],
        destinations: &[document::Destination],
    ) -> Result<Settings> {
        let listeners = self.listeners(listeners)?;
        let destinations = match destinations {
            [] => Vec::new(),
            written => self.destinations(written, &listeners)?,
        };
        let rules = if destinations.is_empty() { Vec::new() } else { vec![rules::everything(&destinations, &[])] };
        Ok(Settings {
            workers: self.workers(workers)?,
            gather: Duration::ZERO,
            drain: DRAIN,
            lending: true,
            steering: None,
            listeners,
            destinations,
            groups: Vec::new(),
            rules,
            matching: Matching::First,
        })
    }

    fn workers(&self, workers: Option<usize>) -> Result<usize> {
        match workers {
            None => Ok(available_parallelism().map_or(1, NonZeroUsize::get).min(WORKERS)),
            Some(workers) if (1..=MOST_WORKERS).contains(&workers) => Ok(workers),
            Some(workers) => {
                let message = format!("workers: {workers} threads (it must be 1 to {MOST_WORKERS})");
                Err(self.error(&[Step::Key("workers")], &message))
            }
        }
    }

    fn gather(&self, gather: Option<Span>) -> Result<Duration> {
        let gather = gather.unwrap_or_default();
        if gather > LONGEST_GATHER {
            let message = format!("gather: {gather} would hold datagrams back for too long (at most {LONGEST_GATHER})");
            return Err(self.error(&[Step::Key("gather")], &message));
        }
        Ok(gather.duration())
    }

    /// What is allowed and hardly meant.
    fn warnings(&self, settings: &Settings) -> Vec<String> {
        let mut warnings = Vec::new();
        for index in shadows::unreachable(settings) {
            let name = &settings.rules[index].name;
            let message = format!("rule `{name}`: never matches: the rules before it take all of its sources");
            warnings.push(self.place(&[Step::Key("rule"), Step::Index(index)], &message));
        }
        let recipients: Vec<Recipient> = settings.rules.iter().flat_map(|rule| rule.to.iter().copied()).collect();
        for (index, group) in settings.groups.iter().enumerate() {
            if !recipients.contains(&Recipient::Group(index)) {
                let message = format!("group `{}`: no rule leads to it", group.name);
                warnings.push(self.place(&[Step::Key("group"), Step::Index(index)], &message));
            }
        }
        for (index, destination) in settings.destinations.iter().enumerate() {
            let is_member = settings.groups.iter().any(|group| group.members.contains(&index));
            if !is_member && !recipients.contains(&Recipient::Destination(index)) {
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

    /// A name that is not empty, stays on one line and is new among `taken`. `what` is its kind, and its table's key.
    fn name(&self, what: &str, index: usize, name: String, taken: &[&str]) -> Result<String> {
        let path = [Step::Key(what), Step::Index(index), Step::Key("name")];
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            let message = format!("{what} {name:?}: a name has 1 to {LONGEST_NAME} characters and no line breaks");
            return Err(self.error(&path, &message));
        }
        if taken.contains(&name.as_str()) {
            let message = format!("{what} `{name}`: the name is taken (give one of them another `name`)");
            return Err(self.error(&path, &message));
        }
        Ok(name)
    }
}

/// The end of an error about a name that nothing has.
fn unknown<'a>(name: &str, kind: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    format!("there is no {kind} `{name}`{}", did_you_mean(name, valid))
}

/// More threads than this by default gain little: sends to one destination meet in the same device queue.
const WORKERS: usize = 4;

const MOST_WORKERS: usize = 256;

/// Orchestrators wait longer: systemd 90 s, Kubernetes 30 s.
const DRAIN: Duration = Duration::from_secs(5);

const LONGEST_GATHER: Span = Span::from_secs(1);

/// Names are labels of metrics.
const LONGEST_NAME: usize = 200;
