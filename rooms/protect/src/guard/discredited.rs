//! What was announced on the word of an agent that is found out: it is withdrawn, whether or not anybody still tells of it.
//!
//! Whoever speaks in an agent's name is found out by the agent's own next datagram. Of an agent that sends few that takes long: what he has told of is
//! below its threshold by then, or over, so that no finding tells of it, and would be stopped until its time is over.

use std::net::IpAddr;
use std::sync::Arc;

use super::life::is_of_speaker;
use super::words::doubted;
use super::{Guard, Now, Traffic};
use crate::model::{Attack, Detection, Doubt, Phase, Point, Refusal};

impl Guard {
    /// What an agent, or what counters speak against, told since then is not believed: what was announced since on its word alone is withdrawn.
    /// What stood before stays as it is: not knowing who speaks is no sign that a flood is over. Whatever it has told since is told with the doubt
    /// from now on, what is over by now too.
    pub(super) fn discredit(&mut self, doubt: &Doubt, since: u64, traffic: &dyn Traffic, now: Now) {
        let (agent, point) = match doubt {
            Doubt::Sequence { agent, .. } => (*agent, None),
            Doubt::Counters { point, .. } => (point.agent, Some(*point)),
            _ => return,
        };
        let mut gone = Vec::new();
        for (&id, life) in &mut self.lives {
            let is_since = match &life.announced {
                Some(announced) => announced.began > since,
                None => life.attack.phase == Phase::Pending || life.attack.detection.decided > since,
            };
            if life.attack.detection.is_hearsay {
                continue;
            }
            if !is_since {
                let is_alone = life.attack.detection.seconds.iter().all(|second| *second == agent);
                if life.announced.is_some()
                    && is_of_speaker(doubt)
                    && is_alone
                    && is_told_by(&life.attack, agent, point)
                {
                    add(life.show(), doubt);
                }
                continue;
            }
            life.discredited |= is_told_by(&life.attack, agent, point);
            if life.attack.detection.seconds.contains(&agent) {
                life.show().detection.seconds.retain(|second| *second != agent);
            }
            if life.discredited && life.attack.detection.seconds.is_empty() {
                gone.push(id);
            }
        }
        for id in gone {
            let Some(life) = self.lives.get_mut(&id) else { continue };
            let (is_seen, is_wanted) = (life.seen, life.announced.is_some() || life.attack.phase == Phase::Pending);
            // That nobody knew whether it is over may have been told: this is more.
            life.told = None;
            add(life.show(), doubt);
            if is_wanted {
                self.refuse(id, Refusal { limit: "doubt", why: doubted(doubt) }, None, now);
            } else {
                // What else is against it, a person's word say, comes first.
                self.decide(id, traffic, now);
            }
            if !is_seen {
                self.finish(id, now);
            }
        }
        let is_meant = |attack: &Attack| {
            let Detection { decided, is_hearsay, seconds, .. } = &attack.detection;
            *decided > since && !is_hearsay && seconds.iter().all(|second| *second == agent)
        };
        for over in &mut self.history {
            if is_meant(over) && is_told_by(over, agent, point) {
                add(Arc::make_mut(over), doubt);
            }
        }
    }
}

/// Whether an agent told of it, or one of its interfaces where only that is meant.
fn is_told_by(attack: &Attack, agent: IpAddr, point: Option<Point>) -> bool {
    let mut told = attack.detection.evidence.points.iter();
    told.any(|told| point.map_or(told.agent == agent, |point| *told == point))
}

fn add(attack: &mut Attack, doubt: &Doubt) {
    let doubts = &mut attack.detection.doubts;
    if !doubts.contains(doubt) {
        doubts.push(doubt.clone());
    }
}
