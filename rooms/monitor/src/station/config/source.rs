//! A source: which keys its kind has, and what they mean.

use weir_program::config::Address;
use weir_units::{Frequency, Span};
use weir_wire::signal::Rate;
use weir_wire::signal::field::MOST_TEXT;

use super::document::{self, Element, Source, Time};
use crate::station::settings::{self, Format, Generator, Kind, Lines, Wave};

/// Reads a source as flags have it: `sine,name=coil,rate=1k/s`.
///
/// # Errors
/// One line.
pub fn source(text: &str) -> Result<Source, String> {
    let mut parts = text.split(',');
    let mut table = toml::Table::new();
    table.insert("kind".into(), parts.next().unwrap_or_default().into());
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("`{part}`: write KEY=VALUE"))?;
        // Numbers and truths as they are, all else is a text; names are a list.
        let read = format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
        let read = match (key, read) {
            ("names", _) => toml::Value::Array(value.split('+').map(Into::into).collect()),
            ("amplitude" | "offset" | "phase", Some(toml::Value::Integer(whole))) => toml::Value::Float(whole as f64),
            ("amplitude" | "offset" | "phase" | "seed" | "copies" | "repeat", Some(read)) => read,
            _ => value.into(),
        };
        table.insert(key.to_owned(), read);
    }
    let source: Source = table.try_into().map_err(|error: toml::de::Error| error.message().replace('\n', " "))?;
    check(&source.clone().filled()).map_err(|(_, message)| message)?;
    Ok(source)
}

impl Source {
    /// This machine's metrics.
    pub(super) fn host() -> Self {
        Self::of(document::Kind::Host)
    }

    fn of(kind: document::Kind) -> Self {
        Self {
            kind,
            name: None,
            rate: None,
            element: None,
            amplitude: None,
            offset: None,
            frequency: None,
            highest: None,
            period: None,
            phase: None,
            seed: None,
            copies: None,
            format: None,
            time: None,
            listen: None,
            path: None,
            names: None,
            repeat: None,
        }
    }

    /// With the defaults of its kind written out.
    pub(super) fn filled(self) -> Self {
        use document::Kind::{Chirp, Counter, Host, Noise, Ring, Sine, Stdin, Step, Tail, Udp, Wav};
        let wave = matches!(self.kind, Sine | Chirp | Noise | Step | Counter);
        let periodic = matches!(self.kind, Sine | Chirp | Step);
        let hertz = |hertz: u64| Some(Frequency { micro_hertz: hertz * 1_000_000 });
        let rate = match self.kind {
            Sine | Chirp | Noise | Step | Counter => hertz(1000),
            Host | Stdin | Tail | Udp => hertz(10),
            Ring | Wav => None,
        };
        let element = match self.kind {
            Ring => None,
            Wav => Some(Element::I16),
            Counter | Stdin | Tail | Udp => Some(Element::F64),
            Sine | Chirp | Noise | Step | Host => Some(Element::F32),
        };
        let only = |condition: bool, value: f64| condition.then_some(value);
        Self {
            rate: self.rate.or(rate),
            element: self.element.or(element),
            amplitude: self.amplitude.or(only(wave, 1.0)),
            offset: self.offset.or(only(wave, 0.0)),
            frequency: self.frequency.or(hertz(1).filter(|_| periodic)),
            highest: self.highest.or(hertz(100).filter(|_| self.kind == Chirp)),
            period: self.period.or((self.kind == Chirp).then_some(Span::from_secs(10))),
            phase: self.phase.or(only(periodic, 0.0)),
            seed: self.seed.or((self.kind == Noise).then_some(1)),
            format: self.format.or(matches!(self.kind, Stdin | Tail).then_some(document::Format::Csv)),
            time: self.time.or(matches!(self.kind, Stdin | Tail).then_some(Time::Points)),
            repeat: self.repeat.or((self.kind == Wav).then_some(false)),
            ..self
        }
    }

    /// Keys that are there, but for the kind.
    fn keys(&self) -> Vec<&'static str> {
        let there = [
            ("name", self.name.is_some()),
            ("rate", self.rate.is_some()),
            ("element", self.element.is_some()),
            ("amplitude", self.amplitude.is_some()),
            ("offset", self.offset.is_some()),
            ("frequency", self.frequency.is_some()),
            ("highest", self.highest.is_some()),
            ("period", self.period.is_some()),
            ("phase", self.phase.is_some()),
            ("seed", self.seed.is_some()),
            ("copies", self.copies.is_some()),
            ("format", self.format.is_some()),
            ("time", self.time.is_some()),
            ("listen", self.listen.is_some()),
            ("path", self.path.is_some()),
            ("names", self.names.is_some()),
            ("repeat", self.repeat.is_some()),
        ];
        there.into_iter().filter(|(_, there)| *there).map(|(key, _)| key).collect()
    }
}

impl document::Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Sine => "sine",
            Self::Chirp => "chirp",
            Self::Noise => "noise",
            Self::Step => "step",
            Self::Counter => "counter",
            Self::Host => "host",
            Self::Stdin => "stdin",
            Self::Tail => "tail",
            Self::Udp => "udp",
            Self::Ring => "ring",
            Self::Wav => "wav",
        }
    }

    /// Keys that it needs, and keys that it may have.
    fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Sine | Self::Step => {
                (&["name"], &["rate", "element", "amplitude", "offset", "frequency", "phase", "copies"])
            }
            Self::Chirp => (
                &["name"],
                &["rate", "element", "amplitude", "offset", "frequency", "highest", "period", "phase", "copies"],
            ),
            Self::Noise => (&["name"], &["rate", "element", "amplitude", "offset", "seed", "copies"]),
            Self::Counter => (&["name"], &["rate", "element", "amplitude", "offset", "copies"]),
            Self::Host => (&[], &["name", "rate", "element"]),
            Self::Stdin => (&[], &["name", "rate", "element", "format", "time"]),
            Self::Tail => (&["path"], &["name", "rate", "element", "format", "time"]),
            Self::Udp => (&["listen", "format"], &["name", "rate", "element"]),
            Self::Ring => (&["path"], &["name", "names"]),
            Self::Wav => (&["name", "path"], &["element", "repeat"]),
        }
    }
}

/// What it means, its defaults written out; or the key that is wrong, and why.
pub(super) fn check(source: &Source) -> Result<settings::Source, (&'static str, String)> {
    let kind = source.kind.name();
    let (needed, allowed) = source.kind.keys();
    let there = source.keys();
    if let Some(key) = there.iter().find(|key| !needed.contains(key) && !allowed.contains(key)) {
        return Err((key, format!("{key}: a source of kind `{kind}` has none")));
    }
    if let Some(key) = needed.iter().find(|key| !there.contains(key)) {
        return Err(("", format!("{key}: a source of kind `{kind}` needs one")));
    }
    let name = source.name.clone().unwrap_or_default();
    if name.len() > MOST_TEXT - 8 || name.chars().any(char::is_control) {
        return Err(("name", format!("name: at most {} bytes, without control characters", MOST_TEXT - 8)));
    }
    let rate = match source.rate {
        Some(written) => rate(written).map_err(|message| ("rate", format!("rate: {written} ({message})")))?,
        None => Rate::hertz(1),
    };
    let path = source.path.clone().unwrap_or_default();
    let kind = match source.kind {
        document::Kind::Host => Kind::Host,
        document::Kind::Stdin => Kind::Stdin(lines(source)?),
        document::Kind::Tail => Kind::Tail(path, lines(source)?),
        document::Kind::Udp => {
            let Some(Address(listen)) = source.listen else { return Err(("", "listen: nowhere".into())) };
            match source.format.map(format) {
                Some(Format::Csv) | None => {
                    return Err(("format", "format: datagrams are json, influx or statsd".into()));
                }
                Some(format) => Kind::Udp(listen, format),
            }
        }
        document::Kind::Ring => Kind::Ring(path, source.names.clone().unwrap_or_default()),
        document::Kind::Wav => Kind::Wav { path, repeat: source.repeat.unwrap_or(false) },
        wave => Kind::Generator(generator(source, wave)?),
    };
    let element = source.element.map_or_else(Default::default, element);
    Ok(settings::Source { name, rate, element, kind })
}

fn generator(source: &Source, wave: document::Kind) -> Result<Generator, (&'static str, String)> {
    let finite = |key: &'static str, value: Option<f64>| match value.unwrap_or(0.0) {
        value if value.is_finite() => Ok(value),
        value => Err((key, format!("{key}: {value} is no number"))),
    };
    let micro_hertz = source.frequency.unwrap_or_default().micro_hertz;
    let wave = match wave {
        document::Kind::Sine => Wave::Sine,
        document::Kind::Chirp => {
            let period = source.period.unwrap_or_default();
            if period.nanos == 0 {
                return Err(("period", "period: 0 (a chirp takes a while)".into()));
            }
            Wave::Chirp(source.highest.unwrap_or_default().micro_hertz, period.duration().as_secs_f64())
        }
        document::Kind::Noise => Wave::Noise,
        document::Kind::Step => Wave::Step,
        _ => Wave::Counter,
    };
    if let Some(0 | MOST_COPIES..) = source.copies {
        return Err(("copies", format!("copies: it must be 1 to {}", MOST_COPIES - 1)));
    }
    Ok(Generator {
        wave,
        amplitude: finite("amplitude", source.amplitude)?,
        offset: finite("offset", source.offset)?,
        micro_hertz,
        phase: finite("phase", source.phase)? / 360.0,
        seed: source.seed.unwrap_or(1),
        copies: source.copies,
    })
}

fn lines(source: &Source) -> Result<Lines, (&'static str, String)> {
    let format = source.format.map_or(Format::Csv, format);
    if format == Format::Statsd {
        return Err(("format", "format: lines are csv, json or influx".into()));
    }
    Ok(Lines { format, rows: source.time == Some(Time::Rows) })
}

fn format(written: document::Format) -> Format {
    match written {
        document::Format::Csv => Format::Csv,
        document::Format::Json => Format::Json,
        document::Format::Influx => Format::Influx,
        document::Format::Statsd => Format::Statsd,
    }
}

pub(super) fn element(written: Element) -> weir_wire::signal::Element {
    match written {
        Element::F32 => weir_wire::signal::Element::F32,
        Element::F64 => weir_wire::signal::Element::F64,
        Element::I16 => weir_wire::signal::Element::I16,
        Element::I32 => weir_wire::signal::Element::I32,
    }
}

pub(super) fn per_s(frequency: Frequency) -> f64 {
    frequency.micro_hertz as f64 / 1e6
}

/// In ticks, exactly.
fn rate(frequency: Frequency) -> Result<Rate, &'static str> {
    if !(LOWEST..=HIGHEST).contains(&frequency.micro_hertz) {
        return Err("it must be 0.001/s to 1M/s");
    }
    let divisor = gcd(frequency.micro_hertz, 1_000_000);
    let ticks = |number: u64| u32::try_from(number / divisor).map_err(|_| "write it with fewer digits");
    Ok(Rate { per_second: ticks(frequency.micro_hertz)?, per_sample: ticks(1_000_000)? })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

const LOWEST: u64 = 1000;
const HIGHEST: u64 = 1_000_000_000_000;
const MOST_COPIES: u16 = 4097;
