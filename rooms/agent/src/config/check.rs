//! From what is written to what is meant: defaults filled in, every value within its bounds.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Result, anyhow};
use weir_program::config::{self, Step};
use weir_service::{Fixed, Target};
use weir_units::{Frequency, Span};

use super::Config;
use super::document::Document;
use crate::settings::{Pattern, Sampling, Settings};

/// The validated configuration, or the first mistake. `file`: where the document stands; `None`: it was made of flags.
pub(super) fn config(document: Document, file: Option<&config::Document<'_>>) -> Result<Config> {
    let error = |path: &[Step<'_>], message: String| match file {
        Some(file) => file.error(path, &message),
        None => anyhow!("{message}"),
    };
    let key = |key: &'static str, message: String| error(&[Step::Key(key)], format!("{key}: {message}"));

    let collectors: Vec<Target> = document.collectors.into_iter().map(|collector| collector.to).collect();
    if collectors.is_empty() {
        let how = if file.is_some() { "[[collector]] with to = \"HOST\"" } else { "--to HOST, or -c FILE" };
        return Err(error(&[], format!("no collector: say who is told, {how}")));
    }
    for (index, to) in collectors.iter().enumerate() {
        let path = [Step::Key("collector"), Step::Index(index), Step::Key("to")];
        if collectors[..index].contains(to) {
            return Err(error(&path, format!("collector {to}: it is there twice (remove one of them)")));
        }
        if matches!(to, Target::Address(address) if address.port() == 0 || address.ip().is_unspecified()) {
            return Err(error(
                &path,
                format!("collector {to}: nobody can be reached there (name a host and its port)"),
            ));
        }
    }
    if document.agent.is_some_and(|agent: IpAddr| agent.is_unspecified() || agent.is_multicast()) {
        return Err(key("agent", "an address of this machine, by which collectors know it".into()));
    }
    let interfaces = document.interfaces.unwrap_or_default();
    if let Some(Pattern(bad)) = interfaces.iter().find(|Pattern(name)| !is_name(name)) {
        return Err(key("interfaces", format!("`{bad}` is no name of an interface, e.g. eth0 or eth*")));
    }
    let polling = document.polling.map_or(POLLING, Span::duration);
    if !(SHORTEST..=LONGEST).contains(&polling) {
        return Err(key("polling", format!("{} (it must be 1s to 1h)", document.polling.unwrap_or_default())));
    }
    let sampling = match document.sampling {
        None => Sampling::BySpeed,
        Some(rate) => NonZeroU32::new(rate).map_or(Sampling::Off, Sampling::One),
    };
    if matches!(sampling, Sampling::One(rate) if rate.get() > MOST_RATE) {
        return Err(key("sampling", format!("one of {} (at most {MOST_RATE})", document.sampling.unwrap_or_default())));
    }
    let often = |name: &'static str, written: Option<Frequency>, default: u32, least: u32| {
        let Some(written) = written else { return Ok(default) };
        u32::try_from(written.micro_hertz / 1_000_000)
            .ok()
            .filter(|hertz| (least..=MOST_OFTEN).contains(hertz))
            .ok_or_else(|| key(name, format!("{written} (it must be {least}/s to {MOST_OFTEN}/s)")))
    };
    let settings = Settings {
        collectors,
        agent: document.agent,
        interfaces,
        polling,
        sampling,
        most_samples: often("samples", document.samples, SAMPLES, 1)?,
        most_drops: often("drops", document.drops, DROPS, 0)?,
    };
    let fixed = Fixed::new(document.admin.map(|admin| admin.0), document.user)
        .map_err(|message| error(&[Step::Key("user")], message))?;
    Ok(Config { settings, fixed })
}

/// As the kernel has them (net/core/dev.c, dev_valid_name), with stars.
fn is_name(name: &str) -> bool {
    (1..=15).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':')
}

/// As host-sflow has it.
const POLLING: Duration = Duration::from_secs(20);
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// Some 150 datagrams a second.
const SAMPLES: u32 = 1000;
const DROPS: u32 = 100;
const MOST_OFTEN: u32 = 100_000;

/// What a sample's rate can tell without surprise in 32 bits of a pool.
const MOST_RATE: u32 = 16_777_215;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        let file = config::Document::parse("agent.toml", text)?;
        config(file.read()?, Some(&file))
    }

    #[test]
    fn a_collector_is_enough_and_what_is_printed_means_the_same() {
        let least = read("[[collector]]\nto = \"collector.example\"\n").unwrap();
        assert_eq!(least.settings.collectors[0].to_string(), "collector.example:6343");
        assert_eq!((least.settings.polling, least.settings.sampling), (POLLING, Sampling::BySpeed));
        let all = "agent = \"192.0.2.1\"\ninterfaces = [\"eth*\"]\npolling = \"5s\"\nsampling = 64\nsamples = \"50/s\"\n\
                   drops = \"0\"\nadmin = \"127.0.0.1:9517\"\n[[collector]]\nto = \"192.0.2.7:7000\"\n[[collector]]\nto = \"2001:db8::7\"\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
    }

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        let to = "[[collector]]\nto = \"192.0.2.7\"\n";
        for (text, line) in [
            ("", "agent.toml: no collector: say who is told, [[collector]] with to = \"HOST\""),
            (&format!("{to}{to}"), "agent.toml:4: collector 192.0.2.7:6343: it is there twice (remove one of them)"),
            (&format!("polling = \"10ms\"\n{to}"), "agent.toml:1: polling: 10ms (it must be 1s to 1h)"),
            (
                &format!("interfaces = [\"a b\"]\n{to}"),
                "agent.toml:1: interfaces: `a b` is no name of an interface, e.g. eth0 or eth*",
            ),
            (&format!("samples = \"0/s\"\n{to}"), "agent.toml:1: samples: 0 (it must be 1/s to 100000/s)"),
            (&format!("sampling = 99999999\n{to}"), "agent.toml:1: sampling: one of 99999999 (at most 16777215)"),
            (
                &format!("agent = \"::\"\n{to}"),
                "agent.toml:1: agent: an address of this machine, by which collectors know it",
            ),
            (&format!("pooling = \"10s\"\n{to}"), "agent.toml:1: unknown key `pooling`, did you mean `polling`?"),
            (
                "[[collector]]\nto = \"192.0.2.7:x\"\n",
                "agent.toml:2: `192.0.2.7:x`: write HOST or HOST:PORT, e.g. 192.0.2.7, [2001:db8::7]:6343 or collector.example",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), line);
        }
    }
}
