//! From a file, or from flags, to validated [`Settings`]; and back, for `--check`.

mod check;
pub mod document;

use std::net::SocketAddr;

use anyhow::Result;
use weir_program::config::{Address, Base};
use weir_service::{Fixed, Target};
use weir_units::{Frequency, Span};
use weir_wire::sflow::PORT;

use crate::settings::{Sampling, Settings};
use document::{Collector, Document};

/// A validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What to do.
    pub settings: Settings,
    /// What only a start can change.
    pub fixed: Fixed,
}

/// A configuration to be read, perhaps again and again.
#[derive(Clone, Debug)]
pub struct Origin {
    /// A file, or what flags said.
    pub base: Base<Document>,
    /// Flags that replace keys of a file.
    pub fixed: Fixed,
}

impl Origin {
    /// Reads and checks it, as it is now.
    ///
    /// # Errors
    /// One line with the place: not TOML, an unknown key, a value out of its bounds.
    pub fn load(&self) -> Result<Config> {
        self.base.load(|document, file| {
            let document = Document {
                admin: self.fixed.admin.map(Address).or(document.admin),
                user: self.fixed.user.clone().or(document.user),
                ..document
            };
            check::config(document, file)
        })
    }
}

impl Config {
    /// The file that says the same with every default written out.
    pub fn to_toml(&self) -> String {
        let Settings { collectors, agent, interfaces, polling, sampling, most_samples, most_drops } = &self.settings;
        let document = Document {
            agent: *agent,
            interfaces: (!interfaces.is_empty()).then(|| interfaces.clone()),
            polling: Some(Span::from_nanos(u64::try_from(polling.as_nanos()).unwrap_or(u64::MAX))),
            sampling: match sampling {
                Sampling::Off => Some(0),
                Sampling::BySpeed => None,
                Sampling::One(rate) => Some(rate.get()),
            },
            samples: Some(frequency(*most_samples)),
            drops: Some(frequency(*most_drops)),
            admin: self.fixed.admin.map(Address),
            user: self.fixed.user.clone(),
            collectors: collectors.iter().map(|to| Collector { to: to.clone() }).collect(),
        };
        // Every key of the document has a form in TOML.
        toml::to_string(&document).unwrap_or_default()
    }
}

fn frequency(hertz: u32) -> Frequency {
    Frequency { micro_hertz: u64::from(hertz) * 1_000_000 }
}

/// Reads `192.0.2.7`, `2001:db8::7`, `[2001:db8::7]:6343`, `collector.example` or `collector.example:6343`; without a port
/// it is sFlow's, 6343. Nothing is looked up.
///
/// # Errors
/// What to write.
pub fn collector(text: &str) -> Result<Target, String> {
    if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok(Target::Address(SocketAddr::new(address, PORT)));
    }
    text.parse().or_else(|_| format!("{text}:{PORT}").parse()).map_err(|_: String| {
        format!("`{text}`: write HOST or HOST:PORT, e.g. 192.0.2.7, [2001:db8::7]:6343 or collector.example")
    })
}
