//! The speaker and its neighbours: what BGP permits, and what could ever become a session.

use std::net::{IpAddr, UdpSocket};

use anyhow::Result;
use weir_program::config::Step::{self, Index, Key};
use weir_units::Span;

use super::check::{Checker, ipv4_of};
use super::document::{self, Neighbour};
use super::values::Community;
use crate::settings::Speaker;

impl Checker<'_> {
    pub(super) fn speaker(&self, written: &document::Speaker) -> Result<Speaker> {
        let fail = |path: &[Step<'_>], what: &str| {
            self.error(&[&[Key("speaker")], path].concat(), &format!("protect.speaker: {what}"))
        };
        for (key, hop, v4, example) in
            [("next_hop", written.next_hop, true, "192.0.2.1"), ("next_hop_v6", written.next_hop_v6, false, "100::1")]
        {
            if hop.is_some_and(|hop| hop.is_ipv4() != v4) {
                let family = if v4 { "an IPv4" } else { "an IPv6" };
                return Err(fail(&[Key(key)], &format!("{key}: it must be {family} address, e.g. \"{example}\"")));
            }
        }
        if !written.gobgp.0.ip().to_canonical().is_loopback() {
            let told = format!(
                "gobgp: {}: its gRPC has no password and no encryption, and whoever reaches it announces anything: have gobgpd \
                 on this machine, at \"127.0.0.1:{port}\" or \"[::1]:{port}\" (or lead a tunnel there)",
                written.gobgp.0,
                port = written.gobgp.0.port()
            );
            return Err(fail(&[Key("gobgp")], &told));
        }
        for (index, neighbour) in written.neighbours.iter().enumerate() {
            unable(neighbour, index, &written.neighbours)
                .map_err(|(key, what)| fail(&[Key("neighbours"), Index(index), Key(key)], &what))?;
        }
        Ok(Speaker {
            gobgp: written.gobgp.0,
            marker: written.marker.map(|Community(asn, number)| (asn, number)),
            community: written.community.map_or(BLACKHOLE, |Community(asn, number)| (asn, number)),
            next_hop: written.next_hop,
            next_hop_v6: written.next_hop_v6,
            on_stop: written.on_stop.unwrap_or_default(),
            neighbours: written.neighbours.clone(),
        })
    }

    /// Neighbours that are this machine, as gobgpd is; unless they have another port.
    pub(super) fn selves(&self, speaker: Option<&Speaker>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, to) in speaker.iter().flat_map(|speaker| &speaker.neighbours).enumerate() {
            // Nobody can bind to the address of another machine.
            if to.port.is_none_or(|port| port == BGP) && UdpSocket::bind((to.address, 0)).is_ok() {
                let what = format!(
                    "protect.speaker: neighbour {} is this machine itself, where gobgpd is: name the router's address, or the \
                     port of another speaker that is here",
                    to.address
                );
                let path = [Key("speaker"), Key("neighbours"), Index(index), Key("address")];
                warnings.push(self.error(&path, &what).to_string());
            }
        }
        warnings
    }
}

/// Why there can be no session with a neighbour: the key, and what to write.
fn unable(neighbour: &Neighbour, index: usize, all: &[Neighbour]) -> Result<(), (&'static str, String)> {
    let address = neighbour.address;
    let wrong = |what: &str| Err(("address", format!("neighbour {address}{what}")));
    if neighbour.asn == 0 {
        return Err(("asn", "asn: 0 is no AS (RFC 7607): write the neighbour's".into()));
    }
    if let Some(meant) = ipv4_of(address.into()) {
        return wrong(&format!(" is IPv4 in IPv6's form: write \"{}\"", meant.addr()));
    }
    if address.is_unspecified() || address.is_multicast() || address == IpAddr::from([255; 4]) {
        return wrong(" is no address of one router: write its own, e.g. \"10.0.0.1\"");
    }
    if all[..index].iter().any(|other| other.address == address) {
        return wrong(" is there twice (remove one)");
    }
    if all.iter().any(|other| other.local_address == Some(address)) {
        return wrong(" is the speaker's own address, as local_address has it: write the router's");
    }
    if let Some(local) = neighbour.local_address.filter(|local| local.is_ipv4() != address.is_ipv4()) {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let what =
            format!("local_address: {local} cannot speak to {address}: write an {family} address, or leave it out");
        return Err(("local_address", what));
    }
    if let Some(time) = neighbour.hold_time.filter(|time| !is_seconds(*time, 3, 65_535)) {
        let what = format!(
            "hold_time: {time}: BGP has 3 s to 65535 s, in whole seconds (RFC 4271, section 4.2): write e.g. \"90s\" (0, a session \
             that never ends by silence, is not supported)"
        );
        return Err(("hold_time", what));
    }
    if let Some(time) = neighbour.restart_time.filter(|time| !is_seconds(*time, 0, 4_095)) {
        let what = format!(
            "restart_time: {time}: BGP has 0 to 4095 s, in whole seconds (RFC 4724, section 3): write e.g. \"120s\", or 0 not to \
             ask for it"
        );
        return Err(("restart_time", what));
    }
    Ok(())
}

fn is_seconds(time: Span, least: u64, most: u64) -> bool {
    time.nanos.is_multiple_of(Span::from_secs(1).nanos)
        && (Span::from_secs(least)..=Span::from_secs(most)).contains(&time)
}

/// RFC 7999.
const BLACKHOLE: (u16, u16) = (65_535, 666);

/// Where a router listens unless it is told otherwise.
const BGP: u16 = 179;
