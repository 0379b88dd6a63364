//! From full buckets to floods, one a target and class; how they go on, and when they are over.
//!
//! - Of several tests that are full at once the narrowest class begins, and the wider ones are emptied: they begin by themselves only if other
//!   packets than its are too many. Nothing narrower begins while a wider one goes on: it is part of that.
//! - A host comes before the prefixes around it, in the same way: a prefix may get more than a host, so that one host alone decides first,
//!   and a carpet, of which each host gets little, decides at the prefix.
//! - What is answered already is not tested again: see [`Detector::cover`].

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::classes::{self, Classes};
use super::groups::Span;
use super::learn::Learnt;
use super::table::{Entry, Key};
use super::views::{EDGE, View};
use super::{Detector, HOLDS, narrow, report};
use crate::model::{Class, Evidence, Finding, Rate, Target};

/// What is tested, and of which class.
pub(super) type Place = (Span, Class);

/// A flood that goes on.
#[derive(Clone, Debug)]
pub(super) struct Flood {
    /// Index of its network, and the level at which it was found.
    pub(super) network: usize,
    pub(super) level: usize,
    /// Which test decided: index among the group's.
    pub(super) watch: usize,
    /// What is under attack; within what was tested.
    pub(super) target: Span,
    pub(super) first_excess: u64,
    pub(super) decided: u64,
    /// When one of its tests was last full, and when it was last told.
    pub(super) last: u64,
    told: u64,
    /// Who sees it, and when a test of theirs was last full.
    pub(super) views: Vec<(View, u64)>,
    /// Whether one of them is good.
    is_good: bool,
    pub(super) log_evidence: f64,
}

/// All of them, by what is tested.
#[derive(Debug, Default)]
pub(super) struct Floods {
    pub(super) all: HashMap<Place, Flood, RandomState>,
    /// Those that there was no room for.
    pub(super) refused: u64,
}

/// Views that are remembered of a flood.
const VIEWS: usize = 8;
/// For how long nothing within a prefix begins after its own flood did, ns: what is done about that needs the time.
const TOGETHER: u64 = 1_000_000_000;
/// How long more sources are waited for, ns.
const PATIENCE: u64 = 1_000_000_000;
/// How long few hosts of a prefix are given to be found by themselves, ns.
const SPARSE: u64 = 10_000_000_000;
/// How often a flood is told anew, ns, and how many at once.
const TELL: u64 = 1_000_000_000;
const AT_ONCE: usize = 32;

impl Floods {
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.all.keys().copied().collect();
        places.sort_unstable();
        places
    }

    /// Of a packet's classes those of which its host is under attack, as part of this span; in the eyes of who is good, or of anybody.
    #[inline]
    pub(super) fn claim(&self, span: Span, host: Span, classes: Classes, is_good: bool) -> Classes {
        let has = |flood: &Flood| (flood.is_good || !is_good) && flood.target.contains(host);
        let claimed = Class::ALL
            .into_iter()
            .filter(|&class| classes & classes::bit(class) != 0 && self.all.get(&(span, class)).is_some_and(has));
        claimed.fold(0, |claimed, class| claimed | classes::bit(class))
    }

    /// Whether a flood of a wider class goes on, of which these packets are a part.
    fn is_wider(&self, span: Span, class: Class) -> bool {
        classes::holding(class).any(|wider| self.all.get(&(span, wider)).is_some())
    }

    /// Whether a span is part of a wider one whose flood of this class began just now.
    fn is_part(&self, span: Span, wider: &[u8], class: Class, now: u64) -> bool {
        let around = wider.iter().filter_map(|&length| self.all.get(&(span.cut(length), class)));
        around.into_iter().any(|flood| flood.target.contains(span) && now < flood.decided + TOGETHER)
    }
}

impl Detector {
    /// A bucket is full: the flood goes on, or is one as soon as all that came together has been taken.
    pub(super) fn fired(&mut self, at: usize, number: usize, is_good: bool) {
        let Entry { key, network, dossier, .. } = *self.table.get(at);
        let group = usize::from(self.groups.networks[network as usize].group);
        let place = (key.span, self.watches.groups[group][number].class);
        match self.floods.all.get_mut(&place) {
            Some(flood) => {
                flood.last = self.now;
                match flood.views.iter_mut().find(|(view, _)| *view == key.view) {
                    Some((_, last)) => *last = self.now,
                    None => self.join(at, place, is_good),
                }
            }
            None => {
                let Some(known) = self.dossiers.get_mut(dossier) else { return };
                if known.full == 0 {
                    known.fired = self.now;
                    self.full.push(key);
                }
                known.full |= 1 << number;
            }
        }
    }

    /// Another view sees a flood, too.
    fn join(&mut self, at: usize, place: Place, is_good: bool) {
        let Entry { key, network, dossier, .. } = *self.table.get(at);
        let Some(flood) = self.floods.all.get_mut(&place).filter(|flood| flood.views.len() < VIEWS) else { return };
        flood.views.push((key.view, self.now));
        if is_good && !std::mem::replace(&mut flood.is_good, true) {
            let group = self.groups.networks[network as usize].group;
            self.profiles.forget(usize::from(group), flood.target, flood.first_excess);
        }
        self.dossiers.attribute(dossier, place.1, flood.first_excess);
        self.empty_wider(at, place.1);
    }

    /// Begins floods whose buckets were full since the last time, in that order.
    pub(super) fn begin_full(&mut self) {
        let mut full = std::mem::take(&mut self.full);
        full.retain(|key| self.look(*key));
        self.full = full;
    }

    /// Begins what is a flood at one target; whether it is to be looked at again, since there may be more sources.
    fn look(&mut self, key: Key) -> bool {
        let Some(at) = self.table.find(&key) else { return false };
        let Entry { network, level, dossier, .. } = *self.table.get(at);
        let Some(known) = self.dossiers.get_mut(dossier).filter(|known| known.key == Some(key)) else { return false };
        let (full, fired) = (std::mem::take(&mut known.full), known.fired);
        let network = &self.groups.networks[network as usize];
        let group = usize::from(network.group);
        let wider = network.lengths[usize::from(level) + 1..].to_vec();
        let watches = &self.watches.groups[group];
        let mut numbers: Vec<usize> = (0..watches.len()).filter(|number| full & 1 << number != 0).collect();
        numbers.sort_by_key(|&number| classes::breadth(watches[number].class));
        let mut waits = 0;
        for number in numbers {
            let class = self.watches.groups[group][number].class;
            // By a narrower class, or by what lies within, it may have been emptied meanwhile.
            if self.table.test(at, number).is_empty() || self.floods.all.get(&(key.span, class)).is_some() {
                continue;
            }
            if self.floods.is_part(key.span, &wider, class, self.now) || self.floods.is_wider(key.span, class) {
                self.table.tests(at).0[number].forget();
                continue;
            }
            let known = self.dossiers.get(dossier);
            if level > 0 && self.now < fired + SPARSE && known.is_some_and(|known| known.is_sparse(key.span)) {
                waits |= 1 << number;
                continue;
            }
            match waits == 0 && self.has_sources(at, number) {
                true => {
                    let has_waited = level > 0 || self.watches.groups[group][number].min_sources > 1;
                    self.begin(at, number, if has_waited { self.now } else { fired });
                }
                false if self.now < fired + PATIENCE => waits |= 1 << number,
                false => {}
            }
        }
        self.dossiers.get_mut(dossier).into_iter().for_each(|known| known.full |= waits);
        waits != 0
    }

    /// Whether there are as many sources as asked for; to be known, a burst must be over.
    fn has_sources(&self, at: usize, number: usize) -> bool {
        let Entry { key, network, level, dossier, .. } = *self.table.get(at);
        let watch = &self.watches.groups[usize::from(self.groups.networks[network as usize].group)][number];
        let bar = &self.watches.bars(network, level)[number];
        let Some(known) = self.dossiers.get(dossier) else { return false };
        let complete = self.views.complete(key.view);
        watch.min_sources <= 1
            || (complete >= known.fired || self.now >= known.fired + PATIENCE)
                && report::has_sources(known, watch, bar, (complete, self.now))
    }

    /// A flood begins.
    fn begin(&mut self, at: usize, number: usize, decided: u64) {
        if self.floods.all.len() >= self.settings.limits.floods {
            self.floods.refused += 1;
            return;
        }
        let Entry { key, network, level, dossier, .. } = *self.table.get(at);
        let group = usize::from(self.groups.networks[network as usize].group);
        let bar = self.watches.bars(network, level)[number];
        let (standing, log_evidence) = self.table.test(at, number).standing(&bar, &self.confidence);
        let first_excess = self.table.test(at, number).began(standing);
        let watch = &mut self.watches.groups[group][number];
        let class = watch.class;
        if watch.taught {
            watch.learnt.iter_mut().for_each(Learnt::taint);
        }
        self.dossiers.attribute(dossier, class, first_excess);
        let Some(known) = self.dossiers.get(dossier) else { return };
        let hosts = || report::hosts(known, class, first_excess);
        let target = if level == 0 { key.span } else { narrow::narrowest(key.span, &hosts(), HOLDS) };
        let is_good = self.views.is_good(key.view);
        if is_good {
            self.profiles.forget(group, target, first_excess);
        }
        let flood = Flood {
            network: network as usize,
            level: usize::from(level),
            watch: number,
            target,
            first_excess,
            decided,
            last: self.now,
            told: 0,
            views: vec![(key.view, self.now)],
            is_good,
            log_evidence,
        };
        self.floods.all.insert((key.span, class), flood);
        self.empty_wider(at, class);
        self.tell(&(key.span, class));
    }

    /// Empties tests that were full of the same packets, as the same view has them: of wider classes, and of the prefixes around.
    fn empty_wider(&mut self, at: usize, class: Class) {
        let Entry { key, network, level, .. } = *self.table.get(at);
        let network = &self.groups.networks[network as usize];
        let watches = &self.watches.groups[usize::from(network.group)];
        for (step, &length) in network.lengths[usize::from(level)..].iter().enumerate() {
            let Some(at) = self.table.find(&Key { span: key.span.cut(length), ..key }) else { continue };
            for (test, watch) in self.table.tests(at).0.iter_mut().zip(watches) {
                let wider = classes::breadth(watch.class).cmp(&classes::breadth(class));
                if wider.is_gt() || step > 0 && wider.is_eq() {
                    test.forget();
                }
            }
        }
    }

    /// Tells of floods that go on, and ends those that are over.
    pub(super) fn tell_due(&mut self) {
        let quiet = self.settings.quiet.as_nanos() as u64;
        let mut due = Vec::new();
        for place in self.floods.places() {
            let Some(flood) = self.floods.all.get(&place) else { continue };
            let is_quiet = self.now > flood.last + quiet && self.is_heard(&place, flood.last + quiet);
            if is_quiet && !self.is_undecided(&place, flood) {
                self.end(&place);
            } else if self.now >= flood.told + TELL {
                due.push((flood.told, place));
            }
        }
        // Of very many those first that have waited longest: nobody else is to wait for them.
        due.sort_unstable();
        due.into_iter().take(AT_ONCE).for_each(|(_, place)| self.tell(&place));
    }

    /// Whether an agent that told of a flood has been heard twice since: what it sent the first time has been looked at.
    fn is_heard(&self, place: &Place, since: u64) -> bool {
        let mut spots = self.seen(place).flat_map(|(_, dossier)| dossier.spots()).peekable();
        spots.peek().is_none()
            || spots.any(|spot| self.alive.get(&spot.point.agent).is_some_and(|heard| heard[0] >= since))
    }

    /// Whether who told of a flood is believed by now, or is not any more, and that view's test has something but is not full yet.
    fn is_undecided(&self, place: &Place, flood: &Flood) -> bool {
        let bar = &self.watches.bars(flood.network as u32, flood.level as u8)[flood.watch];
        let seen: Vec<View> = self.seen(place).map(|(view, _)| view).collect();
        let others = seen.iter().flat_map(|view| [view ^ 1, EDGE]).filter(|view| !seen.contains(view));
        let mut tested = others.filter_map(|view| self.table.find(&Key { span: place.0, view }));
        tested.any(|at| self.table.test(at, flood.watch).left(self.now, bar) > 0.0)
    }

    /// Tells of a flood as it is now.
    fn tell(&mut self, place: &Place) {
        let now = self.now;
        let Some(flood) = self.floods.all.get_mut(place) else { return };
        let (last, before) = (flood.last, std::mem::replace(&mut flood.told, now.max(1)));
        let widened = self.widen(place);
        let Some(detection) = self.report(place) else { return };
        let Evidence { packets, bits, threshold_packets, threshold_bits, .. } = &detection.evidence;
        let is_below = |rate: &Rate, threshold: &Option<f64>| rate.high < *threshold && rate.high.is_some();
        // It may have ended within the time that the rate is of.
        let is_over = is_below(packets, threshold_packets) || is_below(bits, threshold_bits);
        if before == 0 || last >= before && !is_over {
            self.findings.push(Finding::Flood(Box::new(detection)));
        }
        self.findings.extend(widened);
    }

    /// More of a prefix is hit than was known: it is another target from now on, and what it was before is over.
    fn widen(&mut self, place: &Place) -> Option<Finding> {
        let flood = self.floods.all.get(place).filter(|flood| flood.level > 0)?;
        let (before, last, network) = (self.target(flood), flood.last, flood.network);
        let (target, since, is_good) = (flood.target, flood.first_excess, flood.is_good);
        let hosts: Vec<_> = self.seen(place).flat_map(|(_, dossier)| report::hosts(dossier, place.1, since)).collect();
        let now = narrow::narrowest(place.0, &hosts, HOLDS);
        // Where no packet of it is left among the recent ones nothing is known of its width.
        if hosts.is_empty() || now.length >= target.length || !now.contains(target) {
            return None;
        }
        self.floods.all.get_mut(place)?.target = now;
        if is_good {
            self.profiles.forget(usize::from(self.groups.networks[network].group), now, since);
        }
        Some(Finding::Over { target: before, class: place.1, last })
    }

    /// A flood is over.
    pub(super) fn end(&mut self, place: &Place) {
        let Some(flood) = self.floods.all.remove(place) else { return };
        for &(view, _) in &flood.views {
            let at = self.table.find(&Key { span: place.0, view });
            at.into_iter().for_each(|at| self.dossiers.release(self.table.get(at).dossier, place.1));
        }
        let Flood { last, .. } = flood;
        self.findings.push(Finding::Over { target: self.target(&flood), class: place.1, last });
    }

    pub(super) fn target(&self, flood: &Flood) -> Target {
        let group = self.groups.networks.get(flood.network).map_or(0, |network| usize::from(network.group));
        let group = self.groups.names.get(group).cloned().unwrap_or_default();
        Target { prefix: flood.target.into(), group }
    }
}
