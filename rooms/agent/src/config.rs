//! The configuration of the agent, from a file or from flags.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use weir_program::config::{Address, Checked, Document, Step, UserName};
use weir_program::{keys, values};
use weir_service::{Fixed, Target};
use weir_units::{Frequency, Span};
use weir_wire::sflow::PORT;

keys! {
    /// A configuration of `weir sflow agent`.
    pub struct Config {
        /// The address by which collectors know the agent. Without it: the one from which the first collector is reached.
        agent (fixed): Option<IpAddr>;
        /// Names of the interfaces that are counted and sampled; `*` stands for any characters. Without it: all but loopback.
        interfaces: Vec<Pattern>;
        /// From one counter sample of a data source to the next.
        polling: Span = "20s", "1s" to "1h";
        /// One packet of so many is sampled; 0: none. Without it: of as many as the interface has Mbit/s, 100 at least, 400 where its
        /// speed is not known.
        sampling: Option<u32>, 0 to 16777215;
        /// Most flow samples a second; what is beyond is shed, and counted.
        samples: Frequency = "1k/s", "1/s" to "100k/s";
        /// Most dropped packets a second that are sent; the others are counted alone. 0: drops are not traced.
        drops: Frequency = "100/s", "1/s" to "100k/s" or "0";
        /// Where `/metrics`, `/healthz`, `/readyz` and `/ledger` are served.
        admin (fixed): Option<Address>;
        /// The user to become once everything is open.
        user (fixed): Option<UserName>;
        /// Where datagrams go.
        collector: Vec<Collector>;
    }
}

keys! {
    /// A collector.
    pub struct Collector {
        /// Address or host name; without a port, 6343.
        to: To;
    }
}

values! { To = "host:port", Pattern = "text" }

/// A configuration that is read at the start and with each reload.
pub type Origin = weir_program::config::Origin<Config>;

impl Checked for Config {
    fn check(&self, document: &Document<'_>) -> Result<()> {
        if self.collector.is_empty() {
            let how = if document.is_file() { "[[collector]] with to = \"HOST\"" } else { "--to HOST, or -c FILE" };
            return Err(document.wrong(&[], format_args!("no collector: name one, {how}")));
        }
        for (index, Collector { to }) in self.collector.iter().enumerate() {
            let path = [Step::Key("collector"), Step::Index(index), Step::Key("to")];
            if self.collector[..index].iter().any(|other| other.to == *to) {
                return Err(document.wrong(&path, format_args!("{to} is there twice (remove one of them)")));
            }
            if matches!(to.0, Target::Address(address) if address.port() == 0 || address.ip().is_unspecified()) {
                return Err(document.wrong(&path, format_args!("{to} cannot be reached (name a host and its port)")));
            }
        }
        if self.agent.is_some_and(|agent| agent.is_unspecified() || agent.is_multicast()) {
            return Err(
                document.wrong(&[Step::Key("agent")], "write an address of this machine, by which collectors know it")
            );
        }
        Ok(())
    }
}

impl Config {
    /// Where datagrams go.
    pub(crate) fn collectors(&self) -> impl Iterator<Item = &Target> {
        self.collector.iter().map(|Collector { to }| &to.0)
    }

    /// Whether packets are sampled at all.
    pub(crate) fn samples_packets(&self) -> bool {
        self.sampling != Some(0)
    }

    /// One packet of so many is sampled at an interface of so many Mbit/s, as host-sflow has it; `None`: none.
    pub(crate) fn rate(&self, speed_mbit: Option<u32>) -> Option<u32> {
        match self.sampling {
            Some(rate) => Some(rate).filter(|rate| *rate > 0),
            None => Some(speed_mbit.map_or(UNKNOWN_SPEED, |speed| speed.max(LEAST))),
        }
    }

    /// Most flow samples a second.
    pub(crate) fn most_samples(&self) -> u32 {
        per_second(self.samples)
    }

    /// Most dropped packets a second.
    pub(crate) fn most_drops(&self) -> u32 {
        per_second(self.drops)
    }

    /// What only a start can change.
    pub(crate) fn fixed(&self) -> Fixed {
        Fixed::of(self.admin, self.user.as_ref())
    }
}

fn per_second(frequency: Frequency) -> u32 {
    u32::try_from(frequency.micro_hertz / 1_000_000).unwrap_or(u32::MAX)
}

/// A collector's address, or its name, and its port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct To(pub Target);

impl TryFrom<String> for To {
    type Error = String;

    /// Reads `192.0.2.7`, `2001:db8::7`, `[2001:db8::7]:6343`, `collector.example` or `collector.example:6343`; without a port it is
    /// sFlow's, 6343. Nothing is looked up.
    fn try_from(text: String) -> Result<Self, String> {
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(Self(Target::Address(SocketAddr::new(address, PORT))));
        }
        let target = text.parse().or_else(|_| format!("{text}:{PORT}").parse());
        target.map(Self).map_err(|_: String| {
            format!("`{text}`: write HOST or HOST:PORT, e.g. 192.0.2.7, [2001:db8::7]:6343 or collector.example")
        })
    }
}

impl From<To> for String {
    fn from(to: To) -> Self {
        to.to_string()
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names of interfaces: `eth0`, `eth*`; `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Pattern(pub String);

impl TryFrom<String> for Pattern {
    type Error = String;

    /// Takes names as the kernel has them (net/core/dev.c, dev_valid_name), with stars.
    fn try_from(name: String) -> Result<Self, String> {
        let is_part = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
        match (1..=15).contains(&name.len()) && name.bytes().all(is_part) {
            true => Ok(Self(name)),
            false => Err(format!("`{name}` is no name of an interface, e.g. eth0 or eth*")),
        }
    }
}

impl Pattern {
    /// Whether an interface has such a name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

/// The rate where the speed is not known.
const UNKNOWN_SPEED: u32 = 400;

/// The rate of slow interfaces.
const LEAST: u32 = 100;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Config> {
        Config::of(&Document::parse("agent.toml", text)?)
    }

    #[test]
    fn a_collector_is_enough_and_what_is_printed_means_the_same() {
        let least = read("[[collector]]\nto = \"collector.example\"\n").unwrap();
        assert_eq!(least.collector[0].to.to_string(), "collector.example:6343");
        assert_eq!((least.polling, least.sampling), (Span::from_secs(20), None));
        let all = "agent = \"192.0.2.1\"\ninterfaces = [\"eth*\"]\npolling = \"5s\"\nsampling = 64\nsamples = \"50/s\"\n\
                   drops = \"0\"\nadmin = \"127.0.0.1:9517\"\n[[collector]]\nto = \"192.0.2.7:7000\"\n[[collector]]\nto = \"2001:db8::7\"\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, matches) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth*", "eth01", true),
            ("eth*", "veth0", false),
            ("*", "", true),
            ("*.7", "eth0.7", true),
            ("e*h*1", "eth01", true),
            ("e*h*1", "eth02", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(Pattern(pattern.into()).matches(name), matches, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_with_parts_left_out_matches(a in "[a-z]{0,4}", b in "[a-z]{0,4}", c in "[a-z]{0,4}", d in "[a-z]{0,4}") {
            let name = format!("{a}{b}{c}{d}");
            for pattern in [format!("{a}*{c}*"), format!("*{b}*{d}")] {
                prop_assert!(Pattern(pattern).matches(&name));
            }
        }
    }

    #[test]
    fn rates_follow_the_speed() {
        let read = |text: &str| read(&format!("{text}\n[[collector]]\nto = \"192.0.2.7\"")).unwrap();
        let rate = |speed| read("").rate(speed);
        assert_eq!(
            [rate(Some(10)), rate(Some(1000)), rate(Some(100_000)), rate(None)],
            [100, 1000, 100_000, 400].map(Some)
        );
        assert_eq!(["sampling = 0", "sampling = 7"].map(|text| read(text).rate(Some(1000))), [None, Some(7)]);
    }
}
