//! Made-up traffic, and what is found in it.

mod benign;
mod carpet;
mod classes;
mod cost;
mod doubts;
mod exposure;
mod false_alarms;
mod findings;
mod phantoms;
mod power;
mod rules;
mod sys;
mod tables;

use std::net::{IpAddr, Ipv4Addr};

use weir_testbed::random::Source;

use super::*;
use crate::model::{Class, Detection, Packet, Spot, Transport};

const SECOND: u64 = 1_000_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn host(number: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 1, 0, 0)) + number).into()
}

fn point(agent: &str) -> Point {
    Point { agent: ip(agent), index: 1 }
}

/// 10.1.0.0/16 and 2001:db8::/48, with a threshold for UDP alone, unless told otherwise.
fn settings(thresholds: Vec<Threshold>) -> Settings {
    let networks = vec!["10.1.0.0/16".parse().unwrap(), "2001:db8::/48".parse().unwrap()];
    Settings { groups: vec![Group { name: "web".into(), networks, thresholds }], ..Settings::default() }
}

fn udp(source: IpAddr, destination: IpAddr, ports: (u16, u16), length: u32) -> Packet {
    let transport = Some(Transport::Udp { source: ports.0, destination: ports.1 });
    Packet { source, destination, protocol: 17, transport, fragment: false, length, dscp: 0 }
}

fn tcp(source: IpAddr, destination: IpAddr, ports: (u16, u16), flags: u8, length: u32) -> Packet {
    let transport = Some(Transport::Tcp { source: ports.0, destination: ports.1, flags });
    Packet { source, destination, protocol: 6, transport, fragment: false, length, dscp: 0 }
}

/// Any address that is none of ours.
fn anybody(source: &mut Source) -> IpAddr {
    Ipv4Addr::from(0x3000_0000 + source.bits() as u32 % 0x4000_0000).into()
}

/// An agent that sends ten times a second is heard, against which nothing speaks.
fn alive(detector: &mut Detector, agent: &str, now: u64) {
    detector.alive(&Alive { time: now, agent: ip(agent) });
}

fn spot(agent: &str) -> Spot {
    Spot { point: point(agent), word: Word::Good }
}

/// A sample of an agent that sends ten times a second.
fn sighting(time: u64, agent: &str, frames: f64, packet: Packet) -> Sighting<'static> {
    let (point, exposure, word, ingress) = (point(agent), Some(time % (SECOND / 10)), Word::Good, Some(true));
    Sighting { time, stream: 0, exposure, word, point, ingress, frames, packet, header: &[0x45, 0] }
}

fn show(detector: &mut Detector, time: u64, agent: &str, frames: f64, packet: Packet) {
    detector.sample(&sighting(time, agent, frames, packet));
    detector.begin_full();
}

/// Time passes, in which the agent is heard and tells of nothing.
fn pass(detector: &mut Detector, from: u64, seconds: u64) {
    for tick in 0..10 * seconds {
        let now = from + tick * SECOND / 10;
        alive(detector, "10.0.0.1", now);
        detector.tick(now, 0);
    }
}

/// Samples of traffic of a rate, from `from` on for so many seconds, at random; one in `sampling`. Ticks go on meanwhile.
fn flood(
    detector: &mut Detector,
    random: &mut Source,
    (from, seconds): (u64, f64),
    (rate, sampling): (f64, f64),
    mut packet: impl FnMut(&mut Source) -> Packet,
) {
    let (mut at, mut ticked) = (0.0, 0u64);
    loop {
        at += random.exponential(sampling / rate);
        let now = from + (at.min(seconds) * 1e9) as u64;
        while ticked + SECOND / 10 <= now - from {
            ticked += SECOND / 10;
            alive(detector, "10.0.0.1", from + ticked);
            detector.tick(from + ticked, 0);
        }
        if at >= seconds {
            return;
        }
        let packet = packet(random);
        show(detector, now, "10.0.0.1", sampling, packet);
    }
}

fn floods(findings: &[Finding]) -> Vec<&Detection> {
    let mut floods = Vec::new();
    for finding in findings {
        if let Finding::Flood(detection) = finding {
            floods.push(&**detection);
        }
    }
    floods
}

/// Targets and classes that are under attack after findings.
fn standing(findings: &[Finding]) -> Vec<(String, Class)> {
    let mut standing: Vec<(String, Class)> = Vec::new();
    for finding in findings {
        let key = match finding {
            Finding::Flood(detection) => (detection.target.prefix.to_string(), detection.class),
            Finding::Over { target, class, .. } => (target.prefix.to_string(), *class),
            Finding::Contested(_) => continue,
        };
        standing.retain(|known| *known != key);
        if matches!(finding, Finding::Flood(_)) {
            standing.push(key);
        }
    }
    standing.sort();
    standing
}
