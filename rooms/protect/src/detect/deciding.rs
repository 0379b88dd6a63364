//! From full buckets to a flood that is told, and to its end.

use ipnet::IpNet;

use super::floods::{Flood, Place};
use super::learn::Learnt;
use super::table::{Entry, Key};
use super::{AGAIN, Detector, EXPLAINED, HOLDS, SOON, classes, dossiers, narrow, report};
use crate::model::{Detection, Evidence, Finding, Target};

/// Hosts that must be hit alike for a flood to be their prefix's (Simpson's effective number).
const MANY: f64 = 4.0;
/// One in so many addresses of a prefix must be under attack for it to be attacked as a whole.
const DENSE: f64 = 4.0;
/// For how long a flood is not told that may be more than its interfaces can carry, ns.
pub(super) const HELD: u64 = 500_000_000;
/// For how long one is kept that was decided and is not above its threshold, ns: what comes again is decided anew, by what it is then.
const UNTOLD: u64 = 2_000_000_000;

impl Detector {
    /// Buckets are full: a flood, unless it is one already, or part of one, or of too few sources.
    pub(super) fn fired(&mut self, at: usize, fired: u32) {
        let is_believed = true;
        let now = self.now;
        let Entry { key, network, level, dossier, .. } = *self.table.get(at);
        let (network, level) = (network as usize, usize::from(level));
        let place = (key.span, is_believed);
        if let Some(flood) = self.floods.get_mut(&place) {
            // What another test finds does not keep it: it is something else.
            if fired & 1 << flood.watch != 0 {
                flood.last = now;
            } else {
                flood.others = now;
            }
            let heard = flood.doubted && !flood.views.contains(&key.view);
            flood.seen_by(key.view);
            if self.dossiers.get(dossier).is_some_and(|dossier| !dossier.flood) {
                self.dossiers.attribute(dossier, flood.class, flood.first_excess);
            }
            // Somebody else sees it, against whom nothing may speak.
            if heard {
                self.tell(&place);
            }
            return;
        }
        let Some(known) = self.dossiers.get_mut(dossier) else { return };
        if known.wait > now {
            if known.is_unsure {
                if known.full == 0 {
                    self.unsure.push((key, is_believed));
                }
                known.full |= fired;
            }
            return;
        }
        (known.wait, known.is_unsure) = (now + AGAIN, false);
        known.fired.get_or_insert(now);
        let Some(known) = self.dossiers.get(dossier) else { return };
        let group = &self.watches.groups[usize::from(self.groups.networks[network].group)];
        let enough = |number: &usize| {
            let (watch, bar) = (&group[*number], self.watches.bars(network as u32, level as u8)[*number]);
            fired & 1 << number != 0 && report::has_sources(known, watch, &bar, now)
        };
        // Of several thresholds that are exceeded the narrowest says most of what it is.
        let Some(watch) = (0..group.len()).filter(enough).min_by_key(|&number| classes::breadth(group[number].class))
        else {
            self.dossiers.get_mut(dossier).into_iter().for_each(|known| known.is_unsure = true);
            return;
        };
        let wider = &self.groups.networks[network].lengths[level + 1..];
        let class = group[watch].class;
        let _ = class;
        let is_covered = self.covered.iter().any(|prefix| prefix.contains(&IpNet::from(key.span)));
        // Prefixes within one another are one attack. A host is part of a wider one if what is done about that keeps its flood away.
        if self.floods.covers(place, wider, key.view) && (level > 0 || is_covered) {
            return;
        }
        if level > 0 {
            let is_sparse = known.is_sparse(key.span, now);
            let is_of_few = !self.is_spread((network, level), dossier, watch);
            if is_sparse || is_of_few || self.is_explained(place, dossier, watch, network) {
                if let Some(known) = self.dossiers.get_mut(dossier) {
                    known.wait = now + EXPLAINED;
                }
                // What hosts' own floods explain is taken out: it must not outlive them as a flood of the prefix.
                if is_of_few && !is_sparse {
                    self.table.tests(at).0[watch].forget();
                }
                return;
            }
        }
        let most = self.settings.limits.floods;
        if self.floods.len() >= most {
            self.totals.refused_floods += 1;
            return;
        }
        self.begin(at, place, watch);
    }

    /// Looks once more at what was of too few sources, and was too much once more while it was not looked at: of what an agent sends once a second
    /// most may have come after the first look, and what comes next is of the second after.
    pub(super) fn look_again(&mut self) {
        if self.unsure.is_empty() {
            return;
        }
        let mut unsure = std::mem::take(&mut self.unsure);
        unsure.retain(|&(key, is_believed)| {
            let Some(at) = self.table.find(&key) else { return false };
            let known = self.dossiers.get_mut(self.table.get(at).dossier).filter(|known| known.key == Some(key));
            let Some(known) = known.filter(|known| known.full != 0) else { return false };
            if known.is_unsure && known.wait > self.now {
                return true;
            }
            let (fired, is_unsure) = (std::mem::take(&mut known.full), known.is_unsure);
            if is_unsure && self.floods.get(&(key.span, is_believed)).is_none() {
                self.fired(at, fired);
            }
            false
        });
        self.unsure = unsure;
    }

    /// Whether many hosts of a prefix get too much at the same time: so many that none stands for the others, and all but the one that
    /// gets most would be above the threshold of the prefix now.
    fn is_spread(&self, (network, level): (usize, usize), dossier: u32, number: usize) -> bool {
        let Some(dossier) = self.dossiers.get(dossier) else { return false };
        let watch = &self.watches.groups[usize::from(self.groups.networks[network].group)][number];
        let bar = self.watches.bars(network as u32, level as u8)[number];
        let packets = dossier.at_once(watch.class, self.now);
        let (hosts, total) = narrow::count(packets.map(|noted| (noted.packet.destination, 1.0)));
        let Some((_, most)) = hosts.first() else { return false };
        let pairs: f64 = hosts.iter().map(|(_, count)| count * (count - 1.0)).sum();
        let others = watch.unit.of(dossier.rates(watch.class, self.now)).value * (1.0 - most / total);
        total * (total - 1.0) >= MANY * pairs && others > f64::from(bar.rate)
    }

    /// Whether the flood of a prefix is that of few of its hosts, which are under attack themselves.
    fn is_explained(&self, place: Place, dossier: u32, watch: usize, network: usize) -> bool {
        let Some(dossier) = self.dossiers.get(dossier) else { return false };
        let watch = &self.watches.groups[usize::from(self.groups.networks[network].group)][watch];
        let rate = |dossier: &dossiers::Dossier| watch.unit.of(dossier.rates(watch.class, self.now)).value;
        let (mut held, mut addresses, mut known) = (0.0, 0.0, false);
        let target = narrow::narrowest(place.0, &report::hosts(dossier, watch.class), HOLDS);
        for (inner, flood) in self.floods.within(place) {
            let views = flood.views.iter().filter_map(|&view| self.table.find(&Key { span: inner.0, view }));
            let rates = views.filter_map(|at| self.dossiers.get(self.table.get(at).dossier)).map(rate);
            held += rates.fold(0.0, f64::max);
            addresses += f64::from(flood.target.size()).exp2();
            known |= flood.target.contains(target);
        }
        let dense = addresses * DENSE >= f64::from(target.size()).exp2();
        known || held >= HOLDS * rate(dossier) && !dense
    }

    /// A flood begins; those within its prefix are part of it from now on.
    fn begin(&mut self, at: usize, place: Place, number: usize) {
        let now = self.now;
        let Entry { key, network, level, dossier, .. } = *self.table.get(at);
        let group = usize::from(self.groups.networks[network as usize].group);
        let bar = self.watches.bars(network, level)[number];
        let (standing, log_evidence) = self.table.test(at, number).standing(&bar, &self.confidence);
        let first_excess = self.table.test(at, number).began(now, standing);
        let watch = &mut self.watches.groups[group][number];
        if watch.taught {
            watch.learnt.iter_mut().for_each(Learnt::taint);
        }
        let Some(known) = self.dossiers.get(dossier) else { return };
        let class = report::class(known, watch, &bar, first_excess, now);
        self.dossiers.attribute(dossier, class, first_excess);
        let Some(known) = self.dossiers.get(dossier) else { return };
        let target =
            if level == 0 { key.span } else { narrow::narrowest(key.span, &report::hosts(known, class), HOLDS) };
        if place.1 {
            self.profiles.forget(group, target, first_excess);
        }
        let flood = Flood {
            network: network as usize,
            level: usize::from(level),
            watch: number,
            target,
            class,
            first_excess,
            decided: now,
            last: now,
            others: 0,
            told: 0,
            told_rate: 0.0,
            is_told: false,
            views: vec![key.view],
            doubted: false,
            agents: Vec::new(),
            log_evidence,
        };
        self.floods.insert(place, flood);
        self.begun.push(place);
        self.look = 0;
    }

    /// Tells of floods that were decided since, as soon as samples say how much they are.
    pub(super) fn tell_begun(&mut self) {
        if self.begun.is_empty() || self.now < self.look {
            return;
        }
        self.look = self.now + SOON;
        let mut begun = std::mem::take(&mut self.begun);
        begun.retain(|place| {
            if self.floods.get(place).is_none_or(|flood| flood.is_told) {
                return false;
            }
            self.tell(place);
            // What others tell is not part of what is doubted.
            let told = self.floods.get(place).filter(|flood| flood.is_told);
            if told.is_some_and(|flood| !flood.doubted) {
                self.fold(*place);
            }
            self.floods.get(place).is_some_and(|flood| !flood.is_told && self.now < flood.decided + HELD)
        });
        self.begun = begun;
    }

    /// Ends floods that are part of a wider one, and are kept away by what is done about that.
    pub(super) fn fold(&mut self, place: Place) {
        let Some(target) = self.floods.get(&place).map(|flood| flood.target) else { return };
        let inner = self.floods.within(place).filter(|(_, flood)| target.contains(flood.target));
        let is_part = |place: Place, flood: &Flood| {
            let is_news = flood.level > 0 && !flood.is_told;
            {
                let _ = place;
                is_news || flood.target == target
            }
        };
        let inner = inner.filter(|(place, flood)| is_part(**place, flood));
        let inner: Vec<Place> = inner.map(|(place, _)| *place).collect();
        inner.iter().for_each(|place| self.is_over(place));
    }

    /// Tells of a flood as it is now.
    pub(super) fn tell(&mut self, place: &Place) {
        let Some(mut flood) = self.floods.remove(place) else { return };
        flood.told = self.now.max(1);
        let mut is_another = false;
        let mut report = self.report(place, &mut flood);
        let is_less = |detection: &Detection| !detection.evidence.exceeds();
        if !flood.is_told && report.as_ref().is_some_and(is_less) && self.widen_class(place, &mut flood) {
            report = self.report(place, &mut flood);
        }
        if let Some(detection) = report {
            flood.told_rate = detection.evidence.packets.value;
            flood.doubted = !detection.doubts.is_empty();
            flood.agents.extend(detection.evidence.points.iter().map(|spot| spot.point.agent));
            flood.agents.sort_unstable();
            flood.agents.dedup();
            // What is not above its threshold now is not told: it is over soon, or comes again. Nor does it hide what is.
            let may_be_another = flood.is_told || self.now >= flood.decided + HELD;
            if detection.evidence.exceeds() {
                flood.is_told = true;
                self.findings.push(Finding::Flood(Box::new(detection)));
            } else if may_be_another && self.is_another(place, &flood) {
                is_another = true;
            } else if flood.is_told {
                let Detection { target, class, evidence: Evidence { packets, bits, .. }, .. } = detection;
                self.findings.push(Finding::Ebbing { target, class, packets, bits });
            }
        }
        if !flood.is_told {
            flood.told = 0;
        }
        let is_over = is_another || !flood.is_told && self.now >= flood.decided + UNTOLD;
        for (target, class, last) in self.widened.drain(..) {
            self.findings.push(Finding::Over { target, class, last });
        }
        self.floods.insert(*place, flood);
        if is_over {
            self.is_over(place);
        }
    }

    /// Whether nobody tells of a flood any more, though an agent that told of it is heard.
    pub(super) fn is_quiet(&mut self, place: &Place) {
        let Some(flood) = self.floods.get(place) else { return };
        let since = flood.last + self.settings.quiet.as_nanos() as u64;
        if !flood.is_told || flood.agents.iter().any(|&agent| self.is_alive(agent, since)) {
            self.is_over(place);
        }
    }

    pub(super) fn is_over(&mut self, place: &Place) {
        let group = self.floods.get(place).map(|flood| self.target(flood).group);
        self.end(place, group.unwrap_or_default());
    }

    /// A flood of a group is over.
    pub(super) fn end(&mut self, place: &Place, group: String) {
        let Some(flood) = self.floods.remove(place) else { return };
        for &view in &flood.views {
            let at = self.table.find(&Key { span: place.0, view });
            at.into_iter().for_each(|at| self.dossiers.release(self.table.get(at).dossier));
        }
        if flood.is_told {
            let target = Target { prefix: flood.target.into(), group };
            let Flood { class, last, .. } = flood;
            self.findings.push(Finding::Over { target, class, last });
        }
    }

    pub(super) fn target(&self, flood: &Flood) -> Target {
        let group = self.groups.networks.get(flood.network).map_or(0, |network| usize::from(network.group));
        let group = self.groups.names.get(group).cloned().unwrap_or_default();
        Target { prefix: flood.target.into(), group }
    }
}
