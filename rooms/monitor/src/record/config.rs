//! From a file, or from flags, to validated [`Settings`]; and back, for `--check`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use weir_program::config::{self, Address, Base, Step};
use weir_service::Fixed;
use weir_units::{Size, Span};

use super::Settings;
use crate::archive::{self, Limits};
use crate::needed::Needed;
use crate::receive::{self, Listen};
use crate::serve::config::document;
use crate::serve::settings::Keys;

/// A configuration of `weir monitor record`. `None`: the default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Receive buffer of each socket.
    pub receive_buffer: Option<Size>,
    /// File of the group's key.
    pub key: Option<PathBuf>,
    /// Files of the senders' public keys.
    pub senders: Option<Vec<PathBuf>>,
    /// File of the key by which requests to stations are signed.
    pub sign: Option<PathBuf>,
    /// The directory of files.
    pub directory: Option<PathBuf>,
    /// What names of files begin with.
    pub prefix: Option<String>,
    /// A file of this size is followed by another.
    pub cut_size: Option<Size>,
    /// Likewise after this time.
    pub cut_after: Option<Span>,
    /// What is left of the disk to others, 8MiB at least.
    pub leave: Option<Size>,
    /// What may wait for the disk.
    pub queue: Option<Size>,
    /// Where `/metrics` and `/healthz` are served.
    pub admin: Option<Address>,
    /// The user to become once everything is open.
    pub user: Option<String>,
    /// Where signals come in.
    #[serde(rename = "listen", default, skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<document::Listen>,
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
        self.base.load(|document, file| check(self.with_flags(document), file))
    }

    /// The same at the start, with the files of keys that it names, and if it is only to be checked with all else that it needs of this
    /// machine. Returns also what is to be said of that, a line each.
    ///
    /// # Errors
    /// Likewise; a key cannot be read, an interface, an address or the directory is not there.
    pub fn begin(&self, is_check: bool) -> Result<(Config, Vec<String>)> {
        self.base.load(|document, file| {
            let config = check(self.with_flags(document), file)?;
            let (settings, mut needed) = (&config.settings, Needed::new(file));
            needed.keys(&settings.keys)?;
            if is_check {
                needed.listen(&settings.receive.listen)?;
                let user = config.fixed.user.as_deref();
                needed.directory(&[Step::Key("directory")], &settings.archive.directory, user)?;
                needed.admin(&config.fixed, &self.fixed)?;
            }
            Ok((config, needed.into_warnings()))
        })
    }

    fn with_flags(&self, document: Document) -> Document {
        Document {
            admin: self.fixed.admin.map(Address).or(document.admin),
            user: self.fixed.user.clone().or(document.user),
            ..document
        }
    }
}

impl Config {
    /// The file that says the same with every default written out.
    pub fn to_toml(&self) -> String {
        let Settings { receive, keys, archive } = &self.settings;
        let listen = |listen: &Listen| document::Listen {
            address: Address(listen.address),
            interface: listen.interface.clone(),
            source: listen.source,
        };
        let Limits { cut_bytes, cut_after, leave, queue } = archive.limits;
        let size = |bytes: u64| Some(Size { bytes });
        let document = Document {
            receive_buffer: size(receive.receive_buffer as u64),
            key: keys.group.clone(),
            senders: (!keys.senders.is_empty()).then(|| keys.senders.clone()),
            sign: keys.sign.clone(),
            directory: Some(archive.directory.clone()),
            prefix: Some(archive.prefix.clone()),
            cut_size: size(cut_bytes),
            cut_after: Some(Span::from_nanos(u64::try_from(cut_after.as_nanos()).unwrap_or(u64::MAX))),
            leave: size(leave),
            queue: size(queue as u64),
            admin: self.fixed.admin.map(Address),
            user: self.fixed.user.clone(),
            listen: receive.listen.iter().map(listen).collect(),
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
    let mut listen = Vec::new();
    for (index, document::Listen { address: Address(address), interface, source }) in
        document.listen.into_iter().enumerate()
    {
        let path = [Step::Key("listen"), Step::Index(index)];
        let error = |message: String| match file {
            Some(file) => file.error(&path, &message),
            None => anyhow!("{message}"),
        };
        if !address.ip().is_multicast() && (interface.is_some() || source.is_some()) {
            return Err(error(format!("listen {address}: it is no group (leave out interface and source)")));
        }
        if let Some(source) = source.filter(|source| !Listen::can_send(*source)) {
            return Err(error(format!(
                "listen {address}: nobody sends from {source} (write the address of one machine)"
            )));
        }
        let new = Listen { address, interface, source };
        if listen.contains(&new) {
            return Err(error(format!("listen {address}: it is there twice (remove one of them)")));
        }
        listen.push(new);
    }
    let listen = if listen.is_empty() { receive.listen } else { listen };
    let usual = Limits::default();
    let bytes = |size: Option<Size>, usual: u64| size.map_or(usual, |size| size.bytes);
    let limits = Limits {
        cut_bytes: bytes(document.cut_size, usual.cut_bytes),
        cut_after: document.cut_after.map_or(usual.cut_after, Span::duration),
        leave: bytes(document.leave, usual.leave).max(Limits::LEAST_LEFT),
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
        listen,
        receive_buffer: usize::try_from(bytes(document.receive_buffer, receive.receive_buffer as u64))
            .unwrap_or(usize::MAX),
        ..receive
    };
    let directory = document.directory.unwrap_or_else(|| ".".into());
    let fixed =
        Fixed::new(document.admin.map(|admin| admin.0), document.user).map_err(|message| error("user", message))?;
    if document.senders.as_ref().is_some_and(Vec::is_empty) {
        return Err(error("senders", Keys::NO_SENDERS.into()));
    }
    let keys = Keys { group: document.key, senders: document.senders.unwrap_or_default(), sign: document.sign };
    let archive = archive::Settings { directory, prefix, limits };
    Ok(Config { settings: Settings { receive, keys, archive }, fixed })
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
        let all = "receive_buffer = \"1MiB\"\ndirectory = \"/data\"\nprefix = \"shot\"\ncut_size = \"1GiB\"\ncut_after = \"1h\"\n\
                   leave = \"10GiB\"\nqueue = \"1GiB\"\nadmin = \"127.0.0.1:9518\"\nkey = \"/k\"\nsign = \"/s\"\n\
                   [[listen]]\naddress = \"239.1.1.1:5000\"\ninterface = \"eth0\"\nsource = \"192.0.2.1\"\n\
                   [[listen]]\naddress = \"0.0.0.0:5001\"\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
        // What is printed is what is in force.
        let printed = read("leave = \"1MiB\"").unwrap().to_toml();
        assert!(printed.contains("leave = \"8MiB\""), "{printed}");
    }

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        for (text, line) in [
            (
                "[[listen]]\naddress = \"239.1.1.1:1\"\n[[listen]]\naddress = \"239.1.1.1:1\"",
                "record.toml:3: listen 239.1.1.1:1: it is there twice (remove one of them)",
            ),
            (
                "[[listen]]\ninterface = \"eth0\"\naddress = \"127.0.0.1:1\"",
                "record.toml:1: listen 127.0.0.1:1: it is no group (leave out interface and source)",
            ),
            (
                "[[listen]]\naddress = \"239.1.1.1:1\"\nsource = \"239.1.1.2\"",
                "record.toml:1: listen 239.1.1.1:1: nobody sends from 239.1.1.2 (write the address of one machine)",
            ),
            ("cut_size = \"1KiB\"", "record.toml:1: cut_size: 1KiB (it must be 1MiB or more)"),
            ("cut_after = \"10ms\"", "record.toml:1: cut_after: 10ms (it must be 1s or more)"),
            ("queue = \"1MiB\"", "record.toml:1: queue: 1MiB (it must be 4MiB to 16GiB)"),
            (
                "senders = []",
                "record.toml:1: senders: it names nobody (name the files of those who may send, or leave it out: then anybody may)",
            ),
            ("prefix = \"../a\"", "record.toml:1: prefix: a name that files begin with, e.g. weir"),
            ("prefx = \"a\"", "record.toml:1: unknown key `prefx`, did you mean `prefix`?"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), line);
        }
    }
}
