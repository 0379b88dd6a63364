//! Losses by source, for people.

use std::fmt::Write;

use weir_service::losses::grouped;
use weir_units::format::counted;

use super::{columns, share};
use crate::account::book::{BySource, SourceLoss};

/// More lines than this are in JSON alone.
const MOST: usize = 20;

pub(super) fn tell(text: &mut String, by_source: &BySource) {
    let losing = by_source.lost.len() as u64 + by_source.unlisted;
    let _ = match by_source.sources {
        Some(sources) => writeln!(text, "  {losing} of {} lost datagrams", counted(sources as usize, "source")),
        None => writeln!(text, "  {} lost datagrams", counted(losing as usize, "source")),
    };
    let listed = &by_source.lost[..by_source.lost.len().min(MOST)];
    columns(text, "    ", &listed.iter().map(row).collect::<Vec<_>>());
    if losing > listed.len() as u64 {
        let _ = writeln!(text, "    and {} more (--json lists 1,000)", losing - listed.len() as u64);
    }
    if by_source.unknown > 0 {
        let _ = writeln!(text, "    {} of unknown sources", grouped(by_source.unknown));
    }
    if by_source.evicted > 0 {
        let _ = writeln!(
            text,
            "    {} counts gave way to those of other sources: these are lower bounds (fewer: --by source/24)",
            grouped(by_source.evicted)
        );
    }
}

fn row(source: &SourceLoss) -> [String; 4] {
    let places: Vec<&str> = source.places.iter().map(|lost| lost.place.row().title).collect();
    let lost = grouped(source.lost);
    let count = source.seen.map_or_else(|| lost.clone(), |seen| format!("{lost} of {}", grouped(seen)));
    [source.source.clone(), count, share(Some(source.lost), source.seen), places.join(", ")]
}
