//! What is told of a flood: evidence, rules, doubts.

use std::fmt::Write;
use std::net::IpAddr;

use ipnet::IpNet;

use super::classes::{self, NARROWEST_FIRST};
use super::dossiers::{Dossier, Noted};
use super::floods::{Flood, Place};
use super::groups::Span;
use super::narrow;
use super::sequential::Bar;
use super::table::Key;
use super::watches::{Unit, Watch};
use super::{Detector, HOLDS};
use crate::estimate;
use crate::model::{Class, Detection, Doubt, Evidence, Packet, Share, Spot, Target, Transport, Word};

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
/// Part of a flood that a class has at least that explains it.
const MOST: f64 = 0.5;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl Detector {
    /// A flood as it is now, by the view that speaks best for it: without doubts, then with the most packets. A prefix may have become wider,
    /// which makes it another target. `None`: nobody has seen it of late, or those who tell it are believed by now, so that it is no hearsay.
    pub(super) fn report(&mut self, place: &Place, flood: &mut Flood) -> Option<Detection> {
        let found = flood.views.iter().filter_map(|&view| {
            let at = self.table.find(&Key { span: place.0, view })?;
            let dossier = self.table.get(at).dossier;
            let known = self.dossiers.get(dossier)?;
            let doubts = self.doubts(known);
            Some((doubts.is_empty(), known.rates(flood.class, self.now).0.value, dossier, doubts))
        });
        let mut found: Vec<_> = found.collect();
        let best = (0..found.len()).max_by(|&a, &b| {
            let (a, b) = (&found[a], &found[b]);
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })?;
        let (_, _, dossier, doubts) = found.swap_remove(best);
        let dossier = self.dossiers.get(dossier)?;
        if flood.level > 0 {
            let hosts = hosts(dossier, flood.class);
            let now = narrow::narrowest(place.0, &hosts, HOLDS);
            // Where no packet of it is left among the recent ones nothing is known of its width.
            if !hosts.is_empty() && now.length < flood.target.length && now.contains(flood.target) {
                // The new target is told by the caller before anybody acts on the end of the old one.
                if flood.is_told {
                    let target = self.target(flood);
                    self.widened.push((target, flood.class, flood.last));
                }
                flood.target = now;
                let group = usize::from(self.groups.networks[flood.network].group);
                self.profiles.forget(group, now, flood.first_excess);
            }
        }
        let Target { prefix, group } = self.target(flood);
        let evidence = self.evidence(flood, dossier, &group);
        let rules = self.rules(flood, dossier, evidence.packets.value, prefix);
        Some(Detection {
            target: Target { prefix, group },
            class: flood.class,
            first_excess: flood.first_excess,
            decided: flood.decided,
            evidence,
            rules,
            doubts,
        })
    }

    fn evidence(&self, flood: &Flood, dossier: &Dossier, group: &str) -> Evidence {
        let (packets, bits) = dossier.told(flood.class, self.now);
        let number = usize::from(self.groups.networks[flood.network].group);
        let watch = &self.watches.groups[number][flood.watch];
        let bar = self.watches.bars(flood.network as u32, flood.level as u8)[flood.watch];
        let unit = if watch.unit == Unit::Packets { "packets/s" } else { "bits/s" };
        let mut rule = format!("group {group}, {}, {} {unit}", watch.class.name(), thousands(f64::from(bar.rate)));
        if flood.level > 0 {
            let length =
                IpNet::from(Span { length: self.groups.networks[flood.network].lengths[flood.level], ..flood.target });
            let _ = write!(rule, " to a /{}", length.prefix_len());
        }
        if self.watches.is_raised(flood.network, flood.level, flood.watch) {
            let _ = write!(rule, " (learnt, {} {:02}:00)", DAYS[self.hour / 24 % 7], self.hour % 24);
        }
        let of = |unit: Unit| (watch.unit == unit).then_some(f64::from(bar.rate));
        let recent: Vec<(f32, Packet)> = recent(dossier, flood.class).collect();
        let atlas = self.atlas.as_deref();
        let of_source = if dossier.sources() <= FEW { 1.0 } else { FEWEST };
        let mut points = dossier.spots().to_vec();
        points.sort_unstable();
        Evidence {
            rule,
            threshold_packets: of(Unit::Packets),
            threshold_bits: of(Unit::Bits),
            packets,
            bits,
            log_evidence: flood.log_evidence,
            samples: dossier.samples,
            sources: dossier.sources(),
            hosts: dossier.targets(),
            points,
            top_sources: top_of(&recent, of_source, |packet| Some(packet.source), IpAddr::to_string),
            top_source_ports: top(&recent, |packet| ports(packet).map(|of| (of.0, of.1)), port),
            top_destination_ports: top(&recent, |packet| ports(packet).map(|of| (of.0, of.2)), port),
            top_flags: top(&recent, flags, |flags| flag_names(*flags)),
            top_countries: top(&recent, |packet| atlas?.country(packet.source), String::clone),
            top_asns: top(&recent, |packet| atlas?.asn(packet.source), u32::to_string),
            headers: dossier.headers().map(hexadecimal).collect(),
        }
    }

    fn rules(&self, flood: &Flood, dossier: &Dossier, rate: f64, prefix: IpNet) -> Vec<crate::model::Rule> {
        let group = usize::from(self.groups.networks[flood.network].group);
        let (earlier, usual) = self.profiles.earlier(self.now, group, flood.target).unwrap_or_default();
        // Only what the class has in it is among the flood's packets.
        let bit = classes::bit(flood.class);
        let alike = earlier.iter().filter(|packet| classes::of(packet) & bit != 0).count();
        let part = alike as f64 / earlier.len().max(1) as f64;
        let inside = |(_, packet): &(f32, Packet)| flood.target.contains(Span::host(packet.destination));
        let recent: Vec<(f32, Packet)> = recent(dossier, flood.class).filter(inside).collect();
        // By its rate, and by the time that the packets took, which may have begun before the flood.
        let began = dossier.packets(flood.class).map(|noted| noted.time).min().unwrap_or(self.now);
        let (seconds, packets) =
            (self.now.saturating_sub(began) as f64 / 1e9, recent.iter().map(|one| f64::from(one.0)).sum::<f64>());
        let share = usual * part * (1.0 / rate.max(1.0)).max(seconds / packets.max(1.0));
        narrow::rules(prefix, flood.class, &recent, &earlier, share)
    }

    /// What speaks against what a view tells.
    fn doubts(&self, dossier: &Dossier) -> Vec<Doubt> {
        let doubt = |spot: &Spot| {
            let point = spot.point;
            match spot.word {
                Word::Good => None,
                Word::New => Some(Doubt::New { agent: point.agent }),
                Word::Contested => Some(Doubt::Contested { agent: point.agent }),
                Word::Uncounted => Some(Doubt::Uncounted { point }),
                Word::Counters => Some(Doubt::Counters { point }),
            }
        };
        let mut doubts: Vec<Doubt> = dossier.spots().iter().filter_map(doubt).collect();
        doubts.dedup();
        doubts
    }

    /// What is kept of a flood, for each who sees it.
    pub(super) fn seen(&self, place: &Place, flood: &Flood) -> impl Iterator<Item = &Dossier> {
        self.dossiers_of(place, flood).into_iter().filter_map(move |at| self.dossiers.get(at))
    }

    /// Where that is kept.
    pub(super) fn dossiers_of(&self, place: &Place, flood: &Flood) -> Vec<u32> {
        let span = place.0;
        let ats = flood.views.iter().filter_map(|&view| self.table.find(&Key { span, view }));
        ats.map(|at| self.table.get(at).dossier).collect()
    }
}

/// Hosts among recent packets of a class, with what each packet counts.
pub(super) fn hosts(dossier: &Dossier, class: Class) -> Vec<(Span, f64)> {
    recent(dossier, class).map(|(weight, packet)| (Span::host(packet.destination), f64::from(weight))).collect()
}

/// The narrowest class that explains why a class has too many packets, since it has: nearly all of them are of that class; or most are, and
/// nothing shows that the others, which the target gets anyway, would exceed the threshold without those.
pub(super) fn class(dossier: &Dossier, watch: &Watch, bar: &Bar, since: u64, now: u64) -> Class {
    let flood = || dossier.packets(watch.class).filter(|noted| noted.time >= since);
    let weight = |noted: &Noted| match watch.unit {
        Unit::Packets => f64::from(noted.frames),
        Unit::Bits => f64::from(noted.frames) * f64::from(noted.packet.length) * 8.0,
    };
    let total: f64 = flood().map(weight).sum();
    // Of nothing everything is an explanation.
    if total <= 0.0 {
        return watch.class;
    }
    let seconds = total / watch.unit.of(dossier.rates(watch.class, now)).value.max(f64::MIN_POSITIVE);
    let explains = |&narrow: &Class| {
        let others = flood().filter(|noted| noted.classes & classes::bit(narrow) == 0).map(weight);
        let (sum, squares) = others.fold((0.0, 0.0), |(sum, squares), one| (sum + one, squares + one * one));
        let conform = estimate::rate(sum, squares, seconds).low <= f64::from(bar.rate);
        sum <= (1.0 - HOLDS) * total || sum <= (1.0 - MOST) * total && conform
    };
    NARROWEST_FIRST.into_iter().take_while(|&narrow| narrow != watch.class).find(explains).unwrap_or(watch.class)
}

/// Whether a flood has as many sources as asked for: without the largest ones of fewer it would still be above the threshold. Which are the
/// largest one half of the recent packets says, and the other half what part is theirs: else chance would make some sources large.
pub(super) fn has_sources(dossier: &Dossier, watch: &Watch, bar: &Bar, now: u64) -> bool {
    if watch.min_sources <= 1 {
        return true;
    }
    let sources: Vec<IpAddr> = dossier.at_once(watch.class, now).map(|noted| noted.packet.source).collect();
    if sources.len() < (3 * watch.min_sources).min(48) || dossier.sources() < watch.min_sources {
        return false;
    }
    let half = |first: usize| sources.iter().skip(first).step_by(2).copied();
    let held = |first: usize| {
        let (counts, _) = narrow::count(half(first).map(|source| (source, 1.0)));
        let largest: Vec<IpAddr> = counts.into_iter().take(watch.min_sources - 1).map(|(source, _)| source).collect();
        half(1 - first).filter(|source| largest.contains(source)).count()
    };
    let share = (held(0) + held(1)) as f64 / sources.len() as f64;
    watch.unit.of(dossier.rates(watch.class, now)).value * (1.0 - share) > f64::from(bar.rate)
}

fn recent(dossier: &Dossier, class: Class) -> impl Iterator<Item = (f32, Packet)> {
    dossier.packets(class).map(|noted| (noted.frames, noted.packet))
}

/// The most frequent values of a field; packets without count for the whole. What few samples have is left out: chance alone makes some of
/// many equal values come twice or thrice.
fn top<V: Ord>(
    packets: &[(f32, Packet)],
    of: impl Fn(&Packet) -> Option<V>,
    name: impl Fn(&V) -> String,
) -> Vec<Share> {
    top_of(packets, FEWEST, of, name)
}

/// The same of those that have so many samples.
fn top_of<V: Ord>(
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
    match packet.transport? {
        Transport::Tcp { source, destination, .. } => Some(("tcp", source, destination)),
        Transport::Udp { source, destination } => Some(("udp", source, destination)),
        Transport::Icmp { .. } => None,
    }
}

/// TCP's flags, or type and code of ICMP.
fn flags(packet: &Packet) -> Option<Result<u8, (u8, u8)>> {
    match packet.transport? {
        Transport::Tcp { flags, .. } => Some(Ok(flags)),
        Transport::Icmp { kind, code } => Some(Err((kind, code))),
        Transport::Udp { .. } => None,
    }
}

fn flag_names(flags: Result<u8, (u8, u8)>) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    match flags {
        Ok(0) => "none".into(),
        Ok(flags) => {
            let set: Vec<&str> = (0..8).filter(|at| flags & 1 << at != 0).map(|at| NAMES[at]).collect();
            set.join("+")
        }
        Err((kind, code)) => format!("type {kind} code {code}"),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A whole number with commas: 40,000.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
