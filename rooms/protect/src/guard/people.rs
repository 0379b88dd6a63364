//! What people ask.

use std::time::Duration;

use weir_program::escape::escaped;

use super::words::nothing;
use super::{Denied, Guard, Now, SECOND, Traffic};
use crate::journal::{Entry, What};
use crate::model::{Command, Mode, Phase, Stopped};

/// The limit of what was withdrawn with everything else.
pub(super) const STOPPED: &str = "stopped";

impl Guard {
    /// Carries out what a person asks.
    ///
    /// # Errors
    /// It is not, for this reason.
    pub fn command(&mut self, command: &Command, by: &str, traffic: &dyn Traffic, now: Now) -> Result<(), Denied> {
        if let Command::Approve { id } | Command::Withdraw { id } | Command::Extend { id, .. } = *command
            && !self.lives.contains_key(&id)
        {
            return Err(self.absent(id));
        }
        match *command {
            Command::Approve { id } => self.approve(id, by, traffic, now),
            Command::Withdraw { id } => {
                let life = self.lives.get_mut(&id).ok_or(Denied::Unknown(id))?;
                let is_idle = life.announced.is_none() && life.attack.phase != Phase::Pending;
                if life.held || is_idle && life.attack.refusal.as_ref().is_some_and(|why| why.limit == "observe") {
                    return Err(Denied::of(attack(id), IDLE));
                }
                (life.held, life.approved) = (true, false);
                life.show().by = Some(by.to_owned());
                let why = format!("{} asked for it", escaped(by));
                let had = life.announced.is_some();
                self.withdraw(id, by, &why, now);
                if !had {
                    self.tell(id, by, What::Withdrawn, why, now);
                }
                self.decide_or_finish(id, traffic, now);
                Ok(())
            }
            Command::Extend { id, seconds } => {
                let most = self.settings.ttl.most.duration().as_secs();
                let life = self.lives.get_mut(&id).ok_or(Denied::Unknown(id))?;
                if seconds > most {
                    return Err(Denied::long(attack(id), seconds, most));
                }
                let announced = life.announced.as_mut().ok_or_else(|| Denied::of(attack(id), IDLE))?;
                let until = now.nanos + seconds * SECOND;
                (announced.expires, announced.kept) = (until, until);
                let attack = life.show();
                attack.expires = Some(now.wall + Duration::from_secs(seconds));
                attack.by = Some(by.to_owned());
                self.tell(id, by, What::Extended, format!("for {seconds} s from now"), now);
                Ok(())
            }
            Command::Add { prefix, seconds } => self.add(prefix, seconds, by, traffic, now),
            Command::Stop => {
                if self.stopped.is_some() {
                    return Err(Denied::Refused("everything is stopped already".into()));
                }
                self.stopped = Some(Stopped { by: by.to_owned(), since: now.wall });
                self.entries.push(Entry::new(now.wall, by, What::Stopped, "everything is to be withdrawn"));
                let ids: Vec<u64> = self.lives.keys().copied().collect();
                for id in ids {
                    self.lives.get_mut(&id).into_iter().for_each(|life| life.approved = false);
                    // Whoever stops everything has not decided on each: they may go on when it is resumed.
                    let had = self.lives.get(&id).is_some_and(|life| life.announced.is_some());
                    self.withdraw(id, by, "everything was stopped", now);
                    if let Some(entry) = self.entries.last_mut().filter(|_| had) {
                        entry.limit = Some(STOPPED.to_owned());
                    }
                    self.decide_or_finish(id, traffic, now);
                }
                Ok(())
            }
            Command::Resume => {
                if self.stopped.take().is_none() {
                    return Err(Denied::Refused("nothing was stopped".into()));
                }
                self.entries.push(Entry::new(now.wall, by, What::Resumed, ""));
                self.decide_all(traffic, now);
                Ok(())
            }
        }
    }

    /// Why an attack cannot be acted upon that is not there.
    fn absent(&self, id: u64) -> Denied {
        let over = self.history.iter().find(|attack| attack.id == id);
        let key = over.map(|over| (over.detection.target.prefix, over.detection.class));
        let next = key.and_then(|key| self.by_key.get(&key));
        next.map_or(Denied::Unknown(id), |next| {
            Denied::Refused(format!("attack {id} is over, and attack {next} continues it: name that one"))
        })
    }

    fn approve(&mut self, id: u64, by: &str, traffic: &dyn Traffic, now: Now) -> Result<(), Denied> {
        let life = self.lives.get_mut(&id).ok_or(Denied::Unknown(id))?;
        if let Some(stopped) = &self.stopped {
            return Err(Denied::stopped(attack(id), &escaped(&stopped.by)));
        }
        let settings = self.settings.clone();
        let name = life.attack.detection.target.group.clone();
        let Some(group) = settings.groups.get(&name).filter(|group| group.mode != Mode::Observe) else {
            return Err(Denied::observed(attack(id), &escaped(&name)));
        };
        let done = || Denied::of(attack(id), "its last step is announced already");
        if life.attack.by_hand {
            return Err(done());
        }
        if let Some(announced) = &life.announced {
            let next = announced.level + 1;
            if next >= group.levels.len() {
                return Err(done());
            }
            let changed = self.change(id, group, next, (by, "a person took the next step"), traffic, now);
            changed.map_err(|refusal| Denied::of(attack(id), refusal.why))?;
            self.lives.get_mut(&id).into_iter().for_each(|life| life.show().by = Some(by.to_owned()));
            return Ok(());
        }
        let held = std::mem::replace(&mut life.held, false);
        let before = life.show().by.replace(by.to_owned());
        life.approved = true;
        self.decide(id, traffic, now);
        let life = self.lives.get_mut(&id).ok_or(Denied::Unknown(id))?;
        if life.announced.is_some() {
            return Ok(());
        }
        life.approved = false;
        life.held = held;
        life.show().by = before;
        let refusal = life.attack.refusal.clone().unwrap_or_else(nothing);
        Err(Denied::of(attack(id), refusal.why))
    }
}

fn attack(id: u64) -> String {
    format!("attack {id}")
}

const IDLE: &str = "nothing is announced for it";
