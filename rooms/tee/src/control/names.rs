//! What the host names of destinations mean now.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tokio::runtime::Handle;
use weir_service::EventSender;

use crate::config::{Local, is_own_listener};
use crate::plan::Addresses;
use crate::resolve::{self, Resolver, ResolverOptions};
use crate::settings::{Destination, Settings, Target};

/// Follows every host name of the settings in force.
pub(super) struct Names {
    resolver: Resolver,
    /// Loops that have been told.
    told: BTreeSet<(String, SocketAddr)>,
    /// Names that have been told to have too many addresses.
    told_surplus: BTreeSet<String>,
}

impl Names {
    /// Asks on `runtime`. What it learns it tells through `events`.
    pub(super) fn new(runtime: Handle, events: EventSender<resolve::Event>) -> Self {
        // Any event makes a new plan of all addresses: where the queue is full of others, this one is not missed.
        let resolver = Resolver::new(runtime, ResolverOptions::default(), move |event| {
            events.try_tell(event);
        });
        Self { resolver, told: BTreeSet::new(), told_surplus: BTreeSet::new() }
    }

    /// Follows the names of these settings and no others.
    pub(super) fn follow<'a>(&mut self, settings: impl IntoIterator<Item = &'a Settings>) {
        self.resolver.follow(settings.into_iter().flat_map(hosts));
    }

    /// The addresses of every destination that has a name, by its index. Left out, with a line in the log, are those
    /// that would come in again, and silently those that `from` cannot send to.
    pub(super) fn addresses(&mut self, settings: &Settings) -> Addresses {
        let local = Local::now();
        let mut all = Addresses::new();
        for (index, destination) in settings.destinations.iter().enumerate() {
            let Target::Name(host, port) = &destination.to else { continue };
            let addresses = self.resolver.addresses(host).into_iter().map(|address| SocketAddr::new(address, *port));
            let usable = addresses.filter(|address| {
                is_reachable(destination, *address) && !self.is_loop(destination, *address, settings, &local)
            });
            let mut usable: Vec<_> = usable.collect();
            // Of one address it is that in use, wherever it stands.
            if destination.all_addresses && usable.len() > destination.most_addresses {
                self.tell_surplus(destination, usable.len());
                usable.truncate(destination.most_addresses);
            }
            all.insert(index, usable);
        }
        all
    }

    fn tell_surplus(&mut self, destination: &Destination, found: usize) {
        let Destination { name, most_addresses: most, .. } = destination;
        if self.told_surplus.insert(name.clone()) {
            tracing::warn!(
                "destination {name}: {found} addresses, of which it gets {most} (for more: addresses = {found}, 4096 at most)"
            );
        }
    }

    fn is_loop(&mut self, destination: &Destination, address: SocketAddr, settings: &Settings, local: &Local) -> bool {
        let listeners = &settings.listeners;
        let hears = listeners.iter().find(|to| is_own_listener(destination, address, to, listeners, local));
        if let Some(listener) = hears
            && self.told.insert((destination.name.clone(), address))
        {
            let (name, listener) = (&destination.name, &listener.name);
            tracing::error!("destination {name}: {address} comes in again at listener {listener}: a loop, left out");
        }
        hears.is_some()
    }
}

/// The host names of settings.
pub(super) fn hosts(settings: &Settings) -> impl Iterator<Item = &str> {
    settings.destinations.iter().filter_map(|destination| match &destination.to {
        Target::Name(host, _) => Some(host.as_str()),
        Target::Address(_) => None,
    })
}

/// The name that an event is about.
pub(super) fn name(event: &resolve::Event) -> &str {
    match event {
        resolve::Event::Resolved { name, .. }
        | resolve::Event::Failing { name, .. }
        | resolve::Event::Withdrawn { name } => name,
    }
}

/// Writes it to the log.
pub(super) fn tell(event: &resolve::Event) {
    match event {
        resolve::Event::Resolved { .. } => tracing::info!("{event}"),
        resolve::Event::Failing { .. } | resolve::Event::Withdrawn { .. } => tracing::warn!("{event}"),
    }
}

fn is_reachable(destination: &Destination, address: SocketAddr) -> bool {
    destination.from.is_none_or(|from| from.is_ipv4() == address.is_ipv4())
}
