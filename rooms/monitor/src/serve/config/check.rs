//! From what is written to what is meant: defaults filled in, every value within its bounds.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use weir_program::config::{self, Pointed, Step};
use weir_service::Fixed;
use weir_service::http;
use weir_units::expression::ExpressionError;
use weir_units::{Size, Span};
use weir_wire::signal::field::MOST_TEXT;
use weir_wire::signal::{Limits, PORT};

use super::Config;
use super::document::{self, Document, Limit};
use crate::history;
use crate::outputs::Output;
use crate::receive::{self, Listen};
use crate::serve::derive;
use crate::serve::settings::{Derive, Keys, Publish, Rule, Settings, Statistic, Watching, Window};

/// The validated configuration, or the first mistake. `file`: where the document stands; `None`: it was made of flags.
pub(super) fn config(document: Document, file: Option<&config::Document<'_>>) -> Result<Config> {
    let error = |path: &[Step<'_>], message: String| match file {
        Some(file) => file.error(path, &message),
        None => anyhow!("{message}"),
    };
    let span = |key: &'static str, written: Option<Span>, default: Duration, least: Span, most: Span| {
        let value = written.map_or(default, Span::duration);
        if (least.duration()..=most.duration()).contains(&value) {
            return Ok(value);
        }
        let message = format!("{key}: {} (it must be {least} to {most})", written.unwrap_or_default());
        Err(error(&[Step::Key(key)], message))
    };
    let size = |key: &'static str, written: Option<Size>, default: usize, least: Size, most: Size| {
        let value = written.unwrap_or(Size { bytes: default as u64 });
        if (least..=most).contains(&value) {
            return Ok(value.bytes as usize);
        }
        Err(error(&[Step::Key(key)], format!("{key}: {value} (it must be {least} to {most})")))
    };

    let (receive, history) = (receive::Settings::default(), history::Bounds::default());
    let listen = listen(&document, receive.listen, &error)?;
    let rules = document.limits.iter().enumerate().map(|(index, limit)| rule(index, limit, &error));
    let watching = Watching {
        hysteresis: document.hysteresis.map_or(Watching::default().hysteresis, |share| share.fraction()),
        stale: match document.stale {
            None => None,
            stale => Some(span("stale", stale, Duration::ZERO, Span::from_millis(50), DAY)?),
        },
        rules: rules.collect::<Result<_>>()?,
    };
    if document.senders.as_ref().is_some_and(Vec::is_empty) {
        return Err(error(&[Step::Key("senders")], format!("senders: {}", Keys::NO_SENDERS)));
    }
    let api = http::Settings {
        read_only: document.read_only.unwrap_or_default(),
        hosts: document.hosts.clone().unwrap_or_default(),
        origins: document.origins.clone().unwrap_or_default(),
    };
    for (index, host) in api.hosts.iter().enumerate() {
        if host.is_empty() || host.contains([':', '/']) {
            let path = [Step::Key("hosts"), Step::Index(index)];
            return Err(error(
                &path,
                format!("hosts: `{host}`: write a name, e.g. control.example, without scheme and port"),
            ));
        }
    }
    let peers = document.peers.clone().unwrap_or_default();
    for (key, origins) in [("origins", &api.origins), ("peers", &peers)] {
        if let Some((index, bad)) = origins.iter().enumerate().find(|(_, origin)| !is_origin(origin)) {
            let path = [Step::Key(key), Step::Index(index)];
            return Err(error(&path, format!("{key}: `{bad}`: write e.g. http://control-2:5180, without a path")));
        }
    }
    let derives = (0..document.derive.len()).map(|index| derive(index, &document.derive, &error));
    let derives = derives.collect::<Result<Vec<_>>>()?;
    let named: Vec<_> = derives.iter().map(|derive| (derive.name.clone(), derive.expression.clone())).collect();
    if let Err((index, message)) = derive::order(&named) {
        let path = [Step::Key("derive"), Step::Index(index), Step::Key("expression")];
        return Err(error(&path, format!("derive {}: {message}", named[index].0)));
    }
    let publish = match &document.publish {
        None => None,
        Some(written) => Some(publish(written, &listen, &error)?),
    };
    let outputs = outputs(&document, &listen, &error)?;
    let bounds = receive::Bounds {
        reorder: span("reorder", document.reorder, receive.bounds.reorder, Span::default(), Span::from_secs(1))?,
        ..receive.bounds
    };
    let buffer = ("receive_buffer", document.receive_buffer, receive.receive_buffer);
    let (http, admin) = (document.http.map_or(HTTP, |http| http.0), document.admin.map(|admin| admin.0));
    for (key, address) in [("http", Some(http)), ("admin", admin)] {
        if let Some(address) = address.filter(|address| address.ip().is_multicast()) {
            let message = format!("{key}: {address} is a group (name an address of this machine)");
            return Err(error(&[Step::Key(key)], message));
        }
    }
    if let Some(admin) = admin.filter(|admin| is_same_place(*admin, http)) {
        let message = format!("admin: {admin} is where the page is served, at {http} (give it a port of its own)");
        return Err(error(&[Step::Key("admin")], message));
    }
    let settings = Settings {
        receive: receive::Settings {
            listen,
            receive_buffer: size(buffer.0, buffer.1, buffer.2, Size { bytes: 4096 }, Size { bytes: 1 << 30 })?,
            bounds,
        },
        keys: Keys { group: document.key, senders: document.senders.unwrap_or_default(), sign: document.sign },
        http,
        api,
        peers,
        history: history::Bounds {
            span: span("history", document.history, history.span, Span::from_secs(1), DAY)?,
            bytes: size("memory", document.memory, history.bytes, Size { bytes: 1 << 20 }, Size { bytes: 1 << 40 })?,
            ..history
        },
        watching: Arc::new(watching),
        derive: derives,
        publish,
        outputs,
    };
    let fixed = Fixed::new(admin, document.user).map_err(|message| error(&[Step::Key("user")], message))?;
    Ok(Config { settings, fixed })
}

fn listen(
    document: &Document,
    default: Vec<Listen>,
    error: &dyn Fn(&[Step<'_>], String) -> anyhow::Error,
) -> Result<Vec<Listen>> {
    let mut all: Vec<Listen> = Vec::new();
    for (index, written) in document.listen.iter().enumerate() {
        let at = |key| [Step::Key("listen"), Step::Index(index), Step::Key(key)];
        let address = written.address.0;
        let listen = Listen { address, interface: written.interface.clone(), source: written.source };
        if all.contains(&listen) {
            return Err(error(&at("address"), format!("listen {address}: it is there twice (remove one of them)")));
        }
        if !address.ip().is_multicast() && (written.interface.is_some() || written.source.is_some()) {
            let key = if written.interface.is_some() { "interface" } else { "source" };
            return Err(error(&at(key), format!("listen {address}: {key} is of groups alone (remove it)")));
        }
        if written.source.is_some_and(|source| source.is_ipv4() != address.is_ipv4()) {
            return Err(error(&at("source"), format!("listen {address}: the source is of another family")));
        }
        if let Some(source) = written.source.filter(|source| !Listen::can_send(*source)) {
            let message = format!("listen {address}: nobody sends from {source} (write the address of one machine)");
            return Err(error(&at("source"), message));
        }
        all.push(listen);
    }
    Ok(if all.is_empty() { default } else { all })
}

fn publish(
    written: &document::Publish,
    listen: &[Listen],
    error: &dyn Fn(&[Step<'_>], String) -> anyhow::Error,
) -> Result<Publish> {
    let fail = |key: &'static str, message: String| {
        Err(error(&[Step::Key("publish"), Step::Key(key)], format!("publish.{key}: {message}")))
    };
    let to: Vec<SocketAddr> = match &written.to {
        None => vec![VIEWERS],
        Some(to) => to.iter().map(|to| to.0).collect(),
    };
    if to.is_empty() {
        return fail("to", "nobody: name a group, or leave it out for 239.192.77.2:5110".into());
    }
    for (index, address) in to.iter().enumerate() {
        if to[..index].contains(address) {
            return fail("to", format!("{address} is there twice (remove one of them)"));
        }
        if listen.iter().any(|listen| listen.address == *address) {
            return fail(
                "to",
                format!("{address} is listened to as well: signals would go round for ever (name another group)"),
            );
        }
        if address.port() == 0 || address.ip().is_unspecified() {
            return fail("to", format!("nobody can be reached at {address}"));
        }
    }
    let name = written.name.clone().unwrap_or_else(hostname);
    let feed = written.feed.clone().unwrap_or_else(|| FEED.into());
    for (key, text) in [("name", &name), ("feed", &feed)] {
        if text.is_empty() || text.len() > MOST_TEXT || text.chars().any(char::is_control) {
            return fail(key, format!("write 1 to {MOST_TEXT} bytes, none of them a control character"));
        }
    }
    let rate = written.rate.map_or(RATE, |rate| rate.micro_hertz);
    if !(100_000..=10_000_000_000).contains(&rate) {
        return fail("rate", format!("{} (it must be 0.1/s to 10k/s)", written.rate.unwrap_or_default()));
    }
    let delay = written.delay.map_or(DELAY, Span::duration);
    if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&delay) {
        return fail("delay", format!("{} (it must be 1ms to 1s)", written.delay.unwrap_or_default()));
    }
    Ok(Publish {
        to,
        interface: written.interface.clone(),
        ttl: written.ttl.unwrap_or(1),
        name,
        feed,
        priority: written.priority.unwrap_or(0),
        rate,
        delay,
        sign: written.sign.clone(),
    })
}

fn outputs(
    document: &Document,
    listen: &[Listen],
    error: &dyn Fn(&[Step<'_>], String) -> anyhow::Error,
) -> Result<Vec<Output>> {
    let mut all: Vec<Output> = Vec::new();
    for (index, written) in document.outputs.iter().enumerate() {
        let fail = |key: &'static str, message: String| {
            let path = [Step::Key("output"), Step::Index(index), Step::Key(key)];
            Err(error(&path, format!("output {}: {message}", written.to.0)))
        };
        let output = match written.clone().check() {
            Ok(output) => output,
            Err((key, message)) => return fail(key, message),
        };
        if all.iter().any(|other| other.to == output.to) {
            return fail("to", "it is there twice (name all its channels in one)".into());
        }
        if listen.iter().any(|listen| listen.address == output.to) {
            return fail("to", "stations are listened to there (name the address of the other tool)".into());
        }
        all.push(output);
    }
    Ok(all)
}

/// Of this machine, if it has one.
fn hostname() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "server".into())
}

fn derive(
    index: usize,
    all: &[document::Derive],
    error: &dyn Fn(&[Step<'_>], String) -> anyhow::Error,
) -> Result<Derive> {
    let document::Derive { name, unit, expression, statistic, window, frequency } = all[index].clone();
    let fail = |key: &'static str, message: String| {
        Err(error(&[Step::Key("derive"), Step::Index(index), Step::Key(key)], format!("derive {name}: {message}")))
    };
    let unit = unit.unwrap_or_default();
    for (key, text) in [("name", &name), ("unit", &unit)] {
        if (key == "name" && text.is_empty()) || text.len() > MOST_TEXT || text.chars().any(char::is_control) {
            return fail(key, format!("its {key} is 1 to {MOST_TEXT} bytes, none of them a control character"));
        }
    }
    if all[..index].iter().any(|other| other.name == name) {
        return fail("name", "it is there twice (remove one of them)".into());
    }
    if let Err(ExpressionError { at, message }) = derive::read(&expression) {
        return fail("expression", message)
            .map_err(|line| Pointed { line: line.to_string(), text: expression, at }.into());
    }
    let window = match (statistic, window.map(Span::duration)) {
        (None, None) => None,
        (Some(statistic), Some(window)) if !window.is_zero() && window <= DAY.duration() => {
            let moving = |statistic| Some(Window::Moving(statistic, window));
            match (statistic, frequency) {
                (document::Statistic::Mean, _) => moving(Statistic::Mean),
                (document::Statistic::Rms, _) => moving(Statistic::Rms),
                (document::Statistic::Min, _) => moving(Statistic::Min),
                (document::Statistic::Max, _) => moving(Statistic::Max),
                (document::Statistic::Std, _) => moving(Statistic::Std),
                (document::Statistic::PeakFrequency, _) => Some(Window::PeakFrequency(window)),
                (document::Statistic::Amplitude, Some(frequency)) if frequency.micro_hertz > 0 => {
                    Some(Window::Amplitude(frequency, window))
                }
                (document::Statistic::Amplitude, _) => {
                    return fail("statistic", "say at which frequency: frequency = \"50/s\"".into());
                }
            }
        }
        (Some(_), None) => return fail("statistic", "say over how long a time: window = \"1s\"".into()),
        (None, Some(_)) => {
            let names = "mean, rms, min, max, std, peak_frequency or amplitude";
            return fail("window", format!("say what of it: statistic = {names}"));
        }
        (_, Some(_)) => return fail("window", "it must be more than 0 and at most 24h".into()),
    };
    if frequency.is_some() && !matches!(window, Some(Window::Amplitude(..))) {
        return fail("frequency", "it is of statistic = \"amplitude\" alone (remove it)".into());
    }
    Ok(Derive { name, unit, expression, window })
}

fn rule(index: usize, written: &Limit, error: &dyn Fn(&[Step<'_>], String) -> anyhow::Error) -> Result<Rule> {
    let Limit { channel, very_low, low, high, very_high } = written;
    let at = |key| [Step::Key("limit"), Step::Index(index), Step::Key(key)];
    if !channel.contains('/') && channel != "*" {
        return Err(error(&at("channel"), format!("limit `{channel}`: write STATION/CHANNEL, e.g. coil/I1 or */I*")));
    }
    let order = [("very_low", very_low), ("low", low), ("high", high), ("very_high", very_high)];
    let told: Vec<(&str, f64)> = order.into_iter().filter_map(|(key, limit)| Some((key, (*limit)?))).collect();
    if told.is_empty() {
        return Err(error(&at("channel"), format!("limit {channel}: it has none (very_low, low, high, very_high)")));
    }
    if let Some((key, _)) = told.iter().find(|(_, limit)| !limit.is_finite()) {
        return Err(error(&at(key), format!("limit {channel}: {key} is no number")));
    }
    if let Some(pair) = told.windows(2).find(|pair| pair[0].1 > pair[1].1) {
        let message = format!("limit {channel}: {} is above {}", pair[0].0, pair[1].0);
        return Err(error(&at(pair[0].0), message));
    }
    let limits = Limits { very_low: *very_low, low: *low, high: *high, very_high: *very_high, ..Limits::default() };
    Ok(Rule { channel: channel.clone(), limits })
}

/// Whether one cannot listen at both: 0.0.0.0 is all addresses of its family.
fn is_same_place(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    let overlap = a == b || a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified());
    overlap && one.port() == other.port() && one.port() != 0
}

fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or_default();
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
}

/// Where the page is served.
const HTTP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5180);
/// The group of viewers.
const VIEWERS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(239, 192, 77, 2)), PORT);

/// What viewers are sent.
const FEED: &str = "view";

/// Buckets a second, in millionths: more than a screen has columns for.
const RATE: u64 = 200_000_000;
const DELAY: Duration = Duration::from_millis(10);
const DAY: Span = Span::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        let file = config::Document::parse("m.toml", text)?;
        config(file.read()?, Some(&file))
    }

    #[test]
    fn nothing_is_enough_and_what_is_printed_means_the_same() {
        let least = read("").unwrap();
        assert_eq!(least.settings.receive.listen[0].address.to_string(), "239.192.77.1:5110");
        assert_eq!(least.settings.http.to_string(), "127.0.0.1:5180");
        let all = "http = \"0.0.0.0:80\"\nhosts = [\"a\"]\norigins = [\"https://b\"]\nread_only = true\npeers = [\"http://c:5180\"]\n\
                   history = \"1min\"\nmemory = \"64MiB\"\nreceive_buffer = \"1MiB\"\nreorder = \"5ms\"\nkey = \"k\"\n\
                   senders = [\"p\"]\nsign = \"q\"\nhysteresis = \"2%\"\nstale = \"2s\"\nadmin = \"127.0.0.1:9518\"\n\
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
            (format!("{listen}{listen}"), "m.toml:4: listen 239.1.1.1:5110: it is there twice (remove one of them)"),
            (
                "[[listen]]\naddress = \"10.0.0.1:5110\"\ninterface = \"eth0\"\n".into(),
                "m.toml:3: listen 10.0.0.1:5110: interface is of groups alone (remove it)",
            ),
            (
                "[[listen]]\naddress = \"239.1.1.1:5110\"\nsource = \"239.1.1.2\"\n".into(),
                "m.toml:3: listen 239.1.1.1:5110: nobody sends from 239.1.1.2 (write the address of one machine)",
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
            ("[[limit]]\nchannel = \"s/a\"\nlow = 2.0\nhigh = 1.0\n".into(), "m.toml:3: limit s/a: low is above high"),
            (
                "[[limit]]\nchannel = \"s/a\"\n".into(),
                "m.toml:2: limit s/a: it has none (very_low, low, high, very_high)",
            ),
            (
                "[publish]\nto = [\"239.192.77.1:5110\"]\n".into(),
                "m.toml:2: publish.to: 239.192.77.1:5110 is listened to as well: signals would go round for ever (name another group)",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"I*U\"\n".into(),
                "m.toml:3: derive p: `I` is no channel: write {STATION/CHANNEL}, e.g. {coil/I}",
            ),
            ("[[derive]]\nname = \"p\"\nexpression = \"{a/b\"\n".into(), "m.toml:3: derive p: the brace is not closed"),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{a/b} + foo(2)\"\n".into(),
                "m.toml:3: derive p: there is no function `foo`",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{derived/p} + {a/b}\"\n".into(),
                "m.toml:3: derive p: it is made of itself, directly or by others",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{derived/q}\"\n".into(),
                "m.toml:3: derive p: there is no derived channel `q`",
            ),
            (
                "[[derive]]\nname = \"p\"\nexpression = \"{a/b}\"\nstatistic = \"amplitude\"\nwindow = \"1s\"\n".into(),
                "m.toml:4: derive p: say at which frequency: frequency = \"50/s\"",
            ),
            (
                "[[output]]\nto = \"10.0.0.1:0\"\nformat = \"influx\"\n".into(),
                "m.toml:2: output 10.0.0.1:0: nobody can be reached there (name an address and its port)",
            ),
            (
                format!("{0}{0}", "[[output]]\nto = \"10.0.0.1:9\"\nformat = \"influx\"\n"),
                "m.toml:5: output 10.0.0.1:9: it is there twice (name all its channels in one)",
            ),
            (
                "key = \"k\"\nsenders = []\n".into(),
                "m.toml:2: senders: it names nobody (name the files of those who may send, or leave it out: then anybody may)",
            ),
            ("histery = \"1s\"\n".into(), "m.toml:1: unknown key `histery`, did you mean `history`?"),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), line);
        }
    }
}
