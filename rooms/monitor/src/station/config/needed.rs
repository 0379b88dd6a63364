//! What a station is to have of this machine.

use anyhow::Result;
use weir_program::config::Step;

use crate::needed::{Needed, is_pipe};
use crate::seal::{GroupKey, SigningKey};
use crate::station::settings::{Kind, Settings};
use crate::station::sources;

/// Files of keys.
pub(super) fn keys(settings: &Settings, needed: &Needed<'_, '_>) -> Result<()> {
    needed.key(&[Step::Key("encrypt")], settings.encrypt.as_deref(), GroupKey::read)?;
    needed.key(&[Step::Key("sign")], settings.sign.as_deref(), SigningKey::read)?;
    needed.public_keys("servers", &settings.servers)
}

/// Interfaces, and what its sources read.
pub(super) fn others(settings: &Settings, needed: &Needed<'_, '_>) -> Result<()> {
    for (key, groups) in [("interface", &settings.groups), ("full_interface", &settings.full)] {
        for (at, group) in groups.iter().enumerate() {
            needed.interface(&[Step::Key(key), Step::Index(at)], group.interface.as_deref())?;
        }
    }
    for (at, source) in settings.sources.iter().enumerate() {
        let path = |key| [Step::Key("source"), Step::Index(at), Step::Key(key)];
        match &source.kind {
            // None of them is waited for at a start. Opened they are only read.
            Kind::Tail(file, _) | Kind::Ring(file, _) | Kind::Wav { path: file, .. } if !is_pipe(file) => {
                let opened = sources::open(at, source);
                opened.map(drop).map_err(|error| needed.error(&path("path"), format!("{error:#}")))?;
            }
            Kind::Udp(listen, _) => needed.datagrams(&path("listen"), *listen)?,
            _ => {}
        }
    }
    Ok(())
}
