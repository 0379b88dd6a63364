//! The configuration of a recorder, from a file or from flags.

use std::path::PathBuf;

use anyhow::Result;
use weir_program::config::{Address, Checked, Document, Step, UserName};
use weir_program::keys;
use weir_service::Fixed;
use weir_units::{Size, Span};

use super::Settings;
use crate::archive::{self, Limits};
use crate::config::{Listen, listens};
use crate::needed::Needed;
use crate::serve::settings::Keys;
use weir_signal::receive;

keys! {
    /// A configuration of `weir monitor record`.
    pub struct Config {
        /// Receive buffer of each socket.
        receive_buffer (fixed): Size = "8MiB";
        /// File of the group's key.
        key (fixed): Option<PathBuf>;
        /// Files of the senders' public keys. Without it: anybody may send.
        senders (fixed): Option<Vec<PathBuf>>;
        /// Where files are written.
        directory (fixed): PathBuf = ".";
        /// What names of files begin with.
        prefix (fixed): String = "weir";
        /// A file of this size is followed by another.
        cut_size (fixed): Size = "1GiB", "1MiB" to;
        /// A file of this age is followed by another.
        cut_after (fixed): Span = "15m", "1s" to;
        /// What is left of the disk to others, 8MiB at least.
        leave (fixed): Size = "1GiB";
        /// What may wait for the disk.
        queue (fixed): Size = "64MiB", "4MiB" to "16GiB";
        /// Where `/metrics`, `/healthz`, `/readyz` and `/ledger` are served.
        admin (fixed): Option<Address>;
        /// The user to become once everything is open.
        user (fixed): Option<UserName>;
        /// Where signals come in.
        listen (fixed): Vec<Listen> = [{ address = "239.192.77.1:5110" }];
    }
    gone { sign: "receivers ask stations for nothing: remove it"; }
}

/// A configuration that is read at the start and with each reload.
pub type Origin = weir_program::config::Origin<Config>;

impl Checked for Config {
    fn check(&self, document: &Document<'_>) -> Result<()> {
        listens(&self.listen, document)?;
        let prefix = &self.prefix;
        if prefix.is_empty() || prefix.starts_with('.') || prefix.contains(|c: char| c == '/' || c.is_control()) {
            return Err(document.wrong(&[Step::Key("prefix")], "write a name that files begin with, e.g. weir"));
        }
        if self.senders.as_ref().is_some_and(Vec::is_empty) {
            return Err(document.wrong(&[Step::Key("senders")], Keys::NO_SENDERS));
        }
        Ok(())
    }
}

/// Reads it at the start, with the files of keys that it names, and if it is only to be checked with all else that it needs of this
/// machine. Returns also what is to be said of that, a line each.
///
/// # Errors
/// A line a mistake; a key cannot be read, an interface, an address or the directory is not there.
pub fn begin(origin: &Origin, is_check: bool) -> Result<(Config, Vec<String>)> {
    let mut warnings = Vec::new();
    let config = origin.load_with(|config, document| {
        let (settings, mut needed) = (config.settings(), Needed::new(document));
        needed.keys(&settings.keys)?;
        if is_check {
            needed.listen(&settings.receive.listen)?;
            needed.directory(&[Step::Key("directory")], &config.directory, config.fixed().user.as_deref())?;
            config.admin.map_or(Ok(()), |Address(admin)| needed.server("admin", admin))?;
        }
        warnings = needed.into_warnings();
        Ok(())
    })?;
    Ok((config, warnings))
}

impl Config {
    /// What a recorder is to do.
    pub(super) fn settings(&self) -> Settings {
        let bytes = |size: Size| usize::try_from(size.bytes).unwrap_or(usize::MAX);
        let limits = Limits {
            cut_bytes: self.cut_size.bytes,
            cut_after: self.cut_after.duration(),
            leave: self.leave.bytes.max(Limits::LEAST_LEFT),
            queue: bytes(self.queue),
        };
        Settings {
            receive: receive::Settings {
                listen: self.listen.iter().map(Into::into).collect(),
                receive_buffer: bytes(self.receive_buffer),
                ..receive::Settings::default()
            },
            keys: Keys { group: self.key.clone(), senders: self.senders.clone().unwrap_or_default() },
            archive: archive::Settings { directory: self.directory.clone(), prefix: self.prefix.clone(), limits },
        }
    }

    /// What only a start can change.
    pub(super) fn fixed(&self) -> Fixed {
        Fixed::of(self.admin, self.user.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        Config::of(&Document::parse("record.toml", text)?)
    }

    #[test]
    fn nothing_is_enough_and_what_is_printed_means_the_same() {
        let least = read("").unwrap();
        assert_eq!(least.settings().receive, receive::Settings::default());
        assert_eq!(least.settings().archive.limits, Limits::default());
        let all = "receive_buffer = \"1MiB\"\ndirectory = \"/data\"\nprefix = \"shot\"\ncut_size = \"1GiB\"\ncut_after = \"1h\"\n\
                   leave = \"10GiB\"\nqueue = \"1GiB\"\nadmin = \"127.0.0.1:9518\"\nkey = \"/k\"\n\
                   [[listen]]\naddress = \"239.1.1.1:5000\"\ninterface = \"eth0\"\nsource = \"192.0.2.1\"\n\
                   [[listen]]\naddress = \"0.0.0.0:5001\"\n";
        for config in [least, read(all).unwrap()] {
            assert_eq!(read(&config.to_toml()).unwrap(), config, "{}", config.to_toml());
        }
    }
}
