//! The answer of a run in words, generated from its numbers: what a reader came for, before any count of cells.
//!
//! [`reading`] arranges what the scenario's charts show as courses along an axis of numbers; [`verdict`] decides by
//! intervals which course lies lower, and where that turns; [`sentence`] says it, in the [`words`] of people; [`picture`]
//! is what stands beside. Only valid cells are used. A sentence names values at the ends of a course and where it bends,
//! from where to where it goes if nothing shows that it rises or falls, and `about` where an interval is wide.

use crate::cells::Cell;
use crate::critical;
use crate::record::{Manifest, Record};
use reading::Reading;
use sentence::Detail;

mod picture;
mod reading;
mod sentence;
mod verdict;
mod words;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Headline {
    /// The answer: at most three sentences, of 400 characters together.
    pub answer: String,
    /// What of it is missing or not to be believed; `None`: nothing.
    pub caveat: Option<String>,
    readings: Vec<Reading>,
}

/// The longest answer, in characters.
const LONGEST: usize = 400;

impl Headline {
    /// Puts a run into words.
    pub fn new(manifest: &Manifest, records: &[Record], cells: &[Cell<'_>]) -> Self {
        let readings = reading::readings(manifest, cells);
        let critical = critical::sentence(&critical::series(cells));
        let tell = |details: [Detail; 2]| {
            let own = readings.iter().zip(details).enumerate();
            let own = own.filter_map(|(index, (reading, detail))| sentence::tell(reading, index == 0, detail));
            critical.iter().cloned().chain(own).collect::<Vec<String>>().join(" ")
        };
        // From the most that can be said to the least.
        let tries = [
            [Detail::Bends, Detail::Bends],
            [Detail::Bends, Detail::Ends],
            [Detail::Bends, Detail::Extremes],
            [Detail::Bends, Detail::Nothing],
            [Detail::Ends, Detail::Nothing],
            [Detail::Extremes, Detail::Nothing],
            [Detail::Nothing, Detail::Nothing],
        ];
        let answer = tries.into_iter().map(tell).find(|answer| !answer.is_empty() && answer.chars().count() <= LONGEST);
        let answer = answer.unwrap_or_else(|| nothing(cells).to_owned());
        let caveat = caveat(manifest, records, cells, &readings);
        Self { answer, caveat, readings }
    }

    /// A small picture of the answer, as SVG with the page's colours; `None`: there is nothing to draw.
    pub fn picture(&self) -> Option<String> {
        picture::svg(self.readings.first()?, &self.answer)
    }

    /// The same in blocks, in lines of at most so many characters; empty where there is nothing to draw.
    pub fn blocks(&self, width: usize) -> Vec<String> {
        self.readings.first().map(|reading| picture::blocks(reading, width)).unwrap_or_default()
    }
}

fn nothing(cells: &[Cell<'_>]) -> &'static str {
    match cells.iter().any(Cell::valid) {
        _ if cells.is_empty() => "Nothing was measured.",
        false => "There is no answer: no cell is valid.",
        true => "There is no answer in a few words: see the table.",
    }
}

/// What voids the answer or a part of it.
fn caveat(manifest: &Manifest, records: &[Record], cells: &[Cell<'_>], told: &[Reading]) -> Option<String> {
    let mut parts = Vec::new();
    let missing = manifest.planned_cells.saturating_sub(records.len());
    if missing > 0 {
        parts.push(format!("{missing} of {} cells are missing", manifest.planned_cells));
    }
    parts.extend(left_out(cells, told));
    let faulty = |cell: &&Cell<'_>| cell.records.iter().any(|record| record.row.unexplained.is_some_and(|n| n != 0));
    let faulty: Vec<&str> = cells.iter().filter(faulty).map(|cell| cell.name).collect();
    if !faulty.is_empty() {
        parts.push(format!("the ledger does not close in {}", named(&faulty)));
    }
    (!parts.is_empty()).then(|| format!("{}.", words::capital(&parts.join("; "))))
}

/// The cells that are left out, as not valid: each quantity leaves out what it cannot believe.
fn left_out(cells: &[Cell<'_>], told: &[Reading]) -> Vec<String> {
    // Quantities that leave out the same are told of together.
    let mut lists: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for reading in told {
        let void = |cell: &&Cell<'_>| cell.measured(&reading.column).is_some() && !cell.believes(&reading.column);
        let void: Vec<&str> = cells.iter().filter(void).map(|cell| cell.name).collect();
        let noun = reading.of();
        match lists.iter_mut().find(|(_, known)| *known == void) {
            Some((nouns, _)) => nouns.push(noun),
            None => lists.push((vec![noun], void)),
        }
    }
    if told.is_empty() {
        lists.push((Vec::new(), cells.iter().filter(|cell| !cell.valid()).map(|cell| cell.name).collect()));
    }
    let differ = lists.len() > 1;
    let words = |(nouns, void): &(Vec<String>, Vec<&str>)| {
        let of = if differ { format!(" of {}", words::listed(nouns)) } else { String::new() };
        match void.len() {
            0 => None,
            1 => Some(format!("left out{of}, as not valid: {}", named(void))),
            n => Some(format!("left out{of}, as not valid: {n} of {} cells ({})", cells.len(), named(void))),
        }
    };
    lists.iter().filter_map(words).collect()
}

/// The first of these, and how many more there are.
fn named(cells: &[&str]) -> String {
    const SPELLED_OUT: usize = 2;
    let more = cells.len().saturating_sub(SPELLED_OUT);
    let shown = cells.iter().take(SPELLED_OUT).map(|name| words::clipped(name));
    words::listed(&shown.chain((more > 0).then(|| format!("{more} more"))).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
