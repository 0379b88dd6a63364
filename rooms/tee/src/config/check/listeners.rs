//! `[[listener]]`

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use anyhow::Result;
use weir_program::config::Step;
use weir_units::Size;

use super::Checker;
use crate::config::document;
use weir_forward::settings::{Listener, Membership, buffer};

impl Checker<'_> {
    pub(super) fn listeners(&self, written: &[document::Listener]) -> Result<Vec<Listener>> {
        if written.is_empty() {
            return Err(self.error(&[], "no listener: nothing would come in (add a [[listener]] with an `address`)"));
        }
        let mut listeners: Vec<Listener> = Vec::new();
        let (mut taken, mut bound) = (HashSet::new(), HashMap::new());
        let of = |(index, written)| self.ports(index, written).map(|ports| (index, written, ports));
        let each: Vec<_> = written.iter().enumerate().map(of).collect::<Result<_>>()?;
        let each = each.into_iter().flat_map(|(index, written, ports)| ports.map(move |port| (index, written, port)));
        for (index, written, port) in each {
            let address = SocketAddr::new(written.address.0.ip(), port);
            let at = |key| [Step::Key("listener"), Step::Index(index), Step::Key(key)];
            // Port 0 is another port each time.
            let place = (address, written.interface.as_deref());
            if let Some(twin) = bound.insert(place, listeners.len()).filter(|_| address.port() != 0) {
                let twin = &listeners[twin].name;
                let message = format!("listener {address}: `{twin}` listens there already (remove one of them)");
                return Err(self.error(&at("address"), &message));
            }
            let name = match (&written.name, written.last_port) {
                (Some(name), Some(_)) => one_of(name, port),
                (Some(name), None) => name.clone(),
                (None, _) => address.to_string(),
            };
            let name = self.name("listener", index, name, &mut taken)?;
            let groups = self.memberships(index, &name, written)?;
            listeners.push(Listener {
                name,
                address,
                interface: written.interface.clone(),
                groups,
                receive_buffer: buffer(written.receive_buffer.unwrap_or(RECEIVE_BUFFER)),
            });
        }
        Ok(listeners)
    }

    /// The ports of a listener.
    fn ports(&self, index: usize, written: &document::Listener) -> Result<RangeInclusive<u16>> {
        let first = written.address.0.port();
        let Some(last) = written.last_port else { return Ok(first..=first) };
        if first == 0 || last <= first || usize::from(last - first) >= MOST_PORTS {
            let path = [Step::Key("listener"), Step::Index(index), Step::Key("last_port")];
            let message = format!(
                "listener {}: last_port: {last} (write the last of at most {MOST_PORTS} ports, of which {first} is the first)",
                written.address.0
            );
            return Err(self.error(&path, &message));
        }
        Ok(first..=last)
    }

    /// Listeners that would not hear what they join.
    pub(super) fn deaf(&self, written: &[document::Listener]) -> Vec<String> {
        let joins = |bound: IpAddr| !bound.is_unspecified() && !bound.is_multicast();
        let deaf = written.iter().enumerate().filter(|(_, listener)| {
            listener.join.as_ref().is_some_and(|join| !join.0.is_empty()) && joins(listener.address.0.ip())
        });
        let line = |(index, listener): (usize, &document::Listener)| {
            let ip = listener.address.0.ip();
            let name = listener.name.clone().unwrap_or_else(|| listener.address.0.to_string());
            let path = [Step::Key("listener"), Step::Index(index), Step::Key("join")];
            let what = format!("bound to {ip}, it hears nothing that is sent to a group (bind {})", any(ip));
            self.place(&path, &format!("listener `{name}`: join: {what}"))
        };
        deaf.map(line).collect()
    }

    fn memberships(&self, index: usize, name: &str, written: &document::Listener) -> Result<Vec<Membership>> {
        let bound = written.address.0.ip();
        let join = written.join.as_ref().map_or(&[][..], |join| &join.0);
        let mut groups: Vec<Membership> = Vec::new();
        for (number, join) in join.iter().enumerate() {
            let group = join.group;
            let fail = |what: String| {
                let path = [Step::Key("listener"), Step::Index(index), Step::Key("join"), Step::Index(number)];
                Err(self.error(&path, &format!("listener `{name}`: join {group}: {what}")))
            };
            if !group.is_multicast() {
                return fail("no multicast group (those are 224.0.0.0/4 and ff00::/8)".into());
            }
            if group.is_ipv4() != bound.is_ipv4() {
                return fail(format!("the listener's address is {bound}, of the other family"));
            }
            if bound.is_multicast() && bound != group {
                return fail(format!("bound to {bound}, the listener hears that group alone (bind {})", any(bound)));
            }
            if let Some(source) = join.source
                && (source.is_ipv4() != group.is_ipv4() || source.is_multicast() || source.is_unspecified())
            {
                return fail(format!("source {source}: no single sender of the group's family"));
            }
            let interface = join.interface.clone().or_else(|| written.interface.clone());
            let membership = Membership { group, source: join.source, interface };
            if groups.contains(&membership) {
                return fail("joined twice (remove one of them)".into());
            }
            groups.push(membership);
        }
        if bound.is_multicast() && groups.is_empty() {
            groups.push(Membership { group: bound, source: None, interface: written.interface.clone() });
        }
        Ok(groups)
    }
}

/// The name of one port's listener, of several under a name.
pub(super) fn one_of(name: &str, port: u16) -> String {
    format!("{name}:{port}")
}

/// Ports of a listener: each takes a socket a worker.
const MOST_PORTS: usize = 1_024;

fn any(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "0.0.0.0" } else { "[::]" }
}

/// 60 ms of a gigabit a second; the kernel's default of 208 KiB is one and a half.
pub(super) const RECEIVE_BUFFER: Size = Size { bytes: 8 << 20 };
