//! A look at all agents, for whoever watches the page: made while somebody does, and never more often than a tenth of a
//! thread can make it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::api::{Agent, Analysis, Interface, Load, sum};
use crate::events::Short;

/// What is known of all agents, and when it was.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) begun: Instant,
    /// How long the look took.
    pub(super) took: Duration,
    /// The worst first.
    pub(super) agents: Vec<Row>,
    pub(super) sum: Sum,
}

/// All agents together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sum {
    agents: u64,
    /// How many have which trouble; one may have several.
    silent: u64,
    losing: u64,
    thinned: u64,
    restarted: u64,
    busy: u64,
    discarding: u64,
    /// How many have none.
    fine: u64,
    /// Of which counters are outdated.
    outdated: u64,
    interfaces: u64,
    /// Interfaces of which something current is known.
    current: u64,
    #[serde(rename = "datagramsReceived")]
    received: u64,
    #[serde(rename = "datagramsLost")]
    lost: u64,
    #[serde(rename = "receivedLately")]
    received_lately: u64,
    #[serde(rename = "lostLately")]
    lost_lately: u64,
    /// Bytes a second into all interfaces of which it is known.
    #[serde(rename = "ifinoctets", skip_serializing_if = "Option::is_none")]
    octets_in: Option<f64>,
}

/// An agent at a glance.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) agent: IpAddr,
    #[serde(flatten)]
    pub(super) told: Agent,
    /// Of the last half minute to minute, or since somebody watches.
    #[serde(rename = "receivedLately")]
    received_lately: u64,
    #[serde(rename = "lostLately")]
    lost_lately: u64,
    /// Packets that it told it dropped, one by one or only counted.
    #[serde(rename = "droppedLately")]
    dropped_lately: u64,
    interfaces: u32,
    /// Interfaces of which something current is known.
    current: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    busiest: Option<Busiest>,
    /// Of all its interfaces; absent where nothing is known.
    #[serde(rename = "ifinoctets", skip_serializing_if = "Option::is_none")]
    octets_in: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discards: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<f64>,
    /// The worst first.
    pub(super) troubles: Vec<Trouble>,
}

/// The interface that is used most.
#[derive(Clone, Debug, Serialize)]
struct Busiest {
    #[serde(rename = "dataSource")]
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Box<str>>,
    /// Per cent, of the direction that is used more.
    utilization: f64,
}

/// What is wrong with an agent. The first three make it bad, the rest is worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Trouble {
    Silent,
    Losing,
    Outdated,
    Loss,
    Thinned,
    Busy,
    Discarding,
    Restarted,
}

/// The surveys, and the counts by which losses of late are told.
#[derive(Debug, Default)]
pub(super) struct Surveyor {
    latest: Option<Arc<Survey>>,
    asked: Option<Instant>,
    /// What each agent's counts were, at two moments in the past.
    before: Option<Counts>,
    since: Option<Counts>,
}

#[derive(Debug)]
struct Counts {
    at: Instant,
    of: HashMap<IpAddr, Totals>,
}

/// An agent's totals: datagrams that were received and lost, packets that it dropped.
type Totals = [u64; 3];

impl Survey {
    /// How long it is shown. A program that stood still meanwhile took no longer for that.
    fn lasts(&self) -> Duration {
        (self.took * SHARE).clamp(FRESH, OLDEST)
    }
}

impl Surveyor {
    /// The latest survey; a new one where it is old enough.
    pub(super) fn survey(&mut self, analysis: &dyn Analysis, now: Instant) -> Arc<Survey> {
        self.asked = Some(now);
        let is_new = |survey: &&Arc<Survey>| now.saturating_duration_since(survey.begun) < survey.lasts();
        if let Some(survey) = self.latest.as_ref().filter(is_new) {
            return survey.clone();
        }
        let mut sum = Sum::default();
        let baseline = self.before.as_ref().or(self.since.as_ref());
        let look = |address| {
            let baseline = baseline.map(|counts| counts.of.get(&address).copied().unwrap_or_default());
            row(analysis, address, baseline)
        };
        let mut agents: Vec<Row> = analysis.agents().into_iter().filter_map(look).collect();
        agents.iter().for_each(|row| sum.add(row));
        agents.sort_by(worst_first);
        if self.since.as_ref().is_none_or(|counts| now.saturating_duration_since(counts.at) > LATELY) {
            let of = agents.iter().map(|row| (row.agent, totals(&row.told))).collect();
            self.before = self.since.replace(Counts { at: now, of });
        }
        let survey = Arc::new(Survey { begun: now, took: now.elapsed(), agents, sum });
        self.latest = Some(survey.clone());
        survey
    }

    /// Gives everything back when nobody watches any more.
    pub(super) fn rest(&mut self, now: Instant) {
        if self.asked.is_some_and(|asked| now.saturating_duration_since(asked) > UNWATCHED) {
            *self = Self::default();
        }
    }
}

impl Sum {
    fn add(&mut self, row: &Row) {
        let has = |trouble| u64::from(row.troubles.contains(&trouble));
        self.agents += 1;
        self.silent += has(Trouble::Silent);
        self.losing += has(Trouble::Losing) + has(Trouble::Loss);
        self.outdated += has(Trouble::Outdated);
        self.thinned += has(Trouble::Thinned);
        self.restarted += has(Trouble::Restarted);
        self.busy += has(Trouble::Busy);
        self.discarding += has(Trouble::Discarding);
        self.fine += u64::from(row.troubles.is_empty());
        self.interfaces += u64::from(row.interfaces);
        self.current += u64::from(row.current);
        self.received += row.told.datagrams_received;
        self.lost += row.told.datagrams_lost;
        self.received_lately += row.received_lately;
        self.lost_lately += row.lost_lately;
        self.octets_in = sum(self.octets_in, row.octets_in);
    }
}

/// `before`: its totals up to the time that is "lately"; `None`: nobody has watched until now.
fn row(analysis: &dyn Analysis, address: IpAddr, before: Option<Totals>) -> Option<Row> {
    let told = analysis.agent(address)?;
    let (now, before) = (totals(&told), before.unwrap_or_else(|| totals(&told)));
    let [received_lately, lost_lately, dropped_lately] = std::array::from_fn(|at| now[at].saturating_sub(before[at]));
    let mut row = Row {
        agent: address,
        told,
        received_lately,
        lost_lately,
        dropped_lately,
        interfaces: 0,
        current: 0,
        busiest: None,
        octets_in: None,
        discards: None,
        errors: None,
        troubles: Vec::new(),
    };
    analysis.interfaces(address, &mut |interface| row.add(&interface));
    row.troubles = troubles(&row);
    Some(row)
}

fn totals(told: &Agent) -> Totals {
    [
        told.datagrams_received,
        told.datagrams_lost,
        told.notification.samples + told.notification.drops.unwrap_or_default(),
    ]
}

impl Row {
    fn add(&mut self, interface: &Interface<'_>) {
        self.interfaces += 1;
        self.current += u32::from(interface.load != Load::default());
        self.octets_in = sum(self.octets_in, interface.load.octets_in);
        self.discards = sum(self.discards, interface.load.discards);
        self.errors = sum(self.errors, interface.load.errors);
        let busiest = self.busiest.as_ref().map(|busiest| busiest.utilization);
        if let Some(utilization) = interface.load.utilization()
            && busiest.is_none_or(|busiest| utilization > busiest)
        {
            let source = Short(interface.source).to_string();
            self.busiest = Some(Busiest { source, name: interface.name.map(Box::from), utilization });
        }
    }

    /// 2: it is bad; 1: it is worth a look; 0: all is well.
    fn level(&self) -> u8 {
        self.troubles.first().map_or(0, |worst| if *worst <= Trouble::Outdated { 2 } else { 1 })
    }

    fn utilization(&self) -> f64 {
        self.busiest.as_ref().map_or(0.0, |busiest| busiest.utilization)
    }

    /// Packets a second that its interfaces dropped or received damaged.
    fn discarded(&self) -> f64 {
        self.discards.unwrap_or(0.0) + self.errors.unwrap_or(0.0)
    }

    /// Of the datagrams of late, how many are lost.
    fn loss(&self) -> f64 {
        self.lost_lately as f64 / (self.received_lately + self.lost_lately).max(1) as f64
    }

    /// Packets that a sample stands for, over what the agent says.
    fn thinning(&self) -> f64 {
        let rates = self.told.effective_sampling_rate.zip(self.told.sampling_rate);
        rates.map_or(1.0, |(effective, nominal)| effective / f64::from(nominal.max(1)))
    }

    /// Whether its address or name has the text, which is in lower case.
    pub(super) fn is_called(&self, text: &str) -> bool {
        let is_host = || self.told.host.as_deref().is_some_and(|host| host.to_lowercase().contains(text));
        text.is_empty() || is_host() || self.agent.to_string().contains(text)
    }
}

fn troubles(row: &Row) -> Vec<Trouble> {
    let (told, loss) = (&row.told, row.loss());
    let found = [
        (Trouble::Silent, told.stale),
        (Trouble::Losing, loss >= LOSING),
        (Trouble::Outdated, row.interfaces > 0 && row.current == 0),
        (Trouble::Loss, loss > 0.0 && loss < LOSING),
        (Trouble::Thinned, row.thinning() > THINNED),
        (Trouble::Busy, row.utilization() >= BUSY),
        (Trouble::Discarding, row.discarded() > 0.0 || row.dropped_lately > 0),
        (Trouble::Restarted, told.restarts > 0 && told.uptime < LATE),
    ];
    found.into_iter().filter(|(_, is)| *is).map(|(trouble, _)| trouble).collect()
}

/// The order in which one wants to look.
fn worst_first(a: &Row, b: &Row) -> Ordering {
    let level = b.level().cmp(&a.level());
    level
        .then_with(|| b.loss().total_cmp(&a.loss()))
        .then_with(|| b.told.stale.cmp(&a.told.stale))
        .then_with(|| b.thinning().max(THINNED).total_cmp(&a.thinning().max(THINNED)))
        .then_with(|| b.utilization().total_cmp(&a.utilization()))
        .then_with(|| a.agent.cmp(&b.agent))
}

/// How the agents can be sorted, by name; what is largest stands first.
pub(super) fn sorted(agents: &mut [&Row], by: &str) {
    let key: fn(&Row) -> f64 = match by {
        "loss" => Row::loss,
        "lost" => |row| row.told.datagrams_lost as f64,
        "received" => |row| row.told.datagrams_received as f64,
        "sampling" => Row::thinning,
        "restarts" => |row| row.told.restarts as f64,
        "silence" => |row| row.told.last_seen.as_secs_f64(),
        "utilization" => Row::utilization,
        "traffic" => |row| row.octets_in.unwrap_or(-1.0),
        "discards" => |row| row.discarded() + row.dropped_lately as f64 / LATELY.as_secs_f64(),
        "agent" => return agents.sort_by_key(|row| row.agent),
        "host" => return agents.sort_by(|a, b| by_host(a, b)),
        // As the survey has them: the worst first.
        _ => return,
    };
    agents.sort_by(|a, b| key(b).total_cmp(&key(a)));
}

/// Those without a name are last.
fn by_host(a: &Row, b: &Row) -> Ordering {
    a.told.host.is_none().cmp(&b.told.host.is_none()).then_with(|| a.told.host.cmp(&b.told.host))
}

/// A survey is not made again within this time.
const FRESH: Duration = Duration::from_millis(900);

/// Nor within so many times what it took.
const SHARE: u32 = 10;

/// A survey is made again after so long, however long it took.
const OLDEST: Duration = Duration::from_secs(5);

/// From one reading of totals to the next; "lately" is one to two of these.
const LATELY: Duration = Duration::from_secs(30);

/// Time without a question after which everything is given back.
const UNWATCHED: Duration = Duration::from_secs(120);

/// Share of datagrams whose loss makes an agent bad.
const LOSING: f64 = 0.05;

/// How much more than its sampling rate a sample stands for before it is worth a look.
const THINNED: f64 = 1.25;

/// Utilisation that is worth a look, per cent.
const BUSY: f64 = 80.0;

/// A restart of so long ago is still told.
const LATE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::fixture::{Small, address};

    #[test]
    fn what_is_wrong_stands_first_and_is_made_anew_in_time_only() {
        let (small, mut surveyor, begin) = (Small::default(), Surveyor::default(), Instant::now());
        let first = surveyor.survey(&small, begin);
        let agents: Vec<String> = first.agents.iter().map(|row| row.agent.to_string()).collect();
        assert_eq!(agents, ["10.0.0.2", "10.0.0.1", "2001:db8::3"], "the silent one is first");
        assert_eq!((first.sum.agents, first.sum.silent, first.sum.fine, first.sum.interfaces), (3, 1, 2, 3));
        assert_eq!(first.agents[0].troubles, [Trouble::Silent, Trouble::Outdated]);
        assert_eq!((first.agents[0].octets_in, first.sum.current), (None, 2), "what is not known is not 0");
        let busiest = first.agents[1].busiest.as_ref().unwrap();
        assert_eq!((&*busiest.source, busiest.utilization), ("4", 10.0));
        let soon = surveyor.survey(&small, begin + Duration::from_millis(10));
        assert!(Arc::ptr_eq(&first, &soon));
        let later = begin + first.lasts() + Duration::from_millis(1);
        assert!(!Arc::ptr_eq(&first, &surveyor.survey(&small, later)));
        surveyor.rest(later + UNWATCHED + Duration::from_secs(1));
        assert!(surveyor.latest.is_none() && surveyor.before.is_none());
    }

    #[test]
    fn losses_count_from_when_somebody_watches_and_of_late() {
        let small = Small::default();
        let of = |baseline| row(&small, address("10.0.0.1"), baseline).unwrap();
        let row = of(None);
        assert!(row.told.datagrams_lost == 3 && row.lost_lately == 0 && row.troubles.is_empty(), "{row:?}");
        let troubles = |received, lost, dropped| of(Some([received, lost, dropped])).troubles;
        assert_eq!(troubles(400, 2, 90), [Trouble::Loss]);
        assert_eq!(troubles(400, 0, 90), [Trouble::Losing]);
        assert_eq!(troubles(400, 3, 89), [Trouble::Discarding], "its interfaces count no discards");
    }

    #[test]
    fn names_are_found_in_any_case_and_sorted() {
        let small = Small::default();
        let survey = Surveyor::default().survey(&small, Instant::now());
        let called = |text| survey.agents.iter().filter(|row| row.is_called(text)).count();
        assert_eq!((called("leaf"), called("10.0.0"), called("db8"), called("nobody")), (1, 2, 1, 0));
        let mut rows: Vec<&Row> = survey.agents.iter().collect();
        sorted(&mut rows, "traffic");
        assert_eq!(rows[0].agent, address("10.0.0.1"));
        sorted(&mut rows, "host");
        assert_eq!(rows[0].told.host.as_deref(), Some("leaf1"));
    }
}
