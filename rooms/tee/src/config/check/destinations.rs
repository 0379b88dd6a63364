//! `[[destination]]`

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use weir_program::config::{Address, Step};
use weir_units::{BitRate, Frequency, Span};

use super::Checker;
use crate::config::is_own_listener;
use weir_forward::settings::{Addresses, Destination, Listener, Target};

impl Checker<'_> {
    pub(super) fn destinations(&self, written: &[Destination], listeners: &[Listener]) -> Result<Vec<Destination>> {
        if written.is_empty() {
            return Err(self.error(&[], "no destination: nothing would go out (add a [[destination]] with `to`)"));
        }
        let mut destinations: Vec<Destination> = Vec::new();
        let mut taken = HashSet::new();
        for (index, written) in written.iter().enumerate() {
            let mut destination = written.clone();
            if destination.name.is_empty() {
                destination.name = destination.to.to_string();
            }
            let name = self.name("destination", index, destination.name.clone(), &mut taken)?;
            if let Some((key, what)) = mistake(&destination) {
                let path = [Step::Key("destination"), Step::Index(index), Step::Key(key)];
                return Err(self.error(&path, &format!("destination `{name}`: {key}: {what}")));
            }
            if let Some(probe) = &mut destination.probe {
                probe.timeout = Some(probe.timeout());
            }
            self.refuse_loop(index, &destination, listeners)?;
            self.refuse_other_family(index, &destination, listeners)?;
            destinations.push(destination);
        }
        Ok(destinations)
    }

    fn refuse_loop(&self, index: usize, destination: &Destination, listeners: &[Listener]) -> Result<()> {
        let Target::Address(address) = destination.to else { return Ok(()) };
        let hears = |listener: &&Listener| is_own_listener(destination, address, listener, listeners, self.local);
        let Some(listener) = listeners.iter().find(hears) else { return Ok(()) };
        let remedy = if address.ip().is_multicast() { "loopback = false, or another group" } else { "send elsewhere" };
        let message = format!(
            "destination `{}`: {address} comes in again at listener `{}`: a loop ({remedy})",
            destination.name, listener.name
        );
        Err(self.error(&[Step::Key("destination"), Step::Index(index), Step::Key("to")], &message))
    }
}

impl Checker<'_> {
    /// Refuses a destination whose source is kept, where no listener ever has a source of its family.
    fn refuse_other_family(&self, index: usize, destination: &Destination, listeners: &[Listener]) -> Result<()> {
        let Target::Address(to) = destination.to else { return Ok(()) };
        let to_v4 = to.ip().to_canonical().is_ipv4();
        let has_such = |listener: &Listener| {
            let bound = listener.address.ip().to_canonical();
            // Bound to [::], a socket hears IPv4 as well.
            bound.is_ipv4() == to_v4 || bound.is_unspecified() && bound.is_ipv6()
        };
        if !destination.source.is_preserved() || listeners.iter().any(has_such) {
            return Ok(());
        }
        let (own, other) = if to_v4 { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
        let message = format!(
            "destination `{}`: an {other} source cannot be kept towards {own}, and no listener hears {own} (source = \"proxy\")",
            destination.name
        );
        Err(self.error(&[Step::Key("destination"), Step::Index(index), Step::Key("source")], &message))
    }

    /// Local addresses that a start would fail of, unless `ip_nonlocal_bind` is set.
    pub(super) fn foreign_sources(&self, destinations: &[Destination]) -> Vec<String> {
        let foreign = |(index, destination): (usize, &Destination)| {
            let from = destination.local().map(|from| from.ip().to_canonical())?;
            let is_own = from.is_unspecified() || self.local.is_own(from);
            let message = format!(
                "destination `{}`: from: {from} is no address of this machine (see `ip address`)",
                destination.name
            );
            let path = [Step::Key("destination"), Step::Index(index), Step::Key("from")];
            (!is_own).then(|| self.place(&path, &message))
        };
        destinations.iter().enumerate().filter_map(foreign).collect()
    }
}

/// The first key whose value does not go with the others, and what to do.
fn mistake(destination: &Destination) -> Option<(&'static str, &'static str)> {
    let Destination { to, from, source, interface, loopback, probe, replies, rate, bandwidth, .. } = destination;
    let (address, port) = match *to {
        Target::Address(address) => (Some(address), address.port()),
        Target::Name(_, port) => (None, port),
    };
    let is_on_every_link = |to: SocketAddr| match to {
        SocketAddr::V6(to) => to.ip().is_unicast_link_local() && to.scope_id() == 0,
        SocketAddr::V4(_) => false,
    };
    let (is_kept, to_many) = (source.is_preserved(), address.is_some_and(is_many));
    let is_other_family = |Address(from): Address| address.is_some_and(|to| to.is_ipv4() != from.is_ipv4());
    let rows = [
        (port == 0, "to", "port 0 is nobody's (write the port that the receiver listens on)"),
        (
            interface.is_none() && address.is_some_and(is_on_every_link),
            "to",
            "it is there on every link (say which: interface = \"eth0\")",
        ),
        (
            destination.every > 1 && destination.sample > 1,
            "every",
            "with `sample` it would be one of their product, by chance (remove one of them)",
        ),
        (
            destination.mtu.is_some() && !is_kept,
            "mtu",
            "it is for source = \"kept\"; for others the kernel knows it (remove it)",
        ),
        (
            *rate == Some(Frequency::default()),
            "rate",
            "nothing would be sent (remove the destination, or write e.g. 10k/s)",
        ),
        (
            *bandwidth == Some(BitRate::default()),
            "bandwidth",
            "nothing would be sent (remove the destination, or write e.g. 100mbit)",
        ),
        (from.is_some_and(is_other_family), "from", "it cannot send to an address of the other family"),
        (
            is_kept && from.is_some(),
            "from",
            "a kept source is the sender's own address (remove `from`, or source = \"kept\")",
        ),
        (
            loopback.is_some() && address.is_some_and(|to| !to.ip().is_multicast()),
            "loopback",
            "`to` is not a multicast group (remove it: this machine hears nothing else that it sends)",
        ),
        (
            probe.is_some() && to_many,
            "probe",
            "`to` is more than one receiver, of which none answers for all (remove it)",
        ),
        (
            probe.as_ref().is_some_and(|probe| probe.tcp.is_some() == probe.ping),
            "probe",
            "give exactly one of `tcp = PORT` and `ping = true`",
        ),
        (
            probe.as_ref().is_some_and(|probe| probe.timeout() == Span::default() || probe.timeout() > probe.interval),
            "probe",
            "its timeout must be above 0 and at most the interval",
        ),
        (
            *replies && is_kept,
            "replies",
            "with a kept source it answers the sender itself (remove `replies`, or `source`)",
        ),
        (
            *replies && from.is_some_and(|Address(from)| from.port() != 0),
            "from",
            "with `replies` each client has a port of its own (write port 0)",
        ),
        (
            *replies && destination.addresses != Addresses::First,
            "addresses",
            "with `replies` one alone may answer (write \"first\")",
        ),
        (*replies && to_many, "replies", "`to` is more than one receiver, of which one alone may answer"),
    ];
    rows.into_iter().find_map(|(is_wrong, key, what)| is_wrong.then_some((key, what)))
}

pub(super) fn is_many(to: SocketAddr) -> bool {
    to.ip().is_multicast() || matches!(to.ip(), IpAddr::V4(address) if address.is_broadcast())
}
