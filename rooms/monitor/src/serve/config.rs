//! The configuration of a server, from a file or from flags.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use weir_program::config::{self, Address, Checked, Document, Many, Pointed, Step, UserName};
use weir_program::{keys, values};
use weir_service::{Fixed, http};
use weir_signal::{history, receive};
use weir_units::{Frequency, Share, Size, Span};
use weir_wire::signal::Limits;
use weir_wire::signal::field::MOST_TEXT;

use super::derive;
use super::settings::{self, Keys, Rule, Settings, Watching, Window};
use crate::config::{HostName, Listen, Name, Text, listens};
use crate::needed::Needed;
use crate::outputs::{Format, Output};
use weir_signal::seal::SigningKey;

keys! {
    /// A configuration of `weir monitor serve`.
    pub struct Config {
        /// Where the page is served.
        http (fixed): Address = "127.0.0.1:5180";
        /// Names by which clients know this host.
        hosts (fixed): Vec<Host>;
        /// Origins of other pages that may read, and acknowledge.
        origins (fixed): Vec<WebOrigin>;
        /// Whether nobody may acknowledge alarms.
        read_only (fixed): bool;
        /// Other servers of this feed, as a browser reaches them.
        peers: Vec<WebOrigin>;
        /// How long signals are kept.
        history (fixed): Span = "10m", "1s" to "24h";
        /// In how much memory; an equal part each.
        memory (fixed): Size = "512MiB", "1MiB" to "1024GiB";
        /// Receive buffer of each socket; what the kernel does not grant is said at the start, with the remedy.
        receive_buffer (fixed): Size = "8MiB", "4KiB" to "1GiB";
        /// How long a datagram waits for what is before it.
        reorder (fixed): Span = "20ms", "0" to "1s";
        /// File of the group's key: nothing unencrypted is taken.
        key (fixed): Option<PathBuf>;
        /// Files of the senders' public keys: nothing unsigned is taken. Without it: anybody may send.
        senders (fixed): Option<Vec<PathBuf>>;
        /// Share of what is between limits that a value has to come back by.
        hysteresis: Share = "1%";
        /// How long a channel may be without samples. Without it: three times what its longest block stands for, 500ms at least.
        stale: Option<Span>, "50ms" to "24h";
        /// Where `/metrics`, `/healthz`, `/readyz` and `/ledger` are served.
        admin (fixed): Option<Address>;
        /// The user to become once everything is open.
        user (fixed): Option<UserName>;
        /// How signals are sent on. Without it: they are not.
        publish (fixed): Option<Publish>;
        /// Where signals come in.
        listen (fixed): Vec<Listen> = [{ address = "239.192.77.1:5110" }];
        /// Channels made of others.
        derive: Vec<Derive>;
        /// Other tools that are sent signals.
        output: Vec<OutputKeys>;
        /// Limits beside those of the stations; the first that fits is taken.
        limit: Vec<Limit>;
    }
    gone { sign: "receivers ask stations for nothing: remove it"; }
}

keys! {
    /// A channel made of others.
    pub struct Derive {
        /// Of the channel; its station is `derived`.
        name: Name<MOST_TEXT>;
        /// Of what it measures.
        unit: Text<MOST_TEXT>;
        /// Of what it is made.
        expression: String;
        /// What is made of its last samples.
        statistic: Option<Statistic>;
        /// Over how long a time.
        window: Option<Span>, "1ns" to "24h";
        /// Of an amplitude: at which frequency.
        frequency: Option<Frequency>, "0.000001/s" to;
    }
}

keys! {
    /// How signals are sent on.
    pub struct Publish {
        /// Groups or addresses, with their ports; all get the same.
        to: Many<Address> = ["239.192.77.2:5110"];
        /// Of groups: the interface to send through. Without it: where a route leads.
        interface: Option<String>;
        /// Hops to groups.
        ttl: u8 = 1;
        /// By which viewers know this server. Without it: the host's name.
        name: HostName;
        /// What servers of the same signals have in common.
        feed: Name<MOST_TEXT> = "view";
        /// Of the servers of a feed, viewers follow the one with the least.
        priority: u8 = 0;
        /// Buckets of a channel a second.
        rate: Frequency = "200/s", "0.1/s" to "10k/s";
        /// How long samples wait for others.
        delay: Span = "10ms", "1ms" to "1s";
        /// File of the key to sign with.
        sign: Option<PathBuf>;
    }
}

keys! {
    /// Another tool that is sent signals.
    pub struct OutputKeys {
        /// Where it goes.
        to: Address;
        /// How points are written.
        format: FormatName;
        /// Channels by name or by `station/stream/name`, `*` for any characters. Without it: all.
        channels: Vec<String>;
        /// Most points of a channel a second.
        rate: Frequency = "100/s", "0.1/s" to "10k/s";
    }
}

keys! {
    /// Limits of channels.
    pub struct Limit {
        /// `station/channel`; `*` stands for any characters.
        channel: String;
        /// Below it is a major alarm.
        very_low: Option<f64>;
        /// Below it is a minor alarm.
        low: Option<f64>;
        /// Above it is a minor alarm.
        high: Option<f64>;
        /// Above it is a major alarm.
        very_high: Option<f64>;
    }
}

/// A statistic by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// Of the last samples: their mean.
    Mean,
    /// The root of the mean of their squares.
    Rms,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their standard deviation.
    Std,
    /// Of their spectrum: the frequency of the greatest amplitude.
    PeakFrequency,
    /// The amplitude at one frequency.
    Amplitude,
}

/// A format by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FormatName {
    /// See [`Format::PlotJuggler`].
    PlotJuggler,
    /// See [`Format::Influx`].
    Influx,
}

/// A name of a host, without scheme and port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Host(String);

impl TryFrom<String> for Host {
    type Error = String;

    fn try_from(host: String) -> Result<Self, String> {
        match host.is_empty() || host.contains([':', '/']) {
            true => Err(format!("`{host}`: write a name, e.g. control.example, without scheme and port")),
            false => Ok(Self(host)),
        }
    }
}

/// Scheme, host and port, as a browser has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct WebOrigin(String);

impl TryFrom<String> for WebOrigin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or_default();
        match !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)) {
            true => Ok(Self(text)),
            false => Err(format!("`{text}`: write e.g. http://control-2:5180, without a path")),
        }
    }
}

values! {
    Statistic = "mean, rms, min, max, std, peak_frequency, amplitude", FormatName = "plotjuggler, influx", Host = "host",
    WebOrigin = "origin",
}

/// A configuration that is read at the start and with each reload.
pub type Origin = config::Origin<Config>;

/// Reads it at the start, with the files of keys that it names, and if it is only to be checked with all else that it needs of this
/// machine.
///
/// # Errors
/// A line a mistake; a key cannot be read, an interface or an address is not there.
pub fn begin(origin: &Origin, is_check: bool) -> Result<Config> {
    origin.load_with(|config, document| {
        let (settings, needed) = (config.settings(document)?, Needed::new(document));
        needed.keys(&settings.keys)?;
        let publish = settings.publish.as_ref();
        let at = |key| [Step::Key("publish"), Step::Key(key)];
        needed.key(&at("sign"), publish.and_then(|publish| publish.sign.as_deref()), SigningKey::read)?;
        if is_check {
            needed.listen(&settings.receive.listen)?;
            needed.interface(&at("interface"), publish.and_then(|publish| publish.interface.as_deref()))?;
            needed.server("http", settings.http)?;
            config.admin.map_or(Ok(()), |Address(admin)| needed.server("admin", admin))?;
        }
        Ok(())
    })
}

impl Checked for Config {
    fn check(&self, document: &Document<'_>) -> Result<()> {
        self.settings(document).map(drop)
    }
}

impl Config {
    /// What a server is to do.
    ///
    /// # Errors
    /// What its values have to be to one another, and are not, with its place.
    pub fn settings(&self, document: &Document<'_>) -> Result<Settings> {
        let wrong = |key: &'static str, message: String| Err(document.wrong(&[Step::Key(key)], message));
        let listen = listens(&self.listen, document)?;
        if self.senders.as_ref().is_some_and(Vec::is_empty) {
            return wrong("senders", Keys::NO_SENDERS.into());
        }
        let (Address(http), admin) = (self.http, self.admin.map(|Address(admin)| admin));
        for (key, address) in [("http", Some(http)), ("admin", admin)] {
            if let Some(address) = address.filter(|address| address.ip().is_multicast()) {
                return wrong(key, format!("{address} is a group (name an address of this machine)"));
            }
        }
        if let Some(admin) = admin.filter(|admin| is_same_place(*admin, http)) {
            return wrong(
                "admin",
                format!("{admin} is where the page is served, at {http} (give it a port of its own)"),
            );
        }
        let rules = self.limit.iter().enumerate().map(|(index, limit)| limit.rule(index, document));
        let watching = Watching {
            hysteresis: self.hysteresis.fraction(),
            stale: self.stale.map(Span::duration),
            rules: rules.collect::<Result<_>>()?,
            derive: self.derived(document)?,
        };
        let texts = |origins: &[WebOrigin]| origins.iter().map(|origin| origin.0.clone()).collect();
        let bytes = |size: Size| usize::try_from(size.bytes).unwrap_or(usize::MAX);
        Ok(Settings {
            publish: self.publish.as_ref().map(|publish| publish.settings(&listen, document)).transpose()?,
            outputs: self.outputs(&listen, document)?,
            receive: receive::Settings {
                listen,
                receive_buffer: bytes(self.receive_buffer),
                bounds: receive::Bounds { reorder: self.reorder.duration(), ..receive::Bounds::default() },
            },
            keys: Keys { group: self.key.clone(), senders: self.senders.clone().unwrap_or_default() },
            http,
            api: http::Settings {
                read_only: self.read_only,
                hosts: self.hosts.iter().map(|host| host.0.clone()).collect(),
                origins: texts(&self.origins),
            },
            peers: texts(&self.peers),
            history: history::Bounds {
                span: self.history.duration(),
                bytes: bytes(self.memory),
                ..history::Bounds::default()
            },
            watching: Arc::new(watching),
        })
    }

    fn derived(&self, document: &Document<'_>) -> Result<Vec<settings::Derive>> {
        let at = |index, key| [Step::Key("derive"), Step::Index(index), Step::Key(key)];
        let mut derived: Vec<settings::Derive> = Vec::new();
        for (index, written) in self.derive.iter().enumerate() {
            let Name(name) = &written.name;
            if derived.iter().any(|other| other.name == *name) {
                return Err(document.wrong(&at(index, "name"), format!("`{name}` is there twice (remove one of them)")));
            }
            derive::read(&written.expression).map_err(|error| {
                let line = document.wrong(&at(index, "expression"), error.message).to_string();
                Pointed { line, text: written.expression.clone(), at: error.at }
            })?;
            let window = written.window().map_err(|(key, message)| document.wrong(&at(index, key), message))?;
            derived.push(settings::Derive {
                name: name.clone(),
                unit: written.unit.0.clone(),
                expression: written.expression.clone(),
                window,
            });
        }
        let named: Vec<_> = derived.iter().map(|derive| (derive.name.clone(), derive.expression.clone())).collect();
        derive::order(&named).map_err(|(index, message)| document.wrong(&at(index, "expression"), message))?;
        Ok(derived)
    }

    fn outputs(&self, listen: &[receive::Listen], document: &Document<'_>) -> Result<Vec<Output>> {
        let mut outputs: Vec<Output> = Vec::new();
        for (index, OutputKeys { to: Address(to), format, channels, rate }) in self.output.iter().enumerate() {
            let wrong = |message: String| {
                Err(document.wrong(&[Step::Key("output"), Step::Index(index), Step::Key("to")], message))
            };
            if to.port() == 0 || to.ip().is_unspecified() {
                return wrong(format!("nobody can be reached at {to} (name an address and its port)"));
            }
            if outputs.iter().any(|other| other.to == *to) {
                return wrong(format!("{to} is there twice (name all its channels in one)"));
            }
            if listen.iter().any(|listen| listen.address == *to) {
                return wrong(format!("stations are listened to at {to} (name the address of the other tool)"));
            }
            let format = match format {
                FormatName::PlotJuggler => Format::PlotJuggler,
                FormatName::Influx => Format::Influx,
            };
            let most = rate.micro_hertz as f64 / 1e6;
            outputs.push(Output { to: *to, format, channels: channels.clone(), most });
        }
        Ok(outputs)
    }

    /// What only a start can change.
    pub(super) fn fixed(&self) -> Fixed {
        Fixed::of(self.admin, self.user.as_ref())
    }
}

impl Derive {
    /// What is made of its last samples; else the key that is wrong, and why.
    fn window(&self) -> Result<Option<Window>, (&'static str, String)> {
        use settings::Statistic::{Max, Mean, Min, Rms, Std};
        let Some(window) = self.window.map(Span::duration) else {
            return match self.statistic {
                None => Ok(None),
                Some(_) => Err(("statistic", "say over how long a time: window = \"1s\"".into())),
            };
        };
        if self.frequency.is_some() && self.statistic != Some(Statistic::Amplitude) {
            return Err(("frequency", "it is of statistic = \"amplitude\" alone (remove it)".into()));
        }
        Ok(Some(match self.statistic {
            None => {
                return Err(("window", format!("say what of it: statistic = {}", <Statistic as config::Value>::KIND)));
            }
            Some(Statistic::Mean) => Window::Moving(Mean, window),
            Some(Statistic::Rms) => Window::Moving(Rms, window),
            Some(Statistic::Min) => Window::Moving(Min, window),
            Some(Statistic::Max) => Window::Moving(Max, window),
            Some(Statistic::Std) => Window::Moving(Std, window),
            Some(Statistic::PeakFrequency) => Window::PeakFrequency(window),
            Some(Statistic::Amplitude) => match self.frequency {
                Some(frequency) => Window::Amplitude(frequency, window),
                None => return Err(("statistic", "say at which frequency: frequency = \"50/s\"".into())),
            },
        }))
    }
}

impl Publish {
    fn settings(&self, listen: &[receive::Listen], document: &Document<'_>) -> Result<settings::Publish> {
        let wrong = |message: String| Err(document.wrong(&[Step::Key("publish"), Step::Key("to")], message));
        let to: Vec<SocketAddr> = self.to.iter().map(|Address(to)| *to).collect();
        if to.is_empty() {
            return wrong("nobody: name a group, or leave it out for 239.192.77.2:5110".into());
        }
        for (index, address) in to.iter().enumerate() {
            if to[..index].contains(address) {
                return wrong(format!("{address} is there twice (remove one of them)"));
            }
            if listen.iter().any(|listen| listen.address == *address) {
                let why = "is listened to as well: signals would go round for ever (name another group)";
                return wrong(format!("{address} {why}"));
            }
            if address.port() == 0 || address.ip().is_unspecified() {
                return wrong(format!("nobody can be reached at {address}"));
            }
        }
        Ok(settings::Publish {
            to,
            interface: self.interface.clone(),
            ttl: self.ttl,
            name: self.name.0.0.clone(),
            feed: self.feed.0.clone(),
            priority: self.priority,
            rate: self.rate.micro_hertz,
            delay: self.delay.duration(),
            sign: self.sign.clone(),
        })
    }
}

impl Limit {
    fn rule(&self, index: usize, document: &Document<'_>) -> Result<Rule> {
        let Self { channel, very_low, low, high, very_high } = self;
        let wrong = |key, message: String| {
            Err(document.wrong(&[Step::Key("limit"), Step::Index(index), Step::Key(key)], message))
        };
        if !channel.contains('/') && channel != "*" {
            return wrong("channel", format!("`{channel}`: write STATION/CHANNEL, e.g. coil/I1 or */I*"));
        }
        let order = [("very_low", very_low), ("low", low), ("high", high), ("very_high", very_high)];
        let told: Vec<(&str, f64)> = order.into_iter().filter_map(|(key, limit)| Some((key, (*limit)?))).collect();
        if told.is_empty() {
            return wrong("channel", format!("{channel} has no limit (very_low, low, high, very_high)"));
        }
        if let Some(pair) = told.windows(2).find(|pair| pair[0].1 > pair[1].1) {
            return wrong(pair[0].0, format!("it is above {}", pair[1].0));
        }
        let limits = Limits { very_low: *very_low, low: *low, high: *high, very_high: *very_high, ..Limits::default() };
        Ok(Rule { channel: channel.clone(), limits })
    }
}

/// Whether one cannot listen at both: 0.0.0.0 is all addresses of its family.
fn is_same_place(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    let overlap = a == b || a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified());
    overlap && one.port() == other.port() && one.port() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        Config::of(&Document::parse("m.toml", text)?)
    }

    #[test]
    fn nothing_is_enough_and_what_is_printed_means_the_same() {
        let least = read("").unwrap();
        assert_eq!(least.listen[0].address.0.to_string(), "239.192.77.1:5110");
        assert_eq!(least.http.0.to_string(), "127.0.0.1:5180");
        let all = "http = \"0.0.0.0:80\"\nhosts = [\"a\"]\norigins = [\"https://b\"]\nread_only = true\npeers = [\"http://c:5180\"]\n\
                   history = \"1min\"\nmemory = \"64MiB\"\nreceive_buffer = \"1MiB\"\nreorder = \"5ms\"\nkey = \"k\"\n\
                   senders = [\"p\"]\nhysteresis = \"2%\"\nstale = \"2s\"\nadmin = \"127.0.0.1:9518\"\n\
                   [[derive]]\nname = \"p\"\nunit = \"W\"\nexpression = \"{a/b}*2\"\nstatistic = \"rms\"\nwindow = \"2s\"\n\
                   [[derive]]\nname = \"f\"\nexpression = \"{a/b}\"\nstatistic = \"peak_frequency\"\nwindow = \"1s\"\n\
                   [[derive]]\nname = \"h\"\nexpression = \"{a/b}\"\nstatistic = \"amplitude\"\nwindow = \"1s\"\n\
                   frequency = \"50/s\"\n\
                   [[output]]\nto = \"127.0.0.1:9870\"\nformat = \"plotjuggler\"\nchannels = [\"I*\"]\nrate = \"50/s\"\n\
                   [[output]]\nto = \"127.0.0.1:8089\"\nformat = \"influx\"\n\
                   [publish]\nto = [\"239.9.9.9:9\"]\nname = \"n\"\nfeed = \"f\"\npriority = 3\nrate = \"50/s\"\n\
                   delay = \"5ms\"\nttl = 4\ninterface = \"eth1\"\nsign = \"s\"\n\
                   [[listen]]\naddress = \"239.1.1.1:7\"\ninterface = \"eth0\"\nsource = \"10.0.0.1\"\n\
                   [[limit]]\nchannel = \"*/T\"\nhigh = 3.5\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
    }

    #[test]
    fn one_of_a_list_needs_no_brackets() {
        let one = read("[publish]\nto = \"239.9.9.9:9\"\n").unwrap();
        assert_eq!(one, read("[publish]\nto = [\"239.9.9.9:9\"]\n").unwrap());
        let error = read("[publish]\nto = 7\n").unwrap_err().to_string();
        assert!(error.starts_with("m.toml:2: ") && error.contains("a text, or a list of them"), "{error}");
    }

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        let listen = "[[listen]]\naddress = \"239.1.1.1:5110\"\n";
        for (text, line) in [
            (
                format!("{listen}{listen}"),
                "m.toml:4: listen.address: 239.1.1.1:5110 is there twice (remove one of them)",
            ),
            (
                "[[listen]]\naddress = \"10.0.0.1:5110\"\ninterface = \"eth0\"\n".into(),
                "m.toml:3: listen.interface: 10.0.0.1:5110 is no group: remove it",
            ),
            (
                "[[listen]]\naddress = \"239.1.1.1:5110\"\nsource = \"239.1.1.2\"\n".into(),
                "m.toml:3: listen.source: nobody sends from 239.1.1.2 (write the address of one machine)",
            ),
            (
                "http = \"239.1.1.1:80\"\n".into(),
                "m.toml:1: http: 239.1.1.1:80 is a group (name an address of this machine)",
            ),
            (
                "admin = \"[ff02::1]:80\"\n".into(),
                "m.toml:1: admin: [ff02::1]:80 is a group (name an address of this machine)",
            ),
            (
                "admin = \"127.0.0.1:5180\"\n".into(),
                "m.toml:1: admin: 127.0.0.1:5180 is where the page is served, at 127.0.0.1:5180 (give it a port of its own)",
            ),
            (
                "http = \"127.0.0.1:80\"\nadmin = \"0.0.0.0:80\"\n".into(),
                "m.toml:2: admin: 0.0.0.0:80 is where the page is served, at 127.0.0.1:80 (give it a port of its own)",
            ),
            ("history = \"1ms\"\n".into(), "m.toml:1: history: 1ms (it must be 1s to 24h)"),
            ("memory = \"1KiB\"\n".into(), "m.toml:1: memory: 1KiB (it must be 1MiB to 1024GiB)"),
            (
                "peers = [\"control-2\"]\n".into(),
                "m.toml:1: peers: `control-2`: write e.g. http://control-2:5180, without a path",
            ),
            ("[[limit]]\nchannel = \"s/a\"\nlow = 2.0\nhigh = 1.0\n".into(), "m.toml:3: limit.low: it is above high"),
            (
                "[[limit]]\nchannel = \"s/a\"\n".into(),
                "m.toml:2: limit.channel: s/a has no limit (very_low, low, high, very_high)",
            ),
            (
                "[publish]\nto = [\"239.192.77.1:5110\"]\n".into(),
                "m.toml:2: publish.to: 239.192.77.1:5110 is listened to as well: signals would go round for ever (name another group)",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"I*U\"\n".into(),
                "m.toml:3: derive.expression: `I` is no channel: write {STATION/CHANNEL}, e.g. {coil/I}",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{a/b\"\n".into(),
                "m.toml:3: derive.expression: the brace is not closed",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{a/b} + foo(2)\"\n".into(),
                "m.toml:3: derive.expression: no function `foo`",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{derived/p} + {a/b}\"\n".into(),
                "m.toml:3: derive.expression: `p` is not above it: write it after those that it uses",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{derived/q}\"\n[[derive]]\nname = \"q\"\nexpression = \"{a/b}\"\n"
                    .into(),
                "m.toml:3: derive.expression: `q` is not above it: write it after those that it uses",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{a/b}\"\nstatistic = \"amplitude\"\nwindow = \"1s\"\n".into(),
                "m.toml:4: derive.statistic: say at which frequency: frequency = \"50/s\"",
            ),
            (
                "[[output]]\nto = \"10.0.0.1:0\"\nformat = \"influx\"\n".into(),
                "m.toml:2: output.to: nobody can be reached at 10.0.0.1:0 (name an address and its port)",
            ),
            (
                format!("{0}{0}", "[[output]]\nto = \"10.0.0.1:9\"\nformat = \"influx\"\n"),
                "m.toml:5: output.to: 10.0.0.1:9 is there twice (name all its channels in one)",
            ),
            (
                "key = \"k\"\nsenders = []\n".into(),
                "m.toml:2: senders: it names nobody (name the files of those who may send, or leave it out: then anybody may)",
            ),
            ("sign = \"f\"\n".into(), "m.toml:1: sign is gone: receivers ask stations for nothing: remove it"),
            ("histery = \"1s\"\n".into(), "m.toml:1: unknown key `histery`, did you mean `history`?"),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), line);
        }
    }
}
