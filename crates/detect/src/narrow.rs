//! How narrow a rule may be: it covers nearly all of a flood, and as little as possible of what its target got before.

use ipnet::IpNet;

use super::classes::{self, Classes};
use super::groups::Span;
use crate::model::{Class, Icmp, Packet, Ports, Rule, TcpFlags, Transport};

/// Part of the flood that a rule has to cover.
const COVER: f64 = 0.95;
/// Ports that are listed at most.
const PORTS: usize = 4;
/// What a frame has besides its IP packet, at least and at most: Ethernet alone; with two tags and the check sequence.
const FRAMING: (u32, u32) = (14, 26);
/// TCP's flags that are looked at together: SYN and ACK; with RST and FIN; all but ECN's and PSH.
const MASKS: [u8; 3] = [0x12, 0x17, 0x37];
/// What answers a question that somebody else asked.
const AMPLIFIED: Classes = classes::bit(Class::UdpAmplification) | classes::bit(Class::TcpAmplification);
/// Lengths from which on a packet is a large one.
const LARGE: u16 = 400;

/// What a rule is held against.
struct Traffic<'a> {
    /// Packets while the flood goes on, and what each counts.
    now: &'a [(f32, Packet)],
    total: f64,
    /// Packets of before.
    earlier: &'a [Packet],
    /// Part of `now` that is as `earlier` was.
    usual: f64,
}

/// Asks for one thing more; `None`: there is nothing to ask for.
type Step = fn(&Traffic<'_>, &Rule) -> Option<Rule>;

/// Rules from the bare destination to the narrowest. `usual`: part of the packets that came before the flood too, 0 to 1.
pub(super) fn rules(destination: IpNet, now: &[(f32, Packet)], earlier: &[Packet], usual: f64) -> Vec<Rule> {
    let total = now.iter().map(|(weight, _)| f64::from(*weight)).sum();
    let usual = if earlier.is_empty() { 0.0 } else { usual.clamp(0.0, 0.9) };
    let traffic = Traffic { now, total, earlier, usual };
    let mut rules = vec![Rule::to(destination)];
    let mut steps: Vec<Step> =
        vec![protocols, fragments, source_ports, tcp_flags, icmp, destination_ports, lengths, source];
    // In each round whatever spares most; of alike the one that stands first.
    while let Some(last) = rules.last() {
        let before = hit(last, earlier);
        let narrower = steps.iter().enumerate().filter_map(|(at, step)| Some((at, step(&traffic, last)?)));
        let fitting = narrower.filter(|(_, rule)| rule != last && traffic.cover(rule) >= COVER);
        let best = fitting.map(|(at, rule)| (hit(&rule, earlier), at, rule)).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, at, rule)) = best.filter(|(after, ..)| *after <= before) else { break };
        steps.remove(at);
        rules.push(rule);
    }
    rules
}

/// Part of packets that a rule may hit, 0 to 1.
pub(super) fn hit(rule: &Rule, packets: &[Packet]) -> f64 {
    if packets.is_empty() {
        return 0.0;
    }
    packets.iter().filter(|packet| may_match(rule, packet)).count() as f64 / packets.len() as f64
}

/// Whether a packet is meant, for all that is known of its length.
fn may_match(rule: &Rule, packet: &Packet) -> bool {
    let (least, most) = (packet.length.saturating_sub(FRAMING.1), packet.length.saturating_sub(FRAMING.0));
    rule.matches(packet) && rule.lengths.is_none_or(|(low, high)| most >= u32::from(low) && least <= u32::from(high))
}

/// Whether a packet is meant for sure.
pub(super) fn does_match(rule: &Rule, packet: &Packet) -> bool {
    let (least, most) = (packet.length.saturating_sub(FRAMING.1), packet.length.saturating_sub(FRAMING.0));
    rule.matches(packet) && rule.lengths.is_none_or(|(low, high)| least >= u32::from(low) && most <= u32::from(high))
}

impl Traffic<'_> {
    /// Part of the excess that a rule covers: of all packets, less what it would have covered anyway.
    fn cover(&self, rule: &Rule) -> f64 {
        let covered: f64 = self.meant(rule).map(|(weight, _)| f64::from(*weight)).sum();
        let share = if self.total > 0.0 { covered / self.total } else { 0.0 };
        ((share - self.usual * hit(rule, self.earlier)) / (1.0 - self.usual)).min(1.0)
    }

    fn meant(&self, rule: &Rule) -> impl Iterator<Item = &(f32, Packet)> {
        self.now.iter().filter(move |(_, packet)| does_match(rule, packet))
    }

    /// The most frequent values of the packets that a rule means, beyond those that came before, too; no more of them than needed.
    fn frequent<V: Ord + Copy>(
        &self,
        rule: &Rule,
        most: usize,
        value: impl Fn(&Packet) -> Option<V>,
    ) -> Option<Vec<V>> {
        let counted = self.meant(rule).map(|(weight, packet)| (value(packet), f64::from(*weight)));
        let (mut counts, _) = count(counted);
        let earlier: Vec<V> = self.earlier.iter().filter(|packet| may_match(rule, packet)).filter_map(&value).collect();
        let came = |value: Option<V>| earlier.iter().filter(|&&one| Some(one) == value).count();
        // What would have come anyway, and as much more of it as chance makes of so few samples.
        let usual = self.usual * self.total / earlier.len().max(1) as f64;
        let sample = self.total / self.now.len().max(1) as f64;
        if usual > 0.0 {
            for (value, weight) in &mut counts {
                let anyway = usual * came(*value) as f64;
                let chance = if anyway > 0.0 { 2.0 * (anyway * sample).sqrt() + sample } else { 0.0 };
                *weight = (*weight - anyway - chance).max(0.0);
            }
            counts.sort_by(|a, b| b.1.total_cmp(&a.1));
        }
        let total: f64 = counts.iter().map(|(_, weight)| weight).sum();
        let mut chosen = Vec::new();
        let mut sum = 0.0;
        for (value, weight) in counts.into_iter().take(most) {
            // By chance there may be a little more of what is usual.
            if sum >= COVER * total && came(value) > 0 {
                break;
            }
            chosen.push(value?);
            sum += weight;
            // A little more than is asked for, since further steps take their part too.
            if sum >= 0.98 * total {
                break;
            }
        }
        chosen.sort_unstable();
        (sum >= COVER * total && !chosen.is_empty()).then_some(chosen)
    }
}

/// Values with the sums of their weights, the largest first, and the sum of all.
pub(super) fn count<V: Ord>(values: impl Iterator<Item = (V, f64)>) -> (Vec<(V, f64)>, f64) {
    let mut counts: Vec<(V, f64)> = values.collect();
    let total = counts.iter().map(|(_, weight)| weight).sum();
    counts.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    counts.dedup_by(|one, first| {
        let same = one.0 == first.0;
        first.1 += if same { one.1 } else { 0.0 };
        same
    });
    counts.sort_by(|a, b| b.1.total_cmp(&a.1));
    (counts, total)
}

fn protocols(traffic: &Traffic<'_>, rule: &Rule) -> Option<Rule> {
    let protocols = traffic.frequent(rule, 2, |packet| Some(packet.protocol))?;
    Some(Rule { protocols, ..rule.clone() })
}

fn fragments(_: &Traffic<'_>, rule: &Rule) -> Option<Rule> {
    Some(Rule { fragment: true, ..rule.clone() })
}

fn source_ports(traffic: &Traffic<'_>, rule: &Rule) -> Option<Rule> {
    Some(Rule { source_ports: ports(traffic, rule, |ports| ports.0)?, ..rule.clone() })
}

fn destination_ports(traffic: &Traffic<'_>, rule: &Rule) -> Option<Rule> {
    Some(Rule { destination_ports: ports(traffic, rule, |ports| ports.1)?, ..rule.clone() })
}

/// They ask for a protocol that has them (RFC 8955, section 4.2.2.4).
fn ports(traffic: &Traffic<'_>, rule: &Rule, of: fn((u16, u16)) -> u16) -> Option<Vec<Ports>> {
    if rule.protocols.is_empty() || rule.protocols.iter().any(|protocol| !matches!(protocol, 6 | 17)) {
        return None;
    }
    let ports = traffic.frequent(rule, PORTS, |packet| packet.ports().map(of))?;
    Some(ports.into_iter().map(|port| Ports(port, port)).collect())
}

fn tcp_flags(traffic: &Traffic<'_>, rule: &Rule) -> Option<Rule> {
    let of = |mask: u8| {
        let value = traffic.frequent(rule, 1, |packet| match packet.transport {
            Some(Transport::Tcp { flags, .. }) => Some(flags & mask),
            _ => None,
        })?;
        Some(Rule { tcp_flags: Some(TcpFlags { mask, value: value[0] }), ..rule.clone() })
    };
    if rule.protocols != [6] {
        return None;
    }
    // The widest mask only where it spares more.
    let found = MASKS.into_iter().filter_map(of).filter(|rule| traffic.cover(rule) >= COVER);
    found.min_by(|a, b| hit(a, traffic.earlier).total_cmp(&hit(b, traffic.earlier)))
}

fn icmp(traffic: &Traffic<'_>, rule: &Rule) -> Option<Rule> {
    if !matches!(rule.protocols[..], [1] | [58]) {
        return None;
    }
    let kind = traffic.frequent(rule, 1, |packet| match packet.transport {
        Some(Transport::Icmp { kind, code }) => Some((kind, code)),
        _ => None,
    })?;
    let icmp = Some(Icmp { kind: kind[0].0, code: Some(kind[0].1) });
    Some(Rule { icmp, ..rule.clone() })
}

/// Lengths of nearly all: where that spares something, or where large packets are what the flood is about.
fn lengths(traffic: &Traffic<'_>, rule: &Rule) -> Option<Rule> {
    let mut lengths: Vec<u32> = traffic.meant(rule).map(|(_, packet)| packet.length).collect();
    lengths.sort_unstable();
    let at = |share: f64| lengths.get((lengths.len() as f64 * share) as usize).copied();
    let low = at(0.02)?.saturating_sub(FRAMING.1).min(65_535) as u16;
    let high = at(0.98)?.saturating_sub(FRAMING.0).min(65_535) as u16;
    // Round numbers: the next packets are not exactly as the last ones.
    let low = low / 50 * 50;
    let high = (high / 50 + 1).saturating_mul(50);
    let is_amplified = traffic.meant(rule).all(|(_, packet)| classes::of(packet) & AMPLIFIED != 0);
    let with = |lengths| Rule { lengths: Some(lengths), ..rule.clone() };
    let before = hit(rule, traffic.earlier);
    let candidates = [(low, u16::MAX), (0, high), (low, high)].map(with);
    let spared = |rule: &Rule| before - hit(rule, traffic.earlier);
    let best = candidates.into_iter().max_by(|a, b| spared(a).total_cmp(&spared(b)))?;
    if spared(&best) >= 0.05 {
        // As wide as spares as much.
        let open = with((low, u16::MAX));
        return Some(if spared(&open) >= spared(&best) { open } else { best });
    }
    (is_amplified && low >= LARGE).then(|| with((low, u16::MAX)))
}

/// The prefix that nearly all sources are in, if it is not half of the Internet.
fn source(traffic: &Traffic<'_>, rule: &Rule) -> Option<Rule> {
    let sources: Vec<(Span, f64)> =
        traffic.meant(rule).map(|(weight, packet)| (Span::host(packet.source), f64::from(*weight))).collect();
    let span = narrowest(Span { bits: 0, length: 0 }, &sources, 0.98);
    let is_v4 = rule.destination.addr().is_ipv4();
    let enough = if is_v4 { 96 + 16 } else { 32 };
    (span.length >= enough && sources.len() >= 8).then(|| Rule { source: Some(span.into()), ..rule.clone() })
}

/// The narrowest prefix within `span` that has such a part of all weights.
pub(super) fn narrowest(span: Span, weights: &[(Span, f64)], part: f64) -> Span {
    let mut within: Vec<(Span, f64)> = weights.iter().filter(|(host, _)| span.contains(*host)).copied().collect();
    let total: f64 = within.iter().map(|(_, weight)| weight).sum();
    let mut found = span;
    while found.length < 128 && total > 0.0 {
        let bit = 1u128 << (127 - found.length);
        let ones: f64 = within.iter().filter(|(host, _)| host.bits & bit != 0).map(|(_, weight)| weight).sum();
        let all: f64 = within.iter().map(|(_, weight)| weight).sum();
        let one = ones > all - ones;
        if ones.max(all - ones) < part * total {
            break;
        }
        within.retain(|(host, _)| (host.bits & bit != 0) == one);
        found = Span { bits: if one { found.bits | bit } else { found.bits }, length: found.length + 1 };
    }
    found
}
