//! Made-up traffic, and what is found in it.

mod benign;
mod carpet;
mod classes;
mod cost;
mod doubts;
mod false_alarms;
mod findings;
mod first;
mod phantoms;
mod power;
mod rules;
mod sys;
mod tables;

use std::net::{IpAddr, Ipv4Addr};

use weir_testbed::random::Source;

use super::*;
use crate::evidence::{Exporter, Heard};
use crate::model::{Class, Detection, Packet, Stream, Transport};

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
    let agents = vec![Exporter { agent: "10.0.0.0/24".parse().unwrap(), from: None, sub_agents: None }];
    Settings {
        groups: vec![Group { name: "web".into(), networks, thresholds }],
        evidence: evidence::Settings { agents, ..evidence::Settings::default() },
        ..Settings::default()
    }
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

/// A detector whose agent 10.0.0.1 is believed, with counters that allow for anything.
fn believed(settings: Settings) -> Detector {
    let mut detector = Detector::new(settings);
    for agent in ["10.0.0.1", "10.0.0.2"] {
        trust(&mut detector, agent, 0);
    }
    detector
}

fn trust(detector: &mut Detector, agent: &str, now: u64) {
    detector.agent(&Heard {
        time: now,
        agent: ip(agent),
        stream: Stream::default(),
        from: ip(agent),
        trouble: None,
        pause: 0,
        is_known: false,
    });
    let (packets, bits) = ([1e9; 2], [1e13; 2]);
    let (from, to) = (now.saturating_sub(20 * SECOND), now);
    detector.counters(&Counts { point: point(agent), stream: Stream::default(), from, to, packets, bits, speed: None });
}

fn show(detector: &mut Detector, time: u64, agent: &str, frames: f64, packet: Packet) {
    let sighting = Sighting {
        time,
        kept: 0,
        ago: [0; 2],
        point: point(agent),
        stream: Stream::default(),
        ingress: Some(true),
        frames,
        packet,
        header: &[0x45, 0],
    };
    detector.sample(&sighting);
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
            Finding::Unheard { .. }
            | Finding::GoesOn { .. }
            | Finding::Ebbing { .. }
            | Finding::Inconsistent { .. }
            | Finding::Discredited { .. } => continue,
        };
        standing.retain(|known| *known != key);
        if matches!(finding, Finding::Flood(_)) {
            standing.push(key);
        }
    }
    standing.sort();
    standing
}
