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

use super::readers::{Csv, Format, Influx, Json, Raw, Statsd, Unit};
use super::settings::{self, Feed, Kind, Shape, Time};
use super::sources;
use crate::config::{HostName, Name, Text};
use crate::needed::{Needed, is_pipe};
use weir_signal::seal::{GroupKey, SigningKey};
use weir_signal::send::Group;

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
        Sine(Wave) = "sine",
        /// Low and high in turn.
        Step(Wave) = "step",
        /// Random numbers from -1 to 1, each as likely.
        Noise(Wave) = "noise",
        /// The index times the amplitude.
        Counter(Wave) = "counter",
        /// This machine's metrics.
        Host(Host) = "host",
        /// Standard input.
        Stdin(Fed) = "stdin",
        /// What is appended to a file.
        Tail(Fed) = "tail",
        /// Datagrams.
        Udp(Fed) = "udp",
    }
    gone {
        "chirp": "use `sine`";
        "ring": "write its frames to a pipe: kind = \"stdin\", format = \"raw\"";
        "wav": "sox FILE -t f32 - | weir monitor station --source stdin,format=raw,time=rows,element=f32,names=NAME,rate=RATE";
    }
}

keys! {
    /// A wave.
    pub struct Wave {
        /// Of its channel.
        name: SourceName;
        /// Samples a second.
        rate: Frequency = "1k/s", "0.001/s" to "1M/s";
        /// What values are on the wire. Without it: f32, of a counter f64.
        element: Option<Element>;
        /// Half of its height; the step of a counter.
        amplitude: f64 = 1.0;
        /// Its middle; the first value of a counter.
        offset: f64 = 0.0;
        /// Periods a second of a sine or a step.
        frequency: Frequency = "1/s";
        /// Where a sine or a step begins, degrees.
        phase: f64 = 0.0;
        /// Of noise: another seed, other numbers.
        seed: u64 = 1;
        /// So many channels that differ in phase or seed, numbered from 0. Without it: one, without a number.
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
    /// Values that others write.
    pub struct Fed {
        /// Of `tail`: the file.
        path: Option<PathBuf>;
        /// Of `udp`: where datagrams are received; a group is joined where a route leads.
        listen: Option<Address>;
        /// How values are written.
        format: Writing = "csv";
        /// In front of the names of its channels.
        name: Option<SourceName>;
        /// Of `raw`: its channels; of `csv`: the columns, if no line has their names.
        names: Vec<String>;
        /// Samples a second.
        rate: Frequency = "10/s", "0.001/s" to "1M/s";
        /// What values are on the wire; of `raw` also in frames.
        element: Element = "f64";
        /// When values were: `points` have times of their own, else that of their arrival; `rows` are one sample each, read at `rate`; `arrival`; or since the `start` of their sender.
        time: Time = "points";
        /// Unit of times. Without it: of Influx lines ns, else as their size tells.
        precision: Option<Unit>;
        /// Tags of Influx lines and StatsD that are in names. Without it: all.
        tags: Option<Vec<String>>;
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

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Writing {
    /// Comma-separated values.
    Csv,
    /// Objects.
    Json,
    /// Influx line protocol.
    Influx,
    /// StatsD.
    Statsd,
    /// Interleaved little-endian numbers.
    Raw,
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
    Keeper = "free-running, ntp, ptp", Element = "f32, f64, i16, i32", Writing = "csv, json, influx, statsd, raw",
    Time = "points, rows, arrival, start", Unit = "s, ms, us, ns", GroupAddress = "address:port",
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
        let needed = Needed::new(document);
        needed.key(&[Step::Key("encrypt")], config.encrypt.as_deref(), GroupKey::read)?;
        needed.key(&[Step::Key("sign")], config.sign.as_deref(), SigningKey::read)?;
        if is_check {
            config.probe(&needed)?;
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
            let settings = source.settings().map_err(|(key, message)| document.wrong(&path(key), message))?;
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
    /// Its streams, by their names, and where they go.
    pub(super) fn streams(&self) -> impl Iterator<Item = (&'static str, Vec<Group>)> {
        let full = pairs(&self.full_to, &self.full_interface).collect();
        let all = [("display", pairs(&self.to, &self.interface).collect()), ("full", full)];
        all.into_iter().filter(|(_, groups): &(_, Vec<Group>)| !groups.is_empty())
    }

    /// Where samples come from.
    ///
    /// # Errors
    /// None: `check` has found it.
    pub(super) fn sources(&self) -> Result<Vec<settings::Source>> {
        let sources: Result<_, _> = self.source.iter().map(Source::settings).collect();
        sources.map_err(|(key, message)| anyhow!("{key}: {message}"))
    }

    /// Interfaces, and what its sources read.
    fn probe(&self, needed: &Needed<'_, '_>) -> Result<()> {
        for (key, (_, groups)) in ["interface", "full_interface"].into_iter().zip(self.streams()) {
            for (at, group) in groups.iter().enumerate() {
                needed.interface(&[Step::Key(key), Step::Index(at)], group.interface.as_deref())?;
            }
        }
        for (at, source) in self.sources()?.iter().enumerate() {
            let path = |key| [Step::Key("source"), Step::Index(at), Step::Key(key)];
            match &source.kind {
                // It is not waited for at a start. Opened it is only read.
                Kind::Tail(file, _) if !is_pipe(file) => {
                    let opened = sources::open(at, source);
                    opened.map(drop).map_err(|error| needed.error(&path("path"), format!("{error:#}")))?;
                }
                Kind::Udp(listen, _) => needed.datagrams(&path("listen"), *listen)?,
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
    /// What it means; else the key that is wrong, and why.
    pub(super) fn settings(&self) -> Result<settings::Source, (&'static str, String)> {
        let (shape, usual) = match self {
            Self::Sine(_) => (Shape::Sine, Element::F32),
            Self::Step(_) => (Shape::Step, Element::F32),
            Self::Noise(_) => (Shape::Noise, Element::F32),
            _ => (Shape::Counter, Element::F64),
        };
        let (name, frequency, element, kind) = match self {
            Self::Sine(wave) | Self::Step(wave) | Self::Noise(wave) | Self::Counter(wave) => {
                (Some(&wave.name), wave.rate, wave.element.unwrap_or(usual), Kind::Wave(shape, wave.clone()))
            }
            Self::Host(host) => (host.name.as_ref(), host.rate, host.element, Kind::Host),
            Self::Stdin(fed) | Self::Tail(fed) | Self::Udp(fed) => {
                (fed.name.as_ref(), fed.rate, fed.element, self.feed(fed)?)
            }
        };
        let name = name.map_or_else(String::new, |name| name.0.clone());
        let rate = rate(frequency).map_err(|message| ("rate", message))?;
        Ok(settings::Source { name, rate, element: element.into(), kind })
    }

    fn feed(&self, fed: &Fed) -> Result<Kind, (&'static str, String)> {
        let Fed { path, listen, format, names, time, precision, tags, .. } = fed;
        let (is_tail, is_udp) = (matches!(self, Self::Tail(_)), matches!(self, Self::Udp(_)));
        let lacks_names = match format {
            Writing::Csv => is_udp && names.is_empty(),
            Writing::Raw => names.is_empty(),
            _ => false,
        };
        let lacks_unit = *time == Time::Start && precision.is_none();
        for (is_wrong, key, message) in [
            (path.is_some() != is_tail, "path", "`tail` needs it, and no other kind has it"),
            (listen.is_some() != is_udp, "listen", "`udp` needs it, and no other kind has it"),
            (lacks_names, "names", "nothing says what the values are called: name them in their order"),
            (lacks_unit, "precision", "times since a start need a unit: s, ms, us or ns"),
        ] {
            if is_wrong {
                return Err((key, message.into()));
            }
        }
        let format = match format {
            Writing::Csv => Format::Csv(Csv::new(names, *precision)),
            Writing::Json => Format::Json(Json { is_datagram: is_udp, unit: *precision }),
            Writing::Influx => Format::Influx(Influx { unit: precision.unwrap_or(Unit::Ns), tags: tags.clone() }),
            Writing::Statsd => Format::Statsd(Statsd::new(tags.clone())),
            Writing::Raw => Format::Raw(Raw { names: names.clone(), element: fed.element.into() }),
        };
        let feed = Feed { format, time: *time };
        Ok(match (path, listen) {
            (Some(path), _) => Kind::Tail(path.clone(), feed),
            (_, Some(listen)) => Kind::Udp(listen.0, feed),
            _ => Kind::Stdin(feed),
        })
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
            "names" | "tags" => format!("{:?}", value.split('+').collect::<Vec<_>>()),
            "amplitude" | "offset" | "phase" | "seed" | "copies" if value.parse::<f64>().is_ok() => value.to_owned(),
            _ => format!("{value:?}"),
        };
        table += &format!("{key} = {value}\n");
    }
    let read = Document::parse("", &table).and_then(|document| document.read::<Sources>());
    let read = read.map_err(|error| error.to_string().replace("source.", ""))?;
    let source = read.source.into_iter().next().ok_or("no source")?;
    source.settings().map_err(|(key, message)| format!("{key}: {message}"))?;
    Ok(source)
}

keys! {
    /// Of flags.
    struct Sources {
        /// One.
        source: Vec<Source>;
    }
}

impl Channel {
    /// What a channel is, which its source has so.
    pub(super) fn describe(&self, channel: signal::Channel) -> signal::Channel {
        let Self { display_low, display_high, very_low, low, high, very_high, scale, offset, .. } = *self;
        let or = |said: &str, plain: String| if said.is_empty() { plain } else { said.to_owned() };
        signal::Channel {
            unit: or(&self.unit.0, channel.unit),
            description: or(&self.description.0, channel.description),
            limits: Limits { display_low, display_high, very_low, low, high, very_high },
            scale,
            offset,
            ..channel
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

impl From<Keeper> for ClockSource {
    fn from(keeper: Keeper) -> Self {
        match keeper {
            Keeper::FreeRunning => Self::FreeRunning,
            Keeper::Ntp => Self::Ntp,
            Keeper::Ptp => Self::Ptp,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        Config::of(&Document::parse("station.toml", text)?)
    }

    #[test]
    fn nothing_is_enough_and_what_is_printed_means_the_same() {
        let least = read("").unwrap();
        assert_eq!(least.streams().next().unwrap().1[0].to_string(), "239.192.77.1:5110");
        let all = "name = \"magnetics\"\nto = [\"239.1.1.1\", \"239.1.1.2:7000\"]\ninterface = [\"eth0\", \"eth1\"]\n\
                   full_to = [\"192.0.2.7\"]\nclock = \"ptp\"\nsign = \"k\"\ndelay = \"5ms\"\n\
                   [[source]]\nkind = \"sine\"\nname = \"coil\"\nrate = \"44.1k/s\"\nfrequency = \"50/s\"\n\
                   [[source]]\nkind = \"udp\"\nlisten = \"127.0.0.1:8094\"\nformat = \"influx\"\n\
                   [[channel]]\nname = \"coil\"\nunit = \"A\"\nlow = -1.0\nhigh = 1.0\nfull = true\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
        let rate = read(all).unwrap().sources().unwrap()[0].rate;
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
                "station.toml:4: unknown key `listen`",
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
