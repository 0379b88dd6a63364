//! What questions see of flows: one definition's at an instant, a slice at a time.

use weir_wire::sflow::DataSource;

use super::compiled::Compiled;
use super::decay::Instant;
use super::estimate::{Estimate, Heard, Moments, Precision, Sampling};
use super::sources::Sources;
use super::value::Parts;
use super::values::Kind;
use super::{Flows, ranking};
use crate::names::AgentId;

/// A definition's flows at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) sources: &'a Sources,
    pub(super) at: Instant,
    /// The same, in seconds.
    pub(super) now: f64,
    /// From sums to rates.
    pub(super) scale: f64,
    /// How well it is known what samples stand for; `None`: it is taken for certain.
    pub(super) sampling: Option<&'a dyn Sampling>,
}

/// One flow at one data source, as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    scan: &'a Scan<'a>,
    place: usize,
    source: u32,
    sum: f64,
}

impl Flows {
    /// A definition's flows as they are now; `None`: there is no such definition.
    ///
    /// A question over many flows takes the shard's lock for one slice at a time and calls this anew for each: weights sink alike,
    /// so that slices of different instants can be compared nearly as if they were of one.
    pub fn scan(&self, name: &str, now: f64) -> Option<Scan<'_>> {
        let compiled = self.definitions.iter().find(|compiled| compiled.name == name)?;
        let clock = &self.clocks[compiled.clock];
        let (at, scale) = (clock.instant(now), clock.rate(now, compiled.start));
        Some(Scan { compiled, sources: &self.sources, at, now, scale, sampling: None })
    }
}

impl<'a> Scan<'a> {
    /// Lets intervals allow for what nobody knows of the samples' weights.
    #[must_use]
    pub fn allowing_for(self, sampling: &'a dyn Sampling) -> Scan<'a> {
        Scan { sampling: Some(sampling), ..self }
    }

    /// Shows up to `count` flows from place `from` on (0: the first); the place to go on from, `None` behind the last.
    pub fn slice(&self, from: usize, count: usize, mut visit: impl FnMut(&Flow<'_>)) -> Option<usize> {
        let (table, places) = (&self.compiled.table, self.compiled.table.places());
        let end = from.saturating_add(count).min(places);
        for place in from.min(end)..end {
            if let Some((sum, source)) = table.sum(place, &self.at) {
                visit(&Flow { scan: self, place, source, sum });
            }
        }
        (end < places).then_some(end)
    }

    /// Shows the flow at a place, if there is one.
    pub(super) fn show(&self, place: usize, visit: impl FnOnce(&Flow<'_>)) {
        if let Some((sum, source)) = self.compiled.table.sum(place, &self.at) {
            visit(&Flow { scan: self, place, source, sum });
        }
    }
}

impl Flow<'_> {
    /// The value of the definition: a rate a second, or a mean.
    #[inline]
    pub fn value(&self) -> f64 {
        self.column(0)
    }

    /// Value `number` of the definition: 0 is `value`, then `values`.
    pub fn column(&self, number: usize) -> f64 {
        let Scan { compiled, at, scale, .. } = self.scan;
        let further = |sum| compiled.table.further(self.place, sum, at);
        let Some(column) = compiled.checked.columns.get(number) else { return 0.0 };
        let (sum, weights) = match number {
            0 => (self.sum, column.further),
            _ => (further(column.further), column.further + 1),
        };
        if column.kind != Kind::Average {
            return sum * scale;
        }
        let weight = further(weights);
        if weight > 0.0 { sum / weight } else { 0.0 }
    }

    /// How many values the definition has.
    pub fn columns(&self) -> usize {
        self.scan.compiled.checked.columns.len()
    }

    /// Whether value `number` is a mean, not a rate.
    pub fn is_average(&self, number: usize) -> bool {
        self.scan.compiled.checked.columns.get(number).is_some_and(|column| column.kind == Kind::Average)
    }

    /// What its estimate comes from, to be added to that of others; `None` for an average.
    pub fn moments(&self) -> Option<Moments> {
        let scan = self.scan;
        if scan.compiled.checked.columns[0].kind == Kind::Average {
            return None;
        }
        Some(Moments::new(self.sum * scan.scale, self.squares(), self.precision()))
    }

    /// Sum of the squares of what its samples stand for, in units of the value.
    pub fn squares(&self) -> f64 {
        self.scan.compiled.table.squares(self.place, &self.scan.at) * self.scan.scale * self.scan.scale
    }

    /// How well its data source is known: the same for all of its flows.
    pub fn precision(&self) -> Precision {
        let Scan { compiled, sources, at, now, sampling, .. } = *self.scan;
        let dropped = compiled.checked.definition.dropped;
        let stream = sources.stream(self.source, compiled.clock, dropped);
        let trust = sampling.and_then(|sampling| sampling.trust(self.source, dropped));
        let silence = (now - sources.last(self.source)).max(0.0) / self.time_constant();
        let heard = Heard { samples: stream.samples(), sum: stream.sum(&at) / at.weight, silence };
        Precision::new(&heard, trust)
    }

    /// Its value with the 95 % interval; `None` for an average.
    pub fn estimate(&self) -> Option<Estimate> {
        self.moments().map(|moments| moments.estimate())
    }

    /// Who saw it, and where.
    pub fn seen_by(&self) -> (AgentId, DataSource) {
        // Flows of data sources that are gone went with them.
        self.scan.sources.get(self.source).unwrap_or((AgentId(u32::MAX), DataSource { class: 0, index: 0 }))
    }

    /// The place of the data source that saw it.
    pub(crate) fn source(&self) -> u32 {
        self.source
    }

    /// Its key, as it is kept: equal for equal flows, in all shards.
    pub fn key(&self) -> &[u8] {
        self.scan.compiled.table.key(self.place)
    }

    /// A number that equal keys have in all shards, and others hardly.
    pub fn hash(&self) -> u64 {
        ranking::hash(self.key())
    }

    /// By how many seconds without packets its value sinks to 1/e.
    pub fn time_constant(&self) -> f64 {
        self.scan.compiled.checked.definition.t
    }

    /// The parts of its key.
    pub fn parts(&self) -> Parts<'_> {
        Parts(self.key())
    }

    /// Its key as it is shown.
    pub fn show(&self) -> String {
        self.scan.compiled.checked.show(self.key())
    }

    /// How many samples it has, and when the first and the last came, in seconds.
    pub fn history(&self) -> (u32, f64, f64) {
        self.scan.compiled.table.history(self.place)
    }
}
