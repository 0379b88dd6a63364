//! Who is believed: listed, from its address, and each datagram continuing the one before.
//!
//! Anybody can send datagrams in an agent's name. They do not continue the agent's own stream, of which a forger does not know the numbers: they
//! are streams of their own, and of several that go on the one that was there first is believed. Whoever forges speaks for himself
//! alone: neither does he lend his word to the agent, nor does he take the agent's.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use foldhash::quality::RandomState;
use hashbrown::{HashMap, HashSet};
use ipnet::IpNet;

use super::{Exporter, Settings};
use crate::model::{Doubt, Stream};

/// What is heard of an agent besides its samples. To be told when a stream of it is heard for the first time, every ten seconds as long as it
/// goes on, and whenever there is trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When, as in [`Sighting::time`](crate::model::Sighting::time).
    pub time: u64,
    /// Its address as the datagram tells it.
    pub agent: IpAddr,
    /// Which of its streams.
    pub stream: Stream,
    /// Where the datagram came from.
    pub from: IpAddr,
    /// What is wrong; `None`: nothing.
    pub trouble: Option<Trouble>,
    /// How long the stream was silent between two of its datagrams of late, at most, ns; 0: it is new.
    pub pause: u64,
    /// Whether it was there before the program began.
    pub is_known: bool,
}

/// What is wrong with an agent's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Its datagrams have not continued one another for long enough.
    Probation,
    /// A datagram continues no stream of it.
    Stranger,
    /// So many streams of it, that is of one sub-agent, go on at once, and this is not the one that was there first.
    Streams(usize),
    /// It began again: uptime and sequence.
    Restart,
    /// Its sequence went on elsewhere without a restart.
    Jump,
    /// Somebody else takes places in it, as this shows.
    Speakers(Sign),
}

/// What shows that two speak in one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// One number came with two contents.
    Content,
    /// A datagram was sent after those that it is numbered before.
    Clock,
    /// Datagrams are missing, and the uptime behind them is ahead of the agent's clock.
    Ahead,
    /// Its numbers go on, and its uptime leaps to where the agent's clock cannot be.
    Uptime,
    /// A datagram goes on where the stream was before its numbers leapt ahead, or its uptime.
    Leap,
    /// Samples of an interface have numbers that have come, or numbers or a pool that go on by turns at two places.
    Samples,
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probation => write!(out, "its datagrams have not continued one another for long enough"),
            Self::Stranger => write!(out, "a datagram that continues none before"),
            Self::Streams(count) => write!(out, "{count} streams at once that do not continue one another"),
            Self::Restart => write!(out, "it began again"),
            Self::Jump => write!(out, "its sequence went on elsewhere, without a restart"),
            Self::Speakers(sign) => {
                let shown = match sign {
                    Sign::Content => "one datagram came with two contents",
                    Sign::Clock => "a datagram was sent after those that it is numbered before",
                    Sign::Ahead => "numbers are left out, and its clock is ahead of the agent's",
                    Sign::Uptime => "its numbers go on, and its clock leapt",
                    Sign::Leap => "its sequence or clock leapt, and goes on from where it was before, too",
                    Sign::Samples => "samples of one interface are numbered or counted by two",
                };
                write!(out, "somebody else speaks in its name: {shown}")
            }
        }
    }
}

/// What is known of agents.
#[derive(Debug)]
pub(crate) struct Agents {
    exporters: Vec<Exporter>,
    memory: u64,
    probation: u64,
    known: HashMap<(IpAddr, Stream), Known, RandomState>,
    sub_agents: HashMap<IpAddr, SubAgents, RandomState>,
    /// When any of them was first heard.
    began: Option<u64>,
    /// Streams that were forgotten for others.
    pub(crate) evicted: u64,
    /// Datagrams told of that continue no stream of an agent.
    pub(crate) strangers: u64,
}

/// A stream.
#[derive(Clone, Copy, Debug)]
struct Known {
    listed: bool,
    /// Whether it comes from where the agent's datagrams may come from.
    at_home: bool,
    from: IpAddr,
    heard: u64,
    /// How long it was silent between two of its datagrams of late, at most, ns; 0: it is new.
    pause: u64,
    trouble: Option<(Trouble, u64)>,
    /// From when on its sub-agent is believed.
    sub_agent_from: u64,
}

/// Sub-agents of an agent, as its own address has told of them.
#[derive(Debug)]
struct SubAgents {
    /// When the first one was heard.
    since: u64,
    /// Which that was; `None`: several at once.
    first: Option<u32>,
    /// Each with when it was heard for the first time since a silence, and last.
    heard: Vec<(u32, u64, u64)>,
    /// Whether its address was there before others could take it: when the program began, or when the first agents were heard.
    is_known: bool,
    /// When it was last told that something is wrong with it.
    told: Option<u64>,
    /// When one of its own streams was last in trouble.
    disturbed: Option<u64>,
}

/// What a word about an agent changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heeded {
    /// Whether any stream of that agent is believed less than before.
    pub(crate) is_less_believed: bool,
    /// Whether people are to be told: once in [`Settings::memory`] of an agent.
    pub(crate) is_news: bool,
    /// Since when somebody else may have spoken in a stream that was believed until now; `None`: in none.
    pub(crate) since: Option<u64>,
}

/// Streams that are remembered.
const STREAMS: usize = 4_096;
/// Sub-agents of an agent that are remembered.
const SUB_AGENTS: usize = 64;
/// How long after an agent's first datagram those of its other sub-agents come, ns: nobody knows which of them was there first.
const ROUND: u64 = 30_000_000_000;
/// Pauses of a stream in which the agent's own next datagram comes: one may be lost.
const PAUSES: u64 = 2;
/// How long somebody else speaks at least, and at most, before that datagram shows it, ns.
const SOONEST: u64 = 10_000_000_000;
const LATEST: u64 = 120_000_000_000;
/// After what silence a sub-agent is a new one, ns, and nobody hears a stream any more, however seldom it is heard otherwise.
const SILENCE: u64 = 120_000_000_000;
/// The same of a stream whose pauses are known: after so many of them, and what lies between two times that it is told of; never sooner than
/// this.
const SILENT: u64 = 3;
const TOLD_APART: u64 = 10_000_000_000;
const BRIEF: u64 = 30_000_000_000;
/// How long after a doubt is over a stream has told of whatever goes on, ns: what is too much for it is found by what it samples from then on.
const TELLS: u64 = 10_000_000_000;

impl Agents {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (known, sub_agents) = (HashMap::default(), HashMap::default());
        let mut agents = Self {
            exporters: Vec::new(),
            memory: 0,
            probation: 0,
            known,
            sub_agents,
            began: None,
            evicted: 0,
            strangers: 0,
        };
        agents.adopt(settings);
        agents
    }

    pub(crate) fn adopt(&mut self, settings: &Settings) {
        self.exporters = settings.agents.clone();
        self.memory = settings.memory.as_nanos() as u64;
        self.probation = settings.probation.as_nanos() as u64;
        let Self { exporters, known, sub_agents, probation, .. } = self;
        for (&(agent, stream), known) in known {
            known.listed = is_listed(exporters, agent);
            known.at_home = may_come_from(exporters, agent, known.from);
            known.sub_agent_from = believed_from(exporters, sub_agents, *probation, agent, stream.sub_agent);
        }
    }

    /// Whether the word of a stream counts, now. What is asked for each sample.
    #[inline]
    pub(crate) fn is_believed(&self, now: u64, agent: IpAddr, stream: Stream) -> bool {
        self.known.get(&(agent, stream)).is_some_and(|known| known.is_believed(now, self.memory))
    }

    /// Whether a stream comes from where that agent's datagrams may come from, believed or not.
    pub(crate) fn is_its_own(&self, agent: IpAddr, stream: Stream) -> bool {
        self.known.get(&(agent, stream)).is_some_and(|known| known.listed && known.at_home)
    }

    /// Whether its word counts, of something that is told in it now: it is heard.
    #[inline]
    pub(crate) fn tells(&mut self, now: u64, agent: IpAddr, stream: Stream) -> bool {
        let Some(known) = self.known.get_mut(&(agent, stream)) else { return false };
        known.heard = known.heard.max(now);
        known.is_believed(now, self.memory)
    }

    /// Whether nothing speaks against a stream but that its agent began with it, of late.
    pub(crate) fn began_again(&self, now: u64, agent: IpAddr, stream: Stream) -> bool {
        let is_new = |known: &Known| {
            let is_own = known.listed && known.at_home && now >= known.sub_agent_from;
            is_own && matches!(known.trouble, Some((Trouble::Restart, time)) if now.saturating_sub(time) <= self.memory)
        };
        self.known.get(&(agent, stream)).is_some_and(is_new)
    }

    /// How many agents have been heard of late whose word counts.
    pub(crate) fn believed(&self, now: u64) -> usize {
        let is_believed = |known: &Known| known.is_believed(now, self.memory) && !known.is_silent(now);
        let believed = self.known.iter().filter(|(_, known)| is_believed(known)).map(|((agent, _), _)| *agent);
        believed.collect::<HashSet<_, RandomState>>().len()
    }

    /// Whether an agent has been heard since then, in a stream whose word counts now, and has for long enough to have told all that it sees.
    pub(crate) fn is_heard(&self, now: u64, agent: IpAddr, since: u64) -> bool {
        let mut known = self.known.iter().filter(|((of, _), _)| *of == agent);
        known.any(|(_, known)| {
            let counts = known.trouble.map_or(0, |(_, time)| time.saturating_add(self.memory).saturating_add(TELLS));
            known.heard > since.max(counts) && known.is_believed(now, self.memory)
        })
    }

    /// Whether nothing is heard of an agent any more, for longer than it is silent otherwise, or nothing that counts.
    pub(crate) fn is_silent(&self, now: u64, agent: IpAddr) -> bool {
        let mut known = self.known.iter().filter(|((of, _), _)| *of == agent);
        known.all(|(_, known)| known.is_silent(now) || !known.is_believed(now, self.memory))
    }

    /// Whether what an agent's own address tells is in doubt, so that its silence about a flood says nothing: its own stream may be the one
    /// that is not believed.
    pub(crate) fn is_in_doubt(&self, now: u64, agent: IpAddr) -> bool {
        let disturbed = self.sub_agents.get(&agent).and_then(|known| known.disturbed);
        disturbed.is_some_and(|time| now.saturating_sub(time) <= self.memory)
    }

    /// Takes what was heard.
    pub(crate) fn hear(&mut self, heard: &Heard) -> Heeded {
        let Heard { time, agent, stream, from, trouble, pause, is_known } = *heard;
        // What continues no stream was left out, whoever sent it: it says nothing of the streams that go on.
        if matches!(trouble, Some(Trouble::Stranger | Trouble::Probation)) {
            self.strangers += 1;
            return Heeded::default();
        }
        let key = (agent, stream);
        if self.known.len() >= STREAMS && !self.known.contains_key(&key) && !self.make_room(time, agent) {
            return Heeded::default();
        }
        let (listed, at_home) = (is_listed(&self.exporters, agent), may_come_from(&self.exporters, agent, from));
        // Anybody can write any sub-agent from elsewhere.
        let is_other = listed && at_home && self.hear_sub_agent(time, agent, stream.sub_agent, is_known);
        let sub_agent_from = believed_from(&self.exporters, &self.sub_agents, self.probation, agent, stream.sub_agent);
        let was_believed = self.is_believed(time, agent, stream);
        let known = Known { listed, at_home, from, heard: time, pause, trouble: None, sub_agent_from };
        let known = self.known.entry(key).or_insert(known);
        (known.heard, known.pause, known.sub_agent_from) = (known.heard.max(time), pause, sub_agent_from);
        if let Some(trouble) = trouble {
            known.trouble = Some((trouble, time));
        }
        if is_other {
            let Self { exporters, known, sub_agents, probation, .. } = self;
            for ((_, stream), known) in known.iter_mut().filter(|((of, _), _)| *of == agent) {
                known.sub_agent_from = believed_from(exporters, sub_agents, *probation, agent, stream.sub_agent);
            }
        }
        let memory = self.memory;
        let of_agent = self.sub_agents.get_mut(&agent).filter(|_| listed && at_home);
        let is_news = of_agent.zip(trouble).is_some_and(|(known, trouble)| {
            if !matches!(trouble, Trouble::Streams(_)) {
                known.disturbed = Some(time);
            }
            let is_due =
                known.told.is_none_or(|told| time.saturating_sub(told) > memory) && trouble != Trouble::Restart;
            known.told = if is_due { Some(time) } else { known.told };
            is_due
        });
        let found = trouble.filter(|_| was_believed);
        let since = found.map(|_| time.saturating_sub((PAUSES * pause).clamp(SOONEST, LATEST)));
        Heeded { is_less_believed: is_other || trouble.is_some(), is_news, since }
    }

    /// A sub-agent was heard; whether that leaves in the open which one was there first.
    fn hear_sub_agent(&mut self, time: u64, agent: IpAddr, sub_agent: u32, is_known: bool) -> bool {
        let is_early = time.saturating_sub(*self.began.get_or_insert(time)) <= ROUND;
        let (first, is_known) = (Some(sub_agent), is_known || is_early);
        let first = || SubAgents { since: time, first, heard: Vec::new(), is_known, told: None, disturbed: None };
        let known = self.sub_agents.entry(agent).or_insert_with(first);
        match known.heard.iter().position(|one| one.0 == sub_agent) {
            Some(at) => {
                let (_, since, last) = &mut known.heard[at];
                if time.saturating_sub(*last) > SILENCE {
                    *since = time;
                }
                *last = time.max(*last);
            }
            None if known.heard.len() < SUB_AGENTS => known.heard.push((sub_agent, time, time)),
            None => {
                // The newest goes: those that have been there for long keep their place.
                if let Some(newest) = known.heard.iter_mut().skip(1).max_by_key(|one| one.1) {
                    *newest = (sub_agent, time, time);
                }
            }
        }
        let is_other = known.first.is_some_and(|first| first != sub_agent);
        let in_the_open = is_other && time.saturating_sub(known.since) <= ROUND;
        if in_the_open {
            known.first = None;
        }
        in_the_open
    }

    /// Forgets the stream that is not believed and was heard longest ago, or one that has long been silent, or else the agent's own oldest;
    /// `false`: there is none.
    #[cold]
    fn make_room(&mut self, now: u64, agent: IpAddr) -> bool {
        self.evicted += 1;
        let may_go = |known: &Known| !known.is_believed(now, self.memory) || now.saturating_sub(known.heard) > SILENCE;
        let oldest = |may_go: &dyn Fn(&(IpAddr, Stream), &Known) -> bool| {
            let found = self.known.iter().filter(|(key, known)| may_go(key, known));
            found.min_by_key(|(_, known)| known.heard).map(|(key, _)| *key)
        };
        let strangers = oldest(&|_, known| may_go(known)).or_else(|| oldest(&|key, _| key.0 == agent));
        let Some(oldest) = strangers else { return false };
        self.known.remove(&oldest);
        if !self.known.keys().any(|(agent, _)| *agent == oldest.0) {
            self.sub_agents.remove(&oldest.0);
        }
        true
    }

    /// Why a stream of an agent is not believed now.
    pub(crate) fn doubt(&self, now: u64, agent: IpAddr, stream: Stream) -> Option<Doubt> {
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let Some(known) = self.known.get(&(agent, stream)) else {
            return Some(Doubt::Stranger { agent, from: unspecified });
        };
        if !known.listed || !known.at_home {
            return Some(Doubt::Stranger { agent, from: known.from });
        }
        if let Some((trouble, _)) = known.trouble.filter(|&(_, time)| now.saturating_sub(time) <= self.memory) {
            return Some(Doubt::Sequence { agent, what: trouble.to_string() });
        }
        (now < known.sub_agent_from).then(|| {
            let is_known = self.sub_agents.get(&agent).is_none_or(|known| known.is_known);
            let what = match is_known {
                true => format!("sub-agent {} is new beside another", stream.sub_agent),
                false => {
                    "its address is new in a network of `agents`: it is believed after `probation`, or named by itself"
                        .into()
                }
            };
            Doubt::Sequence { agent, what }
        })
    }
}

impl Known {
    #[inline]
    fn is_believed(&self, now: u64, memory: u64) -> bool {
        self.listed
            && self.at_home
            && now >= self.sub_agent_from
            && self.trouble.is_none_or(|(_, time)| now.saturating_sub(time) > memory)
    }

    /// Whether it is silent for longer than it is otherwise.
    fn is_silent(&self, now: u64) -> bool {
        let most = match self.pause {
            0 => SILENCE,
            pause => pause.saturating_mul(SILENT).saturating_add(TOLD_APART).clamp(BRIEF, SILENCE),
        };
        now.saturating_sub(self.heard) > most
    }
}

/// From when on a sub-agent is believed: the one that was there first at once, others once they have been there for long, or are listed.
fn believed_from(
    exporters: &[Exporter],
    sub_agents: &HashMap<IpAddr, SubAgents, RandomState>,
    probation: u64,
    agent: IpAddr,
    sub_agent: u32,
) -> u64 {
    let Some(known) = sub_agents.get(&agent) else { return 0 };
    // Nobody has used an address of a network before, but whoever can write it may from now on.
    let is_named = |exporter: &Exporter| exporter.agent.contains(&agent) && is_one(exporter.agent);
    if !known.is_known && !exporters.iter().any(is_named) {
        return known.since.saturating_add(probation);
    }
    let listed = exporters.iter().filter(|exporter| exporter.agent.contains(&agent));
    let mut named = listed.filter_map(|exporter| exporter.sub_agents.as_deref()).peekable();
    if named.peek().is_some() {
        return if named.any(|named| named.contains(&sub_agent)) { 0 } else { u64::MAX };
    }
    if known.first == Some(sub_agent) {
        return 0;
    }
    let since = known.heard.iter().find(|one| one.0 == sub_agent).map(|one| one.1);
    since.map_or(u64::MAX, |since| since.saturating_add(probation))
}

fn is_one(network: IpNet) -> bool {
    network.prefix_len() == network.max_prefix_len()
}

fn is_listed(exporters: &[Exporter], agent: IpAddr) -> bool {
    exporters.iter().any(|exporter| exporter.agent.contains(&agent))
}

fn may_come_from(exporters: &[Exporter], agent: IpAddr, from: IpAddr) -> bool {
    exporters.iter().any(|exporter| {
        exporter.agent.contains(&agent) && exporter.from.map_or(from == agent, |net| net.contains(&from))
    })
}

#[cfg(test)]
mod tests;
