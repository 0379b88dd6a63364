//! Files that overlap, read side by side: what one lacks and another has comes about when it is needed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use weir_wire::signal::Block;

use super::read::{Next, Reading};
use super::{Damage, Head};
use weir_wire::signal::OwnedBlock;

/// Has `look` see all blocks of files, the one of the earliest time first of those that are next in their files. `files`: with the times
/// of their first blocks, in their order; one is opened when its time has come. Returns those that are damaged.
///
/// # Errors
/// A file that cannot be opened or read.
pub(super) fn read_beside(
    files: &[(Option<i64>, PathBuf)],
    mut look: impl FnMut(&Arc<Head>, &Block<'_>) -> ControlFlow<()>,
) -> Result<Vec<(PathBuf, Damage)>> {
    let mut closed: VecDeque<_> = files.iter().map(|(begin, path)| (*begin, path.as_path())).collect();
    let (mut open, mut damaged) = (Vec::<Side<'_>>::new(), Vec::new());
    loop {
        // Of those of one time the first.
        let earliest = open.iter().enumerate().min_by_key(|(_, side)| side.next.1.block().time);
        let earliest = earliest.map(|(at, side)| (at, side.next.1.block().time));
        let is_due = |begin: Option<i64>| match (earliest, begin) {
            (Some((_, time)), Some(begin)) => begin <= time,
            _ => true,
        };
        if let Some(&(begin, path)) = closed.front()
            && is_due(begin)
        {
            closed.pop_front();
            open.extend(Side::open(path, &mut damaged)?);
            continue;
        }
        let Some((at, _)) = earliest else { return Ok(damaged) };
        let side = &mut open[at];
        let (head, kept) = &side.next;
        if look(head, &kept.block()).is_break() {
            return Ok(damaged);
        }
        if !side.go_on(&mut damaged)? {
            open.remove(at);
        }
    }
}

/// A file that is open.
struct Side<'a> {
    path: &'a Path,
    reading: Reading<BufReader<File>>,
    /// Its next block.
    next: (Arc<Head>, OwnedBlock),
}

impl<'a> Side<'a> {
    /// `None`: there is no block in it.
    fn open(path: &'a Path, damaged: &mut Vec<(PathBuf, Damage)>) -> Result<Option<Self>> {
        let mut reading = Reading::open(path).with_context(|| path.display().to_string())?;
        Ok(next(path, &mut reading, damaged)?.map(|next| Self { path, reading, next }))
    }

    /// Whether there is another block.
    fn go_on(&mut self, damaged: &mut Vec<(PathBuf, Damage)>) -> Result<bool> {
        match next(self.path, &mut self.reading, damaged)? {
            Some(next) => self.next = next,
            None => return Ok(false),
        }
        Ok(true)
    }
}

fn next(
    path: &Path,
    reading: &mut Reading<BufReader<File>>,
    damaged: &mut Vec<(PathBuf, Damage)>,
) -> Result<Option<(Arc<Head>, OwnedBlock)>> {
    let next = reading.next(|head, block| (head.clone(), OwnedBlock::new(block)));
    match next.with_context(|| path.display().to_string())? {
        Next::Block(next) => Ok(Some(next)),
        Next::End(damage) => {
            damaged.extend(damage.map(|damage| (path.to_owned(), damage)));
            Ok(None)
        }
    }
}
