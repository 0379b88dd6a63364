//! What is told of a flood: evidence, rules, doubts.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Detector;
use super::classes;
use super::dossiers::Dossier;
use super::floods::{Flood, Place};
use super::groups::Span;
use super::narrow;
use super::sequential::Bar;
use super::table::Key;
use super::views::View;
use super::watches::{Unit, Watch};
use crate::model::{Class, Detection, Doubt, Evidence, Packet, Rule, Share, Target, TcpFlags, Transport, Word};

/// What is known of addresses elsewhere.
pub trait Atlas: Send {
    /// Country of an address, ISO 3166-1 alpha-2.
    fn country(&self, address: IpAddr) -> Option<String>;
    /// Its autonomous system.
    fn asn(&self, address: IpAddr) -> Option<u32>;
}

/// Values that are told of a field.
const TOP: usize = 5;
/// Samples that a value must have to be told.
const FEWEST: f64 = 6.0;
/// So few sources are told as they are, though none of them stands out.
const FEW: usize = 64;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl Detector {
    /// A flood as it is now, by the view that speaks best for it: a good one, then the one that sees most. `None`: nobody has seen it of late.
    pub(super) fn report(&self, place: &Place) -> Option<Detection> {
        let (span, class) = *place;
        let flood = self.floods.all.get(place)?;
        let worth = |(view, dossier): &(View, &Dossier)| {
            let (packets, _) = dossier.told(class, self.views.complete(*view));
            (dossier.is_good(), packets.value)
        };
        let seen = || self.seen(place);
        let (view, dossier) = seen().max_by(|a, b| worth(a).partial_cmp(&worth(b)).unwrap_or(Ordering::Equal))?;
        let Target { prefix, group } = self.target(flood);
        let mut evidence = self.evidence(flood, class, (view, dossier), &group);
        evidence.points = seen().flat_map(|(_, dossier)| dossier.spots()).copied().collect();
        evidence.points.sort_unstable();
        evidence.points.dedup_by_key(|spot| spot.point);
        debug_assert!(span.contains(flood.target));
        Some(Detection {
            rules: self.rules(flood, class, dossier, evidence.packets.value, prefix),
            target: Target { prefix, group },
            class,
            first_excess: flood.first_excess,
            decided: flood.decided,
            doubts: self.doubts(dossier, place),
            evidence,
        })
    }

    /// What is kept of a flood, for each who sees it now: whose test was full not long before it last was for anybody.
    pub(super) fn seen(&self, place: &Place) -> impl Iterator<Item = (View, &Dossier)> {
        let flood = self.floods.all.get(place);
        let since = flood.map_or(0, |flood| flood.last).saturating_sub(self.settings.quiet.as_nanos() as u64);
        let views = flood.into_iter().flat_map(|flood| &flood.views).filter(move |(_, last)| *last >= since);
        let span = place.0;
        views.filter_map(move |&(view, _)| {
            let at = self.table.find(&Key { span, view })?;
            Some((view, self.dossiers.get(self.table.get(at).dossier)?))
        })
    }

    fn evidence(&self, flood: &Flood, class: Class, (view, dossier): (View, &Dossier), group: &str) -> Evidence {
        let (packets, bits) = dossier.told(class, self.views.complete(view));
        let number = usize::from(self.groups.networks[flood.network].group);
        let watch = &self.watches.groups[number][flood.watch];
        let bar = self.watches.bars(flood.network as u32, flood.level as u8)[flood.watch];
        let unit = if watch.unit == Unit::Packets { "packets/s" } else { "bits/s" };
        let mut rule = format!("group {group}, {}, {:.0} {unit}", class.name(), bar.rate);
        if flood.level > 0 {
            let length =
                IpNet::from(Span { length: self.groups.networks[flood.network].lengths[flood.level], ..flood.target });
            let _ = write!(rule, " to a /{}", length.prefix_len());
        }
        if bar.is_learnt {
            let _ = write!(rule, " (learnt, {} {:02}:00)", DAYS[self.hour / 24 % 7], self.hour % 24);
        }
        let of = |unit: Unit| (watch.unit == unit).then_some(f64::from(bar.rate));
        let recent: Vec<(f32, Packet)> = recent(dossier, class, flood.first_excess).collect();
        let atlas = self.atlas.as_deref();
        let part = dossier.part(class);
        let sources = part.map_or(0, |part| part.sources.count());
        let of_source = if sources <= FEW { 1.0 } else { FEWEST };
        Evidence {
            rule,
            threshold_packets: of(Unit::Packets),
            threshold_bits: of(Unit::Bits),
            packets,
            bits,
            log_evidence: flood.log_evidence,
            samples: part.map_or(0, |part| part.samples),
            sources,
            hosts: part.map_or(0, |part| part.hosts.count()),
            points: Vec::new(),
            top_sources: top(&recent, of_source, |packet| Some(packet.source), IpAddr::to_string),
            top_source_ports: top(&recent, FEWEST, |packet| ports(packet).map(|of| (of.0, of.1)), port),
            top_destination_ports: top(&recent, FEWEST, |packet| ports(packet).map(|of| (of.0, of.2)), port),
            top_flags: top(&recent, FEWEST, flags, |flags| flags_or_icmp(*flags)),
            top_countries: top(&recent, FEWEST, |packet| atlas?.country(packet.source), String::clone),
            top_asns: top(&recent, FEWEST, |packet| atlas?.asn(packet.source), u32::to_string),
            headers: dossier.headers(class, flood.first_excess).map(hexadecimal).collect(),
        }
    }

    fn rules(&self, flood: &Flood, class: Class, dossier: &Dossier, rate: f64, prefix: IpNet) -> Vec<Rule> {
        let group = usize::from(self.groups.networks[flood.network].group);
        let (earlier, usual) = self.profiles.earlier(self.now, group, flood.target).unwrap_or_default();
        // Only what the class has in it is among the flood's packets.
        let bit = classes::bit(class);
        let alike = earlier.iter().filter(|packet| classes::of(packet) & bit != 0).count();
        let part = alike as f64 / earlier.len().max(1) as f64;
        let inside = |(_, packet): &(f32, Packet)| flood.target.contains(Span::host(packet.destination));
        let recent: Vec<(f32, Packet)> = recent(dossier, class, flood.first_excess).filter(inside).collect();
        // By its rate, and by the time that the packets took, which may have begun before the flood.
        let began = dossier.packets(class, flood.first_excess).next().map_or(self.now, |noted| noted.time);
        let (seconds, packets) =
            (self.now.saturating_sub(began) as f64 / 1e9, recent.iter().map(|one| f64::from(one.0)).sum::<f64>());
        let share = usual * part * (1.0 / rate.max(1.0)).max(seconds / packets.max(1.0));
        narrow::rules(prefix, &recent, &earlier, share)
    }

    /// What speaks against a flood: what does against all that a view tells, if no good one tells of it; and that too few agents do.
    fn doubts(&self, dossier: &Dossier, place: &Place) -> Vec<Doubt> {
        let good = self.seen(place).flat_map(|(_, dossier)| dossier.spots()).filter(|spot| spot.word == Word::Good);
        let agents: BTreeSet<IpAddr> = good.map(|spot| spot.point.agent).collect();
        let (seen, wanted) = (agents.len(), self.settings.witnesses);
        let mut doubts: Vec<Doubt> = Vec::new();
        if !dossier.is_good() {
            doubts = dossier.spots().iter().filter_map(|spot| Doubt::of(spot.point, spot.word)).collect();
            doubts.dedup();
        }
        if seen < wanted && (seen > 0 || doubts.is_empty()) {
            doubts.push(Doubt::witnesses(seen, wanted));
        }
        doubts
    }
}

/// Hosts among recent packets of a class, with what each packet counts.
pub(super) fn hosts(dossier: &Dossier, class: Class, since: u64) -> Vec<(Span, f64)> {
    recent(dossier, class, since).map(|(weight, packet)| (Span::host(packet.destination), f64::from(weight))).collect()
}

/// Whether a flood has as many sources as asked for: without the largest ones of fewer it would still be above the threshold. Which are the
/// largest one half of the recent packets says, and the other half what part is theirs: else chance would make some sources large.
pub(super) fn has_sources(dossier: &Dossier, watch: &Watch, bar: &Bar, (complete, now): (u64, u64)) -> bool {
    let sources: Vec<IpAddr> = dossier.at_once(watch.class, now).map(|noted| noted.packet.source).collect();
    let different: BTreeSet<IpAddr> = sources.iter().copied().collect();
    if sources.len() < (3 * watch.min_sources).min(48) || different.len() < watch.min_sources {
        return false;
    }
    let half = |first: usize| sources.iter().skip(first).step_by(2).copied();
    let held = |first: usize| {
        let (counts, _) = narrow::count(half(first).map(|source| (source, 1.0)));
        let largest: Vec<IpAddr> = counts.into_iter().take(watch.min_sources - 1).map(|(source, _)| source).collect();
        half(1 - first).filter(|source| largest.contains(source)).count()
    };
    let share = (held(0) + held(1)) as f64 / sources.len() as f64;
    watch.unit.of(dossier.told(watch.class, complete)).value * (1.0 - share) > f64::from(bar.rate)
}

fn recent(dossier: &Dossier, class: Class, since: u64) -> impl Iterator<Item = (f32, Packet)> {
    dossier.packets(class, since).map(|noted| (noted.frames, noted.packet))
}

/// The most frequent values of a field; packets without count for the whole. What fewer samples have is left out: chance alone makes some of
/// many equal values come twice or thrice.
fn top<V: Ord>(
    packets: &[(f32, Packet)],
    fewest: f64,
    of: impl Fn(&Packet) -> Option<V>,
    name: impl Fn(&V) -> String,
) -> Vec<Share> {
    let (samples, _) = narrow::count(packets.iter().map(|(_, packet)| (of(packet), 1.0)));
    let often = |value: &V| samples.iter().any(|(one, count)| one.as_ref() == Some(value) && *count >= fewest);
    let (counts, total) = narrow::count(packets.iter().map(|(weight, packet)| (of(packet), f64::from(*weight))));
    let known = counts.iter().filter_map(|(value, weight)| Some((value.as_ref()?, weight)));
    let known = known.filter(|(value, _)| often(value));
    known.take(TOP).map(|(value, weight)| Share { value: name(value), share: weight / total }).collect()
}

fn port((protocol, port): &(&'static str, u16)) -> String {
    format!("{protocol}/{port}")
}

fn ports(packet: &Packet) -> Option<(&'static str, u16, u16)> {
    let (source, destination) = packet.ports()?;
    Some((if packet.protocol == 6 { "tcp" } else { "udp" }, source, destination))
}

/// TCP's flags, or type and code of ICMP.
fn flags(packet: &Packet) -> Option<Result<u8, (u8, u8)>> {
    match packet.transport? {
        Transport::Tcp { flags, .. } => Some(Ok(flags)),
        Transport::Icmp { kind, code } => Some(Err((kind, code))),
        Transport::Udp { .. } => None,
    }
}

fn flags_or_icmp(flags: Result<u8, (u8, u8)>) -> String {
    match flags {
        Ok(0) => "none".into(),
        Ok(flags) => TcpFlags::names(flags).join("+"),
        Err((kind, code)) => format!("type {kind} code {code}"),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
