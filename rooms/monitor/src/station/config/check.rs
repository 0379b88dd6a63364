//! From what is written to what is meant: defaults filled in, every value within its bounds.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, anyhow};
use weir_program::config::{self, Step};
use weir_service::Fixed;
use weir_units::{Frequency, Size, Span};
use weir_wire::signal::field::{MOST_DESCRIPTION, MOST_TEXT};
use weir_wire::signal::{ClockSource, Limits, MOST_BYTES_V4, PORT};

use super::Config;
use super::document::{Channel, Document, Keeper, Kind, Source};
use super::source::{self, element, per_s};
use crate::station::settings::{self, ChannelSettings, Group, Settings};

/// The validated configuration, or the first mistake. `file`: where the document stands; `None`: it was made of flags.
pub(super) fn config(document: Document, file: Option<&config::Document<'_>>) -> Result<Config> {
    let error = |path: &[Step<'_>], message: String| match file {
        Some(file) => file.error(path, &message),
        None => anyhow!("{message}"),
    };
    let key = |key: &'static str, message: String| error(&[Step::Key(key)], format!("{key}: {message}"));
    let written = filled(document);

    let name = written.name.clone().unwrap_or_default();
    if name.is_empty() || name.len() > MOST_TEXT || name.chars().any(char::is_control) {
        return Err(key("name", format!("1 to {MOST_TEXT} bytes without control characters")));
    }
    let both = |to: &'static str, of: &Option<Vec<String>>, through: &'static str, interfaces: &Option<Vec<String>>| {
        groups(of.as_deref().unwrap_or_default(), interfaces.as_deref().unwrap_or_default())
            .map_err(|(is_interface, message)| key(if is_interface { through } else { to }, message))
    };
    let groups = both("to", &written.to, "interface", &written.interface)?;
    if groups.is_empty() {
        return Err(key("to", "nowhere (leave it out for 239.192.77.1:5110)".into()));
    }
    let full = both("full_to", &written.full_to, "full_interface", &written.full_interface)?;
    if let Some(twice) = full.iter().find(|group| groups.contains(group)) {
        return Err(key("full_to", format!("{twice} is in `to`, too: receivers of one would get both")));
    }
    let ttl = written.ttl.unwrap_or_default();
    let dscp = written.dscp.unwrap_or_default();
    if dscp > 63 {
        return Err(key("dscp", format!("{dscp} (it must be 0 to 63)")));
    }
    let most_bytes = written.most_bytes.unwrap_or_default();
    let bounds = LEAST_BYTES..=MOST_BYTES_V4 as u64;
    if !bounds.contains(&most_bytes.bytes) {
        return Err(key("most_bytes", format!("{most_bytes} (it must be {LEAST_BYTES}B to {MOST_BYTES_V4}B)")));
    }
    let delay = written.delay.unwrap_or_default();
    if !(SHORTEST_DELAY..=LONGEST_DELAY).contains(&delay.duration()) {
        return Err(key("delay", format!("{delay} (it must be 1ms to 10s)")));
    }
    let mut sources = Vec::new();
    for (index, written) in written.sources.iter().enumerate() {
        let source = source::check(written).map_err(|(what, message)| {
            let path = [Step::Key("source"), Step::Index(index), Step::Key(what)];
            let path = if what.is_empty() { &path[..2] } else { &path[..] };
            error(path, message)
        })?;
        sources.push(source);
    }
    // Generators and sounds have names from the start.
    let named = |source: &settings::Source| match &source.kind {
        settings::Kind::Generator(generator) => match generator.copies {
            Some(copies) => (0..copies).map(|copy| format!("{}{copy}", source.name)).collect(),
            None => vec![source.name.clone()],
        },
        settings::Kind::Wav { .. } => vec![source.name.clone()],
        _ => Vec::new(),
    };
    let mut names = HashSet::new();
    for (index, source) in sources.iter().enumerate() {
        if let Some(twice) = named(source).into_iter().find(|name| !names.insert(name.clone())) {
            let path = [Step::Key("source"), Step::Index(index), Step::Key("name")];
            return Err(error(&path, format!("name: `{twice}` is a channel of another source (give each its own)")));
        }
    }
    let stdin = |source: &&Source| source.kind == Kind::Stdin;
    if written.sources.iter().filter(stdin).count() > 1 {
        return Err(error(&[Step::Key("source")], "source: standard input can be read by one only".into()));
    }
    let mut channels: Vec<ChannelSettings> = Vec::new();
    for (index, written) in written.channels.iter().enumerate() {
        let path = [Step::Key("channel"), Step::Index(index), Step::Key("name")];
        let channel = channel(written)
            .map_err(|(what, message)| error(&[path[0], path[1], Step::Key(what)], format!("{what}: {message}")))?;
        if channels.iter().any(|other| other.name == channel.name) {
            return Err(error(&path, format!("channel `{}`: it is there twice", channel.name)));
        }
        if channel.full && full.is_empty() {
            let message = "full: there is no `full_to`: say where its full-rate stream goes".into();
            return Err(error(&[path[0], path[1], Step::Key("full")], message));
        }
        channels.push(channel);
    }
    let is_open = written.encrypt.is_none() && written.servers.as_ref().is_none_or(Vec::is_empty);
    if written.sign.is_some() && written.control.is_some() && is_open {
        let message = "control: what is sent is signed, and anybody could ask for less of it: name the public keys of those who may \
                       (servers)";
        return Err(error(&[Step::Key("control")], message.into()));
    }
    let settings = Settings {
        name,
        groups,
        full,
        ttl,
        dscp,
        most_bytes: most_bytes.bytes as usize,
        delay: delay.duration(),
        display: per_s(written.display.unwrap_or_default()),
        control: written.control.clone().unwrap_or_default(),
        clock: written.clock.map(|keeper| match keeper {
            Keeper::FreeRunning => ClockSource::FreeRunning,
            Keeper::Ntp => ClockSource::Ntp,
            Keeper::Ptp => ClockSource::Ptp,
        }),
        encrypt: written.encrypt.clone(),
        sign: written.sign.clone(),
        servers: written.servers.clone().unwrap_or_default(),
        most_channels: written.most_channels.unwrap_or_default().into(),
        sources,
        channels,
    };
    let fixed = Fixed::new(written.admin.map(|admin| admin.0), written.user.clone())
        .map_err(|message| error(&[Step::Key("user")], message))?;
    Ok(Config { settings, fixed, written })
}

/// With every default written out.
fn filled(document: Document) -> Document {
    let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let sources = if document.sources.is_empty() { vec![Source::host()] } else { document.sources };
    Document {
        name: document.name.or_else(host).or_else(|| Some("station".into())),
        to: document.to.or_else(|| Some(vec![GROUP.into()])),
        ttl: document.ttl.or(Some(1)),
        dscp: document.dscp.or(Some(0)),
        most_bytes: document.most_bytes.or(Some(Size { bytes: MOST_BYTES_V4 as u64 })),
        delay: document.delay.or(Some(Span::from_millis(10))),
        display: document.display.or(Some(Frequency { micro_hertz: 200_000_000 })),
        most_channels: document.most_channels.or(Some(1024)),
        sources: sources.into_iter().map(Source::filled).collect(),
        ..document
    }
}

/// Each with its interface: one for all, or one each. An error says whether the interfaces are to blame.
fn groups(to: &[String], interfaces: &[String]) -> Result<Vec<Group>, (bool, String)> {
    if to.len() > 2 {
        return Err((false, format!("{} places (two at most, which get the same bytes)", to.len())));
    }
    if interfaces.len() > 1 && interfaces.len() != to.len() {
        return Err((true, format!("{} for {} places (one for all, or one each)", interfaces.len(), to.len())));
    }
    let group = |(at, text): (usize, &String)| {
        let address = address(text).map_err(|message| (false, message))?;
        Ok(Group { address, interface: interfaces.get(at).or(interfaces.first()).cloned() })
    };
    let groups: Vec<Group> = to.iter().enumerate().map(group).collect::<Result<_, _>>()?;
    match groups.as_slice() {
        [a, b] if a == b => Err((false, format!("{a}: it is there twice"))),
        [a, b] if a.address.is_ipv4() != b.address.is_ipv4() => Err((false, format!("{a} and {b}: two families"))),
        _ => Ok(groups),
    }
}

/// With or without the port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let alone = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let address = alone.map(|address| SocketAddr::new(address, PORT)).or_else(|_| text.parse());
    match address {
        Ok(address) if address.port() != 0 && !address.ip().is_unspecified() => Ok(address),
        _ => Err(format!("`{text}`: write ADDRESS or ADDRESS:PORT, e.g. 239.192.77.1:5110 or [ff15::77]:5110")),
    }
}

fn channel(written: &Channel) -> Result<ChannelSettings, (&'static str, String)> {
    let text = |key: &'static str, text: &Option<String>, most: usize| {
        let text = text.clone().unwrap_or_default();
        if text.len() > most || text.chars().any(char::is_control) {
            return Err((key, format!("at most {most} bytes, without control characters")));
        }
        Ok(text)
    };
    let Channel { display_low, display_high, very_low, low, high, very_high, .. } = *written;
    let limits = Limits { display_low, display_high, very_low, low, high, very_high };
    let named = [
        ("display_low", display_low),
        ("display_high", display_high),
        ("very_low", very_low),
        ("low", low),
        ("high", high),
        ("very_high", very_high),
        ("scale", written.scale),
        ("offset", written.offset),
    ];
    if let Some((key, value)) = named.into_iter().find(|(_, value)| value.is_some_and(|value| !value.is_finite())) {
        return Err((key, format!("{}: no number", value.unwrap_or_default())));
    }
    let rising = |values: &[(&'static str, Option<f64>)]| {
        let there: Vec<_> = values.iter().filter_map(|(key, value)| Some((*key, (*value)?))).collect();
        there.windows(2).find(|two| two[0].1 > two[1].1).map(|two| (two[0], two[1]))
    };
    if let Some(((lower, low), (key, high))) = rising(&named[..2]).or_else(|| rising(&named[2..6])) {
        return Err((key, format!("{high} (it must not be below {lower} = {low})")));
    }
    if written.scale == Some(0.0) {
        return Err(("scale", "0 (every value would be the same)".into()));
    }
    if written.name.is_empty() {
        return Err(("name", "it has none".into()));
    }
    Ok(ChannelSettings {
        name: text("name", &Some(written.name.clone()), MOST_TEXT)?,
        unit: text("unit", &written.unit, MOST_TEXT)?,
        description: text("description", &written.description, MOST_DESCRIPTION)?,
        limits,
        scale: written.scale.unwrap_or(1.0),
        offset: written.offset.unwrap_or(0.0),
        element: written.element.map(element),
        display: written.display.map(per_s),
        full: written.full.unwrap_or(false),
    })
}

const GROUP: &str = "239.192.77.1:5110";

/// What IPv6 carries everywhere: 1,280 bytes less its header and UDP's.
const LEAST_BYTES: u64 = 1232;
const SHORTEST_DELAY: Duration = Duration::from_millis(1);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        let file = config::Document::parse("station.toml", text)?;
        config(file.read()?, Some(&file))
    }

    #[test]
    fn nothing_is_enough_and_what_is_printed_means_the_same() {
        let least = read("").unwrap();
        assert_eq!(least.settings.groups[0].to_string(), GROUP);
        let all = "name = \"magnetics\"\nto = [\"239.1.1.1\", \"239.1.1.2:7000\"]\ninterface = [\"eth0\", \"eth1\"]\n\
                   full_to = [\"192.0.2.7\"]\ncontrol = [\"192.0.2.0/24\"]\nclock = \"ptp\"\nsign = \"k\"\nservers = [\"s.pub\"]\ndelay = \"5ms\"\n\
                   [[source]]\nkind = \"sine\"\nname = \"coil\"\nrate = \"44.1k/s\"\nfrequency = \"50/s\"\n\
                   [[source]]\nkind = \"udp\"\nlisten = \"127.0.0.1:8094\"\nformat = \"influx\"\n\
                   [[channel]]\nname = \"coil\"\nunit = \"A\"\nlow = -1.0\nhigh = 1.0\nfull = true\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
        let rate = read(all).unwrap().settings.sources[0].rate;
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
                "control = [\"192.0.2.0/24\"]\nsign = \"k\"\n",
                "station.toml:1: control: what is sent is signed, and anybody could ask for less of it: name the public keys of those who may (servers)",
            ),
            ("delay = \"0\"\n", "station.toml:1: delay: 0 (it must be 1ms to 10s)"),
            ("most_bytes = \"9000B\"\n", "station.toml:1: most_bytes: 9kB (it must be 1232B to 1472B)"),
            ("dleay = \"1ms\"\n", "station.toml:1: unknown key `dleay`, did you mean `delay`?"),
            (
                "[[source]]\nkind = \"sine\"\nname = \"a\"\ncopies = 3\n[[source]]\nkind = \"noise\"\nname = \"a2\"\n",
                "station.toml:7: name: `a2` is a channel of another source (give each its own)",
            ),
            (
                "[[channel]]\nname = \"a\"\nlow = 2.0\nhigh = 1.0\n",
                "station.toml:4: high: 1 (it must not be below low = 2)",
            ),
            (
                "[[channel]]\nname = \"a\"\nfull = true\n",
                "station.toml:3: full: there is no `full_to`: say where its full-rate stream goes",
            ),
            (
                "[[source]]\nkind = \"sine\"\nname = \"a\"\nlisten = \"127.0.0.1:1\"\n",
                "station.toml:4: listen: a source of kind `sine` has none",
            ),
            (
                "[[source]]\nkind = \"sine\"\nname = \"a\"\ncopies = 3\n[[source]]\nkind = \"noise\"\nname = \"a2\"\n",
                "station.toml:7: name: `a2` is a channel of another source (give each its own)",
            ),
            ("[[source]]\nkind = \"sine\"\n", "station.toml:1: name: a source of kind `sine` needs one"),
            (
                "[[source]]\nkind = \"sine\"\nname = \"a\"\nrate = \"2M/s\"\n",
                "station.toml:4: rate: 2M/s (it must be 0.001/s to 1M/s)",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), line);
        }
    }
}
