//! An archive as a table: a row a sample, a bucket or a gap, so that the column `samples` adds up to what was sent.
//!
//! | column | |
//! |---|---|
//! | time | of the first sample that the row stands for, ns since 1970 UTC |
//! | station, stream, channel, unit | as the sender's metadata has them; of what a server sends on, the station that it is of |
//! | session | of the sender: indices count anew in each |
//! | index | of that sample |
//! | value | scaled; of a bucket the last; of a gap none |
//! | least, greatest | of a bucket; of a sample and a gap none |
//! | samples | how many samples the row stands for |
//! | cause | of a gap: where they were lost |
//! | server | who sent it on; of what stations send themselves none |

mod csv;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Error, Result, anyhow, bail};
use weir_wire::signal::{Block, Cause, Values};

use self::csv::Csv;
use super::merge::Merge;
use super::{Damage, Head};

/// What is exported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// Channels by name, or by `station/stream/name`; empty: all.
    pub channels: Vec<String>,
    /// From this time on, ns since 1970 UTC.
    pub from: Option<i64>,
    /// Up to this time.
    pub until: Option<i64>,
}

/// What was exported.
#[derive(Debug, Default)]
pub struct Exported {
    /// Rows.
    pub rows: u64,
    /// Samples that they stand for, those of gaps included.
    pub samples: u64,
    /// Of those, in gaps.
    pub missing: u64,
    /// Files that are damaged, and were read up to there.
    pub damaged: Vec<(PathBuf, Damage)>,
}

/// A row.
#[derive(Clone, Copy, Debug)]
struct Row {
    time: i64,
    index: u64,
    value: Option<f64>,
    envelope: Option<(f64, f64)>,
    samples: u64,
    cause: Option<Cause>,
}

/// Writes what is chosen of files: each sample once, in the order of indices within each channel of a session, and a gap where no file has
/// what is between two others. Nothing is written before there is a row: a mistake leaves no table without one.
///
/// # Errors
/// A file cannot be opened or is not an MCAP file; a chosen channel is not there; there is no row; `output` cannot be written to.
pub fn export(files: &[PathBuf], choice: &Choice, output: impl Write) -> Result<Exported> {
    let (mut met, mut recorded) = (vec![false; choice.channels.len()], None::<(i64, i64)>);
    let mut merge = Merge::new(files, |head, block| {
        if choice.takes(head, &mut met) {
            let end = block.time_of(block.end());
            let (first, last) = recorded.unwrap_or((block.time, end));
            recorded = Some((first.min(block.time), last.max(end)));
        }
        ControlFlow::Continue(())
    })?;
    if let Some((name, _)) = choice.channels.iter().zip(&met).find(|(_, met)| !**met) {
        bail!("--channel {name:?}: there is no such channel in what was read (write NAME or STATION/STREAM/NAME)");
    }
    let (mut table, mut rows, mut exported) = (Csv::new(output), Vec::new(), Exported::default());
    while let Some((head, block)) = merge.next()? {
        if !choice.takes(&head, &mut met) {
            continue;
        }
        rows.clear();
        choice.clip(&block).iter().for_each(|part| rows_of(&head, part, &mut rows));
        rows.retain(|row| choice.spans(row.time));
        exported.count(&rows);
        table.rows(&head, &rows)?;
    }
    exported.damaged = merge.damaged;
    if exported.rows == 0 {
        return Err(nothing(files, recorded, &exported.damaged));
    }
    table.finish()?;
    Ok(exported)
}

/// Why there is no row.
fn nothing(files: &[PathBuf], recorded: Option<(i64, i64)>, damaged: &[(PathBuf, Damage)]) -> Error {
    let damage = damaged.first().map_or_else(String::new, |(file, damage)| {
        format!("; {}: damaged after {} bytes: {}", file.display(), damage.whole_bytes, damage.error)
    });
    match (recorded, files) {
        (Some((first, last)), _) => {
            let [first, last] = [first, last].map(written);
            anyhow!("--from, --until: nothing was recorded then (what was chosen is from {first} up to {last}){damage}")
        }
        (None, [file]) => anyhow!("{}: no signal in it{damage}", file.display()),
        (None, files) => anyhow!("no signal in any of the {} files{damage}", files.len()),
    }
}

/// A time as the flags take it.
fn written(time: i64) -> String {
    // Times before 1970 are a clock that was never set.
    let since = Duration::from_nanos(u64::try_from(time).unwrap_or(0));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

impl Exported {
    fn count(&mut self, rows: &[Row]) {
        self.rows += rows.len() as u64;
        self.samples += rows.iter().map(|row| row.samples).sum::<u64>();
        self.missing += rows.iter().filter(|row| row.cause.is_some()).map(|row| row.samples).sum::<u64>();
    }
}

impl Choice {
    /// `met`: which of the names there are.
    fn takes(&self, head: &Head, met: &mut [bool]) -> bool {
        let (station, Head { stream, channel, .. }) = (head.origin(), head);
        let is = |name: &String| *name == channel.name || *name == format!("{station}/{stream}/{}", channel.name);
        let mut takes = self.channels.is_empty();
        for (name, met) in self.channels.iter().zip(met) {
            let is = is(name);
            *met |= is;
            takes |= is;
        }
        takes
    }

    fn spans(&self, time: i64) -> bool {
        self.from.is_none_or(|from| time >= from) && self.until.is_none_or(|until| time < until)
    }

    /// Of a gap what lies in the time that is chosen, which may begin or end within it; of all else the whole.
    fn clip<'a>(&self, block: &Block<'a>) -> Option<Block<'a>> {
        let Values::Gap(gap) = block.values else { return Some(*block) };
        let before = |time: i64| match i128::from(time) - i128::from(block.time) {
            passed if passed > 0 => block.rate.samples(passed - 1).saturating_add(1).min(gap.samples),
            _ => 0,
        };
        let (skipped, end) = (self.from.map_or(0, before), self.until.map_or(gap.samples, before));
        let clipped = block.split_at(block.first + end).0.split_at(block.first + skipped).1;
        (clipped.samples() > 0).then_some(clipped)
    }
}

fn rows_of(head: &Head, block: &Block<'_>, rows: &mut Vec<Row>) {
    let (scale, offset) = (head.channel.scale, head.channel.offset);
    let row = |index: u64, samples: u64| {
        let time = block.time_of(index);
        Row { time, index, value: None, envelope: None, samples, cause: None }
    };
    let is_thin = matches!(block.values, Values::Buckets(..));
    rows.extend(block.buckets().map(|(first, bucket)| {
        let bucket = bucket.scaled(scale, offset);
        let envelope = is_thin.then_some((bucket.least, bucket.greatest));
        Row { value: number(bucket.last), envelope, ..row(first, block.step()) }
    }));
    if let Values::Gap(gap) = block.values {
        rows.push(Row { cause: Some(gap.cause), ..row(block.first, gap.samples) });
    }
}

/// What could not be measured has no value, and no cause either.
fn number(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}
