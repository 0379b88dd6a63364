//! What is found, and what is done about it, without a clock: the thread drives it in real time, tests and replays in theirs.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipnet::IpNet;

use super::News;
use crate::detect::{self, Atlas, Detector, Saved};
use crate::guard::{Denied, Guard, Now, Traffic};
use crate::model::{Board, Command, Counts, Finding, Group, Harm, Rule, Speaking};
use crate::settings::{self, Settings};

/// Detector and guard.
pub struct Engine {
    settings: Arc<Settings>,
    detector: Detector,
    /// What is done about what it finds.
    pub guard: Guard,
    /// When time is told next, by our clock and by that of what is looked at.
    due: (u64, u64),
}

impl Engine {
    /// Nothing has come yet.
    pub fn new(settings: Arc<Settings>) -> Self {
        let detector = Detector::new(detector(&settings));
        Self { guard: Guard::new(settings.clone()), settings, detector, due: (0, 0) }
    }

    /// Countries and autonomous systems are looked up there from now on.
    pub fn set_atlas(&mut self, atlas: Option<Box<dyn Atlas>>) {
        self.detector.set_atlas(atlas);
    }

    /// What was learnt, to be kept over a restart; `None`: nothing is to be.
    pub fn learnt(&self) -> Option<Saved> {
        let learns = |group: &settings::Group| group.thresholds.iter().any(|of| of.learn);
        self.settings.groups.values().any(learns).then(|| self.detector.save())
    }

    /// Knows again what was learnt.
    pub fn recall(&mut self, learnt: Saved) {
        self.detector.restore(learnt);
    }

    /// Takes what a shard tells.
    #[inline]
    pub fn take(&mut self, news: &News) {
        match news {
            News::Seen(seen) => self.detector.sample(&seen.sighting()),
            News::Alive(alive) => self.detector.alive(alive),
            News::Contested(contested) => self.detector.contested(contested),
        }
    }

    /// Decides what the news mean. To be called after some of them, and ten times a second anyway. `seen`: until when all that came has been
    /// taken; what happened is judged by the time at which it came, however late that is: a flood is no smaller because nobody had the time to look.
    pub fn step(&mut self, now: Now, seen: u64) {
        let seen = seen.min(now.nanos);
        let is_due = now.nanos >= self.due.0 || seen >= self.due.1;
        if is_due {
            let apart = TICKS_APART.as_nanos() as u64;
            self.due = (now.nanos + apart, seen + apart);
            self.detector.cover(self.guard.covered());
            self.detector.tick(seen, hour_of_week(now.wall));
        }
        self.detector.reach(seen);
        let findings = self.detector.take_findings();
        for mut finding in findings {
            if let Finding::Flood(detection) = &mut finding {
                detection.decided += now.nanos - seen;
            }
            self.guard.finding(finding, &self.detector, now);
        }
        if is_due {
            self.guard.tick(&self.detector, now);
        }
    }

    /// How long nothing is to be done, unless there is news.
    pub fn rest(&self, now: Now) -> Duration {
        Duration::from_nanos(self.due.0.saturating_sub(now.nanos))
    }

    /// Carries out what a person asks.
    ///
    /// # Errors
    /// It is not, for this reason.
    pub fn command(&mut self, command: &Command, by: &str, now: Now) -> Result<(), Denied> {
        self.guard.command(command, by, &self.detector, now)
    }

    /// Goes over to other settings.
    pub fn adopt(&mut self, settings: Arc<Settings>, now: Now) {
        self.detector.adopt(detector(&settings));
        self.guard.adopt(&settings, &self.detector, now);
        self.settings = settings;
    }

    /// How things stand; `counts`: what others have counted.
    pub fn board(&self, speaker: Option<Speaking>, counts: Counts, now: Now) -> Board {
        let statistics = self.detector.statistics();
        let mut counts = Counts { alive_agents: statistics.alive, ..counts };
        counts.evicted.extend([
            ("targets", statistics.evicted_targets),
            ("dossiers", statistics.evicted_dossiers),
            ("profiles", statistics.evicted_profiles),
            ("views", statistics.refused_views),
            ("floods", statistics.refused_floods),
        ]);
        self.guard.board(self.groups(), speaker, counts, now)
    }

    fn groups(&self) -> Vec<Group> {
        let shown = |(name, group): (&String, &settings::Group)| {
            let (hosts, thresholds) = self.detector.in_force(name).unwrap_or_default();
            Group {
                name: name.clone(),
                networks: group.networks.iter().map(IpNet::to_string).collect(),
                mode: group.mode,
                thresholds,
                hosts,
            }
        };
        self.settings.groups.iter().map(shown).collect()
    }
}

impl Traffic for Detector {
    fn harm(&self, target: &IpNet, rule: &Rule) -> Harm {
        self.traffic(*target, rule)
    }
}

/// The detector's part of the settings.
fn detector(settings: &Settings) -> detect::Settings {
    let group = |(name, of): (&String, &settings::Group)| detect::Group {
        name: name.clone(),
        networks: of.networks.clone(),
        thresholds: of.thresholds.clone(),
    };
    detect::Settings {
        groups: settings.groups.iter().map(group).collect(),
        false_alarms_a_year: settings.false_alarms.per_second() * YEAR,
        burst: settings.burst.duration(),
        allowed_sources: settings.allowed_sources.clone(),
        edge: settings.ingress.clone(),
        witnesses: settings.witnesses.into(),
        ..detect::Settings::default()
    }
}

/// Of the week, from Monday 00:00 UTC on.
fn hour_of_week(wall: SystemTime) -> usize {
    let hours = wall.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 3600);
    // 1970 began on a Thursday.
    ((hours + 3 * 24) % 168) as usize
}

/// Seconds.
const YEAR: f64 = 365.25 * 86_400.0;

/// From one look at the time to the next.
pub(super) const TICKS_APART: Duration = Duration::from_millis(100);
