//! From a file, or from flags, to validated [`Settings`]; and back, for `--check`.

mod check;
pub mod document;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use weir_program::config::{Address, Base, Step};
use weir_service::Fixed;
use weir_units::{Frequency, Share, Size, Span};

use super::settings::{self, Rule, Settings, Watching, Window};
use crate::needed::Needed;
use crate::receive;
use crate::seal::SigningKey;
use document::{Derive, Document, Limit, Listen, Publish, Statistic};

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
    /// A flag that replaces a key of a file.
    pub http: Option<SocketAddr>,
    /// Flags that replace keys of a file.
    pub fixed: Fixed,
}

impl Origin {
    /// Reads and checks it, as it is now.
    ///
    /// # Errors
    /// One line with the place: not TOML, an unknown key, a value out of its bounds.
    pub fn load(&self) -> Result<Config> {
        self.base.load(|document, file| check::config(self.with_flags(document), file))
    }

    /// The same at the start, with the files of keys that it names, and if it is only to be checked with all else that it needs of this
    /// machine.
    ///
    /// # Errors
    /// Likewise; a key cannot be read, an interface or an address is not there.
    pub fn begin(&self, is_check: bool) -> Result<Config> {
        self.base.load(|document, file| {
            let config = check::config(self.with_flags(document), file)?;
            let (settings, needed) = (&config.settings, Needed::new(file));
            needed.keys(&settings.keys)?;
            let publish = settings.publish.as_ref();
            let at = |key| [Step::Key("publish"), Step::Key(key)];
            needed.key(&at("sign"), publish.and_then(|publish| publish.sign.as_deref()), SigningKey::read)?;
            if is_check {
                needed.listen(&settings.receive.listen)?;
                needed.interface(&at("interface"), publish.and_then(|publish| publish.interface.as_deref()))?;
                needed.server("http", settings.http, self.http.is_some())?;
                needed.admin(&config.fixed, &self.fixed)?;
            }
            Ok(config)
        })
    }

    fn with_flags(&self, document: Document) -> Document {
        Document {
            http: self.http.map(Address).or(document.http),
            admin: self.fixed.admin.map(Address).or(document.admin),
            user: self.fixed.user.clone().or(document.user),
            ..document
        }
    }
}

impl Config {
    /// The file that says the same with every default written out.
    pub fn to_toml(&self) -> String {
        let Settings { receive, keys, http, api, peers, history, watching, derive, publish, outputs } = &self.settings;
        let Watching { hysteresis, stale, rules } = &**watching;
        let texts = |texts: &[String]| (!texts.is_empty()).then(|| texts.to_vec());
        let size = |bytes: usize| Some(Size { bytes: bytes as u64 });
        let document = Document {
            http: Some(Address(*http)),
            hosts: texts(&api.hosts),
            origins: texts(&api.origins),
            read_only: Some(api.read_only),
            peers: texts(peers),
            history: Some(span(history.span)),
            memory: size(history.bytes),
            receive_buffer: size(receive.receive_buffer),
            reorder: Some(span(receive.bounds.reorder)),
            key: keys.group.clone(),
            senders: (!keys.senders.is_empty()).then(|| keys.senders.clone()),
            sign: keys.sign.clone(),
            hysteresis: Share::from_fraction(*hysteresis),
            stale: stale.map(span),
            admin: self.fixed.admin.map(Address),
            user: self.fixed.user.clone(),
            publish: publish.as_ref().map(written),
            listen: receive.listen.iter().map(listen).collect(),
            derive: derive.iter().map(derived).collect(),
            outputs: outputs.iter().map(Into::into).collect(),
            limits: rules.iter().map(limit).collect(),
        };
        // Every key of the document has a form in TOML.
        toml::to_string(&document).unwrap_or_default()
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn listen(listen: &receive::Listen) -> Listen {
    Listen { address: Address(listen.address), interface: listen.interface.clone(), source: listen.source }
}

fn written(publish: &settings::Publish) -> Publish {
    Publish {
        to: Some(publish.to.iter().copied().map(Address).collect()),
        interface: publish.interface.clone(),
        ttl: Some(publish.ttl),
        name: Some(publish.name.clone()),
        feed: Some(publish.feed.clone()),
        priority: Some(publish.priority),
        rate: Some(Frequency { micro_hertz: publish.rate }),
        delay: Some(span(publish.delay)),
        sign: publish.sign.clone(),
    }
}

fn derived(settings::Derive { name, unit, expression, window }: &settings::Derive) -> Derive {
    let (statistic, over, frequency) = match *window {
        None => (None, None, None),
        Some(Window::Moving(statistic, over)) => (Some(statistic.into()), Some(over), None),
        Some(Window::PeakFrequency(over)) => (Some(Statistic::PeakFrequency), Some(over), None),
        Some(Window::Amplitude(frequency, over)) => (Some(Statistic::Amplitude), Some(over), Some(frequency)),
    };
    Derive {
        name: name.clone(),
        unit: (!unit.is_empty()).then(|| unit.clone()),
        expression: expression.clone(),
        statistic,
        window: over.map(span),
        frequency,
    }
}

fn limit(Rule { channel, limits }: &Rule) -> Limit {
    Limit {
        channel: channel.clone(),
        very_low: limits.very_low,
        low: limits.low,
        high: limits.high,
        very_high: limits.very_high,
    }
}

impl From<settings::Statistic> for Statistic {
    fn from(statistic: settings::Statistic) -> Self {
        match statistic {
            settings::Statistic::Mean => Self::Mean,
            settings::Statistic::Rms => Self::Rms,
            settings::Statistic::Min => Self::Min,
            settings::Statistic::Max => Self::Max,
            settings::Statistic::Std => Self::Std,
        }
    }
}
