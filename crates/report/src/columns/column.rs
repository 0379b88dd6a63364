//! What is known of a column.

use serde::{Deserialize, Serialize};

/// A column of `results.csv`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Unit, empty where there is none.
    pub unit: &'static str,
    /// What sort of quantity it is.
    pub kind: Kind,
    /// Whether it estimates a property of the path, so that nothing can be concluded from it without an interval. Others
    /// are exact for their run.
    pub estimated: bool,
    /// Which way it is good; `None`: nobody has said.
    pub better: Option<Better>,
    /// What it rests on.
    pub rests_on: Statistic,
    /// The same statistic over all messages, where this one leaves out the disturbed.
    pub of_all: Option<&'static str>,
    /// What it says.
    pub about: &'static str,
}

/// What sort of quantity a column is: how it scatters between equal runs, and over repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Set by the scenario, or computed from that alone: nothing was measured.
    Setting,
    /// Yes or no, about the row itself.
    Flag,
    /// Events that happened. Independent ones scatter as Poisson's.
    Count,
    /// What was handed over, in messages or bytes: as much as a schedule or a path gives, in whole messages.
    Amount,
    /// A share of trials, from 0 to 1, or its distance from a constant. Independent trials scatter binomially.
    Share(Trials),
    /// So much a second, in whole messages or events.
    Rate,
    /// A time, or a mean or quantile of times, measured to a microsecond.
    Duration,
    /// A share of the time, looked at by ticks of the clock.
    TimeShare,
    /// Where something stood: an instant, the level of a buffer, a size that was granted.
    Level,
    /// The largest of what was observed; over repeats, the largest of all.
    Extreme,
    /// How right somebody was, in percent: what was found of what is true, or by how much it was missed.
    Accuracy,
}

/// The columns that a share is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trials {
    /// How many went well.
    pub successes: &'static str,
    /// Of how many.
    pub trials: &'static str,
    /// An estimate that is no column: the share by batches of the trials, which show whether failures come in rows.
    pub batches: &'static str,
    /// The rate of the successes, whose batches stand in where a record has none of those: they hold when trials were made, too.
    pub rate: &'static str,
}

/// Which way a column is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// What a column rests on: what must have gone undisturbed for it to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// On how much was carried: a sender, receiver or emulator that stands still for a part of the time changes it.
    Throughput,
    /// On single delays: of messages during whose flight nothing stood still.
    Delay,
    /// On counters alone: exact, whatever happened.
    Counter,
    /// On the scenario.
    Setting,
}

/// A row of the table.
pub(super) const fn row(
    name: &'static str,
    unit: &'static str,
    kind: Kind,
    rests_on: Statistic,
    about: &'static str,
) -> Column {
    Column { name, unit, kind, estimated: false, better: None, rests_on, of_all: None, about }
}

/// A column that the scenario sets.
pub(super) const fn set(name: &'static str, unit: &'static str, about: &'static str) -> Column {
    row(name, unit, Kind::Setting, Statistic::Setting, about)
}

impl Column {
    pub(super) const fn estimated(self) -> Self {
        Self { estimated: true, ..self }
    }

    pub(super) const fn of_all(self, column: &'static str) -> Self {
        Self { of_all: Some(column), ..self }
    }

    pub(super) const fn higher(self) -> Self {
        Self { better: Some(Better::Higher), ..self }
    }

    pub(super) const fn lower(self) -> Self {
        Self { better: Some(Better::Lower), ..self }
    }
}

/// What is sampled while a cell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// Name of its timelines.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
}

/// A row of their table.
pub(super) const fn quantity(name: &'static str, unit: &'static str, about: &'static str) -> Quantity {
    Quantity { name, unit, about }
}
