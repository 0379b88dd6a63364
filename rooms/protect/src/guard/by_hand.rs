//! What a person has blackholed, whatever is found: within the same caps, never what must not be touched, for a time that he says.

use ipnet::IpNet;
use weir_program::escape::escaped;

use super::life::{Announced, Life, unfound};
use super::machine::ATTACKS;
use super::words::nothing;
use super::{Denied, Guard, Now, SECOND, Traffic};
use crate::journal::What;
use crate::model::{Action, Class, Mode, Target};
use crate::settings::{Group, Level};

impl Guard {
    /// A blackhole for a prefix, for so many seconds. It rests on no evidence: nothing that is found changes or ends it.
    pub(super) fn add(
        &mut self,
        prefix: IpNet,
        seconds: u64,
        by: &str,
        traffic: &dyn Traffic,
        now: Now,
    ) -> Result<(), Denied> {
        let prefix = prefix.trunc();
        let settings = self.settings.clone();
        let most = settings.ttl.most.duration().as_secs();
        let denied = |why: String| Err(Denied::of(prefix, why));
        if let Some(stopped) = &self.stopped {
            return Err(Denied::stopped(prefix, &escaped(&stopped.by)));
        }
        if seconds > most {
            return Err(Denied::long(prefix, seconds, most));
        }
        let Some((name, group)) = settings.group_of(&prefix) else {
            return denied("it is within no protected group".into());
        };
        if group.mode == Mode::Observe {
            return Err(Denied::observed(prefix, &escaped(name)));
        }
        let is_there = |life: &&Life| life.attack.by_hand && life.attack.key().0 == prefix;
        if let Some(there) = self.lives.values().find(is_there) {
            return denied(format!("attack {} has it already: extend that one", there.attack.id));
        }
        if self.lives.len() >= ATTACKS {
            return denied("there are too many attacks".into());
        }
        // Whom else it hits the person who asks takes upon himself.
        let step = Level { action: Action::Blackhole, after: std::time::Duration::ZERO, harm: 1.0 };
        let group = Group { levels: vec![step], ..group.clone() };
        let target = Target { prefix, group: name.to_owned() };
        let detection = unfound(target, CLASS, "by hand", Vec::new());
        let (plan, verdict) = self.plan(&group, &detection, 0, true, traffic);
        let plan = match verdict.and_then(|()| plan.ok_or_else(nothing)) {
            Ok(plan) => plan,
            Err(refusal) => return denied(refusal.why),
        };
        self.last_id += 1;
        let id = self.last_id;
        let mut life = Life::new(id, detection, 0, now);
        (life.seen, life.approved) = (false, true);
        let attack = life.show();
        (attack.by, attack.by_hand) = (Some(by.to_owned()), true);
        self.insert(life);
        let announced = Announced::new(plan.routes, seconds * SECOND, now);
        self.set(id, Announced { kept: announced.expires, ..announced }, plan.harm, now);
        self.tell(id, by, What::Announced, String::new(), now);
        Ok(())
    }
}

/// It is of no class, and nobody is told of one: its place among attacks has to have one.
pub(super) const CLASS: Class = Class::IpFlood;
