//! `[[destination]]`

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use anyhow::Result;
use weir_service::config::Step;
use weir_units::{BitRate, Frequency, Size, Span};

use super::Checker;
use super::listeners::bytes;
use crate::config::document::{self, Addresses};
use crate::config::is_own_listener;
use crate::settings::{Destination, Listener, Probe, ProbeKind, Source, Target};

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
        for (index, written) in written.iter().enumerate() {
            let taken: Vec<&str> = destinations.iter().map(|other| other.name.as_str()).collect();
            let name = written.name.clone().unwrap_or_else(|| written.to.0.to_string());
            let name = self.name("destination", index, name, &taken)?;
            let destination = self.destination(index, name, written)?;
            self.refuse_loop(index, &destination, listeners)?;
            destinations.push(destination);
        }
        Ok(destinations)
    }

    fn destination(&self, index: usize, name: String, written: &document::Destination) -> Result<Destination> {
        let fail = |key: &str, what: &str| -> Result<Destination> {
            let path = [Step::Key("destination"), Step::Index(index), Step::Key(key)];
            Err(self.error(&path, &format!("destination `{name}`: {key}: {what}")))
        };
        let to = &written.to.0;
        let address = match *to {
            Target::Address(address) => Some(address),
            Target::Name(..) => None,
        };
        let port = address.map_or_else(|| if let Target::Name(_, port) = to { *port } else { 0 }, |to| to.port());
        if port == 0 {
            return fail("to", "port 0 is nobody's (write the port that the receiver listens on)");
        }
        if written.sample == Some(0) {
            return fail("sample", "one of 0 is none (write 10 for one of ten)");
        }
        if written.ttl == Some(0) {
            return fail("ttl", "a datagram with 0 does not leave this machine (write 1 to 255)");
        }
        if written.dscp.is_some_and(|dscp| dscp > 63) {
            return fail("dscp", "a code point has 6 bits (write 0 to 63, e.g. 46 for expedited forwarding)");
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
        if written.source.is_some_and(Source::is_preserved) && written.from.is_some() {
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
        Ok(Destination {
            to: to.clone(),
            all_addresses: written.addresses == Some(Addresses::All),
            source: written.source.unwrap_or_default(),
            from: written.from.map(|from| from.0),
            interface: written.interface.clone(),
            ttl: written.ttl,
            dscp: written.dscp,
            loopback: written.loopback,
            send_buffer: written.send_buffer.and_then(bytes),
            queue: usize::try_from(queue.bytes).unwrap_or(usize::MAX),
            rate: written.rate,
            bandwidth: written.bandwidth,
            sample: written.sample.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN),
            probe,
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

fn is_many(to: SocketAddr) -> bool {
    to.ip().is_multicast() || matches!(to.ip(), IpAddr::V4(address) if address.is_broadcast())
}

/// What may wait for a destination in each worker: 32 ms of a gigabit a second.
const QUEUE: Size = Size { bytes: 4 << 20 };

/// The longest datagram, 65,527 bytes of payload over IPv6.
const SMALLEST_QUEUE: Size = Size { bytes: 64 << 10 };

const INTERVAL: Span = Span::from_secs(2);
const TIMEOUT: Span = Span::from_secs(1);
const SHORTEST_INTERVAL: Span = Span::from_millis(10);
