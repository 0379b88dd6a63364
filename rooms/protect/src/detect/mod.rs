//! Floods in what is sampled: who gets more than his threshold, of what, and which rule would stop it.
//!
//! ```text
//! Sighting -> groups: whose, prefixes around   -> views: from where, what it may count at most
//!          -> classes: of what                 -> table of tests (sequential): conforms, or a flood
//!          -> dossiers of those with evidence: recent packets, sources, rates
//!          -> profiles, learn: what is usual, as long as there is no flood
//! a flood  -> floods: one a target, hosts folded into their prefix -> report: evidence, rules (narrow), doubts (evidence)
//! ```
//!
//! Pure: it is told the time, and does no I/O. Each table has a limit and counts what it gave up ([`Statistics`]); a sample
//! allocates nothing once dossiers and profiles have been used before.

mod another;
mod classes;
mod deciding;
mod distinct;
mod dossiers;
mod floods;
mod flow;
mod groups;
mod headers;
mod learn;
mod narrow;
mod profiles;
mod report;
pub mod sequential;
mod settings;
mod statistics;
mod table;
#[cfg(test)]
mod tests;
mod views;
mod watches;

use std::net::IpAddr;

use foldhash::quality::RandomState;
use hashbrown::{HashMap, HashSet};
use ipnet::IpNet;

pub use learn::{HOURS, Learnt};
pub use report::Atlas;
pub use settings::{Group, Limits, Settings, Threshold};
pub use statistics::{Statistics, Totals};
pub use watches::Saved;

use self::dossiers::{Dossiers, NONE};
use self::floods::{Floods, Place};
use self::groups::{Groups, Span};
use self::profiles::Profiles;
use self::sequential::{Confidence, Most};
use self::table::{Key, Table};
use self::views::{View, Views};
use self::watches::Watches;
use crate::model::{Alive, Class, Contested, Finding, Harm, Point, Rule, Sighting, Target, Word};

/// Detects floods.
pub struct Detector {
    settings: Settings,
    groups: Groups,
    watches: Watches,
    confidence: Confidence,
    allowed: Groups,
    edge: HashSet<Point, RandomState>,
    views: Views,
    table: Table,
    dossiers: Dossiers,
    profiles: Profiles,
    floods: Floods,
    /// Listed agents, and when each was heard last.
    alive: HashMap<IpAddr, u64, RandomState>,
    findings: Vec<Finding>,
    /// Floods that were decided and are not told yet, and when they are looked at next.
    begun: Vec<Place>,
    look: u64,
    /// Whose buckets were full while they waited for more sources, and whether they are believed.
    unsure: Vec<(Key, bool)>,
    /// Targets that have become wider: what they were before, which is over.
    widened: Vec<(Target, Class, u64)>,
    /// Prefixes of which all traffic is answered already.
    covered: Vec<IpNet>,
    atlas: Option<Box<dyn Atlas>>,
    now: u64,
    slot: u64,
    hour: usize,
    totals: Totals,
}

/// How full a bucket has to be for packets to be kept.
const SUSPICIOUS: f32 = 0.125;
/// How full buckets may be while traffic counts as usual.
const USUAL: f32 = 0.5;
/// Part of a prefix's flood that hosts or narrower prefixes must hold for it to be theirs.
const HOLDS: f64 = 0.9;
/// How soon something that was no flood is looked at again, ns.
const AGAIN: u64 = 20_000_000;
/// As above, where others explain it.
const EXPLAINED: u64 = 200_000_000;
/// Dossiers are kept for so long after the last packet, ns.
const KEPT: u64 = 10_000_000_000;
/// Floods that are told anew in one tick.
const AT_ONCE: usize = 32;
/// How soon a flood is looked at again that was decided and cannot be told yet, ns.
const SOON: u64 = 5_000_000;
/// How often a flood is told anew, ns.
const TELL: u64 = 1_000_000_000;

impl Detector {
    /// Nothing has come yet.
    pub fn new(settings: Settings) -> Self {
        let groups = Groups::new(&settings.groups);
        let mut watches = Watches::new(&settings.groups);
        watches.set(&groups, 0);
        let table = Table::new(settings.limits.targets, watches.most());
        let mut detector = Self {
            confidence: Confidence { ln_seconds: 0.0, burst: 0.0 },
            allowed: allowed(&settings),
            edge: settings.edge.iter().copied().collect(),
            views: Views::new(settings.limits.views),
            dossiers: Dossiers::new(settings.limits.dossiers),
            profiles: Profiles::new(settings.limits.profiles, settings.groups.len()),
            floods: Floods::default(),
            alive: HashMap::default(),
            findings: Vec::new(),
            begun: Vec::new(),
            look: 0,
            unsure: Vec::new(),
            widened: Vec::new(),
            covered: Vec::new(),
            atlas: None,
            now: 0,
            slot: 0,
            hour: 0,
            totals: Totals::default(),
            settings,
            groups,
            watches,
            table,
        };
        detector.set_confidence();
        detector
    }

    /// Goes over to other settings. What was learnt stays where group and class are the same; what goes on stays a flood, if its
    /// target is still protected, and is tested anew.
    pub fn adopt(&mut self, settings: Settings) {
        let saved = self.save();
        let group = |place: &Place| self.floods.get(place).map(|flood| self.target(flood).group).unwrap_or_default();
        let known: Vec<(Place, String)> =
            self.floods.places().into_iter().map(|place| (place, group(&place))).collect();
        self.groups = Groups::new(&settings.groups);
        self.watches = Watches::new(&settings.groups);
        self.watches.restore(&self.groups.names, saved);
        self.watches.set(&self.groups, self.hour);
        self.allowed = allowed(&settings);
        self.edge = settings.edge.iter().copied().collect();
        self.table = Table::new(settings.limits.targets, self.watches.most());
        self.dossiers = Dossiers::new(settings.limits.dossiers);
        self.profiles.regroup(settings.groups.len());
        for (place, group) in known {
            // Whoever is of another group now is another target.
            let same = |groups: &[Group]| groups.iter().find(|of| of.name == group).map(|of| of.thresholds.clone());
            let network = self.groups.find(IpNet::from(place.0).addr()).filter(|&at| {
                let now = &settings.groups[usize::from(self.groups.networks[at].group)];
                now.name == group && same(&settings.groups) == same(&self.settings.groups)
            });
            let lengths = |at: usize| self.groups.networks[at].lengths.iter();
            let level = network.and_then(|at| lengths(at).position(|&length| length == place.0.length));
            match (self.floods.get_mut(&place), network, level) {
                (Some(flood), Some(network), Some(level)) => (flood.network, flood.level) = (network, level),
                _ => self.end(&place, group),
            }
        }
        self.settings = settings;
        self.set_confidence();
    }

    /// Knows countries and autonomous systems from now on.
    pub fn set_atlas(&mut self, atlas: Option<Box<dyn Atlas>>) {
        self.atlas = atlas;
    }

    fn set_confidence(&mut self) {
        let Settings { false_alarms_a_year, burst, .. } = self.settings;
        // Whoever has no place is not tested, and cannot alarm.
        let tests = self.table.len() * self.watches.most();
        self.confidence = Confidence::new(false_alarms_a_year, tests as f64, burst.as_secs_f64());
    }

    /// Takes a sample into account. What it decides is among the findings at once.
    pub fn sample(&mut self, sighting: &Sighting<'_>) {
        self.totals.samples += 1;
        self.now = self.now.max(sighting.time);
        let sighting = &Sighting { time: self.now, ..*sighting };
        let packet = &sighting.packet;
        let Some(network) = self.groups.find(packet.destination) else {
            self.totals.outside += 1;
            return;
        };
        if self.allowed.find(packet.source).is_some() {
            self.totals.allowed += 1;
            return;
        }
        if !(0.5..1e9).contains(&sighting.frames) {
            self.totals.unweighed += 1;
            return;
        }
        let Some(exposure) = sighting.exposure else {
            self.totals.first += 1;
            return;
        };
        let is_good = sighting.word == Word::Good;
        let (packets, bits) = (sighting.frames as f32, dossiers::bits(sighting) as f32);
        let Some(view) = self.view(sighting, is_good) else { return };
        self.totals.tested += 1;
        let weights = self.views.admit(view, self.now, packets, bits);
        let exposure = self.views.expose(view, sighting.stream, self.now, exposure);
        let host = Span::host(packet.destination);
        let mut usual = is_good;
        for level in 0..self.groups.networks[network].lengths.len() {
            let length = self.groups.networks[network].lengths[level];
            let key = Key { span: host.cut(length), view };
            let share = self.test(sighting, key, (network, level), weights, exposure);
            usual &= level > 0 || share < USUAL;
        }
        // Nor does a flood, by whoever else sees little of it.
        if usual && !self.is_flooded(network, host) {
            let group = usize::from(self.groups.networks[network].group);
            self.profiles.note(self.now, group, host, view, packets, packet);
        }
    }

    /// Whether a flood of a host, or of a prefix around it, goes on.
    #[inline]
    fn is_flooded(&self, network: usize, host: Span) -> bool {
        let around = |&length: &u8| {
            let flood = self.floods.get(&(host.cut(length), true));
            flood.is_some_and(|flood| flood.target.contains(host))
        };
        self.floods.len() > 0 && self.groups.networks[network].lengths.iter().any(around)
    }

    /// From where a packet is seen; `None`: from where it does not count.
    fn view(&mut self, sighting: &Sighting<'_>, is_good: bool) -> Option<View> {
        if is_good && !self.edge.is_empty() {
            if self.edge.contains(&sighting.point) && sighting.ingress != Some(false) {
                return Some(0);
            }
            self.totals.elsewhere += 1;
            return None;
        }
        let view = self.views.find(sighting.point.agent, sighting.ingress == Some(false), is_good);
        self.totals.refused += u64::from(view.is_none());
        view
    }

    /// Shows a packet to the tests of a host or a prefix; how full the fullest bucket is.
    #[inline]
    fn test(
        &mut self,
        sighting: &Sighting<'_>,
        key: Key,
        (network, level): (usize, usize),
        weights: [(f32, Most); 2],
        exposure: u64,
    ) -> f32 {
        let is_believed = sighting.word == Word::Good;
        let now = self.now;
        let Watches { groups, bars, .. } = &mut self.watches;
        let bars_of = |network: u32, level: u8| bars[network as usize][usize::from(level)].as_slice();
        let dossiers = &mut self.dossiers;
        let at = self.table.place(key, network as u32, level as u8, now, bars_of, |dossier| dossiers.close(dossier));
        let entry = self.table.entry(at);
        if dossiers.get(entry.dossier).is_none_or(|dossier| dossier.key != Some(key)) {
            entry.dossier = NONE;
        }
        let is_flood = dossiers.get(entry.dossier).is_some_and(|dossier| dossier.flood);
        let classes = classes::of(&sighting.packet);
        let (bars, group) = (&bars[network][level], &mut groups[usize::from(self.groups.networks[network].group)]);
        let (tests, slots) = self.table.tests(at);
        let (mut share, mut fired) = (0.0, 0u32);
        for (number, watch) in group.iter_mut().enumerate() {
            if classes & watch.bit == 0 {
                continue;
            }
            let (weight, most) = weights[watch.unit as usize];
            let when = (now, exposure);
            let standing = tests[number].sample(when, weight, most, &bars[number], &self.confidence);
            let sum = slots[number].add(self.slot as u32, weight);
            if watch.learn && is_believed && !(is_flood && watch.taught) {
                watch.learnt[level].offer(sum);
            }
            share = standing.share.max(share);
            fired |= u32::from(standing.share >= 1.0) << number;
        }
        let entry = self.table.entry(at);
        if entry.dossier == NONE && share >= SUSPICIOUS {
            entry.dossier = dossiers.open(key, now, share);
        }
        dossiers.note(entry.dossier, sighting, classes, share);
        if fired != 0 {
            self.fired(at, fired);
        }
        share
    }

    /// A listed agent is heard.
    pub fn alive(&mut self, alive: &Alive) {
        self.now = self.now.max(alive.time);
        self.alive.insert(alive.agent, alive.time);
    }

    /// An agent contradicts itself.
    pub fn contested(&mut self, contested: &Contested) {
        self.now = self.now.max(contested.time);
        self.findings.push(Finding::Contested(*contested));
    }

    /// Hosts within these prefixes are not tested from now on: all that they get is answered already.
    pub fn cover(&mut self, covered: Vec<IpNet>) {
        self.covered = covered;
    }

    /// What is due as time passes, some ten times a second: floods that are over, those that go on, what is learnt. `hour` is that of the
    /// week, 0 to 167, from Monday 00:00 on.
    pub fn tick(&mut self, now: u64, hour: usize) {
        self.reach(now);
        self.look_again();
        self.tell_begun();
        let quiet = self.settings.quiet.as_nanos() as u64;
        let (mut due, mut untold) = (Vec::new(), Vec::new());
        for place in self.floods.places() {
            let Some(flood) = self.floods.get(&place) else { continue };
            if self.now.saturating_sub(flood.last) > quiet {
                self.is_quiet(&place);
            } else if !flood.is_told {
                untold.push((flood.decided, place));
            } else if self.now.saturating_sub(flood.told) >= TELL {
                due.push((flood.told, place));
            }
        }
        // Of very many those first that have waited longest: nobody else is to wait for them.
        due.sort_unstable();
        untold.sort_unstable();
        let due = due.into_iter().take(AT_ONCE).chain(untold.into_iter().take(AT_ONCE));
        for (_, place) in due {
            self.tell(&place);
            self.fold_if_sure(place);
        }
        self.dossiers.expire(self.now.saturating_sub(KEPT.max(quiet)));
        self.learn(hour % HOURS);
    }

    /// A prefix that is told and whose doubts are gone takes in what lies within it.
    fn fold_if_sure(&mut self, place: Place) {
        if self.floods.get(&place).is_some_and(|flood| flood.level > 0 && flood.is_told && !flood.doubted) {
            self.fold(place);
        }
    }

    fn learn(&mut self, hour: usize) {
        let slot = self.now / learn::SLOT;
        if slot == self.slot {
            return;
        }
        // After a standstill nobody knows what was meanwhile.
        if slot == self.slot + 1 {
            self.watches.learnt().for_each(Learnt::end_slot);
        } else {
            self.watches.learnt().for_each(Learnt::skip_slot);
        }
        self.slot = slot;
        if hour != self.hour {
            let before = self.hour;
            self.watches.learnt().for_each(|learnt| learnt.end_hour(before));
            self.hour = hour;
        }
        self.watches.set(&self.groups, self.hour);
    }

    /// All that came until then has been taken.
    pub fn reach(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Whether something was decided that is told soon, or may be: time is to be told more often meanwhile.
    pub fn is_about_to_tell(&self) -> bool {
        !self.begun.is_empty() || !self.unsure.is_empty()
    }

    /// What was decided since the last time, in order. To be asked when all that came together has been taken: a flood that is decided by the
    /// first samples of a datagram is told by all of them.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.look_again();
        self.tell_begun();
        std::mem::take(&mut self.findings)
    }

    /// What a rule would hit of what a prefix got before it was attacked.
    pub fn traffic(&self, prefix: IpNet, rule: &Rule) -> Harm {
        let Some(network) = self.groups.find(prefix.addr()) else { return Harm::default() };
        let group = usize::from(self.groups.networks[network].group);
        self.profiles.harm(self.now, group, prefix.into(), rule)
    }

    /// Whether a listed agent has been heard since then.
    pub fn is_alive(&self, agent: IpAddr, since: u64) -> bool {
        self.alive.get(&agent).is_some_and(|&heard| heard >= since)
    }

    /// What was learnt, to be kept over a restart.
    pub fn save(&self) -> Saved {
        self.watches.save(&self.groups.names)
    }

    /// Takes over what was learnt before, where group and class are still there.
    pub fn restore(&mut self, saved: Saved) {
        self.watches.restore(&self.groups.names, saved);
        self.watches.set(&self.groups, self.hour);
    }
}

/// Sources that are not counted, as networks of one group.
fn allowed(settings: &Settings) -> Groups {
    let networks = settings.allowed_sources.clone();
    Groups::new(&[Group { name: String::new(), networks, thresholds: Vec::new() }])
}
