//! From a file, or from flags, to validated [`Settings`]; and back, for `--check`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use weir_service::Fixed;
use weir_service::config::{self, Address, Base, Step};
use weir_units::{Size, Span};

use super::Settings;
use crate::archive::{self, Limits};
use crate::receive::{self, Listen};

/// A configuration of `weir monitor record`. `None`: the default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Groups and addresses.
    pub listen: Option<Vec<Address>>,
    /// The interface to join groups on.
    pub interface: Option<String>,
    /// The one source of groups to hear.
    pub source: Option<IpAddr>,
    /// Receive buffer that is asked for.
    pub receive_buffer: Option<Size>,
    /// The directory of files.
    pub directory: Option<PathBuf>,
    /// What names of files begin with.
    pub prefix: Option<String>,
    /// A file of this size is followed by another.
    pub cut_size: Option<Size>,
    /// Likewise after this time.
    pub cut_after: Option<Span>,
    /// What is left of the disk to others.
    pub leave: Option<Size>,
    /// What may wait for the disk.
    pub queue: Option<Size>,
    /// Where `/metrics` and `/healthz` are served.
    pub admin: Option<Address>,
    /// The user to become once everything is open.
    pub user: Option<String>,
}

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
            check(document, file)
        })
    }
}

impl Config {
    /// The file that says the same with every default written out.
    pub fn to_toml(&self) -> String {
        let Settings { receive, archive } = &self.settings;
        let first = receive.listen.first();
        let Limits { cut_bytes, cut_after, leave, queue } = archive.limits;
        let size = |bytes: u64| Some(Size { bytes });
        let document = Document {
            listen: Some(receive.listen.iter().map(|listen| Address(listen.address)).collect()),
            interface: first.and_then(|listen| listen.interface.clone()),
            source: first.and_then(|listen| listen.source),
            receive_buffer: size(receive.receive_buffer as u64),
            directory: Some(archive.directory.clone()),
            prefix: Some(archive.prefix.clone()),
            cut_size: size(cut_bytes),
            cut_after: Some(Span::from_nanos(u64::try_from(cut_after.as_nanos()).unwrap_or(u64::MAX))),
            leave: size(leave),
            queue: size(queue as u64),
            admin: self.fixed.admin.map(Address),
            user: self.fixed.user.clone(),
        };
        // Every key of the document has a form in TOML.
        toml::to_string(&document).unwrap_or_default()
    }
}

/// The validated configuration, or the first mistake. `file`: where the document stands; `None`: it was made of flags.
fn check(document: Document, file: Option<&config::Document<'_>>) -> Result<Config> {
    let error = |key: &'static str, message: String| match file {
        Some(file) => file.error(&[Step::Key(key)], &message),
        None => anyhow!("{message}"),
    };
    let receive = receive::Settings::default();
    let Document { interface, source, .. } = document;
    let listen = match document.listen {
        None => receive.listen.into_iter().map(|listen| listen.address).collect(),
        Some(listen) => listen.into_iter().map(|Address(address)| address).collect::<Vec<SocketAddr>>(),
    };
    if listen.is_empty() {
        return Err(error("listen", "listen: say what is received, e.g. listen = [\"239.192.77.1:5110\"]".into()));
    }
    if let Some(twice) = listen.iter().enumerate().find(|(at, address)| listen[..*at].contains(address)) {
        return Err(error("listen", format!("listen: {} is there twice (remove one of them)", twice.1)));
    }
    let has_groups = listen.iter().any(|address| address.ip().is_multicast());
    for (key, given) in [("interface", interface.is_some()), ("source", source.is_some())] {
        if given && !has_groups {
            return Err(error(key, format!("{key}: no group is received (leave it out)")));
        }
    }
    let of = |address: SocketAddr| {
        let group = address.ip().is_multicast();
        Listen { address, interface: interface.clone().filter(|_| group), source: source.filter(|_| group) }
    };
    let usual = Limits::default();
    let bytes = |size: Option<Size>, usual: u64| size.map_or(usual, |size| size.bytes);
    let limits = Limits {
        cut_bytes: bytes(document.cut_size, usual.cut_bytes),
        cut_after: document.cut_after.map_or(usual.cut_after, Span::duration),
        leave: bytes(document.leave, usual.leave),
        queue: usize::try_from(bytes(document.queue, usual.queue as u64)).unwrap_or(usize::MAX),
    };
    if limits.cut_bytes < LEAST_CUT {
        return Err(error(
            "cut_size",
            format!("cut_size: {} (it must be 1MiB or more)", Size { bytes: limits.cut_bytes }),
        ));
    }
    if limits.cut_after < LEAST_TIME {
        return Err(error(
            "cut_after",
            format!("cut_after: {} (it must be 1s or more)", document.cut_after.unwrap_or_default()),
        ));
    }
    if !QUEUE.contains(&limits.queue) {
        return Err(error(
            "queue",
            format!("queue: {} (it must be 4MiB to 16GiB)", Size { bytes: limits.queue as u64 }),
        ));
    }
    let prefix = document.prefix.unwrap_or_else(|| "weir".into());
    if prefix.is_empty()
        || prefix.starts_with('.')
        || prefix.contains(['/', '\0'])
        || prefix.chars().any(char::is_control)
    {
        return Err(error("prefix", "prefix: a name that files begin with, e.g. weir".into()));
    }
    let receive = receive::Settings {
        listen: listen.into_iter().map(of).collect(),
        receive_buffer: usize::try_from(bytes(document.receive_buffer, receive.receive_buffer as u64))
            .unwrap_or(usize::MAX),
        ..receive
    };
    let directory = document.directory.unwrap_or_else(|| ".".into());
    let fixed =
        Fixed::new(document.admin.map(|admin| admin.0), document.user).map_err(|message| error("user", message))?;
    Ok(Config { settings: Settings { receive, archive: archive::Settings { directory, prefix, limits } }, fixed })
}

const LEAST_CUT: u64 = 1 << 20;
const LEAST_TIME: Duration = Duration::from_secs(1);
const QUEUE: std::ops::RangeInclusive<usize> = 4 << 20..=16 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        let file = config::Document::parse("record.toml", text)?;
        check(file.read()?, Some(&file))
    }

    #[test]
    fn nothing_is_enough_and_what_is_printed_means_the_same() {
        let least = read("").unwrap();
        assert_eq!(least.settings.receive, receive::Settings::default());
        let all = "listen = [\"239.1.1.1:5000\", \"0.0.0.0:5001\"]\ninterface = \"eth0\"\nsource = \"192.0.2.1\"\n\
                   receive_buffer = \"1MiB\"\ndirectory = \"/data\"\nprefix = \"shot\"\ncut_size = \"1GiB\"\ncut_after = \"1h\"\n\
                   leave = \"10GiB\"\nqueue = \"1GiB\"\nadmin = \"127.0.0.1:9518\"\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
    }

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        for (text, line) in [
            ("listen = []", "record.toml:1: listen: say what is received, e.g. listen = [\"239.192.77.1:5110\"]"),
            (
                "listen = [\"239.1.1.1:1\", \"239.1.1.1:1\"]",
                "record.toml:1: listen: 239.1.1.1:1 is there twice (remove one of them)",
            ),
            (
                "interface = \"eth0\"\nlisten = [\"127.0.0.1:1\"]",
                "record.toml:1: interface: no group is received (leave it out)",
            ),
            ("cut_size = \"1KiB\"", "record.toml:1: cut_size: 1KiB (it must be 1MiB or more)"),
            ("cut_after = \"10ms\"", "record.toml:1: cut_after: 10ms (it must be 1s or more)"),
            ("queue = \"1MiB\"", "record.toml:1: queue: 1MiB (it must be 4MiB to 16GiB)"),
            ("prefix = \"../a\"", "record.toml:1: prefix: a name that files begin with, e.g. weir"),
            ("prefx = \"a\"", "record.toml:1: unknown key `prefx`, did you mean `prefix`?"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), line);
        }
    }
}
