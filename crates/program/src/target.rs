//! Where datagrams go, as files and flags write it.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// An address, or a name for some: `10.0.0.1:514`, `siem.example:514`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A host name and a port.
    Name(String, u16),
}

crate::values! { Target = "host:port" }

impl Target {
    /// The host name, if it is one.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Name(host, _) => Some(host),
            Self::Address(_) => None,
        }
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `192.0.2.7:514`, `[2001:db8::7]:514` or `siem.example:514`; nothing is looked up.
    fn from_str(text: &str) -> Result<Self, String> {
        let example =
            || format!("`{text}`: write HOST:PORT, e.g. 192.0.2.7:514, [2001:db8::7]:514 or siem.example:514");
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(example)?;
        if let Some((address, interface)) = host.split_once('%') {
            return Err(format!(
                "`{text}`: write {address}]:{port} and the interface by itself: interface = \"{}\"",
                interface.trim_end_matches(']')
            ));
        }
        let port = port.parse().map_err(|_| example())?;
        // Underscores are no part of host names, and part of service names.
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let labels = host.strip_suffix('.').unwrap_or(host);
        // What ends in a number is meant as an address, and is none.
        let is_number = labels.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        if labels.len() > 253 || is_number || !labels.split('.').all(is_label) {
            return Err(example());
        }
        Ok(Self::Name(host.to_owned(), port))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
