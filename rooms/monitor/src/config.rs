//! What the configurations of several parts have in common.

use std::net::IpAddr;

use anyhow::Result;
use nix::unistd::gethostname;
use serde::{Deserialize, Serialize};
use weir_program::config::{Address, Document, Step, Value};
use weir_program::keys;
use weir_wire::signal::field::MOST_TEXT;

use weir_signal::receive;

keys! {
    /// Where signals come in.
    pub struct Listen {
        /// A group, or an address of this machine, with its port.
        address: Address;
        /// Of a group: the interface to join it on. Without it: where a route leads.
        interface: Option<String>;
        /// Of a group: the one source to hear. Without it: any.
        source: Option<IpAddr>;
    }
}

impl From<&Listen> for receive::Listen {
    fn from(Listen { address: Address(address), interface, source }: &Listen) -> Self {
        Self { address: *address, interface: interface.clone(), source: *source }
    }
}

/// Where signals come in, checked; at least one.
pub(crate) fn listens(all: &[Listen], document: &Document<'_>) -> Result<Vec<receive::Listen>> {
    let mut checked: Vec<receive::Listen> = Vec::new();
    for (index, written) in all.iter().enumerate() {
        let (Address(address), source) = (&written.address, &written.source);
        let wrong = |key, message: String| {
            let path = [Step::Key("listen"), Step::Index(index), Step::Key(key)];
            Err(document.wrong(&path, message))
        };
        let listen = receive::Listen::from(written);
        if checked.contains(&listen) {
            return wrong("address", format!("{address} is there twice (remove one of them)"));
        }
        if !address.ip().is_multicast() && (listen.interface.is_some() || source.is_some()) {
            let key = if listen.interface.is_some() { "interface" } else { "source" };
            return wrong(key, format!("{address} is no group: remove it"));
        }
        if let Some(source) = source {
            if source.is_ipv4() != address.is_ipv4() {
                return wrong("source", format!("{source} is of another family than {address}"));
            }
            if !receive::Listen::can_send(*source) {
                return wrong("source", format!("nobody sends from {source} (write the address of one machine)"));
            }
        }
        checked.push(listen);
    }
    match checked.is_empty() {
        true => Err(document.wrong(&[Step::Key("listen")], "nowhere (leave it out for 239.192.77.1:5110)")),
        false => Ok(checked),
    }
}

/// A text of so many bytes at most, without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Text<const MOST: usize>(pub(crate) String);

impl<const MOST: usize> TryFrom<String> for Text<MOST> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.len() > MOST || text.chars().any(char::is_control) {
            true => Err(format!("at most {MOST} bytes, without control characters")),
            false => Ok(Self(text)),
        }
    }
}

impl<const MOST: usize> Value for Text<MOST> {
    const KIND: &'static str = "text";

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

/// A text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Name<const MOST: usize>(pub(crate) String);

impl<const MOST: usize> TryFrom<String> for Name<MOST> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let Text::<MOST>(name) = text.try_into()?;
        if name.is_empty() { Err("it is empty".into()) } else { Ok(Self(name)) }
    }
}

impl<const MOST: usize> Value for Name<MOST> {
    const KIND: &'static str = "text";
}

/// A name that is the host's where none is given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct HostName(pub(crate) Name<MOST_TEXT>);

impl Value for HostName {
    const KIND: &'static str = "text";

    fn absent() -> Option<Self> {
        let host = gethostname().ok().and_then(|name| name.into_string().ok());
        Some(Self(Name(host.filter(|name| !name.is_empty()).unwrap_or_else(|| "weir".into()))))
    }
}
