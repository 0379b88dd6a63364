//! Floods in what is sampled: who gets more than his threshold, of what, and which rule would stop it.
//!
//! ```text
//! Sighting -> groups: whose, prefixes around   -> views: from where, what it may count at most, when it was taken
//!          -> classes: of what                 -> table of tests (sequential): conforms, or a flood
//!          -> dossiers of those with evidence: recent packets, rates, where they were seen
//!          -> profiles, learn: what is usual, as long as there is no flood
//! a flood  -> floods: one a target and class   -> report: evidence, rules (narrow), doubts
//! ```
//!
//! Pure: it is told the time, and does no I/O. Each table has a limit and counts what it gave up ([`Statistics`]); a sample
//! allocates nothing once dossiers and profiles have been used before.

mod classes;
mod distinct;
mod dossiers;
mod estimate;
mod floods;
mod groups;
mod headers;
mod learn;
pub mod model;
mod narrow;
mod profiles;
pub mod queue;
mod rates;
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
pub use statistics::Statistics;
pub use watches::Saved;

use self::classes::Classes;
use self::dossiers::{Dossiers, NONE};
use self::floods::Floods;
use self::groups::{Groups, LEVELS, Span};
use self::profiles::Profiles;
use self::sequential::{Confidence, Most};
use self::table::{Key, Table};
use self::views::{EDGE, View, Views};
use self::watches::Watches;
use crate::model::{Alive, Contested, Finding, Harm, Packet, Point, Rule, Sighting, Word};

/// Detects floods.
#[derive(Default)]
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
    /// Listed agents, and when each was heard last but one, and last.
    alive: HashMap<IpAddr, [u64; 2], RandomState>,
    findings: Vec<Finding>,
    /// Whose buckets were full since that was looked at, in that order.
    full: Vec<Key>,
    /// Packets that are answered already.
    covered: Vec<Rule>,
    atlas: Option<Box<dyn Atlas>>,
    now: u64,
    slot: u64,
    hour: usize,
}

/// How full a bucket has to be for packets to be kept.
const SUSPICIOUS: f32 = 0.125;
/// How full buckets may be while traffic counts as usual.
const USUAL: f32 = 0.5;
/// Part of a prefix's flood that is to what is told as its target.
const HOLDS: f64 = 0.9;
/// Dossiers are kept for so long after the last packet, ns.
const KEPT: u64 = 10_000_000_000;

impl Detector {
    /// Nothing has come yet.
    pub fn new(settings: Settings) -> Self {
        let Limits { views, profiles, .. } = settings.limits;
        let (views, profiles) = (Views::new(views), Profiles::new(profiles));
        let mut detector = Self { views, profiles, ..Self::default() };
        detector.adopt(settings);
        detector
    }

    /// Goes over to other settings. If all groups and limits are the same, floods go on; else they are over, and what was learnt stays
    /// where group and class are the same.
    pub fn adopt(&mut self, settings: Settings) {
        if settings.groups != self.settings.groups || settings.limits != self.settings.limits {
            let saved = self.save();
            self.floods.places().iter().for_each(|place| self.end(place));
            self.groups = Groups::new(&settings.groups);
            self.watches = Watches::new(&settings.groups);
            self.restore(saved);
            self.table = Table::new(settings.limits.targets, self.watches.most());
            self.dossiers = Dossiers::new(settings.limits.dossiers);
            self.profiles.regroup(settings.groups.len());
            self.full.clear();
        }
        self.allowed = allowed(&settings);
        self.edge = settings.edge.iter().copied().collect();
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
        self.now = self.now.max(sighting.time);
        let sighting = &Sighting { time: self.now, ..*sighting };
        let packet = &sighting.packet;
        let Some(network) = self.groups.find(packet.destination) else { return };
        // What stands for no packets, or for more than any link carries, is no sample.
        if self.allowed.find(packet.source).is_some() || !(0.5..1e9).contains(&sighting.frames) {
            return;
        }
        let is_good = sighting.word == Word::Good;
        let (packets, bits) = (sighting.frames as f32, dossiers::bits(sighting) as f32);
        let Some(view) = self.view(sighting, is_good) else { return };
        // Of a stream's first burst nobody knows how long it took to come together.
        let Some(exposure) = self.views.expose(view, sighting.stream, self.now, sighting.exposure) else { return };
        let weights = self.views.admit(view, self.now, packets, bits);
        let host = Span::host(packet.destination);
        let classes = classes::of(packet);
        let claims = self.claims(network, host, classes, is_good);
        let widest = claims.iter().rposition(|claim| *claim != 0);
        let covered = self.covered(packet);
        // What speaks against a sample teaches nothing.
        let mut usual = is_good && widest.is_none();
        let levels = self.groups.networks[network].lengths.len();
        for (level, claim) in claims.into_iter().enumerate().take(levels) {
            let length = self.groups.networks[network].lengths[level];
            let is_part = level > 0 && widest.is_some_and(|widest| level < widest) && claim == 0;
            if length > covered || is_part {
                continue;
            }
            // Of a flood that goes on nothing is shown to wider classes, nor to the prefixes around its target.
            let shown = classes::within(classes, claim);
            let key = Key { span: host.cut(length), view };
            let share = self.test(sighting, key, (network, level), (shown, claim != 0), weights, exposure);
            usual &= level > 0 || share < USUAL;
            if claim != 0 {
                break;
            }
        }
        if usual {
            let group = usize::from(self.groups.networks[network].group);
            self.profiles.note(self.now, group, host, view, packets, packet);
        }
    }

    /// Of each level the classes of a packet of which its host is under attack.
    #[inline]
    fn claims(&self, network: usize, host: Span, classes: Classes, is_good: bool) -> [Classes; LEVELS] {
        let mut claims = [0; LEVELS];
        if !self.floods.all.is_empty() {
            for (claim, &length) in claims.iter_mut().zip(&self.groups.networks[network].lengths) {
                *claim = self.floods.claim(host.cut(length), host, classes, is_good);
            }
        }
        claims
    }

    /// The length of the widest prefix of which the answer answers a packet, too; else more than there is.
    #[inline]
    fn covered(&self, packet: &Packet) -> u8 {
        let answers = self.covered.iter().filter(|rule| narrow::does_match(rule, packet));
        answers.map(|rule| Span::from(rule.destination).length).min().unwrap_or(u8::MAX)
    }

    /// From where a packet is seen; `None`: from where it does not count.
    fn view(&mut self, sighting: &Sighting<'_>, is_good: bool) -> Option<View> {
        let is_egress = sighting.ingress == Some(false);
        if is_good && !self.edge.is_empty() {
            return (self.edge.contains(&sighting.point) && !is_egress).then_some(EDGE);
        }
        self.views.find(sighting.point.agent, is_egress, is_good)
    }

    /// Shows a packet to the tests of a host or a prefix, of these classes; how full the fullest bucket is.
    #[inline]
    fn test(
        &mut self,
        sighting: &Sighting<'_>,
        key: Key,
        (network, level): (usize, usize),
        (classes, is_flood): (Classes, bool),
        weights: [(f32, Most); 2],
        exposure: u64,
    ) -> f32 {
        let now = self.now;
        let is_good = sighting.word == Word::Good;
        let Watches { groups, bars, .. } = &mut self.watches;
        let bars_of = |network: u32, level: u8| bars[network as usize][usize::from(level)].as_slice();
        let dossiers = &mut self.dossiers;
        let at = self.table.place(key, network as u32, level as u8, now, bars_of, |dossier| dossiers.close(dossier));
        let entry = self.table.entry(at);
        if dossiers.get(entry.dossier).is_none_or(|dossier| dossier.key != Some(key)) {
            entry.dossier = NONE;
        }
        let (bars, group) = (&bars[network][level], &mut groups[usize::from(self.groups.networks[network].group)]);
        let (tests, slots) = self.table.tests(at);
        let (mut share, mut fired) = (0.0, 0u32);
        for (number, watch) in group.iter_mut().enumerate() {
            if classes & watch.bit == 0 {
                continue;
            }
            let (weight, most) = weights[watch.unit as usize];
            let standing = tests[number].sample((now, exposure), weight, most, &bars[number], &self.confidence);
            let sum = slots[number].add(self.slot as u32, weight);
            if watch.learn && is_good && !(is_flood && watch.taught) {
                watch.learnt[level].offer(sum);
            }
            share = standing.share.max(share);
            fired |= u32::from(standing.share >= 1.0) << number;
        }
        let entry = self.table.entry(at);
        if entry.dossier == NONE && share >= SUSPICIOUS {
            entry.dossier = dossiers.open(key, now, share);
        }
        dossiers.note(entry.dossier, sighting, classes, (share, self.views.complete(key.view)));
        while fired != 0 {
            self.fired(at, fired.trailing_zeros() as usize, is_good);
            fired &= fired - 1;
        }
        share
    }

    /// A listed agent is heard.
    pub fn alive(&mut self, alive: &Alive) {
        self.now = self.now.max(alive.time);
        let heard = self.alive.entry(alive.agent).or_default();
        *heard = [heard[1], alive.time];
    }

    /// An agent contradicts itself.
    pub fn contested(&mut self, contested: &Contested) {
        self.now = self.now.max(contested.time);
        self.dossiers.contest(contested);
        self.findings.push(Finding::Contested(*contested));
    }

    /// Packets to prefixes that these rules mean are answered already: from now on they are no attack on anything narrower.
    pub fn cover(&mut self, covered: Vec<Rule>) {
        self.covered = covered;
    }

    /// What is due as time passes, some ten times a second: floods that are over, those that go on, what is learnt. `hour` is that of the
    /// week, 0 to 167, from Monday 00:00 on.
    pub fn tick(&mut self, now: u64, hour: usize) {
        self.reach(now);
        self.begin_full();
        self.tell_due();
        self.dossiers.expire(self.now.saturating_sub(KEPT));
        self.learn(hour % HOURS);
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

    /// What was decided since the last time, in order. To be asked when all that came together has been taken: a flood that is decided by the
    /// first samples of a datagram is told by all of them.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.begin_full();
        std::mem::take(&mut self.findings)
    }

    /// What a rule would hit of what a prefix got before it was attacked.
    pub fn traffic(&self, prefix: IpNet, rule: &Rule) -> Harm {
        let Some(network) = self.groups.find(prefix.addr()) else { return Harm::default() };
        let group = usize::from(self.groups.networks[network].group);
        self.profiles.harm(self.now, group, prefix.into(), rule)
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
