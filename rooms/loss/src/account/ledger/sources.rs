//! Whose datagrams were lost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_trace::{Detail, Drop, Prefixes};

use super::LedgerBuilder;
use super::drops::is_anonymous;
use crate::account::book::{BySource, LostAt, SourceLoss};
use crate::places::{Place, Stage};

/// What was lost of one source, and how much of that before it was counted as arrived.
#[derive(Default)]
struct Lost {
    places: BTreeMap<Place, u64>,
    before_arrival: u64,
}

impl LedgerBuilder<'_> {
    /// Losses by source, of the drops that are in this ledger; `all`: those before arrival, too.
    pub(super) fn by_source(&self, all: bool) -> Option<BySource> {
        let prefixes = self.evidence.by_source?;
        let detail = self.evidence.detail?;
        let traced = &self.evidence.trace.by_source;
        let mut lost: BTreeMap<IpAddr, Lost> = BTreeMap::new();
        for (source, drop) in traced.drops.iter().filter(|(_, drop)| drop.datagrams > 0 && self.is_in(drop, all)) {
            let of = lost.entry(*source).or_default();
            let place = Place::of_drop(&drop.reason, &drop.function, drop.outgoing);
            *of.places.entry(place).or_default() += drop.datagrams;
            if !self.is_after_arrival(drop) && !is_anonymous(drop) || place.stage() == Stage::Arriving {
                of.before_arrival += drop.datagrams;
            }
        }
        let mut arrived: BTreeMap<IpAddr, u64> = BTreeMap::new();
        let here =
            traced.arrivals.iter().filter(|own| own.port == self.evidence.port && Some(own.namespace) == self.home);
        for own in here.filter(|own| own.datagrams > 0) {
            *arrived.entry(own.source).or_default() += own.datagrams;
        }
        let everything = detail == Detail::Everything && self.share.partial.is_none();
        let sources: BTreeSet<&IpAddr> = lost.keys().chain(arrived.keys()).collect();
        let row = |(source, lost): (&IpAddr, &Lost)| {
            let mut places: Vec<LostAt> =
                lost.places.iter().map(|(&place, &datagrams)| LostAt { place, datagrams }).collect();
            places.sort_by_key(|lost| Reverse(lost.datagrams));
            SourceLoss {
                source: in_words(*source, prefixes),
                seen: everything.then(|| arrived.get(source).copied().unwrap_or(0) + lost.before_arrival),
                lost: lost.places.values().sum(),
                places,
            }
        };
        let mut rows: Vec<SourceLoss> = lost.iter().map(row).collect();
        rows.sort_by_key(|row| Reverse(row.lost));
        let told: u64 = rows.iter().map(|row| row.lost).sum();
        let unlisted = rows.len().saturating_sub(MOST) as u64;
        rows.truncate(MOST);
        Some(BySource {
            sources: (detail == Detail::Everything).then_some(sources.len() as u64),
            lost: rows,
            unlisted,
            unknown: self.places.total().saturating_sub(told),
            evicted: traced.evicted,
        })
    }

    /// Whether a drop is in this ledger.
    fn is_in(&self, drop: &Drop, all: bool) -> bool {
        if !self.is_of_port(drop) {
            return false;
        }
        if is_anonymous(drop) {
            return self.share_of(drop) == drop.datagrams;
        }
        self.is_on_the_way(drop) && (all || self.is_after_arrival(drop))
    }
}

fn in_words(source: IpAddr, prefixes: Prefixes) -> String {
    let (bits, whole) = if source.is_ipv4() { (prefixes.v4, 32) } else { (prefixes.v6, 128) };
    match IpNet::new(source, bits) {
        Ok(net) if bits < whole => net.to_string(),
        _ => source.to_string(),
    }
}

/// More sources than anybody reads.
const MOST: usize = 1000;
