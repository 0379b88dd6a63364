//! Interfaces, and what is before them: rings, interrupts, pause frames, speeds, bridges.

use weir_units::Span;
use weir_units::format;

use super::{Case, Finding, change, number};
use crate::check::facts::{Bridge, Interface};
use crate::check::setting::Setting;
use crate::places::Place;

pub(super) fn audit(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for interface in &case.facts.interfaces {
        findings.extend(speed(case, interface));
        findings.extend(ring(case, interface));
        findings.extend(interrupts(case, interface));
        findings.extend(pause(interface));
        findings.extend(fragments(case, interface));
    }
    for bridge in &case.facts.bridges {
        findings.extend(mixed_speeds(case, bridge));
        findings.extend(querier(case, bridge));
    }
    findings
}

/// The line is too slow for the load.
fn speed(case: &Case<'_>, interface: &Interface) -> Option<Finding> {
    let bits = interface.speed_mbit? as f64 * 1e6;
    let needed = case.load.bits_on_wire();
    // A rate is given in round numbers: a line that is exactly full is no finding.
    if needed <= bits * 1.001 {
        return None;
    }
    let what = format!("{} is slower than the load", interface.name);
    let command = "a faster link, or larger payloads at a lower rate".to_owned();
    Some(
        Finding::advised("speed", Place::Network, what, command)
            .with(
                format!("/sys/class/net/{}/speed", interface.name),
                format!("{} Mbit/s", number(bits as u64 / 1_000_000)),
            )
            .need(format!(
                "{} Mbit/s: {} of {} with headers, preamble and gaps",
                format::short(needed / 1e6),
                case.load.rate,
                case.load.payload
            ))
            .cost("hardware"),
    )
}

/// The ring must hold what arrives until packet work begins.
fn ring(case: &Case<'_>, interface: &Interface) -> Option<Finding> {
    let ring = interface.ring.filter(|ring| ring.length < ring.most)?;
    let held_back = interface.moderation.map_or(0, |moderation| moderation.usecs.saturating_mul(1000));
    let waits = Span::from_nanos(RING_WAITS.nanos.saturating_add(held_back));
    let waiting = case.load.within(waits);
    if ring.length >= waiting && interface.ring_drops.recent == 0 {
        return None;
    }
    let wanted = waiting.max(ring.length * 2).checked_next_power_of_two().unwrap_or(ring.most).min(ring.most);
    let change = change(Setting::Ring { interface: interface.name.clone() }, wanted);
    let what = format!("the receive ring of {} is short", interface.name);
    Some(
        Finding::mended("ring", Place::ReceiveRing, what, vec![change])
            .with(
                format!("ethtool -g {}", interface.name),
                format!("{} frames of {}", number(ring.length), number(ring.most)),
            )
            .counted(format!("ip -s link show {}", interface.name), "frames missed", interface.ring_drops)
            .need(format!("{} frames arrive at {} while packet work waits {waits}", number(waiting), case.load.rate))
            .cost(format!(
                "some {} of memory, less fits the cache; most drivers stop the link for a moment while it changes",
                format::bytes((wanted - ring.length) as f64 * FRAME_BUFFER)
            )),
    )
}

/// An interrupt a packet takes the processor.
fn interrupts(case: &Case<'_>, interface: &Interface) -> Option<Finding> {
    let moderation = interface.moderation?;
    let per_second = case.load.per_second();
    if !interface.hardware || moderation.adaptive || per_second < INTERRUPTS_PER_SECOND {
        return None;
    }
    // Held back by time, by frames, or not at all.
    let expected = match (moderation.usecs, moderation.frames) {
        (0, 0 | 1) => per_second,
        (0, frames) => per_second / frames as f64,
        (usecs, _) => per_second.min(1e6 / usecs as f64),
    };
    if expected <= INTERRUPTS_PER_SECOND * 2.0 {
        return None;
    }
    let usecs = (1e6 / INTERRUPTS_PER_SECOND) as u64;
    let change = change(Setting::Moderation { interface: interface.name.clone() }, usecs);
    let what = format!("{} interrupts for nearly each packet", interface.name);
    Some(
        Finding::mended("interrupts", Place::ReceiveRing, what, vec![change])
            .with(
                format!("ethtool -c {}", interface.name),
                format!("rx-usecs {}, rx-frames {}, adaptive-rx off", moderation.usecs, moderation.frames),
            )
            .need(format!(
                "at most {}/s, now up to {}/s",
                number(INTERRUPTS_PER_SECOND as u64),
                number(expected as u64)
            ))
            .cost(format!("up to {usecs} us more delay; the ring must hold what arrives meanwhile")),
    )
}

/// Frames are lost for want of room, and the card may not ask the switch to wait.
fn pause(interface: &Interface) -> Option<Finding> {
    let pause = interface.pause.filter(|pause| !pause.sends)?;
    if interface.ring_drops.recent == 0 {
        return None;
    }
    let what = format!("{} loses frames and may not ask the switch to pause", interface.name);
    Some(
        Finding::advised("pause", Place::ReceiveRing, what, format!("ethtool -A {} rx on tx on", interface.name))
            .with(
                format!("ethtool -a {}", interface.name),
                format!("tx off, rx {}", if pause.obeys { "on" } else { "off" }),
            )
            .counted(format!("ip -s link show {}", interface.name), "frames missed", interface.ring_drops)
            .need("802.3x flow control at both ends of the cable")
            .cost("the switch holds back everything for this port, and its buffer fills instead"),
    )
}

/// A datagram of several packets is lost with any of them.
fn fragments(case: &Case<'_>, interface: &Interface) -> Option<Finding> {
    let room = interface.mtu.saturating_sub(IP_AND_UDP);
    if interface.mtu == 0 || case.load.payload.bytes <= room {
        return None;
    }
    let failures = case.facts.reassembly_failures.unwrap_or_default();
    // Fragments carry multiples of 8 bytes.
    let each = (interface.mtu.saturating_sub(20) / 8 * 8).max(8);
    let pieces = (case.load.payload.bytes + 8).div_ceil(each);
    // Single ones may be smaller, or larger.
    let by_mean = if case.facts.payload_is_mean { ", by their mean size" } else { "" };
    let what =
        format!("datagrams come by {} in {pieces} fragments{by_mean}, and are lost with any of them", interface.name);
    Some(
        Finding::advised("fragments", Place::Reassembly, what, format!("payloads of at most {room} B in the sender"))
            .with(format!("/sys/class/net/{}/mtu", interface.name), format!("{} B", interface.mtu))
            .counted("/proc/net/snmp, Ip ReasmFails", "datagrams given up", failures)
            .need(format!("{} and 28 B of headers in one packet", case.load.payload))
            .cost("more datagrams for the same data"),
    )
}

/// A fast port floods a slow one.
fn mixed_speeds(case: &Case<'_>, bridge: &Bridge) -> Option<Finding> {
    let slowest = bridge.ports.iter().min_by_key(|(_, speed)| *speed)?;
    let fastest = bridge.ports.iter().max_by_key(|(_, speed)| *speed)?;
    let needed = case.load.bits_on_wire();
    if slowest.1 == fastest.1 || needed <= slowest.1 as f64 * 1e6 * 1.001 {
        return None;
    }
    let ports: Vec<String> = bridge.ports.iter().map(|(port, speed)| format!("{port} {speed} Mbit/s")).collect();
    let what = format!("bridge {} joins ports of different speed, and {} is too slow", bridge.name, slowest.0);
    let command = format!("a link of {} Mbit/s at {}, or pace the sender below it", fastest.1, slowest.0);
    Some(
        Finding::advised("mixed_speeds", Place::Network, what, command)
            .with("/sys/class/net/*/speed", ports.join(", "))
            .need(format!("{} Mbit/s at every port that the load passes", format::short(needed / 1e6)))
            .cost("hardware"),
    )
}

/// A switch that snoops forgets listeners whom nobody asks.
fn querier(case: &Case<'_>, bridge: &Bridge) -> Option<Finding> {
    if !case.facts.group || !bridge.snoops || bridge.asks || bridge.asked != Some(false) {
        return None;
    }
    let what = format!("bridge {} snoops, but nobody asks who listens to groups", bridge.name);
    let command = format!("ip link set {} type bridge mcast_querier 1", bridge.name);
    let setting = format!("/sys/class/net/{}/bridge", bridge.name);
    Some(
        Finding::advised("querier", Place::Network, what, command)
            .with(setting, "multicast_snooping 1, multicast_querier 0, no other querier heard")
            .need("one querier in the network, or listeners are forgotten (RFC 4541, 2.1.1)")
            .cost("an IGMP and an MLD query in two minutes; until a querier is heard, this bridge floods groups to all ports"),
    )
}

/// How long a card's ring may wait for packet work.
const RING_WAITS: Span = Span::from_millis(2);

/// Bytes that a driver sets aside for a frame.
const FRAME_BUFFER: f64 = 2048.0;

/// As many as a processor bears beside its other work.
const INTERRUPTS_PER_SECOND: f64 = 8000.0;

const IP_AND_UDP: u64 = 28;
