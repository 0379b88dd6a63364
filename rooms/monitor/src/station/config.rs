//! The configuration of a station, from a file or from flags.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use weir_program::config::{self, Address, Checked, Document, Many, Step, UserName};
use weir_program::{keys, kinds, values};
use weir_service::Fixed;
use weir_units::{Frequency, Size, Span};
use weir_wire::signal::field::{MOST_DESCRIPTION, MOST_TEXT};
use weir_wire::signal::{self, ClockSource, Limits, PORT, Rate};

use super::settings::{self, ChannelSettings, Generator, Group, Lines, Settings, Wave};
use super::sources;
use crate::config::{HostName, Name, Text};
use crate::needed::{Needed, is_pipe};
use crate::seal::{GroupKey, SigningKey};

keys! {
    /// A configuration of `weir monitor station`.
    pub struct Config {
        /// By which others know the station. Without it: the host's name.
        name (fixed): HostName;
        /// Where the thinned stream goes: one group or host, or two that get the same bytes.
        to (fixed): Many<GroupAddress> = ["239.192.77.1:5110"];
        /// Interfaces to send through: one for all, or one for each of `to`. Without it: where a route leads.
        interface (fixed): Many<String>;
        /// Where the full-rate stream goes, likewise. Without it: there is none.
        full_to (fixed): Many<GroupAddress>;
        /// Interfaces of `full_to`, likewise.
        full_interface (fixed): Many<String>;
        /// Hops to groups.
        ttl (fixed): u8 = 1;
        /// Differentiated services code point.
        dscp (fixed): u8 = 0, 0 to 63;
        /// Most bytes of a datagram; over IPv6 1452B.
        most_bytes (fixed): Size = "1472B", "1232B" to "1472B";
        /// Longest time from a sample to its datagram.
        delay (fixed): Span = "10ms", "1ms" to "10s";
        /// Buckets a second of a channel that does not say; 0: each sample.
        display: Frequency = "200/s";
        /// What keeps the clock. Without it: as the kernel says, which tells NTP from nothing, not PTP.
        clock (fixed): Option<Keeper>;
        /// File of the group's key, which encrypts. Others may not read it.
        encrypt (fixed): Option<PathBuf>;
        /// File of this station's key, which signs. Others may not read it.
        sign (fixed): Option<PathBuf>;
        /// Most channels; what comes beyond is refused, and counted.
        most_channels (fixed): u16 = 1024;
        /// Where `/metrics`, `/healthz`, `/readyz` and `/ledger` are served.
        admin (fixed): Option<Address>;
        /// The user to become once everything is open.
        user (fixed): Option<UserName>;
        /// Where samples come from.
        source (fixed): Vec<Source> = [{ kind = "host" }];
        /// What channels are.
        channel: Vec<Channel>;
    }
    gone {
        control: "stations take no requests (choose by `display` and `full`), remove it";
        servers: "stations take no requests, remove it";
    }
}

kinds! {
    /// Where samples come from.
    pub enum Source {
        /// A sine.
        Sine(Periodic) = "sine",
        /// A sine whose frequency goes up evenly, and begins anew.
        Chirp(Chirp) = "chirp",
        /// Random numbers.
        Noise(Noise) = "noise",
        /// Low and high in turn.
        Step(Periodic) = "step",
        /// The index.
        Counter(Counter) = "counter",
        /// This machine's metrics.
        Host(Host) = "host",
        /// Standard input.
        Stdin(Stdin) = "stdin",
        /// What is appended to a file.
        Tail(Tail) = "tail",
        /// Datagrams.
        Udp(Udp) = "udp",
        /// Shared memory.
        Ring(Ring) = "ring",
        /// A file of sound.
        Wav(Wav) = "wav",
    }
}

keys! {
    /// A wave.
    pub struct Periodic {
        /// Of its channel.
        name: SourceName;
        /// Samples a second.
        rate: Frequency = "1k/s", "0.001/s" to "1M/s";
        /// What values are on the wire.
        element: Element = "f32";
        /// Half of its height.
        amplitude: f64 = 1.0;
        /// Its middle.
        offset: f64 = 0.0;
        /// Periods a second.
        frequency: Frequency = "1/s";
        /// Where it begins, degrees.
        phase: f64 = 0.0;
        /// So many channels that differ in phase, numbered from 0. Without it: one, without a number.
        copies: Option<u16>, 1 to 4096;
    }
}

keys! {
    /// A wave of rising frequency.
    pub struct Chirp {
        /// Of its channel.
        name: SourceName;
        /// Samples a second.
        rate: Frequency = "1k/s", "0.001/s" to "1M/s";
        /// What values are on the wire.
        element: Element = "f32";
        /// Half of its height.
        amplitude: f64 = 1.0;
        /// Its middle.
        offset: f64 = 0.0;
        /// Periods a second at first.
        frequency: Frequency = "1/s";
        /// Periods a second at last.
        highest: Frequency = "100/s";
        /// From the first to the last.
        period: Span = "10s", "1ns" to;
        /// Where it begins, degrees.
        phase: f64 = 0.0;
        /// So many channels that differ in phase, numbered from 0. Without it: one, without a number.
        copies: Option<u16>, 1 to 4096;
    }
}

keys! {
    /// Random numbers from -1 to 1, each as likely.
    pub struct Noise {
        /// Of its channel.
        name: SourceName;
        /// Samples a second.
        rate: Frequency = "1k/s", "0.001/s" to "1M/s";
        /// What values are on the wire.
        element: Element = "f32";
        /// Times its numbers.
        amplitude: f64 = 1.0;
        /// Its middle.
        offset: f64 = 0.0;
        /// Of its numbers.
        seed: u64 = 1;
        /// So many channels that differ in seed, numbered from 0. Without it: one, without a number.
        copies: Option<u16>, 1 to 4096;
    }
}

keys! {
    /// Numbers in order.
    pub struct Counter {
        /// Of its channel.
        name: SourceName;
        /// Samples a second.
        rate: Frequency = "1k/s", "0.001/s" to "1M/s";
        /// What values are on the wire.
        element: Element = "f64";
        /// From one to the next.
        amplitude: f64 = 1.0;
        /// The first.
        offset: f64 = 0.0;
        /// So many channels, numbered from 0. Without it: one, without a number.
        copies: Option<u16>, 1 to 4096;
    }
}

keys! {
    /// This machine's metrics.
    pub struct Host {
        /// In front of the names of its channels.
        name: Option<SourceName>;
        /// Samples a second.
        rate: Frequency = "10/s", "0.001/s" to "1M/s";
        /// What values are on the wire.
        element: Element = "f32";
    }
}

keys! {
    /// Standard input.
    pub struct Stdin {
        /// In front of the names of its channels.
        name: Option<SourceName>;
        /// Samples a second.
        rate: Frequency = "10/s", "0.001/s" to "1M/s";
        /// What values are on the wire.
        element: Element = "f64";
        /// How lines are written.
        format: LineFormat = "csv";
        /// When values were: `points` have times of their own, else that of their arrival; `rows` are one sample each.
        time: Time = "points";
    }
}

keys! {
    /// What is appended to a file.
    pub struct Tail {
        /// Of the file.
        path: PathBuf;
        /// In front of the names of its channels.
        name: Option<SourceName>;
        /// Samples a second.
        rate: Frequency = "10/s", "0.001/s" to "1M/s";
        /// What values are on the wire.
        element: Element = "f64";
        /// How lines are written.
        format: LineFormat = "csv";
        /// When values were: `points` have times of their own, else that of their arrival; `rows` are one sample each.
        time: Time = "points";
    }
}

keys! {
    /// Datagrams that others send.
    pub struct Udp {
        /// Where they are received.
        listen: Address;
        /// How they are written.
        format: DatagramFormat;
        /// In front of the names of its channels.
        name: Option<SourceName>;
        /// Samples a second.
        rate: Frequency = "10/s", "0.001/s" to "1M/s";
        /// What values are on the wire.
        element: Element = "f64";
    }
}

keys! {
    /// A ring in shared memory.
    pub struct Ring {
        /// Of the file.
        path: PathBuf;
        /// In front of the names of its channels.
        name: Option<SourceName>;
        /// Of its channels.
        names: Vec<String>;
    }
}

keys! {
    /// A file of sound.
    pub struct Wav {
        /// Of its channel.
        name: SourceName;
        /// Of the file.
        path: PathBuf;
        /// What values are on the wire.
        element: Element = "i16";
        /// Whether it begins anew when it is over.
        repeat: bool;
    }
}

keys! {
    /// What a channel is.
    pub struct Channel {
        /// Of the channel.
        name: Name<MOST_TEXT>;
        /// Of what it measures. Without it: as its source has it.
        unit: Text<MOST_TEXT>;
        /// What it is. Without it: as its source has it.
        description: Text<MOST_DESCRIPTION>;
        /// The lower end of its display.
        display_low: Option<f64>;
        /// The upper end of its display.
        display_high: Option<f64>;
        /// Below it is an alarm of high severity.
        very_low: Option<f64>;
        /// Below it is an alarm.
        low: Option<f64>;
        /// Above it is an alarm.
        high: Option<f64>;
        /// Above it is an alarm of high severity.
        very_high: Option<f64>;
        /// What it measures is value x scale + offset.
        scale: f64 = 1.0;
        /// See `scale`.
        offset: f64 = 0.0;
        /// What values are on the wire. Without it: as its source has it.
        element (fixed): Option<Element>;
        /// Buckets a second; 0: each sample. Without it: as the station has it.
        display: Option<Frequency>;
        /// Whether it is in the full-rate stream.
        full (fixed): bool;
    }
}

/// What keeps a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeper {
    /// Nothing.
    FreeRunning,
    /// The network time protocol.
    Ntp,
    /// The precision time protocol.
    Ptp,
}

/// What values are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// 16 bits.
    I16,
    /// 32 bits.
    I32,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineFormat {
    /// Comma-separated values.
    Csv,
    /// Objects.
    Json,
    /// Influx line protocol.
    Influx,
}

/// How datagrams are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DatagramFormat {
    /// Objects.
    Json,
    /// Influx line protocol.
    Influx,
    /// StatsD.
    Statsd,
}

/// When values were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// A point has its own, else that of its arrival.
    Points,
    /// Each row is the next sample.
    Rows,
}

/// Of a source: a number may follow it.
type SourceName = Name<{ MOST_TEXT - 8 }>;

/// An address of a group or a host, with or without the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct GroupAddress(SocketAddr);

impl TryFrom<String> for GroupAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let alone = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match alone.map(|address| SocketAddr::new(address, PORT)).or_else(|_| text.parse()) {
            Ok(address) if address.port() != 0 && !address.ip().is_unspecified() => Ok(Self(address)),
            _ => Err(format!("`{text}`: write ADDRESS or ADDRESS:PORT, e.g. 239.192.77.1:5110 or [ff15::77]:5110")),
        }
    }
}

values! {
    Keeper = "free-running, ntp, ptp", Element = "f32, f64, i16, i32", LineFormat = "csv, json, influx",
    DatagramFormat = "json, influx, statsd", Time = "points, rows", GroupAddress = "address:port",
}

/// A configuration that is read at the start and with each reload.
pub type Origin = config::Origin<Config>;

/// Reads it at the start, with the files of keys that it names, and if it is only to be checked with all else that it needs of this
/// machine.
///
/// # Errors
/// A line a mistake; a key cannot be read, a file, an interface or an address is not there.
pub fn begin(origin: &Origin, is_check: bool) -> Result<Config> {
    origin.load_with(|config, document| {
        let (settings, needed) = (config.settings()?, Needed::new(document));
        needed.key(&[Step::Key("encrypt")], settings.encrypt.as_deref(), GroupKey::read)?;
        needed.key(&[Step::Key("sign")], settings.sign.as_deref(), SigningKey::read)?;
        if is_check {
            config.probe(&settings, &needed)?;
        }
        Ok(())
    })
}

impl Checked for Config {
    fn check(&self, document: &Document<'_>) -> Result<()> {
        let wrong = |path: &[Step<'_>], message: String| Err(document.wrong(path, message));
        let mut groups = Vec::new();
        for (to, through, key, of) in [
            (&self.to, &self.interface, "to", "interface"),
            (&self.full_to, &self.full_interface, "full_to", "full_interface"),
        ] {
            match (to.as_slice(), through.len()) {
                ([_, _, _, ..], _) => {
                    let message = format!("{} places (two at most, which get the same bytes)", to.len());
                    return wrong(&[Step::Key(key)], message);
                }
                ([a, b], _) if a.0.is_ipv4() != b.0.is_ipv4() => {
                    return wrong(&[Step::Key(key)], format!("{} and {}: two families", a.0, b.0));
                }
                (all, more @ 2..) if more != all.len() => {
                    let message = format!("{more} for {} places (one for all, or one each)", all.len());
                    return wrong(&[Step::Key(of)], message);
                }
                _ => {}
            }
            for group in pairs(to, through) {
                if groups.contains(&group) {
                    return wrong(&[Step::Key(key)], format!("{group} is there twice (remove one of them)"));
                }
                groups.push(group);
            }
        }
        if self.to.is_empty() {
            return wrong(&[Step::Key("to")], "nowhere (leave it out for 239.192.77.1:5110)".into());
        }
        let mut names = HashSet::new();
        let mut reads_stdin = false;
        for (index, source) in self.source.iter().enumerate() {
            let path = |key| [Step::Key("source"), Step::Index(index), Step::Key(key)];
            let settings = source.settings().map_err(|message| document.wrong(&path("rate"), message))?;
            if let Some(twice) = settings.names().into_iter().find(|name| !names.insert(name.clone())) {
                let message = format!("`{twice}` is a channel of another source (give each its own)");
                return wrong(&path("name"), message);
            }
            if matches!(source, Source::Stdin(_)) && std::mem::replace(&mut reads_stdin, true) {
                return wrong(&path("kind")[..2], "standard input can be read by one only".into());
            }
        }
        for (index, channel) in self.channel.iter().enumerate() {
            let path = |key| [Step::Key("channel"), Step::Index(index), Step::Key(key)];
            if self.channel[..index].iter().any(|other| other.name == channel.name) {
                return wrong(&path("name"), format!("`{}` is there twice", channel.name.0));
            }
            if channel.full && self.full_to.is_empty() {
                return wrong(&path("full"), "there is no `full_to`: say where its full-rate stream goes".into());
            }
            if channel.scale == 0.0 {
                return wrong(&path("scale"), "0 (every value would be the same)".into());
            }
            if let Some((key, message)) = channel.falls() {
                return wrong(&path(key), message);
            }
        }
        Ok(())
    }
}

impl Config {
    /// What a station is to do.
    ///
    /// # Errors
    /// A rate that has no exact form: `check` has found it.
    pub fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            name: self.name.0.0.clone(),
            groups: pairs(&self.to, &self.interface).collect(),
            full: pairs(&self.full_to, &self.full_interface).collect(),
            ttl: self.ttl,
            dscp: self.dscp,
            most_bytes: usize::try_from(self.most_bytes.bytes)?,
            delay: self.delay.duration(),
            display: per_s(self.display),
            clock: self.clock.map(|keeper| match keeper {
                Keeper::FreeRunning => ClockSource::FreeRunning,
                Keeper::Ntp => ClockSource::Ntp,
                Keeper::Ptp => ClockSource::Ptp,
            }),
            encrypt: self.encrypt.clone(),
            sign: self.sign.clone(),
            most_channels: self.most_channels.into(),
            sources: self
                .source
                .iter()
                .map(Source::settings)
                .collect::<Result<_, _>>()
                .map_err(|error| anyhow!(error))?,
            channels: self.channel.iter().map(Channel::settings).collect(),
        })
    }

    /// Interfaces, and what its sources read.
    fn probe(&self, settings: &Settings, needed: &Needed<'_, '_>) -> Result<()> {
        for (key, groups) in [("interface", &settings.groups), ("full_interface", &settings.full)] {
            for (at, group) in groups.iter().enumerate() {
                needed.interface(&[Step::Key(key), Step::Index(at)], group.interface.as_deref())?;
            }
        }
        for (at, source) in settings.sources.iter().enumerate() {
            let path = |key| [Step::Key("source"), Step::Index(at), Step::Key(key)];
            use settings::Kind::{Ring, Tail, Udp, Wav};
            match &source.kind {
                // None of them is waited for at a start. Opened they are only read.
                Tail(file, _) | Ring(file, _) | Wav { path: file, .. } if !is_pipe(file) => {
                    let opened = sources::open(at, source);
                    opened.map(drop).map_err(|error| needed.error(&path("path"), format!("{error:#}")))?;
                }
                Udp(listen, _) => needed.datagrams(&path("listen"), *listen)?,
                _ => {}
            }
        }
        self.admin.map_or(Ok(()), |Address(admin)| needed.server("admin", admin))
    }

    /// What only a start can change.
    pub(super) fn fixed(&self) -> Fixed {
        Fixed::of(self.admin, self.user.as_ref())
    }
}

/// Each with its interface: one for all, or one each.
fn pairs(to: &[GroupAddress], through: &[String]) -> impl Iterator<Item = Group> {
    let group = |(at, to): (usize, &GroupAddress)| Group {
        address: to.0,
        interface: through.get(at).or(through.first()).cloned(),
    };
    to.iter().enumerate().map(group)
}

impl Source {
    /// What it means; else what is wrong with its rate.
    fn settings(&self) -> Result<settings::Source, String> {
        use settings::{Format, Kind};
        let owned = |name: &Option<SourceName>| name.as_ref().map_or_else(String::new, |name| name.0.clone());
        let lines = |format: LineFormat, time: Time| Lines {
            format: match format {
                LineFormat::Csv => Format::Csv,
                LineFormat::Json => Format::Json,
                LineFormat::Influx => Format::Influx,
            },
            rows: time == Time::Rows,
        };
        let wave = |wave, amplitude, offset, copies| Generator {
            wave,
            amplitude,
            offset,
            micro_hertz: 0,
            phase: 0.0,
            seed: 1,
            copies,
        };
        let source = |name: String, frequency, element: Element, kind| {
            Ok(settings::Source { name, rate: rate(frequency)?, element: element.into(), kind })
        };
        match self {
            Self::Sine(of) | Self::Step(of) => {
                let shape = if matches!(self, Self::Sine(_)) { Wave::Sine } else { Wave::Step };
                let micro_hertz = of.frequency.micro_hertz;
                let generator = wave(shape, of.amplitude, of.offset, of.copies);
                let generator = Generator { micro_hertz, phase: of.phase / 360.0, ..generator };
                source(of.name.0.clone(), of.rate, of.element, Kind::Generator(generator))
            }
            Self::Chirp(of) => {
                let shape = Wave::Chirp(of.highest.micro_hertz, of.period.duration().as_secs_f64());
                let micro_hertz = of.frequency.micro_hertz;
                let generator = wave(shape, of.amplitude, of.offset, of.copies);
                let generator = Generator { micro_hertz, phase: of.phase / 360.0, ..generator };
                source(of.name.0.clone(), of.rate, of.element, Kind::Generator(generator))
            }
            Self::Noise(of) => {
                let generator = wave(Wave::Noise, of.amplitude, of.offset, of.copies);
                let generator = Generator { seed: of.seed, ..generator };
                source(of.name.0.clone(), of.rate, of.element, Kind::Generator(generator))
            }
            Self::Counter(of) => {
                let generator = wave(Wave::Counter, of.amplitude, of.offset, of.copies);
                source(of.name.0.clone(), of.rate, of.element, Kind::Generator(generator))
            }
            Self::Host(of) => source(owned(&of.name), of.rate, of.element, Kind::Host),
            Self::Stdin(of) => source(owned(&of.name), of.rate, of.element, Kind::Stdin(lines(of.format, of.time))),
            Self::Tail(of) => {
                let kind = Kind::Tail(of.path.clone(), lines(of.format, of.time));
                source(owned(&of.name), of.rate, of.element, kind)
            }
            Self::Udp(of) => {
                let format = match of.format {
                    DatagramFormat::Json => Format::Json,
                    DatagramFormat::Influx => Format::Influx,
                    DatagramFormat::Statsd => Format::Statsd,
                };
                source(owned(&of.name), of.rate, of.element, Kind::Udp(of.listen.0, format))
            }
            Self::Ring(of) => {
                source(owned(&of.name), ONCE, Element::F32, Kind::Ring(of.path.clone(), of.names.clone()))
            }
            Self::Wav(of) => {
                source(of.name.0.clone(), ONCE, of.element, Kind::Wav { path: of.path.clone(), repeat: of.repeat })
            }
        }
    }
}

/// As flags have it: `sine,name=coil,rate=1k/s`; several names are joined by `+`.
///
/// # Errors
/// One line.
pub fn source(text: &str) -> Result<Source, String> {
    let mut parts = text.split(',');
    let mut table = format!("[[source]]\nkind = {:?}\n", parts.next().unwrap_or_default());
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("`{part}`: write KEY=VALUE"))?;
        let value = match key {
            "names" => format!("{:?}", value.split('+').collect::<Vec<_>>()),
            "amplitude" | "offset" | "phase" | "seed" | "copies" | "repeat"
                if value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok() =>
            {
                value.to_owned()
            }
            _ => format!("{value:?}"),
        };
        table += &format!("{key} = {value}\n");
    }
    let read = Document::parse("", &table).and_then(|document| document.read::<Sources>());
    let read = read.map_err(|error| error.to_string().replace("source.", ""))?;
    let source = read.source.into_iter().next().ok_or("no source")?;
    source.settings().map(|_| source)
}

keys! {
    /// Of flags.
    struct Sources {
        /// One.
        source: Vec<Source>;
    }
}

impl Channel {
    fn settings(&self) -> ChannelSettings {
        let Self { display_low, display_high, very_low, low, high, very_high, scale, offset, full, .. } = *self;
        ChannelSettings {
            name: self.name.0.clone(),
            unit: self.unit.0.clone(),
            description: self.description.0.clone(),
            limits: Limits { display_low, display_high, very_low, low, high, very_high },
            scale,
            offset,
            element: self.element.map(Into::into),
            display: self.display.map(per_s),
            full,
        }
    }

    /// A limit that is below one that it has to be above.
    fn falls(&self) -> Option<(&'static str, String)> {
        let display = [("display_low", self.display_low), ("display_high", self.display_high)];
        let alarms =
            [("very_low", self.very_low), ("low", self.low), ("high", self.high), ("very_high", self.very_high)];
        let falls = |named: &[(&'static str, Option<f64>)]| {
            let there: Vec<_> = named.iter().filter_map(|(key, value)| Some((*key, (*value)?))).collect();
            let two = there.windows(2).find(|two| two[0].1 > two[1].1)?;
            let [(lower, low), (key, high)] = [two[0], two[1]];
            Some((key, format!("{high} (it must not be below {lower} = {low})")))
        };
        falls(&display).or_else(|| falls(&alarms))
    }
}

impl From<Element> for signal::Element {
    fn from(element: Element) -> Self {
        match element {
            Element::F32 => Self::F32,
            Element::F64 => Self::F64,
            Element::I16 => Self::I16,
            Element::I32 => Self::I32,
        }
    }
}

fn per_s(frequency: Frequency) -> f64 {
    frequency.micro_hertz as f64 / 1e6
}

/// In ticks, exactly.
fn rate(frequency: Frequency) -> Result<Rate, String> {
    let divisor = gcd(frequency.micro_hertz, 1_000_000);
    let ticks =
        |number: u64| u32::try_from(number / divisor).map_err(|_| format!("{frequency} (write it with fewer digits)"));
    Ok(Rate { per_second: ticks(frequency.micro_hertz)?, per_sample: ticks(1_000_000)? })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Of what knows its rate by itself.
const ONCE: Frequency = Frequency { micro_hertz: 1_000_000 };

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        Config::of(&Document::parse("station.toml", text)?)
    }

    #[test]
    fn nothing_is_enough_and_what_is_printed_means_the_same() {
        let least = read("").unwrap();
        assert_eq!(least.settings().unwrap().groups[0].to_string(), "239.192.77.1:5110");
        let all = "name = \"magnetics\"\nto = [\"239.1.1.1\", \"239.1.1.2:7000\"]\ninterface = [\"eth0\", \"eth1\"]\n\
                   full_to = [\"192.0.2.7\"]\nclock = \"ptp\"\nsign = \"k\"\ndelay = \"5ms\"\n\
                   [[source]]\nkind = \"sine\"\nname = \"coil\"\nrate = \"44.1k/s\"\nfrequency = \"50/s\"\n\
                   [[source]]\nkind = \"udp\"\nlisten = \"127.0.0.1:8094\"\nformat = \"influx\"\n\
                   [[channel]]\nname = \"coil\"\nunit = \"A\"\nlow = -1.0\nhigh = 1.0\nfull = true\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
        let rate = read(all).unwrap().settings().unwrap().sources[0].rate;
        assert_eq!((rate.per_second, rate.per_sample), (44_100, 1));
    }

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        for (text, line) in [
            ("to = []\n", "station.toml:1: to: nowhere (leave it out for 239.192.77.1:5110)"),
            (
                "to = [\"host\"]\n",
                "station.toml:1: to: `host`: write ADDRESS or ADDRESS:PORT, e.g. 239.192.77.1:5110 or [ff15::77]:5110",
            ),
            ("interface = [\"a\", \"b\"]\n", "station.toml:1: interface: 2 for 1 places (one for all, or one each)"),
            (
                "control = [\"192.0.2.0/24\"]\n",
                "station.toml:1: control is gone: stations take no requests (choose by `display` and `full`), remove it",
            ),
            ("delay = \"0\"\n", "station.toml:1: delay: 0 (it must be 1ms to 10s)"),
            ("most_bytes = \"9000B\"\n", "station.toml:1: most_bytes: 9kB (it must be 1232B to 1472B)"),
            ("dleay = \"1ms\"\n", "station.toml:1: unknown key `dleay`, did you mean `delay`?"),
            (
                "[[source]]\nkind = \"sine\"\nname = \"a\"\ncopies = 3\n[[source]]\nkind = \"noise\"\nname = \"a2\"\n",
                "station.toml:7: source.name: `a2` is a channel of another source (give each its own)",
            ),
            (
                "[[channel]]\nname = \"a\"\nlow = 2.0\nhigh = 1.0\n",
                "station.toml:4: channel.high: 1 (it must not be below low = 2)",
            ),
            (
                "[[channel]]\nname = \"a\"\nfull = true\n",
                "station.toml:3: channel.full: there is no `full_to`: say where its full-rate stream goes",
            ),
            (
                "[[source]]\nkind = \"sine\"\nname = \"a\"\nlisten = \"127.0.0.1:1\"\n",
                "station.toml:4: unknown key `listen`, did you mean `element`?",
            ),
            (
                "[[source]]\nkind = \"sine\"\nname = \"a\"\ncopies = 3\n[[source]]\nkind = \"noise\"\nname = \"a2\"\n",
                "station.toml:7: source.name: `a2` is a channel of another source (give each its own)",
            ),
            ("[[source]]\nkind = \"sine\"\n", "station.toml:1: source: missing key `name`"),
            (
                "[[source]]\nkind = \"sine\"\nname = \"a\"\nrate = \"2M/s\"\n",
                "station.toml:4: source.rate: 2M/s (it must be 0.001/s to 1M/s)",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), line);
        }
    }
}
