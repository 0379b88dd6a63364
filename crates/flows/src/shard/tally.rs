//! What was in the datagrams that were analysed.

use std::fmt;
use std::ops::AddAssign;

use weir_program::ledger;
use weir_units::format;

ledger! {
    /// Samples by kind, as totals.
    pub struct Tally {
        /// Sampled packets.
        flow: u64,
        /// Counters of a data source.
        counter: u64,
        /// Packets that devices told to have dropped.
        discarded: u64,
        /// Of vendors or of later specifications: passed over.
        unknown: u64,
        /// Not taken into account: they end early, or state a length that is not there.
        malformed: u64,
        /// Not taken into account: there was no room for their data source.
        refused: u64,
        /// Not taken into account: they were here before, or too late to know.
        repeated: u64,
        /// Of `flow`, those that state a length which the packet's headers contradict; the headers' counts.
        contradicted: u64,
    } together {
        /// Samples in the datagrams that were analysed, by kind; `malformed`, `refused` and `repeated` were not taken into account;
        /// `contradicted` are those of `flow` whose frame length was replaced by what the headers say.
        Counter "weir_sflow" ["samples"] {kind}: flow, counter, discarded, unknown, malformed, refused, repeated, contradicted;
    }
}

impl Tally {
    /// Each with its name, in the order of the fields.
    pub fn by_kind(&self) -> [(&'static str, u64); 8] {
        [
            ("flow", self.flow),
            ("counter", self.counter),
            ("discarded", self.discarded),
            ("unknown", self.unknown),
            ("malformed", self.malformed),
            ("refused", self.refused),
            ("repeated", self.repeated),
            ("contradicted", self.contradicted),
        ]
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.flow += other.flow;
        self.counter += other.counter;
        self.discarded += other.discarded;
        self.unknown += other.unknown;
        self.malformed += other.malformed;
        self.refused += other.refused;
        self.repeated += other.repeated;
        self.contradicted += other.contradicted;
    }
}

/// `samples: flow 1 000, counter 20`
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("samples:")?;
        for (index, (kind, count)) in self.by_kind().into_iter().enumerate().filter(|(at, (_, n))| *at < 3 || *n > 0) {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma} {kind} {}", format::count(i64::try_from(count).unwrap_or(i64::MAX)))?;
        }
        Ok(())
    }
}
