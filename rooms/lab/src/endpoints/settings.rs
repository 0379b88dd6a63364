//! A scenario's settings in the form of senders and receivers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_dgram::Membership;
use weir_traffic::bulk::BulkSettings;
use weir_traffic::{Pacing, ReceiverSettings, SenderSettings, Stall, Transport};

use weir_units::Span;

use crate::arrivals;
use crate::iperf3::Iperf3Settings;
use crate::network::DATA_PORTS;
use crate::scenario::{Mode, Scenario, Traffic};

pub(super) fn sender_settings(
    scenario: &Scenario,
    traffic: &Traffic,
    to: SocketAddr,
    session: u16,
    interface: &str,
) -> SenderSettings {
    let group = to.ip().is_multicast();
    let bulk = traffic.mode == Mode::Bulk;
    let duration = scenario.run.duration.duration() + if bulk { traffic.warmup.duration() } else { Duration::ZERO };
    SenderSettings {
        transport: traffic.transport,
        payload_bytes: arrivals::longest(scenario, traffic) as usize,
        interval: interval(traffic),
        pacing: if bulk { Pacing::Schedule } else { traffic.pacing },
        quantum: match traffic.batch {
            Some(batch) if !bulk => QUANTUM.min(interval(traffic) * u32::try_from(batch.get()).unwrap_or(1)),
            _ if bulk => QUANTUM,
            _ => Duration::ZERO,
        },
        batch: traffic.batch,
        duration,
        // The whole schedule, so that a rerun does not send fewer, but with a limit.
        overtime: duration,
        drain: scenario.run.drain.duration(),
        session,
        congestion: bulk_settings(scenario, traffic, to).congestion,
        nodelay: scenario.tcp.nodelay,
        connect_timeout: scenario.tcp.connect_timeout.duration(),
        keep_departures: match traffic.transport {
            Transport::Udp if !scenario.run.messages => 0,
            _ => flights(scenario, traffic),
        },
        ttl: group.then_some(MULTICAST_TTL),
        interface: group.then(|| interface.to_owned()),
        ..SenderSettings::new(to)
    }
}

/// Time between two messages, from the rate if there is one.
pub(crate) fn interval(traffic: &Traffic) -> Duration {
    match (traffic.mode, traffic.rate) {
        (Mode::Bulk | Mode::Messages, Some(rate)) => {
            let nanos = u128::from(traffic.payload.bytes) * 8 * 1_000_000_000 / u128::from(rate.bits_per_second.max(1));
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1))
        }
        _ => traffic.interval.unwrap_or(Span::from_millis(10)).duration(),
    }
}

pub(super) fn receiver_settings(
    scenario: &Scenario,
    traffic: &Traffic,
    to: SocketAddr,
    session: u16,
    interface: &str,
) -> ReceiverSettings {
    let group: Option<IpAddr> = Some(to.ip()).filter(IpAddr::is_multicast);
    ReceiverSettings {
        transport: traffic.transport,
        session: Some(session),
        groups: group
            .map(|group| Membership { group, source: None, interface: Some(interface.to_owned()) })
            .into_iter()
            .collect(),
        receive_buffer: match scenario.receive.buffer.0 {
            Some(size) => Some(usize::try_from(size.bytes).unwrap_or(usize::MAX)),
            None => (traffic.mode == Mode::Bulk).then_some(BULK_BUFFER),
        },
        stall: scenario
            .receive
            .stall
            .map(|stall| Stall { every: stall.every.duration(), length: stall.length.duration() }),
        // Nothing longer arrives: datagrams are not joined.
        longest: ReceiverSettings::new(to).longest.min(arrivals::longest(scenario, traffic) as usize),
        keep_flights: flights(scenario, traffic),
        ..ReceiverSettings::new(to)
    }
}

/// How many messages are kept one by one: all that will be sent, within the memory limit.
fn flights(scenario: &Scenario, traffic: &Traffic) -> usize {
    let warmup = if traffic.mode == Mode::Bulk { traffic.warmup.duration() } else { Duration::ZERO };
    let window = scenario.run.duration.duration() + warmup;
    let sent = window.as_nanos() / interval(traffic).as_nanos().max(1);
    usize::try_from(sent).unwrap_or(MAX_FLIGHTS).saturating_add(1).min(MAX_FLIGHTS)
}

pub(super) fn bulk_settings(scenario: &Scenario, traffic: &Traffic, to: SocketAddr) -> BulkSettings {
    BulkSettings {
        transport: traffic.transport,
        streams: traffic.streams,
        congestion: Some(match traffic.transport {
            Transport::Quic | Transport::QuicDatagram => scenario.quic.congestion.clone(),
            _ => scenario.tcp.congestion.clone(),
        }),
        nodelay: scenario.tcp.nodelay,
        block_bytes: traffic.payload.bytes as usize,
        duration: scenario.run.duration.duration(),
        warmup: traffic.warmup.duration(),
        batch: scenario.run.sample.duration(),
        connect_timeout: scenario.tcp.connect_timeout.duration(),
        ..BulkSettings::new(to)
    }
}

pub(super) fn iperf3_settings(scenario: &Scenario, traffic: &Traffic, to: SocketAddr) -> Iperf3Settings {
    Iperf3Settings {
        bulk: bulk_settings(scenario, traffic, to),
        rate: traffic.rate.map(|rate| rate.bits_per_second),
        data_port: traffic.control.is_some().then_some(*DATA_PORTS.start()),
    }
}

/// Bulk datagrams that are due within this time leave together.
const QUANTUM: Duration = Duration::from_micros(200);

/// Max messages of a receiver whose times are kept: 96 MiB.
pub(super) const MAX_FLIGHTS: usize = SenderSettings::MOST_DEPARTURES;

/// Receive buffer of bulk datagrams, bytes: 60 ms at 1 Gbit/s of small ones.
const BULK_BUFFER: usize = 32 << 20;

/// Enough for any topology of the lab.
const MULTICAST_TTL: u8 = 16;
