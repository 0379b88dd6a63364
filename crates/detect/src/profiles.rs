//! What protected hosts get while nobody attacks them: how much, by which views, and some of the packets.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use super::groups::Span;
use super::views::View;
use crate::model::{Harm, Packet, Rule};

/// Packets that are kept of a host.
const KEPT: usize = 24;
/// Packets that are kept of a group.
const KEPT_OF_GROUP: usize = 1_024;
/// Views whose rate is known.
const VIEWS: usize = 4;
/// Time constant of rates, s.
const SMOOTHING: f64 = 300.0;
/// From packet to packet that is kept, ns: the last ones are of eight minutes.
const SPACING: u64 = 20_000_000_000;
/// What a profile must have seen of to tell anything, ns.
const SEEN: u64 = 60_000_000_000;
/// Packets that it must have, and that must have gone to a prefix for anything to be said of what that gets: fewer are chance.
const FEWEST: usize = 8;
/// How long before its first excess a flood may have begun: what is little above its threshold does not always exceed it at first, ns.
const BEFORE: u64 = 10_000_000_000;
const WAYS: usize = 8;

/// A profile of a host, or of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    host: Option<Span>,
    /// Whose host; `None`: it is free, or not known yet.
    group: Option<usize>,
    since: u64,
    last: u64,
    due: u64,
    turn: usize,
    /// Each with when it came.
    packets: Vec<(u64, Packet)>,
    views: Rates,
}

/// Packets a second by view, and as of when.
type Rates = [(View, f32, u64); VIEWS];

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    hosts: Vec<Profile>,
    groups: Vec<Profile>,
    hasher: RandomState,
    /// Hosts of whom it was forgotten for others.
    pub(super) evicted: u64,
}

impl Profiles {
    pub(super) fn new(hosts: usize) -> Self {
        let places = hosts.max(WAYS).next_power_of_two();
        Self { hosts: vec![Profile::default(); places], ..Self::default() }
    }

    /// Other groups: what is known of hosts stays.
    pub(super) fn regroup(&mut self, groups: usize) {
        self.groups = vec![Profile::default(); groups];
        // Whose they are is known again with their next packet.
        self.hosts.iter_mut().for_each(|profile| profile.group = None);
    }

    fn set(&self, host: Span) -> std::ops::Range<usize> {
        let first = (self.hasher.hash_one(host) as usize & (self.hosts.len() / WAYS - 1)) * WAYS;
        first..first + WAYS
    }

    /// A packet that is no part of a flood.
    #[inline]
    pub(super) fn note(&mut self, now: u64, group: usize, host: Span, view: View, frames: f32, packet: &Packet) {
        if let Some(profile) = self.groups.get_mut(group) {
            profile.note(now, view, frames, packet, KEPT_OF_GROUP, SPACING / 64);
        }
        let at = self.find(host).unwrap_or_else(|| self.make_room(host, now));
        self.hosts[at].group = Some(group);
        self.hosts[at].note(now, view, frames, packet, KEPT, SPACING);
    }

    /// A place for a host: a free one, or of whoever gets least.
    #[cold]
    fn make_room(&mut self, host: Span, now: u64) -> usize {
        let set = self.set(host);
        let rate = |at: &usize| self.hosts[*at].host.map_or(-1.0, |_| self.hosts[*at].rate(now));
        let at = set.clone().min_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(set.start);
        let profile = &mut self.hosts[at];
        self.evicted += u64::from(profile.host.is_some());
        let mut packets = std::mem::take(&mut profile.packets);
        packets.clear();
        *profile = Profile { host: Some(host), packets, ..Profile::default() };
        at
    }

    /// How many hosts of a group are known.
    pub(super) fn count(&self, group: usize) -> usize {
        self.hosts.iter().filter(|profile| profile.group == Some(group)).count()
    }

    /// What is known of a host.
    pub(super) fn host(&self, host: Span) -> Option<&Profile> {
        self.find(host).map(|at| &self.hosts[at])
    }

    fn find(&self, host: Span) -> Option<usize> {
        self.set(host).find(|&at| self.hosts[at].host == Some(host))
    }

    pub(super) fn group(&self, group: usize) -> Option<&Profile> {
        self.groups.get(group)
    }

    /// Packets that a prefix got earlier, and how many a second.
    pub(super) fn earlier(&self, now: u64, group: usize, span: Span) -> Option<(Vec<Packet>, f64)> {
        if let Some(profile) = self.host(span).filter(|profile| span.is_host() && profile.tells(now)) {
            return Some((profile.packets.iter().map(|one| one.1).collect(), profile.rate(now)));
        }
        let group = self.group(group).filter(|group| group.tells(now))?;
        let here = |packet: &&Packet| span.contains(Span::host(packet.destination));
        let packets: Vec<Packet> = group.packets.iter().map(|one| &one.1).filter(here).copied().collect();
        let rate = group.rate(now) * packets.len() as f64 / group.packets.len() as f64;
        Some((packets, rate))
    }

    /// What a rule would have hit earlier.
    pub(super) fn harm(&self, now: u64, group: usize, span: Span, rule: &Rule) -> Harm {
        let Some((packets, rate)) = self.earlier(now, group, span) else { return Harm::default() };
        let share = super::narrow::hit(rule, &packets);
        // Of so few nobody can say what part of them it is that matters; what is so little is not worth a flood.
        Harm { packets: rate * share, share: (packets.len() >= FEWEST).then_some(share) }
    }

    /// A flood of a host or a prefix was first too much at this time: what came since it may have begun is no part of what was usual.
    pub(super) fn forget(&mut self, group: usize, span: Span, first_excess: u64) {
        let since = first_excess.saturating_sub(BEFORE);
        if let Some(profile) = self.groups.get_mut(group) {
            let is_its = |packet: &Packet| span.contains(Span::host(packet.destination));
            profile.packets.retain(|(time, packet)| *time < since || !is_its(packet));
        }
        if span.is_host() {
            self.find(span).into_iter().for_each(|at| self.hosts[at].forget(since));
        } else {
            let within = |profile: &&mut Profile| profile.host.is_some_and(|host| span.contains(host));
            self.hosts.iter_mut().filter(within).for_each(|profile| profile.forget(since));
        }
    }
}

impl Profile {
    fn note(&mut self, now: u64, view: View, frames: f32, packet: &Packet, kept: usize, spacing: u64) {
        if self.since == 0 {
            (self.since, self.last) = (now, now);
        }
        self.last = self.last.max(now);
        if self.packets.len() < kept {
            self.packets.push((now, *packet));
        } else if now >= self.due {
            // Turns by a step that meets all places: neither the oldest nor the newest packet goes.
            self.turn = (self.turn + 1 + kept / 3) % kept;
            self.packets[self.turn] = (now, *packet);
            self.due = now + spacing;
        }
        let place = self.views.iter().position(|&(known, rate, _)| rate > 0.0 && known == view);
        let least = || (0..VIEWS).min_by(|&a, &b| self.views[a].1.total_cmp(&self.views[b].1)).unwrap_or(0);
        let place = place.unwrap_or_else(least);
        let (known, rate, last) = &mut self.views[place];
        if *known != view {
            (*known, *rate, *last) = (view, 0.0, now);
        }
        *rate = *rate * sunk(now, *last) + frames / SMOOTHING as f32;
        *last = now;
    }

    /// What came since then did not come. Rates stay: what fills buckets to the half is no part of them.
    fn forget(&mut self, since: u64) {
        self.packets.retain(|(time, _)| *time < since);
        if self.packets.is_empty() {
            let packets = std::mem::take(&mut self.packets);
            *self = Self { host: self.host, group: self.group, packets, ..Self::default() };
        }
    }

    /// Packets a second: of the view that sees most.
    pub(super) fn rate(&self, now: u64) -> f64 {
        let age = self.last.saturating_sub(self.since) as f64 / 1e9;
        let seen = -(-age.max(1.0) / SMOOTHING).exp_m1();
        let rates = self.views.iter().map(|&(_, rate, last)| f64::from(rate * sunk(now.min(self.last), last)));
        rates.fold(0.0, f64::max) / seen
    }

    /// Whether it has seen enough.
    fn tells(&self, now: u64) -> bool {
        now.saturating_sub(self.since) >= SEEN && self.packets.len() >= FEWEST
    }
}

fn sunk(now: u64, last: u64) -> f32 {
    let passed = now.saturating_sub(last) as f32 * (1e-9 / SMOOTHING as f32);
    if passed < 1e-3 { 1.0 - passed } else { (-passed).exp() }
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn packet(to: &str) -> Packet {
        let destination = to.parse().unwrap();
        let source = "198.51.100.9".parse().unwrap();
        Packet { source, destination, protocol: 17, transport: None, fragment: false, length: 100, dscp: 0 }
    }

    fn span(net: &str) -> Span {
        net.parse::<IpNet>().unwrap().into()
    }

    /// Two minutes of 100 packets/s to one host, and the first packets of a flood to it and to its neighbour, whom nobody knew.
    fn profiles() -> Profiles {
        let mut profiles = Profiles::new(64);
        profiles.regroup(1);
        for tick in 1..=1_200 {
            let now = SECOND * tick / 10;
            profiles.note(now, 0, span("192.0.2.7/32"), 1, 10.0, &packet("192.0.2.7"));
        }
        for tick in 1..=20 {
            let now = 120 * SECOND + SECOND * tick / 100;
            for (host, to) in [("192.0.2.7/32", "192.0.2.7"), ("192.0.2.6/32", "192.0.2.6")] {
                profiles.note(now, 0, span(host), 2, 100.0, &packet(to));
            }
        }
        profiles
    }

    #[test]
    fn what_came_since_a_flood_began_is_not_what_was_usual() {
        let (now, began) = (200 * SECOND, 120 * SECOND + 1);
        for around in [&["192.0.2.7/32", "192.0.2.6/32"][..], &["192.0.2.6/31"]] {
            let mut profiles = profiles();
            let harm =
                |profiles: &Profiles, net: &str| profiles.harm(now, 0, span(net), &Rule::to(net.parse().unwrap()));
            assert_eq!(harm(&profiles, "192.0.2.6/32").share, Some(1.0), "else nothing is forgotten");
            around.iter().for_each(|net| profiles.forget(0, span(net), began));
            let known = harm(&profiles, "192.0.2.7/32");
            assert!((80.0..125.0).contains(&known.packets) && known.share == Some(1.0), "{known:?}");
            assert_eq!(harm(&profiles, "192.0.2.6/32"), Harm { packets: 0.0, share: None });
        }
    }
}
