//! `[[destination]]`

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use anyhow::Result;
use weir_program::config::Step;
use weir_units::{BitRate, Frequency, Size, Span};

use super::Checker;
use super::listeners::bytes;
use crate::config::document::{self, Addresses};
use crate::config::is_own_listener;
use crate::settings::{Destination, Listener, MOST_ADDRESSES, Probe, ProbeKind, Source, Target};

impl Checker<'_> {
    pub(super) fn destinations(
        &self,
        written: &[document::Destination],
        listeners: &[Listener],
    ) -> Result<Vec<Destination>> {
        if written.is_empty() {
            return Err(self.error(&[], "no destination: nothing would go out (add a [[destination]] with `to`)"));
        }
        let mut destinations: Vec<Destination> = Vec::new();
        let mut taken = HashSet::new();
        for (index, written) in written.iter().enumerate() {
            let name = written.name.clone().unwrap_or_else(|| written.to.to_string());
            let name = self.name("destination", index, name, &mut taken)?;
            let destination = self.destination(index, name, written)?;
            self.refuse_loop(index, &destination, listeners)?;
            self.refuse_other_family(index, &destination, listeners)?;
            destinations.push(destination);
        }
        Ok(destinations)
    }

    fn destination(&self, index: usize, name: String, written: &document::Destination) -> Result<Destination> {
        let fail = |key: &str, what: &str| -> Result<Destination> {
            let path = [Step::Key("destination"), Step::Index(index), Step::Key(key)];
            Err(self.error(&path, &format!("destination `{name}`: {key}: {what}")))
        };
        let to = &written.to;
        let (address, port) = match *to {
            Target::Address(address) => (Some(address), address.port()),
            Target::Name(_, port) => (None, port),
        };
        if port == 0 {
            return fail("to", "port 0 is nobody's (write the port that the receiver listens on)");
        }
        if written.sample == Some(0) {
            return fail("sample", "one of 0 is none (write 10 for one of ten)");
        }
        if written.every == Some(0) {
            return fail("every", "one of 0 is none (write 10 for the first of each ten)");
        }
        if written.every.is_some_and(|every| every > 1) && written.sample.is_some_and(|sample| sample > 1) {
            return fail("every", "with `sample` it would be one of their product, by chance (remove one of them)");
        }
        let within = |number: Option<i64>, range: RangeInclusive<u8>| match number.map(u8::try_from) {
            None => Some(None),
            Some(Ok(number)) if range.contains(&number) => Some(Some(number)),
            Some(_) => None,
        };
        let Some(ttl) = within(written.ttl, 1..=255) else {
            return fail("ttl", "write 1 to 255 (a datagram with 0 would not leave this machine)");
        };
        let Some(dscp) = within(written.dscp, 0..=63) else {
            return fail("dscp", "a code point has 6 bits (write 0 to 63, e.g. 46 for expedited forwarding)");
        };
        let is_kept = written.source.is_some_and(Source::is_preserved);
        let mtu = written.mtu.map(u16::try_from).transpose().ok().filter(|mtu| mtu.is_none_or(|mtu| mtu >= 1280));
        let Some(mtu) = mtu.filter(|mtu| mtu.is_none() || is_kept) else {
            return fail(
                "mtu",
                "write 1280 to 65535 bytes, and only with source = \"kept\" (for others the kernel knows it)",
            );
        };
        if let Some(SocketAddr::V6(to)) = address
            && to.ip().is_unicast_link_local()
            && to.scope_id() == 0
            && written.interface.is_none()
        {
            return fail("to", &format!("{} is there on every link (say which: interface = \"eth0\")", to.ip()));
        }
        if let Some(Addresses::Most(most)) = written.addresses
            && !(1..=4096).contains(&most)
        {
            return fail("addresses", &format!("{most} addresses (write \"first\", \"all\" or 1 to 4096)"));
        }
        if written.rate == Some(Frequency::default()) {
            return fail("rate", "nothing would be sent (remove the destination, or write e.g. 10k/s)");
        }
        if written.bandwidth == Some(BitRate::default()) {
            return fail("bandwidth", "nothing would be sent (remove the destination, or write e.g. 100mbit)");
        }
        let queue = written.queue.unwrap_or(QUEUE);
        if queue < SMALLEST_QUEUE {
            return fail("queue", &format!("{queue} is less than one datagram can have (at least {SMALLEST_QUEUE})"));
        }
        if let (Some(to), Some(from)) = (address, written.from.map(|from| from.0))
            && to.is_ipv4() != from.is_ipv4()
        {
            return fail("from", &format!("{from} cannot send to {to}: they are of different families"));
        }
        if is_kept && written.from.is_some() {
            return fail("from", "a kept source is the sender's own address (remove `from`, or source = \"kept\")");
        }
        if let Some(to) = address
            && written.loopback.is_some()
            && !to.ip().is_multicast()
        {
            return fail("loopback", &format!("{to} is no multicast group, only those are heard by this machine"));
        }
        if let (Some(to), Some(_)) = (address, &written.probe)
            && is_many(to)
        {
            return fail("probe", &format!("{to} is more than one receiver, of which none answers for all"));
        }
        let probe = match written.probe.as_ref().map(probe).transpose() {
            Ok(probe) => probe,
            Err(what) => return fail("probe", &what),
        };
        let replies = self.replies(index, &name, written)?;
        Ok(Destination {
            to: to.clone(),
            all_addresses: !matches!(written.addresses, None | Some(Addresses::First)),
            most_addresses: match written.addresses {
                Some(Addresses::Most(most)) => most as usize,
                _ => MOST_ADDRESSES,
            },
            source: written.source.unwrap_or_default(),
            from: written.from.map(|from| from.0),
            interface: written.interface.clone(),
            ttl,
            hop_guard: written.hop_guard.unwrap_or_default(),
            dscp,
            mtu,
            loopback: written.loopback,
            send_buffer: written.send_buffer.and_then(bytes),
            queue: usize::try_from(queue.bytes).unwrap_or(usize::MAX),
            rate: written.rate,
            bandwidth: written.bandwidth,
            sample: written.sample.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN),
            every: written.every.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN),
            probe,
            replies,
            name,
        })
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
            let from = destination.from.map(|from| from.ip().to_canonical())?;
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

fn probe(written: &document::Probe) -> Result<Probe, String> {
    let kind = match (written.tcp, written.ping) {
        (Some(0), _) => return Err("tcp: port 0 is nobody's (write the port to connect to)".into()),
        (Some(port), None | Some(false)) => ProbeKind::Tcp(port),
        (None, Some(true)) => ProbeKind::Ping,
        _ => return Err("give exactly one of `tcp = PORT` and `ping = true`".into()),
    };
    let interval = written.interval.unwrap_or(INTERVAL);
    // Half of a short interval is enough to tell one try from the next.
    let timeout = written.timeout.unwrap_or(TIMEOUT.min(Span::from_nanos(interval.nanos / 2)));
    if interval < SHORTEST_INTERVAL {
        return Err(format!("an interval of {interval} is a load of its own (at least {SHORTEST_INTERVAL})"));
    }
    if timeout == Span::default() || timeout > interval {
        return Err(format!("a timeout of {timeout} (it must be above 0 and at most the interval, {interval})"));
    }
    Ok(Probe { kind, interval: interval.duration(), timeout: timeout.duration() })
}

pub(super) fn is_many(to: SocketAddr) -> bool {
    to.ip().is_multicast() || matches!(to.ip(), IpAddr::V4(address) if address.is_broadcast())
}

/// What may wait for a destination in each worker: 32 ms of a gigabit a second.
const QUEUE: Size = Size { bytes: 4 << 20 };

/// The longest datagram, 65,527 bytes of payload over IPv6.
const SMALLEST_QUEUE: Size = Size { bytes: 64 << 10 };

const INTERVAL: Span = Span::from_secs(2);
const TIMEOUT: Span = Span::from_secs(1);
const SHORTEST_INTERVAL: Span = Span::from_millis(10);
