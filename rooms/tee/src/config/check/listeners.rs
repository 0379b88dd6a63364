//! `[[listener]]`

use std::net::IpAddr;

use anyhow::Result;
use weir_service::config::Step;
use weir_units::Size;

use super::Checker;
use crate::config::document;
use crate::settings::{Listener, Membership};

impl Checker<'_> {
    pub(super) fn listeners(&self, written: &[document::Listener]) -> Result<Vec<Listener>> {
        if written.is_empty() {
            return Err(self.error(&[], "no listener: nothing would come in (add a [[listener]] with an `address`)"));
        }
        let mut listeners: Vec<Listener> = Vec::new();
        for (index, written) in written.iter().enumerate() {
            let address = written.address.0;
            let at = |key| [Step::Key("listener"), Step::Index(index), Step::Key(key)];
            // Port 0 is another port each time.
            if let Some(twin) = listeners
                .iter()
                .find(|other| other.address == address && address.port() != 0 && other.interface == written.interface)
            {
                let message = format!("listener {address}: `{}` listens there already (remove one of them)", twin.name);
                return Err(self.error(&at("address"), &message));
            }
            let name = written.name.clone().unwrap_or_else(|| address.to_string());
            let taken: Vec<&str> = listeners.iter().map(|other| other.name.as_str()).collect();
            let name = self.name("listener", index, name, &taken)?;
            let groups = self.memberships(index, &name, written)?;
            listeners.push(Listener {
                name,
                address,
                interface: written.interface.clone(),
                groups,
                receive_buffer: bytes(written.receive_buffer.unwrap_or(RECEIVE_BUFFER)),
            });
        }
        Ok(listeners)
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

/// A buffer's size; 0: the kernel's default.
pub(super) fn bytes(size: Size) -> Option<usize> {
    (size.bytes > 0).then(|| usize::try_from(size.bytes).unwrap_or(usize::MAX))
}

fn any(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "0.0.0.0" } else { "[::]" }
}

/// 60 ms of a gigabit a second; the kernel's default of 208 KiB is one and a half.
const RECEIVE_BUFFER: Size = Size { bytes: 8 << 20 };
