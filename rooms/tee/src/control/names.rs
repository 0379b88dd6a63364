//! What the host names of destinations mean now.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use weir_service::names::HostNames;

use crate::config::{Local, is_own_listener};
use weir_forward::plan::Addresses;
use weir_forward::settings::{self, Destination, Settings, Target};

/// Follows every host name of the settings in force.
pub(super) struct Names {
    hosts: HostNames,
    /// Lines that were logged, each once.
    told: BTreeSet<String>,
}

impl Names {
    /// Follows the names of these settings.
    pub(super) fn new(settings: &Settings) -> Self {
        Self { hosts: HostNames::new(targets(settings)), told: BTreeSet::new() }
    }

    /// Follows the names of these settings and no others.
    pub(super) fn follow<'a>(&self, settings: impl IntoIterator<Item = &'a Settings>) {
        self.hosts.follow(settings.into_iter().flat_map(targets));
    }

    /// Whether addresses may be others than before the last call.
    pub(super) fn changed(&self) -> bool {
        self.hosts.changed()
    }

    /// The addresses of every destination that has a name, by its index. Left out, with a line in the log, are those
    /// that would come in again, and those beyond `addresses`; silently those that `from` cannot send to.
    pub(super) fn addresses(&mut self, settings: &Settings) -> Addresses {
        let local = Local::now();
        let mut all = Addresses::new();
        for (index, destination) in settings.destinations.iter().enumerate() {
            if destination.to.host().is_none() {
                continue;
            }
            let (name, most) = (&destination.name, destination.addresses.most());
            let mut usable = self.hosts.addresses(&destination.to);
            usable.retain(|address| {
                is_reachable(destination, *address) && !self.is_loop(destination, *address, settings, &local)
            });
            // Of one address it is that in use, wherever it stands.
            if destination.addresses != settings::Addresses::First && usable.len() > most {
                self.tell(format!(
                    "destination {name}: only {most} of its addresses are used (for more: addresses = N)"
                ));
                usable.truncate(most);
            }
            all.insert(index, usable);
        }
        all
    }

    fn is_loop(&mut self, destination: &Destination, address: SocketAddr, settings: &Settings, local: &Local) -> bool {
        let listeners = &settings.listeners;
        let hears = listeners.iter().find(|to| is_own_listener(destination, address, to, listeners, local));
        if let Some(listener) = hears {
            let (name, listener) = (&destination.name, &listener.name);
            self.tell(format!("destination {name}: {address} comes in again at listener {listener}: a loop, left out"));
        }
        hears.is_some()
    }

    fn tell(&mut self, line: String) {
        if !self.told.contains(&line) {
            tracing::warn!("{line}");
            self.told.insert(line);
        }
    }
}

fn targets(settings: &Settings) -> impl Iterator<Item = &Target> {
    settings.destinations.iter().map(|destination| &destination.to)
}

fn is_reachable(destination: &Destination, address: SocketAddr) -> bool {
    destination.local().is_none_or(|from| from.is_ipv4() == address.is_ipv4())
}
